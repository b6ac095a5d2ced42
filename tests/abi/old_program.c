/* SPDX-License-Identifier: MIT */
/* A program that was compiled with an earlier version of the headers.  Its declarations are those of the
 * headers when the first program was written, and they never change.  Linked with the present libgantry it
 * must run.  Its structs have the members of that time, to which later ones were added; its numbers are the
 * values that the enums had. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct context_options {
    size_t struct_size;
    int driver;
    int mode;
    void *adopted;
    const char *device;
    uint32_t stream_limit;
    int completion_wait;
    const void *heap;
    int submission;
    int wfi;
    uint32_t synchronous;
    uint32_t single_stream;
};

struct taskman_options {
    size_t struct_size;
    void *cpu_dispatcher;
    void *gpu_dispatcher;
    uint32_t expected_tasks;
};

struct task_desc {
    size_t struct_size;
    int kind;
    const char *name;
    const char *label;
    int (*run)(void *task, void *arg);
    int (*launch)(void *launch, void *arg);
    void (*release)(void *task, void *arg, int result);
    void *arg;
    uint64_t context_id;
    int priority;
    /* the last member at that time: there is no padding behind it, in which a later member could find
     * anything */
    uint32_t cpu_class;
};

struct alloc_site {
    const char *tag;
    const char *file;
    int line;
};

struct dispatcher_stats {
    size_t struct_size;
    uint64_t counters[12];
    uint32_t streams[2];
    uint64_t phase_ns[3];
};

enum {
    DRIVER_EMULATED = 2,
    MODE_OWN = 1,
    TASK_CPU = 0,
    TASK_KERNEL = 3,
    TASK_DTOH = 4,
    MEMORY_DEVICE = 0,
    MEMORY_PINNED = 1
};
enum { BYTES = 256, PATTERN = 0x2a };

int gantry_context_create(const struct context_options *options, void **out);
void gantry_context_destroy(void *context);
void *gantry_context_dispatcher(void *context);
void *gantry_context_heap(void *context);
int gantry_heap_alloc(void *heap, int kind, size_t bytes, size_t alignment, struct alloc_site site,
                      void **out);
int gantry_heap_free(void *heap, void *pointer);
int gantry_taskman_create(const struct taskman_options *options, void **out);
int gantry_taskman_submit(void *manager, const struct task_desc *desc, void **out);
int gantry_task_start_after(void *task, void *predecessor);
int gantry_taskman_start(void *manager);
int gantry_taskman_stop(void *manager);
void gantry_taskman_destroy(void *manager);
int gantry_launch_fill(void *launch, void *device, uint32_t pattern, uint32_t pattern_bytes, size_t count);
int gantry_launch_copy_dtoh(void *launch, void *host, const void *device, size_t bytes);
int gantry_launch_add_completion(void *launch, void *task);
int gantry_dispatcher_get_stats(const void *dispatcher, struct dispatcher_stats *stats);
const char *gantry_last_error(void);

static void *device, *host, *look_task;
static int looked;

static int fill(void *launch, void *arg)
{
    (void)arg;
    return gantry_launch_fill(launch, device, PATTERN, 1, BYTES) == 0 ? 0 : 2;
}

static int copy_back(void *launch, void *arg)
{
    (void)arg;
    return gantry_launch_copy_dtoh(launch, host, device, BYTES) == 0 &&
                   gantry_launch_add_completion(launch, look_task) == 0
               ? 0
               : 2;
}

static int look(void *task, void *arg)
{
    const unsigned char *bytes = host;
    (void)task;
    (void)arg;
    looked = 1;
    for (int i = 0; i < BYTES; i++) {
        looked = looked && bytes[i] == PATTERN;
    }
    return 0;
}

static int run_graph(void *manager)
{
    struct task_desc desc = {
        .struct_size = sizeof(desc), .kind = TASK_KERNEL, .name = "fill", .launch = fill};
    void *first, *second;
    int status = gantry_taskman_submit(manager, &desc, &first);
    desc = (struct task_desc){
        .struct_size = sizeof(desc), .kind = TASK_DTOH, .name = "back", .launch = copy_back};
    status = status != 0 ? status : gantry_taskman_submit(manager, &desc, &second);
    desc = (struct task_desc){.struct_size = sizeof(desc), .kind = TASK_CPU, .name = "look", .run = look};
    status = status != 0 ? status : gantry_taskman_submit(manager, &desc, &look_task);
    status = status != 0 ? status : gantry_task_start_after(second, first);
    status = status != 0 ? status : gantry_task_start_after(look_task, second);
    status = status != 0 ? status : gantry_taskman_start(manager);
    return status != 0 ? status : gantry_taskman_stop(manager);
}

/* The library writes nothing behind the end of an old struct. */
static int read_stats(void *dispatcher)
{
    struct {
        struct dispatcher_stats stats;
        uint64_t behind;
    } guarded = {{.struct_size = sizeof(guarded.stats)}, UINT64_C(0x5afe5afe5afe5afe)};
    int status = gantry_dispatcher_get_stats(dispatcher, &guarded.stats);
    return status == 0 && guarded.stats.counters[0] == 2 && guarded.behind == UINT64_C(0x5afe5afe5afe5afe)
               ? 0
               : -1;
}

int main(void)
{
    struct context_options options = {
        .struct_size = sizeof(options), .driver = DRIVER_EMULATED, .mode = MODE_OWN};
    struct taskman_options with = {.struct_size = sizeof(with)};
    struct alloc_site site = {"old", "old_program.c", 1};
    void *context = NULL, *manager = NULL;
    int status = gantry_context_create(&options, &context);
    if (status == 0) {
        with.gpu_dispatcher = gantry_context_dispatcher(context);
        status = gantry_heap_alloc(gantry_context_heap(context), MEMORY_DEVICE, BYTES, 0, site, &device);
    }
    status = status != 0
                 ? status
                 : gantry_heap_alloc(gantry_context_heap(context), MEMORY_PINNED, BYTES, 0, site, &host);
    status = status != 0 ? status : gantry_taskman_create(&with, &manager);
    status = status != 0 ? status : run_graph(manager);
    status = status != 0 ? status : read_stats(with.gpu_dispatcher);
    if (status != 0 || !looked) {
        fprintf(stderr, "old program: %d: %s\n", status, gantry_last_error());
        return 1;
    }
    gantry_taskman_destroy(manager);
    gantry_heap_free(gantry_context_heap(context), host);
    gantry_heap_free(gantry_context_heap(context), device);
    gantry_context_destroy(context);
    puts("an old program runs");
    return 0;
}
