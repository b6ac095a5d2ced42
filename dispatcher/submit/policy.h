/* SPDX-License-Identifier: MIT */
/* The policy: where the work of a round goes, and how each of its calls is made.
 *
 * A round has a *way*, a row of one table.  The row says for each trust in a launch function (call/trust.h)
 * in which mode its calls are made (call/mode.h), and what holds for the round as a whole:
 *
 *     way          UNKNOWN    OURS       BEARS      RAW        NO       asked for by
 *     STREAMS      PLAIN      PLAIN      PLAIN      PLAIN      PLAIN    streams mode; auto that chooses so
 *     SYNCHRONOUS  SYNCHRONOUS, all of them                             a dispatcher that waits for each call
 *     MEETING      FIRST      PLAIN      PLAIN      PLAIN      PLAIN    auto, with functions not met yet
 *     GRAPH        TRIAL      BATCH      TRIAL      TRIAL      PLAIN    graphs mode
 *     AUTO         FIRST      BATCH      TRIAL      PLAIN      PLAIN    auto that chooses a graph
 *     UNIT         RECORDING  RECORDING  RECORDING  RECORDING  PLAIN    what is recorded of a replay unit
 *
 * Where the driver does not tell of refused calls, BEARS and RAW are PLAIN in all rows.
 *
 * gy_policy_of() is a pure function of what is known, without a clock. */
#ifndef DISPATCHER_SUBMIT_POLICY_H
#define DISPATCHER_SUBMIT_POLICY_H

#include "dispatcher/call/trust.h"
#include "dispatcher/submit/batch_guard.h"
#include "dispatcher/submit/choice.h"
#include "work/kept_rule.h"

/* A row of the table, immutable. */
struct gy_way {
    enum gy_call_mode modes[GY_TRUSTS];
    bool is_uniform;                 /* these are all the same */
    bool notes;                      /* calls may be noted for a graph */
    enum gy_batch_guard_state guard; /* while they are */
    uint32_t passes;                 /* the most of a phase, */
    uint32_t barren;                 /* and in a row without the end of a task */
    const struct gy_way *without;    /* the way of the rest of the round if no graph can be begun */
};

/* What decides about a round. */
struct gy_policy_facts {
    gantry_submission submission; /* that the application has asked for */
    bool is_synchronous;          /* each call's work is waited for */
    bool tells_ends;          /* graphs tell the end of each part (ends.h), and do not wait for the host */
    bool tells_refusals;      /* the driver does: callbacks may have their stream captured */
    bool is_shared;           /* with partitions of a plan, or by shares: nothing is played */
    enum gy_choice_way known; /* what auto knows of it */
};

/* What is decided. */
struct gy_policy {
    const struct gy_way *way; /* NULL: auto decides, and asks for `known` */
    enum gy_kept_plays plays; /* what of a graph is played in place of being made */
};

struct gy_policy gy_policy_of(const struct gy_policy_facts *facts);
/* The way in which a replay unit is recorded. */
const struct gy_way *gy_policy_of_unit(bool tells_refusals);

#endif
