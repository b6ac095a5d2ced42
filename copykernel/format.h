/* SPDX-License-Identifier: MIT */
/* The batches that the copier sends to the copy kernel; the device compilers compile this file, too.
 *
 * A batch is an array of 64-bit words, aligned to 16 bytes: 2 for each piece, 2 for each long pattern, then
 * 1 for each unit and 1 more.
 *
 *   piece    a copy or fill of at most GY_COPY_PIECE_MAX bytes
 *              word 0   bits 0-47 source address, or the 32-bit pattern, or the long pattern's place, in
 *                       words;  48-63 dest, bits 0-15
 *              word 1   bits 0-31 dest, bits 16-47;  32-61 bytes;  62 set: long pattern;  63 set: fill
 *   pattern  the 16 aligned bytes that fill the destination
 *   start    where a unit begins: bits 0-31 piece, 32-63 byte in it.  The unit ends where the next one
 *            begins; the last start is {number of pieces, 0}.
 *
 * One warp does one unit at a time, or in a wide batch one block.  The units are in groups with thread blocks
 * of their own: from the host, to the host, within device memory.  So both directions of the link are busy at
 * the same time; each needs few blocks, so most multiprocessors stay free. */
#ifndef COPYKERNEL_FORMAT_H
#define COPYKERNEL_FORMAT_H

#include <stdint.h>

#define GY_COPY_ADDRESS_BITS 48
#define GY_COPY_PIECE_MAX ((1u << 30) - 128u)
#define GY_COPY_LONG_BIT 62
#define GY_COPY_FILL_BIT 63

/* The threads of a block: few where the hardware hands out the blocks, so that a block that ends makes room
 * soon; many where a few blocks must keep the link busy. */
#define GY_COPY_BLOCK 256
#define GY_COPY_BIG_BLOCK 1024

#define GY_COPY_FROM_HOST 0
#define GY_COPY_TO_HOST 1
#define GY_COPY_WITHIN 2
#define GY_COPY_GROUPS 3

/* How the grid divides the units. */
struct gy_copy_shape {
    uint32_t starts; /* the place of the first start, in words */
    uint32_t
        ends[GY_COPY_GROUPS]; /* the unit behind the last one of each group, where the next group begins */
    /* The blocks of each group, which draw its units until none is left.  GY_COPY_WITHIN: 0 means that they
     * are not limited, so each warp of the blocks behind the others does one unit. */
    uint32_t blocks[GY_COPY_GROUPS];
    uint32_t wide; /* set: there are only units within device memory, without a limit, and all warps of a
                      block do each together */
};

/* Batches that travel in the kernel's parameters.  The small one is quicker to launch; the big one needs
 * CUDA 12.1 and a kernel that nvcc compiled. */
#define GY_COPY_FEW_WORDS 60
#define GY_COPY_INLINE_WORDS 504
#define GY_COPY_MANY_WORDS 4080
#define GY_COPY_INLINE_STRUCT(name, count)                  \
    struct name {                                           \
        uint64_t words[count] __attribute__((aligned(16))); \
        struct gy_copy_shape shape;                         \
    }
GY_COPY_INLINE_STRUCT(gy_copy_few, GY_COPY_FEW_WORDS);
GY_COPY_INLINE_STRUCT(gy_copy_inline, GY_COPY_INLINE_WORDS);
GY_COPY_INLINE_STRUCT(gy_copy_many, GY_COPY_MANY_WORDS);

/* ---- lists that the device reads itself ---- */

/* A copy of more bytes than this is cut into tiles of this size, which warps of a second kernel share. */
#define GY_COPY_TILE 16384u

/* A box of rows at even distances, in bytes; rows of more than a tile are cut. */
struct gy_copy_rows {
    uint64_t width, dest_pitch, source_pitch, dest_layer, source_layer;
    uint32_t rows, pieces; /* in a layer; in a row */
};

/* The place of a list, as the device sees it: `descs`, of struct gy_copy_listed, or the other three arrays.
 * Of a box, `dests` and `sources` are the first bytes, and `most` counts the pieces. */
struct gy_copy_list_view {
    uint64_t descs;
    uint64_t dests, sources, bytes; /* 8 bytes for each copy */
    uint64_t count;                 /* address of a uint32_t; 0: there are `most` copies */
    uint64_t large;                 /* address of a struct gy_copy_large; 0: no copy is cut */
    uint64_t entries; /* address of struct gy_copy_large_entry, with room for one from each slice */
    uint32_t most;
    uint32_t reserved;
    struct gy_copy_rows box;
};

/* gantry_copy_desc as a kernel reads it. */
struct gy_copy_listed {
    uint64_t dest, source, bytes;
    uint32_t type, pattern_bytes, pattern, unused;
};

/* The first kernel of a list leaves its findings here for the second; in device memory, zero before the first
 * and after the second. */
struct gy_copy_large {
    unsigned long long found; /* bits 0-35 tiles, 36-63 entries */
    uint32_t gone;            /* blocks of the second kernel that have read `found` */
    uint32_t unused[5];
};
#define GY_COPY_LARGE_TILE_BITS 36

/* The copies of one slice of the list that are cut. */
struct gy_copy_large_entry {
    uint64_t first_tile;
    uint32_t slice;
    uint32_t unused;
};

/* ---- checks of such lists (GANTRY_CHECK=bounds) ---- */

/* Memory that the host has found for an address of the list. */
struct gy_copy_known {
    uint64_t begin, end;
    uint32_t is_host, unused;
};

/* A copy that does not lie in memory of the right kind that the host has found so far. */
struct gy_copy_suspect {
    struct gy_copy_listed copy;
    uint32_t index, unused;
};
#define GY_COPY_SUSPECTS 256u

/* One end of a copy, for the search for overlaps; `begin` is UINT64_MAX where there is none. */
struct gy_copy_span {
    uint64_t begin, end;
    uint32_t index, unused;
};
#define GY_COPY_NO_SPAN 0xffffffffffffffffull

/* What the kernels find. */
struct gy_copy_verdict {
    uint32_t suspects;          /* in all; those that there is room for are noted */
    uint32_t unordered;         /* not 0: dests are not in order of their addresses */
    unsigned long long dests;   /* of two whose dests overlap, the lesser index << 32 | the other one */
    unsigned long long sources; /* of a source that overlaps a dest, its index << 32 | the dest's */
    struct gy_copy_suspect noted[GY_COPY_SUSPECTS];
};
#define GY_COPY_NO_OVERLAP 0xffffffffffffffffull

/* Where the kernels find what they need, in device memory. */
struct gy_copy_checking {
    uint64_t verdict, known, dests, sources; /* struct gy_copy_verdict, _known by address, _span, _span */
    uint32_t known_count;
    uint32_t room; /* spans of dests: a power of two, not less than the number of copies */
    uint32_t upto; /* copies from here on are not suspected any more */
    uint32_t unused;
};

/* Counters of one launch in device memory, zero before and after it. */
struct gy_copy_counters {
    uint32_t next[GY_COPY_GROUPS]; /* the next unit of each group to draw */
    uint32_t gone[GY_COPY_GROUPS]; /* warps that found no unit left */
};

#endif
