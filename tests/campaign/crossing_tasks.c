/* SPDX-License-Identifier: MIT */
/* The bodies and callbacks of a crossing's tasks, and what they note. */
#include "tests/campaign/crossing.h"
#include "tests/support/emu_controls.h"

#include <string.h>

atomic_ullong cross_progress;

enum { CUDA_OUT_OF_MEMORY = 2 };

static uint32_t as_number(gantry_status status)
{
    return (uint32_t) - (int)status;
}

uint64_t cross_now(struct cross_run *run)
{
    return atomic_fetch_add(&run->clock, 1) + 1;
}

/* run() goes from one step to the next by itself; there each release of a task ends a step of it. */
uint32_t cross_step_of(struct cross_run *run, uint32_t node)
{
    const struct cross_program *p = run->program;
    uint32_t step = atomic_load(&run->step[p->nodes[node].manager]);
    if (cross_has(p, VALUE_RUNS)) {
        while (step + 1 < p->steps && atomic_load(&run->seen[step][node].releases) != 0) {
            step++;
        }
    }
    return step < p->steps ? step : p->steps - 1;
}

static void note_begin(struct cross_run *run, struct cross_seen *seen)
{
    unsigned long long none = 0, now = cross_now(run);
    (void)atomic_compare_exchange_strong(&seen->first_begin, &none, now);
    atomic_fetch_add(&seen->begins, 1);
}

static void note_end(struct cross_run *run, struct cross_seen *seen)
{
    atomic_store(&seen->last_end, cross_now(run));
    atomic_fetch_add(&seen->ends, 1);
}

/* ---- trouble --------------------------------------------------------------------------------- */

void cross_cancel(struct cross_run *run, uint32_t m)
{
    const struct cross_program *p = run->program;
    uint32_t step = atomic_load(&run->step[m]);
    gantry_status status = gantry_taskman_cancel(run->managers[m]);
    if (status == GANTRY_OK) {
        /* nobody knows in which step run() is */
        for (uint32_t s = step; s < (cross_has(p, VALUE_RUNS) ? p->steps : step + 1); s++) {
            atomic_fetch_add(&run->cancelled[s][m], 1);
        }
    } else if (status == GANTRY_ERR_STATE) {
        atomic_fetch_add(&run->cancel_refused, 1);
    } else {
        cross_break(run, "gantry_taskman_cancel() says %s", gantry_status_name(status));
    }
}

void cross_make_lost(struct cross_run *run)
{
    atomic_store(&run->lost, 1);
    gantry_dispatcher_force_failure(gantry_context_dispatcher(run->context));
}

void cross_give_back(struct cross_run *run, uint32_t node, gantry_status cause)
{
    const struct cross_program *p = run->program;
    uint32_t m = p->nodes[node].manager, step = atomic_load(&run->step[m]);
    atomic_fetch_add(&run->seen[step][node].failed_by, cause != GANTRY_OK ? 1 : 0);
    gantry_status status = cause != GANTRY_OK ? gantry_task_fail_reference(run->tasks[node], cause)
                                              : gantry_task_remove_reference(run->tasks[node]);
    if (status != GANTRY_OK) {
        atomic_store(&run->seen[step][node].failed_by, 0);
    }
    bool runs = (p->part[step] >> node & 1) != 0 && run->start[step][m] == GANTRY_OK;
    if (status != GANTRY_OK && status != GANTRY_ERR_STATE) {
        cross_break(run, "a reference of node %u: %s: %s", node, gantry_status_name(status),
                    gantry_last_error());
    } else if (status != GANTRY_OK && runs && !cross_has(p, VALUE_RUNS)) {
        cross_break(run, "a reference of node %u, which waits for it in step %u, is refused: %s", node, step,
                    gantry_last_error());
    } else if (status == GANTRY_OK && cross_has(p, VALUE_PARTS) && (p->part[step] >> node & 1) == 0) {
        cross_break(run, "a reference of node %u was given back in step %u, of which it is no part", node,
                    step);
    }
    atomic_fetch_add(&run->references_given, status == GANTRY_OK ? 1 : 0);
}

/* A node cancels its own manager. */
static void cancel_here(struct cross_run *run, int value, uint32_t node, uint32_t step)
{
    if (cross_cancels_at(run->program, value, node, step)) {
        cross_cancel(run, run->program->nodes[node].manager);
    }
}

