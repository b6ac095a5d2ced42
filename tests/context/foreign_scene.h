/* SPDX-License-Identifier: MIT */
/* What the acts beside somebody else's capture share (test_foreign_captures.c). */
#ifndef TESTS_CONTEXT_FOREIGN_SCENE_H
#define TESTS_CONTEXT_FOREIGN_SCENE_H

#include "tests/support/cmocka_c11.h"
#include "tests/support/gpu_fixture.h"

#include "driver/driver.h"

enum { WORDS = 1024, BYTES = WORDS * 4 };

struct act;

struct scene {
    struct gpu_fixture gpu;
    gantry_submission submission;
    gantry_heap *heap;
    gantry_kernel *stamp;
    uint32_t *host;    /* page-locked, WORDS */
    uint32_t *device;  /* WORDS */
    uint32_t *scratch; /* device memory: the words that kernels stamp */
    void *block;       /* freed by the act that frees */
    gantry_context *second;
    const struct act *act;
    gantry_status status; /* what the act says */
};

/* What the library does beside the capture.  OK, or refused by name. */
struct act {
    const char *name;
    gantry_status (*act)(struct scene *s);
    bool is_of_all; /* it is about all streams of the context: refused while one of them is captured, and
                     * where the capture cannot be seen the driver breaks it */
};

extern const struct gy_driver *cu;
extern CUcontext primary;

void must(CUresult result);
/* Steps of kernels on the scene's context. */
gantry_status act_kernels(struct scene *s);
gantry_status act_plan(struct scene *s);

/* Acts that wait, and those of several devices and with a renderer. */
extern const struct act foreign_waits[];
extern const size_t foreign_wait_count;

#endif
