/* SPDX-License-Identifier: MIT */
/* The batches of `gantry bench copy`: what is copied where, and whether it arrived. */
#ifndef BENCH_COPY_WORK_H
#define BENCH_COPY_WORK_H

#include "bench/raw_cuda.h"

#include <gantry/copy.h>

#include <stdbool.h>

/* How the copies are described to our side. */
enum copy_way {
    COPY_PACKED,       /* descriptors, which the host packs */
    COPY_DEVICE_LISTS, /* three arrays in device memory */
    COPY_PINNED_LISTS, /* three arrays in page-locked memory */
    COPY_BOX,          /* rows at even distances */
};

/* One batch; offsets are into the arenas. */
struct copy_work {
    const char *name;
    enum copy_way way;
    uint64_t pitch;  /* of rows */
    uint64_t extent; /* of the dests, from the arena's begin */
    gantry_copy_type type;
    uint32_t count;
    uint64_t total; /* bytes */
    uint64_t *dest_at, *source_at, *bytes;
    gantry_copy_desc *descs; /* the same with addresses */
};

/* Memory that all batches share. */
struct copy_arenas {
    struct raw_cuda *cuda;
    uint64_t bytes;              /* of each arena */
    CUdeviceptr device_source;   /* holds `content` */
    CUdeviceptr device_dest;     /* cleared before a check */
    uint8_t *pinned;             /* one half of it holds `content`, the other half is a dest */
    uint64_t pinned_bytes;       /* of each half */
    uint8_t *content, *expected; /* host images */
    CUdeviceptr mapped;          /* the device's address of the pinned memory */
};

/* A recipe for a batch. */
struct copy_recipe {
    const char *name;
    gantry_copy_type type;
    uint32_t count;
    uint64_t bytes;  /* of each copy; ZIPF: of all together */
    bool misaligned; /* source and dest are misaligned by 1 to 15 bytes, each differently */
    bool zipf;       /* sizes fall with rank to the power 1.2 */
    bool contiguous; /* each copy continues the one before */
    bool kernel;     /* our side uses the kernel, whatever the tuning says */
    bool random;     /* sizes from 1 to `bytes` */
    bool shifted;    /* one copy has a source that begins 3 bytes later */
    enum copy_way way;
    uint64_t pitch; /* rows: the distance of both sides; 0: no rows */
};

bool bench_copy_arenas_open(struct copy_arenas *arenas, struct raw_cuda *cuda, uint64_t bytes,
                            uint64_t pinned_bytes);
void bench_copy_arenas_close(struct copy_arenas *arenas);

bool bench_copy_work_make(const struct copy_recipe *recipe, const struct copy_arenas *arenas,
                          struct copy_work *out);
void bench_copy_work_free(struct copy_work *work);

/* Addresses of one copy, as the device sees them. */
CUdeviceptr bench_copy_work_dest(const struct copy_arenas *arenas, const struct copy_work *work, uint32_t i);
CUdeviceptr bench_copy_work_source(const struct copy_arenas *arenas, const struct copy_work *work,
                                   uint32_t i);

/* Make the dest different from what is expected. */
bool bench_copy_work_clear(const struct copy_arenas *arenas, const struct copy_work *work, CUstream stream);
/* Compare every byte of the dest arena, also those between the copies. */
bool bench_copy_work_check(const struct copy_arenas *arenas, const struct copy_work *work, bool as_one);

#endif
