/* SPDX-License-Identifier: MIT */
/* The order of lanes (dispatcher/order/lane_order.h) where nothing is ever seen to have passed: tasks by
 * chance on the streams of a pool, some of them in graphs.  The model of what the driver was told
 * (order_model.h) says for each that it comes after all that it must come after, so the events of ends and
 * waits may be recorded again and again, but never for somebody who needed an earlier record.
 *
 * `--series N` sets how many series of tasks there are; `--seed N` which is the first. */
#include "dispatcher/internal.h"
#include "dispatcher/order/batch_order.h"
#include "dispatcher/order/lane_order.h"
#include "dispatcher/order/step_order.h"
#include "tests/dispatcher/order_model.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/gpu_fixture.h"

#include <stdlib.h>
#include <string.h>

enum { LIMIT = 8, TASKS = 60, MOST_IN_BATCH = 6 };

static uint32_t series_wanted = 400;
static uint64_t first_seed = 1;

struct task {
    uint64_t point;  /* of the timeline */
    uint64_t before; /* bit i: task i comes before it, directly or not */
};

struct pool {
    struct gy_context *context;
    struct gy_partitions *partitions;
    struct gy_streams streams;
    struct gy_wait_set_pool wait_sets;
    struct gy_gpu_order *order;
    struct gy_nodes nodes;
    CUdeviceptr data; /* a word for each task */
    uint64_t random, run;
    uint32_t count;        /* of tasks so far */
    uint64_t before_steps; /* tasks of earlier steps */
    uint64_t in_graph;     /* tasks of the batch that is open */
    struct task tasks[TASKS];
};

static uint32_t next_random(struct pool *p, uint32_t below)
{
    p->random ^= p->random << 13;
    p->random ^= p->random >> 7;
    p->random ^= p->random << 17;
    return (uint32_t)((p->random >> 32) % below);
}

static int open_pool(void **state)
{
    static struct pool pool;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.driver = gpu_fixture_driver();
    order_model_attach(false);
    assert_ok(gy_context_open(&options, &pool.context));
    assert_ok(gy_context_push(pool.context));
    assert_ok(gy_partitions_create(pool.context, NULL, NULL, &pool.partitions));
    assert_ok(gy_streams_init(&pool.streams, pool.context, pool.partitions, LIMIT, false));
    assert_ok(gy_wait_set_pool_init(&pool.wait_sets, 256));
    pool.order = gy_step_order_open(&pool.streams);
    assert_non_null(pool.order);
    gy_nodes_init(&pool.nodes, pool.context);
    assert_int_equal(pool.context->driver->cuMemAlloc(&pool.data, TASKS * 4), CUDA_SUCCESS);
    *state = &pool;
    return 0;
}

static int close_pool(void **state)
{
    struct pool *pool = *state;
    assert_int_equal(pool->context->driver->cuCtxSynchronize(), CUDA_SUCCESS);
    assert_int_equal(pool->context->driver->cuMemFree(pool->data), CUDA_SUCCESS);
    gy_step_order_close(pool->order);
    gy_streams_fini(&pool->streams);
    gy_nodes_fini(&pool->nodes);
    gy_wait_set_pool_fini(&pool->wait_sets);
    gy_partitions_destroy(pool->partitions);
    assert_ok(gy_context_pop(pool->context));
    gy_context_close(pool->context);
    order_model_detach();
    return 0;
}

/* The task comes after up to two others of its step; *before: whatever that means for it. */
static uint64_t choose_wait_set(struct pool *p, uint64_t *before)
{
    _Atomic(uint64_t) wait_set = GY_WAIT_SET_NONE;
    uint32_t first = 0;
    while (first < p->count && (p->before_steps >> first & 1u) != 0) {
        first++;
    }
    *before = 0;
    for (uint32_t i = next_random(p, 3); i != 0 && first < p->count; i--) {
        const uint32_t other = first + next_random(p, p->count - first);
        gy_wait_set_merge(&p->wait_sets, &wait_set, p->tasks[other].point);
        *before |= p->tasks[other].before | UINT64_C(1) << other;
    }
    return atomic_load(&wait_set);
}

