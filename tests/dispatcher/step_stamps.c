/* SPDX-License-Identifier: MIT */
#include "tests/dispatcher/step_stamps.h"

#include "tests/support/cmocka_c11.h"

#include "order_kernels.kernels.h"

#include <string.h>

void step_stamps_open(struct step_stamps *s, const gantry_context_options *options, uint32_t more)
{
    gantry_context_options ours = *options;
    memset(s, 0, sizeof(*s));
    ours.driver = gpu_fixture_driver();
    gpu_fixture_open_with(&s->gpu, 2, &ours);
    stamps_open(&s->stamps, s->gpu.context, (STEP_CELLS + more) * sizeof(uint32_t));
    assert_ok(gantry_module_load(s->gpu.context, &gantry_image_order_kernels, &s->module));
    assert_ok(gantry_module_get_kernel(s->module, "stamp_run", &s->stamp_run));
}

void step_stamps_close(struct step_stamps *s)
{
    gantry_taskman_destroy(s->gpu.manager);
    s->gpu.manager = NULL;
    stamps_close(&s->stamps);
    gpu_fixture_close(&s->gpu);
}

uint32_t step_stamps_at(uint32_t step, uint32_t index)
{
    return STAMPS_AT + 2 * (MOST * step + index);
}

/* The run that `runs` counts as its n-th stamps in the cells `begin` of step n, if n < most. */
static gantry_launch_result launch_stamp(const struct step_stamps *s, gantry_launch *launch, uint32_t runs_at,
                                         uint32_t most, uint32_t begin_at, uint64_t least_ns)
{
    uint32_t *cells = s->stamps.on_device;
    void *clock = cells, *runs = cells + runs_at, *begin = cells + begin_at;
    uint32_t stride = 2 * MOST;
    void *args[] = {&clock, &runs, &most, &begin, &stride, &least_ns};
    gantry_dim3 one = {1, 1, 1};
    return gantry_launch_kernel(launch, s->stamp_run, one, one, 0, args) == GANTRY_OK ? GANTRY_LAUNCH_DONE
                                                                                      : GANTRY_LAUNCH_FAILED;
}

gantry_launch_result step_stamps_launch(const struct step_stamps *s, gantry_launch *launch, uint32_t index,
                                        uint64_t least_ns)
{
    return launch_stamp(s, launch, RUNS_AT + index, STEPS, step_stamps_at(0, index), least_ns);
}

gantry_launch_result step_stamps_launch_in(const struct step_stamps *s, gantry_launch *launch, uint32_t step,
                                           uint32_t index, uint64_t least_ns)
{
    return launch_stamp(s, launch, TOLD_RUNS_AT + MOST * step + index, 1, step_stamps_at(step, index),
                        least_ns);
}

uint32_t step_stamps_draw(struct step_stamps *s, uint32_t below)
{
    s->random = s->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(s->random >> 33) % below;
}
