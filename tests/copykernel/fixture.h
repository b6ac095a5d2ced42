/* SPDX-License-Identifier: MIT */
/* A copier with an arena on the device and one in page-locked memory, on the emulated driver or, with
 * GANTRY_TEST_DRIVER=cuda, on a device.  Functions fail the test themselves. */
#ifndef TESTS_COPYKERNEL_FIXTURE_H
#define TESTS_COPYKERNEL_FIXTURE_H

#include "driver/context.h"
#include "heap/heap.h"
#include "tests/support/cmocka_c11.h"

#include "copykernel/copier.h"
#include "emulator/gantry_emu.h"

enum { ARENA = 1 << 19 };

struct fixture {
    struct gy_context *context;
    gantry_heap *heap;
    struct gy_copier *copier;
    CUstream stream;
    void *device, *pinned; /* ARENA bytes each, from the heap */
    uint8_t *image;        /* the expected contents of `device` */
    struct gantry_emu_control emu;
};

uint64_t random_below(uint64_t bound);

int open_fixture(void **state);
int close_fixture(void **state);
#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, open_fixture, close_fixture)
/* Skip the test on a device. */
struct fixture *emulated_only(void **state);

char *at(void *base, size_t offset);
gantry_status try_launch(struct fixture *f, const gantry_copy_desc *descs, size_t count);
gantry_status flush(struct fixture *f, gantry_copy_queue *queue);
/* Check that the call succeeds. */
void launch(struct fixture *f, const gantry_copy_desc *descs, size_t count);
void synchronize(struct fixture *f);
void assert_device_is_image(struct fixture *f);

#endif
