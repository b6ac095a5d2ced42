/* SPDX-License-Identifier: MIT */
/* The things beside a program's nodes: names that are filled late, cycles, loops and branches, and tasks
 * around the launches.  Each has its own rule, which is checked when its step has ended. */
#include "tests/campaign/crossing.h"

enum { ABOUT_EXTRA = 4000, ROUNDS_MOST = 3 };

/* ---- late names and cycles ------------------------------------------------------------------- */

/* A task is submitted while the manager runs, and its name was referred to before. */
static void fill_late_name(struct cross_run *run, uint32_t m)
{
    gantry_task *named = NULL, *task = NULL;
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.kind = GANTRY_TASK_SYNC_POINT;
    desc.name = "late";
    if (cross_must(run, gantry_taskman_get_named(run->managers[m], desc.name, &named), "late name") &&
        cross_must(run, gantry_taskman_submit(run->managers[m], &desc, &task), "late name filled") &&
        cross_must(run, gantry_task_remove_reference(task), "its reference")) {
        atomic_fetch_add(&run->late_names, 1);
    }
}

static void end_of_cycle(gantry_task *task, void *arg, gantry_status result)
{
    struct cross_run *run = arg;
    (void)task;
    atomic_fetch_add(&run->cycle_released, 1);
    if (result == GANTRY_OK) {
        cross_break(run, "a task on a cycle was released as done");
    }
}

/* Two tasks wait for each other; the thread that waits for the step finds them. */
static void make_cycle(struct cross_run *run, uint32_t m)
{
    gantry_task *tasks[2] = {NULL, NULL};
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    bool done = true;
    desc.kind = GANTRY_TASK_SYNC_POINT;
    desc.release = end_of_cycle;
    desc.arg = run;
    for (int i = 0; i < 2 && done; i++) {
        done = cross_must(run, gantry_taskman_submit(run->managers[m], &desc, &tasks[i]), "submit");
    }
    if (done && cross_must(run, gantry_task_start_after(tasks[0], tasks[1]), "edge") &&
        cross_must(run, gantry_task_start_after(tasks[1], tasks[0]), "edge") &&
        cross_must(run, gantry_task_remove_reference(tasks[0]), "reference") &&
        cross_must(run, gantry_task_remove_reference(tasks[1]), "reference")) {
        atomic_fetch_add(&run->cycles, 2);
    }
}

/* ---- conditions ------------------------------------------------------------------------------ */

/* There are two kinds, and managers have one and the other in turn. */
static bool is_branch(const struct cross_program *p, uint32_t manager)
{
    return cross_has(p, VALUE_BRANCH) && (manager % 2 == 0 || !cross_has(p, VALUE_LOOP));
}

/* entry -> body (on the GPU) -> condition -> body again, or an end; a branch has no way back, and two
 * ends. */
static gantry_launch_result launch_body(gantry_launch *launch, void *arg)
{
    struct cross_extra *e = arg;
    if (cross_enqueue_extra(e->run, launch, e->manager) != GANTRY_OK) {
        return GANTRY_LAUNCH_FAILED;
    }
    atomic_fetch_add(&e->bodies, 1);
    atomic_fetch_add(&e->run->done[is_branch(e->run->program, e->manager) ? VALUE_BRANCH : VALUE_LOOP], 1);
    return GANTRY_LAUNCH_DONE;
}

static gantry_status choose(gantry_task *task, void *arg)
{
    struct cross_extra *e = arg;
    uint32_t round = atomic_fetch_add(&e->chosen, 1) + 1;
    uint32_t index = is_branch(e->run->program, e->manager) ? e->rounds % 2 : round < e->rounds ? 0 : 1;
    if (round == e->rounds) {
        atomic_store(&e->chosen, 0); /* for the next step */
    }
    return gantry_task_choose(task, index);
}

static gantry_status run_end(gantry_task *task, void *arg)
{
    struct cross_extra *e = arg;
    atomic_fetch_add(&e->ended[task == e->ends[1] ? 1 : 0], 1);
    return GANTRY_OK;
}

static bool add(struct cross_run *run, uint32_t m, gantry_task_desc *desc, gantry_task **out)
{
    desc->arg = &run->extras[m];
    return cross_must(run, gantry_taskman_submit(run->managers[m], desc, out), "submit");
}

static bool after(struct cross_run *run, gantry_task *task, gantry_task *before)
{
    return cross_must(run, gantry_task_start_after(task, before), "edge");
}

static bool build_condition(struct cross_run *run, uint32_t m)
{
    struct cross_extra *e = &run->extras[m];
    bool branch = is_branch(run->program, m);
    gantry_task_desc entry = GANTRY_TASK_DESC_INIT, body = GANTRY_TASK_DESC_INIT,
                     condition = GANTRY_TASK_DESC_INIT, end = GANTRY_TASK_DESC_INIT;
    entry.kind = GANTRY_TASK_SYNC_POINT;
    body.kind = GANTRY_TASK_KERNEL;
    body.launch = launch_body;
    condition.run = choose;
    condition.is_condition = true;
    end.run = run_end; /* without a branch the first of them comes after nothing */
    e->rounds = 1 + cross_pick(run->program, ABOUT_EXTRA, m, ROUNDS_MOST);
    e->rounds = branch ? 1 + e->rounds % 2 * 2 : e->rounds; /* an odd number: see choose() */
    e->behind = cross_pick(run->program, ABOUT_EXTRA, m + 10, run->program->node_count);
    const struct cross_node *behind = &run->program->nodes[e->behind];
    bool connected = behind->manager == m && !behind->dropped;
    e->behind = connected ? e->behind : NOBODY;
    return add(run, m, &entry, &e->entry) && (!connected || after(run, e->entry, run->tasks[e->behind])) &&
           add(run, m, &body, &e->body) && add(run, m, &condition, &e->condition) &&
           add(run, m, &end, &e->ends[0]) && add(run, m, &end, &e->ends[1]) &&
           after(run, e->body, e->entry) && after(run, e->condition, e->body) &&
           after(run, branch ? e->ends[0] : e->body, e->condition) && after(run, e->ends[1], e->condition);
}

