/* SPDX-License-Identifier: MIT */
/* The block engine and the host form of the kernel dialect. */
#include "tests/support/cmocka_c11.h"

#include "base/alloc.h"
#include "base/thread.h"
#include "tests/kernels/engine_kernels.h"
#include "tests/kernels/host_grid.h"

#include <engine_kernels.kernels.h>

#include <stdlib.h>

#define IMAGE (&gantry_image_engine_kernels)
#define DIM(...) ((gantry_dim3){__VA_ARGS__})

#define assert_runs(name, grid, block, shared, args)                       \
    do {                                                                   \
        if (!host_run(IMAGE, (name), (grid), (block), (shared), (args))) { \
            fail_msg("%s: %s", (name), gy_emu_exec_why());                 \
        }                                                                  \
    } while (0)

static void test_image_names_every_kernel(void **state)
{
    (void)state;
    const struct gantry_host_module *module = IMAGE->host;
    assert_int_equal(IMAGE->struct_size, sizeof(gantry_module_image));
    assert_string_equal(IMAGE->name, "engine_kernels");
    assert_string_equal(module->name, "engine_kernels");
    assert_true(module->magic == GANTRY_HOST_MODULE_MAGIC);
    static const char *const expected[] = {"no_parameters", "parameters",      "indices",    "reduce_shared",
                                           "rotate",        "reverse_dynamic", "shuffles",   "halves",
                                           "ballots",       "atomics",         "early_exit", "stuck_warp",
                                           "outside_mask",  "arithmetic",      "groups"};
    uint32_t count = sizeof(expected) / sizeof(expected[0]);
    assert_int_equal(module->kernel_count, count);
    for (uint32_t i = 0; i < count; i++) {
        assert_string_equal(IMAGE->kernel_names[i], expected[i]);
        assert_string_equal(module->kernels[i].name, expected[i]);
    }
    assert_null(IMAGE->kernel_names[count]);
}

static void test_parameters_arrive_in_every_size(void **state)
{
    (void)state;
    const struct gantry_host_kernel *kernel = host_kernel(IMAGE, "parameters");
    static const uint32_t bytes[] = {8, 1, 2, 4, 8, 4, 8, 12, 1001, 8};
    assert_int_equal(kernel->param_count, 10);
    assert_memory_equal(kernel->param_bytes, bytes, sizeof(bytes));
    assert_int_equal(host_kernel(IMAGE, "no_parameters")->param_count, 0);

    static struct parameters_seen seen, *out = &seen;
    char c = -7;
    short s = -30000;
    int i = -2000000000;
    long long l = -9000000000000000000;
    float f = 1.5f;
    double d = -2.25;
    struct triple t = {1, 2, 3};
    static struct bulky b;
    for (size_t k = 0; k < sizeof(b.bytes); k++) {
        b.bytes[k] = (uint8_t)(k * 7);
    }
    const uint32_t *p = bytes;
    void *args[] = {&out, &c, &s, &i, &l, &f, &d, &t, &b, &p};
    /* values at odd addresses, as in a packed copy of a launch's arguments */
    static char packed[16][1040];
    for (uint32_t k = 0; k < 10; k++) {
        memcpy(packed[k] + 1, args[k], kernel->param_bytes[k]);
        args[k] = packed[k] + 1;
    }
    assert_runs("parameters", DIM(1, 1, 1), DIM(1, 1, 1), 0, args);
    assert_int_equal(seen.c, c);
    assert_int_equal(seen.s, s);
    assert_int_equal(seen.i, i);
    assert_true(seen.l == l);
    assert_true(seen.f == f && seen.d == d);
    assert_true(seen.t.x == 1 && seen.t.y == 2 && seen.t.z == 3);
    assert_memory_equal(&seen.b, &b, sizeof(b));
    assert_ptr_equal(seen.p, p);
    assert_runs("no_parameters", DIM(3, 1, 1), DIM(32, 1, 1), 0, NULL);
}

