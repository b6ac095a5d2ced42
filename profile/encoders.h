/* SPDX-License-Identifier: MIT */
/* A few threads that do jobs in the order in which they are added.
 *
 *   coordinator --add--> list of jobs --> threads, and the coordinator while it waits
 *
 * Jobs are begun in the order of the list.  Jobs with the same `turns` also end in this order, one after the
 * other; all others may run at the same time.  The threads are made when the first job comes.  Without
 * threads, the coordinator does everything itself when it waits.
 *
 * Threading: the functions are for one thread, the coordinator. */
#ifndef PROFILE_ENCODERS_H
#define PROFILE_ENCODERS_H

#include "base/thread.h"

#include <stdint.h>

#define GY_ENCODERS_MOST 64u

/* Jobs that follow each other.  It is zeroed at first. */
struct gy_turns {
    uint64_t given; /* guarded by the encoders' lock */
    uint64_t done;  /* guarded by the encoders' lock */
};

struct gy_job {
    struct gy_job *next; /* guarded by the encoders' lock */
    void (*run)(struct gy_job *job);
    struct gy_turns *turns;
    uint64_t turn;  /* guarded by the encoders' lock */
    uint32_t *left; /* guarded by the encoders' lock: the jobs of its group that are not done */
};

/* The number of threads that encode, the coordinator among them, when nobody sets it: half of the CPUs, up to
 * 8. */
uint32_t gy_encoders_default(void);

struct gy_encoders {
    gy_mutex lock;                       /* rank LEAF */
    gy_cond work;                        /* with lock: a job can be begun, or `stopping` is set */
    gy_cond done;                        /* with lock: a job is done */
    struct gy_job *first, *last;         /* guarded by lock: jobs that are not begun yet */
    bool stopping;                       /* guarded by lock; never goes back to false */
    uint32_t wanted, count;              /* coordinator alone */
    gy_thread threads[GY_ENCODERS_MOST]; /* coordinator alone */
};

/* `threads` work beside the coordinator, at most GY_ENCODERS_MOST.
 * @retval GANTRY_ERR_OUT_OF_HOST_MEMORY */
GANTRY_MUST_CHECK gantry_status gy_encoders_init(struct gy_encoders *encoders, uint32_t threads);
/* End the threads; all jobs are done. */
void gy_encoders_fini(struct gy_encoders *encoders);

/* Add a job, whose run, turns and left are set; *left is raised by one. */
void gy_encoders_add(struct gy_encoders *encoders, struct gy_job *job);
/* Return when *left is 0; the caller does jobs meanwhile. */
void gy_encoders_wait(struct gy_encoders *encoders, const uint32_t *left);
/* Are there threads?  If not, the thread that adds jobs has to wait for them, which does them. */
bool gy_encoders_have_threads(const struct gy_encoders *encoders);

#endif
