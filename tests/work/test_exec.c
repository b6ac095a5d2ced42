/* SPDX-License-Identifier: MIT */
/* Executable graphs and the places that they take of the driver. */
#include "driver/places.h"
#include "driver/spent.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/gpu_fixture.h"
#include "work/exec.h"

#include <stdint.h>

#define MOST_NODES 600

static struct {
    struct gy_context *context;
    struct gy_node list[MOST_NODES];
    uint32_t before[4 * MOST_NODES];
    struct gy_nodes nodes;
} s;

static int set_up(void **state)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    (void)state;
    options.driver = gpu_fixture_driver();
    assert_ok(gy_context_open(&options, &s.context));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    gy_context_close(s.context);
    return 0;
}

/* ---- shapes ------------------------------------------------------------------------------------ */

static void begin(void)
{
    s.nodes = (struct gy_nodes){.context = s.context, .list = s.list, .before = s.before};
}

/* Add a node that comes after up to two others; UINT32_MAX: after none. */
static uint32_t add(uint32_t first, uint32_t second)
{
    struct gy_node *node = &s.list[s.nodes.count];
    *node = (struct gy_node){.kind = GY_NODE_KERNEL, .before = {.first = s.nodes.before_count}};
    const uint32_t before[] = {first, second};
    for (int i = 0; i < 2; i++) {
        if (before[i] != UINT32_MAX) {
            s.before[s.nodes.before_count++] = before[i];
            node->before.count++;
        }
    }
    return s.nodes.count++;
}

static uint32_t places(void)
{
    return gy_exec_shape_of(&s.nodes).places;
}

/* What an H200 takes for these: 1, 5.2, 10, 10.2 and 19.5. */
static void test_a_shape_has_as_many_places_as_the_driver_takes(void **state)
{
    (void)state;
    begin();
    (void)add(UINT32_MAX, UINT32_MAX);
    assert_int_equal(places(), 1);
    for (uint32_t i = 1; i < 500; i++) {
        (void)add(i - 1, UINT32_MAX);
    }
    assert_in_range(places(), 6, 12);
    begin();
    for (uint32_t i = 0; i < 10; i++) {
        (void)add(UINT32_MAX, UINT32_MAX);
    }
    assert_int_equal(places(), 10);
    begin();
    const uint32_t root = add(UINT32_MAX, UINT32_MAX);
    for (uint32_t i = 0; i < 10; i++) {
        (void)add(root, UINT32_MAX);
    }
    assert_in_range(places(), 10, 12);
    begin();
    for (uint32_t i = 0; i < 64; i++) {
        (void)add(i < 8 ? UINT32_MAX : i - 8, i < 8 ? UINT32_MAX : i / 8 * 8 - 8 + (i + 1) % 8);
    }
    assert_in_range(places(), 20, 30);
}

static void test_nodes_of_a_huge_graph_are_counted(void **state)
{
    (void)state;
    begin();
    s.nodes.count = 5000; /* nobody looks at them */
    assert_int_equal(places(), 5000);
}

static void test_what_launches_ask_for_is_part_of_the_shape(void **state)
{
    (void)state;
    struct gy_launch_extra extras[2] = {{.cluster = {2, 1, 1}}, {.cluster = {1, 1, 2}}};
    begin();
    (void)add(UINT32_MAX, UINT32_MAX);
    (void)add(0, UINT32_MAX);
    const uint64_t none = gy_exec_shape_of(&s.nodes).options;
    s.nodes.extras = extras;
    s.nodes.extra_count = 2;
    uint64_t options[3];
    for (uint32_t i = 0; i < 3; i++) { /* of the first node, of the second one, another one of that */
        s.list[0].kernel.extra = i == 0 ? 1 : 0;
        s.list[1].kernel.extra = i;
        options[i] = gy_exec_shape_of(&s.nodes).options;
        assert_int_not_equal(options[i], none);
        for (uint32_t k = 0; k < i; k++) {
            assert_int_not_equal(options[i], options[k]);
        }
    }
    assert_int_equal(none, 0);
}

/* ---- the driver -------------------------------------------------------------------------------- */

