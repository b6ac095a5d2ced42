/* SPDX-License-Identifier: MIT */
/* What is known of launch functions: may their calls be noted?  It belongs to the dispatcher's thread. */
#ifndef DISPATCHER_CALL_TRUST_H
#define DISPATCHER_CALL_TRUST_H

#include "base/hints.h"

#include <gantry/dispatcher.h>

#define GY_TRUSTS_FUNCTIONS 256
#define GY_TRUSTS_WAITS 4 /* batches in which first calls of a function wait; and such calls in a batch */

/* What is known of a launch function.
 *
 *     OURS    its work can be noted: it leaves enqueueing to us
 *     BEARS   it asks for the stream, and says each time that it bears that this is captured: its work is
 *             captured aside (aside.h)
 *     RAW     it asks for the stream and does not say so: likewise, where the way of the round lets it
 *     NO      its work cannot be captured
 *
 *     UNKNOWN ──► OURS ──► BEARS ──► RAW, as its calls return: from one to any that is further right
 *
 *     any but NO ─── a call cannot be captured, or leaves for good ──► NO */
enum gy_trust {
    GY_TRUST_UNKNOWN = 0,
    GY_TRUST_OURS,
    GY_TRUST_BEARS,
    GY_TRUST_RAW,
    GY_TRUST_NO,
    GY_TRUSTS /* not one of them */
};

/* How a call is made, and where its work goes: see call/mode.h. */
enum gy_call_mode {
    GY_MODE_PLAIN,
    GY_MODE_SYNCHRONOUS,
    GY_MODE_FIRST,
    GY_MODE_AHEAD,
    GY_MODE_TRIAL,
    GY_MODE_BATCH,
    GY_MODE_RECORDING
};

/* Is the work of such a call noted for a graph, and not on the task's stream yet? */
static inline bool gy_mode_notes(enum gy_call_mode mode)
{
    return mode >= GY_MODE_AHEAD;
}

/* A launch function and what has been learnt about it. */
struct gy_trust_function {
    gantry_launch_fn function; /* NULL: the entry is free */
    enum gy_trust trust;
    bool is_told;            /* the log has said that its batches are not patched */
    uint8_t waits;           /* first calls of it that may have waited for the whole context, */
    uint8_t waiting_batches; /* in the latest batch that had such, and how many batches had */
    uint64_t waits_of;       /* the number of that batch */
};

struct gy_trusts {
    struct gy_trust_function functions[GY_TRUSTS_FUNCTIONS]; /* open addressing */
    uint32_t count;
    const struct gy_trust_function *latest; /* the function that was asked for last; or an entry */
    gantry_launch_fn latest_ours;           /* the same if it is OURS; else NULL */
    uint64_t met_context;                   /* immutable; of met.h */
    bool notes; /* immutable; kernels can be noted; else each call is captured aside, and no function is OURS
                 */
};

GY_RARE enum gy_trust gy_trusts_find(struct gy_trusts *trusts, gantry_launch_fn function);
/* Is a call of the function, which was not met, made as a first one?  Not behind GY_TRUSTS_WAITS of the same
 * batch that may have waited. */
bool gy_trusts_may_meet(struct gy_trusts *trusts, gantry_launch_fn function, uint64_t batch);
/* A first call of the function may have waited for the whole context.  True: it is NO now, since that was so
 * in GY_TRUSTS_WAITS batches. */
bool gy_trusts_note_wait(struct gy_trusts *trusts, gantry_launch_fn function, uint64_t batch);
/* Of an UNKNOWN function: another user of the CUDA context has met it, and so it is OURS. */
GY_COLD bool gy_trusts_adopt_met(struct gy_trusts *trusts, gantry_launch_fn function);
static inline enum gy_trust gy_trusts_of(struct gy_trusts *trusts, gantry_launch_fn function)
{
    return trusts->latest->function == function ? trusts->latest->trust : gy_trusts_find(trusts, function);
}
/* How is a call of the function made, by the modes of the round's way (submit/policy.h)?  What is known of it
 * comes out, too. */
static inline enum gy_call_mode gy_trusts_mode(struct gy_trusts *trusts, const enum gy_call_mode *modes,
                                               gantry_launch_fn function, enum gy_trust *trust)
{
    *trust = gy_trusts_of(trusts, function);
    if (__builtin_expect(modes[*trust] == GY_MODE_FIRST, 0) && gy_trusts_adopt_met(trusts, function)) {
        *trust = gy_trusts_of(trusts, function);
    }
    return modes[*trust];
}
/* Was the function not met on the CUDA context (met.h)? */
static inline bool gy_trusts_is_unmet(struct gy_trusts *trusts, gantry_launch_fn function)
{
    return gy_trusts_of(trusts, function) == GY_TRUST_UNKNOWN && !gy_trusts_adopt_met(trusts, function);
}
/* Is what its calls enqueue on their stream captured aside from their beginning on? */
static inline bool gy_trust_is_aside(enum gy_trust trust)
{
    return trust == GY_TRUST_BEARS || trust == GY_TRUST_RAW;
}
void gy_trusts_set(struct gy_trusts *trusts, gantry_launch_fn function, enum gy_trust trust);
/* The function's work is a child graph: say once that it keeps batches from being patched. */
void gy_trusts_tell_child(struct gy_trusts *trusts, gantry_launch_fn function, const char *label);

#endif
