/* SPDX-License-Identifier: MIT */
/* Performs a program: everything is made anew for it, so that a seed is enough to repeat it. */
#include "tests/campaign/crossing.h"
#include "tests/support/emu_controls.h"

#include <pthread.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>

enum { ABOUT_THREAD = 3000, ABOUT_DRIVER, ABOUT_CHANGE, WAITER_THREADS = 3, CYCLE_WAITERS = 8 };

void cross_break(struct cross_run *run, const char *format, ...)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    va_list args;
    va_start(args, format);
    pthread_mutex_lock(&lock);
    if (run->broken == NULL) {
        (void)vsnprintf(run->broken_text, sizeof(run->broken_text), format, args);
        run->broken = run->broken_text;
    }
    pthread_mutex_unlock(&lock);
    va_end(args);
}

/* Keeps the first line of the log that says what went wrong, for the report of a broken rule. */
static void note_log(void *user, gantry_log_level level, const char *line)
{
    struct cross_run *run = user;
    if (level == GANTRY_LOG_ERROR && run->log_line[0] == '\0') {
        (void)snprintf(run->log_line, sizeof(run->log_line), "%s", line);
    }
}

bool cross_must(struct cross_run *run, gantry_status status, const char *what)
{
    if (status != GANTRY_OK) {
        cross_break(run, "%s: %s: %s", what, gantry_status_name(status), gantry_last_error());
    }
    return status == GANTRY_OK;
}

static void pause_us(uint32_t us)
{
    struct timespec time = {0, 1000L * us};
    (void)nanosleep(&time, NULL);
}

static bool is_frozen(const struct cross_program *p)
{
    return cross_has(p, VALUE_FROZEN) || cross_has(p, VALUE_PARTS) || cross_has(p, VALUE_RUNS);
}

/* ---- building a graph ------------------------------------------------------------------------ */

static bool submit(struct cross_run *run, uint32_t i)
{
    static const gantry_task_kind kinds[] = {[KIND_CPU] = GANTRY_TASK_CPU,
                                             [KIND_SYNC] = GANTRY_TASK_SYNC_POINT,
                                             [KIND_HTOD] = GANTRY_TASK_HTOD,
                                             [KIND_KERNEL] = GANTRY_TASK_KERNEL,
                                             [KIND_DTOH] = GANTRY_TASK_DTOH};
    const struct cross_program *p = run->program;
    const struct cross_node *n = &p->nodes[i];
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_task *named = NULL;
    char name[32];
    (void)snprintf(name, sizeof(name), "node %u", i);
    desc.kind = kinds[n->kind];
    desc.name = n->named ? name : NULL;
    static char labels[NODES_MOST][12]; /* the proof reports two labels once */
    snprintf(labels[i], sizeof(labels[i]), "node-%u", i);
    desc.label = p->has_stamps ? labels[i] : "node";
    desc.run = n->kind == KIND_CPU ? cross_body : NULL;
    desc.launch = !cross_is_gpu(n) ? NULL : n->apart ? cross_launch_apart : cross_launch;
    desc.release = cross_release;
    run->args[0][i] = run->args[1][i] = (struct cross_arg){run, i};
    desc.arg = &run->args[0][i];
    desc.is_stable = n->stable;
    desc.is_independent = n->independent;
    desc.memory = n->group != NOBODY ? run->groups[n->manager][n->group] : 0;
    if (n->kind == KIND_CPU && cross_has(p, VALUE_MIXED)) {
        desc.priority = (gantry_task_priority)((int)(i % 3) - 1);
    }
    desc.cpu_class = n->kind == KIND_CPU && cross_has(p, VALUE_CLASSES) ? i % 2 : 0;
    uint32_t partitions = gantry_partition_count(run->contexts[n->device]);
    if (cross_is_gpu(n) && !cross_has(p, VALUE_WHOLE) && n->partition < partitions) {
        desc.partition = gantry_partition_at(run->contexts[n->device], n->partition);
    }
    desc.context = cross_is_gpu(n) && run->fleet != NULL ? run->contexts[n->device] : NULL;
    if (n->named && cross_has(p, VALUE_FORWARD) &&
        !cross_must(run, gantry_taskman_get_named(run->managers[n->manager], name, &named), "forward name")) {
        return false;
    }
    bool done =
        cross_must(run, gantry_taskman_submit(run->managers[n->manager], &desc, &run->tasks[i]), "submit");
    if (done && named != NULL && named != run->tasks[i]) {
        cross_break(run, "the name of node %u was filled by another task", i);
    }
    return done;
}

