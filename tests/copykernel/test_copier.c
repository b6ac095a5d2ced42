/* SPDX-License-Identifier: MIT */
/* The copier on a driver: addresses of every kind, one launch per batch, and a ring that is neither
 * overwritten nor waited for.  Runs on the emulated driver, or on a device with GANTRY_TEST_DRIVER=cuda. */
#include "tests/copykernel/fixture.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

/* ---- copies ---- */

/* Make up to `most` disjoint HtoD copies and fills of the device arena, also in the image. */
static size_t random_batch(struct fixture *f, gantry_copy_desc *descs, size_t most, uint64_t biggest)
{
    size_t count = 0, offset = 0;
    while (count < most) {
        uint64_t bytes = random_below(biggest + 1);
        if (offset + bytes + 64 > ARENA) {
            break;
        }
        gantry_copy_desc *d = &descs[count++];
        *d = (gantry_copy_desc){.bytes = bytes};
        if (random_below(3) == 0) {
            offset = (offset + 3) & ~(size_t)3;
            d->type = GANTRY_COPY_FILL;
            d->bytes = bytes & ~(uint64_t)3;
            d->pattern_bytes = 1u << random_below(3);
            d->pattern = (uint32_t)random_below(UINT32_MAX);
            for (size_t i = 0; i < d->bytes; i++) {
                f->image[offset + i] = (uint8_t)(d->pattern >> (i % d->pattern_bytes * 8));
            }
        } else {
            size_t from = random_below(ARENA - bytes);
            d->type = GANTRY_COPY_HTOD;
            d->source = at(f->pinned, from);
            memcpy(f->image + offset, at(f->pinned, from), bytes);
        }
        d->dest = at(f->device, offset);
        offset += d->bytes + random_below(20);
    }
    return count;
}

static void test_random_batches_arrive(void **state)
{
    struct fixture *f = *state;
    enum { MOST = 1200 };
    gantry_copy_desc *descs = calloc(MOST, sizeof(*descs));
    assert_non_null(descs);
    static const size_t most[] = {1, 3, 50, MOST};
    static const uint64_t biggest[] = {100000, 20, 4000, 200};
    for (int round = 0; round < 8; round++) {
        size_t count = random_batch(f, descs, most[round % 4], biggest[round % 4]);
        launch(f, descs, count);
        memset(descs, 0xff, MOST * sizeof(*descs)); /* they were read before the call returned */
        assert_device_is_image(f);
    }
    free(descs);
}

static void test_all_directions_in_one_batch(void **state)
{
    struct fixture *f = *state;
    void *back;
    assert_ok(
        gantry_heap_alloc(f->heap, GANTRY_MEMORY_WRITE_COMBINED, 5000, 0, GANTRY_ALLOC_SITE("test"), &back));
    memset(back, 0, 5000);
    const gantry_copy_desc first = {at(f->device, 100), at(f->pinned, 7), 3000, GANTRY_COPY_HTOD, 0, 0};
    launch(f, &first, 1);
    const gantry_copy_desc batch[] = {
        {at(back, 3), at(f->device, 100), 3000, GANTRY_COPY_DTOH, 0, 0},
        {at(f->device, 10001), at(f->device, 102), 2000, GANTRY_COPY_DTOD, 0, 0},
        {at(back, 4000), NULL, 500, GANTRY_COPY_FILL, 2, 0xabcd},
        {at(f->device, 20000), NULL, 4, GANTRY_COPY_FILL, 4, 0x01020304},
    };
    launch(f, batch, 4);
    memcpy(f->image + 100, at(f->pinned, 7), 3000);
    memcpy(f->image + 10001, at(f->pinned, 9), 2000);
    memcpy(f->image + 20000, (const uint8_t[]){4, 3, 2, 1}, 4);
    assert_device_is_image(f);
    assert_memory_equal(at(back, 3), at(f->pinned, 7), 3000);
    for (size_t i = 0; i < 500; i++) {
        assert_int_equal((uint8_t)at(back, 4000)[i], i % 2 == 0 ? 0xcd : 0xab);
    }
    assert_int_equal(at(back, 3003)[0], 0);
    assert_int_equal(at(back, 4500)[0], 0);
    assert_ok(gantry_heap_free(f->heap, back));
}

