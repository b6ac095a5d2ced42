/* SPDX-License-Identifier: MIT */
/* Memory that other processes have: exported as a file descriptor or as a fabric handle, imported by another
 * context, and by another process, which is this program once more. */
#include "driver/cuda_abi.h"
#include "tests/support/gpu_fixture.h"

#include "tests/support/cmocka_c11.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES ((size_t)64 << 10)
#define OURS 3u
#define THEIRS 7u

extern char **environ;

/* ---- tasks -------------------------------------------------------------------------------------- */

/* A context with a page-locked block, and the work of its task. */
static struct side {
    struct gpu_fixture gpu;
    uint8_t *host;
    void *device;  /* where the task works */
    uint32_t fill; /* 0: the task reads into `host` */
    gantry_task *done;
} sides[2];

static gantry_launch_result launch(gantry_launch *launch_, void *arg)
{
    struct side *s = arg;
    gantry_status status = s->fill != 0 ? gantry_launch_fill(launch_, s->device, s->fill, 1, BYTES)
                                        : gantry_launch_copy_dtoh(launch_, s->host, s->device, BYTES);
    status = status == GANTRY_OK ? gantry_launch_add_completion(launch_, s->done) : status;
    return status == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static void work(struct side *s, void *device, uint32_t fill)
{
    s->device = device;
    s->fill = fill;
    s->done = gpu_fixture_cpu(&s->gpu, "done", NULL, NULL);
    gpu_fixture_after(s->done, gpu_fixture_gpu(&s->gpu, GANTRY_TASK_KERNEL, "work", launch, s));
    assert_ok(gpu_fixture_step(&s->gpu));
}

static void expect(struct side *s, void *device, uint8_t value)
{
    memset(s->host, 0, BYTES);
    work(s, device, 0);
    for (size_t i = 0; i < BYTES; i++) {
        if (s->host[i] != value) {
            fail_msg("byte %zu is %u instead of %u", i, s->host[i], value);
        }
    }
}

static gantry_heap *heap_of(const struct side *s)
{
    return gantry_context_heap(s->gpu.context);
}

static void open_side(struct side *s, const char *device, gantry_heap_handles handles)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_heap_options heap = GANTRY_HEAP_OPTIONS_INIT;
    void *host;
    heap.handles = handles;
    options.driver = gpu_fixture_driver();
    options.device = device;
    options.heap = &heap;
    gpu_fixture_open_with(&s->gpu, 1, &options);
    assert_ok(
        gantry_heap_alloc(heap_of(s), GANTRY_MEMORY_PINNED, BYTES, 0, GANTRY_ALLOC_SITE("host"), &host));
    s->host = host;
}

static void close_side(struct side *s)
{
    assert_ok(gantry_heap_free(heap_of(s), s->host));
    gpu_fixture_close(&s->gpu);
}

static void *take(struct side *s, size_t bytes)
{
    void *block;
    assert_ok(
        gantry_heap_alloc(heap_of(s), GANTRY_MEMORY_DEVICE, bytes, 0, GANTRY_ALLOC_SITE("block"), &block));
    return block;
}

static gantry_exported_memory export_block(struct side *s, const void *block, gantry_heap_handles handles)
{
    gantry_exported_memory out = {.struct_size = sizeof(out)};
    assert_ok(gantry_heap_export(heap_of(s), block, handles, &out));
    assert_int_equal(out.handles, handles);
    assert_int_equal(out.fd >= 0, handles == GANTRY_HEAP_HANDLES_FD);
    assert_true(out.bytes >= BYTES && out.offset + out.bytes <= out.slab_bytes);
    return out;
}

static bool is_emulated(void)
{
    return gpu_fixture_driver() == GANTRY_DRIVER_EMULATED;
}

/* ---- the other process -------------------------------------------------------------------------- */

/* What it is told is in its arguments; it expects what the parent wrote, and writes something else. */
static int be_other(char **arguments)
{
    gantry_exported_memory memory = {.struct_size = sizeof(memory)};
    memory.handles = (gantry_heap_handles)strtol(arguments[0], NULL, 10);
    memory.fd = (int)strtol(arguments[1], NULL, 10);
    snprintf((char *)memory.fabric, sizeof(memory.fabric), "%s", arguments[2]);
    memory.slab_bytes = strtoull(arguments[3], NULL, 10);
    memory.offset = strtoull(arguments[4], NULL, 10);
    memory.bytes = strtoull(arguments[5], NULL, 10);
    struct side *s = &sides[0];
    void *there;
    open_side(s, "0", GANTRY_HEAP_HANDLES_NONE);
    assert_ok(gantry_heap_import(heap_of(s), &memory, &there));
    expect(s, there, OURS);
    work(s, there, THEIRS);
    assert_ok(gantry_context_synchronize(s->gpu.context));
    assert_ok(gantry_heap_release_import(heap_of(s), there));
    close_side(s);
    return 0;
}

