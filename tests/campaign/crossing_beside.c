/* SPDX-License-Identifier: MIT */
/* Things beside a program that have a promise of their own: older work that no thread has to wait for, a
 * cancel while a share owes GPU time, kernels whose blocks steal, a green context that is adopted. */
#include "tests/campaign/crossing.h"
#include "tests/support/emu_controls.h"

#include <string.h>
#include <time.h>

/* A machine that is busy with other things may take seconds for something that takes milliseconds: work that
 * should not be waited for takes longer than that. */
#define OLDER_NS UINT64_C(10000000000)
#define SPENT_NS (CROSS_SAVED_NS + UINT32_C(45000000)) /* with a share of 1 percent: a debt of 4.5 s */
#define AT_ONCE_S 3.5

enum { MANAGER = 0 }; /* the manager of the older work */

static double seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static struct cross_besides *of(struct cross_run *run)
{
    return &run->beside;
}

static bool add(struct cross_run *run, uint32_t m, gantry_task_desc *desc, gantry_task **out)
{
    desc->arg = run;
    return cross_must(run, gantry_taskman_submit(run->managers[m], desc, out), "submit beside");
}

static bool let_begin(struct cross_run *run, gantry_task *const *tasks, int count)
{
    bool done = true;
    for (int i = 0; i < count && done && cross_has(run->program, VALUE_LATE); i++) {
        done = cross_must(run, gantry_task_remove_reference(tasks[i]), "reference beside");
    }
    return done;
}

/* ---- older work ------------------------------------------------------------------------------ */

static void end_older(struct cross_run *run, uint32_t turn)
{
    __atomic_store_n(&of(run)->words->turn, turn, __ATOMIC_RELEASE);
}