static void test_memory_of_the_application_is_found(void **state)
{
    struct fixture *f = *state;
    CUdeviceptr device = 0;
    void *pinned = NULL, *registered = aligned_alloc(4096, 8192);
    assert_non_null(registered);
    assert_ok(GY_CALL(f->context, cuMemAlloc(&device, 8192)));
    assert_ok(GY_CALL(f->context, cuMemHostAlloc(&pinned, 8192, CU_MEMHOSTALLOC_DEVICEMAP)));
    assert_ok(GY_CALL(f->context, cuMemHostRegister(registered, 8192, CU_MEMHOSTREGISTER_DEVICEMAP)));
    memset(pinned, 0x11, 8192);
    memset(registered, 0, 8192);
    const gantry_copy_desc in = {
        (void *)(uintptr_t)(device + 5), at(pinned, 1), 8000, GANTRY_COPY_HTOD, 0, 0};
    const gantry_copy_desc out = {
        at(registered, 9), (void *)(uintptr_t)(device + 5), 8000, GANTRY_COPY_DTOH, 0, 0};
    launch(f, &in, 1);
    launch(f, &out, 1);
    synchronize(f);
    assert_memory_equal(at(registered, 9), at(pinned, 1), 8000);
    assert_int_equal(at(registered, 8)[0], 0);
    assert_int_equal(at(registered, 8009)[0], 0);

    const gantry_copy_desc too_long = {(void *)(uintptr_t)device, pinned, 8193, GANTRY_COPY_HTOD, 0, 0};
    assert_int_equal(try_launch(f, &too_long, 1), GANTRY_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(gantry_last_error(), "copy descriptor 0: dest"));
    assert_ok(GY_CALL(f->context, cuMemHostUnregister(registered)));
    assert_ok(GY_CALL(f->context, cuMemFreeHost(pinned)));
    assert_ok(GY_CALL(f->context, cuMemFree(device)));
    free(registered);
}

/* ---- refusals ---- */

static void assert_refused(struct fixture *f, gantry_copy_desc bad, const char *text)
{
    const gantry_copy_desc descs[3] = {
        {f->device, NULL, 16, GANTRY_COPY_FILL, 1, 0xee}, {NULL, NULL, 0, GANTRY_COPY_DTOD, 0, 0}, bad};
    assert_int_equal(try_launch(f, descs, 3), GANTRY_ERR_INVALID_ARGUMENT);
    if (strstr(gantry_last_error(), text) == NULL) {
        fail_msg("no \"%s\" in \"%s\"", text, gantry_last_error());
    }
}

static void test_bad_addresses_are_named_and_nothing_is_launched(void **state)
{
    struct fixture *f = *state;
    char *device = at(f->device, 4096), *pinned = f->pinned;
    char *pageable = malloc(64), *from_heap;
    assert_non_null(pageable);
    void *block;
    assert_ok(gantry_heap_alloc(f->heap, GANTRY_MEMORY_HOST, 64, 0, GANTRY_ALLOC_SITE("test"), &block));
    from_heap = block;
    assert_refused(f, (gantry_copy_desc){device, pageable, 8, GANTRY_COPY_HTOD, 0, 0},
                   "copy descriptor 2: source");
    assert_non_null(strstr(gantry_last_error(), "pageable"));
    assert_refused(f, (gantry_copy_desc){device, from_heap, 8, GANTRY_COPY_HTOD, 0, 0}, "is pageable");
    assert_refused(f, (gantry_copy_desc){pageable, device, 8, GANTRY_COPY_DTOH, 0, 0},
                   "copy descriptor 2: dest");
    assert_refused(f, (gantry_copy_desc){pageable, NULL, 8, GANTRY_COPY_FILL, 1, 0},
                   "copy descriptor 2: dest");
    assert_refused(f, (gantry_copy_desc){pinned, device, 8, GANTRY_COPY_DTOD, 0, 0}, "dest");
    assert_non_null(strstr(gantry_last_error(), "is host memory"));
    assert_refused(f, (gantry_copy_desc){device, pinned, 8, GANTRY_COPY_DTOD, 0, 0}, "source");
    assert_refused(f, (gantry_copy_desc){device, device + 64, 8, GANTRY_COPY_HTOD, 0, 0}, "source");
    assert_non_null(strstr(gantry_last_error(), "is device memory"));
    assert_refused(f, (gantry_copy_desc){device, device + 64, 8, GANTRY_COPY_DTOH, 0, 0}, "dest");
    assert_refused(f, (gantry_copy_desc){device, device + 64, (uint64_t)1 << 40, GANTRY_COPY_DTOD, 0, 0},
                   "leaves its memory");
    assert_refused(f, (gantry_copy_desc){at(f->device, 8), pinned, 100, GANTRY_COPY_HTOD, 0, 0},
                   "copy descriptors 0 and 2: their dest ranges overlap");
    assert_refused(f, (gantry_copy_desc){device, at(f->device, 15), 1, GANTRY_COPY_DTOD, 0, 0},
                   "copy descriptor 2: source overlaps dest of descriptor 0");
    assert_int_equal(try_launch(f, NULL, 1), GANTRY_ERR_INVALID_ARGUMENT);
    assert_device_is_image(f); /* the valid first descriptor was not performed either */
    if (f->context->driver->emulated) {
        assert_int_equal(f->emu.calls("cuLaunchKernel"), 0);
    }
    assert_ok(gantry_heap_free(f->heap, block));
    free(pageable);
}