static void test_every_thread_runs_once_at_its_place(void **state)
{
    (void)state;
    gantry_dim3 grid = {3, 2, 2}, block = {5, 3, 7};
    uint32_t per_block = 5 * 3 * 7, total = 12 * per_block;
    struct place *places = calloc(total, sizeof(*places));
    assert_non_null(places);
    void *args[] = {&places};
    assert_runs("indices", grid, block, 0, args);
    for (uint32_t i = 0; i < total; i++) {
        uint32_t in_block = i % per_block, b = i / per_block;
        const struct place expected = {
            {in_block % 5, in_block / 5 % 3, in_block / 15}, {b % 3, b / 3 % 2, b / 6}, b % 4, in_block % 32};
        assert_memory_equal(&places[i], &expected, sizeof(expected));
    }
    free(places);
}

static void test_reduction_in_shared_memory_is_exact(void **state)
{
    (void)state;
    for (uint32_t threads = 1; threads <= 1024; threads *= 2) {
        enum { BLOCKS = 3 };
        uint32_t out[BLOCKS] = {0};
        uint32_t *in = calloc(BLOCKS * threads, sizeof(*in)), *to = out;
        uint32_t expected[BLOCKS] = {0};
        assert_non_null(in);
        for (uint32_t i = 0; i < BLOCKS * threads; i++) {
            in[i] = i * i + 1;
            expected[i / threads] += in[i];
        }
        void *args[] = {&in, &to};
        assert_runs("reduce_shared", DIM(BLOCKS, 1, 1), DIM(threads, 1, 1), 0, args);
        assert_memory_equal(out, expected, sizeof(out));
        free(in);
    }
}

static void test_barriers_in_loops_hold_all_threads(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1, 2, 31, 33, 100, 1024};
    for (uint32_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        uint32_t data[1024], *p = data, rounds = 17;
        for (uint32_t i = 0; i < sizes[s]; i++) {
            data[i] = i;
        }
        void *args[] = {&p, &rounds};
        assert_runs("rotate", DIM(1, 1, 1), DIM(sizes[s], 1, 1), 0, args);
        for (uint32_t i = 0; i < sizes[s]; i++) {
            assert_int_equal(data[i], (i + rounds) % sizes[s]);
        }
    }
}

static void test_groups_are_blocks(void **state)
{
    (void)state;
    enum { BLOCKS = 3, X = 5, Y = 3, Z = 7, THREADS = X * Y * Z };
    struct place *places = calloc(BLOCKS * THREADS, sizeof(*places));
    uint32_t sizes[BLOCKS], *p = sizes;
    assert_non_null(places);
    void *args[] = {&places, &p};
    assert_runs("groups", DIM(BLOCKS, 1, 1), DIM(X, Y, Z), 0, args);
    for (uint32_t i = 0; i < BLOCKS * THREADS; i++) {
        uint32_t rank = THREADS - 1 - i % THREADS;
        const struct place expected = {{rank % X, rank / X % Y, rank / (X * Y)}, {i / THREADS, 0, 0}, 0, 0};
        assert_memory_equal(&places[i], &expected, sizeof(expected));
        assert_int_equal(sizes[i / THREADS], X * 10000 + Y * 100 + Z);
    }
    free(places);
}

static void test_dynamic_shared_memory_has_the_launch_size(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {7, 1024, 64};
    for (uint32_t s = 0; s < 3; s++) {
        uint32_t data[1024], *p = data;
        for (uint32_t i = 0; i < sizes[s]; i++) {
            data[i] = i * 3;
        }
        void *args[] = {&p};
        assert_runs("reverse_dynamic", DIM(1, 1, 1), DIM(sizes[s], 1, 1), sizes[s] * sizeof(*p), args);
        for (uint32_t i = 0; i < sizes[s]; i++) {
            assert_int_equal(data[i], (sizes[s] - 1 - i) * 3);
        }
    }
}

/* The lane that PTX's definition of shfl.sync reads; the thread's own lane when that one is inactive. */
static uint32_t shuffle_source(uint32_t kind, uint32_t lane, uint32_t mask, uint32_t operand, uint32_t width)
{
    int segment = (int)(32 - width), first = (int)lane & segment;
    int last = first | (31 & ~segment);
    int source = kind == 0   ? first | ((int)operand & ~segment)
                 : kind == 1 ? (int)lane - (int)operand
                 : kind == 2 ? (int)lane + (int)operand
                             : (int)lane ^ (int)operand;
    bool inside = kind == 1 ? source >= first : source <= last;
    return inside && (mask >> source & 1) ? (uint32_t)source : lane;
}