/* ---- CPU tasks ------------------------------------------------------------------------------- */

static gantry_status run_light(gantry_task *task, void *arg)
{
    const struct cross_arg *a = arg;
    struct cross_run *run = a->run;
    uint32_t next = run->program->nodes[a->node].continuation; /* a node that is not released yet */
    struct cross_seen *seen = &run->seen[cross_step_of(run, next)][a->node];
    (void)task;
    atomic_store(&seen->light_end, cross_now(run));
    atomic_fetch_add(&seen->light_run, 1);
    return GANTRY_OK;
}

static gantry_status run_added_failing(gantry_task *task, void *arg)
{
    (void)run_light(task, arg);
    return GANTRY_ERR_IO;
}

/* A task that is submitted while its manager runs. */
static gantry_status add_task(struct cross_run *run, uint32_t node, uint32_t step, struct cross_arg *arg,
                              gantry_task *next)
{
    const struct cross_program *p = run->program;
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_task *added = NULL;
    const struct cross_trouble *trouble = cross_fails(p, VALUE_BODY);
    bool fails = trouble != NULL && trouble->step == step && cross_pick(p, 2000, node, 2) == 0;
    desc.run = fails ? run_added_failing : run_light;
    desc.arg = arg;
    gantry_status status = gantry_taskman_submit(run->managers[p->nodes[node].manager], &desc, &added);
    if (status != GANTRY_OK) {
        return status;
    }
    status = gantry_task_finish_before(added, next);
    if (fails && status == GANTRY_OK) {
        atomic_fetch_add(&run->seen[step][p->nodes[node].continuation].doomed, 1);
        atomic_fetch_add(&run->added_failed, 1);
    }
    gantry_status removed = gantry_task_remove_reference(added);
    return status != GANTRY_OK ? status : removed;
}

static void make_light(struct cross_run *run, uint32_t node, uint32_t step, struct cross_arg *arg)
{
    const struct cross_program *p = run->program;
    gantry_taskman *manager = run->managers[p->nodes[node].manager];
    struct cross_seen *seen = &run->seen[step][node];
    for (uint32_t i = 0; i < p->nodes[node].light; i++) {
        gantry_task *next = run->tasks[p->nodes[node].continuation], *light = NULL;
        gantry_status status;
        atomic_fetch_add(&seen->light_made, 1);
        if (p->nodes[node].light_value == VALUE_SPAWNED) {
            status = gantry_taskman_spawn(manager, run_light, arg, "light", next);
        } else if (p->nodes[node].light_value == VALUE_LIGHT) {
            status = gantry_taskman_create_light(manager, run_light, arg, "light", next, &light);
            status = status == GANTRY_OK ? gantry_task_remove_reference(light) : status;
        } else {
            status = add_task(run, node, step, arg, next);
        }
        if (status != GANTRY_OK) {
            cross_break(run, "node %u makes a task in step %u: %s: %s", node, step,
                        gantry_status_name(status), gantry_last_error());
        }
    }
}

static void look(struct cross_run *run, uint32_t node, uint32_t step)
{
    const struct cross_program *p = run->program;
    for (uint32_t i = 0; i < p->node_count; i++) {
        struct cross_seen *teller = &run->seen[step][i];
        if (p->nodes[i].tells == node && !p->nodes[i].dropped &&
            (atomic_load(&teller->told) != 0 || p->nodes[i].tell_value == VALUE_DONE)) {
            atomic_store(&teller->looked_version, __atomic_load_n(&run->cells[i].ended, __ATOMIC_ACQUIRE));
            atomic_store(&teller->looked, 1);
        }
    }
}

gantry_status cross_body(gantry_task *task, void *arg)
{
    struct cross_arg *a = arg;
    struct cross_run *run = a->run;
    const struct cross_program *p = run->program;
    uint32_t node = a->node, step = cross_step_of(run, node);
    struct cross_seen *seen = &run->seen[step][node];
    (void)task;
    note_begin(run, seen);
    look(run, node, step);
    if (p->nodes[node].light != 0) {
        make_light(run, node, step, arg);
    }
    cancel_here(run, VALUE_CANCEL_BODY, node, step);
    gantry_status status = cross_fails_at(p, node, step) != NULL ? GANTRY_ERR_IO : GANTRY_OK;
    struct cross_cell *cell = &run->cells[node];
    __atomic_store_n(&cell->begun, cell->begun + 1, __ATOMIC_RELAXED);
    __atomic_store_n(&cell->ended, cell->begun, __ATOMIC_RELEASE);
    atomic_store(&seen->returned, as_number(status));
    note_end(run, seen);
    return status;
}

