/* SPDX-License-Identifier: MIT */
/* The block engine.
 *
 * Each OS thread that runs blocks has one struct engine with a pool of fibers.  A fiber is a stack that
 * runs kernel threads from start to end, one after the other, as long as none has to wait:
 *
 *        take the next thread that has not started, run it <---+
 *                |                        |                    |
 *          the thread ends          it has to wait             |
 *                |                        |                    |
 *                +--- others ready? --- no, threads left ------+ (a waiting thread keeps its fiber, so
 *                          |                                     the next thread gets another one)
 *                         yes: continue the longest-ready one
 *
 * So a kernel without barriers needs one fiber for any block, one with warp operations needs as many as
 * a warp has lanes, and only a block barrier needs one for each thread.
 *
 * Waiting has two forms.  At a block barrier a thread waits until all threads that have not exited are
 * there.  At a warp operation it waits until every lane of its mask waits at an operation of the same
 * kind and mask, or has exited; lanes beyond the end of the block count as exited.  The last one to
 * arrive computes everybody's result and goes on without a switch.
 *
 * When nothing is ready, nothing is left to start and somebody still waits, the block can never end: the
 * engine goes back to the caller with a failure and abandons the waiting stacks.
 *
 * Nothing here is shared between OS threads: every field belongs to the thread of its engine.  A fiber
 * never moves to another OS thread, so thread-local variables work as usual in kernels. */
#include "emulator/exec.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "emulator/engine.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static _Thread_local struct engine *own_engine;

/* Continue `to`; returns when something switches back to the present fiber. */
static void switch_to(struct engine *e, struct fiber *to)
{
    struct fiber *from = e->current;
    e->current = to;
    gy_fiber_switch(&from->base, &to->base);
}

static void push(struct fiber_queue *queue, struct fiber *fiber)
{
    fiber->next = NULL;
    if (queue->first == NULL) {
        queue->first = fiber;
    } else {
        queue->last->next = fiber;
    }
    queue->last = fiber;
}

static struct fiber *pop(struct fiber_queue *queue)
{
    struct fiber *fiber = queue->first;
    if (fiber != NULL) {
        queue->first = fiber->next;
    }
    return fiber;
}

/* ---- failure ------------------------------------------------------------------------------------ */

/* Return to the caller of gy_emu_exec_block() for good.  `e->why` is set. */
static _Noreturn void give_up(struct engine *e)
{
    e->failed = true;
    switch_to(e, &e->host);
    __builtin_unreachable();
}

static uint32_t count_warp_waiters(const struct engine *e)
{
    uint32_t count = 0;
    for (uint32_t warp = 0; warp < MAX_WARPS; warp++) {
        count += (uint32_t)__builtin_popcount(e->warp_waiters[warp]);
    }
    return count;
}

static _Noreturn void give_up_deadlock(struct engine *e)
{
    uint32_t in_warps = count_warp_waiters(e);
    if (e->meeting.count != 0) {
        snprintf(e->why, sizeof(e->why),
                 "kernel %s: block (%u, %u, %u) can never end: %u of its %u threads wait for other blocks, "
                 "and the others do not come there",
                 e->grid->kernel->name, e->thread.block_index[0], e->thread.block_index[1],
                 e->thread.block_index[2], e->meeting.count, e->thread_count);
        give_up(e);
    }
    snprintf(e->why, sizeof(e->why),
             "kernel %s: block (%u, %u, %u) can never end: of its %u threads %u have exited, %u wait at "
             "__syncthreads, %u at a warp operation whose other lanes do not come and %u for the answer to a "
             "request that nobody makes",
             e->grid->kernel->name, e->thread.block_index[0], e->thread.block_index[1],
             e->thread.block_index[2], e->thread_count, e->exited, e->at_barrier_count, in_warps,
             e->thread_count - e->exited - e->at_barrier_count - in_warps);
    give_up(e);
}

/* ---- fibers ------------------------------------------------------------------------------------- */

static void fiber_main(void);

