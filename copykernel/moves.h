/* SPDX-License-Identifier: MIT */
/* How the copy kernels move bytes: one copy or fill by a team of lanes, byte-exact for any alignment.
 *
 *   head    bytes up to the first 16-byte boundary of the destination
 *   body    16 bytes per lane and store.  If the source has the same alignment, 16-byte loads; otherwise
 *           aligned 16-byte loads too, each line once, shifted together with the neighbouring lane's
 *   tail    the bytes left
 *
 * Nothing outside the source range is read, not even within an aligned vector: head and tail grow by a
 * vector where that is needed.  For kernels (<gantry/kernel.h>) only. */
#ifndef COPYKERNEL_MOVES_H
#define COPYKERNEL_MOVES_H

#include <gantry/kernel.h>

#define FULL 0xffffffffu
/* Pieces shorter than this are copied by bytes, since the other ways need room for head and tail. */
#define SHORT_BYTES 64u
/* Teams of eight lanes do pieces up to this size: four vectors for each lane. */
#define SMALL_BYTES 512u
#define SMALL_TEAM 8u

/* Vectors that a warp moves at a time. */
#define CHUNK 128u

/* One warp of several that do something together, chunk by chunk in turn. */
struct share {
    uint32_t part, parts;
};

/* A piece, or a unit's part of it; bytes 0: there is nothing to do. */
struct job {
    unsigned long long dest;
    unsigned long long source; /* address, or the pattern's piece bits */
    uint32_t bytes;
    uint32_t kind; /* 0 copy, 2 fill, 3 fill with a long pattern */
};

/* How a piece divides. */
struct division {
    uint32_t head, vectors, tail; /* bytes, vectors of 16, bytes */
    uint32_t shift;               /* of the source against the destination, in bytes */
};

static __device__ __forceinline__ division divide(const job &work)
{
    division d = {0, 0, 0, 0};
    if (work.bytes < SHORT_BYTES) {
        d.head = min(work.bytes, 32u);
    } else {
        d.head = (0u - (uint32_t)work.dest) & 15;
        d.shift = work.kind != 0 ? 0 : ((uint32_t)work.source + d.head) & 15;
        if (d.shift == 0) {
            d.vectors = (work.bytes - d.head) / 16;
        } else {
            d.head += d.head < d.shift ? 16 : 0; /* the first line begins inside the source */
            d.vectors = (work.bytes - d.head + d.shift) / 16 - 1; /* and the last one ends inside */
        }
    }
    d.tail = work.bytes - d.head - 16 * d.vectors;
    return d;
}

/* The 16 bytes that begin `shift` bytes into {a, b}; shift < 16. */
static __device__ __forceinline__ uint4 shift_together(uint4 a, uint4 b, uint32_t shift)
{
    uint32_t bits = (shift & 3) * 8;
    switch (shift >> 2) {
    case 0:
        return make_uint4(__funnelshift_r(a.x, a.y, bits), __funnelshift_r(a.y, a.z, bits),
                          __funnelshift_r(a.z, a.w, bits), __funnelshift_r(a.w, b.x, bits));
    case 1:
        return make_uint4(__funnelshift_r(a.y, a.z, bits), __funnelshift_r(a.z, a.w, bits),
                          __funnelshift_r(a.w, b.x, bits), __funnelshift_r(b.x, b.y, bits));
    case 2:
        return make_uint4(__funnelshift_r(a.z, a.w, bits), __funnelshift_r(a.w, b.x, bits),
                          __funnelshift_r(b.x, b.y, bits), __funnelshift_r(b.y, b.z, bits));
    default:
        return make_uint4(__funnelshift_r(a.w, b.x, bits), __funnelshift_r(b.x, b.y, bits),
                          __funnelshift_r(b.y, b.z, bits), __funnelshift_r(b.z, b.w, bits));
    }
}

template <uint32_t LANES> static __device__ __forceinline__ uint4 from_lane(uint4 v, uint32_t lane)
{
    return make_uint4(
        __shfl_sync(FULL, v.x, (int)lane, (int)LANES), __shfl_sync(FULL, v.y, (int)lane, (int)LANES),
        __shfl_sync(FULL, v.z, (int)lane, (int)LANES), __shfl_sync(FULL, v.w, (int)lane, (int)LANES));
}

/* Move up to 4 * LANES vectors that begin `shift` bytes into the aligned `lines`, of which count + 1 exist,
 * or count when the shift is 0.  All teams of the warp come here together.  Loads that begin inside a sector
 * take it from the cache the second time, so these loads do not stream. */
