/* SPDX-License-Identifier: MIT */
/* Copies whose list the device reads: the host has not seen the list, so the kernels do the planning.
 *
 * First kernel: a warp takes a slice of the list, at most 32 copies and fewer when there are more warps than
 * that makes.  Each lane loads one copy; then
 *
 *   up to 16 bytes      each lane does its own
 *   up to 512           teams of lanes do one each
 *   up to GY_COPY_TILE  the warp does one after the other
 *   more                is cut into tiles.  One atomic addition numbers the slice's tiles and takes it an
 * entry at once, so the entries are in order of their tiles without any scan
 *
 * Second kernel: warps share the tiles evenly.  Each finds the entry by a search, reads that slice of the
 * list again, and does its part.  The last block that has read the number of tiles sets it back to 0.
 *
 * No block ever waits for another one. */
#ifndef COPYKERNEL_LIST_MOVES_H
#define COPYKERNEL_LIST_MOVES_H

#include "copykernel/format.h"
#include "copykernel/moves.h"

#define TINY_BYTES 16u
/* Teams of four lanes do copies up to this size. */
#define LITTLE_BYTES 64u
#define LITTLE_TEAM 4u
#define LIST_OF_ARRAYS 0u
#define LIST_OF_DESCS 1u
#define LIST_OF_ROWS 2u
#define LIST_WARPS (GY_COPY_BLOCK / 32)

/* One copy of the list. */
struct listed {
    uint64_t dest, source, bytes; /* source: not of fills */
    uint32_t kind;                /* 0 copy, 2 fill */
    uint4 pattern;                /* what 16 aligned bytes of the destination become */
};