/* ---- GPU tasks ------------------------------------------------------------------------------- */

static struct cross_cell *cell_of(const struct cross_run *run, uint32_t node)
{
    return (struct cross_cell *)(run->cells_device + node * sizeof(struct cross_cell));
}

/* The stamps of a step come after those of the steps before; where they need not, a task has none.  What is
 * planted is that a task writes its own one byte off, where its neighbour's begins. */
static uint8_t *stamp_of(const struct cross_run *run, uint32_t node, bool is_own)
{
    const struct cross_program *p = run->program;
    const struct cross_node *n = &p->nodes[node];
    if (!p->has_stamps || n->independent || !cross_is_gpu(n) || cross_has(p, VALUE_FREE_STEPS)) {
        return NULL;
    }
    return run->cells_device + CROSS_STAMPS_AT + node * CROSS_STAMP +
           (is_own && node == p->stamp_off ? 1 : 0);
}

static gantry_status enqueue_kernel(struct cross_run *run, gantry_launch *launch, uint32_t node)
{
    const struct cross_node *n = &run->program->nodes[node];
    struct cross_work work;
    gantry_dim3 one = {1, 1, 1};
    void *args[] = {&work};
    memset(&work, 0, sizeof(work));
    work.self = cell_of(run, node);
    work.records = (struct cross_record *)run->records_device + (size_t)node * CROSS_RECORDS;
    work.read_count = n->read_count;
    work.pause_ns = n->pause_ns;
    work.sees_copies = !n->independent;
    work.stamp = stamp_of(run, node, true);
    for (uint32_t i = 0; i < n->read_count; i++) {
        work.reads[i] = cell_of(run, n->reads[i]);
        work.stamps[i] = stamp_of(run, n->reads[i], false);
    }
    return gantry_launch_kernel(launch, run->kernels[n->device], one, one, 0, args);
}

/* For a task beside the graph, which reads nothing. */
gantry_status cross_enqueue_extra(struct cross_run *run, gantry_launch *launch, uint32_t cell)
{
    struct cross_work work;
    gantry_dim3 one = {1, 1, 1};
    void *args[] = {&work};
    memset(&work, 0, sizeof(work));
    work.self = cell_of(run, NODES_MOST + cell);
    work.records = (struct cross_record *)run->records_device + (size_t)(NODES_MOST + cell) * CROSS_RECORDS;
    return gantry_launch_kernel(launch, run->kernel, one, one, 0, args);
}

uint32_t *cross_copy_source(struct cross_cell *cell, const struct cross_node *node)
{
    return node->independent ? &cell->nothing : &cell->ended;
}

uint32_t *cross_copy_dest(struct cross_cell *cell, const struct cross_node *node, uint32_t step)
{
    return node->independent ? &cell->apart[step] : &cell->copied;
}

/* Copy `ended` to `copied` by way of device memory.  (A replay in another step uses the place of the step
 * in which it was recorded; replays of one graph do not overlap.) */
