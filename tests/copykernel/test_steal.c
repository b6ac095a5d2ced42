/* SPDX-License-Identifier: MIT */
/* The copier on a device of compute capability 10.0, whose thread blocks steal others (Cluster Launch
 * Control): only emulated ones, whatever device there is.  The kernel has the same source as everywhere. */
#include "tests/copykernel/fixture.h"

#include <stdlib.h>
#include <string.h>

enum { COUNT = 3000 };

/* Disjoint copies within the device arena and fills; there are more units than threads of the emulator run
 * at once. */
static size_t make_batch(struct fixture *f, gantry_copy_desc *descs, uint64_t biggest)
{
    size_t count = 0, next = ARENA / 2;
    while (count < COUNT) {
        uint64_t bytes = 1 + random_below(biggest);
        if (next + bytes > ARENA) {
            break;
        }
        size_t from = random_below(ARENA / 2 - bytes);
        gantry_copy_desc *d = &descs[count++];
        *d = (gantry_copy_desc){at(f->device, next), at(f->device, from), bytes, GANTRY_COPY_DTOD, 0, 0};
        memcpy(f->image + next, f->image + from, bytes);
        if (count % 3 == 0) {
            d->type = GANTRY_COPY_FILL;
            d->pattern_bytes = 1;
            d->pattern = (uint32_t)random_below(256);
            memset(f->image + next, (int)d->pattern, bytes);
        }
        next += bytes + random_below(9);
    }
    return count;
}

static void put_content(struct fixture *f)
{
    const gantry_copy_desc desc = {f->device, f->pinned, ARENA / 2, GANTRY_COPY_HTOD, 0, 0};
    launch(f, &desc, 1);
    memcpy(f->image, f->pinned, ARENA / 2);
}

static void test_batches_arrive_with_any_refusals(void **state)
{
    struct fixture *f = emulated_only(state);
    gantry_copy_desc *descs = calloc(COUNT, sizeof(*descs));
    assert_non_null(descs);
    assert_int_equal(f->context->info.compute_major, 10);
    put_content(f);
    assert_device_is_image(f);
    uint64_t most = 0;
    static const uint64_t refusals[] = {0, 1, 2, 5}, biggest[] = {300, 4000};
    for (int r = 0; r < 4; r++) {
        uint64_t every = refusals[r];
        for (int round = 0; round < 2; round++) {
            size_t count = make_batch(f, descs, biggest[round]);
            f->emu.reset_counters();
            f->emu.refuse_steals(every);
            launch(f, descs, count);
            assert_device_is_image(f);
            uint64_t steals = f->emu.steals();
            most = steals > most ? steals : most;
            assert_int_equal(f->emu.calls("cuLaunchKernel"), 1);
            assert_true(every != 1 || steals == 0);
        }
    }
    assert_true(most > 20);
    free(descs);
}

static void test_limited_blocks_draw_instead(void **state)
{
    struct fixture *f = emulated_only(state);
    gantry_copy_desc *descs = calloc(COUNT, sizeof(*descs));
    assert_non_null(descs);
    put_content(f);
    gantry_copy_tuning tuning = gy_copier_tuning(f->copier);
    tuning.device_blocks = 3;
    assert_ok(gy_copier_set_tuning(f->copier, &tuning));
    f->emu.reset_counters();
    size_t count = make_batch(f, descs, 300);
    launch(f, descs, count);
    assert_device_is_image(f);
    assert_int_equal(f->emu.steals(), 0);
    free(descs);
}

int main(void)
{
    setenv("GANTRY_EMU_PROFILE", "b200", 1);
    const struct CMUnitTest tests[] = {
        WITH_FIXTURE(test_batches_arrive_with_any_refusals),
        WITH_FIXTURE(test_limited_blocks_draw_instead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
