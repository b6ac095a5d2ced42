/* SPDX-License-Identifier: MIT */
/* Lists that the device reads: random ones run through the block engine, with both kernels, and are compared
 * with memcpy() and plain fills, every byte between the copies included.  The arenas are blocks of their
 * own sizes, so that a sanitizer sees a read or write outside. */
#include "tests/support/cmocka_c11.h"

#include "copykernel/format.h"
#include "emulator/exec.h"
#include "tests/kernels/host_grid.h"

#include <copy_kernels.kernels.h>
#include <gantry/copy.h>

#include <stdlib.h>

enum { ARENA = 1 << 20, MOST = 3000, WARPS = GY_COPY_BLOCK / 32 };

_Static_assert(sizeof(struct gy_copy_listed) == sizeof(gantry_copy_desc), "a kernel reads descriptors so");
_Static_assert(offsetof(struct gy_copy_listed, bytes) == offsetof(gantry_copy_desc, bytes), "bytes");
_Static_assert(offsetof(struct gy_copy_listed, type) == offsetof(gantry_copy_desc, type), "type");
_Static_assert(offsetof(struct gy_copy_listed, pattern) == offsetof(gantry_copy_desc, pattern), "pattern");

static uint64_t random_state = 88172645463325252u;

static uint64_t random_below(uint64_t bound)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (random_state >> 11) % bound;
}

/* A list in both forms. */
struct list {
    uint32_t count;
    gantry_copy_desc descs[MOST];
    uint64_t dests[MOST], sources[MOST], bytes[MOST];
};

static struct arenas {
    uint8_t *dest, *source, *expected, *patterns;
    struct list *list;
} a;

static int open_arenas(void **state)
{
    (void)state;
    a.dest = malloc(ARENA);
    a.source = malloc(ARENA);
    a.expected = malloc(ARENA);
    a.patterns = malloc(64);
    a.list = malloc(sizeof(*a.list));
    if (a.dest == NULL || a.source == NULL || a.expected == NULL || a.patterns == NULL || a.list == NULL) {
        return -1;
    }
    for (size_t i = 0; i < ARENA; i++) {
        a.source[i] = (uint8_t)random_below(256);
    }
    for (size_t i = 0; i < 64; i++) {
        a.patterns[i] = (uint8_t)random_below(256);
    }
    return 0;
}

static int close_arenas(void **state)
{
    (void)state;
    free(a.dest);
    free(a.source);
    free(a.expected);
    free(a.patterns);
    free(a.list);
    gy_emu_exec_thread_end();
    return 0;
}

/* ---- lists ---- */

/* The sizes in a list, and where its copies lie. */
struct recipe {
    uint32_t count;
    uint64_t least, most; /* bytes of a copy */
    uint64_t huge_every;  /* about one in so many has up to 200 000 bytes; 0: none */
    uint32_t alignment;   /* the alignment of both sides and the size */
    bool fills;           /* some are */
    bool tight;           /* there are no gaps, and the sources overlap each other */
};

static void make_copy(const struct recipe *recipe, gantry_copy_desc *desc, uint64_t bytes)
{
    *desc = (gantry_copy_desc){.bytes = bytes, .type = GANTRY_COPY_DTOD};
    uint64_t places = (ARENA - bytes) / recipe->alignment + 1;
    desc->source = a.source + random_below(places) * recipe->alignment;
    if (recipe->fills && random_below(3) == 0) {
        desc->type = GANTRY_COPY_FILL;
        desc->pattern_bytes = 1u << random_below(5);
        desc->pattern = (uint32_t)random_below(UINT32_MAX);
        desc->source = desc->pattern_bytes > 4 ? a.patterns + random_below(48) : NULL;
    }
}

