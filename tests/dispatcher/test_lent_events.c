/* SPDX-License-Identifier: MIT */
/* Events that are lent: whatever is exchanged, each holder has the event that its node records. */
#include "context/context.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/gpu_fixture.h"
#include "work/patch.h"

enum { NODES = 3 };

static struct gpu_fixture gpu;
static struct gy_context *context;
static gy_mutex lock;

/* A holder of one event. */
struct holder {
    struct gy_lent_event *event;
    struct gy_lent_event own;
};

static int set_up(void **state)
{
    (void)state;
    gpu_fixture_open(&gpu, 1, 4);
    context = gpu.context->cuda;
    assert_ok(gantry_context_acquire(gpu.context));
    gy_mutex_init(&lock, GY_RANK_LEAF);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    gy_mutex_fini(&lock);
    assert_ok(gantry_context_release(gpu.context));
    gpu_fixture_close(&gpu);
    return 0;
}

static void make_holders(struct holder *holders)
{
    for (uint32_t i = 0; i < NODES; i++) {
        struct holder *h = &holders[i];
        h->event = &h->own;
        h->own = (struct gy_lent_event){.lock = &lock, .holder = &h->event};
        assert_int_equal(context->driver->cuEventCreate(&h->own.event, 0), CUDA_SUCCESS);
        gy_lent_event_enter(h->event, GY_LENT_GIVEN);
    }
}

static void free_holders(struct holder *holders)
{
    for (uint32_t i = 0; i < NODES; i++) {
        assert_int_equal(context->driver->cuEventDestroy(holders[i].own.event), CUDA_SUCCESS);
    }
}

/* A row of event nodes. */
static void note(struct gy_nodes *nodes, CUstream stream, struct holder *const *holders)
{
    gy_nodes_init(nodes, context);
    struct gy_lane lane = gy_lane_of(stream, 0);
    lane.nodes = nodes;
    for (uint32_t i = 0; i < NODES; i++) {
        assert_ok(gy_lane_lent_event(&lane, &holders[i]->event));
    }
}

/* The holders of the second batch: the lower bits of `choice` say which of the first batch are not read yet,
 * and two bits for each node which of those that are read it has, if any. */
static void choose(uint32_t choice, struct holder *first, struct holder *others, struct holder **second)
{
    uint32_t taken = choice & ((1u << NODES) - 1);
    for (uint32_t i = 0; i < NODES; i++) {
        const uint32_t of = choice >> (NODES + 2 * i) & 3u;
        const bool is_again = of < NODES && (taken >> of & 1u) == 0;
        taken |= is_again ? 1u << of : 0;
        second[i] = is_again ? &first[of] : &others[i];
    }
}

static void run_choice(CUstream stream, uint32_t choice)
{
    struct holder first[NODES], others[NODES], *of_first[NODES], *of_second[NODES];
    struct gy_nodes batch, kept, next;
    CUgraph graph;
    CUgraphExec exec;
    uint64_t set = 0;
    make_holders(first);
    make_holders(others);
    for (uint32_t i = 0; i < NODES; i++) {
        of_first[i] = &first[i];
    }
    choose(choice, first, others, of_second);
    note(&batch, stream, of_first);
    assert_ok(gy_nodes_make(&batch, &graph));
    assert_int_equal(context->driver->cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
    kept = (struct gy_nodes){0};
    gy_nodes_init(&kept, context);
    assert_ok(gy_nodes_copy(&kept, &batch));
    gy_nodes_give_events(&batch, NODES);
    for (uint32_t i = 0; i < NODES; i++) {
        if ((choice >> i & 1u) == 0) {
            gy_lent_event_enter(first[i].event, GY_LENT_FREE);
        }
    }
    note(&next, stream, of_second);
    assert_int_equal(gy_nodes_patch(&kept, exec, &next, NULL, &set), CUDA_SUCCESS);
    for (uint32_t i = 0; i < NODES; i++) {
        assert_ptr_equal(kept.events[i].event, of_second[i]->event->event);
        assert_ptr_equal(gy_node_event_of(&next.events[i]), of_second[i]->event->event);
        for (uint32_t k = 0; k < i; k++) {
            assert_ptr_not_equal(kept.events[i].event, kept.events[k].event);
        }
    }
    assert_int_equal(context->driver->cuGraphExecDestroy(exec), CUDA_SUCCESS);
    assert_int_equal(context->driver->cuGraphDestroy(graph), CUDA_SUCCESS);
    gy_nodes_fini(&batch);
    gy_nodes_fini(&kept);
    gy_nodes_fini(&next);
    free_holders(first);
    free_holders(others);
}

static void test_each_holder_has_the_event_that_its_node_records(void **state)
{
    (void)state;
    CUstream stream;
    assert_int_equal(context->driver->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    for (uint32_t choice = 0; choice < 1u << (3 * NODES); choice++) {
        run_choice(stream, choice);
    }
    assert_int_equal(context->driver->cuStreamDestroy(stream), CUDA_SUCCESS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_each_holder_has_the_event_that_its_node_records, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
