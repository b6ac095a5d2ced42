/* SPDX-License-Identifier: MIT */
/* A launch's blocks are taken by their begin, so that a few lines are enough.  Of each block the records of
 * one group follow each other, in the order in which its ranges ended.  They are sorted by begin, the longer
 * one first, and written on the first line of the SM and the group that is free; where ranges of a group
 * overlap without nesting, those that do not fit go to a further line. */
#include "profile/ranges.h"

#include "base/alloc.h"
#include "profile/kernel_names.h"
#include "profile/range_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANK_RANGES 1600u /* after the SMs' clocks, before the SMs */
#define RANK_LOST 1700u
#define BUCKETS 1024u
#define DEPTH 32u /* ranges within each other on one line */

_Static_assert(sizeof(gantry_range_record) == sizeof(gantry_cta_record), "they lie in the same buffers");

struct line {
    struct line *next; /* of the same key */
    gy_pftrace_track track;
    uint64_t free_ns; /* host time */
};

/* The lines of a kernel, an SM and a group. */
struct lines {
    struct lines *next; /* in the bucket */
    uint32_t kernel, sm, group;
    struct line *first;
};

struct kernel {
    struct kernel *next;
    uint32_t number;
    gy_pftrace_track track;
    uint64_t lost;
    uint32_t first_lost; /* id */
};

/* A range on its way, in host time. */
struct range {
    uint64_t begin_ns, end_ns;
    uint32_t id;
};

struct block {
    uint64_t start_ns;
    uint32_t number;
};

struct gy_ranges {
    struct gy_pftrace *trace;
    gy_pftrace_track gpu, lost_track;
    struct kernel *kernels;
    struct lines *buckets[BUCKETS];
    uint64_t written, lost;
    struct block *blocks; /* scratch memory for a launch */
    uint32_t block_room;
    struct range group[GANTRY_RANGES_MOST]; /* scratch memory for a group */
};

/* The facts that all ranges of a launch have in common. */
struct launch_of {
    const struct gy_cta_launch *launch;
    const struct gy_gpu_clock *clock;
    int64_t shift_ns;
    struct kernel *kernel;
};

struct gy_ranges *gy_ranges_create(struct gy_pftrace *trace, gy_pftrace_track gpu)
{
    struct gy_ranges *ranges = gy_zalloc(sizeof(*ranges));
    if (ranges != NULL) {
        ranges->trace = trace;
        ranges->gpu = gpu;
    }
    return ranges;
}

/* ---- tracks ------------------------------------------------------------------------------------ */

static struct kernel *kernel_of(struct gy_ranges *ranges, uint32_t number)
{
    struct kernel *kernel = ranges->kernels;
    while (kernel != NULL && kernel->number != number) {
        kernel = kernel->next;
    }
    if (kernel != NULL || (kernel = gy_zalloc(sizeof(*kernel))) == NULL) {
        return kernel;
    }
    char name[GY_PFTRACE_NAME_BYTES];
    snprintf(name, sizeof(name), "ranges of %s", gy_kernel_name(number));
    kernel->number = number;
    kernel->track = gy_pftrace_add_track(ranges->trace, ranges->gpu, name, RANK_RANGES);
    kernel->next = ranges->kernels;
    ranges->kernels = kernel;
    return kernel;
}

static struct lines *lines_of(struct gy_ranges *ranges, uint32_t kernel, uint32_t sm, uint32_t group)
{
    struct lines **bucket = &ranges->buckets[(kernel * 31 + sm * 7 + group) % BUCKETS];
    struct lines *lines = *bucket;
    while (lines != NULL && (lines->kernel != kernel || lines->sm != sm || lines->group != group)) {
        lines = lines->next;
    }
    if (lines == NULL && (lines = gy_zalloc(sizeof(*lines))) != NULL) {
        *lines = (struct lines){.next = *bucket, .kernel = kernel, .sm = sm, .group = group};
        *bucket = lines;
    }
    return lines;
}

/* A line that is free at `begin_ns`; NULL: out of memory. */
static struct line *line_at(struct gy_ranges *ranges, const struct kernel *kernel, struct lines *lines,
                            uint64_t begin_ns)
{
    struct line **link = &lines->first;
    while (*link != NULL && (*link)->free_ns > begin_ns) {
        link = &(*link)->next;
    }
    if (*link == NULL && (*link = gy_zalloc(sizeof(**link))) != NULL) {
        char name[32];
        snprintf(name, sizeof(name), "group %u, SM %03u", lines->group, lines->sm);
        (*link)->track =
            gy_pftrace_add_track(ranges->trace, kernel->track, name, lines->sm * 256 + lines->group);
    }
    return *link;
}