static bool connect(struct cross_run *run, uint32_t i)
{
    const struct cross_node *n = &run->program->nodes[i];
    bool done = true;
    for (uint32_t k = 0; k < n->pred_count && done; k++) {
        gantry_task *pred = run->tasks[n->preds[k]], *task = run->tasks[i];
        const struct cross_node *teller = &run->program->nodes[n->preds[k]];
        bool is_done = teller->tells == i && teller->tell_value == VALUE_DONE;
        done = cross_must(run,
                          is_done            ? gantry_task_start_after_done(task, pred)
                          : (i + k) % 2 == 0 ? gantry_task_start_after(task, pred)
                                             : gantry_task_finish_before(pred, task),
                          "edge");
    }
    for (uint32_t k = 0; k < n->held && done; k++) {
        done = cross_must(run, gantry_task_add_reference(run->tasks[i]), "reference");
    }
    return done;
}

static bool is_of(const struct cross_program *p, uint32_t i, uint32_t manager)
{
    return p->nodes[i].manager == manager && !p->nodes[i].dropped;
}

static bool build(struct cross_run *run, uint32_t m)
{
    const struct cross_program *p = run->program;
    bool done = true;
    for (uint32_t g = 0; g < p->group_count && done; g++) {
        uint64_t bytes[GANTRY_MEMORY_KIND_COUNT] = {0};
        bytes[GANTRY_MEMORY_DEVICE] = p->group_bytes[g];
        done = cross_must(run, gantry_taskman_declare_memory(run->managers[m], bytes, &run->groups[m][g]),
                          "memory");
    }
    for (uint32_t i = 0; i < p->node_count && done; i++) {
        done = !is_of(p, i, m) || submit(run, i);
    }
    for (uint32_t i = 0; i < p->node_count && done; i++) {
        done = !is_of(p, i, m) || connect(run, i);
    }
    return done && cross_extras_build(run, m);
}

/* ---- a step ---------------------------------------------------------------------------------- */

struct stopping {
    struct cross_run *run;
    uint32_t manager, step;
    pthread_t thread;
    bool begun;
};

static void *stop_one(void *arg)
{
    struct stopping *s = arg;
    struct cross_run *run = s->run;
    cross_waits = true;
    if (cross_has(run->program, VALUE_WAIT)) {
        run->waited[s->step][s->manager] = gantry_taskman_wait(run->managers[s->manager]);
        atomic_fetch_add(&run->waits_done, 1);
    }
    run->stop[s->step][s->manager] = gantry_taskman_stop(run->managers[s->manager]);
    cross_beside_stopped(run, s->step, s->manager);
    cross_extras_stopped(run, s->step, s->manager, run->stop[s->step][s->manager]);
    atomic_store(&run->ended[s->manager], s->step + 1);
    return NULL;
}

static void *wait_one(void *arg)
{
    struct stopping *s = arg;
    cross_waits = true;
    gantry_status status = gantry_taskman_wait(s->run->managers[s->manager]);
    atomic_fetch_add(&s->run->waits_done, status != GANTRY_ERR_STATE ? 1 : 0);
    return NULL;
}

/* Cancels runs, and gives references back, from a thread that is none of the library's. */
static void *act(void *arg)
{
    struct stopping *s = arg;
    struct cross_run *run = s->run;
    const struct cross_program *p = run->program;
    const struct cross_trouble *debt = cross_cancels(p, VALUE_CANCEL_DEBT),
                               *cancel = cross_cancels(p, VALUE_CANCEL_THREAD);
    if (debt != NULL && debt->step == s->step) {
        cross_beside_cancel(run, s->step);
    }
    if (cancel != NULL && cancel->step == s->step) {
        pause_us(cross_pick(p, ABOUT_THREAD, 0, 400));
        cross_cancel(run, cancel->manager);
    }
    for (uint32_t i = 0; i < p->node_count; i++) {
        const struct cross_node *n = &p->nodes[i];
        if (n->dropped || !n->thread_lets_go || run->start[s->step][n->manager] != GANTRY_OK) {
            continue;
        }
        if (cross_pick(p, ABOUT_THREAD, i, 3) == 0) {
            pause_us(cross_pick(p, ABOUT_THREAD, i + 100, 100));
        }
        bool fails = cross_has(p, VALUE_REFERENCE_FAILED) && (i + s->step) % 3 == 0;
        cross_give_back(run, i, fails ? GANTRY_ERR_IO : GANTRY_OK);
    }
    return NULL;
}

