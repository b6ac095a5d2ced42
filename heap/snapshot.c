/* SPDX-License-Identifier: MIT */
/* A heap as JSON: its numbers, and where each block lies and who asked for it.
 *
 * What lies in slabs is copied under the leaf locks into arrays that were made before, and written without a
 * lock.  When an array is too small, since other threads allocate meanwhile, a larger one is made. */
#include "base/alloc.h"
#include "base/environment.h"
#include "base/file_name.h"
#include "base/handle.h"
#include "heap/internal.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A range of a slab, or a slab itself, behind which its ranges follow. */
struct piece {
    uintptr_t base;
    uint64_t bytes;
    bool is_slab;
    enum gy_range_state state; /* of a range */
};

struct pieces {
    struct piece *at;
    size_t room, count; /* count > room: the array was too small */
};

struct blocks {
    struct gy_visited *at;
    size_t room, count; /* likewise */
};

/* What one kind has. */
struct contents {
    struct pieces pieces;
    struct blocks blocks;        /* sorted by address */
    gantry_heap_tag_stats *tags; /* in the order of gy_heap_by_place() */
    size_t tag_count;
    uint32_t *tag_of; /* by number of a site: the place of its tag in `tags`, or NO_TAG */
    size_t site_count;
};

#define NO_TAG UINT32_MAX

/* ---- copying ----------------------------------------------------------------------------------- */

static void add_piece(struct pieces *pieces, struct piece piece)
{
    if (pieces->count < pieces->room) {
        pieces->at[pieces->count] = piece;
    }
    pieces->count++;
}

static void visit_range(void *user, const struct gy_slab *slab, const struct gy_range *range)
{
    if (range == slab->first) {
        add_piece(user, (struct piece){slab->region.base, slab->region.bytes, true, GY_RANGE_SPARE});
    }
    add_piece(user, (struct piece){range->base, (uint64_t)range->pages << GY_PAGE_SHIFT, false,
                                   gy_range_state(range)});
}

static void visit_block(void *user, const struct gy_visited *block)
{
    struct blocks *blocks = user;
    if (blocks->count < blocks->room) {
        blocks->at[blocks->count] = *block;
    }
    blocks->count++;
}

static int by_address(const void *a, const void *b)
{
    const uintptr_t left = ((const struct gy_visited *)a)->base, right = ((const struct gy_visited *)b)->base;
    return (left > right) - (left < right);
}

/* False: out of host memory. */
static bool copy_pieces(struct gy_kind *kind, struct pieces *pieces)
{
    do {
        pieces->room = pieces->count + pieces->count / 4 + 64;
        gy_free(pieces->at);
        pieces->at = gy_zalloc_array(pieces->room, sizeof(*pieces->at));
        pieces->count = 0;
        if (pieces->at == NULL) {
            return false;
        }
        gy_pages_each_range(&kind->pages, visit_range, pieces);
    } while (pieces->count > pieces->room);
    return true;
}

static bool copy_blocks(struct gy_kind *kind, struct blocks *blocks)
{
    do {
        blocks->room = blocks->count + blocks->count / 4 + 64;
        gy_free(blocks->at);
        blocks->at = gy_zalloc_array(blocks->room, sizeof(*blocks->at));
        blocks->count = 0;
        if (blocks->at == NULL) {
            return false;
        }
        gy_kind_each_block(kind, visit_block, blocks);
    } while (blocks->count > blocks->room);
    qsort(blocks->at, blocks->count, sizeof(*blocks->at), by_address);
    return true;
}

