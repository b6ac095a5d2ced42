/* SPDX-License-Identifier: MIT */
/* The emulator's threads.  A worker takes an operation under the lock, executes it without, and completes
 * it under the lock again.  A kernel's grid is open to any gpu worker of its device that has nothing else to
 * do: blocks are handed out by an atomic counter, and the last thread to leave the grid completes the launch.
 * Between two blocks a thread leaves the grid for a more urgent kernel, and a block that asks for another one
 * is refused meanwhile, as devices do.
 * Each device has threads of its own, so that one device never waits for what another one executes.
 *
 * Waking: a thread that makes operations ready counts tokens for sleepers under the lock and signals after it
 * has given the lock back, so that a push costs at most one futex call and mostly none. */
#include "emulator/worker.h"

#include "emulator/clock.h"
#include "emulator/condition.h"
#include "emulator/context.h"
#include "emulator/exec.h"
#include "emulator/fault.h"
#include "emulator/gang.h"
#include "emulator/logs.h"
#include "emulator/order.h"
#include "emulator/peer.h"
#include "emulator/proof.h"
#include "emulator/work.h"

#include "base/clock.h"
#include "base/cpus.h"
#include "base/sanitizers.h"
#include "base/status.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>
#define VALUE_POLL_NS 50000
/* So long nobody takes a block: those that run may wait for others.  A sanitizer makes blocks slower, and
 * each thread of a block costs TSan about a megabyte and some of the mappings that a process may have. */
#define STUCK_NS ((GY_WITH_TSAN ? 25 : GY_WITH_ASAN ? 5 : 1) * 20000000ull)
#define MOST_GPU_WORKERS (GY_WITH_TSAN ? 24u : MAX_GPU_WORKERS) /* that are started by themselves */
#define STEALING_MAJOR 10 /* compute capability with Cluster Launch Control */

static atomic_uint_fast64_t steals;        /* blocks that were taken over */
static atomic_uint_fast64_t refuse_every;  /* one of so many requests is refused; 0: none but the last ones */
static atomic_uint_fast64_t requests_made; /* requests since that was set */

static _Thread_local CUresult trapped;
static _Thread_local const char *cause; /* the cause of `trapped`; NULL: the kernel itself */

void gy_emu_trap(CUresult result)
{
    if (trapped == CUDA_SUCCESS) {
        trapped = result;
    }
}

/* ---- stealing -------------------------------------------------------------------------------- */

/* The blocks of a cluster; 1 without. */
static uint32_t cluster_size(const struct gy_emu_attributes *attributes)
{
    const uint32_t size = attributes->cluster[0] * attributes->cluster[1] * attributes->cluster[2];
    return size > 1 ? size : 1;
}

/* Does a kernel wait that is more urgent than this one? */
static bool is_in_the_way(const struct gy_emu_op *op)
{
    const struct crews *crews = &gy_emu_crews[op->work.context->device->ordinal];
    return atomic_load_explicit(&crews->most_urgent, memory_order_relaxed) < op->priority;
}

/* A block of the grid asks for one that has not started, or its cluster for a cluster.  A device may refuse
 * although there is one: for a more urgent kernel, or as a test says. */
static bool take_unit(void *grid, uint64_t *unit)
{
    struct gy_emu_op *op = grid;
    if (is_in_the_way(op)) {
        return false;
    }
    uint64_t every = atomic_load_explicit(&refuse_every, memory_order_relaxed);
    uint64_t number = atomic_fetch_add_explicit(&requests_made, 1, memory_order_relaxed) + 1;
    if (every != 0 && number % every == 0) {
        return false;
    }
    *unit = atomic_fetch_add_explicit(&op->next_block, 1, memory_order_relaxed);
    if (*unit >= op->blocks) {
        return false;
    }
    atomic_fetch_add_explicit(&steals, cluster_size(&op->work.kernel.attributes), memory_order_relaxed);
    return true;
}

void gy_emu_steals_refuse(uint64_t every)
{
    atomic_store_explicit(&requests_made, 0, memory_order_relaxed);
    atomic_store_explicit(&refuse_every, every, memory_order_relaxed);
}

