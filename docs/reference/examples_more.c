/* SPDX-License-Identifier: MIT */
/* More examples of functions, as in examples.c: graphs, memory, partitions, recordings, several managers. The
 * test docs.examples_more runs them all. */
#include <gantry/gantry.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 1000, BYTES = COUNT * sizeof(uint32_t) };
static gantry_context *context;
static gantry_cpu_dispatcher *workers;
static gantry_heap *heap;
static uint32_t *host, *back;
static void *device;
static gantry_copy_queue *queue;
static atomic_int counted, released; /* atomic: bodies that have run, memory that was given back */

static void must(gantry_status status, int line)
{
    if (status != GANTRY_OK) {
        fprintf(stderr, "line %d: %s\n", line, gantry_last_error());
        exit(1);
    }
}
#define MUST(call) must((call), __LINE__)

static void expect(int is_so, const char *what)
{
    if (!is_so) {
        fprintf(stderr, "%s is wrong\n", what);
        exit(1);
    }
}

static gantry_taskman *new_manager(void)
{
    gantry_taskman *manager;
    gantry_taskman_options options = {sizeof(options), .cpu_dispatcher = workers,
                                      .gpu_dispatcher = gantry_context_dispatcher(context)};
    MUST(gantry_taskman_create(&options, &manager));
    return manager;
}

static gantry_launch_result launched(gantry_launch *launch, gantry_status status)
{
    return status == GANTRY_OK ? GANTRY_LAUNCH_DONE : gantry_launch_fail(launch, status);
}

/* ---- bodies, and what is called later */

static gantry_status add_one(gantry_task *task, void *arg)
{
    (void)task, (void)arg;
    atomic_fetch_add(&counted, 1);
    return GANTRY_OK;
}

static gantry_status add_amount(gantry_task *task, void *arg)
{
    (void)task;
    atomic_fetch_add(&counted, *(int *)arg);
    return GANTRY_OK;
}

static gantry_status fail(gantry_task *task, void *arg)
{
    (void)task, (void)arg;
    return GANTRY_ERR_IO;
}

static void hand_on(gantry_task *task, void *arg, gantry_status result)
{
    /* The release callback of a task that a task of another manager waits for: `arg` is that task. */
    (void)task;
    (void)(result == GANTRY_OK ? gantry_task_remove_reference(arg) : gantry_task_fail_reference(arg, result));
}

static void give_back(void *memory)
{
    free(memory);
    atomic_fetch_add(&released, 1);
}

static void print_line(void *user, gantry_log_level level, const char *line)
{
    fprintf(user, "level %d: %s\n", (int)level, line);
}

/* ---- in launch callbacks */

static gantry_launch_result example_gantry_copy_queue_enqueue(gantry_launch *launch, void *arg)
{
    /* Many callers add copies; one flush launches them all.  It keeps their order where they touch each
     * other. */
    (void)arg;
    gantry_status status = GANTRY_OK;
    for (int i = 0; i < COUNT && status == GANTRY_OK; i += 100) {
        gantry_copy_desc piece = {.dest = (uint32_t *)device + i,
                                  .source = host + i,
                                  .bytes = 100 * sizeof(*host),
                                  .type = GANTRY_COPY_HTOD};
        status = gantry_copy_queue_enqueue(queue, &piece); /* copied; nothing is launched yet */
    }
    status = status == GANTRY_OK ? gantry_copy_queue_flush(queue, launch) : status;
    return launched(launch, status);
}

static gantry_launch_result example_gantry_heap_alloc_on(gantry_launch *launch, void *arg)
{
    /* Scratch memory in the order of a stream: no event, no wait, and the next block of that stream may be
     * the same memory. */
    (void)arg;
    void *scratch, *stream = gantry_launch_stream(launch);
    gantry_status status = gantry_heap_alloc_on(heap, GANTRY_MEMORY_DEVICE, BYTES, 0, stream,
                                                GANTRY_ALLOC_SITE("scratch"), &scratch);
    if (status != GANTRY_OK) {
        return launched(launch, status);
    }
    status = gantry_launch_copy_dtod(launch, scratch, device, BYTES);
    status = status == GANTRY_OK ? gantry_launch_copy_dtoh(launch, back, scratch, BYTES) : status;
    (void)gantry_heap_free_on(heap, scratch,
                              stream); /* used again there at once, elsewhere when the GPU has passed */
    return launched(launch, status);
}

