/* SPDX-License-Identifier: MIT */
/* gantry.hpp takes as many instructions as the same program in C.  This program is its own library, which
 * only calls the tasks' callbacks, so that nothing else is counted.  A child is run instruction by
 * instruction (ptrace) and they are counted: the number is the same every time, on a busy machine too. */
#include "tests/cpp/cost.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

/* What C++ may take more per task, where the library itself takes some hundred: a copy checks its sizes, and
 * a step does some things once. */
enum { MOST_MORE = 10 };

/* ---- the library ----------------------------------------------------------------------------- */

static gantry_task_desc submitted[2 * COST_TASKS];
static size_t submitted_count;
static uint64_t launched_bytes; /* so that the launches do something */

gantry_status gantry_taskman_create(const gantry_taskman_options *options, gantry_taskman **out)
{
    (void)options;
    *out = (gantry_taskman *)submitted;
    return GANTRY_OK;
}
void gantry_taskman_destroy(gantry_taskman *manager)
{
    (void)manager;
}
gantry_status gantry_taskman_submit(gantry_taskman *manager, const gantry_task_desc *desc, gantry_task **out)
{
    (void)manager;
    submitted[submitted_count] = *desc;
    *out = (gantry_task *)&submitted[submitted_count++];
    return GANTRY_OK;
}
gantry_status gantry_task_start_after_done(gantry_task *task, gantry_task *gpu_task)
{
    return task != gpu_task ? GANTRY_OK : GANTRY_ERR_CYCLE;
}
gantry_status gantry_taskman_start(gantry_taskman *manager)
{
    (void)manager;
    for (size_t i = 0; i < submitted_count; i++) {
        gantry_task_desc *desc = &submitted[i];
        if (desc->run != NULL ? desc->run((gantry_task *)desc, desc->arg) != GANTRY_OK
                              : desc->launch((gantry_launch *)desc, desc->arg) != GANTRY_LAUNCH_DONE) {
            return GANTRY_ERR_TASK_FAILED;
        }
        if (desc->release != NULL) {
            desc->release((gantry_task *)desc, desc->arg, GANTRY_OK);
        }
    }
    return GANTRY_OK;
}
gantry_status gantry_taskman_stop(gantry_taskman *manager)
{
    return manager != NULL ? GANTRY_OK : GANTRY_ERR_STATE;
}
gantry_status gantry_taskman_run(gantry_taskman *manager, uint64_t times)
{
    (void)manager;
    return times == 1 ? GANTRY_OK : GANTRY_ERR_STATE;
}
gantry_status gantry_taskman_reset(gantry_taskman *manager)
{
    (void)manager;
    submitted_count = 0;
    return GANTRY_OK;
}
gantry_status gantry_launch_copy_htod(gantry_launch *launch, void *device, const void *host, size_t bytes)
{
    (void)launch;
    launched_bytes += bytes;
    return device != NULL && host != NULL ? GANTRY_OK : GANTRY_ERR_INVALID_ARGUMENT;
}
gantry_status gantry_launch_kernel(gantry_launch *launch, gantry_kernel *kernel, gantry_dim3 grid,
                                   gantry_dim3 block, size_t shared_bytes, void **args)
{
    (void)launch;
    (void)kernel;
    uint32_t *device;
    uint32_t count;
    memcpy(&device, args[0], sizeof(device));
    memcpy(&count, args[1], sizeof(count));
    launched_bytes += shared_bytes + count;
    return grid.x * block.x >= count && device != NULL ? GANTRY_OK : GANTRY_ERR_INVALID_ARGUMENT;
}
gantry_status gantry_launch_kernel_sized(gantry_launch *launch, gantry_kernel *kernel, gantry_dim3 grid,
                                         gantry_dim3 block, size_t shared_bytes, void **args,
                                         const uint32_t *arg_bytes, uint32_t arg_count,
                                         const gantry_launch_options *options)
{
    (void)arg_bytes;
    (void)arg_count;
    (void)options;
    return gantry_launch_kernel(launch, kernel, grid, block, shared_bytes, args);
}
gantry_launch_result gantry_launch_fail(gantry_launch *launch, gantry_status why)
{
    (void)launch;
    (void)why;
    return GANTRY_LAUNCH_FAILED;
}
gantry_task *gantry_launch_task(const gantry_launch *launch)
{
    return (gantry_task *)launch;
}
gantry_taskman *gantry_task_manager(const gantry_task *task)
{
    (void)task;
    return (gantry_taskman *)submitted;
}
const char *gantry_task_label(const gantry_task *task)
{
    return ((const gantry_task_desc *)task)->label;
}
const char *gantry_last_error(void)
{
    return "";
}
const char *gantry_status_text(gantry_status status)
{
    (void)status;
    return "failed";
}
int gantry_last_native_error(void)
{
    return 0;
}

/* ---- counting -------------------------------------------------------------------------------- */

/* The child runs a step once so that everything is linked, and once more between two stops. */
static void run_in_child(cost_step_fn step)
{
    static uint32_t numbers[1000];
    void *cpp_manager = cost_make_manager();
    struct cost_scene scene = {
        (gantry_taskman *)submitted, (gantry_kernel *)numbers, numbers, numbers, 1000, 0};
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) {
        _exit(77);
    }
    step(&scene, cpp_manager);
    raise(SIGSTOP);
    step(&scene, cpp_manager);
    raise(SIGSTOP);
    cost_drop_manager(cpp_manager);
    _exit(scene.sum == 2ull * COST_TASKS * scene.count ? 0 : 1);
}

/* Returns the instructions of one step; -77: the system does not allow to trace a process, -1: the step
 * failed. */
static long instructions_of(cost_step_fn step)
{
    pid_t child = fork();
    if (child == 0) {
        run_in_child(step);
    }
    int status = 0, stops = 0;
    long count = 0;
    while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
        stops += WSTOPSIG(status) == SIGSTOP;
        count += stops == 1;
        if (ptrace(stops == 1 ? PTRACE_SINGLESTEP : PTRACE_CONT, child, NULL, NULL) != 0) {
            return -77;
        }
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) == 77) {
        return -77;
    }
    return WEXITSTATUS(status) == 0 && stops == 2 ? count : -1;
}

int main(void)
{
    const long in_c = instructions_of(cost_step_c), in_cpp = instructions_of(cost_step_cpp);
    if (in_c == -77 || in_cpp == -77) {
        fprintf(stderr, "skipped: this system does not let a process be traced\n");
        return 77;
    }
    printf("instructions per pair of tasks: %.1f in C, %.1f in C++\n", (double)in_c / COST_TASKS,
           (double)in_cpp / COST_TASKS);
    if (in_c <= 0 || in_cpp <= 0) {
        fprintf(stderr, "a step went wrong\n");
        return 1;
    }
    if (in_cpp > in_c + MOST_MORE * 2 * COST_TASKS) {
        fprintf(stderr, "C++ takes more than %d instructions more per task\n", MOST_MORE);
        return 1;
    }
    return 0;
}
