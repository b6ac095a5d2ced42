/* SPDX-License-Identifier: MIT */
#include "cli/intervals.h"

#include <stdlib.h>
#include <string.h>

bool cli_intervals_add(struct intervals *list, uint64_t begin, uint64_t end, uint32_t name)
{
    if (list->count == list->room) {
        size_t room = list->room == 0 ? 1024 : list->room * 2;
        struct interval *more = realloc(list->at, room * sizeof(*more));
        if (more == NULL) {
            return false;
        }
        list->at = more;
        list->room = room;
    }
    list->at[list->count++] = (struct interval){begin, end, name};
    return true;
}

static int by_begin(const void *a, const void *b)
{
    const struct interval *x = a, *y = b;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

void cli_intervals_sort(struct intervals *list)
{
    for (size_t i = 1; i < list->count; i++) {
        if (list->at[i].begin < list->at[i - 1].begin) {
            qsort(list->at, list->count, sizeof(*list->at), by_begin);
            return;
        }
    }
}

uint64_t cli_intervals_unite(struct intervals *list)
{
    uint64_t ns = 0;
    size_t kept = 0;
    cli_intervals_sort(list);
    for (size_t i = 0; i < list->count; i++) {
        struct interval *last = kept > 0 ? &list->at[kept - 1] : NULL;
        if (last != NULL && list->at[i].begin <= last->end) {
            last->end = list->at[i].end > last->end ? list->at[i].end : last->end;
        } else {
            list->at[kept++] = list->at[i];
        }
    }
    list->count = kept;
    for (size_t i = 0; i < kept; i++) {
        ns += list->at[i].end - list->at[i].begin;
    }
    return ns;
}

uint64_t cli_interval_overlap(const struct interval *a, uint64_t begin, uint64_t end)
{
    uint64_t from = a->begin > begin ? a->begin : begin;
    uint64_t to = a->end < end ? a->end : end;
    return to > from ? to - from : 0;
}

/* ---- growing ----------------------------------------------------------------------------------- */

static void forget_half(struct growing_union *all)
{
    uint32_t gone = GROWING_PARTS / 2;
    for (uint32_t i = 0; i < gone; i++) {
        all->ns += all->parts[i].end - all->parts[i].begin;
    }
    all->floor = all->parts[gone - 1].end;
    memmove(all->parts, all->parts + gone, (GROWING_PARTS - gone) * sizeof(all->parts[0]));
    all->count -= gone;
}

void cli_growing_add(struct growing_union *all, uint64_t begin, uint64_t end)
{
    begin = begin > all->floor ? begin : all->floor;
    if (end <= begin) {
        return;
    }
    if (all->count == GROWING_PARTS) {
        forget_half(all);
        cli_growing_add(all, begin, end);
        return;
    }
    uint32_t first =
        all->count; /* the first part that the interval meets, or the place before which it goes */
    while (first > 0 && all->parts[first - 1].end >= begin) {
        first--;
    }
    uint32_t behind = first; /* the first part behind it */
    while (behind < all->count && all->parts[behind].begin <= end) {
        begin = all->parts[behind].begin < begin ? all->parts[behind].begin : begin;
        end = all->parts[behind].end > end ? all->parts[behind].end : end;
        behind++;
    }
    if (behind != first + 1) {
        memmove(&all->parts[first + 1], &all->parts[behind], (all->count - behind) * sizeof(all->parts[0]));
        all->count = all->count - (behind - first) + 1;
    }
    all->parts[first].begin = begin;
    all->parts[first].end = end;
}

uint64_t cli_growing_ns(const struct growing_union *all)
{
    uint64_t ns = all->ns;
    for (uint32_t i = 0; i < all->count; i++) {
        ns += all->parts[i].end - all->parts[i].begin;
    }
    return ns;
}
