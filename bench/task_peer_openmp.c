/* SPDX-License-Identifier: MIT */
/* OpenMP tasks, as gcc's libgomp runs them. */
#include "bench/task_shapes.h"

#include <stdlib.h>

struct job {
    struct task_field *field;
    uint32_t workers;
};

static void *make(struct task_field *field, uint32_t workers)
{
    struct job *job = malloc(sizeof(*job));
    if (job != NULL) {
        *job = (struct job){field, workers};
    }
    return job;
}

static void spawn_tree(struct task_field *field, uint32_t i)
{
    task_field_touch(field, i);
    for (uint32_t child = 2 * i + 1; child <= 2 * i + 2 && child + 1 < field->count; child++) {
#pragma omp task firstprivate(child)
        spawn_tree(field, child);
    }
}

static bool run(void *user)
{
    struct job *job = user;
    struct task_field *field = job->field;
#pragma omp parallel num_threads((int)job->workers)
#pragma omp single
    {
        if (field->shape == SHAPE_TREE) {
            spawn_tree(field, 0);
        } else {
            for (uint32_t i = 0; i < field->count; i++) {
#pragma omp task firstprivate(i)
                task_field_touch(field, i);
            }
        }
    }
    if (field->shape == SHAPE_TREE) {
        task_field_touch(field, field->count - 1);
    }
    return true;
}

const struct task_peer task_peer_openmp = {"openmp", make, run, free};
