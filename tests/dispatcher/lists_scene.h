/* SPDX-License-Identifier: MIT */
/* A step that copies by a list which earlier GPU work has written, and a result to compare. */
#ifndef TESTS_DISPATCHER_LISTS_SCENE_H
#define TESTS_DISPATCHER_LISTS_SCENE_H

#include "tests/support/gpu_fixture.h"

enum { BYTES = 1 << 18, MOST = 500, PACKED = 2200 };

struct lists {
    struct gpu_fixture gpu;
    bool emulated;
    uint8_t *source, *dest; /* BYTES in device memory each */
    uint8_t *content, *got; /* page-locked: the contents of source, and what was copied back from dest */
    uint8_t *expected;
    gantry_copy_desc *made;  /* page-locked, MOST: the list that the host makes */
    uint64_t *arrays;        /* page-locked, 3 * MOST: the same */
    uint32_t *made_count;    /* page-locked */
    gantry_copy_desc *descs; /* device memory, written by the step's first task */
    uint64_t *columns;       /* device memory, 3 * MOST, as well */
    uint32_t *count;         /* device memory, as well */
    gantry_copy_list list;
    gantry_copy_box box;    /* launched instead of the list while it has a width */
    uint32_t calls;         /* the status of launch_list() */
    gantry_status answered; /* set by its last call */
    char text[300];
};

enum form { DESCS, COLUMNS, PINNED_COLUMNS };

uint64_t lists_random(uint64_t bound);
void *lists_allocate(struct lists *l, gantry_memory_kind kind, size_t bytes);
int lists_open(void **state, gantry_submission submission);
int lists_close(void **state);
/* Make copies of all sizes from `source` to `dest`; `expected` has the contents of dest afterwards. */
void lists_make(struct lists *l, uint32_t most, uint64_t biggest);
void lists_use(struct lists *l, enum form form, bool counted);
/* The step's first task, and its last one. */
gantry_launch_result lists_launch_inputs(gantry_launch *launch, void *arg);
gantry_launch_result lists_launch_result(gantry_launch *launch, void *arg);
/* Submit the step's three tasks. */
void lists_submit(struct lists *l, bool stable);
void lists_synchronize(struct lists *l);
void lists_assert_copied(struct lists *l);
gantry_status lists_step(struct lists *l);
/* A step in which the list is refused with this text. */
void lists_refuse(struct lists *l, const char *text);

#endif
