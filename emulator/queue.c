/* The life of operations, from being pushed to being done.
 *
 *             push, not first                    hold, and it takes no time
 *      ----------------------->  QUEUED  --------------------------> STALLED
 *                                  | started                           | release, step
 *            +---------------------+-------------------+  <------------+
 *            | takes time          | waits             | takes no time
 *            v                     v                   |
 *          READY                BLOCKED                |
 *            | a crew takes it     | started again     |
 *            v                     v                   v
 *         RUNNING ----------------------------------> done: recycled, the one behind it is started
 *
 * Starting happens in gy_emu_pump() alone, from a queue, so that chains of markers need no recursion.  In a
 * context that failed or dies ("discarding") started operations are done at once; their markers are completed
 * all the same, so that no thread waits for ever. */
#include "emulator/queue.h"

#include "base/alloc.h"
#include "emulator/context.h"
#include "emulator/event.h"
#include "emulator/graph.h"
#include "emulator/memory.h"
#include "emulator/watch.h"
#include "emulator/worker.h"

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

/* ---- lists ----------------------------------------------------------------------------------- */

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

/* ---- starting -------------------------------------------------------------------------------- */

/* What waits for work that a failed context took with it fails its own context, too, once it has noticed. */
static void await(struct gy_emu_op *op, struct gy_emu_marker *marker)
{
    if (marker->lost != CUDA_SUCCESS && gy_emu_spread_is_held()) {
        op->state = GY_EMU_OP_BLOCKED;
        gy_emu_list_append(&lost, op);
        return;
    }
    if (marker->lost != CUDA_SUCCESS) {
        gy_emu_context_fail(op->work.context, marker->lost);
        gy_emu_op_complete(op);
        return;
    }
    if (atomic_load_explicit(&marker->done, memory_order_relaxed)) {
        gy_emu_op_complete(op);
        return;
    }
    op->state = GY_EMU_OP_BLOCKED;
    gy_emu_list_append(&marker->waiters, op);
}

/* Operations that take no time are done here; the others go to a crew. */
static void execute(struct gy_emu_op *op)
{
    switch (op->work.kind) {
    case GY_EMU_WORK_EMPTY:
        gy_emu_op_complete(op);
        break;
    case GY_EMU_WORK_MARK:
        gy_emu_marker_complete(op->work.marker);
        gy_emu_op_complete(op);
        break;
    case GY_EMU_WORK_WAIT:
        await(op, op->work.marker);
        break;
    case GY_EMU_WORK_EVENT_RECORD:
        gy_emu_event_reach(op->work.event, gy_emu_program_mark(op));
        gy_emu_marker_complete(gy_emu_program_mark(op));
        gy_emu_op_complete(op);
        break;
    case GY_EMU_WORK_EVENT_WAIT: {
        struct gy_emu_marker *marker = gy_emu_program_mark(op);
        if (marker == NULL) {
            gy_emu_op_complete(op);
        } else {
            await(op, marker);
        }
        break;
    }
    case GY_EMU_WORK_FREE:
        gy_emu_memory_free(op->work.region);
        gy_emu_progress();
        gy_emu_op_complete(op);
        break;
    case GY_EMU_WORK_GRAPH:
        gy_emu_program_start(op);
        break;
    case GY_EMU_WORK_LOOP:
        gy_emu_program_start_loop(op);
        break;
    case GY_EMU_WORK_KERNEL:
    case GY_EMU_WORK_COPY:
    case GY_EMU_WORK_COPY_ROWS:
    case GY_EMU_WORK_FILL:
    case GY_EMU_WORK_HOST:
    case GY_EMU_WORK_WRITE_VALUE:
    case GY_EMU_WORK_WAIT_VALUE:
    case GY_EMU_WORK_SIGNAL_SEMAPHORE:
    case GY_EMU_WORK_WAIT_SEMAPHORE:
        gy_emu_crews_add(op);
        break;
    }
}

static void complete_discarded(struct gy_emu_marker *marker, const struct gy_emu_context *root)
{
    marker->lost = root->sticky != CUDA_SUCCESS ? root->sticky : gy_emu_process_failure();
    gy_emu_marker_complete(marker);
}