/* Take a fiber; NULL: out of memory. */
static struct fiber *take_fiber(struct engine *e)
{
    struct fiber *fiber = e->idle;
    if (fiber != NULL) {
        e->idle = fiber->next;
        fiber->is_idle = false;
        return fiber;
    }
    fiber = (struct fiber *)gy_fiber_create(sizeof(*fiber), fiber_main);
    if (fiber != NULL) {
        fiber->next_all = e->all;
        e->all = fiber;
    }
    return fiber;
}

static void put_idle(struct engine *e, struct fiber *fiber)
{
    fiber->is_idle = true;
    fiber->next = e->idle;
    e->idle = fiber;
}

/* The present thread waits until it has been pushed to `ready` and its turn has come. */
static void wait_here(struct engine *e)
{
    struct fiber *self = e->current;
    memcpy(self->thread_index, e->thread.thread_index, sizeof(self->thread_index));
    struct fiber *next = pop(&e->ready);
    if (next == NULL && e->next_thread == e->thread_count) {
        give_up_deadlock(e);
    }
    if (next == NULL) {
        next = take_fiber(e);
    }
    if (next == NULL) {
        snprintf(e->why, sizeof(e->why), "kernel %s: out of memory for the stacks of a block of %u threads",
                 e->grid->kernel->name, e->thread_count);
        give_up(e);
    }
    switch_to(e, next);
    memcpy(e->thread.thread_index, self->thread_index, sizeof(self->thread_index));
}

/* ---- waiting ------------------------------------------------------------------------------------ */

/* Let all threads at the barrier go on, once all that can come are there. */
static void release_barrier(struct engine *e)
{
    struct fiber *fiber;
    while ((fiber = pop(&e->at_barrier)) != NULL) {
        push(&e->ready, fiber);
    }
    e->at_barrier_count = 0;
}

static void block_barrier(struct gantry_host_thread *self)
{
    struct engine *e = (struct engine *)self;
    if (e->at_barrier_count + 1 + e->exited == e->thread_count) {
        release_barrier(e);
        return;
    }
    push(&e->at_barrier, e->current);
    e->at_barrier_count++;
    wait_here(e);
}

/* Are all lanes of the operation at which `fiber` waits there? */
static bool warp_complete(const struct engine *e, uint32_t warp, const struct fiber *fiber)
{
    for (uint32_t missing = fiber->mask & ~e->warp_exited[warp]; missing != 0; missing &= missing - 1) {
        const struct fiber *other = e->warp_waiting[warp][__builtin_ctz(missing)];
        if (other == NULL || other->mask != fiber->mask || other->op != fiber->op) {
            return false;
        }
    }
    return true;
}

/* Compute the results of a complete operation and make its lanes ready, except the present fiber. */
static void warp_release(struct engine *e, uint32_t warp, uint32_t mask, enum warp_op op)
{
    struct fiber **waiting = e->warp_waiting[warp];
    uint32_t present = mask & ~e->warp_exited[warp];
    uint64_t votes = 0;
    for (uint32_t left = present; op == WARP_BALLOT && left != 0; left &= left - 1) {
        uint32_t lane = (uint32_t)__builtin_ctz(left);
        votes |= waiting[lane]->value << lane;
    }
    for (uint32_t left = present; left != 0; left &= left - 1) {
        struct fiber *fiber = waiting[__builtin_ctz(left)];
        bool exchange = fiber->source < WARP && (present >> fiber->source & 1) != 0;
        fiber->result = op == WARP_BALLOT ? votes : (exchange ? waiting[fiber->source] : fiber)->value;
    }
    e->warp_waiters[warp] &= ~present;
    for (uint32_t left = present; left != 0; left &= left - 1) {
        uint32_t lane = (uint32_t)__builtin_ctz(left);
        struct fiber *fiber = waiting[lane];
        waiting[lane] = NULL;
        if (fiber != e->current) {
            push(&e->ready, fiber);
        }
    }
}

