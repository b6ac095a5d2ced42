/* SPDX-License-Identifier: MIT */
/* The ways to perform a batch that `gantry bench copy` compares. */
#ifndef BENCH_COPY_SIDES_H
#define BENCH_COPY_SIDES_H

#include "bench/copy_work.h"

struct copy_sides {
    struct raw_cuda *cuda;
    const struct copy_arenas *arenas;
    gantry_launch *launch;
    CUstream stream;
    /* cub::DeviceMemcpy::Batched; NULL: it was not built */
    int (*cub)(void *temporary, size_t *bytes, const void **sources, void **dests, const size_t *sizes,
               unsigned count, void *stream);
    int (*rows)(const void *rows, void *stream); /* cuMemcpy2DAsync; NULL: the driver does not have it */
    CUdeviceptr cub_temporary;
    size_t cub_bytes;
    /* addresses and sizes of one batch for the yardsticks: pinned, and a copy of it on the device */
    uint64_t *lists;
    CUdeviceptr device_lists;
    CUdeviceptr pattern_block; /* the source of fills that a side performs as copies */
    uint32_t most;             /* copies in a batch */
};

bool bench_copy_sides_open(struct copy_sides *sides, uint32_t most);
void bench_copy_sides_close(struct copy_sides *sides);
/* Call this before the sides below perform the batch. */
bool bench_copy_sides_prepare(struct copy_sides *sides, const struct copy_work *work);

/* One way to perform a batch.  `done` false with `absent` set: this machine does not have the way, or it
 * cannot do this kind of batch. */
struct copy_side {
    const char *name;
    bool gated;  /* it makes few driver calls: the GPU can be kept waiting until all are made */
    bool as_one; /* it copies as many bytes, but in one piece */
    bool (*can)(const struct copy_sides *sides, const struct copy_work *work);
    bool (*run)(struct copy_sides *sides, const struct copy_work *work);
};

extern const struct copy_side copy_side_ours;
extern const struct copy_side copy_side_list[]; /* the yardsticks; an entry without a name ends the list */

#endif
