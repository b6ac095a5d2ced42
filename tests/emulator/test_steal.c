/* SPDX-License-Identifier: MIT */
/* Thread blocks that ask for others (Cluster Launch Control) beside a more urgent kernel. */
#include "tests/emulator/emu_test.h"

#include <gantry/host_module.h>

#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { UNITS = 64, ALONE = 8, THREADS = 2 };

/* What the kernels and the test tell each other. */
static struct {
    atomic_uint begun;  /* units */
    atomic_uint go;     /* the first units may end */
    atomic_uint urgent; /* the urgent kernel has run */
    atomic_uint done[UNITS];
    bool waits_for_urgent; /* all but a few units do; immutable while kernels run */
} scene;

static void wait_for(atomic_uint *word)
{
    while (atomic_load(word) == 0) {
        sched_yield();
    }
}

static void do_unit(uint32_t unit)
{
    const uint32_t number = atomic_fetch_add(&scene.begun, 1);
    if (number < THREADS) {
        wait_for(&scene.go);
    } else if (number >= ALONE && scene.waits_for_urgent) {
        wait_for(&scene.urgent);
    }
    atomic_fetch_add(&scene.done[unit], 1);
}

/* The loop of <gantry/kernel/steal.h>, for blocks of one thread. */
static void run_units(struct gantry_host_thread *self, void *const *args)
{
    uint64_t barrier = 0, answer[2];
    uint32_t unit = self->block_index[0], phase = 0;
    (void)args;
    self->ops->steal_begin(self, &barrier);
    for (;; phase ^= 1) {
        self->ops->steal_send(self, answer, &barrier);
        do_unit(unit);
        self->ops->steal_wait(self, &barrier, phase);
        if (!self->ops->steal_granted(self, answer)) {
            return;
        }
        unit = self->ops->steal_block(self, answer);
    }
}

static void run_urgent(struct gantry_host_thread *self, void *const *args)
{
    (void)self, (void)args;
    atomic_store(&scene.urgent, 1);
}

static const struct gantry_host_kernel kernels[] = {{"units", run_units, 0, NULL},
                                                    {"urgent", run_urgent, 0, NULL}};
static const struct gantry_host_module image = {GANTRY_HOST_MODULE_MAGIC, "test_steal", 2, kernels, 0, 0};

static CUfunction function_of(CUmodule module, const char *name)
{
    CUfunction function;
    cu_ok(cuModuleGetFunction(&function, module, name));
    return function;
}

static void launch(CUfunction function, uint32_t blocks, CUstream stream)
{
    cu_ok(cuLaunchKernel(function, blocks, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
}

/* Each unit is done once, by blocks of which so many were taken over; returns how many began by themselves.
 */
static uint64_t count_blocks(void)
{
    for (uint32_t unit = 0; unit < UNITS; unit++) {
        assert_int_equal(atomic_load(&scene.done[unit]), 1);
    }
    return UNITS - emu.steals();
}

/* All threads are busy with the blocks of one kernel when a more urgent one comes: their requests are
 * refused, and a thread leaves for it.  Units beyond the first ones end only when it has run. */
static void test_a_more_urgent_kernel_is_let_in(void **state)
{
    (void)state;
    CUmodule module;
    CUstream low, high;
    memset(&scene, 0, sizeof(scene));
    scene.waits_for_urgent = true;
    cu_ok(cuModuleLoadDataEx(&module, &image, 0, NULL, NULL));
    cu_ok(cuStreamCreateWithPriority(&low, CU_STREAM_NON_BLOCKING, 0));
    cu_ok(cuStreamCreateWithPriority(&high, CU_STREAM_NON_BLOCKING, -1));
    emu.reset_counters();
    launch(function_of(module, "units"), UNITS, low);
    while (atomic_load(&scene.begun) < THREADS) {
        sched_yield();
    }
    launch(function_of(module, "urgent"), 1, high);
    atomic_store(&scene.go, 1);
    cu_ok(cuStreamSynchronize(high));
    cu_ok(cuStreamSynchronize(low));
    assert_true(count_blocks() >= THREADS); /* those that were refused have ended */
}

static void test_one_of_the_same_urgency_is_not(void **state)
{
    (void)state;
    CUmodule module;
    memset(&scene, 0, sizeof(scene));
    cu_ok(cuModuleLoadDataEx(&module, &image, 0, NULL, NULL));
    CUstream one = et_stream(), other = et_stream();
    emu.reset_counters();
    launch(function_of(module, "units"), UNITS, one);
    while (atomic_load(&scene.begun) < THREADS) {
        sched_yield();
    }
    launch(function_of(module, "urgent"), 1, other);
    atomic_store(&scene.go, 1);
    cu_ok(cuStreamSynchronize(one));
    cu_ok(cuStreamSynchronize(other));
    assert_int_equal(count_blocks(), THREADS);
}

int main(void)
{
    setenv("GANTRY_EMU_PROFILE", "b200", 1); /* a device whose blocks steal */
    setenv("GANTRY_EMU_THREADS", "2", 1);
    const struct CMUnitTest tests[] = {
        ET_TEST(test_a_more_urgent_kernel_is_let_in),
        ET_TEST(test_one_of_the_same_urgency_is_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