/* A graph of so many branches of a node each. */
static CUgraph make_graph(uint32_t branches, CUevent event)
{
    CUgraph graph;
    assert_ok(GY_CALL(s.context, cuGraphCreate(&graph, 0)));
    for (uint32_t i = 0; i < branches; i++) {
        CUgraphNode node;
        assert_ok(GY_CALL(s.context, cuGraphAddEventRecordNode(&node, graph, NULL, 0, event)));
    }
    return graph;
}

static void test_no_update_changes_what_launches_ask_for(void **state)
{
    (void)state;
    CUevent event;
    assert_ok(gy_context_push(s.context));
    assert_ok(GY_CALL(s.context, cuEventCreate(&event, CU_EVENT_DISABLE_TIMING)));
    CUgraph graph = make_graph(1, event);
    struct gy_exec_shape shape = {1, 7};
    struct gy_exec exec = {.graph = graph, .shape = shape};
    const uint32_t used = atomic_load(&s.context->places->used);
    assert_ok(gy_exec_make(s.context, &exec, GY_EXEC_OF_NODES));
    assert_int_equal(atomic_load(&s.context->places->used), used + 1);
    assert_int_equal(gy_exec_update(s.context, &exec, graph, shape), CUDA_SUCCESS);
    shape.options = 8;
    assert_int_equal(gy_exec_update(s.context, &exec, graph, shape), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    gy_exec_drop(s.context, &exec);
    assert_null(exec.native);
    gy_exec_drop(s.context, &exec);
    assert_int_equal(atomic_load(&s.context->places->used), used);
    assert_ok(GY_CALL(s.context, cuEventDestroy(event)));
    assert_ok(gy_context_pop(s.context));
}

/* What the driver would not destroy it is asked for again, and nothing is lost. */
static void test_a_refused_graph_is_destroyed_later(void **state)
{
    (void)state;
    struct gantry_emu_control emu;
    if (!gpu_fixture_controls(&emu)) {
        skip();
    }
    CUevent event;
    assert_ok(gy_context_push(s.context));
    assert_ok(GY_CALL(s.context, cuEventCreate(&event, CU_EVENT_DISABLE_TIMING)));
    struct gy_exec exec = {.graph = make_graph(3, event), .shape = {3, 0}};
    assert_ok(gy_exec_make(s.context, &exec, GY_EXEC_OF_STREAM));
    assert_int_equal((emu.fail)("cuGraphExecDestroy", 1, CUDA_ERROR_INVALID_VALUE, GANTRY_EMU_ONCE), 0);
    gy_exec_drop(s.context, &exec);
    emu.clear_faults();
    gy_spent_sweep(s.context);
    assert_int_equal(atomic_load(&s.context->spent_count), 0);
    assert_ok(GY_CALL(s.context, cuEventDestroy(event)));
    assert_ok(gy_context_pop(s.context));
}

/* ---- places ------------------------------------------------------------------------------------ */

static void test_contexts_of_one_device_share_its_places(void **state)
{
    (void)state;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    struct gy_context *other;
    options.driver = gpu_fixture_driver();
    assert_ok(gy_context_open(&options, &other));
    assert_ptr_equal(other->places, s.context->places);
    gy_context_close(other);
    assert_int_equal(s.context->places->users, 1);
}

static void test_places_that_are_taken_ahead_are_left(void **state)
{
    (void)state;
    struct gy_places *places = s.context->places;
    gy_places_reserve(s.context, 100);
    assert_true(gy_places_left(places) >= 100);
    const uint32_t room = atomic_load(&places->room);
    gy_places_reserve(s.context, 100);
    assert_int_equal(atomic_load(&places->room), room);
    gy_places_take(places, gy_places_left(places) + 5);
    assert_int_equal(gy_places_left(places), 0);
    assert_int_equal(atomic_load(&places->room), room + 5);
    gy_places_give(places, room + 5);
    assert_int_equal(gy_places_left(places), room + 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_shape_has_as_many_places_as_the_driver_takes),
        cmocka_unit_test(test_nodes_of_a_huge_graph_are_counted),
        cmocka_unit_test(test_what_launches_ask_for_is_part_of_the_shape),
        cmocka_unit_test(test_no_update_changes_what_launches_ask_for),
        cmocka_unit_test(test_a_refused_graph_is_destroyed_later),
        cmocka_unit_test(test_contexts_of_one_device_share_its_places),
        cmocka_unit_test(test_places_that_are_taken_ahead_are_left),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
