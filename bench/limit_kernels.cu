/* SPDX-License-Identifier: MIT */
/* A kernel of a given length, or of a given amount of work, that tells when it ran. */
#include <gantry/kernel.h>

/* Runs for `rounds` steps of a chain, and for `ns` at least.  The first thread notes its begin and its end in the
 * record that tail[0] counts, of `room` (a power of two); launches with one `tail` run one after the other. */
GANTRY_KERNEL(limit_busy, (uint64_t *records, uint64_t *tail, uint64_t room, uint64_t rounds, uint64_t ns))
{
    const uint64_t begin = gantry_global_timer();
    uint64_t now = begin, chain = begin;
    for (uint64_t i = 0; i < rounds; i++) {
        chain = chain * 6364136223846793005u + 1442695040888963407u;
    }
    while (now - begin < ns) {
        now = gantry_global_timer();
    }
    if (threadIdx.x == 0 && blockIdx.x == 0) {
        uint64_t *record = records + 2 * (tail[0] & (room - 1));
        record[0] = begin;
        tail[1] = chain; /* so that the chain is worth computing */
        record[1] = gantry_global_timer();
        tail[0]++;
    }
}

GANTRY_KERNEL(limit_empty, (uint64_t * nothing))
{
    (void)nothing;
}
