/* SPDX-License-Identifier: MIT */
/* Lists of operations: those of crews and streams, those to be started, those that are kept back; and the
 * modes that keep them. */
#include "emulator/queue.h"

#include "base/alloc.h"
#include "emulator/context.h"
#include "emulator/proof.h"

#include <assert.h>

#define OPS_AT_ONCE 64

static struct gy_emu_op *free_ops;
static struct gy_emu_list to_start;
static struct gy_emu_list stalled;
static struct gy_emu_list
    lost;             /* operations whose contexts have not noticed yet that the work they wait for is lost */
static uint32_t held; /* bit d: device d is on hold */
static uint64_t steps; /* operations that may still start although their device is on hold */
static bool noop;

void gy_emu_list_append(struct gy_emu_list *list, struct gy_emu_op *op)
{
    assert(op->list == NULL);
    op->list = list;
    op->next = NULL;
    op->prev = list->tail;
    if (list->tail != NULL) {
        list->tail->next = op;
    } else {
        list->head = op;
    }
    list->tail = op;
    list->count++;
}

void gy_emu_list_remove(struct gy_emu_op *op)
{
    struct gy_emu_list *list = op->list;
    if (op->prev != NULL) {
        op->prev->next = op->next;
    } else {
        list->head = op->next;
    }
    if (op->next != NULL) {
        op->next->prev = op->prev;
    } else {
        list->tail = op->prev;
    }
    list->count--;
    op->list = NULL;
}

void gy_emu_list_insert(struct gy_emu_list *list, struct gy_emu_op *op)
{
    struct gy_emu_op *before = list->tail;
    while (before != NULL && before->priority > op->priority) {
        before = before->prev;
    }
    if (before == list->tail) {
        gy_emu_list_append(list, op);
        return;
    }
    assert(op->list == NULL);
    op->list = list;
    op->prev = before;
    op->next = before != NULL ? before->next : list->head;
    op->next->prev = op;
    *(before != NULL ? &before->next : &list->head) = op;
    list->count++;
}

struct gy_emu_op *gy_emu_list_pop(struct gy_emu_list *list)
{
    struct gy_emu_op *op = list->head;
    if (op != NULL) {
        gy_emu_list_remove(op);
    }
    return op;
}

bool gy_emu_is_held(const struct gy_emu_context *context)
{
    return (held >> context->device->ordinal & 1) != 0;
}

void gy_emu_op_give(struct gy_emu_op *op)
{
    op->behind = free_ops;
    free_ops = op;
}

void gy_emu_op_start_later(struct gy_emu_op *op)
{
    op->state = GY_EMU_OP_QUEUED;
    gy_emu_list_append(&to_start, op);
}

struct gy_emu_op *gy_emu_op_to_start(void)
{
    return gy_emu_list_pop(&to_start);
}

void gy_emu_op_stall(struct gy_emu_op *op)
{
    op->state = GY_EMU_OP_STALLED;
    gy_emu_list_append(&stalled, op);
}

void gy_emu_op_lose(struct gy_emu_op *op)
{
    op->state = GY_EMU_OP_BLOCKED;
    gy_emu_list_append(&lost, op);
}

void gy_emu_stream_free(struct gy_emu_stream *stream)
{
    struct gy_emu_context *root = stream->root;
    if (stream->prev_in_root != NULL) {
        stream->prev_in_root->next_in_root = stream->next_in_root;
    } else {
        root->streams = stream->next_in_root;
    }
    if (stream->next_in_root != NULL) {
        stream->next_in_root->prev_in_root = stream->prev_in_root;
    }
    GY_EMU_PROVE(follow, (&root->streams, stream));
    GY_EMU_PROVE(gone, (stream));
    gy_free(stream->capture_tail);
    gy_free(stream->capture_handles);
    gy_free(stream);
}

struct gy_emu_op *gy_emu_op_take(void)
{
    if (free_ops == NULL) {
        struct gy_emu_op *ops = gy_zalloc_array(OPS_AT_ONCE, sizeof(*ops));
        for (int i = 0; ops != NULL && i < OPS_AT_ONCE; i++) {
            ops[i].behind = free_ops;
            free_ops = &ops[i];
        }
    }
    struct gy_emu_op *op = free_ops;
    if (op != NULL) {
        free_ops = op->behind;
    }
    return op;
}

bool gy_emu_stream_is_noop(const struct gy_emu_stream *stream)
{
    return noop && !gy_emu_is_held(stream->root) && stream->head == NULL && stream->capture == NULL &&
           (stream->flags & CU_STREAM_NON_BLOCKING) != 0;
}

bool gy_emu_stream_is_idle(const struct gy_emu_stream *stream)
{
    return stream->head == NULL && !gy_emu_is_held(stream->root) &&
           (stream->flags & CU_STREAM_NON_BLOCKING) != 0;
}

void gy_emu_lost_notice(void)
{
    while (lost.head != NULL) {
        gy_emu_op_start_later(gy_emu_list_pop(&lost));
    }
}

static void start_stalled(void)
{
    while (stalled.head != NULL) {
        struct gy_emu_op *op = gy_emu_list_pop(&stalled);
        op->fresh = false;
        gy_emu_op_start_later(op);
    }
}

void gy_emu_hold(uint32_t devices)
{
    bool releases = (held & ~devices) != 0;
    held = devices;
    steps = 0;
    if (releases) {
        start_stalled();
    }
}

uint32_t gy_emu_held(void)
{
    return held;
}

void gy_emu_step(uint64_t operations)
{
    if (held != 0) {
        steps += operations;
        start_stalled();
    }
}

bool gy_emu_take_allowed(int device)
{
    return (held >> device & 1) == 0 || steps > 0;
}

void gy_emu_take_count(int device)
{
    if ((held >> device & 1) != 0) {
        steps--;
    }
}

bool gy_emu_is_noop(void)
{
    return noop;
}

void gy_emu_set_noop(bool value)
{
    noop = value;
}