template <uint32_t LANES>
static __device__ __forceinline__ void move_lines(uint4 *dest, const uint4 *lines, uint32_t count,
                                                  uint32_t shift, uint32_t rank, bool fill, uint4 pattern)
{
    uint32_t exist = fill || count == 0 ? 0 : count + (shift != 0 ? 1 : 0);
    uint4 v[5];
#pragma unroll
    for (uint32_t k = 0; k < 4; k++) {
        v[k] = pattern;
        if (rank + k * LANES < exist) {
            v[k] = __ldg(lines + rank + k * LANES);
        }
    }
    v[4] = pattern;
    if (rank == 0 && 4 * LANES < exist) {
        v[4] = __ldg(lines + 4 * LANES);
    }
#pragma unroll
    for (uint32_t k = 0; k < 4; k++) {
        /* the last lane's neighbour is the first one, whose next line it is */
        uint4 next = from_lane<LANES>(rank == 0 ? v[k + 1] : v[k], (rank + 1) & (LANES - 1));
        if (rank + k * LANES < count) {
            __stcs(dest + rank + k * LANES, shift_together(v[k], next, shift));
        }
    }
}

/* Move `count` vectors by a whole warp; both sides are aligned, and four loads are in flight per lane. */
static __device__ __forceinline__ void move_vectors(uint4 *dest, const uint4 *source, uint32_t count,
                                                    uint32_t rank, share of)
{
    uint32_t i = rank + of.part * CHUNK;
    for (; i + 96 < count; i += of.parts * CHUNK) {
        uint4 a = __ldcs(source + i), b = __ldcs(source + i + 32);
        uint4 c = __ldcs(source + i + 64), d = __ldcs(source + i + 96);
        __stcs(dest + i, a);
        __stcs(dest + i + 32, b);
        __stcs(dest + i + 64, c);
        __stcs(dest + i + 96, d);
    }
    uint4 v[3] = {};
#pragma unroll
    for (uint32_t k = 0; k < 3; k++) {
        if (i + 32 * k < count) {
            v[k] = __ldcs(source + i + 32 * k);
        }
    }
#pragma unroll
    for (uint32_t k = 0; k < 3; k++) {
        if (i + 32 * k < count) {
            __stcs(dest + i + 32 * k, v[k]);
        }
    }
}

/* The byte of the pattern that belongs to an address. */
static __device__ __forceinline__ uint8_t pattern_byte(uint4 pattern, unsigned long long address)
{
    uint32_t place = (uint32_t)address & 15;
    uint32_t low = place & 4 ? pattern.y : pattern.x, high = place & 4 ? pattern.w : pattern.z;
    return (uint8_t)((place & 8 ? high : low) >> (place & 3) * 8);
}

/* Do one piece for each team of LANES lanes.  Head and tail are loaded before the body and stored behind it,
 * so that there is one wait instead of three. */
template <uint32_t LANES>
static __device__ __forceinline__ void do_job(const job &work, uint4 pattern, share of = {0, 1})
{
    const uint32_t rank = gantry_lane() & (LANES - 1);
    const division d = divide(work);
    const bool fill = work.kind != 0;
    uint8_t *dest = (uint8_t *)(uintptr_t)work.dest;
    const uint8_t *source = (const uint8_t *)(uintptr_t)work.source;
    const uint32_t behind = d.head + 16 * d.vectors;
    uint8_t head[32 / LANES], tail[32 / LANES];
#pragma unroll
    for (uint32_t k = 0; k < 32 / LANES; k++) {
        uint32_t i = rank + k * LANES;
        head[k] = pattern_byte(pattern, work.dest + i);
        tail[k] = pattern_byte(pattern, work.dest + behind + i);
        if (i < d.head && !fill && of.part == 0) {
            head[k] = source[i];
        }
        if (i < d.tail && !fill && of.part == 0) {
            tail[k] = source[behind + i];
        }
    }
    uint4 *vectors = (uint4 *)(dest + d.head);
    const uint4 *lines =
        (const uint4 *)(uintptr_t)(work.source + d.head - d.shift); /* a fill's: never read */
    if (LANES != 32) {
        move_lines<LANES>(vectors, lines, d.vectors, d.shift, rank, fill, pattern);
    } else if (fill) {
        for (uint32_t i = rank + of.part * 32; i < d.vectors; i += of.parts * 32) {
            __stcs(vectors + i, pattern);
        }
    } else if (d.shift == 0) {
        move_vectors(vectors, lines, d.vectors, rank, of);
    } else {
        for (uint32_t i = of.part * CHUNK; i < d.vectors; i += of.parts * CHUNK) {
            move_lines<LANES>(vectors + i, lines + i, d.vectors - i, d.shift, rank, false, pattern);
        }
    }
    if (of.part != 0) {
        return;
    }
#pragma unroll
    for (uint32_t k = 0; k < 32 / LANES; k++) {
        uint32_t i = rank + k * LANES;
        if (i < d.head) {
            dest[i] = head[k];
        }
        if (i < d.tail) {
            dest[behind + i] = tail[k];
        }
    }
}

#endif