static gantry_launch_result example_gantry_launch_fail(gantry_launch *launch, void *arg)
{
    if (arg == NULL) { /* gantry_task_result() and gantry_taskman_stop() return what is said here */
        return gantry_launch_fail(launch, GANTRY_ERR_INVALID_ARGUMENT);
    }
    return launched(launch, gantry_launch_fill(launch, device, 0, sizeof(uint32_t), COUNT));
}

/* ---- graphs */

static gantry_task *example_gantry_taskman_submit_chain(gantry_taskman *manager)
{
    /* Each starts after the one before it. */
    gantry_task *tasks[3];
    gantry_task_desc chain[3] = {
        {sizeof(*chain), GANTRY_TASK_CPU, .label = "fill", .run = add_one},
        {sizeof(*chain), GANTRY_TASK_HTOD, .label = "upload", .launch = example_gantry_copy_queue_enqueue},
        {sizeof(*chain), GANTRY_TASK_DTOH, .label = "download", .launch = example_gantry_heap_alloc_on}};
    MUST(gantry_taskman_submit_chain(manager, chain, 3, tasks));
    return tasks[2];
}

static void example_gantry_taskman_submit_after(gantry_taskman *manager, gantry_task *one, gantry_task *other)
{
    gantry_task *both[] = {one, other}, *task;
    gantry_task_desc desc = {sizeof(desc), GANTRY_TASK_CPU, .label = "join", .run = add_one};
    MUST(gantry_taskman_submit_after(manager, &desc, both, 2,
                                     &task)); /* in place of two gantry_task_start_after() */
}

static void example_gantry_taskman_freeze(gantry_taskman *manager)
{
    MUST(gantry_taskman_freeze(manager));  /* looks for cycles; from here on tasks and edges are fixed */
    MUST(gantry_taskman_run(manager, 10)); /* ten times, one after the other */
    MUST(gantry_taskman_reset(manager));   /* forgets the tasks: a new graph can be built */
}

static void example_gantry_task_set_arg(gantry_taskman *manager, gantry_task *task, int *amount)
{
    /* Between two runs of a frozen graph. */
    MUST(gantry_task_set_arg(task, amount));
    MUST(gantry_taskman_run(manager, 1)); /* the callback is given the new one */
}

static void example_gantry_taskman_start_from(gantry_taskman *manager, gantry_task *from)
{
    /* Of a frozen graph: this task and all that come after it. */
    MUST(gantry_taskman_start_from(manager, &from, 1));
    MUST(gantry_taskman_stop(manager));
}

static void example_gantry_taskman_create_light(gantry_taskman *manager)
{
    /* While the manager runs: a task without a name, which starts when its reference is given back. */
    gantry_task *light;
    MUST(gantry_taskman_create_light(manager, add_one, NULL, "later", NULL, &light));
    MUST(gantry_task_remove_reference(light)); /* it has one from the beginning */
}

static void example_gantry_taskman_start_all(gantry_taskman *first, gantry_taskman *second)
{
    /* A task of the second manager waits for one of the first, by a reference that hand_on() gives back. */
    gantry_task *here, *there;
    gantry_taskman *both[] = {first, second};
    gantry_task_desc waits = {sizeof(waits), GANTRY_TASK_CPU, .run = add_one};
    MUST(gantry_taskman_submit(second, &waits, &there));
    MUST(gantry_task_add_reference(there));
    gantry_task_desc comes_first = {sizeof(comes_first), GANTRY_TASK_CPU, .run = add_one, .release = hand_on,
                                    .arg = there};
    MUST(gantry_taskman_submit(first, &comes_first, &here));
    MUST(gantry_taskman_start_all(both,
                                  2)); /* one by one, the reference could come back before `second` runs */
    MUST(gantry_taskman_stop(first));
    MUST(gantry_taskman_stop(second));
}

static gantry_status example_gantry_task_fail_reference(gantry_taskman *manager)
{
    /* A task that waits for something outside of the graph, which has failed. */
    gantry_task *task;
    gantry_task_desc desc = {sizeof(desc), GANTRY_TASK_CPU, .label = "use the file", .run = add_one};
    MUST(gantry_taskman_submit(manager, &desc, &task));
    MUST(gantry_task_add_reference(task));
    MUST(gantry_taskman_start(manager));
    (void)gantry_task_fail_reference(task,
                                     GANTRY_ERR_IO); /* it does not run, and GANTRY_ERR_IO is its result */
    return gantry_taskman_stop(manager);
}