static gantry_status enqueue_copy(struct cross_run *run, gantry_launch *launch, uint32_t node, uint32_t step)
{
    const struct cross_node *n = &run->program->nodes[node];
    const uint32_t *source = cross_copy_source(&run->cells[node], n);
    uint32_t *dest = cross_copy_dest(&run->cells[node], n, step);
    uint8_t *middle =
        (uint8_t *)run->scratches[n->device] + (size_t)node * 64 + (n->independent ? 8 * step : 0);
    gantry_copy_desc there = {.dest = middle, .source = source, .bytes = 4, .type = GANTRY_COPY_HTOD};
    gantry_copy_desc back = {.dest = dest, .source = middle, .bytes = 4, .type = GANTRY_COPY_DTOH};
    gantry_status status;
    atomic_fetch_add(&run->done[n->copies], 1);
    if (n->copies == VALUE_BEYOND) { /* the library refuses it, and the task is not harmed */
        uint8_t *last = (uint8_t *)run->scratches[n->device] + NODES_MOST * 64 - 4;
        status = gantry_launch_copy_htod(launch, last, run->cells, 64);
        atomic_fetch_add(&run->beyond, status == GANTRY_ERR_INVALID_ARGUMENT ? 1 : 0);
        if (status == GANTRY_OK) {
            cross_break(run, "node %u: a copy of 64 bytes to the last 4 of a block was taken", node);
        } else if (status != GANTRY_ERR_INVALID_ARGUMENT) {
            return status;
        }
    }
    if (n->copies == VALUE_ENGINE || n->copies == VALUE_BEYOND) {
        status = gantry_launch_copy_htod(launch, middle, source, 4);
        return status == GANTRY_OK ? gantry_launch_copy_dtoh(launch, dest, middle, 4) : status;
    }
    if (n->copies == VALUE_BATCH) {
        status = gantry_copy_launch(launch, &there, 1);
        return status == GANTRY_OK ? gantry_copy_launch(launch, &back, 1) : status;
    }
    status = gantry_copy_queue_enqueue(run->queues[node], &there);
    status = status == GANTRY_OK ? gantry_copy_queue_enqueue(run->queues[node], &back) : status;
    return status == GANTRY_OK ? gantry_copy_queue_flush(run->queues[node], launch) : status;
}

static gantry_status use_heap(struct cross_run *run, gantry_launch *launch, const struct cross_node *node)
{
    const int value = node->heap;
    bool here = value == VALUE_LAUNCH_ALLOC;
    gantry_heap *heap = run->heaps[node->device];
    void *block = NULL;
    gantry_status status =
        here
            ? gantry_launch_alloc(launch, GANTRY_MEMORY_DEVICE, 512, 0, GANTRY_ALLOC_SITE("crossing"), &block)
            : gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, 512, 0, GANTRY_ALLOC_SITE("crossing"), &block);
    if (status != GANTRY_OK) {
        return status;
    }
    status = gantry_launch_fill(launch, block, 7, 4, 128);
    gantry_status freed = gantry_free_after(block, launch);
    if (freed == GANTRY_ERR_DEVICE_LOST || freed == GANTRY_ERR_OUT_OF_HOST_MEMORY) {
        (void)gantry_heap_free(heap, block); /* it is still live */
    } else if (freed != GANTRY_OK) {
        cross_break(run, "gantry_free_after() says %s: %s", gantry_status_name(freed), gantry_last_error());
    }
    atomic_fetch_add(&run->done[value], 1);
    atomic_fetch_add(&run->heap_done, 1);
    return status;
}

/* Two declarations do not fit beside each other: this task's is held now, so the tasks of the other either
 * have not begun, or the GPU has passed all of them. */
static void check_memory(struct cross_run *run, uint32_t node, uint32_t step)
{
    const struct cross_program *p = run->program;
    const struct cross_node *n = &p->nodes[node];
    for (uint32_t tag = 0; tag < p->manager_count * GROUPS_MOST; tag++) {
        bool begun = false, passed = true;
        if (tag == n->manager * (uint32_t)GROUPS_MOST + n->group) {
            continue;
        }
        for (int round = 0; round < 2; round++) { /* first look whether one has begun */
            for (uint32_t i = 0; i < p->node_count; i++) {
                const struct cross_node *other = &p->nodes[i];
                struct cross_seen *seen = &run->seen[step][i];
                if (other->group == NOBODY || other->manager * (uint32_t)GROUPS_MOST + other->group != tag ||
                    (p->part[step] >> i & 1) == 0 || other->dropped || !cross_is_gpu(other) ||
                    other->device != n->device) {
                    continue;
                }
                begun = begun || (round == 0 && atomic_load(&seen->enqueued[0]) != 0);
                passed = passed && (atomic_load(&seen->enqueued[0]) == 0 ||
                                    __atomic_load_n(&run->cells[i].begun, __ATOMIC_ACQUIRE) ==
                                        __atomic_load_n(&run->cells[i].ended, __ATOMIC_ACQUIRE));
                passed = passed && (round == 0 || atomic_load(&seen->releases) != 0);
            }
        }
        if (begun && !passed) {
            atomic_store(&run->seen[step][node].group_overlap, tag + 1);
        }
    }
}

