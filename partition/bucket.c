/* SPDX-License-Identifier: MIT */
#include "partition/bucket.h"

#include <assert.h>

#define CEILING_NS 1e9 /* ns of wall time that a busy bucket may catch up with at once */

bool gy_bucket_is_valid(const struct gy_bucket *b)
{
    return b->rate > 0 && b->burst >= 0 && b->ceiling >= b->burst && b->tokens <= b->ceiling &&
           b->in_flight >= 0;
}

void gy_bucket_init(struct gy_bucket *b, double rate, uint64_t burst_ns, uint64_t now_ns)
{
    double ceiling = rate * CEILING_NS;
    *b = (struct gy_bucket){
        .rate = rate, .burst = (double)burst_ns, .tokens = (double)burst_ns, .at_ns = now_ns};
    b->ceiling = ceiling > b->burst ? ceiling : b->burst;
    assert(gy_bucket_is_valid(b));
}

void gy_bucket_refill(struct gy_bucket *b, uint64_t now_ns, bool idle)
{
    double most = idle ? b->burst : b->ceiling;
    if (now_ns > b->at_ns) {
        b->tokens += b->rate * (double)(now_ns - b->at_ns);
        b->at_ns = now_ns;
    }
    b->tokens = b->tokens < most ? b->tokens : most;
    assert(gy_bucket_is_valid(b));
}

void gy_bucket_begin(struct gy_bucket *b, double predicted_ns)
{
    b->in_flight += predicted_ns;
    assert(gy_bucket_is_valid(b));
}

void gy_bucket_end(struct gy_bucket *b, double predicted_ns, double used_ns)
{
    b->in_flight = b->in_flight > predicted_ns ? b->in_flight - predicted_ns : 0;
    b->tokens -= used_ns;
    assert(gy_bucket_is_valid(b));
}

uint64_t gy_bucket_ready_ns(const struct gy_bucket *b)
{
    assert(gy_bucket_is_valid(b));
    double missing = b->in_flight + b->resume - b->tokens;
    return missing < 0 ? b->at_ns : b->at_ns + (uint64_t)(missing / b->rate) + 1;
}