static void give_to_other(const gantry_exported_memory *memory)
{
    char self[256], numbers[5][32];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
    assert_true(length > 0);
    self[length] = '\0';
    const int fd = memory->fd >= 0 ? fcntl(memory->fd, F_DUPFD, 0) : -1; /* one that is inherited */
    snprintf(numbers[0], sizeof(numbers[0]), "%d", (int)memory->handles);
    snprintf(numbers[1], sizeof(numbers[1]), "%d", fd);
    snprintf(numbers[2], sizeof(numbers[2]), "%llu", (unsigned long long)memory->slab_bytes);
    snprintf(numbers[3], sizeof(numbers[3]), "%llu", (unsigned long long)memory->offset);
    snprintf(numbers[4], sizeof(numbers[4]), "%llu", (unsigned long long)memory->bytes);
    char other[] = "--other";
    char fabric[sizeof(memory->fabric)];
    memcpy(fabric, memory->fabric, sizeof(fabric));
    char *const arguments[] = {self,       other,      numbers[0], numbers[1], fabric,
                               numbers[2], numbers[3], numbers[4], NULL};
    pid_t pid;
    int status = -1;
    assert_int_equal(posix_spawn(&pid, self, NULL, NULL, arguments, environ), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    if (fd >= 0) {
        assert_int_equal(close(fd), 0);
    }
}

static void exchange_with_other(gantry_heap_handles made, gantry_heap_handles handles)
{
    struct side *s = &sides[0];
    open_side(s, "0", made);
    void *before = take(s, (size_t)3 << 20), *block = take(s, BYTES), *small = take(s, 256);
    work(s, block, OURS);
    assert_ok(gantry_context_synchronize(s->gpu.context));
    gantry_exported_memory memory = export_block(s, block, handles);
    give_to_other(&memory);
    expect(s, block, THEIRS);
    if (memory.fd >= 0) {
        assert_int_equal(close(memory.fd), 0);
    }
    gantry_exported_memory of_small = {.struct_size = sizeof(of_small)};
    assert_ok(gantry_heap_export(heap_of(s), (char *)small + 16, handles, &of_small)); /* of the small tier */
    assert_int_equal(of_small.bytes, 240);
    if (of_small.fd >= 0) {
        assert_int_equal(close(of_small.fd), 0);
    }
    assert_ok(gantry_heap_free(heap_of(s), before));
    assert_ok(gantry_heap_free(heap_of(s), block));
    assert_ok(gantry_heap_free(heap_of(s), small));
    close_side(s);
}

static void test_another_process_has_the_memory(void **state)
{
    (void)state;
    exchange_with_other(GANTRY_HEAP_HANDLES_FD, GANTRY_HEAP_HANDLES_FD);
    exchange_with_other(GANTRY_HEAP_HANDLES_BEST, GANTRY_HEAP_HANDLES_FD);
}

static void test_another_process_has_it_by_the_fabric(void **state)
{
    (void)state;
    if (!is_emulated()) {
        print_message("skipped: fabric handles are text for the emulated driver alone\n");
        skip();
    }
    setenv("GANTRY_EMU_PROFILE", "fabric", 1);
    exchange_with_other(GANTRY_HEAP_HANDLES_FABRIC, GANTRY_HEAP_HANDLES_FABRIC);
    exchange_with_other(GANTRY_HEAP_HANDLES_BEST, GANTRY_HEAP_HANDLES_FABRIC);
    unsetenv("GANTRY_EMU_PROFILE");
}

/* ---- another context ---------------------------------------------------------------------------- */

static bool has_two(void)
{
    gantry_link link = {.struct_size = sizeof(link)};
    return gantry_link_get(gpu_fixture_driver(), 0, 1, &link) == GANTRY_OK && link.access != 0;
}

/* The importer's device is another one; the memory stays when its heap has ended. */
static void test_another_device_has_the_memory(void **state)
{
    (void)state;
    if (!has_two()) {
        print_message("skipped: no two linked devices\n");
        skip();
    }
    void *there;
    open_side(&sides[0], "0", GANTRY_HEAP_HANDLES_FD);
    open_side(&sides[1], "1", GANTRY_HEAP_HANDLES_NONE);
    void *block = take(&sides[0], BYTES);
    work(&sides[0], block, OURS);
    assert_ok(gantry_context_synchronize(sides[0].gpu.context));
    gantry_exported_memory memory = export_block(&sides[0], block, GANTRY_HEAP_HANDLES_FD);
    assert_ok(gantry_heap_import(heap_of(&sides[1]), &memory, &there));
    assert_int_equal(close(memory.fd), 0);
    expect(&sides[1], there, OURS);
    work(&sides[1], there, THEIRS);
    assert_ok(gantry_context_synchronize(sides[1].gpu.context));
    expect(&sides[0], block, THEIRS);
    assert_ok(gantry_heap_free(heap_of(&sides[0]), block));
    close_side(&sides[0]);
    expect(&sides[1], there, THEIRS);
    close_side(&sides[1]); /* which gives the import back */
}

/* A fleet's heaps are made alike, and each slab is one allocation that all devices reach. */
static void test_heaps_of_a_fleet_export(void **state)
{
    (void)state;
    if (!has_two()) {
        print_message("skipped: no two linked devices\n");
        skip();
    }
    gantry_fleet_options options = GANTRY_FLEET_OPTIONS_INIT;
    gantry_context_options context = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_heap_options heap = GANTRY_HEAP_OPTIONS_INIT;
    gantry_fleet *fleet;
    heap.handles = GANTRY_HEAP_HANDLES_BEST;
    context.driver = gpu_fixture_driver();
    context.heap = &heap;
    options.devices = "0,1";
    options.context = &context;
    assert_ok(gantry_fleet_create(&options, &fleet));
    for (uint32_t i = 0; i < 2; i++) {
        gantry_heap *own = gantry_context_heap(gantry_fleet_context(fleet, i));
        gantry_heap *other = gantry_context_heap(gantry_fleet_context(fleet, 1 - i));
        gantry_exported_memory memory = {.struct_size = sizeof(memory)};
        void *block, *there;
        assert_ok(gantry_heap_alloc(own, GANTRY_MEMORY_DEVICE, BYTES, 0, GANTRY_ALLOC_SITE("block"), &block));
        assert_ok(gantry_heap_export(own, block, GANTRY_HEAP_HANDLES_FD, &memory));
        assert_ok(gantry_heap_import(other, &memory, &there));
        assert_int_equal(close(memory.fd), 0);
        assert_ok(gantry_heap_release_import(other, there));
        assert_int_equal(gantry_heap_release_import(other, there), GANTRY_ERR_NOT_FOUND);
        assert_ok(gantry_heap_free(own, block));
    }
    gantry_fleet_destroy(fleet);
}

/* ---- refusals ----------------------------------------------------------------------------------- */

static void test_what_cannot_be_exported_is_said(void **state)
{
    (void)state;
    struct side *s = &sides[0];
    gantry_exported_memory memory = {.struct_size = sizeof(memory)};
    open_side(s, "0", GANTRY_HEAP_HANDLES_NONE);
    void *block = take(s, BYTES);
    assert_int_equal(gantry_heap_export(heap_of(s), block, GANTRY_HEAP_HANDLES_FD, &memory),
                     GANTRY_ERR_UNSUPPORTED);
    assert_non_null(strstr(gantry_last_error(), "not made for file descriptor handles"));
    assert_ok(gantry_heap_free(heap_of(s), block));
    close_side(s);
    open_side(s, "0", GANTRY_HEAP_HANDLES_FD);
    block = take(s, BYTES);
    assert_int_equal(gantry_heap_export(heap_of(s), block, GANTRY_HEAP_HANDLES_FABRIC, &memory),
                     GANTRY_ERR_UNSUPPORTED);
    assert_int_equal(gantry_heap_export(heap_of(s), s->host, GANTRY_HEAP_HANDLES_FD, &memory),
                     GANTRY_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(gantry_last_error(), "is pinned memory"));
    assert_ok(gantry_heap_free(heap_of(s), block));
    assert_int_equal(gantry_heap_export(heap_of(s), block, GANTRY_HEAP_HANDLES_FD, &memory),
                     GANTRY_ERR_NOT_FOUND);
    close_side(s);
}

static void test_what_cannot_be_imported_is_said(void **state)
{
    (void)state;
    struct side *s = &sides[0];
    void *there = NULL;
    open_side(s, "0", GANTRY_HEAP_HANDLES_FD);
    void *block = take(s, BYTES);
    gantry_exported_memory memory = export_block(s, block, GANTRY_HEAP_HANDLES_FD), wrong = memory;
    wrong.fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    assert_int_equal(gantry_heap_import(heap_of(s), &wrong, &there), GANTRY_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(gantry_last_error(), "for no exported memory"));
    assert_int_equal(close(wrong.fd), 0);
    wrong = memory;
    wrong.slab_bytes += (uint64_t)2 << 20;
    assert_int_equal(gantry_heap_import(heap_of(s), &wrong, &there), GANTRY_ERR_INVALID_ARGUMENT);
    wrong.slab_bytes = memory.slab_bytes;
    wrong.offset = memory.slab_bytes;
    assert_int_equal(gantry_heap_import(heap_of(s), &wrong, &there), GANTRY_ERR_INVALID_ARGUMENT);
    assert_null(there);
    assert_int_equal(close(memory.fd), 0);
    assert_ok(gantry_heap_free(heap_of(s), block));
    close_side(s);
}

/* The driver's answer is known by trying alone, and is told. */
static void test_fabric_handles_that_are_not_permitted_are_refused(void **state)
{
    (void)state;
    if (!is_emulated()) {
        print_message("skipped: fabric handles may be permitted\n");
        skip();
    }
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_heap_options heap = GANTRY_HEAP_OPTIONS_INIT;
    gantry_context *context = NULL;
    heap.handles = GANTRY_HEAP_HANDLES_FABRIC;
    options.driver = GANTRY_DRIVER_EMULATED;
    options.heap = &heap;
    assert_int_equal(gantry_context_create(&options, &context), GANTRY_ERR_UNSUPPORTED);
    assert_non_null(strstr(gantry_last_error(), "device 0 makes no memory for fabric handles"));
    assert_non_null(strstr(gantry_last_error(), "IMEX"));
    heap.handles = (gantry_heap_handles)4;
    assert_int_equal(gantry_context_create(&options, &context), GANTRY_ERR_INVALID_ARGUMENT);
    assert_null(context);
}

/* Memory that is short while handles are tried is not taken for handles that are not possible. */
static void test_short_memory_is_no_refusal_of_handles(void **state)
{
    (void)state;
    struct gantry_emu_control emu;
    if (!is_emulated() || !gpu_fixture_controls(&emu)) {
        skip();
    }
    const gantry_heap_handles wanted[] = {GANTRY_HEAP_HANDLES_FD, GANTRY_HEAP_HANDLES_BEST};
    for (uint32_t i = 0; i < 2; i++) {
        gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
        gantry_heap_options heap = GANTRY_HEAP_OPTIONS_INIT;
        gantry_context *context = NULL;
        heap.handles = wanted[i];
        options.driver = GANTRY_DRIVER_EMULATED;
        options.heap = &heap;
        emu.reset_counters();
        assert_int_equal((emu.fail)("cuMemCreate", 1, CUDA_ERROR_OUT_OF_MEMORY, GANTRY_EMU_ONCE), 0);
        assert_int_equal(gantry_context_create(&options, &context), GANTRY_ERR_OUT_OF_DEVICE_MEMORY);
        assert_null(context);
        emu.clear_faults();
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_another_process_has_the_memory),
        cmocka_unit_test(test_another_process_has_it_by_the_fabric),
        cmocka_unit_test(test_another_device_has_the_memory),
        cmocka_unit_test(test_heaps_of_a_fleet_export),
        cmocka_unit_test(test_what_cannot_be_exported_is_said),
        cmocka_unit_test(test_what_cannot_be_imported_is_said),
        cmocka_unit_test(test_fabric_handles_that_are_not_permitted_are_refused),
        cmocka_unit_test(test_short_memory_is_no_refusal_of_handles),
    };
    setenv("GANTRY_EMU_DEVICES", "2", 1);
    if (argc == 8 && strcmp(argv[1], "--other") == 0) {
        return be_other(argv + 2);
    }
    return cmocka_run_group_tests_name("exports", tests, NULL, NULL);
}