/* Give back the references that nobody else gives back in this step: those of witnesses whose tasks do not
 * run. */
static void let_go(struct cross_run *run, uint32_t step)
{
    const struct cross_program *p = run->program;
    for (uint32_t i = 0; i < p->node_count; i++) {
        uint32_t held = p->nodes[i].lets_go, m = p->nodes[i].manager;
        if (held == NOBODY || p->nodes[i].dropped || run->start[step][p->nodes[held].manager] != GANTRY_OK) {
            continue;
        }
        if ((p->part[step] >> i & 1) == 0 || run->start[step][m] != GANTRY_OK) {
            cross_give_back(run, held, GANTRY_OK);
        }
    }
}

static void break_driver(const struct cross_program *p, uint32_t step)
{
    /* Most nodes share one of a few functions, which each step calls.  The first one takes copies; the last
     * ones, from GRAPHS_FROM on, graphs, and those from AGAIN_FROM on are for work that is launched again. */
    enum { COPIES = 1, GRAPHS_FROM = 9, AGAIN_FROM = 12, FUNCTIONS = 16 };
    static const char *const functions[FUNCTIONS] = {
        "cuMemcpyAsync",  "cuEventRecord",  "cuStreamWaitEvent",  "cuLaunchKernel",
        "cuLaunchKernel", "cuLaunchKernel", "cuLaunchKernel",     "cuLaunchKernel",
        "cuLaunchKernel", "cuLaunchKernel", "cuStreamEndCapture", "cuGraphLaunch",
        "cuGraphLaunch",  "cuGraphLaunch",  "cuGraphLaunch",      "cuGraphLaunch"};
    const struct cross_trouble *refused = cross_fails(p, VALUE_REFUSED), *fault = cross_fails(p, VALUE_FAULT);
    if (cross_is_device()) {
        return;
    }
    if (refused != NULL && refused->step == step) {
        uint32_t end = cross_has(p, VALUE_STREAMS)    ? GRAPHS_FROM
                       : cross_has(p, VALUE_REPLAYED) ? FUNCTIONS
                                                      : AGAIN_FROM;
        uint32_t from = cross_has(p, VALUE_ENGINE) || cross_has(p, VALUE_RAW_COPY) ? 0 : COPIES;
        uint32_t which = from + cross_pick(p, ABOUT_DRIVER, 0, end - from);
        (void)cross_emu.fail(functions[which], 1 + cross_pick(p, ABOUT_DRIVER, 1, 2), 2, GANTRY_EMU_ONCE);
    } else if (fault != NULL && fault->step == step && !cross_beside_breaks(p)) {
        (void)cross_emu.fail_kernel(1 + cross_pick(p, ABOUT_DRIVER, 2, 4), CROSS_FAULT, GANTRY_EMU_ONCE);
    }
}

static void start_one(struct cross_run *run, uint32_t step, uint32_t m)
{
    uint32_t root = run->program->roots[step][m];
    run->start[step][m] = root != NOBODY ? gantry_taskman_start_from(run->managers[m], &run->tasks[root], 1)
                                         : gantry_taskman_start(run->managers[m]);
}

/* False: parts are started one by one. */
static bool start_together(struct cross_run *run, uint32_t step)
{
    const struct cross_program *p = run->program;
    bool together = cross_has(p, VALUE_TOGETHER);
    for (uint32_t m = 0; m < p->manager_count; m++) {
        together = together && p->roots[step][m] == NOBODY;
    }
    if (!together) {
        return false;
    }
    for (uint32_t m = 0; m < p->manager_count; m++) {
        run->start[step][m] = GANTRY_OK; /* tasks may run before the call returns */
    }
    gantry_status status = gantry_taskman_start_all(run->managers, p->manager_count);
    for (uint32_t m = 0; m < p->manager_count && status != GANTRY_OK; m++) {
        run->start[step][m] = status;
    }
    atomic_fetch_add(&run->together, status == GANTRY_OK ? 1 : 0);
    return true;
}

static void started(struct cross_run *run, uint32_t step, uint32_t m)
{
    const struct cross_program *p = run->program;
    if (run->start[step][m] != GANTRY_OK) {
        return;
    }
    if (cross_has(p, VALUE_LATE) && build(run, m)) {
        uint32_t first = cross_pick(p, ABOUT_THREAD, 999, p->node_count);
        for (uint32_t k = 0; k < p->node_count; k++) {
            uint32_t i = (first + k) % p->node_count;
            if (is_of(p, i, m)) {
                (void)cross_must(run, gantry_task_remove_reference(run->tasks[i]), "first reference");
            }
        }
    }
    cross_extras_started(run, m);
    const struct cross_trouble *cancel = cross_cancels(p, VALUE_CANCEL_START);
    if (cancel != NULL && cancel->step == step && cancel->manager == m) {
        cross_cancel(run, m);
    }
}