static bool polls_on(struct cross_run *run, uint32_t node, uint32_t step)
{
    uint32_t other = run->program->nodes[node].poll, m = run->program->nodes[other].manager;
    return (run->program->part[step] >> other & 1) != 0 && atomic_load(&run->gives_up) == 0 &&
           atomic_load(&run->ended[m]) <= step && atomic_load(&run->seen[step][other].releases) == 0;
}

/* The library refuses a call: the callback gives up. */
static gantry_launch_result refused(struct cross_run *run, struct cross_seen *seen, gantry_status status)
{
    atomic_store(&seen->refusal, as_number(status));
    (void)run;
    return GANTRY_LAUNCH_FAILED;
}

static gantry_launch_result fail_now(struct cross_run *run, struct cross_seen *seen, int value,
                                     uint32_t device)
{
    void *block = NULL;
    if (value == VALUE_FORCED) {
        cross_make_lost(run);
        return GANTRY_LAUNCH_FAILED;
    }
    if (value == VALUE_ABORT || value == VALUE_MEMORY_OUT) {
        atomic_store(value == VALUE_ABORT ? &run->aborted : &run->exhausted, 1);
        gantry_status status = gantry_heap_alloc(run->heaps[device], GANTRY_MEMORY_DEVICE, (size_t)1 << 50, 0,
                                                 GANTRY_ALLOC_SITE("too much"), &block);
        if (status != GANTRY_ERR_OUT_OF_DEVICE_MEMORY && status != GANTRY_ERR_DEVICE_LOST) {
            cross_break(run, "an allocation of 2^50 bytes says %s", gantry_status_name(status));
        }
    }
    atomic_store(&seen->returned, as_number(GANTRY_ERR_TASK_FAILED));
    return GANTRY_LAUNCH_FAILED;
}

/* The work of one call; `call` counts the calls that enqueue something. */
static gantry_launch_result enqueue(struct cross_run *run, gantry_launch *launch, uint32_t node,
                                    uint32_t step, uint32_t call)
{
    const struct cross_node *n = &run->program->nodes[node];
    struct cross_seen *seen = &run->seen[step][node];
    gantry_status status = GANTRY_OK;
    bool foreign = n->foreign != VALUE_NO_FOREIGN;
    /* it comes first, so that the call may be repeated */
    if (foreign && gantry_launch_stream(launch) == NULL) {
        return refused(run, seen, GANTRY_ERR_DRIVER);
    }
    if (n->asks && call == 0) {
        status = gantry_launch_request_sync_point(launch);
        atomic_fetch_add(&run->sync_points, 1);
    }
    status = status == GANTRY_OK ? enqueue_kernel(run, launch, node) : status;
    if (status == GANTRY_OK) {
        atomic_store(&seen->enqueued[call], 1);
        status = n->copies != VALUE_NO_COPY ? enqueue_copy(run, launch, node, step) : status;
    }
    status = status == GANTRY_OK && n->heap != VALUE_NO_HEAP ? use_heap(run, launch, n) : status;
    if (status != GANTRY_OK) {
        return refused(run, seen, status);
    }
    if (foreign) {
        gantry_launch_result result = cross_foreign(run, launch, node, step, call);
        if (result != GANTRY_LAUNCH_DONE) {
            return result;
        }
    }
    if (n->tells != NOBODY && n->tell_call == call && n->tell_value != VALUE_DONE) {
        uint32_t version = 0;
        for (uint32_t c = 0; c <= call; c++) {
            version += atomic_load(&seen->enqueued[c]);
        }
        atomic_store(&seen->told_version, version);
        status = gantry_launch_add_completion(launch, run->tasks[n->tells]);
        atomic_store(&seen->told, status == GANTRY_OK ? 1 : 0);
        bool may_be_late = (run->program->part[step] >> n->tells & 1) == 0;
        bool late = status == GANTRY_ERR_LATE_DEPENDENCY || status == GANTRY_ERR_STATE;
        if (status != GANTRY_OK && !(late && may_be_late)) {
            return refused(run, seen, status);
        }
        atomic_store(&seen->declined, as_number(status));
    }
    return GANTRY_LAUNCH_DONE;
}

