/* SPDX-License-Identifier: MIT */
/* Memory of another API: a memory file, which the emulated driver takes for memory that a software Vulkan
 * driver has exported; with its head or without. */
#include "tests/support/cmocka_c11.h"
#include "tests/support/gpu_fixture.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BYTES = 65536, HEAD = 4096 };

struct scene {
    struct gpu_fixture gpu;
    void *to;
    uint32_t value, words;
};

static int file_of(uint64_t bytes)
{
    int fd = memfd_create("frame", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    return fd;
}

static gantry_shared_memory_options memory_of(int fd, uint64_t bytes)
{
    gantry_shared_memory_options options = GANTRY_SHARED_MEMORY_OPTIONS_INIT;
    options.fd = fd;
    options.bytes = bytes;
    options.label = "frame";
    return options;
}

static gantry_launch_result fill(gantry_launch *launch, void *arg)
{
    struct scene *s = arg;
    return gantry_launch_fill(launch, s->to, s->value, 4, s->words) == GANTRY_OK ? GANTRY_LAUNCH_DONE
                                                                                 : GANTRY_LAUNCH_FAILED;
}

static void fill_words(struct scene *s, void *to, uint32_t value, uint32_t words)
{
    s->to = to;
    s->value = value;
    s->words = words;
    (void)gpu_fixture_gpu(&s->gpu, GANTRY_TASK_KERNEL, "fill", fill, s);
    assert_int_equal(gpu_fixture_step(&s->gpu), GANTRY_OK);
    assert_ok(gantry_context_synchronize(s->gpu.context));
}

static void use(struct scene *s, int fd, size_t data)
{
    volatile uint32_t *seen = mmap(NULL, data + BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(seen != MAP_FAILED);
    gantry_shared_memory_options options = memory_of(fd, BYTES);
    gantry_shared_memory *memory;
    void *all, *part;
    assert_ok(gantry_shared_memory_import(s->gpu.context, &options, &memory));
    assert_ok(gantry_shared_memory_map(memory, 0, BYTES, &all));
    assert_ok(gantry_shared_memory_map(memory, 512, 1024, &part));
    fill_words(s, all, 11, BYTES / 4);
    fill_words(s, part, 22, 256);
    assert_int_equal(seen[data / 4], 11);
    assert_int_equal(seen[(data + 508) / 4], 11);
    assert_int_equal(seen[(data + 512) / 4], 22);
    assert_int_equal(seen[(data + 1532) / 4], 22);
    assert_int_equal(seen[(data + 1536) / 4], 11);
    assert_int_equal(seen[(data + BYTES - 4) / 4], 11);
    gantry_shared_memory_destroy(memory);
    assert_int_equal(fcntl(fd, F_GETFD), -1); /* it was the library's */
    munmap((void *)(uintptr_t)seen, data + BYTES);
}

static void test_what_the_gpu_writes_is_in_the_file(void **state)
{
    (void)state;
    struct scene s = {.value = 0};
    gpu_fixture_open(&s.gpu, 2, 4);
    use(&s, file_of(BYTES), 0);
    int fd = file_of(HEAD + BYTES + 40);
    uint64_t head[2] = {HEAD + BYTES + 40, HEAD};
    assert_int_equal(pwrite(fd, head, sizeof(head), 0), sizeof(head));
    use(&s, fd, HEAD);
    gpu_fixture_close(&s.gpu);
}

static gantry_status import_as(struct scene *s, const gantry_shared_memory_options *options)
{
    gantry_shared_memory *memory = (void *)8;
    gantry_status status = gantry_shared_memory_import(s->gpu.context, options, &memory);
    assert_ptr_equal(memory, (void *)8); /* outputs are written on success only */
    return status;
}

static void test_what_is_no_memory_is_refused_and_stays_the_callers(void **state)
{
    (void)state;
    struct scene s = {.value = 0};
    gpu_fixture_open(&s.gpu, 1, 4);
    gantry_shared_memory_options options = memory_of(-1, BYTES);
    assert_int_equal(import_as(&s, &options), GANTRY_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(gantry_last_error(), "descriptor -1"));
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC), pipes[2];
    options = memory_of(fd, BYTES);
    assert_int_equal(import_as(&s, &options), GANTRY_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(gantry_last_error(), "/dev/null"));
    assert_int_equal(close(fd), 0);
    assert_int_equal(pipe(pipes), 0);
    options = memory_of(pipes[0], BYTES);
    assert_int_equal(import_as(&s, &options), GANTRY_ERR_INVALID_ARGUMENT);
    close(pipes[0]);
    close(pipes[1]);
    fd = file_of(BYTES);
    options = memory_of(fd, 2 * BYTES);
    assert_int_equal(import_as(&s, &options), GANTRY_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(gantry_last_error(), "131072"));
    options = memory_of(fd, BYTES);
    options.kind = GANTRY_SHARED_DMABUF;
    assert_int_equal(import_as(&s, &options), GANTRY_ERR_UNSUPPORTED);
    options = memory_of(fd, BYTES);
    options.label = "a label that is much longer than the sixty-three characters that one may have";
    assert_int_equal(import_as(&s, &options), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(close(fd), 0); /* it is still ours */
    gpu_fixture_close(&s.gpu);
}

static void test_ranges_are_checked(void **state)
{
    (void)state;
    struct scene s = {.value = 0};
    gpu_fixture_open(&s.gpu, 1, 4);
    gantry_shared_memory_options options = memory_of(file_of(BYTES), BYTES);
    gantry_shared_memory *memory;
    void *at;
    assert_ok(gantry_shared_memory_import(s.gpu.context, &options, &memory));
    assert_int_equal(gantry_shared_memory_map(memory, 1, 4, &at), GANTRY_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(gantry_last_error(), "offset 1 "));
    assert_int_equal(gantry_shared_memory_map(memory, 0, 0, &at), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_shared_memory_map(memory, 256, BYTES, &at), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_shared_memory_map(memory, UINT64_MAX - 255, 512, &at),
                     GANTRY_ERR_INVALID_ARGUMENT);
    assert_ok(gantry_shared_memory_map(memory, BYTES - 256, 256, &at));
    gpu_fixture_close(&s.gpu); /* together with the memory: it is destroyed with the context */
}

/* The driver may take the descriptor or not, and nobody knows afterwards whose it is: so the driver is not
 * asked. */
static void test_a_device_is_given_no_memory_file(void **state)
{
    (void)state;
    struct scene s = {.value = 0};
    gpu_fixture_open(&s.gpu, 1, 4);
    int fd = file_of(BYTES);
    gantry_shared_memory_options options = memory_of(fd, BYTES);
    assert_int_equal(import_as(&s, &options), GANTRY_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(gantry_last_error(), "software Vulkan driver"));
    assert_int_equal(close(fd), 0);
    gpu_fixture_close(&s.gpu);
}

int main(void)
{
    const struct CMUnitTest emulated[] = {
        cmocka_unit_test(test_what_the_gpu_writes_is_in_the_file),
        cmocka_unit_test(test_what_is_no_memory_is_refused_and_stays_the_callers),
        cmocka_unit_test(test_ranges_are_checked),
    };
    const struct CMUnitTest device[] = {
        cmocka_unit_test(test_a_device_is_given_no_memory_file),
    };
    return gpu_fixture_driver() == GANTRY_DRIVER_EMULATED ? cmocka_run_group_tests(emulated, NULL, NULL)
                                                          : cmocka_run_group_tests(device, NULL, NULL);
}