/* Enqueue the task, or note it, as the dispatcher does. */
static void run_task(struct pool *p)
{
    uint64_t before;
    const uint64_t wait_set = choose_wait_set(p, &before);
    const bool begins = wait_set == GY_WAIT_SET_NONE;
    uint32_t stream = 0;
    p->streams.batch.order = p->order;
    p->streams.batch.run = p->run;
    assert_ok(gy_streams_assign(&p->streams, wait_set, 0,
                                &(struct gy_stream_claim){.owner = &p->order->owner}, &stream));
    assert_ok(gy_streams_wait_barrier(&p->streams, stream));
    assert_ok(gy_streams_wait(&p->streams, stream, wait_set));
    gy_wait_set_drop(&p->wait_sets, wait_set);
    if (begins) {
        assert_ok(gy_step_order_enter(p->order, p->run, GY_BOUND_ALL, stream, false));
    }
    before |= begins ? p->before_steps : 0;
    struct gy_stream *s = &p->streams.streams[stream];
    const CUdeviceptr at = p->data + p->count * 4u;
    gantry_launch launch = {.stream = s->native, .lane = gy_stream_lane(s), .nodes = p->nodes.count};
    order_model_begin(&launch, before);
    if (launch.lane != NULL) {
        assert_ok(gy_lane_fill(launch.lane, gy_fill_of(at, 1, 4, 1)));
    } else {
        assert_int_equal(p->context->driver->cuMemsetD32Async(at, 1, 1, s->native), CUDA_SUCCESS);
    }
    order_model_called(&launch, UINT64_C(1) << p->count);
    struct task *task = &p->tasks[p->count++];
    task->before = before;
    assert_ok(gy_streams_finish_at(&p->streams, stream, s, next_random(p, 4), 0, &task->point));
    s->owner = &p->order->owner;
    gy_step_order_note_at(p->order, p->run, stream, s);
}

/* No event that the graph records is one that it waits for. */
static void check_events(const struct gy_nodes *nodes)
{
    for (uint32_t i = 0; i < nodes->event_count; i++) {
        for (uint32_t j = 0; j < nodes->event_count; j++) {
            const bool is_pair = nodes->list[nodes->events[i].node].kind == GY_NODE_WAIT &&
                                 nodes->list[nodes->events[j].node].kind == GY_NODE_EVENT;
            assert_false(is_pair && nodes->events[i].event == nodes->events[j].event);
        }
    }
}

/* A graph of so many tasks. */
static void run_batch(struct pool *p, uint32_t tasks)
{
    const struct gy_driver *driver = p->context->driver;
    CUgraph graph;
    CUgraphExec exec;
    gy_nodes_clear(&p->nodes);
    gy_batch_begin(&p->streams, &p->nodes, next_random(p, 8) != 0);
    for (uint32_t i = 0; i < tasks; i++) {
        run_task(p);
        if (next_random(p, 4) == 0) {
            gy_lane_order_note_ends(&p->streams);
        }
    }
    gy_lane_order_note_ends(&p->streams);
    check_events(&p->nodes);
    assert_ok(gy_nodes_make(&p->nodes, &graph));
    assert_int_equal(driver->cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
    assert_int_equal(driver->cuGraphLaunch(exec, gy_batch_home(&p->streams)), CUDA_SUCCESS);
    assert_ok(gy_batch_launched(&p->streams));
    assert_int_equal(driver->cuGraphExecDestroy(exec), CUDA_SUCCESS);
    assert_int_equal(driver->cuGraphDestroy(graph), CUDA_SUCCESS);
}

static void run_series(struct pool *p, uint64_t seed)
{
    p->random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    p->count = 0;
    p->before_steps = 0;
    p->run++;
    order_model_reset();
    while (p->count < TASKS) {
        const uint32_t left = TASKS - p->count, wanted = 1 + next_random(p, MOST_IN_BATCH);
        if (next_random(p, 6) == 0) {
            run_task(p);
        } else {
            run_batch(p, wanted < left ? wanted : left);
        }
        if (next_random(p, 20) == 0) { /* another step begins */
            p->before_steps = (UINT64_C(1) << p->count) - 1;
            p->run++;
            gy_streams_return_all(&p->streams);
        }
    }
    assert_int_equal(p->context->driver->cuCtxSynchronize(), CUDA_SUCCESS);
    const struct order_faults faults = order_model_faults();
    if (faults.unordered != 0) {
        print_error("seed %llu: %llu tasks without their order\n", (unsigned long long)seed,
                    (unsigned long long)faults.unordered);
    }
    assert_int_equal(faults.unordered, 0);
}

static void test_lanes_are_ordered_whatever_was_recorded_again(void **state)
{
    struct pool *p = *state;
    for (uint64_t seed = first_seed; seed < first_seed + series_wanted; seed++) {
        run_series(p, seed);
    }
}

int main(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--series") == 0) {
            series_wanted = (uint32_t)strtoul(argv[i + 1], NULL, 10);
        } else if (strcmp(argv[i], "--seed") == 0) {
            first_seed = strtoull(argv[i + 1], NULL, 10);
        }
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_lanes_are_ordered_whatever_was_recorded_again, open_pool,
                                        close_pool),
    };
    return cmocka_run_group_tests_name("order of lanes", tests, NULL, NULL);
}
