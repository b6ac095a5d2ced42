/* SPDX-License-Identifier: MIT */
#include "tests/dispatcher/lists_scene.h"

#include "tests/support/cmocka_c11.h"

#include "context/context.h"

#include <string.h>

static uint64_t random_state = 88172645463325252u;

uint64_t lists_random(uint64_t bound)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (random_state >> 11) % bound;
}

void *lists_allocate(struct lists *l, gantry_memory_kind kind, size_t bytes)
{
    void *block;
    assert_ok(gantry_heap_alloc(gantry_context_heap(l->gpu.context), kind, bytes, 0,
                                GANTRY_ALLOC_SITE("lists"), &block));
    return block;
}

int lists_open(void **state, gantry_submission submission)
{
    static struct lists lists;
    struct lists *l = &lists;
    memset(l, 0, sizeof(*l));
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.driver = gpu_fixture_driver();
    options.submission = submission;
    gpu_fixture_open_with(&l->gpu, 1, &options);
    l->emulated = l->gpu.context->cuda->driver->emulated;
    l->source = lists_allocate(l, GANTRY_MEMORY_DEVICE, BYTES);
    l->dest = lists_allocate(l, GANTRY_MEMORY_DEVICE, BYTES);
    l->content = lists_allocate(l, GANTRY_MEMORY_PINNED, BYTES);
    l->got = lists_allocate(l, GANTRY_MEMORY_PINNED, BYTES);
    l->expected = lists_allocate(l, GANTRY_MEMORY_PINNED, BYTES);
    l->made = lists_allocate(l, GANTRY_MEMORY_PINNED, MOST * sizeof(*l->made));
    l->arrays = lists_allocate(l, GANTRY_MEMORY_PINNED, 3 * MOST * sizeof(*l->arrays));
    l->made_count = lists_allocate(l, GANTRY_MEMORY_PINNED, sizeof(*l->made_count));
    l->descs = lists_allocate(l, GANTRY_MEMORY_DEVICE, MOST * sizeof(*l->descs));
    l->columns = lists_allocate(l, GANTRY_MEMORY_DEVICE, 3 * MOST * sizeof(*l->columns));
    l->count = lists_allocate(l, GANTRY_MEMORY_DEVICE, sizeof(*l->count));
    for (size_t i = 0; i < BYTES; i++) {
        l->content[i] = (uint8_t)lists_random(256);
    }
    *state = l;
    return 0;
}

int lists_close(void **state)
{
    struct lists *l = *state;
    void *blocks[] = {l->source, l->dest,    l->content,    l->got,   l->expected, l->made,
                      l->arrays, l->columns, l->made_count, l->descs, l->count};
    for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) {
        assert_ok(gantry_heap_free(gantry_context_heap(l->gpu.context), blocks[i]));
    }
    gpu_fixture_close(&l->gpu);
    return 0;
}

/* ---- lists ---- */

/* Make copies of all sizes from `source` to `dest`; `expected` has the contents of dest afterwards. */
void lists_make(struct lists *l, uint32_t most, uint64_t biggest)
{
    uint64_t at = 0;
    uint32_t count = 0;
    memset(l->expected, 0, BYTES);
    while (count < most) {
        uint64_t bytes = lists_random(biggest + 1);
        if (at + bytes > BYTES) {
            break;
        }
        uint64_t from = lists_random(BYTES - bytes + 1);
        l->made[count] = (gantry_copy_desc){
            .dest = l->dest + at, .source = l->source + from, .bytes = bytes, .type = GANTRY_COPY_DTOD};
        l->arrays[count] = (uintptr_t)(l->dest + at);
        l->arrays[MOST + count] = (uintptr_t)(l->source + from);
        l->arrays[2 * MOST + count] = bytes;
        memcpy(l->expected + at, l->content + from, bytes);
        at += bytes + lists_random(20);
        count++;
    }
    *l->made_count = count;
}