/* Find the tag of each site. */
static bool copy_tags(gantry_heap *heap, gantry_memory_kind kind, struct contents *contents)
{
    size_t sites;
    struct gy_site *site = gy_sites_copy(&heap->sites, &sites);
    contents->tags = gy_heap_tags(heap, kind, &contents->tag_count);
    contents->site_count = (size_t)gy_sites_count(&heap->sites) + 1;
    contents->tag_of = gy_zalloc_array(contents->site_count, sizeof(*contents->tag_of));
    const bool good = site != NULL && contents->tags != NULL && contents->tag_of != NULL;
    if (good) {
        qsort(contents->tags, contents->tag_count, sizeof(*contents->tags), gy_heap_by_place);
        memset(contents->tag_of, 0xff, contents->site_count * sizeof(*contents->tag_of));
    }
    for (size_t i = 0; good && i <= sites; i++) { /* the last one is site 0, which has no struct */
        const gantry_alloc_site where = i < sites ? site[i].where : (gantry_alloc_site){NULL, NULL, 0};
        const gantry_heap_tag_stats key = {
            .tag = gy_site_tag(&where), .file = where.file, .line = where.line};
        const gantry_heap_tag_stats *found =
            bsearch(&key, contents->tags, contents->tag_count, sizeof(key), gy_heap_by_place);
        if (found != NULL) {
            contents->tag_of[i < sites ? site[i].number : 0] = (uint32_t)(found - contents->tags);
        }
    }
    gy_free(site);
    return good;
}

/* ---- writing ----------------------------------------------------------------------------------- */

static void put_string(FILE *out, const char *text)
{
    fputc('"', out);
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\') {
            fprintf(out, "\\%c", *c);
        } else if ((unsigned char)*c < 0x20) {
            fprintf(out, "\\u%04x", (unsigned)(unsigned char)*c);
        } else {
            fputc(*c, out);
        }
    }
    fputc('"', out);
}

static void put_counts(FILE *out, const gantry_heap_stats *s)
{
    const struct {
        const char *name;
        uint64_t value;
    } counts[] = {{"slab_bytes", s->slab_bytes},      {"peak_slab_bytes", s->peak_slab_bytes},
                  {"used_bytes", s->used_bytes},      {"peak_bytes", s->peak_bytes},
                  {"block_count", s->block_count},    {"alloc_count", s->alloc_count},
                  {"free_count", s->free_count},      {"free_bytes", s->free_bytes},
                  {"largest_free", s->largest_free},  {"empty_bytes", s->empty_bytes},
                  {"waiting_bytes", s->waiting_bytes}};
    static const char *const causes[] = {[GANTRY_HEAP_STALL_MAPPING] = "mapping",
                                         [GANTRY_HEAP_STALL_OTHER] = "other",
                                         [GANTRY_HEAP_STALL_GPU] = "gpu",
                                         [GANTRY_HEAP_STALL_CALLBACK] = "callback"};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        fprintf(out, "\"%s\":%" PRIu64 ",", counts[i].name, counts[i].value);
    }
    fputs("\"stalls\":{", out);
    for (size_t i = 0; i < GANTRY_HEAP_STALL_COUNT; i++) {
        fprintf(out, "%s\"%s\":{\"count\":%" PRIu64 ",\"ns\":%" PRIu64 ",\"longest_ns\":%" PRIu64 "}",
                i != 0 ? "," : "", causes[i], s->stalls[i], s->stall_ns[i], s->longest_stall_ns[i]);
    }
    fputs("}", out);
}

static void put_tags(FILE *out, const struct contents *contents)
{
    fputs("[", out);
    for (size_t i = 0; i < contents->tag_count; i++) {
        const gantry_heap_tag_stats *tag = &contents->tags[i];
        fprintf(out, "%s\n  {\"tag\":", i != 0 ? "," : "");
        put_string(out, tag->tag);
        fputs(",\"file\":", out);
        if (tag->file != NULL) {
            put_string(out, tag->file);
        } else {
            fputs("null", out);
        }
        fprintf(out,
                ",\"line\":%d,\"used_bytes\":%" PRIu64 ",\"peak_bytes\":%" PRIu64 ",\"block_count\":%" PRIu64
                "}",
                tag->line, tag->used_bytes, tag->peak_bytes, tag->block_count);
    }
    fputs("]", out);
}

