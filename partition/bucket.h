/* A bound on GPU time: a bucket of nanoseconds that refills at a rate and is paid afterwards.  Pure: time is
 * what the caller says it is.
 *
 * Work is admitted while tokens are left beyond what is in flight, by prediction; when it is done, what it
 * really took is charged.  So tokens may go below 0 by what is in flight, never further.  For any window W in
 * which there is always work to admit, |used - rate * W| <= burst + (n + 1) * longest + stall with n pieces
 * in flight, the longest of them, and the time in which nothing was admitted though tokens were left. (The
 * argument of a leaky bucket with deficit: every admission sees tokens > 0, so what was admitted before it
 * stays below rate * t + burst plus what n mispredictions can add, and the piece itself is one more; and
 * whenever tokens are gone, rate * t has been used.)
 *
 * The cap on what may be saved, the burst, holds only while nothing is wanted: capping a busy one loses
 * share, since a long piece ends when more than the cap has come together.  While busy there is only a
 * ceiling, so that whoever was starved for long does not take everything afterwards. */
#ifndef PARTITION_BUCKET_H
#define PARTITION_BUCKET_H

#include <stdbool.h>
#include <stdint.h>

struct gy_bucket {
    double rate;      /* ns of GPU time per ns, above 0 */
    double burst;     /* most tokens when idle, ns */
    double ceiling;   /* most tokens when busy, ns */
    double tokens;    /* ns; below 0: a debt */
    double in_flight; /* ns, predicted */
    double resume;  /* tokens, ns, that one whose tokens were gone waits for: so that work comes in groups */
    uint64_t at_ns; /* refilled up to here */
};

/* What was saved is within its caps, and what is in flight is not less than nothing. */
bool gy_bucket_is_valid(const struct gy_bucket *bucket);

/* `rate` above 0; begins with a full burst. */
void gy_bucket_init(struct gy_bucket *bucket, double rate, uint64_t burst_ns, uint64_t now_ns);

/* `idle`: since the last call nothing was wanted. */
void gy_bucket_refill(struct gy_bucket *bucket, uint64_t now_ns, bool idle);

static inline bool gy_bucket_admits(const struct gy_bucket *bucket)
{
    return bucket->tokens > bucket->in_flight + bucket->resume;
}

/* Begin a piece of work, and end one that began with this prediction. */
void gy_bucket_begin(struct gy_bucket *bucket, double predicted_ns);
void gy_bucket_end(struct gy_bucket *bucket, double predicted_ns, double used_ns);

/* When it will admit if nothing ends before. */
uint64_t gy_bucket_ready_ns(const struct gy_bucket *bucket);

#endif