static uint64_t warp_operation(struct gantry_host_thread *self, enum warp_op op, uint32_t mask,
                               uint64_t value, uint32_t source)
{
    struct engine *e = (struct engine *)self;
    struct fiber *fiber = e->current;
    uint32_t warp = fiber->thread / WARP;
    uint32_t lane = fiber->thread % WARP;
    if ((mask >> lane & 1) == 0) {
        snprintf(e->why, sizeof(e->why), "kernel %s: lane %u is not in the mask 0x%08x of its warp operation",
                 e->grid->kernel->name, lane, mask);
        give_up(e);
    }
    fiber->op = op;
    fiber->mask = mask;
    fiber->source = source;
    fiber->value = value;
    e->warp_waiting[warp][lane] = fiber;
    e->warp_waiters[warp] |= 1u << lane;
    if (warp_complete(e, warp, fiber)) {
        warp_release(e, warp, mask, op);
    } else {
        wait_here(e);
    }
    return fiber->result;
}

static void warp_barrier(struct gantry_host_thread *self, uint32_t mask)
{
    (void)warp_operation(self, WARP_BARRIER, mask, 0, 0);
}

static uint64_t shuffle(struct gantry_host_thread *self, uint32_t mask, uint64_t value, uint32_t source_lane)
{
    return warp_operation(self, WARP_SHUFFLE, mask, value, source_lane);
}

static uint32_t ballot(struct gantry_host_thread *self, uint32_t mask, int predicate)
{
    return (uint32_t)warp_operation(self, WARP_BALLOT, mask, predicate != 0, 0);
}

static uint64_t global_timer(struct gantry_host_thread *self)
{
    (void)self;
    return gy_clock_ns();
}

/* ---- stealing ------------------------------------------------------------------------------------ */

static _Noreturn void give_up_steal(struct engine *e)
{
    snprintf(e->why, sizeof(e->why), "kernel %s: block (%u, %u, %u) %s", e->grid->kernel->name,
             e->thread.block_index[0], e->thread.block_index[1], e->thread.block_index[2], e->steal.broken);
    give_up(e);
}

static void steal_begin(struct gantry_host_thread *self, uint64_t *barrier)
{
    (void)self;
    gy_emu_steal_init(barrier);
}

static void steal_send(struct gantry_host_thread *self, void *answer, uint64_t *barrier)
{
    struct engine *e = (struct engine *)self;
    if (!gy_emu_steal_send(&e->steal, e->grid, answer, barrier)) {
        give_up_steal(e);
    }
    struct fiber *fiber;
    while ((fiber = pop(&e->at_steal)) != NULL) {
        push(&e->ready, fiber);
    }
}

static void steal_wait(struct gantry_host_thread *self, uint64_t *barrier, uint32_t phase)
{
    struct engine *e = (struct engine *)self;
    while (!gy_emu_steal_arrived(&e->steal, barrier, phase)) {
        if (e->steal.broken != NULL) {
            give_up_steal(e);
        }
        push(&e->at_steal, e->current);
        wait_here(e);
    }
}

static int steal_granted(struct gantry_host_thread *self, const void *answer)
{
    struct engine *e = (struct engine *)self;
    bool granted = gy_emu_steal_granted(&e->steal, answer);
    if (e->steal.broken != NULL) {
        give_up_steal(e);
    }
    return granted;
}

static uint32_t steal_block(struct gantry_host_thread *self, const void *answer)
{
    struct engine *e = (struct engine *)self;
    uint64_t block = 0;
    if (!gy_emu_steal_block(&e->steal, answer, &block)) {
        give_up_steal(e);
    }
    return (uint32_t)(e->grid->gang != NULL ? gy_emu_gang_block(e->grid, block, 0) : block);
}

/* ---- other blocks -------------------------------------------------------------------------------- */

static _Noreturn void give_up_because(struct engine *e, const char *why)
{
    snprintf(e->why, sizeof(e->why), "kernel %s: block (%u, %u, %u): %s", e->grid->kernel->name,
             e->thread.block_index[0], e->thread.block_index[1], e->thread.block_index[2], why);
    give_up(e);
}

/* All threads of the block are there: wait for the other blocks, and let the threads go on. */
static void meet(struct engine *e)
{
    const char *why =
        e->grid->gang != NULL ? gy_emu_gang_meet(e->grid->gang, e->grid->member, e->meeting.where) : NULL;
    if (why != NULL) {
        give_up_because(e, why);
    }
    struct fiber *fiber;
    while ((fiber = pop(&e->meeting.threads)) != NULL) {
        push(&e->ready, fiber);
    }
    e->meeting.count = 0;
}

