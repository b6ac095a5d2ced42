/* SPDX-License-Identifier: MIT */
/* How well bounds on GPU time are kept: what each partition that has one gets while all of them want
 * everything. */
#include "audit_kernels.kernels.h"
#include "cli/command.h"
#include "cli/partitions.h"

#include <string.h>
#include <time.h>

enum {
    WORDS = 2 * GANTRY_SM_SET_WORDS,
    LAUNCH_NS = 200000,
    LOADED_NS = 1200000000, /* longer than a window of 1 s */
};

/* One launch must be paid for before the next, and before anything else runs in that partition. */
#define LEAST_SHARE 0.001

struct load {
    gantry_kernel *kernel;
    uint32_t *seen;    /* WORDS of the device, which nobody reads */
    gantry_task *done; /* this task runs when the GPU has done the kernels */
    uint64_t until;    /* on now_ns() */
};

static uint64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* One short kernel per call; the dispatcher calls again when the share has time left. */
static gantry_launch_result launch(gantry_launch *launch, void *arg)
{
    struct load *load = arg;
    uint32_t words = WORDS;
    uint64_t ns = LAUNCH_NS;
    void *args[] = {&load->seen, &words, &ns};
    gantry_dim3 one = {1, 1, 1};
    gantry_status status = gantry_launch_kernel(launch, load->kernel, one, one, 0, args);
    if (status == GANTRY_OK && now_ns() < load->until) {
        return GANTRY_LAUNCH_AGAIN;
    }
    if (status == GANTRY_OK) {
        status = gantry_launch_add_completion(launch, load->done);
    }
    return status == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

/* Fills in the share of each partition.  A partition without one is no error, so the log is silent. */
static void read_usages(gantry_context *context, struct cli_share *shares, uint32_t count)
{
    gantry_set_log(NULL, NULL, GANTRY_LOG_ERROR);
    for (uint32_t i = 0; i < count; i++) {
        shares[i].usage.struct_size = sizeof(shares[i].usage);
        gantry_partition *partition = gantry_partition_at(context, i);
        shares[i].is_bound = gantry_partition_get_usage(partition, &shares[i].usage) == GANTRY_OK;
        shares[i].is_too_small = shares[i].usage.target < LEAST_SHARE;
    }
    gantry_set_log(cli_log_to_stderr, NULL, cli_log_level);
}

static gantry_status load_all(gantry_context *context, gantry_taskman *manager, struct load *load,
                              const struct cli_share *shares, uint32_t count)
{
    gantry_task_desc end = GANTRY_TASK_DESC_INIT, gpu = GANTRY_TASK_DESC_INIT;
    end.kind = GANTRY_TASK_SYNC_POINT;
    gpu.kind = GANTRY_TASK_KERNEL;
    gpu.launch = launch;
    gpu.arg = load;
    gantry_status status = gantry_taskman_submit(manager, &end, &load->done);
    for (uint32_t i = 0; i < count && status == GANTRY_OK; i++) {
        gantry_task *task;
        gpu.partition = gantry_partition_at(context, i);
        if (shares[i].is_bound && !shares[i].is_too_small) {
            status = gantry_taskman_submit(manager, &gpu, &task);
            if (status == GANTRY_OK) {
                status = gantry_task_start_after(load->done, task);
            }
        }
    }
    load->until = now_ns() + LOADED_NS;
    if (status == GANTRY_OK) {
        status = gantry_taskman_start(manager);
    }
    return status == GANTRY_OK ? gantry_taskman_stop(manager) : status;
}

static gantry_status run(gantry_context *context, struct load *load, const struct cli_share *shares,
                         uint32_t count)
{
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_taskman *manager = NULL;
    gantry_module *module;
    void *seen = NULL;
    options.gpu_dispatcher = gantry_context_dispatcher(context);
    gantry_status status = gantry_module_load(context, &gantry_image_audit_kernels, &module);
    if (status == GANTRY_OK) {
        status = gantry_module_get_kernel(module, "gantry_audit", &load->kernel);
    }
    if (status == GANTRY_OK) {
        status = gantry_heap_alloc(gantry_context_heap(context), GANTRY_MEMORY_DEVICE,
                                   WORDS * sizeof(uint32_t), 0, GANTRY_ALLOC_SITE("SMs"), &seen);
        load->seen = seen;
    }
    if (status == GANTRY_OK) {
        status = gantry_taskman_create(&options, &manager);
    }
    if (status == GANTRY_OK) {
        status = load_all(context, manager, load, shares, count);
    }
    gantry_taskman_destroy(manager);
    if (seen != NULL) {
        (void)gantry_heap_free(gantry_context_heap(context), seen);
    }
    return status;
}

bool cli_try_shares(gantry_context *context, struct cli_share *out, uint32_t count)
{
    struct cli_share before[GANTRY_PARTITIONS_MAX];
    struct load load = {.kernel = NULL};
    bool any = false;
    memset(before, 0, sizeof(before));
    read_usages(context, before, count);
    for (uint32_t i = 0; i < count; i++) {
        any = any || (before[i].is_bound && !before[i].is_too_small);
    }
    if (any && run(context, &load, before, count) != GANTRY_OK) {
        return false;
    }
    read_usages(context, out, count);
    for (uint32_t i = 0; i < count; i++) {
        gantry_share_usage *u = &out[i].usage;
        u->used_ns -= before[i].usage.used_ns;
        u->since_ns -= before[i].usage.since_ns;
        u->throttled_ns -= before[i].usage.throttled_ns;
        u->measured = u->since_ns != 0 ? (double)u->used_ns / (double)u->since_ns : 0;
    }
    return true;
}
