/* SPDX-License-Identifier: MIT */
#include "work/patch.h"

#include "base/alloc.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

void gy_pairing_fini(struct gy_pairing *p)
{
    gy_free(p->of);
    gy_free(p->table);
}

bool gy_nodes_are_patchable(const struct gy_nodes *n)
{
    for (uint32_t i = 0; i < n->count; i++) {
        if (n->list[i].form == GY_FORM_FIXED) {
            return false;
        }
    }
    return true;
}

uint64_t gy_nodes_names(const struct gy_nodes *n)
{
    uint64_t sum = n->count;
    for (uint32_t i = 0; i < n->count; i++) {
        sum += gy_nodes_mix(0, n->list[i].id);
    }
    return sum;
}

/* The ends of what the nodes use: there may be sets and parameters of others behind that. */
static void find_ends(const struct gy_nodes *n, uint32_t *before, size_t *bytes)
{
    *before = 0;
    *bytes = 0;
    for (uint32_t i = 0; i < n->count; i++) {
        const struct gy_node *node = &n->list[i];
        const uint32_t end = node->before.first + node->before.count;
        *before = end > *before ? end : *before;
        if (node->kind == GY_NODE_KERNEL) { /* their parameters lie in their order */
            *bytes = node->kernel.at + node->kernel.room;
        }
    }
}

gantry_status gy_nodes_copy(struct gy_nodes *to, const struct gy_nodes *from)
{
    *to = (struct gy_nodes){.context = from->context};
    uint32_t before;
    size_t bytes;
    find_ends(from, &before, &bytes);
    if (!gy_grow_array(&to->list, &to->room, from->count, sizeof(*to->list)) ||
        !gy_grow_array(&to->made, &to->made_room, from->count, sizeof(*to->made)) ||
        !gy_grow_array(&to->before, &to->before_room, before + (size_t)1, sizeof(*to->before)) ||
        !gy_grow_array(&to->bytes, &to->bytes_room, bytes + 1, 1) ||
        !gy_grow_array(&to->extras, &to->extras_room, from->extra_count, sizeof(*to->extras)) ||
        !gy_grow_array(&to->events, &to->events_room, from->event_count, sizeof(*to->events))) {
        gy_nodes_fini(to);
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "out of memory for a graph that is kept");
    }
    to->count = from->count;
    to->before_count = before;
    to->bytes_used = bytes;
    memcpy(to->list, from->list, to->count * sizeof(*to->list));
    memcpy(to->made, from->made, to->count * sizeof(*to->made));
    if (before != 0) {
        memcpy(to->before, from->before, before * sizeof(*to->before));
    }
    if (bytes != 0) {
        memcpy(to->bytes, from->bytes, bytes);
    }
    for (; to->event_count < from->event_count; to->event_count++) {
        struct gy_node_event *event = &to->events[to->event_count];
        *event = from->events[to->event_count];
        event->event = gy_node_event_of(event);
        if (event->node >= to->count) {
            break;
        }
        event->lent = event->place != NULL ? *event->place : NULL;
        event->place = NULL;
    }
    to->extra_count = from->extra_count;
    if (from->extra_count != 0) {
        memcpy(to->extras, from->extras, from->extra_count * sizeof(*to->extras));
    }
    return GANTRY_OK;
}

/* ---- pairs ------------------------------------------------------------------------------------- */

/* Do the launches of the kernels ask for the same? */
static GY_RARE bool has_same_extra(const struct gy_nodes *kept, uint32_t x, const struct gy_nodes *n,
                                   uint32_t y)
{
    return x != 0 && y != 0 && memcmp(&kept->extras[x - 1], &n->extras[y - 1], sizeof(*n->extras)) == 0;
}

static inline bool is_of_kind(const struct gy_nodes *kept, const struct gy_node *x, const struct gy_nodes *n,
                              const struct gy_node *y)
{
    if (x->kind != y->kind || x->form != y->form || x->before.count != y->before.count) {
        return false;
    }
    const bool has_extra = x->kind == GY_NODE_KERNEL && (x->kernel.extra | y->kernel.extra) != 0;
    return __builtin_expect(!has_extra, 1) || has_same_extra(kept, x->kernel.extra, n, y->kernel.extra);
}