static const char *state_name(enum gy_range_state state)
{
    switch (state) {
    case GY_RANGE_BLOCK:
        return "block";
    case GY_RANGE_CHUNK:
        return "small";
    case GY_RANGE_HOLE:
        return "hole";
    case GY_RANGE_OWNED:
        return "parked";
    case GY_RANGE_WAITING:
        return "waiting";
    default:
        return "free";
    }
}

/* Writes the blocks of a slab; *next is the first block that does not lie before the slab. */
static void put_blocks(FILE *out, const struct contents *contents, const struct piece *slab, size_t *next)
{
    const struct blocks *blocks = &contents->blocks;
    const char *comma = "";
    while (*next < blocks->count && blocks->at[*next].base < slab->base) {
        ++*next; /* its slab went away between the two copies */
    }
    for (; *next < blocks->count && blocks->at[*next].base - slab->base < slab->bytes; ++*next) {
        const struct gy_visited *block = &blocks->at[*next];
        const uint32_t tag = block->site < contents->site_count ? contents->tag_of[block->site] : NO_TAG;
        fprintf(out, "%s[%" PRIu64 ",%zu,", comma, (uint64_t)(block->base - slab->base), block->bytes);
        if (tag != NO_TAG) {
            fprintf(out, "%" PRIu32 "]", tag);
        } else {
            fputs("null]", out);
        }
        comma = ",";
    }
}

static int by_base(const void *a, const void *b)
{
    const struct piece *const left = *(const struct piece *const *)a, *const right =
                                                                          *(const struct piece *const *)b;
    return (left->base > right->base) - (left->base < right->base);
}

/* The slabs by address; the caller frees the array. */
static const struct piece **sort_slabs(const struct pieces *pieces, size_t *out_count)
{
    const struct piece **slabs = gy_zalloc_array(pieces->count + 1, sizeof(struct piece *));
    *out_count = 0;
    for (size_t i = 0; slabs != NULL && i < pieces->count; i++) {
        if (pieces->at[i].is_slab) {
            slabs[(*out_count)++] = &pieces->at[i];
        }
    }
    if (slabs != NULL) {
        qsort(slabs, *out_count, sizeof(struct piece *), by_base);
    }
    return slabs;
}

static bool put_slabs(FILE *out, const struct contents *contents)
{
    const struct piece *const end = contents->pieces.at + contents->pieces.count;
    size_t count, next = 0;
    const struct piece **slabs = sort_slabs(&contents->pieces, &count);
    fputs("[", out);
    for (size_t i = 0; slabs != NULL && i < count; i++) {
        fprintf(out, "%s\n  {\"base\":\"0x%" PRIxPTR "\",\"bytes\":%" PRIu64 ",\"ranges\":[",
                i != 0 ? "," : "", slabs[i]->base, slabs[i]->bytes);
        for (const struct piece *p = slabs[i] + 1; p < end && !p->is_slab; p++) {
            fprintf(out, "%s[%" PRIu64 ",%" PRIu64 ",\"%s\"]", p != slabs[i] + 1 ? "," : "",
                    (uint64_t)(p->base - slabs[i]->base), p->bytes, state_name(p->state));
        }
        fputs("],\n   \"blocks\":[", out);
        put_blocks(out, contents, slabs[i], &next);
        fputs("]}", out);
    }
    fputs("]", out);
    gy_free(slabs);
    return slabs != NULL;
}