static void test_shuffles_follow_ptx(void **state)
{
    (void)state;
    static const uint32_t masks[] = {0xffffffffu, 0x0000ffffu, 0x12345679u, 0x80000001u};
    static const int operands[] = {0, 1, 3, 5, 16, 31};
    enum { THREADS = 72 }; /* the last warp has 8 lanes */
    for (uint32_t m = 0; m < 4; m++) {
        for (uint32_t o = 0; o < 6; o++) {
            for (int width = 1; width <= 32; width *= 2) {
                for (uint32_t kind = 0; kind < 4; kind++) {
                    uint64_t out[THREADS] = {0}, *p = out;
                    uint32_t mask = masks[m];
                    int operand = operands[o];
                    void *args[] = {&p, &kind, &mask, &operand, &width};
                    assert_runs("shuffles", DIM(1, 1, 1), DIM(12, 3, 2), 0, args);
                    for (uint32_t i = 0; i < THREADS; i++) {
                        uint32_t lane = i % 32, here = i < 64 ? mask : mask & 0xff;
                        uint32_t source =
                            shuffle_source(kind, lane, here, (uint32_t)operand, (uint32_t)width);
                        uint64_t expected = (mask >> lane & 1) != 0 ? i - lane + source : 0;
                        assert_true(out[i] == expected);
                    }
                }
            }
        }
    }
}

static void test_partial_warps_work_side_by_side(void **state)
{
    (void)state;
    uint32_t out[96], *p = out;
    void *args[] = {&p};
    assert_runs("halves", DIM(1, 1, 1), DIM(96, 1, 1), 0, args);
    for (uint32_t i = 0; i < 96; i++) {
        assert_int_equal(out[i], 15 * 16 / 2 + 2 * (16 + 31) * 16 / 2);
    }
}

static void test_ballot_leaves_out_exited_lanes(void **state)
{
    (void)state;
    uint32_t out[64] = {0}, *p = out;
    void *args[] = {&p};
    assert_runs("ballots", DIM(1, 1, 1), DIM(64, 1, 1), 0, args);
    for (uint32_t i = 0; i < 64; i++) {
        /* the answers of any and all: true and false in the first warp, false and true in the second */
        uint32_t expected = (0xaaaaaaaau & ~0x20u) ^ (i < 32 ? 0x40000000u : 0x10000000u);
        assert_int_equal(out[i], i % 32 == 5 ? 0 : expected);
    }
}

struct worker {
    gy_thread thread;
    struct gy_emu_grid grid;
    uint64_t first, step, end;
    bool ok;
};

static void run_blocks(void *arg)
{
    struct worker *w = arg;
    w->ok = true;
    for (uint64_t i = w->first; i < w->end; i += w->step) {
        w->ok = gy_emu_exec_block(&w->grid, i, (uint32_t)w->first) && w->ok;
    }
    gy_emu_exec_thread_end();
}

/* Run the blocks of the grid on four OS threads at once. */
static void run_in_parallel(const char *kernel, uint32_t blocks, uint32_t threads, void *const *args)
{
    struct worker workers[4];
    for (uint32_t i = 0; i < 4; i++) {
        workers[i] = (struct worker){
            .grid = {host_kernel(IMAGE, kernel), {blocks, 1, 1}, {threads, 1, 1}, 0, args, .take = NULL},
            .first = i,
            .step = 4,
            .end = blocks};
        assert_ok(gy_thread_start(&workers[i].thread, "blocks", run_blocks, &workers[i]));
    }
    for (uint32_t i = 0; i < 4; i++) {
        gy_thread_join(&workers[i].thread);
    }
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(workers[i].ok);
    }
}