/* ---- a group of a block ------------------------------------------------------------------------ */

static int by_begin(const void *a, const void *b)
{
    const struct range *x = a, *y = b;
    return x->begin_ns != y->begin_ns ? (x->begin_ns < y->begin_ns ? -1 : 1)
           : x->end_ns != y->end_ns   ? (x->end_ns > y->end_ns ? -1 : 1)
                                      : (x->id > y->id) - (x->id < y->id);
}

static void write_range(struct gy_ranges *ranges, const struct launch_of *of, gy_pftrace_track track,
                        uint32_t block, const struct range *range)
{
    char room[GY_RANGE_NAME_ROOM];
    struct gy_pftrace_slice slice = {
        .track = track,
        .category = GY_PFTRACE_RANGE,
        .name = gy_range_name(of->launch->kernel, range->id, room),
        .begin_ns = range->begin_ns,
        .end_ns = range->end_ns,
        .argument_count = 2,
        .arguments = {{GY_ARGUMENT_BLOCK, block}, {GY_ARGUMENT_ID, of->launch->id}}};
    gy_pftrace_add_slice(ranges->trace, &slice);
    ranges->written++;
}

/* Write those of `count` sorted ranges that nest on one line, and move the others to the front; returns how
 * many are left. */
static uint32_t write_line(struct gy_ranges *ranges, const struct launch_of *of, struct line *line,
                           uint32_t block, uint32_t count)
{
    uint64_t ends[DEPTH];
    uint32_t depth = 0, left = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct range range = ranges->group[i];
        while (depth > 0 && ends[depth - 1] <= range.begin_ns) {
            depth--;
        }
        if (depth == DEPTH || (depth > 0 && ends[depth - 1] < range.end_ns)) {
            ranges->group[left++] = range;
            continue;
        }
        ends[depth++] = range.end_ns;
        line->free_ns = range.end_ns > line->free_ns ? range.end_ns : line->free_ns;
        write_range(ranges, of, line->track, block, &range);
    }
    return left;
}

static void write_group(struct gy_ranges *ranges, const struct launch_of *of, uint32_t sm, uint32_t group,
                        uint32_t block, uint32_t count)
{
    struct lines *lines = lines_of(ranges, of->launch->kernel, sm, group);
    qsort(ranges->group, count, sizeof(*ranges->group), by_begin);
    while (count != 0) {
        struct line *line =
            lines != NULL ? line_at(ranges, of->kernel, lines, ranges->group[0].begin_ns) : NULL;
        if (line == NULL) { /* out of memory */
            ranges->lost += count;
            return;
        }
        count = write_line(ranges, of, line, block, count);
    }
}

/* ---- a block ----------------------------------------------------------------------------------- */

static void write_lost(struct gy_ranges *ranges, const struct launch_of *of, uint64_t time_ns,
                       const gantry_range_record *note)
{
    uint32_t id = note->what & (GANTRY_RANGE_IDS - 1);
    char room[GY_RANGE_NAME_ROOM], name[GY_PFTRACE_NAME_BYTES];
    snprintf(name, sizeof(name), "%s: %s", gy_kernel_name(of->launch->kernel),
             gy_range_name(of->launch->kernel, id, room));
    if (ranges->lost_track == 0) {
        ranges->lost_track = gy_pftrace_add_track(ranges->trace, ranges->gpu, "lost ranges", RANK_LOST);
    }
    struct gy_pftrace_slice mark = {.track = ranges->lost_track,
                                    .category = GY_PFTRACE_RANGE,
                                    .instant = true,
                                    .name = name,
                                    .begin_ns = time_ns,
                                    .end_ns = time_ns,
                                    .argument_count = 1,
                                    .arguments = {{GY_ARGUMENT_LOST, note->start_ns}}};
    gy_pftrace_add_slice(ranges->trace, &mark);
    of->kernel->first_lost = of->kernel->lost == 0 ? id : of->kernel->first_lost;
    of->kernel->lost += note->start_ns;
    ranges->lost += note->start_ns;
}

static uint64_t host_time(const struct launch_of *of, uint64_t gpu_ns)
{
    return gy_gpu_clock_host(of->clock, gpu_ns) + (uint64_t)of->shift_ns;
}

