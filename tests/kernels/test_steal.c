/* SPDX-License-Identifier: MIT */
/* Work stealing between thread blocks (Cluster Launch Control) on the block engine: whichever requests are
 * refused, each block is done once, and a kernel that breaks a rule is found out. */
#include "tests/support/cmocka_c11.h"

#include "tests/kernels/host_grid.h"
#include "tests/kernels/steal_kernels.h"

#include <steal_kernels.kernels.h>

#include <stdlib.h>

#define IMAGE (&gantry_image_steal_kernels)
#define DIM(x) ((gantry_dim3){x, 1, 1})

enum { MOST_BLOCKS = 500 };

/* Run a kernel that counts, on so many blocks, and return how many of them started by themselves. */
static uint32_t count_in(const char *kernel, gantry_dim3 grid, gantry_dim3 block,
                         struct host_stealing *stealing)
{
    const uint32_t blocks = grid.x * grid.y * grid.z, threads = block.x * block.y * block.z;
    static uint32_t done[MOST_BLOCKS];
    uint32_t thieves = 0, *to = done, *who = &thieves;
    memset(done, 0, sizeof(done));
    void *args[] = {&to, &who};
    if (!host_run_with(IMAGE, kernel, grid, block, 0, args, stealing)) {
        fail_msg("%s", gy_emu_exec_why());
    }
    for (uint32_t i = 0; i < MOST_BLOCKS; i++) {
        assert_int_equal(done[i], i < blocks ? threads : 0);
    }
    return thieves;
}

static uint32_t count_with(uint32_t blocks, uint32_t threads, struct host_stealing *stealing)
{
    return count_in("steal_count", DIM(blocks), DIM(threads), stealing);
}

static void test_blocks_of_any_shape_of_grid_are_done_once(void **state)
{
    (void)state;
    static const gantry_dim3 grids[] = {{25, 20, 1}, {7, 1, 9}, {5, 6, 7}, {1, 100, 1}, {40, 1, 1}};
    const gantry_dim3 block = {8, 4, 1};
    for (uint64_t every = 0; every < 4; every++) {
        for (uint32_t i = 0; i < 5; i++) {
            const gantry_dim3 grid = grids[i];
            const uint32_t count = grid.x * grid.y * grid.z;
            struct host_stealing stealing = {.refuse_every = every};
            uint32_t thieves = count_in("steal_count_3d", grid, block, &stealing);
            assert_int_equal(thieves + stealing.steals, count);
            assert_true(every != 0 || thieves == 1);
            struct host_stealing rows = {.refuse_every = every};
            thieves = count_in("steal_count_rows", grid, block, &rows);
            assert_int_equal(thieves + rows.steals, count);
            assert_true(count == grid.x || rows.requests == 0);
            assert_int_equal(count_in("steal_count_3d", grid, block, NULL), count);
        }
    }
}

static void test_every_block_is_done_once_whoever_is_refused(void **state)
{
    (void)state;
    static const uint32_t blocks[] = {1, 2, 37, MOST_BLOCKS}, threads[] = {1, 32, 100};
    for (uint64_t every = 0; every < 9; every++) {
        for (uint32_t i = 0; i < 12; i++) {
            uint32_t count = blocks[i % 4];
            struct host_stealing stealing = {.refuse_every = every};
            uint32_t thieves = count_with(count, threads[i / 4], &stealing);
            assert_int_equal(thieves + stealing.steals, count);
            /* each thief asks once more than it gets blocks, and then no more */
            assert_int_equal(stealing.requests, thieves + stealing.steals);
            if (every == 0) {
                assert_int_equal(thieves, 1);
            }
            if (every == 1) {
                assert_int_equal(thieves, count);
            }
        }
    }
}

static void test_other_devices_start_each_block(void **state)
{
    (void)state;
    assert_int_equal(count_with(MOST_BLOCKS, 33, NULL), MOST_BLOCKS);
}

/* ---- clusters ------------------------------------------------------------------------------------ */

static uint32_t count_in_clusters(const char *kernel, gantry_dim3 grid, gantry_dim3 cluster,
                                  struct host_stealing *stealing)
{
    const gantry_dim3 block = {10, 1, 1};
    const uint32_t blocks = grid.x * grid.y * grid.z;
    static uint32_t done[MOST_BLOCKS];
    uint32_t thieves = 0, *to = done, *who = &thieves;
    memset(done, 0, sizeof(done));
    void *args[] = {&to, &who};
    char why[320];
    if (!host_run_clusters(IMAGE, kernel, grid, cluster, block, 16, args, stealing, why, sizeof(why))) {
        fail_msg("%s", why);
    }
    for (uint32_t i = 0; i < MOST_BLOCKS; i++) {
        assert_int_equal(done[i], i < blocks ? 10 : 0);
    }
    return thieves;
}

/* Clusters of the grid steal clusters, by the loop of that name; it is told whether that may steal there. */
static void try_clusters(const char *kernel, gantry_dim3 grid, gantry_dim3 cluster, bool steals)
{
    const uint32_t size = cluster.x * cluster.y * cluster.z, blocks = grid.x * grid.y * grid.z;
    for (uint64_t every = 0; every < 4; every++) {
        struct host_stealing stealing = {.refuse_every = every};
        const uint32_t thieves = count_in_clusters(kernel, grid, cluster, &stealing);
        assert_int_equal(thieves + size * stealing.steals, blocks);
        assert_int_equal(stealing.requests, steals ? thieves / size + stealing.steals : 0);
        assert_true(every != 0 || thieves == (steals ? size : blocks));
    }
    assert_int_equal(count_in_clusters(kernel, grid, cluster, NULL), blocks);
}

