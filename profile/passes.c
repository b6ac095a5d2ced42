/* SPDX-License-Identifier: MIT */
#include "profile/passes.h"

void gy_passes_note(struct gy_passes *passes, uint32_t stream, uint64_t recorded_ns, uint64_t seen_ns)
{
    struct gy_pass *of = passes->at[stream];
    uint32_t *next = &passes->next[stream];
    if (of[(*next + GY_PASSES_KEPT - 1) % GY_PASSES_KEPT].recorded_ns != recorded_ns) {
        /* else it belongs to the same flush */
        of[*next] = (struct gy_pass){recorded_ns, seen_ns};
        *next = (*next + 1) % GY_PASSES_KEPT;
    }
}

uint64_t gy_passes_end(const struct gy_passes *passes, uint32_t stream, uint64_t launched_ns,
                       uint64_t seen_ns)
{
    const struct gy_pass *of = passes->at[stream];
    for (uint32_t i = 0; i < GY_PASSES_KEPT; i++) {
        if (of[i].recorded_ns > launched_ns && of[i].seen_ns < seen_ns) {
            seen_ns = of[i].seen_ns;
        }
    }
    return seen_ns;
}
