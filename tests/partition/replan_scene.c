/* SPDX-License-Identifier: MIT */
#include "tests/partition/replan_scene.h"

#include "tests/support/cmocka_c11.h"

#include "audit_kernels.kernels.h"

#include <stdlib.h>
#include <string.h>

#define BLOCKS 160u

uint32_t replan_random(uint64_t *random, uint32_t below)
{
    *random = *random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*random >> 33) % below;
}

const gantry_partition_options *replan_plan(struct replan_plan *plan, const char *text)
{
    uint32_t count = 0;
    *plan = (struct replan_plan){.options = GANTRY_PARTITION_OPTIONS_INIT};
    for (const char *at = text; *at != '\0'; count++) {
        size_t length = strcspn(at, " "), name = strcspn(at, "0123456789 ");
        gantry_partition_request *r = &plan->requests[count];
        bool is_rest = at[0] == '*';
        assert_true(count < GANTRY_PARTITIONS_MAX && name < GANTRY_PARTITION_NAME_BYTES);
        memcpy(plan->names[count], at + is_rest, name - is_rest);
        *r = (gantry_partition_request){.struct_size = sizeof(*r), .name = plan->names[count]};
        r->size = is_rest ? GANTRY_PARTITION_REST : GANTRY_PARTITION_AT_LEAST;
        r->sm_count = is_rest ? 0 : (uint32_t)strtoul(at + name, NULL, 10);
        at += length + (at[length] == ' ');
    }
    plan->options.requests = plan->requests;
    plan->options.count = count;
    return &plan->options;
}

void replan_open_on(struct replan_scene *s, gantry_context *context, gantry_taskman *manager)
{
    gantry_module *module;
    gantry_heap *heap = gantry_context_heap(context);
    size_t bytes = (size_t)REPLAN_JOBS * REPLAN_WORDS * sizeof(uint32_t);
    void *memory;
    s->gpu.context = context;
    s->gpu.manager = manager;
    assert_ok(gantry_module_load(context, &gantry_image_audit_kernels, &module));
    assert_ok(gantry_module_get_kernel(module, "gantry_audit", &s->audit));
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, bytes, 0, GANTRY_ALLOC_SITE("seen"), &memory));
    s->device = memory;
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, bytes, 0, GANTRY_ALLOC_SITE("seen"), &memory));
    s->pinned = memory;
}

void replan_open_with(struct replan_scene *s, const char *text, gantry_context_options *options)
{
    struct replan_plan plan;
    memset(s, 0, sizeof(*s));
    options->driver = gpu_fixture_driver();
    options->partitions = text != NULL ? replan_plan(&plan, text) : NULL;
    gpu_fixture_open_with(&s->gpu, 1, options);
    replan_open_on(s, s->gpu.context, s->gpu.manager);
}

void replan_open(struct replan_scene *s, const char *text, gantry_submission submission)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.submission = submission;
    replan_open_with(s, text, &options);
}

void replan_close(struct replan_scene *s)
{
    gantry_heap *heap = gantry_context_heap(s->gpu.context);
    assert_ok(gantry_heap_free(heap, s->device));
    assert_ok(gantry_heap_free(heap, s->pinned));
    gpu_fixture_close(&s->gpu);
}

gantry_status replan_to(struct replan_scene *s, const char *text)
{
    struct replan_plan plan;
    return gantry_context_set_partitions(s->gpu.context, text != NULL ? replan_plan(&plan, text) : NULL);
}

gantry_partition *replan_partition(struct replan_scene *s, const char *name)
{
    gantry_partition *found = gantry_partition_default(s->gpu.context);
    if (name[0] != '\0') {
        assert_ok(gantry_partition_find(s->gpu.context, name, &found));
    }
    return found;
}