static gantry_status example_gantry_taskman_cancel(gantry_taskman *manager)
{
    /* From any thread: what has not begun does not begin, what runs goes on to its end. */
    MUST(gantry_taskman_start(manager));
    MUST(gantry_taskman_cancel(manager));
    return gantry_taskman_stop(manager); /* GANTRY_ERR_CANCELLED, if anything was left out */
}

static void example_gantry_taskman_declare_memory(gantry_taskman *manager)
{
    /* The task waits until so many bytes fit on the device beside those of others. */
    uint64_t bytes[GANTRY_MEMORY_KIND_COUNT] = {[GANTRY_MEMORY_DEVICE] = 64 << 20};
    gantry_task *task;
    gantry_task_desc desc = {sizeof(desc), GANTRY_TASK_KERNEL, .launch = example_gantry_heap_alloc_on};
    MUST(gantry_taskman_declare_memory(manager, bytes, &desc.memory));
    MUST(gantry_taskman_submit(manager, &desc, &task)); /* .memory in each task of the job */
}

static void example_gantry_taskman_submit_launch_tasks(gantry_taskman *manager)
{
    /* Parts of a program that do not know each other launch in one burst, and wait for the GPU once. */
    gantry_launch_tasks burst = {.struct_size = sizeof(burst)};
    gantry_task *work, *use;
    gantry_task_desc gpu = {sizeof(gpu), GANTRY_TASK_HTOD, .launch = example_gantry_copy_queue_enqueue};
    gantry_task_desc cpu = {sizeof(cpu), GANTRY_TASK_CPU, .run = add_one};
    MUST(gantry_taskman_submit_launch_tasks(manager, &burst));
    MUST(gantry_taskman_submit(manager, &gpu, &work));
    MUST(gantry_taskman_submit(manager, &cpu, &use));
    MUST(gantry_task_start_after(work, burst.pre_launch));
    MUST(gantry_task_finish_before(work, burst.post_launch));
    MUST(gantry_task_start_after(use, burst.finished)); /* the GPU has done all of the burst */
}

/* ---- memory */

static void example_gantry_heap_device_address(void)
{
    /* Page-locked memory in place: the CPU's address and the device's are two. */
    void *for_kernels;
    MUST(gantry_heap_device_address(heap, host + 10, &for_kernels)); /* any address inside of the block */
    expect(for_kernels != NULL, "the device's address");
}

static void example_gantry_heap_configure(void)
{
    gantry_heap_settings settings = {.struct_size = sizeof(settings)};
    MUST(gantry_heap_get_settings(heap, GANTRY_MEMORY_DEVICE, &settings));
    settings.limit_bytes = 256 << 20; /* from now on */
    MUST(gantry_heap_configure(heap, GANTRY_MEMORY_DEVICE, &settings));
}

static void example_gantry_heap_reclaim(void)
{
    /* Memory of malloc() or mmap() whose release takes long: a thread of the heap does it. */
    void *large = malloc(1 << 20);
    expect(large != NULL, "malloc()");
    memset(large, 1, 1 << 20);
    (void)gantry_heap_reclaim(heap, give_back, large, 1 << 20);
}

static void example_gantry_heap_write_json(void)
{
    FILE *file = tmpfile(); /* `gantry report heap FILE` prints it, and makes a page of it */
    expect(file != NULL, "tmpfile()");
    MUST(gantry_heap_write_json(heap, true, file));
    fclose(file);
}

/* ---- the rest */

static void example_gantry_profile_start(gantry_taskman *manager)
{
    char path[64];
    gantry_profile *recording;
    gantry_profile_options options = GANTRY_PROFILE_OPTIONS_INIT;
    gantry_profile_stats stats = {.struct_size = sizeof(stats)};
    snprintf(path, sizeof(path), "/tmp/gantry-example-%d.pftrace", (int)getpid());
    options.path = path;
    MUST(gantry_profile_start(&options, &recording));
    uint64_t begin = gantry_profile_now();
    MUST(gantry_taskman_start(manager));
    MUST(gantry_taskman_stop(manager));
    (void)gantry_profile_span("my own phase", begin, gantry_profile_now(), 0); /* on this thread's track */
    MUST(gantry_profile_stop(recording, &stats));
    expect(stats.lost == 0, "the recording");
    remove(path);
}