static void test_atomics_hold_across_os_threads(void **state)
{
    (void)state;
    enum { BLOCKS = 64, THREADS = 96, TOTAL = BLOCKS * THREADS };
    struct atomics_seen a = {.bits_and = ~0u, .min_unsigned = ~0u, .min_wide = ~0ull, .cas = 5}, *p = &a;
    struct atomics_seen e = a;
    void *args[] = {&p};
    run_in_parallel("atomics", BLOCKS, THREADS, args);
    for (uint32_t i = 0; i < TOTAL; i++) {
        e.sum_int += (int)(i % 7) - 3;
        e.sum_unsigned += i;
        e.bits_xor ^= i;
        e.exchanged += i + 1;
    }
    assert_int_equal(a.sum_int, e.sum_int);
    assert_int_equal(a.sum_unsigned, e.sum_unsigned);
    assert_true(a.sum_wide == 0x100000001ull * TOTAL);
    assert_true(a.sum_float == 0.25f * TOTAL);
    assert_true(a.sum_double == TOTAL / 4294967296.0);
    assert_int_equal(a.sub_int, -2 * TOTAL);
    assert_int_equal(a.max_int, TOTAL - 1 - 100);
    assert_int_equal(a.min_int, 100 - (TOTAL - 1));
    assert_int_equal(a.max_unsigned, TOTAL - 1);
    assert_int_equal(a.min_unsigned, 0xffffffffu - (TOTAL - 1));
    assert_true(a.max_wide == 0x100000000ull * (TOTAL - 1));
    assert_true(a.min_wide == ~0ull - (TOTAL - 1));
    assert_int_equal(a.bits_or, 0xffffffffu);
    assert_int_equal(a.bits_and, 0xffff0000u);
    assert_int_equal(a.bits_xor, e.bits_xor);
    assert_int_equal(a.cas, 5 + 3 * TOTAL);
    assert_true(a.exchanged + a.exchange == e.exchanged);
}

static void test_blocks_with_barriers_run_on_many_os_threads(void **state)
{
    (void)state;
    enum { BLOCKS = 40, THREADS = 256 };
    static uint32_t in[BLOCKS * THREADS];
    uint32_t out[BLOCKS] = {0}, *from = in, *to = out;
    for (uint32_t i = 0; i < BLOCKS * THREADS; i++) {
        in[i] = i / THREADS + 1;
    }
    void *args[] = {&from, &to};
    run_in_parallel("reduce_shared", BLOCKS, THREADS, args);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        assert_int_equal(out[i], (i + 1) * THREADS);
    }
}

static void test_exited_threads_are_not_waited_for(void **state)
{
    (void)state;
    for (uint32_t stay = 1; stay <= 32; stay += 10) {
        uint32_t out[1024], *p = out;
        void *args[] = {&p, &stay};
        assert_runs("early_exit", DIM(1, 1, 1), DIM(1024, 1, 1), 0, args);
        for (uint32_t i = 0; i < 1024; i++) {
            assert_int_equal(out[i], i % 32 < stay ? 32 * stay : 1000);
        }
    }
}

static void test_deadlock_is_reported_and_does_no_harm(void **state)
{
    (void)state;
    uint32_t out[64] = {0}, *p = out;
    void *args[] = {&p};
    for (int round = 0; round < 3; round++) {
        assert_false(host_run(IMAGE, "stuck_warp", DIM(1, 1, 1), DIM(64, 1, 1), 0, args));
        assert_non_null(strstr(gy_emu_exec_why(), "stuck_warp"));
        assert_non_null(
            strstr(gy_emu_exec_why(), "of its 64 threads 0 have exited, 40 wait at __syncthreads"));
        assert_non_null(strstr(gy_emu_exec_why(), " 24 at a warp operation"));
        test_reduction_in_shared_memory_is_exact(state);
        test_partial_warps_work_side_by_side(state);
    }
    for (uint32_t i = 0; i < 64; i++) {
        assert_int_equal(out[i], 0);
    }
}

static void test_lane_outside_its_mask_is_reported(void **state)
{
    (void)state;
    uint32_t out[32] = {0}, *p = out;
    void *args[] = {&p};
    assert_false(host_run(IMAGE, "outside_mask", DIM(1, 1, 1), DIM(32, 1, 1), 0, args));
    assert_non_null(strstr(gy_emu_exec_why(), "lane 0 is not in the mask 0x0000fffe"));
}

