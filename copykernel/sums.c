/* SPDX-License-Identifier: MIT */
/* The sums over a batch of copies, for recordings. */
#include "copykernel/internal.h"
#include "profile/cta.h"

_Static_assert(GY_COPY_FROM_HOST == 0 && GY_COPY_TO_HOST == 1 && GY_COPY_WITHIN == 2 && GY_COPY_GROUPS == 3,
               "struct gy_cta_copies has bytes for these");

void gy_copy_sum_items(const struct gy_copy_item *items, size_t count, struct gy_cta_copies *out)
{
    *out = (struct gy_cta_copies){.count = count};
    for (size_t i = 0; i < count; i++) {
        out->bytes[items[i].group] += items[i].bytes;
    }
}

void gy_copy_sum_descs(const gantry_copy_desc *descs, size_t count, struct gy_cta_copies *out)
{
    *out = (struct gy_cta_copies){.count = count};
    for (size_t i = 0; i < count; i++) {
        const uint32_t group = descs[i].type == GANTRY_COPY_HTOD   ? GY_COPY_FROM_HOST
                               : descs[i].type == GANTRY_COPY_DTOH ? GY_COPY_TO_HOST
                                                                   : GY_COPY_WITHIN;
        out->bytes[group] += descs[i].bytes;
    }
}