/* Make as many as there is room for: dests in order, then shuffled. */
static void make_list(const struct recipe *recipe)
{
    uint64_t at = 0;
    a.list->count = 0;
    while (a.list->count < recipe->count) {
        uint64_t bytes = recipe->least + random_below(recipe->most - recipe->least + 1);
        if (recipe->huge_every != 0 && random_below(recipe->huge_every) == 0) {
            bytes = random_below(200000);
        }
        bytes = bytes / recipe->alignment * recipe->alignment;
        at += recipe->tight ? 0 : random_below(40) / recipe->alignment * recipe->alignment;
        if (at + bytes > ARENA) {
            break;
        }
        gantry_copy_desc *desc = &a.list->descs[a.list->count++];
        make_copy(recipe, desc, bytes);
        desc->dest = a.dest + at;
        at += bytes;
    }
    for (uint32_t i = a.list->count; i > 1; i--) {
        uint64_t k = random_below(i);
        gantry_copy_desc other = a.list->descs[k];
        a.list->descs[k] = a.list->descs[i - 1];
        a.list->descs[i - 1] = other;
    }
    for (uint32_t i = 0; i < a.list->count; i++) {
        const gantry_copy_desc *desc = &a.list->descs[i];
        a.list->dests[i] = (uintptr_t)desc->dest;
        a.list->sources[i] = (uintptr_t)desc->source;
        a.list->bytes[i] = desc->bytes;
    }
}

static void expect_first(uint32_t count)
{
    memset(a.expected, 0xa5, ARENA);
    for (uint32_t i = 0; i < count; i++) {
        const gantry_copy_desc *desc = &a.list->descs[i];
        uint8_t *to = a.expected + ((const uint8_t *)desc->dest - a.dest);
        uint8_t pattern[16];
        if (desc->type != GANTRY_COPY_FILL) {
            memcpy(to, desc->source, desc->bytes);
            continue;
        }
        memcpy(pattern, desc->pattern_bytes > 4 ? desc->source : &desc->pattern, desc->pattern_bytes);
        for (uint64_t k = 0; k < desc->bytes; k++) {
            to[k] = pattern[k % desc->pattern_bytes];
        }
    }
}

/* ---- runs ---- */

struct way {
    uint32_t blocks, large_blocks; /* large_blocks 0: no copy is cut */
    bool as_descs;
    bool counted; /* the device knows the number of copies */
};

static struct gy_copy_large large; /* like the device's: zero before and after each list */

static void run_list(const struct way *way, uint32_t most, uint32_t *count)
{
    const uint32_t warps = way->blocks * WARPS;
    const size_t slices = most / 32 + 1 > warps ? most / 32 + 1 : warps;
    struct gy_copy_large_entry *entries = calloc(slices, sizeof(*entries));
    assert_non_null(entries);
    struct gy_copy_list_view view = {.count = way->counted ? (uintptr_t)count : 0, .most = most};
    if (way->as_descs) {
        view.descs = (uintptr_t)a.list->descs;
    } else {
        view.dests = (uintptr_t)a.list->dests;
        view.sources = (uintptr_t)a.list->sources;
        view.bytes = (uintptr_t)a.list->bytes;
    }
    if (way->large_blocks != 0) {
        view.large = (uintptr_t)&large;
        view.entries = (uintptr_t)entries;
    }
    void *args[] = {&view, (void *)&warps};
    const gantry_dim3 block = {GY_COPY_BLOCK, 1, 1};
    const char *first = way->as_descs ? "gantry_copy_descs" : "gantry_copy_arrays";
    const char *second = way->as_descs ? "gantry_copy_descs_large" : "gantry_copy_arrays_large";
    assert_true(
        host_run(&gantry_image_copy_kernels, first, (gantry_dim3){way->blocks, 1, 1}, block, 0, args));
    if (way->large_blocks != 0) {
        assert_true(host_run(&gantry_image_copy_kernels, second, (gantry_dim3){way->large_blocks, 1, 1},
                             block, 0, args));
    }
    assert_true(large.found == 0 && large.gone == 0);
    free(entries);
}

static void assert_dest_is_expected(void)
{
    for (size_t i = 0; i < ARENA; i++) {
        if (a.dest[i] != a.expected[i]) {
            fail_msg("byte %zu is 0x%02x, not 0x%02x", i, a.dest[i], a.expected[i]);
        }
    }
}