static void example_gantry_partition_find(void)
{
    /* A context with a plan, and a task in one of its partitions. */
    gantry_context *divided;
    gantry_taskman *manager;
    gantry_partition_request requests[] = {
        {.struct_size = sizeof(*requests),
         .name = "urgent",
         .size = GANTRY_PARTITION_AT_LEAST,
         .sm_count = 16},
        {.struct_size = sizeof(*requests), .name = "others", .size = GANTRY_PARTITION_REST}};
    gantry_partition_options plan = GANTRY_PARTITION_OPTIONS_INIT;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    plan.requests = requests;
    plan.count = 2;
    options.partitions = &plan;
    MUST(gantry_context_create(&options, &divided));
    gantry_taskman_options how = {sizeof(how), .gpu_dispatcher = gantry_context_dispatcher(divided)};
    MUST(gantry_partition_find(divided, "urgent",
                               &how.partition)); /* of all its tasks; or of one, in its description */
    MUST(gantry_taskman_create(&how, &manager));
    gantry_taskman_destroy(manager);
    gantry_context_destroy(divided);
}

static void example_gantry_stream_get_info(void *stream)
{
    /* A stream that another library has made may have a part of the SMs; NULL is the default stream. */
    gantry_stream_info info = {.struct_size = sizeof(info)};
    MUST(gantry_stream_get_info(context, stream, &info));
    printf("%u of %u SMs, %s\n", info.granted_sms, info.total_sms,
           info.place == GANTRY_STREAM_OF_GREEN ? "of another library's green context" : "of this context");
}

static void example_gantry_cpu_dispatcher_set_class(gantry_cpu_dispatcher *dispatcher)
{
    /* Tasks whose description says `.cpu_class = 1` run on the CPUs of one last-level cache, on two at a
     * time. */
    uint32_t cpus[256], count;
    gantry_cpu_class_options options = GANTRY_CPU_CLASS_OPTIONS_INIT;
    MUST(gantry_cpu_cache_domain(0, cpus, 256, &count));
    options.limit = 2;
    options.cpus = cpus;
    options.cpu_count = count < 256 ? count : 256;
    MUST(gantry_cpu_dispatcher_set_class(dispatcher, 1, &options));
}

static void example_gantry_set_log(void)
{
    gantry_set_log(print_line, stderr, GANTRY_LOG_WARNING); /* errors and warnings; on any thread */
}

static void example_gantry_context_acquire(void)
{
    /* Calls of the driver API on a thread of your own. */
    MUST(gantry_context_acquire(context));
    /* ... cuModuleLoad(), cublasCreate(), what needs a current context ... */
    gantry_context_release(context); /* the context that was current before is so again */
}

static void run(gantry_taskman *manager)
{
    MUST(gantry_taskman_start(manager));
    MUST(gantry_taskman_stop(manager));
    MUST(gantry_taskman_reset(manager));
}

static void graphs(gantry_taskman *manager, gantry_taskman *other)
{
    int one = 1, ten = 10;
    gantry_task *tasks[2], *chain = example_gantry_taskman_submit_chain(manager);
    gantry_task_desc desc = {sizeof(desc), GANTRY_TASK_CPU, .run = add_amount, .arg = &one};
    MUST(gantry_taskman_submit(manager, &desc, &tasks[0]));
    example_gantry_taskman_submit_after(manager, chain, tasks[0]);
    example_gantry_taskman_freeze(manager);
    expect(atomic_exchange(&counted, 0) == 30, "ten runs");
    MUST(gantry_context_synchronize(context));
    expect(memcmp(host, back, BYTES) == 0, "the copies");

    MUST(gantry_taskman_submit(manager, &desc, &tasks[0]));
    MUST(gantry_taskman_submit(manager, &desc, &tasks[1]));
    MUST(gantry_task_start_after(tasks[1], tasks[0]));
    MUST(gantry_taskman_freeze(manager));
    example_gantry_task_set_arg(manager, tasks[0], &ten);
    expect(atomic_exchange(&counted, 0) == 11, "another argument");
    example_gantry_taskman_start_from(manager, tasks[1]);
    expect(atomic_exchange(&counted, 0) == 1, "a part of the graph");
    MUST(gantry_taskman_reset(manager));

    MUST(gantry_taskman_start(manager));
    example_gantry_taskman_create_light(manager);
    MUST(gantry_taskman_stop(manager));
    MUST(gantry_taskman_reset(manager));
    example_gantry_taskman_start_all(manager, other);
    expect(atomic_exchange(&counted, 0) == 3, "tasks of two managers");
    MUST(gantry_taskman_reset(manager));
    MUST(gantry_taskman_reset(other));
}

