/* SPDX-License-Identifier: MIT */
/* Laps: what a thread frees on its stream comes back there without a question to the driver, and is nobody
 * else's before the stream has passed it. */
#include "tests/support/cmocka_c11.h"

#include "base/alloc.h"
#include "emulator/gantry_emu.h"
#include "heap/heap.h"
#include "heap/internal.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#define MIB ((size_t)1 << 20)
#define LAP_BLOCK (MIB / 2) /* the largest block that a lap keeps */
#define CU(call) assert_int_equal(f->context->driver->call, CUDA_SUCCESS)

enum { THREADS = 4 };
/* What test_training_asks_the_driver_little() allows; without laps it is 0.070, 0.0035 and 1.12. */
#define MOST_RECORDED 0.045
#define MOST_QUERIED 0.0030
#define MOST_RESERVED 1.15

struct fixture {
    struct gy_context *context;
    gantry_heap *heap;
    struct gantry_emu_control emu;
    CUstream streams[THREADS];
    CUdeviceptr filled;
};

static int setup(void **state)
{
    static struct fixture fixture;
    struct fixture *f = &fixture;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.driver = GANTRY_DRIVER_EMULATED;
    options.mode = GANTRY_CONTEXT_OWN;
    assert_ok(gy_context_open(&options, &f->context));
#define BIND(result, member, parameters)                                                  \
    *(void **)&f->emu.member = dlsym(f->context->driver->library, "gantry_emu_" #member); \
    assert_non_null(*(void **)&f->emu.member);
    GANTRY_EMU_CONTROLS(BIND)
#undef BIND
    f->emu.reset();
    gantry_heap_options plain = GANTRY_HEAP_OPTIONS_INIT;
    plain.ahead_bytes[GANTRY_MEMORY_DEVICE] = SIZE_MAX; /* nothing is mapped but what is needed */
    assert_ok(gy_heap_create(f->context, &plain, &f->heap));
    assert_ok(gy_context_push(f->context));
    for (int i = 0; i < THREADS; i++) {
        CU(cuStreamCreate(&f->streams[i], CU_STREAM_NON_BLOCKING));
    }
    CU(cuMemAlloc(&f->filled, MIB));
    assert_ok(
        gantry_heap_reserve(f->heap, GANTRY_MEMORY_DEVICE, 16 * MIB)); /* who needs more empties all laps */
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    CU(cuMemFree(f->filled));
    for (int i = 0; i < THREADS; i++) {
        CU(cuStreamDestroy(f->streams[i]));
    }
    assert_ok(gy_context_pop(f->context));
    gy_heap_destroy(f->heap);
    assert_int_equal(f->emu.live(GANTRY_EMU_LIVE_EVENTS), 0);
    assert_int_equal(f->emu.live(GANTRY_EMU_LIVE_DEVICE_BYTES), 0);
    f->emu.reset();
    gy_context_close(f->context);
    assert_int_equal(gy_alloc_live(), 0);
    return 0;
}

static void *take(struct fixture *f, size_t bytes, CUstream stream)
{
    void *block = NULL;
    assert_ok(gantry_heap_alloc_on(f->heap, GANTRY_MEMORY_DEVICE, bytes, 0, stream, GANTRY_ALLOC_SITE("laps"),
                                   &block));
    return block;
}

static void give(struct fixture *f, void *block, CUstream stream)
{
    assert_ok(gantry_heap_free_on(f->heap, block, stream));
}

/* Use the thread's lap up to where it is the stream's. */
static void attach(struct fixture *f, CUstream stream)
{
    for (int i = 0; i < 20; i++) {
        give(f, take(f, 4096, stream), stream);
    }
}

static uint64_t events(struct fixture *f)
{
    return f->emu.calls("cuEventRecord") + f->emu.calls("cuEventQuery");
}

static gantry_heap_stats stats_of(struct fixture *f)
{
    gantry_heap_stats stats = {.struct_size = sizeof(stats)};
    assert_ok(gantry_heap_get_stats(f->heap, GANTRY_MEMORY_DEVICE, &stats));
    return stats;
}

static void test_the_same_sizes_need_no_event(void **state)
{
    struct fixture *f = *state;
    attach(f, f->streams[0]);
    void *first = take(f, 300000, f->streams[0]);
    give(f, first, f->streams[0]);
    const uint64_t before = events(f);
    for (size_t i = 0; i < 1000; i++) {
        void *block = take(f, 300000 - i % 7, f->streams[0]); /* sizes that are alike share a block */
        assert_ptr_equal(block, first);
        assert_true(gantry_heap_free_on(f->heap, (char *)block + 4096, f->streams[0]) ==
                    GANTRY_ERR_NOT_FOUND);
        give(f, block, f->streams[0]);
        assert_true(gantry_heap_free_on(f->heap, block, f->streams[0]) == GANTRY_ERR_NOT_FOUND); /* twice */
    }
    assert_int_equal(events(f), before);
    assert_int_equal(stats_of(f).used_bytes, 0);
}

static void test_a_lap_is_its_streams_alone(void **state)
{
    struct fixture *f = *state;
    attach(f, f->streams[1]); /* a stream alone would have all free memory wait for it */
    attach(f, f->streams[0]);
    void *block = take(f, LAP_BLOCK, f->streams[0]);
    f->emu.hold();
    CU(cuMemsetD8Async((CUdeviceptr)(uintptr_t)block, 1, LAP_BLOCK, f->streams[0]));
    give(f, block, f->streams[0]);
    void *other = take(f, LAP_BLOCK, f->streams[1]), *plain;
    assert_ok(
        gantry_heap_alloc(f->heap, GANTRY_MEMORY_DEVICE, LAP_BLOCK, 0, GANTRY_ALLOC_SITE("laps"), &plain));
    assert_ptr_not_equal(other, block);
    assert_ptr_not_equal(plain, block);
    assert_ptr_equal(take(f, LAP_BLOCK, f->streams[0]), block);
    give(f, block, f->streams[0]);
    f->emu.release();
    give(f, other, f->streams[1]);
    assert_ok(gantry_heap_free(f->heap, plain));
}

/* A recorded stream is waited for, wherever the block would have gone. */
static void test_shared_blocks_are_in_no_lap(void **state)
{
    struct fixture *f = *state;
    attach(f, f->streams[0]);
    void *block = take(f, LAP_BLOCK, f->streams[0]);
    assert_ok(gantry_heap_record_stream(f->heap, block, f->streams[1]));
    f->emu.hold();
    CU(cuMemsetD8Async((CUdeviceptr)(uintptr_t)block, 1, LAP_BLOCK, f->streams[1]));
    give(f, block, f->streams[0]);
    void *other = take(f, LAP_BLOCK, f->streams[0]);
    assert_ptr_not_equal(other, block);
    f->emu.release();
    give(f, other, f->streams[0]);
}

static void test_the_handle_of_a_destroyed_stream_is_another_stream(void **state)
{
    struct fixture *f = *state;
    CUstream first, next[24]; /* for more the driver would wait for the work */
    CU(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
    attach(f, first);
    void *block = take(f, LAP_BLOCK, first);
    f->emu.hold();
    CU(cuMemsetD8Async((CUdeviceptr)(uintptr_t)block, 1, LAP_BLOCK, first));
    give(f, block, first);
    CU(cuStreamDestroy(first));
    for (int i = 0; i < 24; i++) {
        CU(cuStreamCreate(&next[i], CU_STREAM_NON_BLOCKING));
        void *other = take(f, LAP_BLOCK, next[i]);
        assert_ptr_not_equal(other, block);
        give(f, other, next[i]);
    }
    f->emu.release();
    for (int i = 0; i < 24; i++) {
        CU(cuStreamDestroy(next[i]));
    }
}

static void limit(struct fixture *f, size_t bytes)
{
    gantry_heap_settings settings = {.struct_size = sizeof(settings)};
    assert_ok(gantry_heap_get_settings(f->heap, GANTRY_MEMORY_DEVICE, &settings));
    settings.limit_bytes = bytes;
    settings.slab_bytes = bytes;
    assert_ok(gantry_heap_configure(f->heap, GANTRY_MEMORY_DEVICE, &settings));
}

static void give_all(struct fixture *f, size_t count, size_t bytes)
{
    void *blocks[16];
    for (size_t i = 0; i < count; i++) {
        blocks[i] = take(f, bytes, f->streams[0]);
    }
    for (size_t i = 0; i < count; i++) {
        give(f, blocks[i], f->streams[0]);
        assert_true(gantry_heap_free_on(f->heap, blocks[i], f->streams[0]) ==
                    GANTRY_ERR_NOT_FOUND); /* twice */
        assert_true(gantry_heap_free(f->heap, blocks[i]) == GANTRY_ERR_NOT_FOUND);
    }
}

/* What lies in a lap is not out of reach: others get it when memory is short, and it is given back.  Blocks
 * of half a MiB are kept in it, blocks of 2 MiB leave. */
static void test_laps_are_emptied_when_memory_is_short(void **state)
{
    struct fixture *f = *state;
    static const size_t sizes[] = {LAP_BLOCK, 2 * MIB};
    limit(f, 16 * MIB);
    for (int i = 0; i < 2; i++) {
        attach(f, f->streams[0]);
        give_all(f, 8 * MIB / sizes[i], sizes[i]);
        assert_int_equal(stats_of(f).used_bytes, 0);
        void *large = take(f, 14 * MIB, f->streams[1]);
        give(f, large, f->streams[1]);
        attach(f, f->streams[0]);
        give(f, take(f, sizes[i], f->streams[0]), f->streams[0]);
        assert_ok(gantry_heap_settle(f->heap));
        assert_int_equal(stats_of(f).waiting_bytes, 0);
        assert_ok(gantry_heap_trim(f->heap, GANTRY_MEMORY_DEVICE, 0, NULL));
        assert_int_equal(stats_of(f).slab_bytes, 0);
    }
}

/* ---- blocks that leave ---------------------------------------------------------------------- */

static unsigned count_leaving(struct fixture *f)
{
    unsigned count = 0;
    for (unsigned i = 0; i < GY_PARK_SHARDS; i++) {
        count += f->heap->kinds[GANTRY_MEMORY_DEVICE].park.shards[i].lap.leaving_count;
    }
    return count;
}

/* Blocks that are too large for the lap leave with the next operation that takes the lock, or with the free
 * that finds no room for one more. */
static void test_large_blocks_leave_together(void **state)
{
    struct fixture *f = *state;
    enum { BLOCKS = 9 };
    void *blocks[BLOCKS];
    attach(f, f->streams[1]);
    attach(f, f->streams[0]);
    assert_int_equal(count_leaving(f), 0);
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = take(f, MIB - 4096, f->streams[0]);
    }
    for (unsigned i = 0; i < BLOCKS; i++) {
        give(f, blocks[i], f->streams[0]);
        assert_int_equal(count_leaving(f), i < BLOCKS - 1 ? i + 1 : 0);
    }
    assert_int_equal(stats_of(f).used_bytes, 0);
    void *block = take(f, 3 * MIB, f->streams[0]);
    give(f, block, f->streams[0]);
    assert_int_equal(count_leaving(f), 1);
    void *other = take(f, 3 * MIB, f->streams[1]); /* by the same thread, on another stream */
    assert_ptr_not_equal(other, block);
    assert_int_equal(count_leaving(f), 1);
    assert_ptr_equal(take(f, 3 * MIB, f->streams[0]), block);
    assert_int_equal(count_leaving(f), 0);
    give(f, block, f->streams[0]);
    give(f, other, f->streams[1]);
    void *large = take(f, 9 * MIB, f->streams[0]);
    give(f, large, f->streams[0]); /* more than may wait in a lap of a small heap */
    assert_int_equal(count_leaving(f), 0);
}

static void *give_in_thread(void *arg)
{
    struct fixture *f = arg;
    assert_ok(gy_context_push(f->context));
    attach(f, f->streams[0]);
    give_all(f, 4, 2 * MIB);
    assert_int_equal(count_leaving(f), 4);
    assert_ok(gy_context_pop(f->context));
    return NULL;
}

/* The blocks of a thread that has ended are there for others, also for allocations without a stream, once the
 * program has settled the heap: they have no event, and nobody names their stream any more. */
static void test_blocks_leave_when_their_thread_has_ended(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        limit(f, 0);
        assert_int_equal(pthread_create(&thread, NULL, give_in_thread, f), 0);
        pthread_join(thread, NULL);
        limit(f, 16 * MIB);
        assert_ok(gantry_heap_settle(f->heap));
        void *large;
        if (i == 0) {
            large = take(f, 14 * MIB, f->streams[1]);
        } else {
            assert_ok(gantry_heap_alloc(f->heap, GANTRY_MEMORY_DEVICE, 14 * MIB, 0, GANTRY_ALLOC_SITE("laps"),
                                        &large));
        }
        assert_int_equal(count_leaving(f), 0);
        assert_ok(gantry_heap_free(f->heap, large));
    }
    pthread_t thread;
    limit(f, 0);
    assert_int_equal(pthread_create(&thread, NULL, give_in_thread, f), 0);
    pthread_join(thread, NULL); /* and the heap ends with blocks that have not left */
}

