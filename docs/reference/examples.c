/* SPDX-License-Identifier: MIT */
/* Examples of functions, shown in the reference and the manual pages: example_NAME() shows NAME.  The test
 * docs.examples runs them all. */
#include <gantry/gantry.h>
#include <stdlib.h>

enum { COUNT = 1000, BYTES = COUNT * sizeof(int) };
struct scene {
    gantry_context *context;
    gantry_cpu_dispatcher *workers;
    gantry_taskman *manager;
    int *host, *back;
    char *device;
    long sum;
    int rounds, spawned[8];
};
static struct scene scene;
static gantry_task *reader;

static void must(gantry_status status, int line)
{
    if (status != GANTRY_OK) {
        fprintf(stderr, "line %d: %s\n", line, gantry_last_error());
        exit(1);
    }
}
#define MUST(call) must((call), __LINE__)

/* ---- in launch callbacks */

static gantry_launch_result example_gantry_copy_launch(gantry_launch *launch, void *arg)
{
    struct scene *s = arg;
    gantry_copy_desc halves[2] = {
        {.dest = s->device, .source = s->host, .bytes = BYTES / 2, .type = GANTRY_COPY_HTOD},
        {.dest = s->device + BYTES / 2,
         .source = s->host + COUNT / 2,
         .bytes = BYTES / 2,
         .type = GANTRY_COPY_HTOD},
    };
    gantry_status status = gantry_copy_launch(launch, halves, 2); /* one kernel or call for both */
    return status == GANTRY_OK ? GANTRY_LAUNCH_DONE : gantry_launch_fail(launch, status);
}

static gantry_launch_result example_gantry_launch_add_completion(gantry_launch *launch, void *arg)
{
    struct scene *s = arg;
    gantry_status status = gantry_launch_copy_dtoh(launch, s->back, s->device, BYTES);
    if (status == GANTRY_OK) {
        status =
            gantry_launch_add_completion(launch, reader); /* a CPU task: it starts when the copy is done */
    }
    return status == GANTRY_OK ? GANTRY_LAUNCH_DONE : gantry_launch_fail(launch, status);
}

static gantry_launch_result example_gantry_free_after(gantry_launch *launch, void *arg)
{
    struct scene *s = arg;
    void *scratch;
    gantry_status status =
        gantry_launch_alloc(launch, GANTRY_MEMORY_DEVICE, BYTES, 0, GANTRY_ALLOC_SITE("scratch"), &scratch);
    if (status == GANTRY_OK) {
        status = gantry_launch_copy_htod(launch, scratch, s->host, BYTES);
        (void)gantry_free_after(scratch, launch); /* free for others once the GPU has passed the copy */
    }
    return status == GANTRY_OK ? GANTRY_LAUNCH_DONE : gantry_launch_fail(launch, status);
}

/* ---- bodies */

static gantry_status add_up(gantry_task *task, void *arg)
{
    (void)task;
    struct scene *s = arg;
    s->sum = 0;
    for (int i = 0; i < COUNT; i++) {
        s->sum += s->back[i];
    }
    return GANTRY_OK;
}

static gantry_status square(size_t begin, size_t end, void *arg)
{
    for (size_t i = begin; i < end; i++) {
        ((int *)arg)[i] *= ((int *)arg)[i];
    }
    return GANTRY_OK;
}

static gantry_status mark(gantry_task *task, void *arg)
{
    (void)task;
    *(int *)arg = 1;
    return GANTRY_OK;
}

static gantry_status example_gantry_task_choose(gantry_task *task, void *arg)
{
    /* The body of a condition.  Dependent 0 is the loop's first task, dependent 1 what comes behind the loop.
     */
    struct scene *s = arg;
    s->rounds++;
    return gantry_task_choose(task, s->rounds < 5 ? 0 : 1);
}

