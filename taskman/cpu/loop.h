/* SPDX-License-Identifier: MIT */
/* A loop that idle workers join. */
#ifndef TASKMAN_CPU_LOOP_H
#define TASKMAN_CPU_LOOP_H

#include "taskman/cpu/worker.h"

struct gy_loop {
    struct gy_loop *next; /* guarded by the pool's inject_lock */
    gantry_range_fn body;
    void *arg;
    size_t begin, end, grain, parts;
    uint32_t cpu_class;        /* its caller's, whose limit holds for helpers too; 0: none */
    const void *shared;        /* what its caller does, for the proof; NULL: nothing */
    bool exempt;               /* its caller is not held back by the bandwidth gate; nor are helpers */
    uint32_t helpers;          /* guarded by the pool's inject_lock */
    _Atomic(size_t) next_part; /* atomic */
    _Atomic(int32_t) status;   /* atomic; the first failure */
};

/* Do its parts cover its range? */
bool gy_loop_is_valid(const struct gy_loop *loop);

/* Run parts of the loop until none is left. */
void gy_loop_work_on(struct gy_loop *loop);

/* A part has called pthread_exit(): the loop has failed. */
void gy_loop_note_exit(struct gy_loop *loop);

/* From now on workers may join the loop. */
void gy_loop_list(gantry_cpu_dispatcher *pool, struct gy_loop *loop);

/* Take part in another thread's loop; false: there is none. */
bool gy_worker_help(struct gy_worker *self);

#endif
