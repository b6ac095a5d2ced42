/* SPDX-License-Identifier: MIT */
/* Wrong arguments of <gantry/interop.h>. */
#include "tests/campaign/bad_input.h"

#include "tests/support/cmocka_c11.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BYTES = 4096 };

static gantry_context *context;
static gantry_shared_memory *memory;
static gantry_exchange *exchange;

static gantry_status wait_never(void *arg, uint64_t value, uint64_t timeout_ns)
{
    (void)arg;
    (void)value;
    (void)timeout_ns;
    return GANTRY_ERR_TIMED_OUT;
}

static gantry_status signal_nobody(void *arg, uint64_t value)
{
    (void)arg;
    (void)value;
    return GANTRY_OK;
}

/* Messages contain the number, which must be the same in every run. */
static int as_number(int fd)
{
    int other = fcntl(fd, F_DUPFD_CLOEXEC, 700);
    assert_int_equal(other, 700);
    assert_int_equal(close(fd), 0);
    return other;
}

static int memory_file(void)
{
    int fd = memfd_create("frame", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, BYTES), 0);
    return as_number(fd);
}

static void import_rows(void)
{
    gantry_shared_memory *none;
    gantry_shared_memory_options options = GANTRY_SHARED_MEMORY_OPTIONS_INIT;
    options.bytes = BYTES;
    options.label = "frame";
    BAD_OUT("`context` NULL", none, gantry_shared_memory_import(NULL, &options, &none));
    BAD_OUT("`options` NULL", none, gantry_shared_memory_import(context, NULL, &none));
    BAD("`out` NULL", gantry_shared_memory_import(context, &options, NULL));
    BAD_OUT("no descriptor", none, gantry_shared_memory_import(context, &options, &none));
    options.kind = (gantry_shared_handle)7;
    BAD_OUT("unknown kind", none, gantry_shared_memory_import(context, &options, &none));
    options.kind = GANTRY_SHARED_OPAQUE_FD;
    options.bytes = 0;
    BAD_OUT("no bytes", none, gantry_shared_memory_import(context, &options, &none));
    options.bytes = BYTES;
    options.struct_size = 4;
    BAD_OUT("struct_size too small", none, gantry_shared_memory_import(context, &options, &none));
    options.struct_size = sizeof(options);
    options.fd = as_number(open("/dev/null", O_RDONLY | O_CLOEXEC));
    BAD_OUT("/dev/null as the descriptor", none, gantry_shared_memory_import(context, &options, &none));
    assert_int_equal(close(options.fd), 0);
    options.fd = memory_file();
    options.bytes = 2 * BYTES;
    BAD_OUT("more bytes than the file has", none, gantry_shared_memory_import(context, &options, &none));
    options.bytes = BYTES;
    assert_ok(gantry_shared_memory_import(context, &options, &memory));
}

static gantry_shared_image *image_rows(void)
{
    gantry_shared_image_options options = GANTRY_SHARED_IMAGE_OPTIONS_INIT;
    gantry_shared_image *image, *none;
    uint32_t texels[64];
    options.width = options.height = 8;
    BAD_OUT("`memory` NULL", none, gantry_shared_memory_map_image(NULL, &options, &none));
    BAD_OUT("`options` NULL", none, gantry_shared_memory_map_image(memory, NULL, &none));
    BAD("`out` NULL", gantry_shared_memory_map_image(memory, &options, NULL));
    options.offset = 4;
    BAD_OUT("an odd offset", none, gantry_shared_memory_map_image(memory, &options, &none));
    options.offset = 0;
    options.width = 1000;
    BAD_OUT("more texels than there is memory", none,
            gantry_shared_memory_map_image(memory, &options, &none));
    options.width = 0;
    BAD_OUT("no texels", none, gantry_shared_memory_map_image(memory, &options, &none));
    options.width = 8;
    options.channels = 3;
    BAD_OUT("three channels", none, gantry_shared_memory_map_image(memory, &options, &none));
    options.channels = 4;
    options.format = (gantry_image_format)77;
    BAD_OUT("unknown format", none, gantry_shared_memory_map_image(memory, &options, &none));
    options.format = GANTRY_IMAGE_U8;
    options.struct_size = 4;
    BAD_OUT("struct_size too small", none, gantry_shared_memory_map_image(memory, &options, &none));
    options.struct_size = sizeof(options);
    assert_ok(gantry_shared_memory_map_image(memory, &options, &image));
    BAD_GIVES("NULL", 0, gantry_shared_image_surface(NULL));
    BAD_GIVES("NULL", NULL, gantry_shared_image_native(NULL));
    BAD("`launch` NULL", gantry_launch_copy_from_image(NULL, texels, 0, image, NULL));
    BAD("`launch` NULL", gantry_launch_copy_to_image(NULL, image, NULL, texels, 0));
    BAD("`from` NULL", gantry_launch_copy_from_image(NULL, texels, 0, NULL, NULL));
    BAD("`to` NULL", gantry_launch_copy_to_image(NULL, NULL, NULL, texels, 0));
    return image;
}

static void lost_image_rows(gantry_shared_image *image)
{
    gantry_shared_image_options options = GANTRY_SHARED_IMAGE_OPTIONS_INIT;
    gantry_shared_image *none;
    uint32_t texels[64];
    BAD_OUT("destroyed handle", none, gantry_shared_memory_map_image(memory, &options, &none));
    BAD_GIVES("destroyed handle", 0, gantry_shared_image_surface(image));
    BAD_GIVES("destroyed handle", NULL, gantry_shared_image_native(image));
    BAD("destroyed handle", gantry_launch_copy_from_image(NULL, texels, 0, image, NULL));
    BAD("destroyed handle", gantry_launch_copy_to_image(NULL, image, NULL, texels, 0));
}