static gantry_status example_gantry_taskman_spawn(gantry_task *task, void *arg)
{
    /* The body of a task that divides its work.  `reader` was submitted before and does not start until all
     * parts have ended. */
    struct scene *s = arg;
    for (int i = 0; i < 8; i++) {
        gantry_status status =
            gantry_taskman_spawn(gantry_task_manager(task), mark, &s->spawned[i], "part", reader);
        if (status != GANTRY_OK) {
            return status;
        }
    }
    return GANTRY_OK;
}

/* ---- elsewhere */

static void example_gantry_task_start_after_done(gantry_taskman *manager)
{
    gantry_task *upload, *download, *check;
    gantry_task_desc up = {sizeof(up), GANTRY_TASK_HTOD, .launch = example_gantry_copy_launch, .arg = &scene};
    gantry_task_desc down = {sizeof(down), GANTRY_TASK_DTOH, .launch = example_gantry_launch_add_completion,
                             .arg = &scene};
    gantry_task_desc sum = {sizeof(sum), GANTRY_TASK_CPU, .run = add_up, .arg = &scene};
    MUST(gantry_taskman_submit(manager, &up, &upload));
    MUST(gantry_taskman_submit(manager, &down, &download));
    MUST(gantry_taskman_submit(manager, &sum, &check));
    reader = check;
    MUST(gantry_task_start_after(download, upload));     /* in order on the GPU; the CPU does not wait */
    MUST(gantry_task_start_after_done(check, download)); /* when the GPU has done the copy */
}

static void example_gantry_task_remove_reference(gantry_taskman *manager, int *what)
{
    /* While the manager runs, a task that is submitted waits for its edges to be declared. */
    gantry_task *first, *second;
    gantry_task_desc desc = {sizeof(desc), GANTRY_TASK_CPU, .run = mark, .arg = what};
    MUST(gantry_taskman_submit(manager, &desc, &first));
    MUST(gantry_taskman_submit(manager, &desc, &second));
    MUST(gantry_task_start_after(second, first));
    MUST(gantry_task_remove_reference(first)); /* now it may start */
    MUST(gantry_task_remove_reference(second));
}

static void example_gantry_taskman_get_named(gantry_taskman *manager, int *what)
{
    /* An edge to a task that is submitted later, perhaps by somebody else. */
    gantry_task *before, *after;
    gantry_task_desc desc = {sizeof(desc), GANTRY_TASK_CPU, .run = mark, .arg = what};
    MUST(gantry_taskman_get_named(manager, "load", &before));
    MUST(gantry_taskman_submit(manager, &desc, &after));
    MUST(gantry_task_start_after(after, before));
    desc.name = "load";
    MUST(gantry_taskman_submit(manager, &desc, &before)); /* fills the placeholder */
}

static void example_gantry_parallel_for(gantry_cpu_dispatcher *workers, int *numbers)
{
    MUST(gantry_parallel_for(workers, 0, COUNT, 0, square,
                             numbers)); /* in parts, on this thread and on idle workers */
}

static void example_gantry_heap_get_tag_stats(gantry_heap *heap)
{
    gantry_heap_tag_stats most[3];
    size_t count;
    MUST(gantry_heap_get_tag_stats(heap, GANTRY_MEMORY_PINNED, most, 3, &count));
    for (size_t i = 0; i < count && i < 3; i++) {
        printf("%s: %llu bytes\n", most[i].tag, (unsigned long long)most[i].used_bytes);
    }
}

static void example_gantry_last_error(gantry_taskman *manager)
{
    gantry_task *task;
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT; /* a CPU task without a body */
    if (gantry_taskman_submit(manager, &desc, &task) != GANTRY_OK) {
        printf("refused: %s\n", gantry_last_error());
    }
}

static void run_step(void)
{
    MUST(gantry_taskman_start(scene.manager));
    MUST(gantry_taskman_stop(scene.manager));
    MUST(gantry_taskman_reset(scene.manager));
}

static void expect(int is_so, const char *what)
{
    if (!is_so) {
        fprintf(stderr, "%s is wrong\n", what);
        exit(1);
    }
}