/* Do they come after the same numbers, of which there are as many? */
static GY_INLINE bool is_after_same(const struct gy_nodes *kept, const struct gy_node *x,
                                    const struct gy_nodes *n, const struct gy_node *y)
{
    const uint32_t *before = kept->before + x->before.first, *other = n->before + y->before.first;
    uint32_t b = 0;
    while (b < y->before.count && before[b] == other[b]) {
        b++;
    }
    return b == y->before.count;
}

bool gy_nodes_are_equal(const struct gy_nodes *kept, const struct gy_nodes *n)
{
    return kept->count == n->count && kept->before_count <= n->before_count &&
           memcmp(kept->list, n->list, n->count * sizeof(*n->list)) == 0 &&
           kept->extra_count == n->extra_count &&
           (n->extra_count == 0 ||
            memcmp(kept->extras, n->extras, n->extra_count * sizeof(*n->extras)) == 0) &&
           memcmp(kept->before, n->before, kept->before_count * sizeof(*n->before)) == 0;
}

bool gy_nodes_are_alike(const struct gy_nodes *kept, const struct gy_nodes *n)
{
    bool are = kept->count == n->count;
    for (uint32_t i = 0; i < n->count && are; i++) {
        const struct gy_node *x = &kept->list[i], *y = &n->list[i];
        are = is_of_kind(kept, x, n, y) && is_after_same(kept, x, n, y);
    }
    return are;
}

static GY_INLINE uint32_t place_of(uint64_t id, size_t room)
{
    return (uint32_t)(gy_nodes_mix(0, id) >> 32) & (uint32_t)(room - 1);
}

/* A table with twice as many places as there are nodes. */
static bool fill_table(struct gy_pairing *p, const struct gy_nodes *kept)
{
    size_t room = 16;
    while (room < 2 * (size_t)kept->count) {
        room *= 2;
    }
    if (!gy_grow_array(&p->table, &p->table_room, room, sizeof(*p->table)) ||
        !gy_grow_array(&p->of, &p->room, kept->count, sizeof(*p->of))) {
        return false;
    }
    memset(p->table, 0, room * sizeof(*p->table));
    for (uint32_t i = 0; i < kept->count; i++) {
        uint32_t at = place_of(kept->list[i].id, room);
        while (p->table[at] != 0) {
            at = (at + 1) & (uint32_t)(room - 1);
        }
        p->table[at] = i + 1;
    }
    return true;
}

/* The number of the kept node with this name, which is taken out; UINT32_MAX: there is none. */
static uint32_t take(struct gy_pairing *p, const struct gy_nodes *kept, uint64_t id)
{
    size_t room = 16;
    while (room < 2 * (size_t)kept->count) {
        room *= 2;
    }
    for (uint32_t at = place_of(id, room); p->table[at] != 0; at = (at + 1) & (uint32_t)(room - 1)) {
        const uint32_t number = p->table[at] - 1;
        if (number < kept->count && kept->list[number].id == id) {
            p->table[at] = UINT32_MAX;
            return number;
        }
    }
    return UINT32_MAX;
}

/* Do the partners of what node `y` comes after come before `x`?  There are as many of them. */
static bool comes_after_partners(const struct gy_pairing *p, const struct gy_nodes *kept,
                                 const struct gy_node *x, const struct gy_nodes *n, const struct gy_node *y)
{
    for (uint32_t b = 0; b < y->before.count; b++) {
        const uint32_t partner = p->of[n->before[y->before.first + b]];
        const uint32_t *before = kept->before + x->before.first;
        uint32_t found = 0;
        while (found < x->before.count && before[found] != partner) {
            found++;
        }
        if (found == x->before.count) {
            return false;
        }
    }
    return true;
}

