/* SPDX-License-Identifier: MIT */
/* The memory that each tag uses, and a map for people. */
#include "base/alloc.h"
#include "base/file_name.h"
#include "base/handle.h"
#include "heap/internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MAP_COLUMNS 64

/* ---- tags ---- */

int gy_heap_by_place(const void *a, const void *b)
{
    const gantry_heap_tag_stats *left = a;
    const gantry_heap_tag_stats *right = b;
    int order = strcmp(left->tag, right->tag);
    if (order == 0) {
        order = strcmp(left->file != NULL ? left->file : "", right->file != NULL ? right->file : "");
    }
    return order != 0 ? order : (left->line > right->line) - (left->line < right->line);
}

static int by_use(const void *a, const void *b)
{
    const gantry_heap_tag_stats *left = a;
    const gantry_heap_tag_stats *right = b;
    if (left->used_bytes != right->used_bytes) {
        return left->used_bytes < right->used_bytes ? 1 : -1;
    }
    if (left->peak_bytes != right->peak_bytes) {
        return left->peak_bytes < right->peak_bytes ? 1 : -1;
    }
    return gy_heap_by_place(a, b);
}

/* Join neighbours that read the same; returns how many are left. */
static size_t join_same(gantry_heap_tag_stats *stats, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (kept > 0 && gy_heap_by_place(&stats[kept - 1], &stats[i]) == 0) {
            stats[kept - 1].used_bytes += stats[i].used_bytes;
            stats[kept - 1].peak_bytes += stats[i].peak_bytes;
            stats[kept - 1].block_count += stats[i].block_count;
        } else {
            stats[kept++] = stats[i];
        }
    }
    return kept;
}

gantry_heap_tag_stats *gy_heap_tags(gantry_heap *heap, gantry_memory_kind kind, size_t *out_count)
{
    size_t sites;
    *out_count = 0;
    struct gy_site *site = gy_sites_copy(&heap->sites, &sites);
    gantry_heap_tag_stats *stats = gy_zalloc_array(sites + 1, sizeof(*stats));
    if (site == NULL || stats == NULL) {
        gy_free(site);
        gy_free(stats);
        return NULL;
    }
    size_t count = 0;
    for (size_t i = 0; i <= sites; i++) {
        gantry_alloc_site where = i < sites ? site[i].where : (gantry_alloc_site){NULL, NULL, 0};
        gantry_heap_tag_stats *one = &stats[count];
        *one = (gantry_heap_tag_stats){.tag = gy_site_tag(&where), .file = where.file, .line = where.line};
        gy_kind_site_stats(&heap->kinds[kind], i < sites ? site[i].number : 0, one);
        count += one->peak_bytes != 0 ? 1 : 0;
    }
    gy_free(site);
    qsort(stats, count, sizeof(*stats), gy_heap_by_place);
    count = join_same(stats, count);
    qsort(stats, count, sizeof(*stats), by_use);
    *out_count = count;
    return stats;
}

gantry_status gantry_heap_get_tag_stats(gantry_heap *heap, gantry_memory_kind kind,
                                        gantry_heap_tag_stats *stats, size_t capacity, size_t *out_count)
{
    GY_ACCEPT(HEAP, heap);
    if (heap == NULL || (unsigned)kind >= GANTRY_MEMORY_KIND_COUNT || out_count == NULL ||
        (stats == NULL && capacity != 0)) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                       "gantry_heap_get_tag_stats: something is NULL, or unknown memory kind %d", (int)kind);
    }
    size_t count;
    gantry_heap_tag_stats *all = gy_heap_tags(heap, kind, &count);
    if (all == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "gantry_heap_get_tag_stats: no memory for sorting");
    }
    if (count != 0 && capacity != 0) {
        memcpy(stats, all, (count < capacity ? count : capacity) * sizeof(*stats));
    }
    *out_count = count;
    gy_free(all);
    return GANTRY_OK;
}

/* ---- the map ---- */

/* A line of the map per slab shows its pages by their users.  It is drawn under the page layer's lock and
 * printed without it. */
struct map {
    char (*lines)[MAP_COLUMNS + 1];
    uintptr_t *bases;
    size_t *bytes;
    size_t room;
    size_t count;
    const struct gy_slab *slab; /* the slab of the last line */
};

static char letter_of(enum gy_range_state state)
{
    switch (state) {
    case GY_RANGE_BLOCK:
        return '#';
    case GY_RANGE_CHUNK:
        return 's';
    case GY_RANGE_WAITING:
        return 'w';
    case GY_RANGE_HOLE:
        return ' ';
    default:
        return '.';
    }
}