static void start_all(struct cross_run *run, uint32_t step)
{
    const struct cross_program *p = run->program;
    break_driver(p, step);
    for (uint32_t m = 0; m < p->manager_count; m++) {
        atomic_store(&run->step[m], step);
        run->start[step][m] = GANTRY_ERR_STATE; /* not yet */
    }
    if (cross_has(p, VALUE_GROUP)) {
        for (uint32_t d = 0; d < run->devices; d++) {
            gantry_dispatcher_start_group(gantry_context_dispatcher(run->contexts[d]));
        }
    }
    bool together = start_together(run, step);
    for (uint32_t m = 0; m < p->manager_count; m++) {
        if (!together) {
            start_one(run, step, m);
        }
        started(run, step, m);
        if (run->start[step][m] != GANTRY_OK) {
            atomic_store(&run->ended[m], step + 1);
        }
    }
    if (cross_has(p, VALUE_GROUP)) {
        for (uint32_t d = 0; d < run->devices; d++) {
            gantry_dispatcher_finish_group(gantry_context_dispatcher(run->contexts[d]));
        }
    }
    let_go(run, step);
}

static void begin_thread(struct cross_run *run, struct stopping *s, void *(*main)(void *), uint32_t m,
                         uint32_t step)
{
    *s = (struct stopping){.run = run, .manager = m, .step = step};
    s->begun = pthread_create(&s->thread, NULL, main, s) == 0;
}

static void stop_all(struct cross_run *run, uint32_t step)
{
    const struct cross_program *p = run->program;
    struct stopping stops[MANAGERS_MOST] = {{0}}, waiters[CYCLE_WAITERS] = {{0}}, actor = {0};
    /* a thread that finds it at once */
    uint32_t waiting = cross_has(p, VALUE_CYCLE) ? CYCLE_WAITERS : WAITER_THREADS;
    if (cross_has(p, VALUE_CANCEL_THREAD) || cross_has(p, VALUE_CANCEL_DEBT) ||
        cross_has(p, VALUE_REFERENCE_THREAD) || cross_has(p, VALUE_REFERENCE_FAILED)) {
        begin_thread(run, &actor, act, 0, step);
    }
    for (uint32_t k = 0; k < waiting && cross_has(p, VALUE_WAITERS); k++) {
        if (run->start[step][k % p->manager_count] == GANTRY_OK) {
            begin_thread(run, &waiters[k], wait_one, k % p->manager_count, step);
        }
    }
    for (uint32_t m = 1; m < p->manager_count; m++) {
        if (run->start[step][m] == GANTRY_OK) {
            begin_thread(run, &stops[m], stop_one, m, step);
        }
    }
    if (run->start[step][0] == GANTRY_OK) {
        stops[0] = (struct stopping){.run = run, .step = step};
        (void)stop_one(&stops[0]);
        stops[0].begun = false;
    }
    for (uint32_t m = 0; m < MANAGERS_MOST; m++) {
        if (stops[m].begun) {
            pthread_join(stops[m].thread, NULL);
        }
    }
    for (uint32_t k = 0; k < CYCLE_WAITERS; k++) {
        if (waiters[k].begun) {
            pthread_join(waiters[k].thread, NULL);
        }
    }
    if (actor.begun) {
        pthread_join(actor.thread, NULL);
    }
}

/* Read states and results, as long as the handles are valid. */
static void check_handles(struct cross_run *run, uint32_t step)
{
    const struct cross_program *p = run->program;
    for (uint32_t i = 0; i < p->node_count; i++) {
        struct cross_seen *seen = &run->seen[step][i];
        if ((p->part[step] >> i & 1) == 0 || run->start[step][p->nodes[i].manager] != GANTRY_OK ||
            atomic_load(&seen->releases) == 0) {
            continue;
        }
        gantry_task_state state = gantry_task_get_state(run->tasks[i]);
        gantry_status result = gantry_task_result(run->tasks[i]);
        bool done = atomic_load(&seen->result) == 0;
        if ((state == GANTRY_TASK_STATE_DONE) != done || (!done && state != GANTRY_TASK_STATE_FAILED) ||
            -(int)atomic_load(&seen->result) != (int)result) {
            cross_break(run, "step %u, node %u: state %d, result %s, but it was released with %d", step, i,
                        state, gantry_status_name(result), -(int)atomic_load(&seen->result));
        }
    }
}