bool gy_nodes_pair(struct gy_pairing *p, const struct gy_nodes *kept, const struct gy_nodes *n)
{
    if (kept->count != n->count || !fill_table(p, kept)) {
        return false;
    }
    for (uint32_t i = 0; i < n->count; i++) {
        const struct gy_node *y = &n->list[i];
        const uint32_t number = take(p, kept, y->id);
        if (number == UINT32_MAX || !is_of_kind(kept, &kept->list[number], n, y) ||
            !comes_after_partners(p, kept, &kept->list[number], n, y)) {
            return false;
        }
        p->of[i] = number;
    }
    return true;
}

/* ---- patches ----------------------------------------------------------------------------------- */

/* Equal functions have one layout. */
static GY_INLINE bool is_same_kernel(const struct gy_nodes *kept, const struct gy_node *x,
                                     const struct gy_nodes *n, const struct gy_node *y)
{
    const struct gy_node_kernel *p = &x->kernel, *q = &y->kernel;
    return p->function == q->function && memcmp(&p->size, &q->size, sizeof(p->size)) == 0 &&
           memcmp(kept->bytes + p->at, n->bytes + q->at, q->layout->bytes) == 0;
}

/* Note the kernel in the kept node.  False: there is no memory for its parameters. */
static bool take_kernel(struct gy_nodes *kept, struct gy_node *x, const struct gy_nodes *n,
                        const struct gy_node *y)
{
    const uint32_t bytes = y->kernel.layout->bytes;
    struct gy_node_kernel *k = &x->kernel;
    size_t at = k->at;
    uint32_t room = k->room;
    if (bytes > room) {
        room = bytes > 2 * room ? bytes : 2 * room;
        at = kept->bytes_used;
        if (!gy_grow_array(&kept->bytes, &kept->bytes_room, at + room, 1)) {
            return false;
        }
        kept->bytes_used += room;
    }
    const uint32_t extra = k->extra; /* an equal one, elsewhere */
    *k = y->kernel;
    k->at = at;
    k->room = room;
    k->extra = extra;
    memcpy(kept->bytes + at, n->bytes + y->kernel.at, bytes);
    return true;
}

static CUgraphNode made_of(const struct gy_nodes *kept, const struct gy_node *x)
{
    return kept->made[x - kept->list];
}

/* The context that a node must be set for: a green one where its stream has one.  NULL with *result: the
 * driver does not tell. */
static CUcontext owner_of(struct gy_nodes *n, const struct gy_node *y, CUresult *result)
{
    const struct gy_driver *driver = n->context->driver;
    CUgreenCtx green = NULL;
    *result = CUDA_SUCCESS;
    if (y->form < GY_FORM_LANE(0) || driver->cuStreamGetGreenCtx == NULL) {
        return n->context->native;
    }
    if (n->making.owner_of != y->stream) {
        n->making.owner = n->context->native; /* of a stream without one drivers say an error, or NULL */
        if (driver->cuStreamGetGreenCtx(y->stream, &green) == CUDA_SUCCESS && green != NULL) {
            *result = driver->cuCtxFromGreenCtx(&n->making.owner, green);
        }
        n->making.owner_of = *result == CUDA_SUCCESS ? y->stream : NULL;
    }
    return *result == CUDA_SUCCESS ? n->making.owner : NULL;
}

/* Set the kernel node; it is refused unless its own context is current. */
static CUresult set_kernel(struct gy_nodes *n, CUgraphExec exec, CUgraphNode made, const struct gy_node *y,
                           const CUDA_KERNEL_NODE_PARAMS_v2 *params)
{
    const struct gy_driver *driver = n->context->driver;
    CUresult result;
    const CUcontext owner = owner_of(n, y, &result);
    if (owner == n->context->native) {
        return driver->cuGraphExecKernelNodeSetParams(exec, made, params);
    }
    result = result == CUDA_SUCCESS ? driver->cuCtxPushCurrent(owner) : result;
    if (result != CUDA_SUCCESS) {
        return result;
    }
    result = driver->cuGraphExecKernelNodeSetParams(exec, made, params);
    CUcontext popped;
    const CUresult back = driver->cuCtxPopCurrent(&popped);
    return result == CUDA_SUCCESS ? back : result;
}

