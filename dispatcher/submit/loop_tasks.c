/* SPDX-License-Identifier: MIT */
/* The two tasks of a loop whose turns a word on the device decides (submit/device_loop.h). */
#include "dispatcher/internal.h"

#include "base/handle.h"
#include "base/options.h"
#include "dispatcher/call/launch.h"
#include "dispatcher/submit/device_loop.h"

#include <assert.h>
#include <stdint.h>

/* ---- test ------------------------------------------------------------------------------------- */

/* Were the tasks of the body launched as a loop in this run?  If they were in a unit, it begins anew. */
static bool was_loop(struct gy_device_loop *loop)
{
    struct gy_unit *unit = loop->unit;
    if (unit == NULL || gy_plan_unit(gy_unit_first_task(unit)) != unit) {
        return false; /* only a part of the graph runs */
    }
    assert(unit->loop == loop && gy_unit_is_valid(unit));
    const bool is_loop = unit->stage == GY_UNIT_LAUNCHED || unit->recorded.is_loop;
    gy_unit_begin_again(unit);
    return is_loop;
}

/* It is called when all tasks of the body were released. */
static gantry_launch_result test(gantry_launch *launch, void *arg)
{
    struct gy_device_loop *loop = arg;
    if (loop->decide == NULL) {
        return GANTRY_LAUNCH_DONE; /* a submission that has failed left it alone */
    }
    gy_device_loop_renew(loop);
    const bool is_on_device = was_loop(loop);
    const bool is_first =
        gy_device_loop_pass(loop, GY_LOOP_IDLE, is_on_device ? GY_LOOP_ON_DEVICE : GY_LOOP_WITH_CPU);
    assert(is_first || !is_on_device);
    (void)is_first;
    if (is_on_device) {
        return GANTRY_LAUNCH_DONE;
    }
    gantry_status status = gantry_launch_copy_dtoh(launch, (void *)&loop->record->host->word,
                                                   (const void *)(uintptr_t)loop->word, sizeof(uint32_t));
    if (status == GANTRY_ERR_DRIVER) {
        gy_error_put_before("the word of loop '%s', 0x%llx, cannot be read", gantry_task_label(launch->task),
                            (unsigned long long)loop->word);
    }
    if (status == GANTRY_OK) {
        status = gantry_launch_add_completion(launch, loop->decide);
    }
    return status == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

/* ---- decide ----------------------------------------------------------------------------------- */

static void count(void *user, gantry_task *dependent)
{
    (void)dependent;
    ++*(uint32_t *)user;
}

/* Choose the dependent, if there is one: a loop may be the end of its graph. */
static gantry_status choose(gantry_task *task, uint32_t index)
{
    uint32_t dependents = 0;
    gy_task_each_dependent(task, count, &dependents);
    return index < dependents || index == 0 ? gantry_task_choose(task, index) : GANTRY_OK;
}

static gantry_status decide(gantry_task *task, void *arg)
{
    struct gy_device_loop *loop = arg;
    if (gy_device_loop_pass(loop, GY_LOOP_ON_DEVICE, GY_LOOP_IDLE)) {
        return choose(task, 1);
    }
    const uint32_t turns = atomic_load(&loop->cpu_turns) + 1;
    const bool wants = atomic_load(&loop->record->host->word) != 0;
    const bool is_cancelled = atomic_load(&loop->state) == GY_LOOP_ENDING;
    if (wants && turns < loop->most && !is_cancelled) {
        atomic_store(&loop->cpu_turns, turns);
        return choose(task, 0);
    }
    gy_device_loop_note_end(loop, turns,
                            !wants         ? GANTRY_LOOP_WORD
                            : is_cancelled ? GANTRY_LOOP_CANCELLED
                                           : GANTRY_LOOP_MOST);
    if (!gy_device_loop_pass(loop, GY_LOOP_WITH_CPU, GY_LOOP_IDLE)) {
        (void)gy_device_loop_pass(loop, GY_LOOP_ENDING, GY_LOOP_IDLE);
    }
    return choose(task, 1);
}

/* ---- public ----------------------------------------------------------------------------------- */

static const char *const submitting = "gantry_taskman_submit_loop";

static gantry_status take_options(const gantry_taskman *manager, const gantry_loop_options *options,
                                  const gantry_loop *out, gantry_loop_options *ours)
{
    if (manager == NULL || options == NULL || out == NULL || out->struct_size < sizeof(*out)) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "%s: %s", submitting,
                       manager == NULL   ? "manager is NULL"
                       : options == NULL ? "options is NULL"
                                         : "out is NULL, or its struct_size too small");
    }
    gantry_status status = gy_options_import(ours, sizeof(*ours), options, sizeof(*ours), submitting);
    if (status != GANTRY_OK) {
        return status;
    }
    if (ours->reserved != 0) {
        return GY_FAIL(GANTRY_ERR_UNSUPPORTED, "%s: reserved is %u", submitting, ours->reserved);
    }
    if (ours->word == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "%s: word is NULL", submitting);
    }
    if ((uintptr_t)ours->word % sizeof(uint32_t) != 0) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                       "%s: word is %p, not an address that is aligned to 4 bytes", submitting, ours->word);
    }
    if (ours->most == 0) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "%s: most is 0, and each loop has a turn", submitting);
    }
    return GANTRY_OK;
}

