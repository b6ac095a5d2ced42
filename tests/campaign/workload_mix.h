/* SPDX-License-Identifier: MIT */
/* The function that a node of a random workload computes, in its kernel, its CPU task and the sequential run
 * alike: words that depend on every cell it reads, so that a task which ran too early or too late gives a
 * wrong result. */
#ifndef TESTS_CAMPAIGN_WORKLOAD_MIX_H
#define TESTS_CAMPAIGN_WORKLOAD_MIX_H

#include <stdint.h>

#ifndef MIX_FN /* kernels have their own */
#define MIX_FN static inline
#endif

enum { MIX_WORDS = 16, MIX_INPUTS = 16, MIX_OUTPUTS = 2 };

struct mix {
    uint32_t *out[MIX_OUTPUTS]; /* cells that are read as well; the second may be NULL */
    const uint32_t *in[MIX_INPUTS];
    const uint32_t *step; /* it is in memory, not a value: frozen and replayed work must see it change */
    uint32_t inputs, code;
};

/* All words are read before one is written. */
MIX_FN uint32_t mix_word(const struct mix *mix, uint32_t out, uint32_t word)
{
    uint32_t hash = mix->code * 2654435761u + out * 97 + *mix->step;
    for (uint32_t i = 0; i < MIX_OUTPUTS; i++) {
        if (mix->out[i] != 0) {
            hash = (hash ^ mix->out[i][(word + i) % MIX_WORDS]) * 16777619u;
            hash ^= hash >> 13;
        }
    }
    for (uint32_t i = 0; i < mix->inputs; i++) {
        hash = (hash ^ (mix->in[i][(word * 3 + i) % MIX_WORDS] + i)) * 16777619u;
        hash ^= hash >> 15;
    }
    return hash;
}

#endif
