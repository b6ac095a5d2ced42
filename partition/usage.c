/* SPDX-License-Identifier: MIT */
#include "partition/usage.h"

#include <string.h>

static const uint32_t window_bins[GY_USAGE_WINDOWS] = {10, 100, 1000};

void gy_gpu_usage_init(struct gy_gpu_usage *u, uint64_t now_ns)
{
    memset(u, 0, sizeof(*u));
    u->first_ns = now_ns;
}

/* The current bin is complete: it enters every window, and the oldest bin of each window leaves. */
static void close_bin(struct gy_gpu_usage *u)
{
    double whole = u->bins[u->bin % GY_USAGE_BINS];
    for (int w = 0; w < GY_USAGE_WINDOWS; w++) {
        uint64_t size = window_bins[w];
        u->sums[w] += whole;
        if (u->bin >= size) {
            u->sums[w] -= size == GY_USAGE_BINS ? 0 : u->bins[(u->bin - size) % GY_USAGE_BINS];
        }
        double share = u->sums[w] / ((double)size * GY_USAGE_BIN_NS);
        if (u->bin + 1 >= size && share > u->worst[w]) {
            u->worst[w] = share;
        }
    }
    u->bin++;
    /* This place held the bin that leaves the longest window. */
    u->sums[GY_USAGE_WINDOWS - 1] -= u->bins[u->bin % GY_USAGE_BINS];
    u->bins[u->bin % GY_USAGE_BINS] = 0;
}

void gy_gpu_usage_add(struct gy_gpu_usage *u, uint64_t now_ns, double used_ns)
{
    uint64_t bin = now_ns > u->first_ns ? (now_ns - u->first_ns) / GY_USAGE_BIN_NS : 0;
    if (bin >
        u->bin + 2 * GY_USAGE_BINS) { /* nothing was used for so long that no window remembers any use */
        double worst[GY_USAGE_WINDOWS], used = u->used_ns;
        uint64_t first = u->first_ns;
        memcpy(worst, u->worst, sizeof(worst));
        gy_gpu_usage_init(u, first);
        memcpy(u->worst, worst, sizeof(worst));
        u->used_ns = used;
        u->bin = bin;
    }
    while (u->bin < bin) {
        close_bin(u);
    }
    u->bins[u->bin % GY_USAGE_BINS] += used_ns;
    u->used_ns += used_ns;
}