static void write_block(struct gy_ranges *ranges, const struct launch_of *of,
                        const struct gy_cta_batch *batch, uint32_t block)
{
    const gantry_cta_record *whole = &batch->records[of->launch->first + block];
    const gantry_range_record *records = gy_ranges_of_block(batch, of->launch, block);
    bool is_valid = whole->start_ns != 0 && whole->origin >> GANTRY_CTA_SM_BITS == of->launch->kernel;
    uint32_t sm = whole->origin & ((1u << GANTRY_CTA_SM_BITS) - 1);
    uint32_t group = 0, count = 0;
    for (uint32_t i = 0; i < of->launch->ranges; i++) {
        const gantry_range_record *r = &records[i];
        if (count != 0 && (r->what >> 16 & 0xff) != group) {
            write_group(ranges, of, sm, group, block, count);
            count = 0;
        }
        group = r->what >> 16 & 0xff;
        if ((r->what & GANTRY_RANGE_IS_NOTE) != 0) {
            write_lost(ranges, of, host_time(of, is_valid ? whole->start_ns : batch->clock.gpu_ns), r);
        } else if ((r->what & GANTRY_RANGE_IS_ONE) != 0 && (!is_valid || r->start_ns == 0)) {
            ranges->lost++; /* its SM is not known, or its time */
        } else if ((r->what & GANTRY_RANGE_IS_ONE) != 0) {
            ranges->group[count++] =
                (struct range){host_time(of, r->start_ns), host_time(of, r->start_ns + r->duration_ns),
                               r->what & (GANTRY_RANGE_IDS - 1)};
        }
    }
    if (count != 0) {
        write_group(ranges, of, sm, group, block, count);
    }
}

static int by_start(const void *a, const void *b)
{
    const struct block *x = a, *y = b;
    return x->start_ns != y->start_ns ? (x->start_ns < y->start_ns ? -1 : 1)
                                      : (x->number > y->number) - (x->number < y->number);
}

static bool make_room(struct gy_ranges *ranges, uint32_t blocks)
{
    if (ranges->block_room < blocks) {
        gy_free(ranges->blocks);
        ranges->blocks = gy_zalloc_array(blocks, sizeof(*ranges->blocks));
        ranges->block_room = ranges->blocks != NULL ? blocks : 0;
    }
    return ranges->block_room >= blocks;
}

void gy_ranges_add(struct gy_ranges *ranges, const struct gy_cta_batch *batch,
                   const struct gy_cta_launch *launch, const struct gy_gpu_clock *clock, int64_t shift_ns)
{
    struct launch_of of = {launch, clock, shift_ns, NULL};
    if (launch->ranges == 0) {
        return;
    }
    of.kernel = kernel_of(ranges, launch->kernel);
    if (of.kernel == NULL || !make_room(ranges, launch->count)) {
        for (uint32_t i = 0; i < launch->count * launch->ranges; i++) { /* all are of the launch's blocks */
            ranges->lost += (gy_ranges_of_block(batch, launch, 0)[i].what & GANTRY_RANGE_IS_ONE) != 0;
        }
        return;
    }
    for (uint32_t b = 0; b < launch->count; b++) {
        ranges->blocks[b] = (struct block){batch->records[launch->first + b].start_ns, b};
    }
    qsort(ranges->blocks, launch->count, sizeof(*ranges->blocks), by_start);
    for (uint32_t b = 0; b < launch->count; b++) {
        write_block(ranges, &of, batch, ranges->blocks[b].number);
    }
}

uint64_t gy_ranges_written(const struct gy_ranges *ranges)
{
    return ranges->written;
}

uint64_t gy_ranges_lost(const struct gy_ranges *ranges)
{
    return ranges->lost;
}

static void free_lines(struct lines *lines)
{
    while (lines != NULL) {
        struct lines *next = lines->next;
        while (lines->first != NULL) {
            struct line *line = lines->first;
            lines->first = line->next;
            gy_free(line);
        }
        gy_free(lines);
        lines = next;
    }
}

void gy_ranges_destroy(struct gy_ranges *ranges)
{
    if (ranges == NULL) {
        return;
    }
    while (ranges->kernels != NULL) {
        struct kernel *kernel = ranges->kernels;
        char room[GY_RANGE_NAME_ROOM];
        if (kernel->lost != 0) {
            gy_log(GANTRY_LOG_WARNING,
                   "profile: kernel \"%s\": %llu ranges were lost, since blocks had no room for more "
                   "(gantry_launch_profile_ranges()); the first is \"%s\"",
                   gy_kernel_name(kernel->number), (unsigned long long)kernel->lost,
                   gy_range_name(kernel->number, kernel->first_lost, room));
        }
        ranges->kernels = kernel->next;
        gy_free(kernel);
    }
    for (uint32_t b = 0; b < BUCKETS; b++) {
        free_lines(ranges->buckets[b]);
    }
    gy_free(ranges->blocks);
    gy_free(ranges);
}
