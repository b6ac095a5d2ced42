/* SPDX-License-Identifier: MIT */
/* The same work in C and in C++, against a library that does nothing: the instructions that remain are the
 * cost of the language. */
#ifndef TESTS_CPP_COST_H
#define TESTS_CPP_COST_H

#include <gantry/gantry.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { COST_TASKS = 100 };

/* The data that the tasks work on. */
struct cost_scene {
    gantry_taskman *manager;
    gantry_kernel *kernel;
    uint32_t *device, *host;
    uint32_t count;
    uint64_t sum;
};

/* Submit COST_TASKS CPU tasks and as many GPU tasks that copy and launch a kernel, run all, and forget
 * them. */
typedef void (*cost_step_fn)(struct cost_scene *scene, void *cpp_manager);
void cost_step_c(struct cost_scene *scene, void *unused);
void cost_step_cpp(struct cost_scene *scene, void *cpp_manager);

/* The pointer is a gantry::manager. */
void *cost_make_manager(void);
void cost_drop_manager(void *cpp_manager);

#ifdef __cplusplus
}
#endif

#endif