static void loop(void)
{
    int begun = 0, body = 0, after = 0;
    gantry_task *first, *again, *choice, *last;
    gantry_task_desc desc = {sizeof(desc), GANTRY_TASK_CPU, .run = mark, .arg = &begun};
    gantry_task_desc condition = {sizeof(condition), GANTRY_TASK_CPU, .run = example_gantry_task_choose,
                                  .arg = &scene, .is_condition = true};
    MUST(gantry_taskman_submit(scene.manager, &desc, &first));
    desc.arg = &body;
    MUST(gantry_taskman_submit(scene.manager, &desc, &again));
    MUST(gantry_taskman_submit(scene.manager, &condition, &choice));
    desc.arg = &after;
    MUST(gantry_taskman_submit(scene.manager, &desc, &last));
    MUST(gantry_task_start_after(again, first));
    MUST(gantry_task_start_after(choice, again));
    MUST(gantry_task_start_after(again, choice)); /* dependent 0 */
    MUST(gantry_task_start_after(last, choice));  /* dependent 1 */
    MUST(gantry_taskman_freeze(scene.manager));
    MUST(gantry_taskman_run(scene.manager, 1));
    MUST(gantry_taskman_reset(scene.manager));
    expect(begun == 1 && body == 1 && after == 1 && scene.rounds == 5, "the loop");
}

int main(void)
{
    MUST(gantry_context_create(NULL, &scene.context));
    MUST(gantry_cpu_dispatcher_create(NULL, &scene.workers));
    gantry_taskman_options options = {sizeof(options), .cpu_dispatcher = scene.workers,
                                      .gpu_dispatcher = gantry_context_dispatcher(scene.context)};
    MUST(gantry_taskman_create(&options, &scene.manager));
    gantry_heap *heap = gantry_context_heap(scene.context);
    MUST(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, BYTES, 0, GANTRY_ALLOC_SITE("numbers"),
                           (void **)&scene.host));
    MUST(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, BYTES, 0, GANTRY_ALLOC_SITE("numbers"),
                           (void **)&scene.back));
    MUST(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, BYTES, 0, GANTRY_ALLOC_SITE("numbers"),
                           (void **)&scene.device));
    for (int i = 0; i < COUNT; i++) {
        scene.host[i] = i;
    }
    example_gantry_parallel_for(scene.workers, scene.host);
    gantry_task *task;
    gantry_task_desc scratch = {sizeof(scratch), GANTRY_TASK_HTOD, .launch = example_gantry_free_after,
                                .arg = &scene};
    MUST(gantry_taskman_submit(scene.manager, &scratch, &task));
    example_gantry_task_start_after_done(scene.manager);
    run_step();
    expect(scene.sum == 332833500, "the sum of the squares");

    int ran = 0, late = 0;
    gantry_task_desc divide = {sizeof(divide), GANTRY_TASK_CPU, .run = example_gantry_taskman_spawn,
                               .arg = &scene};
    gantry_task_desc join = {sizeof(join), .kind = GANTRY_TASK_SYNC_POINT};
    MUST(gantry_taskman_submit(scene.manager, &divide, &task));
    MUST(gantry_taskman_submit(scene.manager, &join, &reader));
    MUST(gantry_task_start_after(reader, task));
    example_gantry_taskman_get_named(scene.manager, &ran);
    MUST(gantry_taskman_start(scene.manager));
    example_gantry_task_remove_reference(scene.manager, &late);
    MUST(gantry_taskman_stop(scene.manager));
    MUST(gantry_taskman_reset(scene.manager));
    expect(ran == 1 && late == 1, "an edge");
    for (int i = 0; i < 8; i++) {
        expect(scene.spawned[i] == 1, "a spawned task");
    }
    loop();
    example_gantry_last_error(scene.manager);
    example_gantry_heap_get_tag_stats(heap);
    gantry_taskman_destroy(scene.manager);
    gantry_heap_free(heap, scene.host);
    gantry_heap_free(heap, scene.back);
    gantry_heap_free(heap, scene.device);
    gantry_cpu_dispatcher_destroy(scene.workers);
    gantry_context_destroy(scene.context);
    return 0;
}