/* Is it a task of the manager, or of any? */
static void change(struct cross_run *run, uint32_t step, uint32_t m)
{
    const struct cross_program *p = run->program;
    bool wants_stable = !cross_has(p, VALUE_UNSTABLE);
    uint32_t i = NODES_MOST;
    for (uint32_t k = 0; k < 20 && i == NODES_MOST; k++) {
        uint32_t picked = cross_pick(p, ABOUT_CHANGE, step * 20 + k, p->node_count);
        const struct cross_node *n = &p->nodes[picked];
        bool fits = !n->dropped && (m == NOBODY || n->manager == m) && n->stable == wants_stable;
        i = fits ? picked : i;
    }
    if (cross_has(p, VALUE_UNCHANGED) || !is_frozen(p) || i == NODES_MOST || step + 1 == p->steps) {
        return;
    }
    gantry_status status = cross_has(p, VALUE_SET_ARG)
                               ? gantry_task_set_arg(run->tasks[i], &run->args[step % 2][i])
                               : gantry_task_invalidate(run->tasks[i]);
    atomic_fetch_add(&run->changed, cross_must(run, status, "change of a task") ? 1 : 0);
}

static void clear_abort(struct cross_run *run)
{
    for (uint32_t d = 0; d < run->devices; d++) {
        gantry_context_clear_abort(run->contexts[d]);
    }
}

static void between(struct cross_run *run, uint32_t step)
{
    const struct cross_program *p = run->program;
    check_handles(run, step);
    if (atomic_load(&run->aborted) != 0) {
        clear_abort(run);
    }
    const struct cross_trouble *cancel = cross_cancels(p, VALUE_CANCEL_STOPPED);
    if (cancel != NULL && cancel->step == step) {
        cross_cancel(run, cancel->manager);
    }
    if (!cross_expects(PROMISE_ORDER)) {
        (void)cross_synchronize(run);
    }
    change(run, step, NOBODY);
}

static void run_step(struct cross_run *run, uint32_t step)
{
    const struct cross_program *p = run->program;
    for (uint32_t m = 0; m < p->manager_count && run->broken == NULL; m++) {
        bool builds = cross_has(p, VALUE_REBUILT) || (is_frozen(p) && step == 0);
        if (builds &&
            (!build(run, m) ||
             (is_frozen(p) && !cross_must(run, gantry_taskman_freeze(run->managers[m]), "freeze")))) {
            return;
        }
    }
    start_all(run, step);
    stop_all(run, step);
    between(run, step);
    if (!is_frozen(p)) {
        atomic_store(&run->resetting, 1);
        for (uint32_t m = 0; m < p->manager_count; m++) {
            (void)cross_must(run, gantry_taskman_reset(run->managers[m]), "reset");
        }
        atomic_store(&run->resetting, 0);
    }
}

/* ---- run() ----------------------------------------------------------------------------------- */

static uint32_t steps_done(struct cross_run *run, uint32_t m)
{
    const struct cross_program *p = run->program;
    for (uint32_t i = 0; i < p->node_count; i++) {
        uint32_t done = 0;
        while (is_of(p, i, m) && done < p->steps && atomic_load(&run->seen[done][i].releases) != 0) {
            done++;
        }
        if (is_of(p, i, m)) {
            return done;
        }
    }
    return p->steps;
}

/* Run as often as there are steps; a failed run is repeated.  Where tasks are changed in between each step
 * is a run. */
static void *run_one(void *arg)
{
    struct stopping *s = arg;
    struct cross_run *run = s->run;
    uint32_t m = s->manager, base = 0, all = run->program->steps, steps = all;
    bool changes = !cross_has(run->program, VALUE_UNCHANGED);
    cross_waits = true;
    while (base < all && run->broken == NULL) {
        steps = changes ? base + 1 : all;
        atomic_store(&run->step[m], base);
        for (uint32_t k = base; k < steps; k++) {
            run->start[k][m] = GANTRY_OK;
        }
        gantry_status status = gantry_taskman_run(run->managers[m], steps - base);
        uint32_t done = steps_done(run, m);
        if (status == GANTRY_OK && done != steps) {
            cross_break(run, "run() of %u steps did %u", steps - base, done - base);
        }
        if (done == base) { /* refused */
            for (uint32_t k = base; k < all; k++) {
                run->start[k][m] = status;
            }
            break;
        }
        run->stop[done - 1][m] = status;
        base = done;
        if (changes) {
            change(run, base - 1, m);
        }
        if (atomic_load(&run->aborted) != 0) {
            clear_abort(run);
        }
    }
    atomic_store(&run->ended[m], all);
    return NULL;
}

