/* SPDX-License-Identifier: MIT */
/* What the parts of the conformance suite share.
 *
 * The suite says what a CUDA driver does, as far as Gantry relies on it, and runs unchanged on the emulated
 * driver and on a real device ($GANTRY_TEST_DRIVER is "emulated", the default, or "cuda").  The real driver
 * is right: a difference is an error of the emulator, or an assertion about something CUDA leaves open. */
#ifndef TESTS_CONFORMANCE_CONFORMANCE_H
#define TESTS_CONFORMANCE_CONFORMANCE_H

#include "driver/module.h"
#include "tests/support/cmocka_c11.h"

#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* One context for the whole suite, current on the test's thread. */
extern struct gy_context *cf_context;
extern const struct gy_driver *cu; /* the driver of cf_context */

/* The kernels of conformance_kernels.cu. */
extern CUfunction cf_add, cf_geometry, cf_reverse, cf_parameters, cf_place, cf_shared, cf_hold, cf_cluster,
    cf_meet, cf_early, cf_mirror, cf_crowd, cf_look;

/* Check that the call has this result; if not, the call and the driver's name of the other result are
 * shown. */
#define cu_is(expected, call) cf_expect((expected), cu->call, #call, __FILE__, __LINE__)
#define cu_ok(call) cu_is(CUDA_SUCCESS, call)
void cf_expect(CUresult expected, CUresult result, const char *call, const char *file, int line);

/* End the test: the driver or the device has not what it is about.  The reason is listed behind all tests. */
#define cf_skip(reason)         \
    do {                        \
        if (cf_skipped(reason)) \
            skip();             \
    } while (0)
bool cf_skipped(const char *reason);

/* ---- fixture: taken per test, given back whether the test failed or not ---- */

CUstream cf_stream(void); /* non-blocking */
CUevent cf_event(void);   /* without timing */
CUevent cf_timed_event(void);
CUdeviceptr cf_device(size_t bytes); /* with arbitrary contents */
uint32_t *cf_pinned(size_t count);   /* `count` words of page-locked host memory, zeroed */
CUdeviceptr cf_address(const void *pinned);
/* What a node of a graph launches: so many blocks of so many threads, in one dimension. */
CUDA_KERNEL_NODE_PARAMS_v2 cf_kernel_node(CUfunction function, unsigned blocks, unsigned threads,
                                          void **params);

/* Hold `stream`: work that is enqueued behind runs only after cf_open_gate().  There is one gate at a time;
 * while it is closed, no call that may wait for the whole context (memory allocation, module loading) is
 * allowed. */
void cf_close_gate(CUstream stream);
void cf_open_gate(void);

/* Enqueue data[0..count) += value. */
void cf_launch_add(CUstream stream, CUdeviceptr data, uint32_t count, uint32_t value);
/* Check that every one of `count` words at `data` is `value`; this synchronises the stream. */
void cf_expect_words(CUstream stream, CUdeviceptr data, uint32_t count, uint32_t value);

int cf_group_setup(void **state);
int cf_group_teardown(void **state);
int cf_setup(void **state);
int cf_teardown(void **state);

#define CF_TEST(name) cmocka_unit_test_setup_teardown(name, cf_setup, cf_teardown)
#define CF_GROUP(group)                                                                       \
    int cf_run_##group(void);                                                                 \
    int cf_run_##group(void)                                                                  \
    {                                                                                         \
        return cmocka_run_group_tests_name(#group, group, cf_group_setup, cf_group_teardown); \
    }

#endif