static void failures(gantry_taskman *manager)
{
    gantry_task *first, *second;
    gantry_task_desc fails = {sizeof(fails), GANTRY_TASK_CPU, .run = fail};
    gantry_task_desc launch = {sizeof(launch), GANTRY_TASK_KERNEL, .launch = example_gantry_launch_fail};
    expect(example_gantry_task_fail_reference(manager) == GANTRY_ERR_IO, "the failed reference");
    MUST(gantry_taskman_reset(manager));
    MUST(gantry_taskman_submit(manager, &launch, &first));
    MUST(gantry_taskman_start(manager));
    expect(gantry_taskman_stop(manager) == GANTRY_ERR_INVALID_ARGUMENT, "the failed launch");
    MUST(gantry_taskman_reset(manager));
    MUST(gantry_taskman_submit(manager, &fails, &first));
    gantry_status status = example_gantry_taskman_cancel(manager);
    expect(status == GANTRY_ERR_CANCELLED || status == GANTRY_ERR_IO, "the cancelled run");
    MUST(gantry_taskman_reset(manager));
    /* Across managers, by hand_on(). */
    gantry_task_desc waits = {sizeof(waits), GANTRY_TASK_CPU, .run = add_one};
    MUST(gantry_taskman_submit(manager, &waits, &second));
    MUST(gantry_task_add_reference(second));
    fails.release = hand_on;
    fails.arg = second;
    MUST(gantry_taskman_submit(manager, &fails, &first));
    MUST(gantry_taskman_start(manager));
    expect(gantry_taskman_stop(manager) == GANTRY_ERR_IO && gantry_task_result(second) == GANTRY_ERR_IO,
           "what was handed on");
    MUST(gantry_taskman_reset(manager));
}

int main(void)
{
    gantry_cpu_dispatcher_options pool = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    pool.worker_count = 2;
    pool.class_count = 1;
    pool.class_limits = (uint32_t[]){1};
    MUST(gantry_context_create(NULL, &context));
    MUST(gantry_cpu_dispatcher_create(&pool, &workers));
    MUST(gantry_copy_queue_create(16, &queue));
    heap = gantry_context_heap(context);
    MUST(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, BYTES, 0, GANTRY_ALLOC_SITE("host"), (void **)&host));
    MUST(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, BYTES, 0, GANTRY_ALLOC_SITE("back"), (void **)&back));
    MUST(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, BYTES, 0, GANTRY_ALLOC_SITE("device"), &device));
    for (uint32_t i = 0; i < COUNT; i++) {
        host[i] = i;
    }
    gantry_taskman *manager = new_manager(), *other = new_manager();
    graphs(manager, other);
    example_gantry_taskman_submit_launch_tasks(manager);
    run(manager);
    example_gantry_taskman_declare_memory(
        manager); /* it reads what the burst wrote: a step comes after the one before */
    run(manager);
    (void)example_gantry_taskman_submit_chain(manager);
    example_gantry_profile_start(manager);
    MUST(gantry_taskman_reset(manager));
    example_gantry_set_log();
    gantry_set_log(NULL, NULL, GANTRY_LOG_ERROR); /* the failures that follow are wanted */
    failures(manager);
    example_gantry_heap_device_address();
    example_gantry_heap_configure();
    example_gantry_heap_reclaim();
    example_gantry_heap_write_json();
    example_gantry_cpu_dispatcher_set_class(workers);
    example_gantry_context_acquire();
    example_gantry_partition_find();
    example_gantry_stream_get_info(NULL);
    gantry_taskman_destroy(manager);
    gantry_taskman_destroy(other);
    gantry_copy_queue_destroy(queue);
    gantry_heap_free(heap, host);
    gantry_heap_free(heap, back);
    gantry_heap_free(heap, device);
    gantry_cpu_dispatcher_destroy(workers);
    gantry_context_destroy(context);
    expect(atomic_load(&released) == 1, "what was given to the reclaimer");
    printf("all examples have run\n");
    return 0;
}