/* Draw a range.  A column shows its first taken page, so that nothing taken is drawn as free. */
static void draw_range(void *user, const struct gy_slab *slab, const struct gy_range *range)
{
    struct map *map = user;
    if (slab != map->slab) {
        if (map->count == map->room) {
            return;
        }
        map->slab = slab;
        map->bases[map->count] = slab->region.base;
        map->bytes[map->count] = slab->region.bytes;
        memset(map->lines[map->count], '.', MAP_COLUMNS);
        map->count++;
    }
    char letter = letter_of(gy_range_state(range));
    size_t column_bytes = slab->region.bytes / MAP_COLUMNS;
    size_t first = (range->base - slab->region.base) / column_bytes;
    size_t last = (range->base - slab->region.base + (range->pages << GY_PAGE_SHIFT) - 1) / column_bytes;
    for (size_t i = first; letter != '.' && i <= last && i < MAP_COLUMNS; i++) {
        char *at = &map->lines[map->count - 1][i];
        *at = *at == '.' ? letter : *at != letter ? '+' : letter;
    }
}

static void print_tags(FILE *out, const gantry_heap_tag_stats *tags, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        fprintf(out, "  %14" PRIu64 " bytes %10" PRIu64 " blocks %14" PRIu64 " peak  %s  %s:%d\n",
                tags[i].used_bytes, tags[i].block_count, tags[i].peak_bytes, tags[i].tag,
                tags[i].file != NULL ? tags[i].file : "unknown place", tags[i].line);
    }
}

static void print_map(FILE *out, gantry_memory_kind kind, const gantry_heap_stats *stats,
                      const struct map *map)
{
    double fragmented = stats->free_bytes != 0
                            ? 100.0 * (1.0 - (double)stats->largest_free / (double)stats->free_bytes)
                            : 0.0;
    fprintf(out,
            "%s memory: %" PRIu64 " bytes in %" PRIu64 " blocks (peak %" PRIu64 "), %" PRIu64
            " bytes of slabs (peak %" PRIu64 "), %" PRIu64 " free, the largest piece %" PRIu64
            " (%.0f %% fragmented)\n",
            gy_kind_name(kind), stats->used_bytes, stats->block_count, stats->peak_bytes, stats->slab_bytes,
            stats->peak_slab_bytes, stats->free_bytes, stats->largest_free, fragmented);
    fputs("  # blocks   s small blocks   + both   . free\n", out);
    for (size_t i = 0; i < map->count; i++) {
        fprintf(out, "  0x%012" PRIxPTR " %6zu MiB |%s|\n", map->bases[i], map->bytes[i] >> 20,
                map->lines[i]);
    }
}

static void count_slab(void *user, const struct gy_slab *slab, const struct gy_range *range)
{
    size_t *count = user;
    *count += range == slab->first ? 1 : 0;
}

gantry_status gantry_heap_dump(gantry_heap *heap, gantry_memory_kind kind, FILE *out)
{
    GY_ACCEPT(HEAP, heap);
    if (heap == NULL || out == NULL || (unsigned)kind >= GANTRY_MEMORY_KIND_COUNT) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                       "gantry_heap_dump: something is NULL, or unknown memory kind %d", (int)kind);
    }
    gantry_heap_stats stats = {.struct_size = sizeof(stats)};
    gy_kind_stats(&heap->kinds[kind], &stats);
    struct map map = {.room = 0};
    gy_pages_each_range(&heap->kinds[kind].pages, count_slab, &map.room);
    size_t count;
    gantry_heap_tag_stats *tags = gy_heap_tags(heap, kind, &count);
    map.lines = gy_zalloc_array(map.room + 1, sizeof(map.lines[0]));
    map.bases = gy_zalloc_array(map.room + 1, sizeof(map.bases[0]));
    map.bytes = gy_zalloc_array(map.room + 1, sizeof(map.bytes[0]));
    gantry_status status = GANTRY_OK;
    if (tags == NULL || map.lines == NULL || map.bases == NULL || map.bytes == NULL) {
        status = GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "gantry_heap_dump: no memory for drawing");
    } else {
        gy_pages_each_range(&heap->kinds[kind].pages, draw_range, &map);
        print_map(out, kind, &stats, &map);
        print_tags(out, tags, count);
        if (fflush(out) != 0 || ferror(out) != 0) {
            status = GY_FAIL(GANTRY_ERR_IO, "gantry_heap_dump: the map cannot be written: %s",
                             gy_file_failure(out));
        }
    }
    gy_free(tags);
    gy_free(map.lines);
    gy_free(map.bases);
    gy_free(map.bytes);
    return status;
}
