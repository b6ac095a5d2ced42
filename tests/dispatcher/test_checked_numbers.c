/* SPDX-License-Identifier: MIT */
/* GANTRY_CHECK=stable: each number of a list of copies, of a box and of a kernel's options is compared by
 * itself. */
#include "base/checking.h"
#include "context/context.h"
#include "order_kernels.kernels.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/gpu_fixture.h"
#include "tests/support/log_lines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum act { A_LIST, A_BOX, A_KERNEL };

struct scene {
    struct gpu_fixture gpu;
    gantry_kernel *count_up;
    gantry_task *task;
    char *memory; /* on the device, 65536 bytes that are 0 */
    enum act act;
    gantry_copy_list list;
    gantry_copy_box box;
    gantry_launch_options options;
};

static gantry_launch_result launch_single(gantry_launch *launch, void *arg)
{
    struct scene *s = arg;
    gantry_status status;
    if (s->act == A_LIST) {
        status = gantry_copy_launch_list(launch, &s->list, NULL);
    } else if (s->act == A_BOX) {
        status = gantry_copy_launch_box(launch, &s->box, NULL);
    } else {
        char *clock = s->memory;
        uint32_t by = 7;
        void *args[] = {&clock, &by};
        status = gantry_launch_kernel_with(launch, s->count_up, (gantry_dim3){4, 1, 1},
                                           (gantry_dim3){1, 1, 1}, 0, args, &s->options);
    }
    return status == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static void open_scene(struct scene *s, enum act act)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_module *module;
    void *memory;
    options.driver = gpu_fixture_driver();
    options.submission = GANTRY_SUBMISSION_STREAMS;
    memset(s, 0, sizeof(*s));
    setenv("GANTRY_CHECK", "stable", 1);
    gpu_fixture_open_with(&s->gpu, 1, &options);
    assert_ok(gantry_context_acquire(s->gpu.context));
    assert_ok(gantry_heap_alloc(gantry_context_heap(s->gpu.context), GANTRY_MEMORY_DEVICE, 65536, 0,
                                GANTRY_ALLOC_SITE("checked"), &memory));
    const CUdeviceptr at = (CUdeviceptr)(uintptr_t)memory;
    assert_int_equal(s->gpu.context->cuda->driver->cuMemsetD32Async(at, 0, 65536 / 4, NULL), CUDA_SUCCESS);
    assert_ok(gantry_context_synchronize(s->gpu.context));
    s->memory = memory;
    assert_ok(gantry_module_load(s->gpu.context, &gantry_image_order_kernels, &module));
    assert_ok(gantry_module_get_kernel(module, "count_up", &s->count_up));
    s->act = act;
    desc.kind = GANTRY_TASK_KERNEL;
    desc.label = "steady";
    desc.launch = launch_single;
    desc.arg = s;
    desc.is_stable = true;
    assert_ok(gantry_taskman_submit(s->gpu.manager, &desc, &s->task));
    assert_ok(gantry_taskman_freeze(s->gpu.manager));
}

static void close_scene(struct scene *s)
{
    assert_ok(gantry_context_synchronize(s->gpu.context));
    assert_ok(gantry_taskman_reset(s->gpu.manager));
    assert_ok(gantry_heap_free(gantry_context_heap(s->gpu.context), s->memory));
    assert_ok(gantry_context_release(s->gpu.context));
    gpu_fixture_close(&s->gpu);
    unsetenv("GANTRY_CHECK");
    (void)gy_checks_read();
}

static void run(struct scene *s)
{
    assert_ok(gantry_taskman_start(s->gpu.manager));
    assert_ok(gantry_taskman_stop(s->gpu.manager));
}

/* What it said in the run before is noted anew, and then `*at` is `value`: one line says so. */
static void assert_told(struct scene *s, void *at, const void *value, size_t size, const char *said)
{
    char before[16], expected[200];
    struct log_lines lines;
    assert_ok(gantry_task_invalidate(s->task));
    run(s);
    snprintf(expected, sizeof(expected),
             "stable task 'steady' does not enqueue what it did in the run before: call 0 (%s", said);
    log_lines_begin(&lines, expected);
    run(s);
    assert_int_equal(atomic_load(&lines.count), 0);
    memcpy(before, at, size);
    memcpy(at, value, size);
    run(s);
    if (log_lines_end(&lines) != 1) {
        fail_msg("nothing says \"%s\"", said);
    }
    memcpy(at, before, size);
}