void lists_use(struct lists *l, enum form form, bool counted)
{
    l->list = (gantry_copy_list)GANTRY_COPY_LIST_INIT;
    uint64_t *columns = form == COLUMNS ? l->columns : l->arrays;
    if (form == DESCS) {
        l->list.descs = l->descs;
    } else {
        l->list.dests = (void *const *)(void *)columns;
        l->list.sources = (const void *const *)(void *)(columns + MOST);
        l->list.bytes = columns + 2 * MOST;
    }
    l->list.most = counted ? MOST : *l->made_count;
    l->list.count = counted ? l->count : NULL;
}

/* ---- tasks ---- */

gantry_launch_result lists_launch_inputs(gantry_launch *launch, void *arg)
{
    struct lists *l = arg;
    assert_ok(gantry_launch_copy_htod(launch, l->source, l->content, BYTES));
    assert_ok(gantry_launch_copy_htod(launch, l->descs, l->made, MOST * sizeof(*l->made)));
    assert_ok(gantry_launch_copy_htod(launch, l->columns, l->arrays, 3 * MOST * sizeof(*l->arrays)));
    assert_ok(gantry_launch_copy_htod(launch, l->count, l->made_count, sizeof(*l->count)));
    assert_ok(gantry_launch_fill(launch, l->dest, 0, 4, BYTES / 4));
    return GANTRY_LAUNCH_DONE;
}

static CUstreamCaptureMode capture_mode(const struct lists *l)
{
    const struct gy_driver *driver = l->gpu.context->cuda->driver;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL, same;
    assert_int_equal(driver->cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
    same = mode;
    assert_int_equal(driver->cuThreadExchangeStreamCaptureMode(&same), CUDA_SUCCESS);
    return mode;
}

static gantry_launch_result launch_list(gantry_launch *launch, void *arg)
{
    struct lists *l = arg;
    const CUstreamCaptureMode mode = capture_mode(l);
    l->calls++;
    l->answered = l->box.width != 0 ? gantry_copy_launch_box(launch, &l->box, NULL)
                                    : gantry_copy_launch_list(launch, &l->list, NULL);
    (void)snprintf(l->text, sizeof(l->text), "%s", l->answered != GANTRY_OK ? gantry_last_error() : "");
    assert_int_equal(capture_mode(l), mode); /* the thread keeps it */
    return l->answered == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

gantry_launch_result lists_launch_result(gantry_launch *launch, void *arg)
{
    struct lists *l = arg;
    assert_ok(gantry_launch_copy_dtoh(launch, l->got, l->dest, BYTES));
    return GANTRY_LAUNCH_DONE;
}

/* Submit the step's three tasks. */
void lists_submit(struct lists *l, bool stable)
{
    gantry_task *tasks[3];
    static const gantry_launch_fn functions[3] = {lists_launch_inputs, launch_list, lists_launch_result};
    for (int i = 0; i < 3; i++) {
        gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
        desc.kind = GANTRY_TASK_KERNEL;
        desc.label = "lists";
        desc.launch = functions[i];
        desc.arg = l;
        desc.is_stable = stable;
        assert_ok(gantry_taskman_submit(l->gpu.manager, &desc, &tasks[i]));
        if (i > 0) {
            gpu_fixture_after(tasks[i], tasks[i - 1]);
        }
    }
}

void lists_synchronize(struct lists *l)
{
    assert_ok(gantry_context_acquire(l->gpu.context));
    assert_ok(GY_CALL(l->gpu.context->cuda, cuCtxSynchronize()));
    assert_ok(gantry_context_release(l->gpu.context));
}

void lists_assert_copied(struct lists *l)
{
    lists_synchronize(l);
    for (size_t i = 0; i < BYTES; i++) {
        if (l->got[i] != l->expected[i]) {
            fail_msg("byte %zu is 0x%02x, not 0x%02x", i, l->got[i], l->expected[i]);
        }
    }
}

gantry_status lists_step(struct lists *l)
{
    memset(l->got, 0xee, BYTES);
    lists_submit(l, false);
    return gpu_fixture_step(&l->gpu);
}

void lists_refuse(struct lists *l, const char *text)
{
    assert_int_not_equal(lists_step(l), GANTRY_OK);
    assert_int_equal(l->answered, GANTRY_ERR_INVALID_ARGUMENT);
    if (strstr(l->text, text) == NULL) {
        fail_msg("'%s' lacks '%s'", l->text, text);
    }
    lists_synchronize(l);
}
