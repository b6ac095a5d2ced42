/* SPDX-License-Identifier: MIT */
/* Lists that the device reads are checked by the device, before they are done (GANTRY_CHECK=bounds; the
 * host's part is in list_check.c).
 *
 *   entries    a thread looks at each copy.  One that is not in memory of the right kind that the host has
 * found so far is noted: the host finds its memory, or tells what is wrong, and the kernel runs once more
 *   sort       a step of a bitonic sort of the dests; left out when they are in order
 *   overlaps   each dest with the one before; each source by a search among the dests
 */
#ifndef COPYKERNEL_LIST_CHECK_KERNELS_H
#define COPYKERNEL_LIST_CHECK_KERNELS_H

#include "copykernel/list_moves.h"

enum list_need { LIST_NEEDS_DEVICE, LIST_NEEDS_HOST, LIST_NEEDS_EITHER };

/* Is it in memory of that kind that the host knows? */
static __device__ __forceinline__ bool is_known(const gy_copy_checking &c, uint64_t at, uint64_t bytes,
                                                list_need need)
{
    const gy_copy_known *known = (const gy_copy_known *)(uintptr_t)c.known;
    uint32_t low = 0, high = c.known_count; /* the first that ends behind the address */
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (known[middle].end <= at) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < c.known_count && known[low].begin <= at && bytes <= known[low].end - at &&
           (need == LIST_NEEDS_EITHER || (need == LIST_NEEDS_HOST) == (known[low].is_host != 0));
}

static __device__ __forceinline__ bool is_right(const gy_copy_checking &c, const gy_copy_listed &d,
                                                bool any_kind)
{
    const bool is_fill = d.type == 3;
    if (d.type > 3 || (is_fill && !is_pattern_size(d.pattern_bytes))) {
        return false;
    }
    if (is_fill && d.pattern_bytes > 4 &&
        (d.bytes == 0 ? d.source == 0 : !is_known(c, d.source, d.pattern_bytes, LIST_NEEDS_EITHER))) {
        return false;
    }
    if (d.bytes == 0) {
        return true;
    }
    const list_need to = any_kind || is_fill ? LIST_NEEDS_EITHER
                         : d.type == 1       ? LIST_NEEDS_HOST
                                             : LIST_NEEDS_DEVICE;
    const list_need from = any_kind ? LIST_NEEDS_EITHER : d.type == 0 ? LIST_NEEDS_HOST : LIST_NEEDS_DEVICE;
    return is_known(c, d.dest, d.bytes, to) && (is_fill || is_known(c, d.source, d.bytes, from));
}

template <uint32_t FORM>
static __device__ __forceinline__ gy_copy_listed raw_listed(const gy_copy_list_view &list, uint32_t i)
{
    if (FORM == LIST_OF_DESCS) {
        return ((const gy_copy_listed *)(uintptr_t)list.descs)[i];
    }
    gy_copy_listed d = {((const uint64_t *)(uintptr_t)list.dests)[i],
                        ((const uint64_t *)(uintptr_t)list.sources)[i],
                        ((const uint64_t *)(uintptr_t)list.bytes)[i],
                        2,
                        0,
                        0,
                        0};
    return d;
}

static __device__ __forceinline__ gy_copy_span span_of(uint64_t begin, uint64_t bytes, uint32_t index)
{
    gy_copy_span span = {GY_COPY_NO_SPAN, GY_COPY_NO_SPAN, index, 0};
    if (bytes != 0) {
        span.begin = begin;
        span.end = begin + bytes;
    }
    return span;
}

template <uint32_t FORM>
static __device__ __forceinline__ void check_entry(const gy_copy_list_view &list, const gy_copy_checking &c,
                                                   uint32_t i)
{
    gy_copy_span *dests = (gy_copy_span *)(uintptr_t)c.dests, *sources = (gy_copy_span *)(uintptr_t)c.sources;
    gy_copy_verdict *verdict = (gy_copy_verdict *)(uintptr_t)c.verdict;
    if (i >= list.most) {
        dests[i] = span_of(0, 0, i);
        return;
    }
    const gy_copy_listed d = raw_listed<FORM>(list, i);
    dests[i] = span_of(d.dest, d.bytes, i);
    sources[i] = span_of(d.source, d.type == 3 ? 0 : d.bytes, i);
    if (d.bytes == 0 || (i > 0 && raw_listed<FORM>(list, i - 1).dest > d.dest)) {
        (void)atomicExch(&verdict->unordered, 1u);
    }
    if (i < c.upto && !is_right(c, d, FORM == LIST_OF_ARRAYS)) {
        const uint32_t place = atomicAdd(&verdict->suspects, 1u);
        if (place < GY_COPY_SUSPECTS) {
            gy_copy_suspect suspect = {d, i, 0};
            verdict->noted[place] = suspect;
        }
    }
}

template <uint32_t FORM>
static __device__ __forceinline__ void check_entries(const gy_copy_list_view &list, const gy_copy_checking &c)
{
    for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < c.room;
         i += (uint64_t)gridDim.x * blockDim.x) {
        check_entry<FORM>(list, c, (uint32_t)i);
    }
}

/* Compare and exchange spans that are `step` apart; runs of `run` are sorted afterwards, when the step is 1.
 */
static __device__ __forceinline__ void sort_step(const gy_copy_checking &c, uint32_t run, uint32_t step)
{
    gy_copy_span *spans = (gy_copy_span *)(uintptr_t)c.dests;
    for (uint64_t pair = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; pair < c.room / 2;
         pair += (uint64_t)gridDim.x * blockDim.x) {
        const uint64_t low = pair / step * 2 * step + pair % step, high = low + step;
        const gy_copy_span a = spans[low], b = spans[high];
        if ((a.begin > b.begin) == ((low & run) == 0) && a.begin != b.begin) {
            spans[low] = b;
            spans[high] = a;
        }
    }
}

static __device__ __forceinline__ void find_overlap(const gy_copy_checking &c, uint32_t copies, uint32_t i)
{
    const gy_copy_span *dests = (const gy_copy_span *)(uintptr_t)c.dests;
    gy_copy_verdict *verdict = (gy_copy_verdict *)(uintptr_t)c.verdict;
    if (i > 0 && dests[i].begin != GY_COPY_NO_SPAN && dests[i].begin < dests[i - 1].end) {
        const uint32_t a = dests[i - 1].index, b = dests[i].index;
        (void)atomicMin(&verdict->dests, (unsigned long long)min(a, b) << 32 | max(a, b));
    }
    const gy_copy_span source =
        i < copies ? ((const gy_copy_span *)(uintptr_t)c.sources)[i] : span_of(0, 0, i);
    if (source.begin == GY_COPY_NO_SPAN) {
        return;
    }
    uint32_t low = 0, high = c.room; /* the first dest that ends behind the source's beginning */
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (dests[middle].end <= source.begin) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low < c.room && dests[low].begin < source.end) {
        (void)atomicMin(&verdict->sources, (unsigned long long)source.index << 32 | dests[low].index);
    }
}

static __device__ __forceinline__ void find_overlaps(const gy_copy_checking &c, uint32_t copies)
{
    for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < c.room;
         i += (uint64_t)gridDim.x * blockDim.x) {
        find_overlap(c, copies, (uint32_t)i);
    }
}

#endif
