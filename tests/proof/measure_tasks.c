/* SPDX-License-Identifier: MIT */
/* What the proof costs by the number of tasks: one step of GPU tasks, each of which fills its part of the
 * memory and starts after one before it.
 *
 * Usage: measure_tasks TASKS MIBYTES; with GANTRY_DRIVER=emulated, and GANTRY_CHECK=edges or not */
#include <gantry/gantry.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

struct part {
    void *to;
    size_t words;
};

static gantry_launch_result fill(gantry_launch *launch, void *arg)
{
    const struct part *part = arg;
    return gantry_launch_fill(launch, part->to, 1, 4, part->words) == GANTRY_OK ? GANTRY_LAUNCH_DONE
                                                                                : GANTRY_LAUNCH_FAILED;
}

static double now(void)
{
    struct timespec time;
    timespec_get(&time, TIME_UTC);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void must(gantry_status status, const char *what)
{
    if (status != GANTRY_OK) {
        fprintf(stderr, "%s: %s\n", what, gantry_last_error());
        exit(1);
    }
}

int main(int argc, char **argv)
{
    const size_t count = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    const size_t bytes = argc > 2 ? strtoul(argv[2], NULL, 10) << 20 : 0;
    struct part *parts = count != 0 ? malloc(count * sizeof(*parts)) : NULL;
    gantry_task **tasks = count != 0 ? malloc(count * sizeof(gantry_task *)) : NULL;
    if (parts == NULL || tasks == NULL || bytes / 4 / count == 0) {
        fprintf(stderr, "usage: measure_tasks TASKS MIBYTES\n");
        return 2;
    }
    gantry_context *context;
    gantry_taskman *manager;
    void *memory;
    must(gantry_context_create(NULL, &context), "context");
    gantry_taskman_options options = {sizeof(options), .gpu_dispatcher = gantry_context_dispatcher(context)};
    must(gantry_taskman_create(&options, &manager), "manager");
    must(gantry_heap_alloc(gantry_context_heap(context), GANTRY_MEMORY_DEVICE, bytes, 0,
                           GANTRY_ALLOC_SITE("all"), &memory),
         "memory");
    const double begin = now();
    for (size_t i = 0; i < count; i++) {
        parts[i] = (struct part){(char *)memory + i * (bytes / 4 / count) * 4, bytes / 4 / count};
        const gantry_task_desc desc = {sizeof(desc), GANTRY_TASK_KERNEL, .label = "fill", .launch = fill,
                                       .arg = &parts[i]};
        must(gantry_taskman_submit(manager, &desc, &tasks[i]), "submit");
        if (i > 0) {
            must(gantry_task_start_after(tasks[i], tasks[i - 1 - (i - 1) % 7]), "edge");
        }
    }
    must(gantry_taskman_start(manager), "start");
    must(gantry_taskman_stop(manager), "stop");
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("%zu tasks, %zu MiB: %.1f s, %.2f GiB\n", count, bytes >> 20, now() - begin,
           (double)usage.ru_maxrss / (1 << 20));
    gantry_taskman_destroy(manager);
    must(gantry_heap_free(gantry_context_heap(context), memory), "memory");
    gantry_context_destroy(context);
    free(parts);
    free(tasks);
    return 0;
}
