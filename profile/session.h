/* SPDX-License-Identifier: MIT */
/* The recording, as the rest of profile/ sees it.  A recording is known by its generation, a number that
 * never comes back; calls for one that has ended do nothing. */
#ifndef PROFILE_SESSION_H
#define PROFILE_SESSION_H

#include "base/thread.h"

#include <gantry/profile.h>

#include <stdbool.h>
#include <stdint.h>

/* gantry_profile_start(); `by_environment`: $GANTRY_PROFILE asks for it. */
GANTRY_MUST_CHECK gantry_status gy_profile_start(const gantry_profile_options *options, bool by_environment,
                                                 gantry_profile **out);

/* Any thread.  The number of the recording; 0: nothing is recorded now.  It costs one relaxed load while
 * recording is off. */
uint64_t gy_profile_generation(void);
/* Any thread.  The recording that takes slices that were begun earlier: also outside of its window of steps,
 * and until gantry_profile_stop() has collected everything. */
uint64_t gy_profile_session(void);

/* A step of a manager begins: this opens and closes the window of steps.  Not to be called in a callback. */
void gy_profile_step_begin(void);

/* Any thread.  The value of a counter from now on; `name` is copied. */
void gy_profile_count(uint64_t generation, const char *name, uint64_t value);

/* Any thread.  Name a GPU whose slices will come; its number is at least 1.  0: the recording has ended or
 * has no room for it. */
uint32_t gy_profile_add_gpu(uint64_t generation, const char *name);

/* As gy_profile_add_gpu(), but `owner` gets the same number, however often it asks. */
uint32_t gy_profile_gpu_of(uint64_t generation, const void *owner, const char *name);

/* gy_profile_gpu_of(), for the context as it is now: with another plan of partitions it counts as another
 * GPU, since a stream's track has the name of the partition that it is of. */
struct gy_context;
uint32_t gy_profile_gpu_of_context(uint64_t generation, const struct gy_context *context);

struct gy_gpu_slice {
    uint32_t gpu; /* as gy_profile_add_gpu() returned it */
    uint32_t stream;
    const char *partition; /* the stream's; copied when its first slice comes; NULL: none */
    const char *name;      /* copied */
    uint64_t begin_ns, end_ns;
    uint64_t id;
    uint64_t after;   /* bit n: it waited for work of the device with ordinal n */
    uint32_t manager; /* the number of the share of a task manager that it is charged to; 0: none, or above
                         GY_RING_MANAGER_MAX */
    uint64_t tasks;   /* 0: it is a task; else it is batch `id`, which has so many */
};

/* Any thread.  Record a slice.  This does not block. */
void gy_profile_gpu_slice(uint64_t generation, const struct gy_gpu_slice *slice);
/* Any thread.  Count slices that could not be recorded. */
void gy_profile_count_lost(uint64_t generation, uint64_t slices);
/* Any thread.  Note a bound on the error of a time of GPU number `gpu`; the greatest is reported, of each and
 * of all. */
void gy_profile_note_alignment(uint64_t generation, uint32_t gpu, uint64_t bound_ns);

/* ---- blocks of instrumented kernels (profile/cta.h) ---- */

struct gy_cta_batch;

struct gy_cta_limits {
    gantry_profile_ctas ctas;
    uint32_t ctas_per_buffer;
    uint32_t buffers;
    gantry_profile_clock clock;
};
/* Any thread.  The limits that the recording wants; ctas is OFF when it has ended. */
struct gy_cta_limits gy_profile_cta_limits(uint64_t generation);
/* Any thread.  Hand a batch to the writer, which calls batch->done() when it does not need it any longer.
 * False: the recording has ended, and the batch stays the caller's. */
bool gy_profile_add_ctas(uint64_t generation, struct gy_cta_batch *batch);
/* Any thread.  Count blocks that will be in no batch. */
void gy_profile_count_lost_ctas(uint64_t generation, uint64_t ctas);

/* A part of the library that holds back work of a recording.  Before the recording ends, the thread that
 * stops it calls drain() with no lock held, which hands everything over.  It waits for the GPU until the host
 * time `until_ns` at most, counts as lost what has not ended by then, and returns how many GPU tasks these
 * are. */
struct gy_profile_recorder {
    struct gy_profile_recorder *next; /* link of the list in recorders.c; its lock guards it */
    uint32_t users;                   /* guarded by that lock: the calls of drain() that are running now */
    uint64_t (*drain)(struct gy_profile_recorder *self, uint64_t generation, uint64_t until_ns);
};
void gy_profile_add_recorder(struct gy_profile_recorder *recorder);
/* Call drain() of each recorder.  The thread that ends the recording calls this, with no lock held.  All of
 * them together may wait for 10 s, or 2 s in exit().  Returns how many GPU tasks had not ended by then. */
uint64_t gy_profile_drain_recorders(uint64_t generation);
/* The process is in exit(): from now on the end of a recording waits for 2 s at most, in place of 10. */
void gy_profile_is_in_exit(void);
/* For drain(), between two looks: wait for a while, longer each time, or until `changed` is signalled, which
 * goes with `lock`.  *pause_ns is 0 at first.  False: the host time `until_ns` has come. */
bool gy_profile_nap(gy_cond *changed, gy_mutex *lock, uint64_t *pause_ns, uint64_t until_ns);
#ifdef GANTRY_TESTING
/* They may wait for so long instead. */
void gy_profile_set_patience(uint64_t ns);
#endif
/* Remove the recorder; returns when no thread is in its drain(). */
void gy_profile_remove_recorder(struct gy_profile_recorder *recorder);

#endif