static gantry_launch_result launch_older(gantry_launch *launch, void *arg)
{
    struct cross_run *run = arg;
    struct cross_besides *b = of(run);
    uint32_t turn = atomic_fetch_add(&b->turn, 1) + 1;
    uint64_t most_ns = OLDER_NS;
    void *args[] = {&b->words_device, &turn, &most_ns};
    atomic_store(&b->older_stream, gantry_launch_stream(launch));
    return gantry_launch_kernel(launch, b->older, (gantry_dim3){1, 1, 1}, (gantry_dim3){1, 1, 1}, 0, args) ==
                   GANTRY_OK
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

/* The older work is on its way, so that work launched from now on comes later. */
static void release_older(gantry_task *task, void *arg, gantry_status result)
{
    struct cross_run *run = arg;
    (void)task;
    (void)result;
    if (atomic_load(&run->resetting) == 0) {
        (void)gantry_task_remove_reference(of(run)->quick);
    }
}

static gantry_launch_result launch_quick(gantry_launch *launch, void *arg)
{
    struct cross_run *run = arg;
    struct cross_besides *b = of(run);
    if (gantry_launch_stream(launch) == atomic_load(&b->older_stream)) { /* there the thread has to wait */
        end_older(run, atomic_load(&b->turn));
        atomic_store(&b->same_stream, 1);
    }
    return cross_enqueue_extra(run, launch, MANAGER) == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static gantry_status run_told(gantry_task *task, void *arg)
{
    struct cross_run *run = arg;
    struct cross_besides *b = of(run);
    (void)task;
    if (atomic_exchange(&b->same_stream, 0) == 0) {
        atomic_fetch_add(&b->told, 1);
        if (__atomic_load_n(&b->words->overdue, __ATOMIC_ACQUIRE) != 0 && !cross_may_be_lost(run)) {
            cross_break(run,
                        "the end of a kernel was told when older work of another stream had ended by itself");
        }
    }
    end_older(run, atomic_load(&b->turn));
    return GANTRY_OK;
}

static void release_told(gantry_task *task, void *arg, gantry_status result)
{
    struct cross_run *run = arg;
    (void)task;
    if (result != GANTRY_OK) { /* work that is not launched yet need not wait either */
        end_older(run, atomic_load(&of(run)->turn) + 1);
    }
}

static bool build_older(struct cross_run *run)
{
    struct cross_besides *b = of(run);
    gantry_task *older = NULL, *told = NULL;
    gantry_task_desc first = GANTRY_TASK_DESC_INIT, second = GANTRY_TASK_DESC_INIT,
                     third = GANTRY_TASK_DESC_INIT;
    first.kind = second.kind = GANTRY_TASK_KERNEL;
    first.launch = launch_older;
    first.release = release_older;
    second.launch = launch_quick;
    third.run = run_told;
    third.release = release_told;
    bool done = add(run, MANAGER, &second, &b->quick) &&
                cross_must(run, gantry_task_add_reference(b->quick), "reference beside") &&
                add(run, MANAGER, &third, &told) &&
                cross_must(run, gantry_task_start_after_done(told, b->quick), "edge beside") &&
                add(run, MANAGER, &first, &older);
    gantry_task *const tasks[] = {told, b->quick, older};
    return done && let_begin(run, tasks, 3);
}

/* ---- debts ----------------------------------------------------------------------------------- */

static gantry_launch_result launch_spender(gantry_launch *launch, void *arg)
{
    struct cross_run *run = arg;
    const struct cross_trouble *debt = cross_cancels(run->program, VALUE_CANCEL_DEBT);
    bool spends = atomic_load(&run->step[debt->manager]) == debt->step;
    struct cross_work work;
    void *args[] = {&work};
    memset(&work, 0, sizeof(work));
    work.self =
        (struct cross_cell *)(run->cells_device + (NODES_MOST + debt->manager) * sizeof(struct cross_cell));
    work.records =
        (struct cross_record *)run->records_device + (size_t)(NODES_MOST + debt->manager) * CROSS_RECORDS;
    work.pause_ns = spends ? SPENT_NS : 0;
    return gantry_launch_kernel(launch, run->kernel, (gantry_dim3){1, 1, 1}, (gantry_dim3){1, 1, 1}, 0,
                                args) == GANTRY_OK
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

static gantry_status run_debtor(gantry_task *task, void *arg)
{
    struct cross_run *run = arg;
    const struct cross_trouble *debt = cross_cancels(run->program, VALUE_CANCEL_DEBT);
    (void)task;
    atomic_store(&of(run)->in_debt, atomic_load(&run->step[debt->manager]) == debt->step);
    return GANTRY_OK;
}

static gantry_launch_result launch_victim(gantry_launch *launch, void *arg)
{
    struct cross_run *run = arg;
    const struct cross_trouble *debt = cross_cancels(run->program, VALUE_CANCEL_DEBT);
    atomic_fetch_add(&of(run)->victims, atomic_load(&run->step[debt->manager]) == debt->step ? 1 : 0);
    return cross_enqueue_extra(run, launch, debt->manager) == GANTRY_OK ? GANTRY_LAUNCH_DONE
                                                                        : GANTRY_LAUNCH_FAILED;
}

static bool build_debt(struct cross_run *run)
{
    gantry_task *spender = NULL, *debtor = NULL, *victim = NULL;
    const uint32_t m = cross_cancels(run->program, VALUE_CANCEL_DEBT)->manager;
    gantry_task_desc first = GANTRY_TASK_DESC_INIT, second = GANTRY_TASK_DESC_INIT,
                     third = GANTRY_TASK_DESC_INIT;
    first.kind = third.kind = GANTRY_TASK_KERNEL;
    first.launch = launch_spender;
    second.run = run_debtor;
    third.launch = launch_victim;
    bool done = add(run, m, &first, &spender) && add(run, m, &second, &debtor) &&
                add(run, m, &third, &victim) &&
                cross_must(run, gantry_task_start_after_done(debtor, spender), "edge beside") &&
                cross_must(run, gantry_task_start_after(victim, debtor), "edge beside");
    gantry_task *const tasks[] = {victim, debtor, spender};
    return done && let_begin(run, tasks, 3);
}

bool cross_beside_breaks(const struct cross_program *program)
{
    const struct cross_trouble *debt = cross_cancels(program, VALUE_CANCEL_DEBT),
                               *fault = cross_fails(program, VALUE_FAULT);
    return debt != NULL && fault != NULL && debt->step == fault->step && !cross_is_device();
}

static gantry_launch_result launch_behind(gantry_launch *launch, void *arg)
{
    struct cross_run *run = arg;
    /* the victim does not run */
    const uint32_t m = cross_cancels(run->program, VALUE_CANCEL_DEBT)->manager;
    return cross_enqueue_extra(run, launch, m) == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

/* The fault comes while GPU time is owed.  It needs a kernel of another manager: the program's own launched
 * work may have ended by now. */
static void break_in_debt(struct cross_run *run)
{
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_taskman *behind = NULL;
    options.gpu_dispatcher = gantry_context_dispatcher(run->context);
    options.dispatcher_only = cross_has(run->program, VALUE_THREADS_ONLY);
    desc.kind = GANTRY_TASK_KERNEL;
    desc.launch = launch_behind;
    desc.arg = run;
    (void)cross_emu.fail_kernel(1, CROSS_FAULT, GANTRY_EMU_ONCE);
    if (!cross_must(run, gantry_taskman_create(&options, &behind), "manager behind a debt")) {
        return;
    }
    gantry_status status = gantry_taskman_submit(behind, &desc, NULL);
    status = status == GANTRY_OK ? gantry_taskman_start(behind) : status;
    status = status == GANTRY_OK ? gantry_taskman_stop(behind) : status;
    (void)status; /* the kernel may run after this, and fail then */
    gantry_taskman_destroy(behind);
}

void cross_beside_cancel(struct cross_run *run, uint32_t step)
{
    const struct cross_trouble *debt = cross_cancels(run->program, VALUE_CANCEL_DEBT);
    struct cross_besides *b = of(run);
    double begin = seconds();
    const struct timespec pause = {0, 1000000}, while_held = {0, 8000000};
    while (atomic_load(&b->in_debt) == 0 && atomic_load(&run->ended[debt->manager]) <= step &&
           seconds() - begin < 2) {
        (void)nanosleep(&pause, NULL);
    }
    if (atomic_load(&b->in_debt) != 0) {
        (void)nanosleep(&while_held, NULL); /* meanwhile the task behind it comes to the share */
        bool owes = atomic_load(&b->victims) == 0 && atomic_load(&run->ended[debt->manager]) <= step;
        b->cancelled_at = seconds();
        cross_cancel(run, debt->manager);
        atomic_store(&b->owes, owes && atomic_load(&run->cancelled[step][debt->manager]) != 0);
        if (atomic_load(&b->owes) != 0 && cross_beside_breaks(run->program)) {
            break_in_debt(run);
        }
    } else if (atomic_load(&run->ended[debt->manager]) <= step) {
        /* On a busy machine the spender's kernel may have waited for a processor for seconds, and the tasks
         * behind it wait 100 times as long. */
        cross_cancel(run, debt->manager);
    }
}

void cross_beside_stopped(struct cross_run *run, uint32_t step, uint32_t manager)
{
    const struct cross_trouble *debt = cross_cancels(run->program, VALUE_CANCEL_DEBT);
    struct cross_besides *b = of(run);
    if (debt != NULL && step == debt->step && manager == debt->manager) {
        b->stopped_at = seconds();
    }
}

/* ---- stealing -------------------------------------------------------------------------------- */

static gantry_launch_result launch_thieves(gantry_launch *launch, void *arg)
{
    struct cross_run *run = arg;
    struct cross_besides *b = of(run);
    const gantry_dim3 grid = {CROSS_GRID_X, CROSS_GRID_Y, CROSS_GRID_Z}, one = {1, 1, 1};
    void *args[] = {&b->words_device};
    if (gantry_launch_kernel(launch, b->rows, grid, one, 0, args) != GANTRY_OK ||
        gantry_launch_kernel(launch, b->units, grid, one, 0, args) != GANTRY_OK) {
        return GANTRY_LAUNCH_FAILED;
    }
    atomic_fetch_add(&b->thieves, 1);
    return GANTRY_LAUNCH_DONE;
}

static bool build_thieves(struct cross_run *run, uint32_t m)
{
    gantry_task *task = NULL;
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.kind = GANTRY_TASK_KERNEL;
    desc.launch = launch_thieves;
    return add(run, m, &desc, &task) && let_begin(run, &task, 1);
}

static void check_units(struct cross_run *run, const char *form, const uint32_t *units)
{
    for (uint32_t i = 1; i < CROSS_UNITS; i++) {
        if (units[i] != units[0]) {
            cross_break(run, "of a grid whose blocks steal (%s) unit %u was done %u times, unit 0 %u times",
                        form, i, units[i], units[0]);
        }
    }
}

/* ---- all ------------------------------------------------------------------------------------- */

bool cross_beside_open(struct cross_run *run, gantry_module *module)
{
    struct cross_besides *b = of(run);
    void *memory = NULL, *device = NULL;
    if (!cross_must(run,
                    gantry_heap_alloc(run->heap, GANTRY_MEMORY_PINNED, sizeof(*b->words), 0,
                                      GANTRY_ALLOC_SITE("crossing"), &memory),
                    "words") ||
        !cross_must(run, gantry_heap_device_address(run->heap, memory, &device), "address")) {
        return false;
    }
    memset(memory, 0, sizeof(*b->words));
    b->words = memory;
    b->words_device = device;
    return cross_must(run, gantry_module_get_kernel(module, "cross_older", &b->older), "kernel") &&
           cross_must(run, gantry_module_get_kernel(module, "cross_steal", &b->rows), "kernel") &&
           cross_must(run, gantry_module_get_kernel(module, "cross_steal_3d", &b->units), "kernel") &&
           (!cross_has(run->program, VALUE_GREEN) || cross_green(run));
}

bool cross_beside_build(struct cross_run *run, uint32_t m)
{
    const struct cross_program *p = run->program;
    const struct cross_trouble *debt = cross_cancels(run->program, VALUE_CANCEL_DEBT);
    return (!cross_has(p, VALUE_OLDER) || m != MANAGER || build_older(run)) &&
           (debt == NULL || m != debt->manager || build_debt(run)) &&
           (!cross_has(p, VALUE_STEAL) || build_thieves(run, m));
}

void cross_beside_check(struct cross_run *run)
{
    struct cross_besides *b = of(run);
    if (!cross_may_be_lost(run)) {
        check_units(run, "told x", b->words->rows);
        check_units(run, "told x, y and z", b->words->units);
    }
    if (atomic_load(&b->owes) != 0 && b->stopped_at - b->cancelled_at > AT_ONCE_S &&
        !cross_may_be_lost(run)) {
        cross_break(run, "stop() of a cancelled manager that owed GPU time took %.1f s",
                    b->stopped_at - b->cancelled_at);
    }
}

void cross_beside_close(struct cross_run *run)
{
    if (of(run)->words != NULL) {
        (void)gantry_heap_free(run->heap, of(run)->words);
    }
}
