/* SPDX-License-Identifier: MIT */
/* Checks a kernel count_up(uint32_t *count, uint32_t by) in a module, however the module was made. */
#ifndef TESTS_CONTEXT_COUNTING_H
#define TESTS_CONTEXT_COUNTING_H

#include "tests/support/gpu_fixture.h"

/* Check that the module has the kernel under that name, and that it counts correctly. */
void counting_check(struct gpu_fixture *gpu, gantry_module *module, const char *name);

#endif
