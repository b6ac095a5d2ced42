/* SPDX-License-Identifier: MIT */
/* How a round ends: its captured work is launched, and its measurements and completions are handed to the
 * completion thread. */
#ifndef DISPATCHER_SUBMIT_ROUND_H
#define DISPATCHER_SUBMIT_ROUND_H

#include "dispatcher/loop/bins.h"
#include "work/kept_rule.h"

#include <gantry/dispatcher.h>

struct gy_recording;
struct gy_way;

/* The key that says which tasks a round calls: see batch_key.h. */
struct gy_batch_key {
    bool is_set; /* the rest counts */
    const struct gantry_taskman *manager;
    uint32_t partition;
    uint32_t number;      /* gy_task_partition() of a task of the key: others may have another for the same */
    bool had_others;      /* the latest round has kept tasks of others: it is their turn */
    struct gy_bins later; /* ready tasks of others */
    bool is_hurried;      /* some of them are of a partition with a greater priority */
    struct gy_gpu_list ahead; /* ready tasks of other partitions, to be looked at before the next callback */
    uint64_t ahead_since;     /* of graphs.gate.closes: since that many */
    uint32_t ahead_calls;     /* calls have gone ahead */
};

/* A round: a walk through the phases, and the work that it launches.  The loop has one, which it uses again
 * and again; a recording has one of its own.  It belongs to the dispatcher's thread.  The function that
 * makes a round passes it down. */
struct gy_round {
    struct gy_bins bins;            /* ready tasks that were not launched yet, or not by all their calls */
    struct gy_batch_key key;        /* of its graph */
    struct gy_recording *recording; /* its recording of a unit; NULL: there is none */
    uint64_t phase_since_ns;        /* time of the phase is counted up to here */
    enum gd_phase phase;            /* the one it is in */
    const struct gy_way *way;       /* how its calls are made, and where their work goes: see policy.h */
    enum gy_kept_plays plays;       /* what of it is played in place of being made a graph */
    bool in_batch;                  /* something was launched */
    bool last_in_phase;             /* no other task is known to follow in this phase */
};

/* The round's bins are in order, and its recording is of a unit that is being called. */
bool gy_round_is_valid(const struct gy_round *round);

/* Launch the capture, if one is open, and publish completions. */
void gy_gd_flush(struct gantry_dispatcher *d);
void gy_gd_flush_completions(struct gantry_dispatcher *d);

/* Outside of a capture: have the completion thread measure the launched work.  `all`: also a part that is
 * not a whole interval yet. */
void gy_gd_publish_shares(struct gantry_dispatcher *d, bool all);

/* Have the completion thread look at the streams that memory is held for. */
void gy_gd_watch_memory(struct gantry_dispatcher *d);

/* While recording: count the bytes that the heap has given out, when a round begins and when it is
 * flushed. */
void gy_gd_count_heap(const struct gantry_dispatcher *d);

/* Add the time since the phase began, or since the last such call, to the phase's counter. */
void gy_gd_count_phase(struct gantry_dispatcher *d, struct gy_round *round);

#endif