static void test_block_size_is_checked(void **state)
{
    (void)state;
    assert_false(host_run(IMAGE, "no_parameters", DIM(1, 1, 1), DIM(1025, 1, 1), 0, NULL));
    assert_false(host_run(IMAGE, "no_parameters", DIM(1, 1, 1), DIM(64, 0, 1), 0, NULL));
    assert_non_null(strstr(gy_emu_exec_why(), "64 x 0 x 1"));
    assert_runs("no_parameters", DIM(1, 1, 1), DIM(16, 8, 8), 0, NULL);
}

static void test_memory_failure_leaves_the_engine_usable(void **state)
{
    (void)state;
    enum { THREADS = 20 };
    uint32_t data[THREADS], *p = data, rounds = 3;
    void *args[] = {&p, &rounds};
    gy_emu_exec_thread_end(); /* so that everything has to be allocated again */
    for (long nth = 0;; nth++) {
        for (uint32_t i = 0; i < THREADS; i++) {
            data[i] = i;
        }
        gy_fault_arm(nth);
        bool ok = host_run(IMAGE, "rotate", DIM(1, 1, 1), DIM(THREADS, 1, 1), 0, args);
        bool fired = gy_fault_fired();
        gy_fault_arm(-1);
        assert_int_equal(ok, !fired);
        if (!fired) {
            assert_true(nth > 0);
            break;
        }
        assert_non_null(strstr(gy_emu_exec_why(), "out of memory"));
        gy_emu_exec_thread_end();
        assert_true(nth < 2 * THREADS);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        assert_int_equal(data[i], (i + 3) % THREADS);
    }
}

static void test_arithmetic_matches_cuda(void **state)
{
    (void)state;
    struct arithmetic_seen s, *p = &s;
    float x = 4.0f;
    int i = 40;
    void *args[] = {&p, &x, &i};
    assert_runs("arithmetic", DIM(1, 1, 1), DIM(1, 1, 1), 0, args);
    assert_true(s.root == 2 && s.inverse_root == 0.5f && s.absolute == 4 && s.floor == -4 && s.ceiling == -4);
    assert_true(s.nearest == 4 && s.fused == 17 && s.sum == 17);
    assert_int_equal(s.rounded, -10);
    assert_int_equal(s.truncated, -7);
    assert_int_equal(s.least, 3);
    assert_int_equal(s.most, 40);
    assert_int_equal(s.ones, 2);
    assert_int_equal(s.leading, 26);
    assert_int_equal(s.first, 4);
    assert_int_equal(s.shifted, 0x6789abcd);
    assert_int_equal(s.vector, 4321);
    assert_int_equal(s.timer_runs, 1);
    assert_true((unsigned)s.float_int == 0xc0800000u && s.float_uint == 0xc0800000u);
    assert_true(s.int_float == 1.5f && s.uint_float == -1.5f);
    assert_true((unsigned long long)s.double_wide == 0xc010000000000000ull && s.wide_double == 1.5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_image_names_every_kernel),
        cmocka_unit_test(test_parameters_arrive_in_every_size),
        cmocka_unit_test(test_every_thread_runs_once_at_its_place),
        cmocka_unit_test(test_reduction_in_shared_memory_is_exact),
        cmocka_unit_test(test_barriers_in_loops_hold_all_threads),
        cmocka_unit_test(test_groups_are_blocks),
        cmocka_unit_test(test_dynamic_shared_memory_has_the_launch_size),
        cmocka_unit_test(test_shuffles_follow_ptx),
        cmocka_unit_test(test_partial_warps_work_side_by_side),
        cmocka_unit_test(test_ballot_leaves_out_exited_lanes),
        cmocka_unit_test(test_atomics_hold_across_os_threads),
        cmocka_unit_test(test_blocks_with_barriers_run_on_many_os_threads),
        cmocka_unit_test(test_exited_threads_are_not_waited_for),
        cmocka_unit_test(test_deadlock_is_reported_and_does_no_harm),
        cmocka_unit_test(test_lane_outside_its_mask_is_reported),
        cmocka_unit_test(test_block_size_is_checked),
        cmocka_unit_test(test_memory_failure_leaves_the_engine_usable),
        cmocka_unit_test(test_arithmetic_matches_cuda),
    };
    return cmocka_run_group_tests(tests, NULL, host_end_thread);
}