static CUresult patch_kernel(struct gy_nodes *kept, CUgraphExec exec, struct gy_node *x, struct gy_nodes *n,
                             const struct gy_node *y)
{
    CUDA_KERNEL_NODE_PARAMS_v2 params;
    if (gy_nodes_describe(n, y, &params) != GANTRY_OK || !take_kernel(kept, x, n, y)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    const struct gy_slot_arg *slot =
        kept->table != 0 ? gy_slot_args_of(&n->slot_args, (uint32_t)(y - n->list)) : NULL;
    if (slot == NULL) {
        return set_kernel(n, exec, made_of(kept, x), y, &params);
    }
    uint64_t stand_in, address = gy_slot_address(kept->table, (uint32_t)(x - kept->list));
    memcpy(&stand_in, n->bytes + slot->at, 8);
    memcpy(n->bytes + slot->at, &address, 8);
    const CUresult result = set_kernel(n, exec, made_of(kept, x), y, &params);
    memcpy(n->bytes + slot->at, &stand_in, 8);
    return result;
}

/* The driver's own description of the node is changed, so that whatever it says beside the operands stays. */
static CUresult patch_copy(const struct gy_nodes *kept, CUgraphExec exec, struct gy_node *x,
                           struct gy_nodes *n, const struct gy_node *y)
{
    const struct gy_driver *driver = kept->context->driver;
    const CUgraphNode made = made_of(kept, x);
    CUDA_MEMCPY3D copy;
    CUresult result;
    const CUcontext owner = owner_of(n, y, &result);
    result = result == CUDA_SUCCESS ? driver->cuGraphMemcpyNodeGetParams(made, &copy) : result;
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (copy.srcMemoryType == CU_MEMORYTYPE_HOST) {
        copy.srcHost = (const void *)(uintptr_t)y->copy.from;
    } else {
        copy.srcDevice = y->copy.from;
    }
    if (copy.dstMemoryType == CU_MEMORYTYPE_HOST) {
        copy.dstHost = (void *)(uintptr_t)y->copy.to;
    } else {
        copy.dstDevice = y->copy.to;
    }
    copy.WidthInBytes = y->copy.bytes;
    x->copy = y->copy;
    return driver->cuGraphExecMemcpyNodeSetParams(exec, made, &copy, owner);
}

static CUresult patch_fill(const struct gy_nodes *kept, CUgraphExec exec, struct gy_node *x,
                           struct gy_nodes *n, const struct gy_node *y)
{
    CUresult result;
    const CUcontext owner = owner_of(n, y, &result);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    const CUDA_MEMSET_NODE_PARAMS fill = gy_fill_describe(&y->fill);
    x->fill = y->fill;
    return kept->context->driver->cuGraphExecMemsetNodeSetParams(exec, made_of(kept, x), &fill, owner);
}

/* The event that the executable graph has for the node. */
static struct gy_node_event *event_of(const struct gy_nodes *kept, const struct gy_node *x)
{
    const uint32_t node = (uint32_t)(x - kept->list);
    uint32_t low = 0, high = kept->event_count;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        low = kept->events[middle].node <= node ? middle : low;
        high = kept->events[middle].node <= node ? high : middle;
    }
    assert(kept->events[low].node == node);
    return &kept->events[low];
}

/* The node keeps its event if that can be lent to the batch.  Others are set always: one that was destroyed
 * may have had the same address.  Ends and waits do not count in *set. */