static gantry_status enlist(struct gy_gpu_loop *self, gantry_dispatcher *on)
{
    return gy_device_loop_enlist((struct gy_device_loop *)(void *)self, &on->loops);
}

/* On failure with `test` the loop is the manager's, else it is still the caller's. */
static gantry_status submit_tasks(gantry_taskman *manager, const gantry_loop_options *options,
                                  struct gy_device_loop *loop)
{
    gantry_task_desc first = GANTRY_TASK_DESC_INIT, second = GANTRY_TASK_DESC_INIT;
    first.kind = GANTRY_TASK_DTOH;
    first.label = second.label = options->label != NULL ? options->label : "loop";
    first.arg = second.arg = loop;
    first.launch = test;
    first.partition = options->partition;
    first.context = options->context;
    second.run = decide;
    second.is_condition = true;
    const struct gy_gpu_loop_tasks tasks = {.loop = &loop->head,
                                            .prepare = enlist,
                                            .test = &first,
                                            .decide = &second,
                                            .out_test = &loop->test,
                                            .out_decide = &loop->decide};
    return gy_taskman_submit_loop(manager, &tasks);
}

gantry_status gantry_taskman_submit_loop(gantry_taskman *manager, const gantry_loop_options *options,
                                         gantry_loop *out)
{
    GY_ACCEPT(TASKMAN, manager);
    gantry_loop_options ours = GANTRY_LOOP_OPTIONS_INIT;
    gantry_status status = take_options(manager, options, out, &ours);
    if (status != GANTRY_OK) {
        return status;
    }
    struct gy_device_loop *loop = gy_device_loop_new(manager, (CUdeviceptr)(uintptr_t)ours.word, ours.most);
    if (loop == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "%s: no memory for a loop", submitting);
    }
    status = submit_tasks(manager, &ours, loop);
    if (status == GANTRY_OK) {
        out->test = loop->test;
        out->decide = loop->decide;
    } else if (loop->test == NULL) {
        loop->head.drop(&loop->head);
    }
    return status;
}

/* The loop that `task` decides about; NULL and an error: it is none that does. */
static struct gy_device_loop *loop_of(const gantry_task *task, const char *call)
{
    if (task == NULL || !gy_task_is_condition(task) || task->body.run != decide) {
        (void)GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "%s: %s", call,
                      task == NULL ? "decide is NULL" : "the task is not `decide` of a loop");
        return NULL;
    }
    return task->arg;
}

gantry_status gantry_loop_cancel(gantry_task *task)
{
    GY_ACCEPT(TASK, task);
    struct gy_device_loop *loop = loop_of(task, "gantry_loop_cancel");
    if (loop == NULL) {
        return GANTRY_ERR_INVALID_ARGUMENT;
    }
    if (gy_device_loop_end_all(loop)) {
        return GANTRY_OK;
    }
    if (gy_device_loop_pass(loop, GY_LOOP_WITH_CPU, GY_LOOP_ENDING) ||
        atomic_load(&loop->state) == GY_LOOP_ENDING) {
        return GANTRY_OK;
    }
    return GY_FAIL(GANTRY_ERR_STATE, "gantry_loop_cancel: loop '%s' is not on its way",
                   gantry_task_label(task));
}

gantry_status gantry_loop_get_stats(const gantry_task *task, gantry_loop_stats *out)
{
    GY_ACCEPT(TASK, task);
    struct gy_device_loop *loop = loop_of(task, "gantry_loop_get_stats");
    if (loop == NULL) {
        return GANTRY_ERR_INVALID_ARGUMENT;
    }
    const gantry_loop_stats stats = gy_device_loop_stats(loop);
    return gy_stats_export(out, &stats, sizeof(stats), "gantry_loop_get_stats");
}
