/* SPDX-License-Identifier: MIT */
#include "work/slot_args.h"

#include "base/alloc.h"
#include "work/nodes.h"

#include <assert.h>
#include <string.h>

static uint64_t call_of(uint64_t id)
{
    return id >> 16;
}

uint64_t gy_slot_args_give(struct gy_nodes *n, uint64_t value)
{
    struct gy_slot_args *args = &n->slot_args;
    const uint64_t call = call_of(n->next_id);
    const struct gy_slot_arg *last = args->count > args->placed ? &args->list[args->count - 1] : NULL;
    const uint32_t number = last != NULL && last->call == call ? last->stand_in + 1 : 0;
    if (args->stand_ins == 0 || number == GY_SLOT_STAND_INS ||
        !gy_grow_array(&args->list, &args->room, args->count + (size_t)1, sizeof(*args->list))) {
        return value;
    }
    args->list[args->count++] =
        (struct gy_slot_arg){.call = call, .value = value, .node = n->count, .stand_in = number};
    return gy_slot_address(args->stand_ins, number);
}

/* ---- finding the nodes --------------------------------------------------------------------------- */

/* Until a call's are sorted, `at` may say: */
#define NOT_FOUND SIZE_MAX
#define NO_SLOT (SIZE_MAX - 1) /* its kernel has the address itself */

/* Which of the `count` stand-ins is it?  `count`: none. */
static uint32_t number_of(const struct gy_slot_args *args, uint64_t word, uint32_t count)
{
    const uint64_t from = word - gy_slot_address(args->stand_ins, 0);
    return from < 8 * (uint64_t)count && from % 8 == 0 ? (uint32_t)(from / 8) : count;
}

/* Find parameters of the node among `of`, which one call was given.  One that is found is placed, and the
 * same one in other nodes, or once more, is nothing. */
static void place_in(struct gy_nodes *n, uint32_t number, struct gy_slot_arg *of, uint32_t count)
{
    const struct gy_node_kernel *k = &n->list[number].kernel;
    bool has_slot = false;
    for (size_t at = k->at; at < k->at + k->layout->bytes; at += 8) {
        uint64_t word;
        memcpy(&word, n->bytes + at, 8);
        const uint32_t found = number_of(&n->slot_args, word, count);
        if (found == count) {
            continue;
        }
        const bool is_first = of[found].at == NOT_FOUND;
        if (is_first && k->layout->knows_slots && !has_slot) {
            of[found].at = at;
            of[found].node = number;
            has_slot = true;
            continue;
        }
        word = is_first ? of[found].value : 0;
        of[found].at = is_first ? NO_SLOT : of[found].at;
        memcpy(n->bytes + at, &word, 8);
    }
}

/* Take out what has no slot, and bring the others in the order of their nodes.  Returns their number. */
static uint32_t sort(struct gy_slot_arg *of, uint32_t count)
{
    uint32_t sorted = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct gy_slot_arg arg = of[i];
        if (arg.at == NOT_FOUND || arg.at == NO_SLOT) {
            continue;
        }
        uint32_t to = sorted++;
        for (; to != 0 && of[to - 1].node > arg.node; to--) {
            of[to] = of[to - 1];
        }
        of[to] = arg;
    }
    return sorted;
}

/* Place what one call was given.  Returns the number of those that have slots; they are the first. */
static uint32_t place_call(struct gy_nodes *n, struct gy_slot_arg *of, uint32_t count)
{
    const uint64_t call = of[0].call;
    for (uint32_t i = 0; i < count; i++) {
        of[i].at = NOT_FOUND;
    }
    for (uint32_t i = of[0].node; i < n->count && call_of(n->list[i].id) == call; i++) {
        if (n->list[i].kind == GY_NODE_KERNEL) {
            place_in(n, i, of, count);
        }
    }
    return sort(of, count);
}

void gy_slot_args_place(struct gy_nodes *n)
{
    struct gy_slot_args *args = &n->slot_args;
    for (uint32_t from = args->placed; from < args->count;) {
        struct gy_slot_arg *of = &args->list[from];
        uint32_t count = 1;
        while (from + count < args->count && of[count].stand_in == count) {
            count++;
        }
        const uint32_t placed = place_call(n, of, count);
        memmove(&args->list[args->placed], of, placed * sizeof(*of));
        args->placed += placed;
        from += count;
    }
    args->count = args->placed;
    assert(gy_slot_args_are_valid(n));
}

void gy_slot_args_cut(struct gy_slot_args *args, uint32_t count)
{
    while (args->count != 0 && args->list[args->count - 1].node >= count) {
        args->count--;
    }
    args->placed = args->placed < args->count ? args->placed : args->count;
}

void gy_slot_args_drop_first(struct gy_slot_args *args, uint32_t count, size_t bytes)
{
    assert(args->placed == args->count);
    const uint32_t first = gy_slot_args_count(args, count);
    args->count = args->placed -= first;
    for (uint32_t i = 0; i < args->count; i++) {
        args->list[i] = args->list[first + i];
        args->list[i].node -= count;
        args->list[i].at -= bytes;
    }
}

/* ---- what the parameters are --------------------------------------------------------------------- */

static void write(struct gy_nodes *n, const struct gy_slot_arg *arg, uint64_t word)
{
    memcpy(n->bytes + arg->at, &word, 8);
}

void gy_slot_args_settle(struct gy_nodes *n, uint32_t count)
{
    const struct gy_slot_args *args = &n->slot_args;
    for (uint32_t i = 0; i < args->placed && args->list[i].node < count; i++) {
        write(n, &args->list[i], args->list[i].value);
    }
}

void gy_slot_args_point(struct gy_nodes *n, uint32_t count, uint64_t table)
{
    const struct gy_slot_args *args = &n->slot_args;
    for (uint32_t i = 0; i < args->placed && args->list[i].node < count; i++) {
        write(n, &args->list[i], gy_slot_address(table, args->list[i].node));
    }
}

void gy_slot_args_unpoint(struct gy_nodes *n, uint32_t count)
{
    const struct gy_slot_args *args = &n->slot_args;
    for (uint32_t i = 0; i < args->placed && args->list[i].node < count; i++) {
        write(n, &args->list[i], gy_slot_address(args->stand_ins, args->list[i].stand_in));
    }
}

/* The number of the first one of a node from `node` on. */
static uint32_t find(const struct gy_slot_args *args, uint32_t node)
{
    uint32_t low = 0, high = args->placed;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (args->list[middle].node < node) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

uint32_t gy_slot_args_count(const struct gy_slot_args *args, uint32_t count)
{
    return find(args, count);
}

const struct gy_slot_arg *gy_slot_args_of(const struct gy_slot_args *args, uint32_t node)
{
    const uint32_t i = find(args, node);
    return i < args->placed && args->list[i].node == node ? &args->list[i] : NULL;
}

/* ---- checks -------------------------------------------------------------------------------------- */

bool gy_slot_args_are_valid(const struct gy_nodes *n)
{
    const struct gy_slot_args *args = &n->slot_args;
    bool are = args->placed <= args->count && args->count <= args->room;
    for (uint32_t i = 0; i < args->placed && are; i++) {
        const struct gy_slot_arg *arg = &args->list[i];
        are = arg->node < n->count && (i == 0 || arg->node > args->list[i - 1].node) &&
              n->list[arg->node].kind == GY_NODE_KERNEL && arg->at >= n->list[arg->node].kernel.at;
    }
    return are;
}