uint64_t gy_emu_steals(void)
{
    return atomic_load_explicit(&steals, memory_order_relaxed);
}

/* ---- waking ---------------------------------------------------------------------------------- */

static void plan_and_signal(void)
{
    struct gy_emu_wakes wakes;
    if (gy_emu_crews_plan(&wakes)) {
        gy_emu_crews_signal(&wakes);
    }
}

static void sleep_in(struct crew *crew) GY_NO_ANALYSIS
{
    plan_and_signal();
    crew->sleeping++;
    while (crew->tokens == 0) {
        gy_cond_wait(&crew->cond, &gy_emu_lock);
    }
    crew->tokens--;
}

/* Sleep for a short time.  The thread does not count as sleeping, since it wakes soon by itself. */
static void sleep_shortly(struct crew *crew) GY_NO_ANALYSIS
{
    plan_and_signal();
    gy_cond_wait_until(&crew->cond, &gy_emu_lock, gy_clock_ns() + VALUE_POLL_NS);
}

/* As sleep_in() for the only thread of a crew, which wakes after a while without a token, too. */
static void sleep_for_a_while(struct crew *crew) GY_NO_ANALYSIS
{
    plan_and_signal();
    crew->sleeping++;
    gy_cond_wait_until(&crew->cond, &gy_emu_lock, gy_clock_ns() + STUCK_NS);
    crew->sleeping -= crew->tokens == 0;
    crew->tokens = 0;
}

static void unlock(void) GY_NO_ANALYSIS
{
    struct gy_emu_wakes wakes;
    const bool wakes_any = gy_emu_crews_plan(&wakes);
    gy_mutex_unlock(&gy_emu_lock);
    if (wakes_any) {
        gy_emu_crews_signal(&wakes);
    }
}