static void memory_rows(void)
{
    void *at;
    gantry_shared_image *image = image_rows();
    BAD_OUT("`memory` NULL", at, gantry_shared_memory_map(NULL, 0, 4, &at));
    BAD("`out` NULL", gantry_shared_memory_map(memory, 0, 4, NULL));
    BAD_OUT("an odd offset", at, gantry_shared_memory_map(memory, 4, 4, &at));
    BAD_OUT("an end behind the memory", at, gantry_shared_memory_map(memory, 256, BYTES, &at));
    gantry_shared_memory_destroy(NULL);
    BAD_IGNORED(gantry_shared_memory_destroy, "NULL");
    gantry_shared_memory_destroy(memory);
    lost_image_rows(image);
    BAD_OUT("destroyed handle", at, gantry_shared_memory_map(memory, 0, 4, &at));
    BAD_REFUSED("destroyed handle", gantry_shared_memory_destroy(memory));
}

static void create_rows(void)
{
    gantry_exchange *none;
    gantry_exchange_options options = GANTRY_EXCHANGE_OPTIONS_INIT;
    options.label = "frame";
    options.signal = signal_nobody;
    BAD_OUT("`wait` NULL", none, gantry_exchange_create(context, &options, &none));
    options.wait = wait_never;
    BAD_OUT("`context` NULL", none, gantry_exchange_create(NULL, &options, &none));
    BAD_OUT("`options` NULL", none, gantry_exchange_create(context, NULL, &none));
    BAD("`out` NULL", gantry_exchange_create(context, &options, NULL));
    options.timeout_ns = UINT64_MAX;
    BAD_OUT("a wait without an end", none, gantry_exchange_create(context, &options, &none));
    options.timeout_ns = 1000;
    options.way = (gantry_exchange_way)7;
    BAD_OUT("unknown way", none, gantry_exchange_create(context, &options, &none));
    options.way = GANTRY_EXCHANGE_DEVICE;
    BAD_OUT("device way without descriptors", none, gantry_exchange_create(context, &options, &none));
    options.wait_fd = as_number(open("/dev/null", O_RDONLY | O_CLOEXEC));
    BAD_OUT("/dev/null as a semaphore", none, gantry_exchange_create(context, &options, &none));
    assert_int_equal(close(options.wait_fd), 0);
    options.wait_fd = options.signal_fd = memory_file();
    BAD_OUT("memory as a semaphore", none, gantry_exchange_create(context, &options, &none));
    assert_int_equal(close(options.wait_fd), 0);
    options.way = GANTRY_EXCHANGE_HOST;
    assert_ok(gantry_exchange_create(context, &options, &exchange));
}

static void exchange_rows(void)
{
    gantry_exchange_stats stats = {.struct_size = sizeof(stats)}, small = {.struct_size = 4};
    gantry_taskman_options with = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_taskman *cpu_only;
    gantry_task *acquire, *release;
    assert_ok(gantry_taskman_create(&with, &cpu_only));
    BAD_OUT("`exchange` NULL", acquire, gantry_exchange_tasks(NULL, cpu_only, &acquire, &release));
    BAD_OUT("`manager` NULL", acquire, gantry_exchange_tasks(exchange, NULL, &acquire, &release));
    BAD("`out_acquire` NULL", gantry_exchange_tasks(exchange, cpu_only, NULL, &release));
    BAD_OUT("a manager without a GPU dispatcher", acquire,
            gantry_exchange_tasks(exchange, cpu_only, &acquire, &release));
    BAD("`exchange` NULL", gantry_exchange_next(NULL, 1, 1));
    assert_ok(gantry_exchange_next(exchange, 1, 1));
    BAD("the last values were not used", gantry_exchange_next(exchange, 2, 2));
    BAD("`exchange` NULL", gantry_exchange_get_stats(NULL, &stats));
    BAD("`stats` NULL", gantry_exchange_get_stats(exchange, NULL));
    BAD("struct_size too small", gantry_exchange_get_stats(exchange, &small));
    BAD_UNCHECKED(gantry_exchange_is_lost, "NULL");
    gantry_exchange_destroy(NULL);
    BAD_IGNORED(gantry_exchange_destroy, "NULL");
    gantry_exchange_destroy(exchange);
    BAD_OUT("destroyed handle", acquire, gantry_exchange_tasks(exchange, cpu_only, &acquire, &release));
    BAD("destroyed handle", gantry_exchange_next(exchange, 2, 2));
    BAD("destroyed handle", gantry_exchange_get_stats(exchange, &stats));
    BAD_GIVES("destroyed handle", false, gantry_exchange_is_lost(exchange));
    BAD_REFUSED("destroyed handle", gantry_exchange_destroy(exchange));
    gantry_taskman_destroy(cpu_only);
}

void bad_interop(void)
{
    gantry_exchange_options exchanged = GANTRY_EXCHANGE_OPTIONS_INIT;
    gantry_shared_memory_options imported = GANTRY_SHARED_MEMORY_OPTIONS_INIT;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_shared_memory *none;
    gantry_exchange *nobody;
    options.driver = GANTRY_DRIVER_EMULATED;
    assert_ok(gantry_context_create(&options, &context));
    import_rows();
    memory_rows();
    create_rows();
    exchange_rows();
    gantry_context_destroy(context);
    BAD_OUT("destroyed handle", none, gantry_shared_memory_import(context, &imported, &none));
    BAD_OUT("destroyed handle", nobody, gantry_exchange_create(context, &exchanged, &nobody));
}