/* 16 bytes that repeat the pattern of `size` bytes, which begins at `dest`. */
static __device__ __forceinline__ uint4 list_pattern(const gy_copy_listed &d)
{
    const uint8_t *given = (const uint8_t *)(uintptr_t)d.source;
    uint32_t words[4] = {0, 0, 0, 0};
#pragma unroll
    for (uint32_t i = 0; i < 16; i++) {
        const uint32_t from = (i - (uint32_t)d.dest) & (d.pattern_bytes - 1);
        const uint32_t byte = d.pattern_bytes > 4 ? given[from] : d.pattern >> from * 8 & 0xff;
        words[i / 4] |= byte << i % 4 * 8;
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
}

static __device__ __forceinline__ bool is_pattern_size(uint32_t bytes)
{
    return bytes >= 1 && bytes <= 16 && (bytes & (bytes - 1)) == 0;
}

/* Piece number `i` of a box: pieces of a row, rows of a layer, layers. */
static __device__ __forceinline__ listed load_row(const gy_copy_list_view &list, uint32_t i)
{
    const gy_copy_rows &box = list.box;
    const uint32_t piece = box.pieces == 1 ? 0 : i % box.pieces, row = box.pieces == 1 ? i : i / box.pieces;
    const uint32_t layer = row / box.rows, at = row - layer * box.rows;
    const uint64_t from = (uint64_t)piece * GY_COPY_TILE;
    listed copy = {0, 0, 0, 0, {0, 0, 0, 0}};
    copy.dest = list.dests + layer * box.dest_layer + at * box.dest_pitch + from;
    copy.source = list.sources + layer * box.source_layer + at * box.source_pitch + from;
    copy.bytes = min(box.width - from, (uint64_t)GY_COPY_TILE);
    return copy;
}

/* Load copy number `i`, of descriptors, of three arrays or of a box.  An invalid copy becomes one of no
 * bytes: checking is not done here. */
template <uint32_t FORM>
static __device__ __forceinline__ listed load_listed(const gy_copy_list_view &list, uint32_t i)
{
    listed copy = {0, 0, 0, 0, {0, 0, 0, 0}};
    if (FORM == LIST_OF_ROWS) {
        return load_row(list, i);
    }
    if (FORM == LIST_OF_ARRAYS) {
        copy.dest = __ldg((const unsigned long long *)(uintptr_t)list.dests + i);
        copy.source = __ldg((const unsigned long long *)(uintptr_t)list.sources + i);
        copy.bytes = __ldg((const unsigned long long *)(uintptr_t)list.bytes + i);
        return copy;
    }
    const unsigned long long *words = (const unsigned long long *)(uintptr_t)list.descs + 5 * (uint64_t)i;
    const uint64_t low = __ldg(words + 3), high = __ldg(words + 4);
    const gy_copy_listed d = {__ldg(words),
                              __ldg(words + 1),
                              __ldg(words + 2),
                              (uint32_t)low,
                              (uint32_t)(low >> 32),
                              (uint32_t)high,
                              0};
    copy.dest = d.dest;
    copy.source = d.source;
    if (d.type < 3) {
        copy.bytes = d.bytes;
    } else if (d.type == 3 && d.bytes != 0 && is_pattern_size(d.pattern_bytes)) {
        copy.bytes = d.bytes;
        copy.kind = 2;
        copy.pattern = list_pattern(d);
    }
    return copy;
}

/* Tiles begin at multiples of GY_COPY_TILE from the memory line that the destination begins in. */
static __device__ __forceinline__ uint64_t tiles_of(const listed &copy)
{
    return (copy.bytes + (copy.dest & 127) + GY_COPY_TILE - 1) / GY_COPY_TILE;
}

/* ---- slices -------------------------------------------------------------------------------------- */

struct slicing {
    uint32_t count;  /* copies */
    uint32_t each;   /* copies in a slice */
    uint32_t slices; /* in all */
};

static __device__ __forceinline__ slicing slice_list(const gy_copy_list_view &list, uint32_t warps)
{
    slicing s;
    s.count = list.most;
    if (list.count != 0) {
        s.count = min(__ldg((const uint32_t *)(uintptr_t)list.count), list.most);
    }
    s.each = min((uint32_t)(((uint64_t)s.count + warps - 1) / warps), 32u);
    s.each = max(s.each, 1u);
    s.slices = (uint32_t)(((uint64_t)s.count + s.each - 1) / s.each);
    return s;
}

/* Load the lane's copy of a slice; it has no bytes where there is none. */
template <uint32_t FORM>
static __device__ __forceinline__ listed load_lane(const gy_copy_list_view &list, const slicing &s,
                                                   uint32_t slice)
{
    const uint32_t lane = gantry_lane(), i = slice * s.each + lane;
    listed none = {0, 0, 0, 0, {0, 0, 0, 0}};
    return lane < s.each && i < s.count ? load_listed<FORM>(list, i) : none;
}

/* The sum over the lanes up to this one. */
static __device__ __forceinline__ uint64_t sum_lanes(uint64_t value)
{
#pragma unroll
    for (uint32_t step = 1; step < 32; step *= 2) {
        const uint64_t below = __shfl_up_sync(FULL, value, step);
        value += gantry_lane() >= step ? below : 0;
    }
    return value;
}

/* ---- one slice ----------------------------------------------------------------------------------- */

static __device__ __forceinline__ void do_tiny(const listed &copy)
{
    const uint64_t either = copy.dest | copy.source | copy.bytes;
    const uint32_t bytes = (uint32_t)copy.bytes;
    uint8_t *dest = (uint8_t *)(uintptr_t)copy.dest;
    const uint8_t *source = (const uint8_t *)(uintptr_t)copy.source;
    if ((either & 7) == 0) {
        uint2 v[2];
        v[0] = ((const uint2 *)source)[0];
        v[1] = bytes > 8 ? ((const uint2 *)source)[1] : v[0];
        ((uint2 *)dest)[0] = v[0];
        if (bytes > 8) {
            ((uint2 *)dest)[1] = v[1];
        }
        return;
    }
    uint8_t v[TINY_BYTES];
#pragma unroll
    for (uint32_t i = 0; i < TINY_BYTES; i++) {
        v[i] = i < bytes ? source[i] : 0;
    }
#pragma unroll
    for (uint32_t i = 0; i < TINY_BYTES; i++) {
        if (i < bytes) {
            dest[i] = v[i];
        }
    }
}

/* Do bytes [from, from + bytes) of lane `lane`'s copy. */
template <uint32_t FORM>
static __device__ __forceinline__ job listed_job(const listed &mine, uint32_t lane, uint64_t from,
                                                 uint32_t bytes)
{
    job work;
    work.kind = FORM == LIST_OF_DESCS ? __shfl_sync(FULL, mine.kind, (int)lane) : 0;
    work.dest = __shfl_sync(FULL, (unsigned long long)mine.dest, (int)lane) + from;
    work.source = __shfl_sync(FULL, (unsigned long long)mine.source, (int)lane) + (work.kind != 0 ? 0 : from);
    work.bytes = bytes;
    return work;
}

template <uint32_t FORM>
static __device__ __forceinline__ uint4 listed_pattern(const listed &mine, uint32_t lane, bool any_fill)
{
    return FORM == LIST_OF_DESCS && any_fill ? from_lane<32>(mine.pattern, lane) : make_uint4(0, 0, 0, 0);
}

/* Do the copies of the lanes in `which`, each by a team.  `order` has 32 places of the warp's own. */
template <uint32_t FORM, uint32_t LANES>
static __device__ __forceinline__ void do_teams(const listed &mine, uint32_t which, bool any_fill,
                                                uint8_t *order)
{
    const uint32_t lane = gantry_lane(), count = (uint32_t)__popc(which);
    if (which >> lane & 1) {
        order[__popc(which & ((1u << lane) - 1))] = (uint8_t)lane;
    }
    __syncwarp();
    const uint32_t turn = lane < count ? order[lane] : 0;
    __syncwarp();
    for (uint32_t base = 0; base < count; base += 32 / LANES) {
        const uint32_t at = base + lane / LANES;
        const uint32_t whose = __shfl_sync(FULL, turn, (int)(at & 31));
        const uint32_t bytes = __shfl_sync(FULL, (uint32_t)mine.bytes, (int)whose);
        const job work = listed_job<FORM>(mine, whose, 0, at < count ? bytes : 0);
        do_job<LANES>(work, listed_pattern<FORM>(mine, whose, any_fill));
    }
}

/* Do the copies of the lanes in `which`, each by the warp. */
template <uint32_t FORM>
static __device__ __forceinline__ void do_one_by_one(const listed &mine, uint32_t which, bool any_fill)
{
    for (; which != 0; which &= which - 1) {
        const uint32_t lane = (uint32_t)__ffs((int)which) - 1;
        const uint64_t bytes = __shfl_sync(FULL, (unsigned long long)mine.bytes, (int)lane);
        for (uint64_t from = 0; from < bytes; from += GY_COPY_PIECE_MAX) {
            const uint64_t left = bytes - from;
            const job work = listed_job<FORM>(mine, lane, from,
                                              left < GY_COPY_PIECE_MAX ? (uint32_t)left : GY_COPY_PIECE_MAX);
            do_job<32>(work, listed_pattern<FORM>(mine, lane, any_fill));
        }
    }
}

/* Leave the slice's large copies, those of the lanes in `which`, to the second kernel. */
static __device__ __forceinline__ void leave_large(const gy_copy_list_view &list, const listed &mine,
                                                   uint32_t which, uint32_t slice)
{
    const uint32_t lane = gantry_lane();
    const uint64_t sum = sum_lanes(which >> lane & 1 ? tiles_of(mine) : 0);
    if (lane != 31) {
        return;
    }
    gy_copy_large *large = (gy_copy_large *)(uintptr_t)list.large;
    const uint64_t found = atomicAdd(&large->found, 1ull << GY_COPY_LARGE_TILE_BITS | sum);
    gy_copy_large_entry entry = {found & ((1ull << GY_COPY_LARGE_TILE_BITS) - 1), slice, 0};
    ((gy_copy_large_entry *)(uintptr_t)list.entries)[found >> GY_COPY_LARGE_TILE_BITS] = entry;
}

template <uint32_t FORM>
static __device__ __forceinline__ void do_slice(const gy_copy_list_view &list, const slicing &s,
                                                uint32_t slice, uint8_t *order)
{
    const listed mine = load_lane<FORM>(list, s, slice);
    const bool any_fill = FORM == LIST_OF_DESCS && __any_sync(FULL, mine.kind != 0);
    const bool is_large = mine.bytes > GY_COPY_TILE && list.large != 0;
    const bool is_tiny = mine.bytes != 0 && mine.bytes <= TINY_BYTES && mine.kind == 0;
    const uint32_t large = __ballot_sync(FULL, is_large);
    const uint32_t small = __ballot_sync(FULL, mine.bytes != 0 && mine.bytes <= SMALL_BYTES && !is_tiny);
    const uint32_t rest = __ballot_sync(FULL, mine.bytes > SMALL_BYTES && !is_large);
    if (large != 0) {
        leave_large(list, mine, large, slice);
    }
    if (is_tiny) {
        do_tiny(mine);
    }
    if (__popc(small) == 1) {
        do_one_by_one<FORM>(mine, small, any_fill);
    } else if (small != 0 && !__any_sync(FULL, mine.bytes > LITTLE_BYTES && mine.bytes <= SMALL_BYTES)) {
        do_teams<FORM, LITTLE_TEAM>(mine, small, any_fill, order);
    } else if (small != 0) {
        do_teams<FORM, SMALL_TEAM>(mine, small, any_fill, order);
    }
    do_one_by_one<FORM>(mine, rest, any_fill);
}

template <uint32_t FORM> static __device__ __forceinline__ void do_list(const gy_copy_list_view &list)
{
    __shared__ uint8_t order[LIST_WARPS][32];
    const uint32_t warp = threadIdx.x / 32, warps = gridDim.x * LIST_WARPS;
    const slicing s = slice_list(list, warps);
    for (uint32_t slice = blockIdx.x * LIST_WARPS + warp; slice < s.slices; slice += warps) {
        do_slice<FORM>(list, s, slice, order[warp]);
    }
}

/* ---- tiles --------------------------------------------------------------------------------------- */

/* Find the last entry that begins at the tile or before it; there is one. */
static __device__ __forceinline__ uint32_t find_entry(const gy_copy_large_entry *entries, uint32_t count,
                                                      uint64_t tile)
{
    uint32_t first = 0;
    while (count > 1) {
        const uint32_t step = (count + 31) / 32, place = gantry_lane() * step;
        const bool is_before = place < count && entries[first + place].first_tile <= tile;
        const uint32_t last = ((uint32_t)__popc(__ballot_sync(FULL, is_before)) - 1) * step;
        first += last;
        count = min(step, count - last);
    }
    return first;
}

/* The slice that a warp has read last. */
struct large_slice {
    uint64_t first, end; /* tiles */
    uint64_t upto;       /* sum of the lanes' tiles up to this one's */
    listed mine;
    bool any_fill;
};

template <uint32_t FORM>
static __device__ __forceinline__ large_slice load_large(const gy_copy_list_view &list, const slicing &s,
                                                         uint32_t entry_count, uint64_t tile)
{
    const gy_copy_large_entry *entries = (const gy_copy_large_entry *)(uintptr_t)list.entries;
    const gy_copy_large_entry entry = entries[find_entry(entries, entry_count, tile)];
    large_slice slice;
    slice.mine = load_lane<FORM>(list, s, entry.slice);
    slice.any_fill = FORM == LIST_OF_DESCS && __any_sync(FULL, slice.mine.kind != 0);
    slice.upto = sum_lanes(slice.mine.bytes > GY_COPY_TILE ? tiles_of(slice.mine) : 0);
    slice.first = entry.first_tile;
    slice.end = slice.first + __shfl_sync(FULL, (unsigned long long)slice.upto, 31);
    return slice;
}

template <uint32_t FORM>
static __device__ __forceinline__ void do_tile(const large_slice &slice, uint64_t tile)
{
    const uint32_t lane = (uint32_t)__ffs((int)__ballot_sync(FULL, tile - slice.first < slice.upto)) - 1;
    const uint64_t before =
        lane == 0 ? 0 : __shfl_sync(FULL, (unsigned long long)slice.upto, (int)(lane - 1));
    const uint64_t bytes = __shfl_sync(FULL, (unsigned long long)slice.mine.bytes, (int)lane);
    const uint64_t dest = __shfl_sync(FULL, (unsigned long long)slice.mine.dest, (int)lane);
    const uint64_t number = tile - slice.first - before, odd = dest & 127;
    const uint64_t from = number == 0 ? 0 : number * GY_COPY_TILE - odd;
    const uint64_t to = min((number + 1) * GY_COPY_TILE - odd, bytes);
    const job work = listed_job<FORM>(slice.mine, lane, from, (uint32_t)(to - from));
    do_job<32>(work, listed_pattern<FORM>(slice.mine, lane, slice.any_fill));
}

/* `first_warps` is the number of warps of the first kernel. */
template <uint32_t FORM>
static __device__ __forceinline__ void do_large(const gy_copy_list_view &list, uint32_t first_warps)
{
    gy_copy_large *large = (gy_copy_large *)(uintptr_t)list.large;
#if GANTRY_KERNEL_FORM_DEVICE
    const uint64_t found = *(volatile unsigned long long *)&large->found;
#else
    const uint64_t found = __atomic_load_n(&large->found, __ATOMIC_ACQUIRE);
#endif
    __syncthreads();
    if (threadIdx.x == 0 && atomicAdd(&large->gone, 1u) == gridDim.x - 1) {
        (void)atomicExch(&large->gone, 0u);
        (void)atomicExch(&large->found, 0ull);
    }
    const uint64_t tiles = found & ((1ull << GY_COPY_LARGE_TILE_BITS) - 1);
    if (tiles == 0) {
        return;
    }
    const slicing s = slice_list(list, first_warps);
    large_slice slice = {};
    const uint32_t warps = gridDim.x * LIST_WARPS;
    for (uint64_t tile = blockIdx.x * LIST_WARPS + threadIdx.x / 32; tile < tiles; tile += warps) {
        if (tile < slice.first || tile >= slice.end) {
            slice = load_large<FORM>(list, s, (uint32_t)(found >> GY_COPY_LARGE_TILE_BITS), tile);
        }
        do_tile<FORM>(slice, tile);
    }
}

#endif
