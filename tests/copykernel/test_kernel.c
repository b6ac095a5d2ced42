/* SPDX-License-Identifier: MIT */
/* The planner's plans are performed byte by byte: batches run through the block engine and are compared with
 * memcpy() and plain fills, guard zones included.  Every form of the kernel is tested, and every way of
 * dividing the units among blocks, also those of devices whose blocks steal others (Cluster Launch
 * Control). */
#include "tests/support/cmocka_c11.h"

#include "base/sanitizers.h"
#include "copykernel/plan.h"
#include "tests/kernels/host_grid.h"

#include <copy_kernels.kernels.h>

#include <stdlib.h>

static uint64_t random_state = 88172645463325252u;

static uint64_t random_bits(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state >> 11;
}

static uint64_t random_below(uint64_t bound)
{
    return random_bits() % bound;
}

enum { ARENA = 1 << 20, MOST_DESCS = 400 };

static uint8_t *dest_arena, *source_arena, *expected_arena;

static int make_arenas(void **state)
{
    (void)state;
    /* arenas of their own sizes, so that a sanitizer sees every byte read or written outside */
    dest_arena = malloc(ARENA);
    source_arena = malloc(ARENA);
    expected_arena = malloc(ARENA);
    if (dest_arena == NULL || source_arena == NULL || expected_arena == NULL) {
        return -1;
    }
    for (size_t i = 0; i < ARENA; i++) {
        source_arena[i] = (uint8_t)random_bits();
    }
    return 0;
}

static int free_arenas(void **state)
{
    (void)state;
    free(dest_arena);
    free(source_arena);
    free(expected_arena);
    gy_emu_exec_thread_end();
    return 0;
}

/* The effect of the item, in plain C. */
static void do_expected(const struct gy_copy_item *item)
{
    uint8_t *to = expected_arena + (item->dest - (uintptr_t)dest_arena);
    if (!item->is_fill) {
        memcpy(to, (const void *)(uintptr_t)item->source, item->bytes);
        return;
    }
    const uint64_t pattern[2] = {item->source, item->high};
    for (uint64_t i = 0; i < item->bytes; i++) {
        to[i] = ((const uint8_t *)pattern)[(item->dest + i) % 16];
    }
}

/* How a batch is run. */
struct way {
    uint32_t device_warps;  /* of the budget */
    uint32_t threads;       /* of a block */
    uint32_t host_blocks;   /* at most */
    uint32_t device_blocks; /* at most; 0: any number */
    bool in_parameters;     /* it is used if the batch fits */
    bool counts;            /* the kernel has counters */
    bool steals;            /* blocks steal others */
    uint64_t refuse_every;  /* one of so many requests is refused */
};

static uint64_t steals; /* blocks stolen so far */

static bool run_kernel(const char *name, uint32_t blocks, const struct way *way, void *const *args)
{
    struct host_stealing stealing = {.refuse_every = way->refuse_every};
    bool ok = host_run_with(&gantry_image_copy_kernels, name, (gantry_dim3){blocks, 1, 1},
                            (gantry_dim3){way->threads, 1, 1}, 0, args, way->steals ? &stealing : NULL);
    steals += stealing.steals;
    return ok;
}

static uint32_t blocks_for(uint32_t units, uint32_t warps, uint32_t most)
{
    uint32_t blocks = (units + warps - 1) / warps;
    return most != 0 && blocks > most ? most : blocks;
}