static void check_condition(struct cross_run *run, uint32_t step, uint32_t m, gantry_status stop)
{
    struct cross_extra *e = &run->extras[m];
    bool branch = is_branch(run->program, m);
    uint32_t bodies = atomic_exchange(&e->bodies, 0), first = atomic_exchange(&e->ended[0], 0);
    uint32_t second = atomic_exchange(&e->ended[1], 0), rounds = branch ? 1 : e->rounds;
    bool whole = (e->behind != NOBODY && (run->program->part[step] >> e->behind & 1) != 0) ||
                 run->program->roots[step][m] == NOBODY;
    uint32_t ends = branch || run->program->roots[step][m] != NOBODY ? 1 : 2;
    if (stop == GANTRY_OK && whole &&
        (bodies < rounds || bodies > rounds + 1 || first + second != ends)) { /* one call may be repeated */
        cross_break(run, "step %u, manager %u: a loop of %u rounds made %u and ended %u times", step, m,
                    rounds, bodies, first + second);
    } else if (!whole && bodies != 0) {
        cross_break(run, "step %u, manager %u: a loop outside of the part that was started ran", step, m);
    }
    atomic_store(&e->chosen, 0);
}

/* ---- launch tasks ---------------------------------------------------------------------------- */

/* After `finished`, all work that was launched in between is done. */
static gantry_status run_finished(gantry_task *task, void *arg)
{
    struct cross_extra *e = arg;
    struct cross_run *run = e->run;
    (void)task;
    for (uint32_t i = 0; i < run->program->node_count; i++) {
        const struct cross_node *n = &run->program->nodes[i];
        uint32_t begun = __atomic_load_n(&run->cells[i].begun, __ATOMIC_ACQUIRE);
        uint32_t ended = __atomic_load_n(&run->cells[i].ended, __ATOMIC_ACQUIRE), launched = 0;
        if (n->manager != e->manager || n->dropped || !cross_is_gpu(n) || n->independent) {
            continue;
        }
        uint32_t step = cross_step_of(run, i);
        /* it was released before */
        step = cross_has(run->program, VALUE_RUNS) && step > 0 ? step - 1 : step;
        for (uint32_t c = 0; c < CALLS_MOST && !cross_has(run->program, VALUE_RUNS); c++) {
            launched += atomic_load(&run->seen[step][i].enqueued[c]);
        }
        if (begun != ended || ended < launched) {
            cross_break(run,
                        "step %u: `finished` was released when node %u had begun %u times and ended %u times",
                        step, i, begun, ended);
        }
    }
    atomic_fetch_add(&run->finished_checks, 1);
    return GANTRY_OK;
}

static bool build_bracket(struct cross_run *run, uint32_t m)
{
    struct cross_extra *e = &run->extras[m];
    gantry_task_desc last = GANTRY_TASK_DESC_INIT;
    gantry_task *check = NULL;
    last.run = run_finished;
    e->bracket.struct_size = sizeof(e->bracket);
    bool done =
        cross_must(run, gantry_taskman_submit_launch_tasks(run->managers[m], &e->bracket), "launch tasks") &&
        add(run, m, &last, &check) && after(run, check, e->bracket.finished);
    for (uint32_t i = 0; i < run->program->node_count && done; i++) {
        const struct cross_node *n = &run->program->nodes[i];
        if (n->manager == m && !n->dropped && cross_is_gpu(n)) {
            done = (n->pred_count != 0 || after(run, run->tasks[i], e->bracket.pre_launch)) &&
                   after(run, e->bracket.post_launch, run->tasks[i]);
        }
    }
    if (done && cross_has(run->program, VALUE_LATE)) {
        gantry_task *held[] = {e->bracket.pre_launch, e->bracket.post_launch, e->bracket.finished, check};
        for (int i = 0; i < 4; i++) {
            done = done && cross_must(run, gantry_task_remove_reference(held[i]), "reference");
        }
    }
    return done;
}

/* ---- all ------------------------------------------------------------------------------------- */

bool cross_extras_build(struct cross_run *run, uint32_t manager)
{
    const struct cross_program *p = run->program;
    run->extras[manager].run = run;
    run->extras[manager].manager = manager;
    return (cross_has(p, VALUE_NO_CONDITION) || build_condition(run, manager)) &&
           (cross_has(p, VALUE_NO_BRACKET) || build_bracket(run, manager)) &&
           cross_beside_build(run, manager);
}

void cross_extras_started(struct cross_run *run, uint32_t manager)
{
    if (cross_has(run->program, VALUE_LATE_NAME)) {
        fill_late_name(run, manager);
    }
    if (cross_has(run->program, VALUE_CYCLE)) {
        make_cycle(run, manager);
    }
}

void cross_extras_stopped(struct cross_run *run, uint32_t step, uint32_t manager, gantry_status stop)
{
    if (!cross_has(run->program, VALUE_NO_CONDITION)) {
        check_condition(run, step, manager, stop);
    }
}