#define ASSERT_TOLD(scene, field, value, said)                               \
    do {                                                                     \
        __typeof__(field) changed_ = (value);                                \
        assert_told((scene), &(field), &changed_, sizeof(changed_), (said)); \
    } while (0)

static void use_columns(struct scene *s)
{
    s->list = (gantry_copy_list)GANTRY_COPY_LIST_INIT;
    s->list.dests = (void *const *)(void *)(s->memory + 0x8000);
    s->list.sources = (const void *const *)(void *)(s->memory + 0x9000);
    s->list.bytes = (const uint64_t *)(void *)(s->memory + 0xa000);
    s->list.count = (const uint32_t *)(void *)(s->memory + 0xb000); /* which is 0 */
    s->list.most = 4;
    s->list.largest = 64;
}

static void test_each_number_of_a_list_is_compared(void **state)
{
    (void)state;
    struct scene s;
    open_scene(&s, A_LIST);
    char *m = s.memory;
    use_columns(&s);
    ASSERT_TOLD(&s, s.list.dests, (void *const *)(void *)(m + 0x8040), "list of copies): its targets is 0x");
    ASSERT_TOLD(&s, s.list.sources, (const void *const *)(void *)(m + 0x9040),
                "list of copies): its sources is 0x");
    ASSERT_TOLD(&s, s.list.bytes, (const uint64_t *)(void *)(m + 0xa040), "list of copies): its sizes is 0x");
    ASSERT_TOLD(&s, s.list.count, (const uint32_t *)(void *)(m + 0xb040), "list of copies): its count is 0x");
    ASSERT_TOLD(&s, s.list.most, 5, "list of copies): its maximum is 5, and was 4;");
    ASSERT_TOLD(&s, s.list.largest, 65, "list of copies): its largest is 65, and was 64;");
    s.list.dests = NULL;
    s.list.sources = NULL;
    s.list.bytes = NULL;
    s.list.descs = (const gantry_copy_desc *)(void *)(m + 0x8000);
    ASSERT_TOLD(&s, s.list.descs, (const gantry_copy_desc *)(void *)(m + 0x8040),
                "list of copies): its descriptors is 0x");
    close_scene(&s);
}

static void test_each_number_of_a_box_is_compared(void **state)
{
    (void)state;
    struct scene s;
    open_scene(&s, A_BOX);
    char *m = s.memory;
    s.box = (gantry_copy_box){.struct_size = sizeof(s.box),
                              .dest = m + 0x8000,
                              .source = m + 0x4000,
                              .width = 16,
                              .rows = 3,
                              .layers = 2,
                              .dest_pitch = 64,
                              .source_pitch = 48,
                              .dest_layer_pitch = 256,
                              .source_layer_pitch = 512};
    ASSERT_TOLD(&s, s.box.dest, (void *)(m + 0x8010), "box of copies): its target is 0x");
    ASSERT_TOLD(&s, s.box.source, (const void *)(m + 0x4010), "box of copies): its source is 0x");
    ASSERT_TOLD(&s, s.box.width, 8, "box of copies): its width is 8, and was 16;");
    ASSERT_TOLD(&s, s.box.rows, 2, "box of copies): its rows is 2, and was 3;");
    ASSERT_TOLD(&s, s.box.layers, 3, "box of copies): its layers is 3, and was 2;");
    ASSERT_TOLD(&s, s.box.dest_pitch, 80, "box of copies): its target's pitch is 80, and was 64;");
    ASSERT_TOLD(&s, s.box.source_pitch, 80, "box of copies): its source's pitch is 80, and was 48;");
    ASSERT_TOLD(&s, s.box.dest_layer_pitch, 512,
                "box of copies): its target's layers' pitch is 512, and was 256;");
    ASSERT_TOLD(&s, s.box.source_layer_pitch, 256,
                "box of copies): its source's layers' pitch is 256, and was 512;");
    close_scene(&s);
}

static void test_options_of_a_kernel_are_compared(void **state)
{
    (void)state;
    static const char said[] = "kernel count_up): its options (a number made of them) is ";
    struct scene s;
    open_scene(&s, A_KERNEL);
    s.options = (gantry_launch_options)GANTRY_LAUNCH_OPTIONS_INIT;
    s.options.has_priority = 1;
    ASSERT_TOLD(&s, s.options.priority, -1, said);
    ASSERT_TOLD(&s, s.options.has_priority, 0, said);
    ASSERT_TOLD(&s, s.options.cooperative, 1, said);
    close_scene(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_number_of_a_list_is_compared),
        cmocka_unit_test(test_each_number_of_a_box_is_compared),
        cmocka_unit_test(test_options_of_a_kernel_are_compared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