static void wait_at_meeting(struct engine *e, enum gy_emu_meeting where)
{
    if (e->meeting.count != 0 && e->meeting.where != where) {
        give_up_because(e, "its threads wait at the cluster's barrier and at the grid's at the same time");
    }
    e->meeting.where = where;
    if (e->meeting.count + 1 + e->exited == e->thread_count) {
        meet(e);
        return;
    }
    push(&e->meeting.threads, e->current);
    e->meeting.count++;
    wait_here(e);
}

static void cluster_barrier(struct gantry_host_thread *self)
{
    wait_at_meeting((struct engine *)self, GY_EMU_MEET_CLUSTER);
}

static void grid_barrier(struct gantry_host_thread *self)
{
    struct engine *e = (struct engine *)self;
    if (self->is_cooperative == 0) {
        give_up_because(e, "a barrier of the whole grid in a launch that is not cooperative");
    }
    wait_at_meeting(e, GY_EMU_MEET_GRID);
}

static void *cluster_shared(struct gantry_host_thread *self, const void *pointer, uint32_t rank)
{
    struct engine *e = (struct engine *)self;
    const uintptr_t offset = (uintptr_t)pointer - (uintptr_t)self->dynamic_shared;
    if (self->dynamic_shared == NULL || offset >= self->dynamic_shared_bytes) {
        give_up_because(e, "gantry_cluster_shared() of an address outside of the dynamic shared memory");
    }
    void *shared = self->dynamic_shared;
    if (e->grid->gang != NULL) {
        shared = gy_emu_gang_shared_of(e->grid->gang, e->grid->member, rank);
    } else if (rank != 0) {
        shared = NULL;
    }
    if (shared == NULL) {
        give_up_because(e, "gantry_cluster_shared() of a block that its cluster does not have, or before the "
                           "cluster's blocks have met at gantry_cluster_sync()");
    }
    return (char *)shared + offset;
}

static void wait_for_earlier(struct gantry_host_thread *self)
{
    ((struct engine *)self)->has_waited = true;
}

static void steal_tell(struct gantry_host_thread *self, uint32_t slot, uint32_t rank, const uint32_t words[4])
{
    struct engine *e = (struct engine *)self;
    const char *why = e->grid->gang == NULL
                          ? "tells a cluster of what it got, and has none"
                          : gy_emu_gang_tell(e->grid->gang, e->grid->member, slot, rank, words);
    if (why != NULL) {
        give_up_because(e, why);
    }
}

static void steal_hear(struct gantry_host_thread *self, uint32_t slot, uint32_t words[4])
{
    struct engine *e = (struct engine *)self;
    if (e->grid->gang == NULL || !gy_emu_gang_hear(e->grid->gang, e->grid->member, slot, words)) {
        give_up_because(e, "asks what its cluster got before it was told at gantry_cluster_sync()");
    }
}

static void set_condition(struct gantry_host_thread *self, uint64_t handle, uint32_t value)
{
    struct engine *e = (struct engine *)self;
    if (e->grid->set_condition == NULL || !e->grid->set_condition(handle, value)) {
        give_up_because(e, "sets the value of a condition that no graph has");
    }
}

/* ---- threads ------------------------------------------------------------------------------------ */

/* A thread has ended: let threads go on that waited only for it. */
static void thread_exited(struct engine *e, uint32_t thread)
{
    uint32_t warp = thread / WARP;
    e->exited++;
    e->warp_exited[warp] |= 1u << (thread % WARP);
    if (e->at_barrier_count != 0 && e->at_barrier_count + e->exited == e->thread_count) {
        release_barrier(e);
    }
    if (e->meeting.count != 0 && e->meeting.count + e->exited == e->thread_count) {
        meet(e);
    }
    for (uint32_t left = e->warp_waiters[warp]; left != 0; left &= left - 1) {
        struct fiber *fiber = e->warp_waiting[warp][__builtin_ctz(left)];
        if (fiber != NULL && warp_complete(e, warp, fiber)) {
            warp_release(e, warp, fiber->mask, fiber->op);
        }
    }
}