static void test_clusters_steal_whole_clusters(void **state)
{
    (void)state;
    for (uint32_t size = 1; size <= 8; size *= 2) {
        const gantry_dim3 row = {10 * size, 1, 1}, box = {2 * size, 3, 4};
        try_clusters("steal_count", row, DIM(size), true);
        try_clusters("steal_count_3d", row, DIM(size), true);
        try_clusters("steal_count_3d", box, DIM(size), true);
        try_clusters("steal_count_rows", box, DIM(size), false);
        try_clusters("steal_count_neighbours", row, DIM(size), true);
        try_clusters("steal_count_neighbours", box, DIM(size), true);
    }
}

static void test_clusters_of_any_shape_steal(void **state)
{
    (void)state;
    static const gantry_dim3 clusters[] = {{2, 2, 2}, {1, 8, 1}, {1, 1, 4}, {2, 1, 4}, {3, 2, 1}, {1, 2, 4}};
    for (size_t i = 0; i < sizeof(clusters) / sizeof(clusters[0]); i++) {
        const gantry_dim3 c = clusters[i], grid = {3 * c.x, 2 * c.y, 3 * c.z};
        try_clusters("steal_count_3d", grid, c, true);
    }
}

static void test_broken_rules_of_clusters_are_found(void **state)
{
    (void)state;
    static const struct {
        uint32_t rule;
        uint64_t refuse_every;
        const char *says; /* NULL: the kernel breaks no rule */
    } cases[] = {
        {STEAL_CLUSTER_NOTHING_BROKEN, 0, NULL},
        {STEAL_CLUSTER_NOTHING_BROKEN, 1, NULL},
        {STEAL_CLUSTER_LEAVES_EARLY, 0, "a block of its own cluster has ended without asking"},
        {STEAL_CLUSTER_LEAVES_LATE, 0, "ended without doing the block that its cluster got"},
        {STEAL_CLUSTER_LEAVES_LATE, 1, NULL}, /* it got none */
        {STEAL_CLUSTER_LOOKS_EARLY, 0, "asks what its cluster got before it was told"},
        {STEAL_CLUSTER_NO_SUCH_BLOCK, 0, "tells a block that its cluster does not have"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint32_t rule = cases[i].rule;
        void *args[] = {&rule};
        char why[320];
        struct host_stealing stealing = {.refuse_every = cases[i].refuse_every};
        const bool ok = host_run_clusters(IMAGE, "steal_break_cluster", DIM(8), DIM(2), DIM(1), 0, args,
                                          &stealing, why, sizeof(why));
        if (ok != (cases[i].says == NULL) || (!ok && strstr(why, cases[i].says) == NULL)) {
            fail_msg("rule %u: %s", rule, ok ? "runs" : why);
        }
    }
}

static void test_broken_rules_are_found(void **state)
{
    (void)state;
    static const struct {
        uint32_t rule;
        uint64_t refuse_every;
        const char *says; /* NULL: the kernel breaks no rule */
    } cases[] = {
        {STEAL_NOTHING_BROKEN, 0, NULL},
        {STEAL_NOTHING_BROKEN, 1, NULL},
        {STEAL_TWO_IN_FLIGHT, 0, NULL},
        {STEAL_TWO_IN_FLIGHT, 1, NULL},
        {STEAL_ASK_AFTER_REFUSAL, 0, NULL}, /* no request is refused */
        {STEAL_ASK_AFTER_REFUSAL, 1, "asks for a block after it has seen a refusal"},
        {STEAL_READ_EARLY, 0, "reads the answer to a request before it has arrived"},
        {STEAL_BLOCK_OF_REFUSAL, 1, "which block it got by a request that was refused"},
        {STEAL_NO_BARRIER, 0, "with a barrier that was not initialised"},
        {STEAL_BARRIER_IN_USE, 0, "with a barrier that another request is to complete"},
        {STEAL_WAIT_FOR_NOTHING, 0, "1 for the answer to a request that nobody makes"},
        {STEAL_END_WITHOUT_WAITING, 0, "ended before the answer to its request had arrived"},
        {STEAL_END_WITHOUT_LOOKING, 0, "ended without doing the block it got"},
        {STEAL_END_WITHOUT_LOOKING, 1, NULL}, /* it got no block */
        {STEAL_WRITE_OVER, 0, "asks for a block before it has looked at the one it got"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint32_t rule = cases[i].rule;
        void *args[] = {&rule};
        struct host_stealing stealing = {.refuse_every = cases[i].refuse_every};
        bool ok = host_run_with(IMAGE, "steal_break", DIM(8), DIM(1), 0, args, &stealing);
        if (ok != (cases[i].says == NULL) || (!ok && strstr(gy_emu_exec_why(), cases[i].says) == NULL)) {
            fail_msg("rule %u: %s", rule, ok ? "runs" : gy_emu_exec_why());
        }
        (void)count_with(100, 64, &stealing); /* the engine works as before */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_block_is_done_once_whoever_is_refused),
        cmocka_unit_test(test_blocks_of_any_shape_of_grid_are_done_once),
        cmocka_unit_test(test_other_devices_start_each_block),
        cmocka_unit_test(test_broken_rules_are_found),
        cmocka_unit_test(test_clusters_steal_whole_clusters),
        cmocka_unit_test(test_clusters_of_any_shape_steal),
        cmocka_unit_test(test_broken_rules_of_clusters_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, host_end_thread);
}