/* Memory that has not left is nobody else's while its stream works with it. */
static void test_what_leaves_waits_for_its_stream(void **state)
{
    struct fixture *f = *state;
    attach(f, f->streams[1]);
    attach(f, f->streams[0]);
    void *block = take(f, 6 * MIB, f->streams[0]), *other = NULL;
    f->emu.hold();
    CU(cuMemsetD8Async((CUdeviceptr)(uintptr_t)block, 1, 6 * MIB, f->streams[0]));
    give(f, block, f->streams[0]);
    assert_int_equal(count_leaving(f), 1);
    limit(f, 16 * MIB);
    other = take(f, 6 * MIB, f->streams[1]);
    assert_true((char *)other + 6 * MIB <= (char *)block || (char *)block + 6 * MIB <= (char *)other);
    f->emu.release();
    give(f, other, f->streams[1]);
}

/* ---- a training step ----------------------------------------------------------------------- */

enum { LAYERS = 12, KEPT = 7, PASSES = 12 };

/* Threads take turns by layers, so that the figures are the same in each run. */
struct turns {
    struct fixture *f;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned turn;
    size_t live, peak;
    uint64_t operations;
};

struct trainer {
    struct turns *turns;
    unsigned number;
    uint64_t random;
    void *kept[LAYERS][KEPT];
};