static void run_next_thread(struct engine *e)
{
    struct fiber *fiber = e->current;
    fiber->thread = e->next_thread++;
    memcpy(e->thread.thread_index, e->next_index, sizeof(e->next_index));
    if (++e->next_index[0] == e->grid->block_size[0]) {
        e->next_index[0] = 0;
        if (++e->next_index[1] == e->grid->block_size[1]) {
            e->next_index[1] = 0;
            e->next_index[2]++;
        }
    }
    e->grid->kernel->run(&e->thread, e->grid->args);
    thread_exited(e, fiber->thread);
}

/* The life of a fiber: it never returns, but is idle between its uses. */
static void fiber_main(void)
{
    struct engine *e = own_engine;
    gy_fiber_entered();
    for (;;) {
        while (e->ready.first == NULL && e->next_thread < e->thread_count) {
            run_next_thread(e);
        }
        struct fiber *next = pop(&e->ready);
        if (next == NULL && e->exited != e->thread_count) {
            give_up_deadlock(e);
        }
        put_idle(e, e->current);
        switch_to(e, next != NULL ? next : &e->host);
    }
}

/* ---- blocks ------------------------------------------------------------------------------------- */

static const struct gantry_host_ops ops = {
    .block_barrier = block_barrier,
    .warp_barrier = warp_barrier,
    .shuffle = shuffle,
    .ballot = ballot,
    .global_timer = global_timer,
    .steal_begin = steal_begin,
    .steal_send = steal_send,
    .steal_wait = steal_wait,
    .steal_granted = steal_granted,
    .steal_block = steal_block,
    .cluster_barrier = cluster_barrier,
    .grid_barrier = grid_barrier,
    .cluster_shared = cluster_shared,
    .wait_for_earlier = wait_for_earlier,
    .set_condition = set_condition,
    .steal_tell = steal_tell,
    .steal_hear = steal_hear,
};