/* ---- launches ---- */

static void test_one_launch_for_any_count(void **state)
{
    struct fixture *f = emulated_only(state);
    enum { MOST = 1500 };
    gantry_copy_desc *descs = calloc(MOST, sizeof(*descs));
    assert_non_null(descs);
    for (size_t count = 1; count <= MOST; count = count * 3 + 1) {
        for (size_t i = 0; i < count; i++) {
            descs[i] =
                (gantry_copy_desc){at(f->device, 100 * i), at(f->pinned, 90 * i), 50, GANTRY_COPY_HTOD, 0, 0};
            memcpy(f->image + 100 * i, descs[i].source, 50);
        }
        f->emu.reset_counters();
        launch(f, descs, count);
        assert_int_equal(f->emu.calls("cuLaunchKernel"), 1);
        assert_int_equal(f->emu.calls("cuPointerGetAttribute"), 0); /* the heap knows it */
    }
    assert_device_is_image(f);
    f->emu.reset_counters();
    launch(f, descs, 0);
    descs[0].bytes = 0;
    launch(f, descs, 1);
    assert_int_equal(f->emu.calls(NULL), 0);
    free(descs);
}

static uint64_t pinned_blocks(struct fixture *f)
{
    gantry_heap_stats stats = {.struct_size = sizeof(stats)};
    assert_ok(gantry_heap_get_stats(f->heap, GANTRY_MEMORY_PINNED, &stats));
    return stats.block_count;
}

/* Batches too long for kernel parameters; each fills its own part of the arena. */
static void launch_long(struct fixture *f, uint32_t number)
{
    enum { COUNT = 400, BYTES = 32 };
    static gantry_copy_desc descs[COUNT];
    size_t part = (size_t)number * COUNT * BYTES;
    for (size_t i = 0; i < COUNT; i++) {
        descs[i] = (gantry_copy_desc){at(f->device, part + i * BYTES), NULL, BYTES, GANTRY_COPY_FILL, 4,
                                      (uint32_t)(number * 1000 + i)};
        for (size_t k = 0; k < BYTES; k += 4) {
            uint32_t word = descs[i].pattern;
            memcpy(f->image + part + i * BYTES + k, &word, 4);
        }
    }
    launch(f, descs, COUNT);
}