static CUresult patch_event(const struct gy_nodes *kept, CUgraphExec exec, struct gy_node *x,
                            struct gy_node_event *had, const struct gy_nodes *n, const struct gy_node *y,
                            uint64_t *set)
{
    const struct gy_driver *driver = kept->context->driver;
    struct gy_node_event *event = &n->events[y->event];
    x->event = y->event;
    if (event->place != NULL && gy_lent_event_exchange(event->place, had->lent, had->event)) {
        event->event = had->event;
        return CUDA_SUCCESS;
    }
    event->event = gy_node_event_of(event);
    had->event = event->event;
    had->lent = event->place != NULL ? *event->place : NULL;
    *set += !event->is_order;
    return y->kind == GY_NODE_WAIT
               ? driver->cuGraphExecEventWaitNodeSetEvent(exec, made_of(kept, x), event->event)
               : driver->cuGraphExecEventRecordNodeSetEvent(exec, made_of(kept, x), event->event);
}

static GY_RARE bool is_same_other(const struct gy_node *x, const struct gy_node *y)
{
    if (x->kind == GY_NODE_EVENT || x->kind == GY_NODE_WAIT) {
        return false;
    }
    if (x->kind == GY_NODE_COPY) {
        return x->copy.to == y->copy.to && x->copy.from == y->copy.from && x->copy.bytes == y->copy.bytes;
    }
    return x->fill.at == y->fill.at && x->fill.count == y->fill.count && x->fill.pattern == y->fill.pattern;
}