static void note_index(struct cross_seen *seen, uint32_t index)
{
    uint32_t last = atomic_load(&seen->last_index);
    if (atomic_load(&seen->begins) == 1) {
        atomic_store(&seen->wrong_index, index != 0);
    } else if (index == last) {
        atomic_fetch_add(&seen->called_again, 1);
    } else if (index != last + 1) {
        atomic_store(&seen->wrong_index, 1);
    }
    if (atomic_load(&seen->finished) != 0 && index != last) {
        atomic_store(&seen->wrong_index, 1);
    }
    atomic_store(&seen->last_index, index);
}

_Thread_local bool cross_waits;

gantry_launch_result cross_launch(gantry_launch *launch, void *arg)
{
    struct cross_arg *a = arg;
    struct cross_run *run = a->run;
    const struct cross_program *p = run->program;
    uint32_t node = a->node, step = cross_step_of(run, node), index = (uint32_t)gantry_launch_index(launch);
    const struct cross_node *n = &p->nodes[node];
    struct cross_seen *seen = &run->seen[step][node];
    if (cross_waits && cross_has(p, VALUE_THREADS_ONLY)) {
        cross_break(run, "a callback was called by the thread that waits");
    }
    note_begin(run, seen);
    note_index(seen, index);
    atomic_store(&seen->declined, 0);
    gantry_launch_result result = GANTRY_LAUNCH_DONE;
    if (n->group != NOBODY && index == 0 && cross_has(p, VALUE_MEMORY_WAITS) && !cross_has(p, VALUE_RUNS)) {
        check_memory(run, node, step);
    }
    if (index == 0) {
        cancel_here(run, VALUE_CANCEL_LAUNCH, node, step);
    }
    uint32_t call = index >= n->idle ? index - n->idle : UINT32_MAX;
    if (n->poll != NOBODY) {
        call = index == 0 ? 0 : UINT32_MAX;
    }
    if (call < n->calls) {
        const struct cross_trouble *fails = cross_fails_at(p, node, step);
        if (fails != NULL && fails->call == call) { /* without having enqueued anything */
            result = fail_now(run, seen, fails->value, n->device);
        } else {
            result = enqueue(run, launch, node, step, call);
        }
        if (fails != NULL && fails->call == n->calls && call + 1 == n->calls &&
            result == GANTRY_LAUNCH_DONE) {
            result = fail_now(run, seen, fails->value, n->device);
        } else if (fails != NULL && fails->value == VALUE_ABORT && fails->call == call + 1) {
            /* between two calls: this one has enqueued, and the next one does not come */
            (void)fail_now(run, seen, fails->value, n->device);
            atomic_store(&seen->returned, 0);
        }
    }
    if (result == GANTRY_LAUNCH_DONE && (n->poll != NOBODY ? index == 0 || polls_on(run, node, step)
                                                           : index + 1 < n->idle + (uint32_t)n->calls)) {
        result = GANTRY_LAUNCH_AGAIN;
    }
    atomic_store(&seen->finished, result == GANTRY_LAUNCH_DONE ? 1 : 0);
    atomic_store(&seen->returned, result == GANTRY_LAUNCH_FAILED ? as_number(GANTRY_ERR_TASK_FAILED) : 0);
    note_end(run, seen);
    return result;
}

gantry_launch_result cross_launch_apart(gantry_launch *launch, void *arg)
{
    return cross_launch(launch, arg);
}

/* ---- all tasks ------------------------------------------------------------------------------- */

void cross_release(gantry_task *task, void *arg, gantry_status result)
{
    struct cross_arg *a = arg;
    struct cross_run *run = a->run;
    const struct cross_program *p = run->program;
    uint32_t node = a->node, step = cross_step_of(run, node);
    struct cross_seen *seen = &run->seen[step][node];
    (void)task;
    atomic_fetch_add_explicit(&cross_progress, 1, memory_order_relaxed);
    if (atomic_load(&run->resetting) != 0) {
        atomic_fetch_add(&run->reset_releases[node], 1);
        return;
    }
    atomic_store(&seen->result, as_number(result));
    atomic_fetch_add(&seen->releases, 1);
    cancel_here(run, VALUE_CANCEL_RELEASE, node, step);
    if (p->nodes[node].lets_go != NOBODY) {
        cross_give_back(run, p->nodes[node].lets_go, GANTRY_OK);
    }
}