/* End an operation without doing it, except for its effects that others rely on. */
static void discard(struct gy_emu_op *op)
{
    const struct gy_emu_context *root = op->work.context->root;
    switch (op->work.kind) {
    case GY_EMU_WORK_MARK:
        complete_discarded(op->work.marker, root);
        break;
    case GY_EMU_WORK_EVENT_RECORD:
        complete_discarded(gy_emu_program_mark(op), root);
        break;
    case GY_EMU_WORK_FREE:
        gy_emu_memory_free(op->work.region);
        gy_emu_progress();
        break;
    case GY_EMU_WORK_GRAPH:
        for (struct gy_emu_marker *mark = op->work.graph.marks; mark != NULL; mark = mark->next) {
            complete_discarded(mark, root);
        }
        gy_emu_program_tell_own(op);
        break;
    default:
        break;
    }
    gy_emu_op_complete(op);
}

static bool is_nothing_in_noop(enum gy_emu_work_kind kind)
{
    return kind == GY_EMU_WORK_KERNEL || kind == GY_EMU_WORK_COPY || kind == GY_EMU_WORK_COPY_ROWS ||
           kind == GY_EMU_WORK_FILL || kind == GY_EMU_WORK_WRITE_VALUE || kind == GY_EMU_WORK_WAIT_VALUE ||
           kind == GY_EMU_WORK_SIGNAL_SEMAPHORE || kind == GY_EMU_WORK_WAIT_SEMAPHORE ||
           kind == GY_EMU_WORK_LOOP;
}

static bool takes_no_time(enum gy_emu_work_kind kind)
{
    return kind == GY_EMU_WORK_EMPTY || kind == GY_EMU_WORK_MARK || kind == GY_EMU_WORK_WAIT ||
           kind == GY_EMU_WORK_FREE || kind == GY_EMU_WORK_GRAPH;
}

static bool is_held(const struct gy_emu_context *context)
{
    return (held >> context->device->ordinal & 1) != 0;
}

static void start(struct gy_emu_op *op)
{
    if (op->work.context->root->discarding) {
        discard(op);
    } else if (is_held(op->work.context) &&
               ((op->fresh && takes_no_time(op->work.kind)) || (noop && is_nothing_in_noop(op->work.kind)))) {
        op->state = GY_EMU_OP_STALLED;
        gy_emu_list_append(&stalled, op);
    } else if (noop && is_nothing_in_noop(op->work.kind)) {
        gy_emu_op_complete(op);
    } else {
        execute(op);
    }
}

void gy_emu_op_start_later(struct gy_emu_op *op)
{
    op->state = GY_EMU_OP_QUEUED;
    gy_emu_list_append(&to_start, op);
}

bool gy_emu_pump(void)
{
    bool started = to_start.head != NULL;
    while (to_start.head != NULL) {
        start(gy_emu_list_pop(&to_start));
    }
    return started;
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
    gy_free(stream->capture_tail);
    gy_free(stream->capture_handles);
    gy_free(stream);
}

void gy_emu_op_complete(struct gy_emu_op *op)
{
    if (op->program != NULL) {
        gy_emu_program_node_done(op);
        return;
    }
    struct gy_emu_stream *stream = op->stream;
    assert(stream->head == op);
    stream->head = op->behind;
    gy_emu_work_release(&op->work);
    op->behind = free_ops;
    free_ops = op;
    if (stream->head != NULL) {
        gy_emu_op_start_later(stream->head);
        return;
    }
    stream->tail = NULL;
    if (stream->zombie) {
        gy_emu_stream_free(stream);
    }
}

/* ---- pushing --------------------------------------------------------------------------------- */

static struct gy_emu_op *take_op(void)
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