static GY_RARE CUresult patch_node(struct gy_nodes *kept, CUgraphExec exec, struct gy_node *x,
                                   struct gy_nodes *n, const struct gy_node *y, uint64_t *set)
{
    assert(x->kind == y->kind && x->form == y->form && y->form != GY_FORM_FIXED);
    *set += y->kind != GY_NODE_EVENT && y->kind != GY_NODE_WAIT;
    switch (y->kind) {
    case GY_NODE_KERNEL:
        return patch_kernel(kept, exec, x, n, y);
    case GY_NODE_COPY:
        return patch_copy(kept, exec, x, n, y);
    case GY_NODE_FILL:
        return patch_fill(kept, exec, x, n, y);
    case GY_NODE_EVENT:
    case GY_NODE_WAIT:
        return patch_event(kept, exec, x, event_of(kept, x), n, y, set);
    case GY_NODE_GRAPH:
        break;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

static CUresult patch_events(struct gy_nodes *kept, CUgraphExec exec, const struct gy_nodes *n, uint64_t *set)
{
    CUresult result = CUDA_SUCCESS;
    for (uint32_t i = 0; i < n->event_count && n->events[i].node < n->count && result == CUDA_SUCCESS; i++) {
        const uint32_t node = n->events[i].node;
        assert(kept->events[i].node == node);
        result = patch_event(kept, exec, &kept->list[node], &kept->events[i], n, &n->list[node], set);
    }
    return result;
}

CUresult gy_nodes_patch_equal(struct gy_nodes *kept, CUgraphExec exec, struct gy_nodes *n, uint64_t *set)
{
    assert(kept->count == n->count && kept->bytes_used <= n->bytes_used);
    const CUresult events = patch_events(kept, exec, n, set);
    if (events != CUDA_SUCCESS || kept->bytes_used == 0 ||
        memcmp(kept->bytes, n->bytes, kept->bytes_used) == 0) {
        return events;
    }
    for (uint32_t i = 0; i < n->count; i++) {
        const struct gy_node *y = &n->list[i];
        const size_t at = y->kernel.at;
        if (y->kind != GY_NODE_KERNEL || memcmp(kept->bytes + at, n->bytes + at, y->kernel.room) == 0) {
            continue;
        }
        const CUresult result = patch_node(kept, exec, &kept->list[i], n, y, set);
        if (result != CUDA_SUCCESS) {
            return result;
        }
    }
    return CUDA_SUCCESS;
}

CUresult gy_nodes_patch(struct gy_nodes *kept, CUgraphExec exec, struct gy_nodes *n, const uint32_t *of,
                        uint64_t *set)
{
    assert(kept->count == n->count);
    for (uint32_t i = 0; i < n->count; i++) {
        const struct gy_node *y = &n->list[i];
        struct gy_node *x = &kept->list[of != NULL ? of[i] : i];
        const bool is_same = y->kind == GY_NODE_KERNEL ? is_same_kernel(kept, x, n, y) : is_same_other(x, y);
        x->id = y->id;
        if (__builtin_expect(is_same, 1)) {
            continue;
        }
        const CUresult result = patch_node(kept, exec, x, n, y, set);
        if (result != CUDA_SUCCESS) {
            return result;
        }
    }
    return CUDA_SUCCESS;
}

/* ---- parts ------------------------------------------------------------------------------------- */

uint32_t gy_nodes_shapes(const struct gy_nodes *n, uint64_t *shapes)
{
    uint64_t hash = 1;
    uint32_t count = 0, next = 1u << GY_FIRST_SIZE;
    for (uint32_t i = 0; i < n->count; i++) {
        const struct gy_node *node = &n->list[i];
        if (i == next) {
            shapes[count++] = gy_nodes_mix(hash, i);
            next = next <= UINT32_MAX / 2 ? 2 * next : UINT32_MAX;
        }
        hash =
            gy_nodes_mix(hash, (uint64_t)node->before.count << 40 ^ (uint64_t)node->kind << 32 ^ node->form);
        for (uint32_t b = 0; b < node->before.count; b++) {
            hash = gy_nodes_mix(hash, n->before[node->before.first + b]);
        }
    }
    shapes[count++] = gy_nodes_mix(hash, n->count);
    assert(count <= GY_MOST_SIZES);
    return count;
}

bool gy_nodes_may_drop(struct gy_pairing *p, const struct gy_nodes *n)
{
    return gy_grow_array(&p->of, &p->room, gy_nodes_count_before(n) + 1, sizeof(*p->of));
}

/* The events of the first `count` nodes go, and those of the others are numbered as in a batch of their own.
 */
static void drop_events(struct gy_nodes *n, uint32_t count)
{
    uint32_t first = 0;
    while (first < n->event_count && n->events[first].node < count) {
        first++;
    }
    n->event_count -= first;
    for (uint32_t i = 0; i < n->event_count; i++) {
        n->events[i] = n->events[first + i];
        n->list[n->events[i].node].event = i;
        n->events[i].node -= count;
    }
}

/* Parameters of the first `count` nodes go, and those of the others begin at 0, as in a batch of their own.
 */
static void drop_parameters(struct gy_nodes *n, uint32_t count)
{
    size_t from = n->bytes_used;
    for (uint32_t i = n->count; i-- > count;) {
        if (n->list[i].kind == GY_NODE_KERNEL) {
            from = n->list[i].kernel.at;
        }
    }
    for (uint32_t i = count; i < n->count; i++) {
        if (n->list[i].kind == GY_NODE_KERNEL) {
            n->list[i].kernel.at -= from;
        }
    }
    n->bytes_used -= from;
    if (from != 0) {
        memmove(n->bytes, n->bytes + from, n->bytes_used);
    }
    gy_slot_args_drop_first(&n->slot_args, count, from);
}

void gy_nodes_drop_first(struct gy_pairing *p, struct gy_nodes *n, uint32_t count)
{
    assert(count <= n->count && n->graphs == 0);
    uint32_t used = 0;
    drop_parameters(n, count);
    drop_events(n, count);
    for (uint32_t i = count; i < n->count; i++) {
        struct gy_node *node = &n->list[i - count];
        *node = n->list[i];
        n->streams[i - count] = n->streams[i];
        const struct gy_node_set was = node->before;
        node->before = (struct gy_node_set){used, 0};
        for (uint32_t b = 0; b < was.count; b++) {
            if (n->before[was.first + b] >= count) {
                p->of[used++] = n->before[was.first + b] - count;
            }
        }
        node->before.count = used - node->before.first;
    }
    uint32_t *const of = p->of; /* what the nodes come after is there now */
    const size_t room = p->room;
    p->of = n->before;
    p->room = n->before_room;
    n->before = of;
    n->before_room = room;
    n->before_count = used;
    n->count -= count;
}
