/* SPDX-License-Identifier: MIT */
/* A context for tests of modules, and whether its driver is the emulated one. */
#ifndef TESTS_CONTEXT_MODULE_SCENE_H
#define TESTS_CONTEXT_MODULE_SCENE_H

#include "tests/support/gpu_fixture.h"

static struct gpu_fixture gpu;
static bool is_emulated;

static inline int module_scene_open(void **state)
{
    (void)state;
    struct gantry_emu_control emu;
    gpu_fixture_open(&gpu, 1, 0);
    is_emulated = gpu_fixture_controls(&emu);
    return 0;
}

static inline int module_scene_close(void **state)
{
    (void)state;
    gpu_fixture_close(&gpu);
    return 0;
}

#endif