static uint64_t random_of(struct trainer *t)
{
    t->random ^= t->random << 13;
    t->random ^= t->random >> 7;
    t->random ^= t->random << 17;
    return t->random >> 11;
}

static void *need(struct trainer *t, size_t bytes)
{
    struct turns *turns = t->turns;
    turns->operations++;
    turns->live += bytes;
    turns->peak = turns->live > turns->peak ? turns->live : turns->peak;
    return take(turns->f, bytes, turns->f->streams[t->number]);
}

static void drop(struct trainer *t, void *block, size_t bytes)
{
    t->turns->operations++;
    t->turns->live -= bytes;
    give(t->turns->f, block, t->turns->f->streams[t->number]);
}

static size_t activation(uint64_t which)
{
    static const unsigned widths[KEPT] = {1, 3, 1, 1, 4, 4, 1};
    return (size_t)4096 * 768 * 2 * widths[which % KEPT];
}

static void scratch(struct trainer *t)
{
    void *blocks[3];
    size_t bytes[3];
    for (unsigned i = 0; i < 3; i++) {
        const size_t least = (size_t)512 << random_of(t) % 12;
        bytes[i] = i == 1 ? activation(random_of(t)) : least + random_of(t) % least;
        blocks[i] = need(t, bytes[i]);
    }
    for (unsigned i = 3; i-- > 0;) {
        drop(t, blocks[i], bytes[i]);
    }
}

