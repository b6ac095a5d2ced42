/* SPDX-License-Identifier: MIT */
#include "bench/copy_work.h"

#include "cli/messages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLEAR 0xa5
#define PATTERN 0x3c5a96c3u
#define GUARD 4096u
#define PERIOD (((uint64_t)1 << 30) + 8 * 1021)

static uint64_t random_state = 88172645463325252u;

static uint64_t random_bits(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

/* ---- arenas -------------------------------------------------------------------------------- */

/* Random bytes; large arenas repeat them at a distance that no batch has between its copies. */
static bool fill_content(struct copy_arenas *a)
{
    const uint64_t random = a->bytes < PERIOD ? a->bytes : PERIOD;
    for (uint64_t i = 0; i + 8 <= random; i += 8) {
        uint64_t word = random_bits();
        memcpy(a->content + i, &word, 8);
    }
    for (uint64_t i = random; i < a->bytes; i += PERIOD) {
        memcpy(a->content + i, a->content, a->bytes - i < PERIOD ? a->bytes - i : PERIOD);
    }
    memcpy(a->pinned, a->content, a->pinned_bytes);
    return raw_cuda_upload(a->cuda, (void *)(uintptr_t)a->device_source, a->content, a->bytes);
}

bool bench_copy_arenas_open(struct copy_arenas *a, struct raw_cuda *cuda, uint64_t bytes,
                            uint64_t pinned_bytes)
{
    *a = (struct copy_arenas){.cuda = cuda, .bytes = bytes, .pinned_bytes = pinned_bytes};
    a->content = malloc(bytes);
    a->expected = malloc(bytes);
    void *pinned = NULL;
    if (a->content == NULL || a->expected == NULL || !RAW(cuda, cuMemAlloc(&a->device_source, bytes)) ||
        !RAW(cuda, cuMemAlloc(&a->device_dest, bytes)) ||
        !RAW(cuda, cuMemHostAlloc(&pinned, 2 * pinned_bytes, CU_MEMHOSTALLOC_DEVICEMAP))) {
        return false;
    }
    a->pinned = pinned;
    return RAW(cuda, cuMemHostGetDevicePointer(&a->mapped, pinned, 0)) && fill_content(a);
}

void bench_copy_arenas_close(struct copy_arenas *a)
{
    if (a->pinned != NULL) {
        (void)RAW(a->cuda, cuMemFreeHost(a->pinned));
    }
    if (a->device_dest != 0) {
        (void)RAW(a->cuda, cuMemFree(a->device_dest));
    }
    if (a->device_source != 0) {
        (void)RAW(a->cuda, cuMemFree(a->device_source));
    }
    free(a->expected);
    free(a->content);
}

/* ---- batches ------------------------------------------------------------------------------- */

CUdeviceptr bench_copy_work_dest(const struct copy_arenas *a, const struct copy_work *work, uint32_t i)
{
    CUdeviceptr base = work->type == GANTRY_COPY_DTOH ? a->mapped + a->pinned_bytes : a->device_dest;
    return base + work->dest_at[i];
}

CUdeviceptr bench_copy_work_source(const struct copy_arenas *a, const struct copy_work *work, uint32_t i)
{
    return (work->type == GANTRY_COPY_HTOD ? a->mapped : a->device_source) + work->source_at[i];
}

static double power_1_2(double x)
{
    double root = 1; /* the fifth root of x by Newton's method: x^1.2 = x * root */
    for (int i = 0; i < 60; i++) {
        root -= (root * root * root * root * root - x) / (5 * root * root * root * root);
    }
    return x * root;
}

static void make_sizes(const struct copy_recipe *recipe, uint64_t *bytes)
{
    double sum = 0;
    for (uint32_t i = 0; i < recipe->count; i++) {
        bytes[i] = recipe->random ? 1 + random_bits() % recipe->bytes : recipe->bytes;
        sum += 1 / power_1_2(i + 1.0);
    }
    for (uint32_t i = 0; recipe->zipf && i < recipe->count; i++) {
        bytes[i] = (uint64_t)((double)recipe->bytes / power_1_2(i + 1.0) / sum);
        bytes[i] = bytes[i] > 0 ? bytes[i] : 1;
    }
    for (uint32_t i = recipe->count; recipe->zipf && i > 1; i--) {
        uint32_t k = (uint32_t)(random_bits() % i);
        uint64_t other = bytes[k];
        bytes[k] = bytes[i - 1];
        bytes[i - 1] = other;
    }
}

/* The distance from the begin of a copy to the begin of the next. */
static uint64_t distance(const struct copy_recipe *recipe, uint64_t bytes)
{
    const uint64_t unit = bytes <= 64 ? 64 : 256;
    return recipe->pitch != 0   ? recipe->pitch
           : recipe->contiguous ? bytes
                                : (bytes + (recipe->misaligned ? 16 : 1) + unit - 1) / unit * unit;
}

/* Lay the dests out in order and the sources in a random order, with gaps. */
static bool make_places(const struct copy_recipe *recipe, uint64_t room, struct copy_work *work)
{
    uint32_t *order = malloc(recipe->count * sizeof(*order));
    if (order == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < recipe->count; i++) {
        uint32_t k = (uint32_t)(random_bits() % (i + 1));
        order[i] = i;
        if (!recipe->contiguous && recipe->pitch == 0) {
            order[i] = order[k];
            order[k] = i;
        }
    }
    uint64_t dest = recipe->count > 1 ? GUARD : 0, source = 0;
    for (uint32_t n = 0; n < recipe->count; n++) {
        uint64_t odd = recipe->misaligned ? 1 + n % 15 : 0;
        uint64_t other = recipe->misaligned ? 1 + (n + 1 + n / 15 % 13) % 15 : recipe->shifted ? 3 : 0;
        work->dest_at[n] = dest + odd;
        work->source_at[order[n]] = source + other;
        dest += distance(recipe, work->bytes[n]);
        source += distance(recipe, work->bytes[order[n]]);
    }
    free(order);
    work->extent = dest + GUARD < room ? dest + GUARD : room;
    if (dest > room || source > room) {
        cli_error("bench copy: %s does not fit", recipe->name);
        return false;
    }
    return true;
}

static void make_descs(const struct copy_arenas *a, struct copy_work *work)
{
    for (uint32_t i = 0; i < work->count; i++) {
        gantry_copy_desc *desc = &work->descs[i];
        *desc = (gantry_copy_desc){.bytes = work->bytes[i], .type = work->type};
        desc->dest = work->type == GANTRY_COPY_DTOH ? (void *)(a->pinned + a->pinned_bytes + work->dest_at[i])
                                                    : (void *)(uintptr_t)(a->device_dest + work->dest_at[i]);
        desc->source = work->type == GANTRY_COPY_HTOD
                           ? (void *)(a->pinned + work->source_at[i])
                           : (void *)(uintptr_t)(a->device_source + work->source_at[i]);
        if (work->type == GANTRY_COPY_FILL) {
            desc->source = NULL;
            desc->pattern_bytes = 4;
            desc->pattern = PATTERN;
        }
        work->total += work->bytes[i];
    }
}

bool bench_copy_work_make(const struct copy_recipe *recipe, const struct copy_arenas *a,
                          struct copy_work *out)
{
    *out = (struct copy_work){.name = recipe->name,
                              .type = recipe->type,
                              .count = recipe->count,
                              .way = recipe->way,
                              .pitch = recipe->pitch};
    out->dest_at = calloc(recipe->count, sizeof(uint64_t));
    out->source_at = calloc(recipe->count, sizeof(uint64_t));
    out->bytes = calloc(recipe->count, sizeof(uint64_t));
    out->descs = calloc(recipe->count, sizeof(gantry_copy_desc));
    if (out->dest_at == NULL || out->source_at == NULL || out->bytes == NULL || out->descs == NULL) {
        return false;
    }
    make_sizes(recipe, out->bytes);
    bool host = recipe->type == GANTRY_COPY_HTOD || recipe->type == GANTRY_COPY_DTOH;
    if (!make_places(recipe, host ? a->pinned_bytes : a->bytes, out)) {
        return false;
    }
    make_descs(a, out);
    return true;
}

void bench_copy_work_free(struct copy_work *work)
{
    free(work->dest_at);
    free(work->source_at);
    free(work->bytes);
    free(work->descs);
}

/* ---- checks -------------------------------------------------------------------------------- */

/* The range that is checked: a batch in one piece is copied from the arena's begin on. */
static uint64_t extent_of(const struct copy_work *work)
{
    return work->extent > work->total ? work->extent : work->total;
}

bool bench_copy_work_clear(const struct copy_arenas *a, const struct copy_work *work, CUstream stream)
{
    if (work->type == GANTRY_COPY_DTOH) {
        memset(a->pinned + a->pinned_bytes, CLEAR, a->pinned_bytes);
        return true;
    }
    return RAW(a->cuda, cuMemsetD8Async(a->device_dest, CLEAR, extent_of(work), stream));
}

static void make_expected(const struct copy_arenas *a, const struct copy_work *work, bool as_one)
{
    memset(a->expected, CLEAR, work->type == GANTRY_COPY_DTOH ? a->pinned_bytes : extent_of(work));
    if (as_one && work->type == GANTRY_COPY_FILL) {
        memset(a->expected, (int)(PATTERN & 0xff), work->total);
        return;
    }
    if (as_one) {
        memcpy(a->expected, a->content, work->total);
        return;
    }
    for (uint32_t i = 0; i < work->count; i++) {
        uint8_t *to = a->expected + work->dest_at[i];
        if (work->type != GANTRY_COPY_FILL) {
            memcpy(to, a->content + work->source_at[i], work->bytes[i]);
            continue;
        }
        for (uint64_t k = 0; k < work->bytes[i]; k++) {
            to[k] = (uint8_t)(PATTERN >> k % 4 * 8);
        }
    }
}

bool bench_copy_work_check(const struct copy_arenas *a, const struct copy_work *work, bool as_one)
{
    make_expected(a, work, as_one);
    if (work->type == GANTRY_COPY_DTOH) {
        return memcmp(a->pinned + a->pinned_bytes, a->expected, a->pinned_bytes) == 0;
    }
    uint8_t *staging = a->pinned + a->pinned_bytes; /* it is no dest at present */
    for (uint64_t at = 0; at < extent_of(work); at += a->pinned_bytes) {
        uint64_t left = extent_of(work) - at, part = left < a->pinned_bytes ? left : a->pinned_bytes;
        if (!RAW(a->cuda, cuMemcpyDtoH(staging, a->device_dest + at, part)) ||
            memcmp(staging, a->expected + at, part) != 0) {
            return false;
        }
    }
    return true;
}