static void test_ring_grows_instead_of_waiting_and_is_used_again(void **state)
{
    struct fixture *f = emulated_only(state);
    enum { BATCHES = 30 };
    uint64_t before = pinned_blocks(f);
    f->emu.hold();
    for (uint32_t i = 0; i < BATCHES; i++) {
        launch_long(f, i);
    }
    assert_int_equal(pinned_blocks(f), before + BATCHES); /* none may be overwritten */
    f->emu.release();
    assert_device_is_image(f);
    for (int round = getenv("GANTRY_TEST_LIGHT") != NULL ? 2 : 0; round < 3; round++) {
        for (uint32_t i = 0; i < BATCHES; i++) {
            launch_long(f, i);
        }
        assert_device_is_image(f);
    }
    assert_int_equal(pinned_blocks(f), before + BATCHES);
    for (uint32_t i = 0; i < 5; i++) { /* one at a time needs one */
        launch_long(f, 0);
        synchronize(f);
    }
    assert_int_equal(pinned_blocks(f), before + BATCHES);
}

static void test_failed_driver_calls_are_reported_and_survived(void **state)
{
    struct fixture *f = emulated_only(state);
    static const char *const calls[] = {"cuEventCreate", "cuLaunchKernel", "cuEventRecord"};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal((f->emu.fail)(calls[i], 1, CUDA_ERROR_UNKNOWN, GANTRY_EMU_ONCE), 0);
        gantry_copy_desc descs[300];
        for (size_t k = 0; k < 300; k++) {
            descs[k] =
                (gantry_copy_desc){at(f->device, ARENA / 2 + 80 * k), NULL, 64, GANTRY_COPY_FILL, 1, 0};
        }
        assert_int_equal(try_launch(f, descs, 300), GANTRY_ERR_DRIVER);
        assert_non_null(strstr(gantry_last_error(), calls[i]));
        /* (These are zeros over zeros, so this does not show that the last of them was launched.) */
        f->emu.clear_faults();
        launch_long(f, (uint32_t)i);
    }
    assert_device_is_image(f);
}

static void test_launch_survives_every_allocation_failure(void **state)
{
    struct fixture *f = *state;
    enum { COUNT = 300 };
    gantry_copy_desc descs[COUNT];
    for (size_t k = 0; k < COUNT; k++) {
        descs[k] = (gantry_copy_desc){at(f->device, 80 * k), NULL, 64, GANTRY_COPY_FILL, 1, 0x77};
        memset(f->image + 80 * k, 0x77, 64);
    }
    for (long nth = 0;; nth++) {
        assert_true(nth < 100);
        gy_fault_arm(nth);
        gantry_status status = try_launch(f, descs, COUNT);
        bool fired = gy_fault_fired();
        gy_fault_arm(-1);
        if (!fired) {
            assert_ok(status);
            assert_true(nth > 0);
            break;
        }
        assert_true(status == GANTRY_ERR_OUT_OF_HOST_MEMORY || status == GANTRY_ERR_OUT_OF_DEVICE_MEMORY);
    }
    assert_device_is_image(f);
}

static void test_create_survives_every_allocation_failure(void **state)
{
    struct fixture *f = *state;
    for (long nth = 0;; nth++) {
        assert_true(nth < 100);
        long live = gy_alloc_live();
        struct gy_copier *copier = (struct gy_copier *)&nth;
        gy_fault_arm(nth);
        gantry_status status = gy_copier_create(f->context, f->heap, &copier);
        bool fired = gy_fault_fired();
        gy_fault_arm(-1);
        if (!fired) {
            assert_ok(status);
            gy_copier_destroy(copier);
            assert_int_equal(gy_alloc_live(), live);
            break;
        }
        assert_int_equal(status, GANTRY_ERR_OUT_OF_HOST_MEMORY);
        assert_ptr_equal(copier, &nth);
        assert_int_equal(gy_alloc_live(), live);
    }
    gy_copier_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FIXTURE(test_random_batches_arrive),
        WITH_FIXTURE(test_all_directions_in_one_batch),
        WITH_FIXTURE(test_memory_of_the_application_is_found),
        WITH_FIXTURE(test_bad_addresses_are_named_and_nothing_is_launched),
        WITH_FIXTURE(test_one_launch_for_any_count),
        WITH_FIXTURE(test_ring_grows_instead_of_waiting_and_is_used_again),
        WITH_FIXTURE(test_failed_driver_calls_are_reported_and_survived),
        WITH_FIXTURE(test_launch_survives_every_allocation_failure),
        WITH_FIXTURE(test_create_survives_every_allocation_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
