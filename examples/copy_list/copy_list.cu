/* SPDX-License-Identifier: MIT */
#include <gantry/kernel.h>

struct row {
    uint32_t words[16];
};

/* Which rows are wanted is found out on the device: those with an odd number.  One thread, to keep it short. */
GANTRY_KERNEL(choose, (const row **from, row **to, uint64_t *bytes, uint32_t *count, const row *rows, row *chosen, uint32_t row_count))
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < row_count; i++) {
        if (rows[i].words[0] % 2 == 1) {
            from[found] = &rows[i];
            to[found] = &chosen[found];
            bytes[found++] = sizeof(row);
        }
    }
    *count = found;
}
