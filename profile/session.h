/* The recording, as the rest of profile/ sees it.  A recording is known by its generation, a number that
 * never comes back; calls for one that has ended do nothing. */
#ifndef PROFILE_SESSION_H
#define PROFILE_SESSION_H

#include <gantry/profile.h>

#include <stdbool.h>
#include <stdint.h>

/* Any thread.  0: nothing is recorded now.  One relaxed load while off. */
uint64_t gy_profile_generation(void);
/* Any thread.  The recording that takes what was begun earlier: also outside of its window of steps, and
 * until gantry_profile_stop() has collected everything. */
uint64_t gy_profile_session(void);

/* A step of a manager begins: opens and closes the window of steps.  Not in a callback. */
void gy_profile_step_begin(void);

/* Any thread.  The value of a counter from now on; `name` is copied. */
void gy_profile_count(uint64_t generation, const char *name, uint64_t value);

/* Any thread.  Name a GPU whose slices will come; its number is at least 1, 0 when the recording has ended
 * or has no room for it. */
uint32_t gy_profile_add_gpu(uint64_t generation, const char *name);

/* As gy_profile_add_gpu(), but `owner` has one number, however often it asks. */
uint32_t gy_profile_gpu_of(uint64_t generation, const void *owner, const char *name);

struct gy_gpu_slice {
    uint32_t gpu; /* of gy_profile_add_gpu() */
    uint32_t stream;
    const char *partition; /* of the stream; copied when its first slice comes; NULL: none */
    const char *name;      /* copied */
    uint64_t begin_ns, end_ns;
    uint64_t id;
};

/* Any thread.  Does not block. */
void gy_profile_gpu_slice(uint64_t generation, const struct gy_gpu_slice *slice);
/* Any thread.  Slices that could not be recorded. */
void gy_profile_count_lost(uint64_t generation, uint64_t slices);
/* Any thread.  A bound on the error of a GPU time; the greatest is reported. */
void gy_profile_note_alignment(uint64_t generation, uint64_t bound_ns);

/* ---- blocks of instrumented kernels (profile/cta.h) ---- */

struct gy_cta_batch;

struct gy_cta_limits {
    gantry_profile_ctas ctas;
    uint32_t ctas_per_buffer;
    uint32_t buffers;
    gantry_profile_clock clock;
};
/* Any thread.  What the recording wants; ctas is OFF when it has ended. */
struct gy_cta_limits gy_profile_cta_limits(uint64_t generation);
/* Any thread.  Hand a batch to the writer, which calls batch->done() when it needs it no longer.  False when
 * the recording has ended: the batch stays the caller's. */
bool gy_profile_add_ctas(uint64_t generation, struct gy_cta_batch *batch);
/* Any thread.  Blocks that will be in no batch. */
void gy_profile_count_lost_ctas(uint64_t generation, uint64_t ctas);

/* Whoever holds back work of a recording: before it ends, drain() is called on the thread that stops it,
 * with no lock held, and hands everything over. */
struct gy_profile_recorder {
    struct gy_profile_recorder *next; /* link of the list in recorders.c; its lock guards it */
    uint32_t users;                   /* guarded by that lock: drain() calls now running */
    void (*drain)(struct gy_profile_recorder *self, uint64_t generation);
};
void gy_profile_add_recorder(struct gy_profile_recorder *recorder);
/* The thread that ends the recording, with no lock held: call each one's drain(). */
void gy_profile_drain_recorders(uint64_t generation);
/* Returns when nobody is in drain(). */
void gy_profile_remove_recorder(struct gy_profile_recorder *recorder);

#endif
