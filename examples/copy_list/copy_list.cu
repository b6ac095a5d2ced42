#include <gantry/kernel.h>

/* Which rows are wanted is found out on the device: those whose mark is odd.  One thread, to keep it short. */
GANTRY_KERNEL(choose, (uint64_t *from, uint64_t *to, uint64_t *bytes, uint32_t *count, uint64_t rows, uint64_t chosen,
                       uint32_t row_count, uint32_t row_bytes))
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < row_count; i++) {
        if (*(const uint32_t *)(rows + (uint64_t)i * row_bytes) % 2 == 1) {
            from[found] = rows + (uint64_t)i * row_bytes;
            to[found] = chosen + (uint64_t)found * row_bytes;
            bytes[found] = row_bytes;
            found++;
        }
    }
    *count = found;
}