static void layer(struct trainer *t, unsigned which, bool is_forward)
{
    for (unsigned i = 0; i < KEPT; i++) {
        void *gradient = NULL;
        if (is_forward) {
            t->kept[which][i] = need(t, activation(i));
        } else {
            gradient = need(t, activation(i));
        }
        scratch(t);
        if (!is_forward) {
            drop(t, t->kept[which][i], activation(i));
            drop(t, gradient, activation(i));
        }
    }
}

static void *train(void *arg)
{
    struct trainer *t = arg;
    struct turns *turns = t->turns;
    assert_ok(gy_context_push(turns->f->context));
    for (unsigned i = 0; i < PASSES * 2 * LAYERS; i++) {
        const unsigned at = i % (2 * LAYERS);
        pthread_mutex_lock(&turns->lock);
        while (turns->turn % THREADS != t->number) {
            pthread_cond_wait(&turns->changed, &turns->lock);
        }
        layer(t, at < LAYERS ? at : 2 * LAYERS - 1 - at, at < LAYERS);
        turns->turn++;
        pthread_cond_broadcast(&turns->changed);
        pthread_mutex_unlock(&turns->lock);
    }
    assert_ok(gy_context_pop(turns->f->context));
    return NULL;
}

static void test_training_asks_the_driver_little(void **state)
{
    struct fixture *f = *state;
    struct turns turns = {f, PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, 0, 0};
    static struct trainer trainers[THREADS];
    pthread_t threads[THREADS];
    const uint64_t records = f->emu.calls("cuEventRecord"), queries = f->emu.calls("cuEventQuery");
    for (unsigned i = 0; i < THREADS; i++) {
        trainers[i] = (struct trainer){.turns = &turns, .number = i, .random = 88172645463325252u + i};
        assert_int_equal(pthread_create(&threads[i], NULL, train, &trainers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    const double recorded = (double)(f->emu.calls("cuEventRecord") - records) / (double)turns.operations;
    const double queried = (double)(f->emu.calls("cuEventQuery") - queries) / (double)turns.operations;
    const double reserved = (double)stats_of(f).peak_slab_bytes / (double)turns.peak;
    print_message(
        "%llu operations: %.4f events recorded and %.4f queried for each, %.3f bytes taken for each in use\n",
        (unsigned long long)turns.operations, recorded, queried, reserved);
    assert_true(recorded < MOST_RECORDED && queried < MOST_QUERIED && reserved < MOST_RESERVED);
    assert_int_equal(turns.live, 0);
    assert_int_equal(stats_of(f).used_bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_same_sizes_need_no_event, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_lap_is_its_streams_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(test_shared_blocks_are_in_no_lap, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_handle_of_a_destroyed_stream_is_another_stream, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_laps_are_emptied_when_memory_is_short, setup, teardown),
        cmocka_unit_test_setup_teardown(test_large_blocks_leave_together, setup, teardown),
        cmocka_unit_test_setup_teardown(test_blocks_leave_when_their_thread_has_ended, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_leaves_waits_for_its_stream, setup, teardown),
        cmocka_unit_test_setup_teardown(test_training_asks_the_driver_little, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
