/* SPDX-License-Identifier: MIT */
/* The invariants of the page layer and of streams with blocks, which hold whenever no thread has the page
 * layer's lock; they are asserted where these change. */
#include "heap/pages.h"
#include "heap/starts.h"
#include "heap/streams_inside.h"

static bool is_marked(const struct gy_slab *slab, uintptr_t base)
{
    const size_t page = gy_page_in_slab(slab, base);
    return (slab->starts[page / 64] >> (page % 64) & 1u) != 0 &&
           (slab->starts_summary[page / 64 / 64] >> (page / 64 % 64) & 1u) != 0;
}

bool gy_range_is_valid(const struct gy_range *range)
{
    const enum gy_range_state state = gy_range_state(range);
    const struct gy_slab *slab = range->slab;
    const struct gy_range *below = range->below, *above = range->above;
    const uintptr_t end = range->base + (range->pages << GY_PAGE_SHIFT);
    if (state == GY_RANGE_SPARE || state > GY_RANGE_WAITING || slab == NULL || range->pages == 0 ||
        range->base % GY_PAGE_BYTES != 0) {
        return false;
    }
    const bool fits_below = below == NULL ? range->base == slab->region.base && slab->first == range
                                          : below->above == range && below->slab == slab &&
                                                below->base + (below->pages << GY_PAGE_SHIFT) == range->base;
    const bool fits_above = above == NULL
                                ? end == slab->region.base + slab->region.bytes
                                : above->below == range && above->slab == slab && above->base == end;
    return fits_below && fits_above && is_marked(slab, range->base);
}

static bool is_free(const struct gy_range *range)
{
    return range != NULL && gy_range_state(range) == GY_RANGE_FREE;
}

static bool waits_with(const struct gy_range *range, const struct gy_range *other)
{
    return other != NULL && gy_range_state(range) == GY_RANGE_WAITING &&
           gy_range_state(other) == GY_RANGE_WAITING && range->waiter == other->waiter;
}

bool gy_range_is_joined(const struct gy_range *range)
{
    return gy_range_is_valid(range) &&
           !(is_free(range) && (is_free(range->below) || is_free(range->above))) &&
           !waits_with(range, range->below) && !waits_with(range, range->above);
}

bool gy_slab_is_valid(const struct gy_slab *slab)
{
    const size_t all = slab->region.bytes >> GY_PAGE_SHIFT;
    const bool is_linked =
        (slab->prev == NULL || slab->prev->next == slab) && (slab->next == NULL || slab->next->prev == slab);
    return is_linked && slab->idle_pages <= all && slab->hole_bytes >> GY_PAGE_SHIFT <= slab->idle_pages &&
           slab->region.slab == slab && slab->first != NULL && slab->first->base == slab->region.base;
}

bool gy_pages_are_valid(const struct gy_pages *pages)
{
    const bool has_spare = pages->spare != NULL;
    return has_spare == (pages->spare_count != 0) &&
           (!has_spare || gy_range_state(pages->spare) == GY_RANGE_SPARE) &&
           (pages->slabs == NULL || pages->slabs->prev == NULL) &&
           (pages->slabs != NULL || pages->free.pages == 0) &&
           atomic_load_explicit(&pages->empty_bytes, memory_order_relaxed) <= pages->free.pages
                                                                                  << GY_PAGE_SHIFT;
}

static bool marks_are_valid(const struct gy_heap_stream *stream)
{
    uint64_t before = 0;
    for (unsigned i = 0; i < stream->mark_count; i++) {
        if (stream->marks[i].event == NULL || stream->marks[i].order <= before) {
            return false;
        }
        before = stream->marks[i].order;
    }
    return true;
}

bool gy_heap_stream_is_valid(const struct gy_heap_stream *stream)
{
    const bool is_of_capture = stream->capture != 0;
    const unsigned room = stream->marks_state == GY_MARKS_MARKING ? 1 : 0; /* for the mark that is made */
    return (unsigned)stream->marks_state <= GY_MARKS_MARKING &&
           stream->mark_count + room <= GY_STREAM_MARKS && marks_are_valid(stream) &&
           (stream->unmarked != 0 || stream->unmarked_bytes == 0) &&
           (stream->unmarked != 0 || !stream->wanted) &&
           (is_of_capture || (!stream->is_over && !stream->is_pinned && stream->kept == NULL)) &&
           (!stream->waiter.is_graph || is_of_capture) && (!stream->is_pinned || stream->waiter.is_graph);
}

bool gy_heap_streams_are_valid(const struct gy_heap_streams *streams)
{
    enum { MOST = 32 };
    unsigned count = 0;
    const struct gy_heap_stream *stream = streams->first;
    for (; stream != NULL && count < MOST; stream = stream->next) {
        count++;
        if (stream->mark_count != 0 && stream->marks[stream->mark_count - 1].order >= streams->order) {
            return false;
        }
    }
    return streams->spare_count <= GY_SPARE_EVENTS &&
           (stream == NULL ? count == streams->count : streams->count > MOST) &&
           (streams->count == 0 || atomic_load_explicit(&streams->used, memory_order_relaxed));
}