static void lock(void) GY_NO_ANALYSIS
{
    gy_mutex_lock(&gy_emu_lock);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void finish(struct gy_emu_op *op)
{
    gy_emu_order_end(op);
    if (op->failure != CUDA_SUCCESS) {
        gy_emu_execution_fail(op->work.context, op->failure);
    }
    gy_emu_op_complete(op);
    gy_emu_pump();
}

/* ---- kernels --------------------------------------------------------------------------------- */

static uint32_t sm_of(void *owner, uint64_t block)
{
    const struct gy_emu_op *op = owner;
    const struct gy_emu_context *context = op->work.context;
    return context->sms[(op->first_sm + block) % context->sm_count];
}

static void hear_of_block(void *owner, uint64_t block, bool begins)
{
    if (begins) {
        gy_emu_proof_enter(owner, block);
    } else {
        gy_emu_proof_leave();
    }
}

static CUresult take_trap(void)
{
    const CUresult result = trapped;
    trapped = CUDA_SUCCESS;
    return result;
}

/* Blocks that wait for each other are run together. */
static bool needs_gang(const struct gy_emu_op *op)
{
    return op->work.kernel.attributes.is_cooperative || cluster_size(&op->work.kernel.attributes) > 1;
}

static void fill_grid(struct gy_emu_op *op, struct gy_emu_grid *grid)
{
    const struct gy_emu_attributes *attributes = &op->work.kernel.attributes;
    *grid = (struct gy_emu_grid){.kernel = op->work.kernel.code,
                                 .dynamic_shared_bytes = op->work.kernel.dynamic_shared_bytes,
                                 .args = op->work.kernel.args->pointers,
                                 .grid_owner = op,
                                 .is_cooperative = attributes->is_cooperative != 0,
                                 .must_wait = attributes->starts_early != 0,
                                 .sm_of = sm_of,
                                 .hear = hear_of_block,
                                 .set_condition = gy_emu_condition_set,
                                 .take_trap = take_trap};
    if (op->work.context->device->profile->major >= STEALING_MAJOR && !grid->is_cooperative) {
        grid->take = take_unit;
    }
    memcpy(grid->grid_size, op->work.kernel.grid, sizeof(grid->grid_size));
    memcpy(grid->block_size, op->work.kernel.block, sizeof(grid->block_size));
    for (int i = 0; i < 3; i++) {
        grid->cluster[i] = attributes->cluster[i] != 0 ? attributes->cluster[i] : 1;
    }
}

/* Run one unit of the grid; its failure is noted in `trapped` and `cause`. */
static void run_unit(struct gy_emu_op *op, const struct gy_emu_grid *grid, uint64_t unit)
{
    if (!needs_gang(op)) {
        hear_of_block(op, unit, true);
        if (!gy_emu_exec_block(grid, unit, sm_of(op, unit))) {
            gy_emu_trap(CUDA_ERROR_LAUNCH_FAILED);
            cause = gy_emu_exec_why();
        }
        hear_of_block(op, unit, false);
        return;
    }
    static _Thread_local char why[320];
    const bool is_whole = op->work.kernel.attributes.is_cooperative != 0;
    const uint32_t size = grid->cluster[0] * grid->cluster[1] * grid->cluster[2];
    const uint64_t all = (uint64_t)grid->grid_size[0] * grid->grid_size[1] * grid->grid_size[2] / size;
    const CUresult result =
        gy_emu_gang_run(grid, is_whole ? 0 : unit, is_whole ? (uint32_t)all : 1, why, sizeof(why));
    if (result != CUDA_SUCCESS) {
        gy_emu_trap(result);
        cause = why;
    }
}

static void run_blocks(struct gy_emu_op *op)
{
    struct gy_emu_grid grid;
    fill_grid(op, &grid);
    trapped = CUDA_SUCCESS;
    cause = NULL;
    for (;;) {
        uint64_t unit = atomic_fetch_add_explicit(&op->next_block, 1, memory_order_relaxed);
        if (unit >= op->blocks) {
            return;
        }
        run_unit(op, &grid, unit);
        if (trapped != CUDA_SUCCESS) {
            atomic_store_explicit(&op->next_block, op->blocks, memory_order_relaxed);
            return;
        }
        if (is_in_the_way(op)) {
            return;
        }
    }
}

/* The engine of blocks names the kernel itself. */
static void write_failure(const char *kernel)
{
    if (cause != NULL && strncmp(cause, "kernel ", 7) == 0) {
        snprintf(gy_emu_failure.text, sizeof(gy_emu_failure.text), "%s", cause);
    } else {
        snprintf(gy_emu_failure.text, sizeof(gy_emu_failure.text), "kernel %s: %s", kernel,
                 cause != NULL ? cause : "it trapped");
    }
}

/* One thread's part in a grid, until no block is left or a more urgent kernel waits.  The last one to leave
 * behind the last block completes it. */
static void work_on_grid(struct gy_emu_op *op)
{
    op->helpers++;
    unlock();
    run_blocks(op);
    lock();
    if (trapped != CUDA_SUCCESS && op->failure == CUDA_SUCCESS) {
        op->failure = trapped;
        gy_emu_failure_set(trapped);
        write_failure(op->work.kernel.code->name);
    }
    const bool are_taken = atomic_load_explicit(&op->next_block, memory_order_relaxed) >= op->blocks;
    if (are_taken && op->list != NULL) {
        gy_emu_list_remove(op); /* of the grids with blocks to take */
    }
    if (--op->helpers > 0 || !are_taken) {
        return;
    }
    if (op->failure == CUDA_SUCCESS) {
        op->failure = gy_emu_fault_kernel(op->work.context->device->ordinal);
    }
    gy_emu_clock_kernel_done();
    finish(op);
}

static void begin_kernel(struct gy_emu_op *op)
{
    struct gy_emu_context *context = op->work.context;
    const uint32_t *grid = op->work.kernel.grid;
    const struct gy_emu_attributes *attributes = &op->work.kernel.attributes;
    const uint64_t blocks = (uint64_t)grid[0] * grid[1] * grid[2];
    op->blocks = attributes->is_cooperative != 0 ? 1 : blocks / cluster_size(attributes);
    op->helpers = 0;
    op->first_sm = context->next_sm;
    context->next_sm = (uint32_t)((context->next_sm + blocks) % context->sm_count);
    atomic_store_explicit(&op->next_block, 0, memory_order_relaxed);
    if (!gy_emu_params_may_be_touched(context, op->work.kernel.code, op->work.kernel.args,
                                      gy_emu_failure.text, sizeof(gy_emu_failure.text))) {
        op->failure = CUDA_ERROR_ILLEGAL_ADDRESS;
        gy_emu_failure_set(op->failure);
        gy_emu_clock_kernel_done();
        finish(op);
        return;
    }
    if (op->blocks > 1) {
        gy_emu_list_insert(&gy_emu_crews[context->device->ordinal].grids, op);
    }
    work_on_grid(op);
}

/* ---- the rest -------------------------------------------------------------------------------- */

/* Look once at every value that a stream waits for. */
static void poll_values(struct crews *crews)
{
    struct gy_emu_list *polled = &crews->polled;
    for (uint32_t left = polled->count; left > 0 && polled->count > 0; left--) {
        struct gy_emu_op *op = gy_emu_list_pop(polled);
        bool may_start = op->log_number != 0 || gy_emu_take_allowed(crews->device);
        bool there = gy_emu_work_has_memory(&op->work);
        if (op->log_number == 0 && may_start) {
            gy_emu_order_begin(op);
            gy_emu_take_count(crews->device);
        }
        if (!may_start || (there && !gy_emu_work_reached(&op->work))) {
            gy_emu_list_append(polled, op);
            continue;
        }
        op->state = GY_EMU_OP_RUNNING;
        op->failure = there ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
        finish(op);
    }
}

static void run_plain(struct gy_emu_op *op)
{
    op->state = GY_EMU_OP_RUNNING;
    if (!gy_emu_work_has_memory(&op->work)) {
        op->failure = CUDA_ERROR_ILLEGAL_ADDRESS;
        finish(op);
        return;
    }
    unlock();
    gy_emu_proof_enter(op, 0);
    gy_emu_work_do(&op->work);
    gy_emu_proof_leave();
    lock();
    finish(op);
}

static void run(struct gy_emu_op *op)
{
    gy_emu_order_begin(op);
    gy_emu_take_count(op->work.context->device->ordinal);
    if (op->work.kind == GY_EMU_WORK_KERNEL) {
        op->state = GY_EMU_OP_RUNNING;
        begin_kernel(op);
    } else {
        run_plain(op);
    }
}

/* ---- threads --------------------------------------------------------------------------------- */

static void worker_main(void *arg);

/* Do short work first; then a kernel of its own, then a share in another's. */
static bool gpu_turn(struct crews *crews)
{
    struct gy_emu_op *op = NULL;
    if (gy_emu_take_allowed(crews->device)) {
        op = gy_emu_list_pop(&crews->copy.ready);
        if (op == NULL) {
            op = gy_emu_list_pop(&crews->gpu.ready);
        }
    }
    crews->gpu_turns++;
    if (op != NULL) {
        run(op);
    } else if (crews->grids.head != NULL) {
        work_on_grid(crews->grids.head);
    } else {
        return false;
    }
    return true;
}

static bool start_one(const char *name, struct crew *crew)
{
    struct crews *crews = crew->crews;
    gy_thread *thread = &crews->threads[crews->thread_count];
    const gantry_status status = gy_thread_start(thread, name, worker_main, crew);
    crews->thread_count += status == GANTRY_OK;
    return status == GANTRY_OK;
}

/* A device has room for many blocks: one that waits for the host, or for another one, holds up no kernel.
 * Here it keeps a thread.  So one more is started where all have been in the same blocks for a while and
 * something waits for a thread.  True: something does. */
static bool help_stuck(struct crews *crews)
{
    const struct gy_emu_op *grid = crews->grids.head;
    const uint64_t at = crews->gpu_turns + (grid != NULL ? atomic_load(&grid->next_block) : 0);
    if (!gy_emu_crews_lack_threads(crews)) {
        crews->stuck_ns = 0;
        return false;
    }
    if (crews->stuck_ns == 0 || crews->stuck_at != at) {
        crews->stuck_at = at;
        crews->stuck_ns = gy_clock_ns();
    } else if (gy_clock_ns() - crews->stuck_ns >= STUCK_NS && crews->thread_count < MOST_GPU_WORKERS + 2) {
        crews->may_grow = start_one("gantry-emu-gpu", &crews->gpu);
        crews->stuck_ns = gy_clock_ns();
    }
    return true;
}

/* While streams wait for values, or kernels for threads, the thread comes back to them by itself. */
static bool copy_turn(struct crews *crews)
{
    bool may_start = gy_emu_take_allowed(crews->device);
    struct gy_emu_op *op = may_start ? gy_emu_list_pop(&crews->copy.ready) : NULL;
    if (op != NULL) {
        run(op);
    }
    const bool is_stuck = help_stuck(crews);
    if (crews->polled.count == 0 && !is_stuck) {
        return op != NULL;
    }
    poll_values(crews);
    if (crews->polled.count > 0) {
        sleep_shortly(&crews->copy);
    } else if (is_stuck && crews->copy.ready.count == 0) {
        sleep_for_a_while(&crews->copy);
    }
    return true;
}

static bool host_turn(struct crews *crews)
{
    bool may_start = gy_emu_take_allowed(crews->device);
    struct gy_emu_op *op = may_start ? gy_emu_list_pop(&crews->host.ready) : NULL;
    if (op != NULL) {
        run(op);
    }
    return op != NULL;
}

static void worker_main(void *arg)
{
    static bool (*const turns[])(struct crews *) = {
        [CREW_GPU] = gpu_turn, [CREW_COPY] = copy_turn, [CREW_HOST] = host_turn};
    struct crew *crew = arg;
    lock();
    for (;;) {
        bool worked = turns[crew->kind](crew->crews);
        if (!worked) {
            sleep_in(crew);
        }
    }
}

static uint32_t usual_workers(void)
{
    const uint32_t cores = gy_cpus_usable_at_once();
    return cores < 2 ? 2 : cores > 4 ? 4 : cores;
}

static bool prepare_crew(struct crews *crews, struct crew *crew, enum crew_kind kind)
{
    crew->crews = crews;
    crew->kind = kind;
    return gy_cond_init(&crew->cond) == GANTRY_OK;
}

/* This is not the device's memory: the system has no threads left. */
static CUresult no_crews(void)
{
    const char *text = gy_error_last()->text, *tag = strstr(text, " [GANTRY_");
    gy_emu_explain("%.*s", (int)(tag != NULL ? (size_t)(tag - text) : strlen(text)), text);
    return CUDA_ERROR_OPERATING_SYSTEM;
}

CUresult gy_emu_crews_start(int device)
{
    struct crews *crews = &gy_emu_crews[device];
    if (crews->state != CREWS_NONE) {
        return crews->state == CREWS_RUNNING ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
    }
    crews->state = CREWS_FAILED;
    crews->device = device;
    if (!prepare_crew(crews, &crews->gpu, CREW_GPU) || !prepare_crew(crews, &crews->copy, CREW_COPY) ||
        !prepare_crew(crews, &crews->host, CREW_HOST)) {
        return no_crews();
    }
    gy_emu_crews_begin(device);
    uint32_t asked = 0;
    (void)gy_emu_read_number("GANTRY_EMU_THREADS", MAX_GPU_WORKERS, "it is ignored", &asked);
    crews->may_grow = asked == 0;
    const uint32_t n = asked != 0 ? asked : usual_workers();
    while (crews->gpu_workers < n && start_one("gantry-emu-gpu", &crews->gpu)) {
        crews->gpu_workers++;
    }
    if (crews->gpu_workers == 0 || !start_one("gantry-emu-copy", &crews->copy) ||
        !start_one("gantry-emu-host", &crews->host)) {
        return no_crews();
    }
    crews->state = CREWS_RUNNING;
    return CUDA_SUCCESS;
}