static bool run_words(uint64_t *words, const struct gy_copy_plan *plan, const struct way *way)
{
    static struct gy_copy_counters counters;
    uint32_t warps = plan->wide ? 1 : way->threads / 32, blocks = 0;
    const uint32_t most[GY_COPY_GROUPS] = {way->host_blocks, way->host_blocks, way->device_blocks};
    struct gy_copy_shape shape = {.starts = 2 * (plan->pieces + plan->patterns), .wide = plan->wide};
    for (uint32_t g = 0; g < GY_COPY_GROUPS; g++) {
        shape.ends[g] = plan->ends[g];
        shape.blocks[g] = blocks_for(plan->ends[g] - (g > 0 ? plan->ends[g - 1] : 0), warps, most[g]);
        blocks += shape.blocks[g];
    }
    shape.blocks[GY_COPY_WITHIN] = way->device_blocks != 0 ? shape.blocks[GY_COPY_WITHIN] : 0;
    if (way->in_parameters && plan->words <= GY_COPY_FEW_WORDS) {
        struct gy_copy_few batch = {.shape = shape};
        memcpy(batch.words, words, plan->words * sizeof(*words));
        void *args[] = {&batch};
        return run_kernel("gantry_copy_few", blocks, way, args);
    }
    if (way->in_parameters && plan->words <= GY_COPY_INLINE_WORDS) {
        struct gy_copy_inline batch = {.shape = shape};
        memcpy(batch.words, words, plan->words * sizeof(*words));
        void *args[] = {&batch};
        return run_kernel("gantry_copy_inline", blocks, way, args);
    }
    struct gy_copy_counters *counting = way->counts ? &counters : NULL;
    void *args[] = {&words, &shape, &counting};
    const char *name = way->threads == GY_COPY_BLOCK ? "gantry_copy_plain" : "gantry_copy_table";
    bool ok = run_kernel(name, blocks, way, args);
    /* the state that the next launch needs */
    static const struct gy_copy_counters zero;
    assert_memory_equal(&counters, &zero, sizeof(counters));
    return ok;
}

/* Was it a wide one? */
static bool run_batch(const struct gy_copy_item *items, size_t count, const struct way *way)
{
    memset(dest_arena, 0xa5, ARENA);
    memset(expected_arena, 0xa5, ARENA);
    for (size_t i = 0; i < count; i++) {
        do_expected(&items[i]);
    }
    const uint32_t host_warps = way->host_blocks * way->threads / 32;
    const struct gy_copy_budget budget = {{host_warps, host_warps, way->device_warps},
                                          way->device_blocks != 0};
    struct gy_copy_plan plan;
    assert_ok(gy_copy_measure(items, count, &budget, &plan));
    uint64_t *words = malloc(plan.words * sizeof(*words));
    assert_non_null(words);
    gy_copy_pack(items, count, &plan, words);
    bool ok = run_words(words, &plan, way);
    free(words);
    if (!ok) {
        fail_msg("%s", gy_emu_exec_why());
    }
    for (size_t i = 0; i < ARENA; i++) {
        if (dest_arena[i] != expected_arena[i]) {
            fail_msg("byte %zu is 0x%02x, not 0x%02x", i, dest_arena[i], expected_arena[i]);
        }
    }
    return plan.wide;
}

static void random_pattern(struct gy_copy_item *item)
{
    uint8_t given[16];
    for (int i = 0; i < 16; i++) {
        given[i] = (uint8_t)random_bits();
    }
    gantry_copy_desc desc = {.pattern_bytes = 1u << random_below(5), .source = given};
    memcpy(&desc.pattern, given, 4);
    gy_copy_pattern(&desc, item->dest, &item->source, &item->high);
}

/* Disjoint copies and fills of random sizes up to `biggest`, a few bytes apart. */
static size_t random_items(struct gy_copy_item *items, uint64_t biggest)
{
    size_t count = 0, wanted = 1 + random_below(MOST_DESCS);
    uint64_t at = random_below(40);
    while (count < wanted) {
        uint64_t bytes = 1 + random_below(biggest);
        if (at + bytes > ARENA) {
            break;
        }
        struct gy_copy_item *item = &items[count];
        *item = (struct gy_copy_item){.dest = (uintptr_t)dest_arena + at,
                                      .bytes = bytes,
                                      .index = (uint32_t)count,
                                      .is_fill = random_below(3) == 0,
                                      .group = (uint32_t)random_below(GY_COPY_GROUPS)};
        if (item->is_fill) {
            random_pattern(item);
        } else {
            uint64_t room = ARENA - bytes + 1;
            /* half of them are aligned alike, half in any way, some up to the end of the source */
            uint64_t from = random_below(8) == 0 ? room - 1 : random_below(room);
            item->source = (uintptr_t)source_arena + from;
            if (random_below(2) == 0 && from >= 16) {
                item->source -= (item->source - item->dest) & 15;
            }
        }
        at += bytes + random_below(40);
        count++;
    }
    return count;
}