/* Map memory; NULL: out of memory. */
static void *map_memory(size_t bytes)
{
    if (gy_fault_should_fail()) {
        return NULL;
    }
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

/* The calling OS thread's engine; NULL when out of memory. */
static struct engine *get_engine(void)
{
    if (own_engine == NULL) {
        struct engine *e = map_memory(sizeof(*e));
        if (e == NULL) {
            return NULL;
        }
        e->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
        e->thread.ops = &ops;
        e->thread.engine = e;
        own_engine = e;
    }
    return own_engine;
}

static bool reserve_shared(struct engine *e, size_t bytes)
{
    if (bytes > e->shared_bytes) {
        size_t rounded = (bytes + e->page_bytes - 1) / e->page_bytes * e->page_bytes;
        void *memory = map_memory(rounded);
        if (memory == NULL) {
            return false;
        }
        if (e->shared != NULL) {
            munmap(e->shared, e->shared_bytes);
        }
        e->shared = memory;
        e->shared_bytes = rounded;
    }
    e->thread.dynamic_shared = e->shared;
    e->thread.dynamic_shared_bytes = bytes;
    return true;
}

static void begin_block(struct engine *e, const struct gy_emu_grid *grid, uint64_t block, uint32_t sm)
{
    struct gantry_host_thread *t = &e->thread;
    memcpy(t->block_size, grid->block_size, sizeof(t->block_size));
    memcpy(t->grid_size, grid->grid_size, sizeof(t->grid_size));
    t->block_index[0] = (uint32_t)(block % grid->grid_size[0]);
    t->block_index[1] = (uint32_t)(block / grid->grid_size[0] % grid->grid_size[1]);
    t->block_index[2] = (uint32_t)(block / grid->grid_size[0] / grid->grid_size[1]);
    t->sm = sm;
    const bool has_cluster = grid->gang != NULL;
    t->can_steal = grid->take != NULL && !has_cluster;
    t->can_steal_clusters = grid->take != NULL && has_cluster;
    t->is_cooperative = grid->is_cooperative;
    for (int i = 0; i < 3; i++) {
        t->cluster_size[i] = grid->cluster[i] != 0 ? grid->cluster[i] : 1;
    }
    e->has_waited = false;
    if (grid->gang != NULL) {
        gy_emu_gang_share(grid->gang, grid->member, e->shared);
    }
    e->grid = grid;
    e->steal = (struct gy_emu_steal){.broken = NULL};
    e->next_thread = 0;
    memset(e->next_index, 0, sizeof(e->next_index));
    e->exited = 0;
    memset(e->warp_exited, 0, sizeof(e->warp_exited));
    uint32_t in_last_warp = e->thread_count % WARP;
    if (in_last_warp != 0) {
        e->warp_exited[e->thread_count / WARP] = ~0u << in_last_warp;
    }
    e->failed = false;
}

/* After a failure, no thread waits, and the stacks of the waiting threads are used anew. */
static void abandon_block(struct engine *e)
{
    for (struct fiber *fiber = e->all; fiber != NULL; fiber = fiber->next_all) {
        if (!fiber->is_idle) {
            gy_fiber_rewind(&fiber->base);
            put_idle(e, fiber);
        }
    }
    memset(e->warp_waiting, 0, sizeof(e->warp_waiting));
    memset(e->warp_waiters, 0, sizeof(e->warp_waiters));
    e->at_barrier.first = NULL;
    e->at_barrier_count = 0;
    e->at_steal.first = NULL;
    e->meeting.threads.first = NULL;
    e->meeting.count = 0;
    e->ready.first = NULL;
}

bool gy_emu_exec_block(const struct gy_emu_grid *grid, uint64_t block, uint32_t sm)
{
    struct engine *e = get_engine();
    if (e == NULL) {
        return false;
    }
    uint64_t threads = (uint64_t)grid->block_size[0] * grid->block_size[1] * grid->block_size[2];
    if (threads == 0 || threads > MAX_THREADS) {
        snprintf(e->why, sizeof(e->why), "kernel %s: a block of %u x %u x %u threads", grid->kernel->name,
                 grid->block_size[0], grid->block_size[1], grid->block_size[2]);
        return false;
    }
    e->thread_count = (uint32_t)threads;
    struct fiber *first = NULL;
    if (reserve_shared(e, grid->dynamic_shared_bytes)) {
        first = take_fiber(e);
    }
    if (first == NULL) {
        snprintf(e->why, sizeof(e->why), "kernel %s: out of memory for a block", grid->kernel->name);
        return false;
    }
    begin_block(e, grid, block, sm);
    e->current = &e->host;
    gy_fiber_adopt_thread(&e->host.base);
    switch_to(e, first);
    if (!e->failed && !gy_emu_steal_ended(&e->steal)) {
        snprintf(e->why, sizeof(e->why), "kernel %s: block (%u, %u, %u) %s", grid->kernel->name,
                 e->thread.block_index[0], e->thread.block_index[1], e->thread.block_index[2],
                 e->steal.broken);
        return false;
    }
    if (e->failed) {
        abandon_block(e);
        return false;
    }
    if (grid->must_wait && !e->has_waited) {
        snprintf(e->why, sizeof(e->why),
                 "kernel %s: block (%u, %u, %u) was allowed to start early and has ended without "
                 "gantry_wait_for_earlier(): it and all that comes after it may overtake earlier work",
                 grid->kernel->name, e->thread.block_index[0], e->thread.block_index[1],
                 e->thread.block_index[2]);
        return false;
    }
    return true;
}

const char *gy_emu_exec_why(void)
{
    return own_engine != NULL ? own_engine->why : "out of memory for the block engine";
}

void gy_emu_exec_thread_end(void)
{
    struct engine *e = own_engine;
    if (e == NULL) {
        return;
    }
    struct fiber *next;
    for (struct fiber *fiber = e->all; fiber != NULL; fiber = next) {
        next = fiber->next_all;
        gy_fiber_destroy(&fiber->base);
    }
    if (e->shared != NULL) {
        munmap(e->shared, e->shared_bytes);
    }
    own_engine = NULL;
    munmap(e, sizeof(*e));
}