static CUresult append(struct gy_emu_stream *stream, struct gy_emu_work *work)
{
    struct gy_emu_op *op = take_op();
    if (op == NULL) {
        gy_emu_work_release(work);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    op->work = *work;
    op->stream = stream;
    op->program = NULL;
    op->behind = NULL;
    op->list = NULL;
    op->state = GY_EMU_OP_QUEUED;
    op->priority = work->kind == GY_EMU_WORK_KERNEL && work->kernel.attributes.has_priority
                       ? work->kernel.attributes.priority
                       : stream->priority;
    op->fresh = stream->head == NULL;
    op->failure = CUDA_SUCCESS;
    op->log_number = 0;
    stream->pushed++;
    if (stream->head == NULL) {
        stream->head = op;
        gy_emu_op_start_later(op);
    } else {
        stream->tail->behind = op;
    }
    stream->tail = op;
    return CUDA_SUCCESS;
}

static CUresult append_marker(struct gy_emu_stream *stream, enum gy_emu_work_kind kind,
                              struct gy_emu_marker *marker)
{
    marker->refs++;
    struct gy_emu_work work = {.kind = kind, .context = stream->object.context, .marker = marker};
    return append(stream, &work);
}

CUresult gy_emu_stream_mark(struct gy_emu_stream *stream, struct gy_emu_marker **out)
{
    if (stream->head == NULL) {
        *out = NULL;
        return CUDA_SUCCESS;
    }
    struct gy_emu_marker *marker = gy_emu_marker_create(false);
    if (marker == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult result = append_marker(stream, GY_EMU_WORK_MARK, marker);
    if (result != CUDA_SUCCESS) {
        gy_emu_marker_unref(marker);
        return result;
    }
    *out = marker;
    return CUDA_SUCCESS;
}

/* Find the last work that the stream has before it: a record of an event is not work. */
static struct gy_emu_op *last_work(const struct gy_emu_stream *stream)
{
    struct gy_emu_op *last = NULL;
    for (struct gy_emu_op *op = stream->head; op != NULL; op = op->behind) {
        last = op->work.kind != GY_EMU_WORK_MARK ? op : last;
    }
    return last;
}

/* As gy_emu_stream_mark(), behind the work that counts as activity of the stream's context. */
static CUresult mark_own(struct gy_emu_stream *stream, struct gy_emu_marker **out)
{
    struct gy_emu_op *last = last_work(stream);
    return last != NULL && last->work.kind == GY_EMU_WORK_GRAPH && gy_emu_program_leaves_out(last)
               ? gy_emu_program_mark_own(last, out)
               : gy_emu_stream_mark(stream, out);
}

static CUresult join(struct gy_emu_stream *later, struct gy_emu_stream *earlier,
                     CUresult (*mark)(struct gy_emu_stream *, struct gy_emu_marker **))
{
    struct gy_emu_marker *marker;
    CUresult result = mark(earlier, &marker);
    if (result == CUDA_SUCCESS && marker != NULL) {
        result = append_marker(later, GY_EMU_WORK_WAIT, marker);
        gy_emu_marker_unref(marker);
    }
    return result;
}

CUresult gy_emu_stream_join(struct gy_emu_stream *later, struct gy_emu_stream *earlier)
{
    return join(later, earlier, gy_emu_stream_mark);
}

CUresult gy_emu_stream_join_own(struct gy_emu_stream *later, struct gy_emu_stream *earlier)
{
    return join(later, earlier, mark_own);
}

/* The legacy rule: the null stream waits for the blocking streams of its context and they for it. */
static CUresult order_with_null(struct gy_emu_stream *stream)
{
    struct gy_emu_context *context = stream->object.context;
    CUresult result = CUDA_SUCCESS;
    if (!stream->is_null) {
        struct gy_emu_stream *null_stream = context->null_stream;
        GY_EMU_WATCH(see_join, (stream, null_stream));
        if (null_stream->head != NULL && stream->null_seen != null_stream->pushed) {
            result = gy_emu_stream_join(stream, null_stream);
            stream->null_seen = null_stream->pushed;
        }
        return result;
    }
    for (struct gy_emu_stream *s = context->root->streams; s != NULL && result == CUDA_SUCCESS;
         s = s->next_in_root) {
        bool orders = s->object.context == context && (s->flags & CU_STREAM_NON_BLOCKING) == 0;
        if (s != stream && orders) {
            GY_EMU_WATCH(see_join, (stream, s));
        }
        if (s != stream && orders && s->head != NULL && s->joined != s->pushed) {
            result = gy_emu_stream_join(stream, s);
            s->joined = s->pushed;
        }
    }
    return result;
}

CUresult gy_emu_stream_push(struct gy_emu_stream *stream, struct gy_emu_work *work)
{
    GY_EMU_WATCH(see_work, (stream, work));
    if ((stream->flags & CU_STREAM_NON_BLOCKING) == 0) {
        CUresult result = order_with_null(stream);
        if (result != CUDA_SUCCESS) {
            gy_emu_work_release(work);
            return result;
        }
    }
    if (noop && stream->head == NULL && !is_held(stream->root) && is_nothing_in_noop(work->kind)) {
        gy_emu_work_release(work);
        return CUDA_SUCCESS;
    }
    return append(stream, work);
}

bool gy_emu_stream_is_noop(const struct gy_emu_stream *stream)
{
    return noop && !is_held(stream->root) && stream->head == NULL && stream->capture == NULL &&
           (stream->flags & CU_STREAM_NON_BLOCKING) != 0;
}

bool gy_emu_stream_is_idle(const struct gy_emu_stream *stream)
{
    return stream->head == NULL && !is_held(stream->root) && (stream->flags & CU_STREAM_NON_BLOCKING) != 0;
}

/* ---- waiting and discarding ------------------------------------------------------------------ */

CUresult gy_emu_stream_drain(struct gy_emu_stream *stream)
{
    struct gy_emu_context *root = stream->root;
    struct gy_emu_marker *marker;
    GY_EMU_WATCH(see_done, (stream));
    CUresult result = gy_emu_stream_mark(stream, &marker);
    if (result == CUDA_SUCCESS && marker != NULL) {
        uintptr_t handle = root->object.handle;
        gy_emu_marker_wait(marker, false);
        gy_emu_marker_unref(marker);
        root = gy_emu_handle_find(GY_EMU_CONTEXT, (void *)handle); /* the context may be gone by now */
    }
    if (result == CUDA_SUCCESS) {
        result = root != NULL ? root->sticky : CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
    return result;
}

static CUresult drain(struct gy_emu_context *root, const struct gy_emu_context *only,
                      CUresult (*mark)(struct gy_emu_stream *, struct gy_emu_marker **))
{
    struct gy_emu_marker *chain = NULL;
    CUresult result = CUDA_SUCCESS;
    GY_EMU_WATCH(see_all_done, ());
    for (struct gy_emu_stream *s = root->streams; s != NULL && result == CUDA_SUCCESS; s = s->next_in_root) {
        struct gy_emu_marker *marker = NULL;
        if (only == NULL || s->object.context == only) {
            result = mark(s, &marker);
        }
        if (result == CUDA_SUCCESS && marker != NULL) {
            marker->next = chain;
            chain = marker;
        }
    }
    while (chain != NULL) {
        struct gy_emu_marker *marker = chain;
        chain = marker->next;
        marker->next = NULL;
        gy_emu_marker_wait(marker, false);
        gy_emu_marker_unref(marker);
    }
    return result;
}

CUresult gy_emu_root_drain(struct gy_emu_context *root, const struct gy_emu_context *only)
{
    return drain(root, only, gy_emu_stream_mark);
}

CUresult gy_emu_context_drain(struct gy_emu_context *context)
{
    return drain(context->root, context == context->root ? NULL : context, mark_own);
}

static void discard_waiting(struct gy_emu_op *op)
{
    if (op->state == GY_EMU_OP_STALLED || op->state == GY_EMU_OP_BLOCKED || op->state == GY_EMU_OP_READY) {
        gy_emu_list_remove(op);
        gy_emu_op_start_later(op);
    } else if (op->state == GY_EMU_OP_RUNNING && op->work.kind == GY_EMU_WORK_GRAPH) {
        gy_emu_program_for_each(op->work.graph.program, discard_waiting);
    } else if (op->state == GY_EMU_OP_RUNNING && op->work.kind == GY_EMU_WORK_LOOP) {
        gy_emu_program_for_each_in_loop(op, discard_waiting);
    }
}

void gy_emu_root_discard(struct gy_emu_context *root)
{
    root->discarding = true;
    for (struct gy_emu_stream *s = root->streams; s != NULL; s = s->next_in_root) {
        if (s->head != NULL) {
            discard_waiting(s->head);
        }
    }
}

void gy_emu_lost_notice(void)
{
    while (lost.head != NULL) {
        gy_emu_op_start_later(gy_emu_list_pop(&lost));
    }
}

/* ---- modes ----------------------------------------------------------------------------------- */

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

void gy_emu_set_noop(bool value)
{
    noop = value;
}
