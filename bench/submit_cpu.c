/* SPDX-License-Identifier: MIT */
/* Both sides of `gantry bench submit` on one CPU.  On a virtual machine a CPU is, for some milliseconds at
 * a time, one half of a core whose other half somebody else uses: everything takes up to twice as long
 * then.  Two sides on two CPUs would be compared by chance; on one CPU and in turn, both are disturbed
 * alike. */
#include "bench/submit_work.h"
#include "cli/messages.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

struct move {
    const cpu_set_t *to; /* NULL: the caller stays on its present CPU */
    int cpu;             /* the present CPU, when `to` is NULL */
    bool done;
};

static bool go(const cpu_set_t *cpus)
{
    if (sched_setaffinity(0, sizeof(*cpus), cpus) == 0) {
        return true;
    }
    cli_error("bench: sched_setaffinity: %s", strerror(errno));
    return false;
}

static bool go_to(int cpu)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((unsigned)cpu, &one);
    return go(&one);
}

static gantry_launch_result move_here(gantry_launch *launch, void *arg)
{
    struct move *move = arg;
    (void)launch;
    if (move->to == NULL) {
        move->cpu = sched_getcpu();
        move->done = move->cpu >= 0 && go_to(move->cpu);
    } else {
        move->done = go(move->to);
    }
    return GANTRY_LAUNCH_DONE;
}

/* A step with one task moves the dispatcher's thread. */
static bool move_dispatcher(struct submit_work *work, struct move *move)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.kind = GANTRY_TASK_KERNEL;
    desc.launch = move_here;
    desc.arg = move;
    return bench_submit_ok(gantry_taskman_reset(work->manager)) &&
           bench_submit_ok(gantry_taskman_submit(work->manager, &desc, NULL)) && bench_submit_run(work) &&
           move->done;
}

bool bench_submit_pin(struct submit_work *work)
{
    struct move move = {.cpu = -1};
    work->cpu = -1;
    if (sched_getaffinity(0, sizeof(work->cpus_before), &work->cpus_before) != 0 ||
        CPU_COUNT(&work->cpus_before) < 2 || !move_dispatcher(work, &move)) {
        return false;
    }
    work->cpu = move.cpu;
    return bench_submit_leave_cpu(work);
}

bool bench_submit_unpin(struct submit_work *work)
{
    struct move move = {.to = &work->cpus_before};
    return go(&work->cpus_before) && move_dispatcher(work, &move);
}

bool bench_submit_enter_cpu(struct submit_work *work)
{
    return go_to(work->cpu);
}

bool bench_submit_leave_cpu(struct submit_work *work)
{
    cpu_set_t others = work->cpus_before;
    CPU_CLR((unsigned)work->cpu, &others);
    return go(&others);
}