static gantry_launch_result launch(gantry_launch *launch, void *arg)
{
    struct replan_job *job = arg;
    struct replan_scene *s = job->scene;
    void *seen = s->device + (size_t)job->index * REPLAN_WORDS;
    uint32_t words = REPLAN_WORDS, *to = s->pinned + (size_t)job->index * REPLAN_WORDS;
    uint64_t ns = 0;
    void *args[] = {&seen, &words, &ns};
    const gantry_dim3 grid = {s->is_brief ? 2 : BLOCKS, 1, 1}, block = {32, 1, 1};
    job->calls++;
    return gantry_launch_fill(launch, seen, 0, 4, REPLAN_WORDS) == GANTRY_OK &&
                   gantry_launch_kernel(launch, s->audit, grid, block, 0, args) == GANTRY_OK &&
                   gantry_launch_copy_dtoh(launch, to, seen, REPLAN_WORDS * sizeof(uint32_t)) == GANTRY_OK
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

struct replan_job *replan_submit(struct replan_scene *s, const char *partition,
                                 const struct replan_job *before)
{
    struct replan_job *job = &s->jobs[s->count];
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    *job = (struct replan_job){.scene = s, .index = s->count++};
    assert_true(s->count <= REPLAN_JOBS);
    memcpy(job->partition, partition, strlen(partition));
    desc.kind = GANTRY_TASK_KERNEL;
    desc.label = "job";
    desc.launch = launch;
    desc.arg = job;
    desc.partition = partition[0] != '\0' ? replan_partition(s, partition) : NULL;
    desc.is_stable = s->is_stable;
    desc.memory = s->memory;
    desc.context = s->gpu.cpus == NULL ? s->gpu.context : NULL;
    assert_ok(gantry_taskman_submit(s->gpu.manager, &desc, &job->task));
    if (before != NULL) {
        gpu_fixture_after(job->task, before->task);
    }
    return job;
}

/* An audit takes a while: once for each partition. */
static const gantry_sm_set *sms_of(struct replan_scene *s, gantry_partition *partition, uint64_t id,
                                   uint32_t index)
{
    if (s->audited[index] != id) {
        s->sets[index].struct_size = sizeof(s->sets[index]);
        assert_ok(gantry_partition_audit(partition, GANTRY_AUDIT_STREAM, &s->sets[index]));
        s->audited[index] = id;
    }
    return &s->sets[index];
}

void replan_check(struct replan_scene *s)
{
    assert_ok(gantry_context_synchronize(s->gpu.context));
    for (uint32_t j = 0; j < s->count; j++) {
        gantry_partition_info info = {.struct_size = sizeof(info)};
        gantry_partition *partition = replan_partition(s, s->jobs[j].partition);
        assert_ok(gantry_partition_get_info(partition, &info));
        const gantry_sm_set *allowed = sms_of(s, partition, info.id, info.index);
        uint32_t *seen = s->pinned + (size_t)j * REPLAN_WORDS, count = 0;
        for (uint32_t w = 0; w < REPLAN_WORDS; w++) {
            count += (uint32_t)__builtin_popcount(seen[w]);
            assert_int_equal(seen[w] & ~(uint32_t)(allowed->words[w / 2] >> (w % 2 * 32)), 0);
        }
        assert_in_range(count, 1, allowed->seen_sms);
        if (gpu_fixture_driver() == GANTRY_DRIVER_EMULATED) { /* it fills virtual SMs in turn */
            assert_int_equal(count, allowed->seen_sms);
        }
        memset(seen, 0xff, REPLAN_WORDS * sizeof(*seen));
    }
}

void replan_random_step(struct replan_scene *s, uint32_t count, uint64_t *random)
{
    s->count = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t p = replan_random(random, gantry_partition_count(s->gpu.context) + 1);
        gantry_partition_info info = {.struct_size = sizeof(info)};
        if (p != 0) {
            assert_ok(gantry_partition_get_info(gantry_partition_at(s->gpu.context, p - 1), &info));
        }
        struct replan_job *job = replan_submit(s, info.name, NULL);
        for (uint32_t before = 0; before < i; before++) {
            if (replan_random(random, 4) == 0) {
                gpu_fixture_after(job->task, s->jobs[before].task);
            }
        }
    }
    assert_ok(gpu_fixture_step(&s->gpu));
}

gantry_partition_info replan_info(gantry_partition *partition)
{
    gantry_partition_info info = {.struct_size = sizeof(info)};
    assert_ok(gantry_partition_get_info(partition, &info));
    return info;
}

void replan_refused(gantry_status status, gantry_status expected, const char *text)
{
    assert_int_equal(status, expected);
    if (strstr(gantry_last_error(), text) == NULL) {
        fail_msg("\"%s\" is not in \"%s\"", text, gantry_last_error());
    }
}

void replan_submit_row(struct replan_scene *s)
{
    static const char *const names[] = {"critical", "bulk", "other", ""};
    const struct replan_job *before = NULL;
    s->count = 0;
    for (uint32_t i = 0; i < 8; i++) {
        before = replan_submit(s, names[i % 4], before);
    }
}

void replan_run_row(struct replan_scene *s)
{
    replan_submit_row(s);
    assert_ok(gpu_fixture_step(&s->gpu));
    replan_check(s);
}