static void check_list(const struct recipe *recipe, const struct way *way)
{
    make_list(recipe);
    memset(a.dest, 0xa5, ARENA);
    run_list(way, a.list->count, &a.list->count);
    expect_first(a.list->count);
    assert_dest_is_expected();
}

static const struct way ways[] = {
    {3, 2, false, false}, {1, 1, true, false}, {5, 3, true, true}, {2, 0, false, true}, {16, 5, false, true},
};
enum { WAYS = sizeof(ways) / sizeof(ways[0]) };

static void test_lists_of_any_sizes_and_alignments_are_copied(void **state)
{
    (void)state;
    static const struct recipe recipes[] = {
        {.count = 2000, .least = 8, .most = 8, .alignment = 8},
        {.count = 1500, .least = 0, .most = 20, .alignment = 1},
        {.count = 1500, .least = 0, .most = 20, .alignment = 4},
        {.count = 1200, .least = 64, .most = 64, .alignment = 16},
        {.count = 1200, .least = 1, .most = 70, .alignment = 1},
        {.count = 900, .least = 1, .most = 256, .alignment = 1},
        {.count = 900, .least = 1, .most = 256, .alignment = 1, .tight = true},
        {.count = 300, .least = 0, .most = 1200, .alignment = 1},
        {.count = 700, .least = 0, .most = 300, .alignment = 1, .huge_every = 60},
        {.count = 30, .least = 100, .most = 50000, .alignment = 1},
        {.count = 5, .least = 1, .most = 400000, .alignment = 1},
        {.count = 1, .least = 1000003, .most = 1000003, .alignment = 1},
        {.count = 600, .least = 0, .most = 600, .alignment = 1, .fills = true},
        {.count = 400, .least = 0, .most = 100, .alignment = 1, .huge_every = 40, .fills = true},
    };
    for (size_t r = 0; r < sizeof(recipes) / sizeof(recipes[0]); r++) {
        for (uint32_t w = 0; w < WAYS; w++) {
            if (ways[w].as_descs || !recipes[r].fills) {
                check_list(&recipes[r], &ways[w]);
            }
        }
    }
}

static void test_the_count_on_the_device_is_held_to_the_maximum(void **state)
{
    (void)state;
    static const struct recipe recipe = {
        .count = 400, .least = 0, .most = 40, .alignment = 1, .huge_every = 50};
    static const uint32_t counts[] = {0, 1, 31, 33, 99, 100, 101, UINT32_MAX};
    make_list(&recipe);
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        for (uint32_t w = 0; w < WAYS; w++) {
            uint32_t count = counts[i];
            struct way way = ways[w];
            way.counted = true;
            memset(a.dest, 0xa5, ARENA);
            run_list(&way, 100, &count);
            expect_first(count < 100 ? count : 100);
            assert_dest_is_expected();
        }
    }
}

/* An entry that is no copy does nothing, and nothing else suffers. */
static void test_descriptors_of_no_known_kind_are_left_out(void **state)
{
    (void)state;
    static const struct recipe recipe = {.count = 64, .least = 1, .most = 40, .alignment = 1};
    make_list(&recipe);
    a.list->descs[5].type = (gantry_copy_type)77;
    a.list->descs[9].type = GANTRY_COPY_FILL; /* of no size that a pattern has */
    a.list->descs[40].type = GANTRY_COPY_FILL;
    a.list->descs[40].pattern_bytes = 12;
    memset(a.dest, 0xa5, ARENA);
    run_list(&ways[1], a.list->count, NULL);
    a.list->descs[5].bytes = a.list->descs[9].bytes = a.list->descs[40].bytes = 0;
    a.list->descs[9].type = a.list->descs[40].type = GANTRY_COPY_DTOD;
    expect_first(a.list->count);
    assert_dest_is_expected();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists_of_any_sizes_and_alignments_are_copied),
        cmocka_unit_test(test_the_count_on_the_device_is_held_to_the_maximum),
        cmocka_unit_test(test_descriptors_of_no_known_kind_are_left_out),
    };
    return cmocka_run_group_tests(tests, open_arenas, close_arenas);
}