static void run_by_itself(struct cross_run *run)
{
    const struct cross_program *p = run->program;
    struct stopping threads[MANAGERS_MOST] = {{0}}, actor = {0};
    for (uint32_t m = 0; m < p->manager_count; m++) {
        if (!build(run, m) || !cross_must(run, gantry_taskman_freeze(run->managers[m]), "freeze")) {
            return;
        }
    }
    break_driver(p, p->fails[0].step);
    if (cross_has(p, VALUE_CANCEL_THREAD)) {
        begin_thread(run, &actor, act, 0, p->cancels[0].step);
    }
    for (uint32_t m = 0; m < p->manager_count; m++) {
        begin_thread(run, &threads[m], run_one, m, 0);
    }
    for (uint32_t m = 0; m < p->manager_count; m++) {
        pthread_join(threads[m].thread, NULL);
    }
    if (actor.begun) {
        pthread_join(actor.thread, NULL);
    }
    if (cross_has(p, VALUE_CANCEL_STOPPED)) {
        cross_cancel(run, p->cancels[0].manager);
    }
    check_handles(run, p->steps - 1);
}

/* ---- a program ------------------------------------------------------------------------------- */

static gantry_profile *start_recording(struct cross_run *run)
{
    gantry_profile *profile = NULL;
    gantry_profile_options options = GANTRY_PROFILE_OPTIONS_INIT;
    options.path = "/dev/null";
    options.spans_per_thread = 256;
    options.ctas = GANTRY_PROFILE_CTAS_OFF;
    options.encoders = 1;
    (void)cross_must(run, gantry_profile_start(&options, &profile), "recording");
    return profile;
}

static void run_steps(struct cross_run *run)
{
    const struct cross_program *p = run->program;
    if (cross_has(p, VALUE_RUNS)) {
        run_by_itself(run);
    }
    for (uint32_t step = 0; step < p->steps && !cross_has(p, VALUE_RUNS) && run->broken == NULL; step++) {
        run_step(run, step);
    }
}

/* Blocks whose stream has passed are given back when the dispatcher looks at it, also after a failure. */
static void await_frees(struct cross_run *run)
{
    for (int i = 0; i < 20000; i++) {
        gantry_dispatcher_stats stats;
        cross_stats(run, &stats);
        if (stats.frees_pending == 0) {
            return;
        }
        pause_us(500);
    }
}

bool cross_run(struct cross_run *run, const struct cross_program *program)
{
    memset((void *)run, 0, sizeof(*run));
    atomic_fetch_add(&cross_progress, 1);
    run->program = program;
    gantry_set_log(note_log, run, GANTRY_LOG_ERROR);
    gantry_profile *profile = cross_has(program, VALUE_RECORDED) ? start_recording(run) : NULL;
    bool opened = cross_limit_begin(run);
    int64_t live = cross_live_objects();
    if (opened && cross_open(run)) {
        run_steps(run);
        int result = cross_synchronize(run);
        run->unsettled = result != 0;
        await_frees(run);
        if (result != 0 && !cross_may_be_lost(run)) {
            cross_break(run, "gantry_context_synchronize() says %d", result);
        }
        cross_stats(run, &run->stats);
        if (run->broken == NULL) {
            cross_check(run);
            cross_beside_check(run);
        }
    }
    if (!cross_is_device()) {
        cross_emu.clear_faults();
    }
    if (profile != NULL && run->broken == NULL) {
        (void)cross_must(run, gantry_profile_stop(profile, NULL), "end of the recording");
    }
    if (run->broken == NULL) { /* otherwise threads may still be at work */
        cross_effects(run, &run->effects);
        cross_close(run);
    }
    if (run->broken == NULL && run->managers[0] != NULL) {
        cross_check_end(run);
    }
    bool alone = !cross_has(program, VALUE_LIMIT); /* otherwise contexts beside it have objects, too */
    if (run->broken == NULL && alone && cross_live_objects() != live) {
        cross_break(run, "%lld objects of the driver are left", (long long)(cross_live_objects() - live));
    }
    return run->broken == NULL;
}