static void test_random_batches_are_copied_byte_for_byte(void **state)
{
    (void)state;
    static struct gy_copy_item items[MOST_DESCS];
    static const uint64_t biggest[] = {3, 40, 130, 600, 5000, 70000, 900000};
    static const uint32_t warp_counts[] = {1, 5, 128, 4224};
    uint32_t wide = 0;
    for (uint32_t round = 0; round < 126; round++) {
        size_t count = random_items(items, biggest[round % 7]);
        for (size_t i = 0; i < count && round % 2 == 0; i++) {
            items[i].group = GY_COPY_WITHIN;
        }
        const struct way way = {.device_warps = warp_counts[random_below(4)],
                                .threads = random_below(3) == 0 ? GY_COPY_BIG_BLOCK : GY_COPY_BLOCK,
                                .host_blocks = 1 + (uint32_t)random_below(4),
                                .device_blocks = (uint32_t)random_below(2) * 3,
                                .in_parameters = random_below(2) == 0,
                                .counts = random_below(2) == 0,
                                .steals = random_below(2) == 0,
                                .refuse_every = random_below(6)};
        if (count != 0) {
            wide += run_batch(items, count, &way);
        }
    }
    assert_in_range(wide, 2, 120);
    assert_in_range(steals, 100, UINT32_MAX);
}

static const struct way plain = {
    .device_warps = 4224, .threads = GY_COPY_BLOCK, .host_blocks = 4, .counts = true};

static void test_every_alignment_and_small_size_is_exact(void **state)
{
    (void)state;
    static struct gy_copy_item items[256];
    /* teams of eight lanes do 512 and less, whole warps do more */
    static const uint64_t sizes[] = {1,  15,  16,  17,  63,  64,  65,  79,  80,
                                     96, 127, 128, 200, 511, 512, 513, 1100};
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        for (uint32_t i = 0; i < 256; i++) {
            uint64_t slot = (uint64_t)i * 2048;
            items[i] = (struct gy_copy_item){.dest = (uintptr_t)dest_arena + slot + i % 16,
                                             .source = (uintptr_t)source_arena + slot + i / 16,
                                             .bytes = sizes[s],
                                             .index = i,
                                             .group = GY_COPY_WITHIN};
        }
        assert_false(run_batch(items, 256, &plain));
    }
}

static void copy_from_poisoned_block(uint8_t *source, uint64_t bytes, uint64_t shift, uint32_t copies)
{
    struct gy_copy_item items[2];
    for (uint32_t i = 0; i < copies; i++) {
        items[i] = (struct gy_copy_item){.dest = (uintptr_t)dest_arena + 4096 * i + shift,
                                         .source = (uintptr_t)source,
                                         .bytes = bytes,
                                         .group = GY_COPY_WITHIN};
    }
    const struct gy_copy_budget budget = {{128, 128, 8}, false};
    struct gy_copy_plan plan;
    uint64_t words[16];
    assert_ok(gy_copy_measure(items, copies, &budget, &plan));
    assert_true(plan.words <= 16);
    gy_copy_pack(items, copies, &plan, words);
    assert_true(run_words(words, &plan, &plain));
    for (uint32_t i = 0; i < copies; i++) {
        assert_memory_equal((uint8_t *)(uintptr_t)items[i].dest, source, bytes);
    }
}

static void test_source_is_not_read_outside_its_range(void **state)
{
    (void)state;
    /* Each source begins in the middle of a vector, is a block of its own, and has poison before it: an
     * address sanitizer sees reads on either side.  Teams of eight lanes do two of the copies. */
    for (uint64_t bytes = 1; bytes < 700; bytes += bytes < 200 ? 13 : 59) {
        uint8_t *block = malloc(8 + bytes), *source = block + 8;
        assert_non_null(block);
        memset(source, 0x3c, bytes);
        GY_POISON(block, 8);
        for (uint64_t shift = 0; shift < 16; shift++) {
            copy_from_poisoned_block(source, bytes, shift, 1);
            copy_from_poisoned_block(source, bytes, shift, 2);
        }
        GY_UNPOISON(block, 8);
        free(block);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_batches_are_copied_byte_for_byte),
        cmocka_unit_test(test_every_alignment_and_small_size_is_exact),
        cmocka_unit_test(test_source_is_not_read_outside_its_range),
    };
    return cmocka_run_group_tests(tests, make_arenas, free_arenas);
}
