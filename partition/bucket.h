/* SPDX-License-Identifier: MIT */
/* A bound on GPU time: a bucket of nanoseconds that refills at a rate and is paid afterwards.  The functions
 * are pure: the caller passes the time.
 *
 * Work is admitted while the tokens exceed the predicted time of the work in flight.  When it is done, its
 * real time is charged.  So tokens may go below 0 by the time of the work in flight, never further.  Take any
 * window W in which there is always work to admit, with n pieces in flight: |used - rate * W| <= burst + (n +
 * 1) * longest + stall, where `longest` is the longest piece and `stall` the time in which nothing was
 * admitted although tokens were left.  (This is the argument of a leaky bucket with a deficit: every
 * admission sees tokens > 0, so the work admitted before it stays below rate * t + burst plus what n
 * mispredictions can add, and the piece itself is one more; and whenever tokens are gone, rate * t has been
 * used.)
 *
 * The burst, which is the cap on saved tokens, holds only while nobody wants GPU time.  A cap on a busy
 * bucket would lose share, since more than the cap may come together before a long piece ends.  A busy bucket
 * has only a ceiling, so that an account that was starved for long does not take everything afterwards. */
#ifndef PARTITION_BUCKET_H
#define PARTITION_BUCKET_H

#include <stdbool.h>
#include <stdint.h>

struct gy_bucket {
    double rate;      /* ns of GPU time per ns, above 0 */
    double burst;     /* the most tokens of an idle bucket, ns */
    double ceiling;   /* the most tokens of a busy bucket, ns */
    double tokens;    /* ns; below 0: there is a debt */
    double in_flight; /* ns of work in flight, as predicted */
    double resume; /* ns; a bucket that has run out of tokens waits until it has this many, so that work comes
                      in groups */
    uint64_t at_ns; /* the time up to which the bucket was refilled */
};

/* Saved tokens are within their caps, and the time in flight is not negative. */
bool gy_bucket_is_valid(const struct gy_bucket *bucket);

/* `rate` is above 0; the bucket begins with a full burst. */
void gy_bucket_init(struct gy_bucket *bucket, double rate, uint64_t burst_ns, uint64_t now_ns);

/* `idle`: nobody has wanted anything since the last call. */
void gy_bucket_refill(struct gy_bucket *bucket, uint64_t now_ns, bool idle);

static inline bool gy_bucket_admits(const struct gy_bucket *bucket)
{
    return bucket->tokens > bucket->in_flight + bucket->resume;
}

/* Begin a piece of work, and end a piece that began with this prediction. */
void gy_bucket_begin(struct gy_bucket *bucket, double predicted_ns);
void gy_bucket_end(struct gy_bucket *bucket, double predicted_ns, double used_ns);

/* The time at which the bucket will admit work if nothing ends before. */
uint64_t gy_bucket_ready_ns(const struct gy_bucket *bucket);

#endif