/* False: out of host memory. */
static bool put_kind(gantry_heap *heap, gantry_memory_kind kind, bool with_blocks, FILE *out)
{
    struct gy_kind *of = &heap->kinds[kind];
    struct contents contents = {.tags = NULL};
    gantry_heap_stats stats = {.struct_size = sizeof(stats)};
    bool good = !with_blocks || (copy_blocks(of, &contents.blocks) && copy_pieces(of, &contents.pieces));
    gy_kind_stats(of, &stats);
    good =
        good && copy_tags(heap, kind, &contents); /* sites only become more, so it has those of all blocks */
    if (good) {
        fprintf(out, "{\"kind\":\"%s\",\"limit_bytes\":%zu,", gy_kind_name(kind),
                gy_setting(&of->settings.limit_bytes));
        put_counts(out, &stats);
        fputs(",\n \"tags\":", out);
        put_tags(out, &contents);
        if (with_blocks) {
            fputs(",\n \"slabs\":", out);
            good = put_slabs(out, &contents);
        }
        fputs("}", out);
    }
    gy_free(contents.pieces.at);
    gy_free(contents.blocks.at);
    gy_free(contents.tags);
    gy_free(contents.tag_of);
    return good;
}

gantry_status gantry_heap_write_json(gantry_heap *heap, bool with_blocks, FILE *out)
{
    GY_ACCEPT(HEAP, heap);
    if (heap == NULL || out == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_heap_write_json: %s is NULL",
                       heap == NULL ? "heap" : "out");
    }
    bool good = true;
    fputs("{\"gantry_heap\":1,\"kinds\":[\n", out);
    for (int kind = 0; good && kind < GANTRY_MEMORY_KIND_COUNT; kind++) {
        fputs(kind != 0 ? ",\n" : "", out);
        good = put_kind(heap, (gantry_memory_kind)kind, with_blocks, out);
    }
    if (!good) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY,
                       "gantry_heap_write_json: no memory for a copy; what was written is not whole");
    }
    fputs("]}\n", out);
    if (fflush(out) != 0 || ferror(out) != 0) {
        return GY_FAIL(GANTRY_ERR_IO, "gantry_heap_write_json: the file cannot be written: %s",
                       gy_file_failure(out));
    }
    return GANTRY_OK;
}

/* Write into a file beside `path` that takes its place when it is whole.  What is no plain file, as a pipe,
 * is written to as it is.  Returns why it could not be written, else NULL. */
static const char *write_whole(gantry_heap *heap, const char *path)
{
    char part[PATH_MAX];
    const char *why = NULL;
    struct stat before;
    const bool direct = lstat(path, &before) == 0 && !S_ISREG(before.st_mode);
    const int length = direct ? snprintf(part, sizeof(part), "%s", path)
                              : snprintf(part, sizeof(part), "%s.%ld.part", path, (long)getpid());
    if (length < 0 || (size_t)length >= sizeof(part)) {
        return strerrordesc_np(ENAMETOOLONG);
    }
    FILE *out = fopen(part, "we");
    if (out == NULL) {
        return strerrordesc_np(errno);
    }
    if (gantry_heap_write_json(heap, true, out) != GANTRY_OK) {
        (void)fclose(out);
        why = "see the line before";
    } else if (fclose(out) != 0 || (!direct && rename(part, path) != 0)) {
        why = strerrordesc_np(errno);
    }
    if (why != NULL && !direct) {
        (void)unlink(part);
    }
    return why;
}

void gy_heap_note_exhausted(gantry_heap *heap)
{
    const char *text = gy_environment("GANTRY_HEAP_SNAPSHOT");
    char path[PATH_MAX];
    if (text == NULL || atomic_exchange(&heap->has_snapshot, true) ||
        gy_file_name("GANTRY_HEAP_SNAPSHOT", text, path, sizeof(path)) != GANTRY_OK) {
        return; /* if it is no name, the log said why */
    }
    const char *why = write_whole(heap, path);
    if (why == NULL) {
        gy_log(GANTRY_LOG_WARNING, "heap: what it holds was written to %s: gantry report heap draws it",
               path);
    } else {
        gy_log(GANTRY_LOG_WARNING, "heap: GANTRY_HEAP_SNAPSHOT: %s could not be written: %s", path, why);
    }
}
