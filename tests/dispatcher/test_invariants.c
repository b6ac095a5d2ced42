/* SPDX-License-Identifier: MIT */
/* Each check of the dispatcher's own state fails when the state is wrong: a mistake is planted, seen and
 * taken back. */
#include "base/alloc.h"
#include "dispatcher/call/mode.h"
#include "dispatcher/gates/gate.h"
#include "dispatcher/gates/quota.h"
#include "dispatcher/internal.h"
#include "dispatcher/order/crossing.h"
#include "dispatcher/submit/device_loop.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/deadline.h"
#include "tests/support/gpu_fixture.h"
#include "tests/support/plant.h"

static gantry_launch_result launch_nothing(gantry_launch *launch, void *arg)
{
    (void)launch;
    (void)arg;
    return GANTRY_LAUNCH_DONE;
}

static struct {
    struct gpu_fixture gpu;
    struct gantry_dispatcher *d;
    gantry_task *kernel[2], *upload;
} s;

/* A dispatcher has run a step, and its thread sleeps until close_scene(), whatever is signalled; there are
 * tasks of the next step. */
static int open_scene(void **state)
{
    (void)state;
    gpu_fixture_open(&s.gpu, 0, 0);
    s.d = gantry_context_dispatcher(s.gpu.context);
    for (int i = 0; i < 4; i++) {
        (void)gpu_fixture_gpu(&s.gpu, GANTRY_TASK_KERNEL, "before", launch_nothing, NULL);
    }
    assert_int_equal(gantry_taskman_start(s.gpu.manager), GANTRY_OK);
    assert_int_equal(gantry_taskman_stop(s.gpu.manager), GANTRY_OK);
    assert_int_equal(gantry_taskman_reset(s.gpu.manager), GANTRY_OK);
    for (int i = 0; i < 2; i++) {
        s.kernel[i] = gpu_fixture_gpu(&s.gpu, GANTRY_TASK_KERNEL, "kernel", launch_nothing, NULL);
    }
    s.upload = gpu_fixture_gpu(&s.gpu, GANTRY_TASK_HTOD, "upload", launch_nothing, NULL);
    deadline_await(gy_inbox_borrow(&s.d->inbox), "the dispatcher to sleep");
    return 0;
}

static int close_scene(void **state)
{
    (void)state;
    gy_inbox_give_back(&s.d->inbox, 0, true, true);
    gpu_fixture_close(&s.gpu);
    return 0;
}

static void test_lists_and_bins(void **state)
{
    (void)state;
    struct gy_gpu_list list = {NULL, NULL};
    PLANT(gy_gpu_list_is_valid(&list), list.last, s.kernel[0]);
    gy_gpu_list_append(&list, s.kernel[0], s.kernel[0]);
    PLANT(gy_gpu_list_is_valid(&list), list.last, NULL);
    PLANT(gy_gpu_list_is_valid(&list), s.kernel[0]->next, s.kernel[1]);

    struct gy_bins bins = {{{NULL, NULL}}};
    for (int i = 0; i < 2; i++) {
        s.kernel[i]->stream = 1;
        gy_gpu_list_append(&bins.of[GD_KERNEL], s.kernel[i], s.kernel[i]);
    }
    PLANT(gy_bins_are_valid(&bins), s.kernel[1]->stream, 0);
    PLANT(gy_bins_are_valid(&bins), bins.of[GD_KERNEL].last, s.kernel[0]);
    s.upload->stream = 1;
    s.upload->next = NULL;
    PLANT(gy_bins_are_valid(&bins), bins.of[GD_KERNEL].first, s.upload); /* the task is of another phase */
}

static void test_rounds(void **state)
{
    (void)state;
    struct gy_round round = {.recording = NULL};
    struct gy_unit unit = {.members = 1, .roots = 1, .stage = GY_UNIT_CALLED};
    struct gy_recording recording = {.unit = &unit};
    PLANT(gy_round_is_valid(&round), round.phase, GD_PHASES);
    PLANT(gy_round_is_valid(&round), round.bins.of[GD_DTOH].last, s.upload);
    round.recording = &recording;
    PLANT(gy_round_is_valid(&round), recording.unit, NULL);
    PLANT(gy_round_is_valid(&round), recording.finished, 2);
    PLANT(gy_round_is_valid(&round), recording.others.last, s.upload);
}

static void test_streams(void **state)
{
    (void)state;
    struct gy_streams *streams = &s.d->streams;
    struct gy_stream *stream = &streams->streams[0];
    assert_true(streams->count > 0 && stream->tail > 0);
    PLANT(gy_stream_is_valid(streams, 0), stream->tail, stream->tail + 1);
    PLANT(gy_stream_is_valid(streams, 0), stream->superseded, stream->tail + 1);
    PLANT(gy_stream_is_valid(streams, 0), stream->floor, stream->tail + 1);
    PLANT(gy_stream_is_valid(streams, 0), stream->line->seen, streams->barrier.generation + 1);
    PLANT(gy_stream_is_valid(streams, 0), stream->native, NULL);
    PLANT(gy_stream_is_valid(streams, 0), stream->epoch, streams->epoch + 1);
    PLANT(gy_stream_is_valid(streams, 0), stream->noted.entered, stream->tail + 1);
    PLANT(gy_stream_is_valid(streams, 0), stream->state, GY_STREAM_MEMBER);
    PLANT(gy_stream_is_valid(streams, 0), streams->batch.members, 1u);
    PLANT(gy_stream_is_valid(streams, 0), stream->plain.ring.seqs[0], stream->tail + 1);
    streams->batch.state = GY_BATCH_OPEN;
    streams->batch.members = 1;
    stream->state = GY_STREAM_MEMBER;
    stream->line = &stream->lane;
    stream->lane.known[0] = stream->tail;
    PLANT(gy_stream_is_valid(streams, 0), streams->batch.state, GY_BATCH_CLOSED);
    streams->batch.state = GY_BATCH_CLOSED;
    streams->batch.members = 0;
    stream->state = GY_STREAM_PLAIN;
    stream->line = &stream->plain;
    PLANT(gy_stream_is_valid(streams, 0), stream->line, &stream->lane);
    PLANT(gy_stream_is_valid(streams, 0), stream->state, GY_STREAM_BEHIND);
    PLANT(gy_stream_is_valid(streams, 0), stream->behind.end, &stream->lane.ends[0]);
    PLANT(gy_streams_are_valid(streams), streams->busy, streams->busy + 1);
    PLANT(gy_streams_are_valid(streams), streams->in_use, streams->in_use + 1);
    PLANT(gy_streams_are_valid(streams), streams->count, streams->limit + 1);
}

static void test_clocks_and_deferred_blocks(void **state)
{
    (void)state;
    struct gy_clock clock = {.streams = 2, .home = 1, .seq = {0, 7}};
    PLANT(gy_clock_is_valid(&clock), clock.seq[1], 0);
    PLANT(gy_clock_is_valid(&clock), clock.home, GY_STREAMS_MAX);

    struct gy_deferred_block blocks[4] = {{.seq = 1}, {.seq = 2}};
    struct gy_deferred_queue queue = {.blocks = blocks, .tail = 2, .room = 4};
    PLANT(gy_deferred_queue_is_valid(&queue), queue.tail, 5);
    PLANT(gy_deferred_queue_is_valid(&queue), queue.room, 3);
    PLANT(gy_deferred_queue_is_valid(&queue), queue.blocks, NULL);
    PLANT(gy_deferred_queue_is_valid(&queue), blocks[0].seq, 3);
}

static void test_the_order_of_steps(void **state)
{
    (void)state;
    struct gy_streams *streams = &s.d->streams;
    struct gy_gpu_order order = {.streams = streams, .run = 1, .clear = 1};
    struct gy_step_bound *all = &order.bounds[GY_BOUND_ALL];
    all->before.streams = 1;
    all->before.seq[0] = streams->streams[0].tail;
    PLANT(gy_step_order_is_valid(&order), all->before.seq[0], streams->streams[0].tail + 1);
    PLANT(gy_step_order_is_valid(&order), all->before.seq[0], 0);
    PLANT(gy_step_order_is_valid(&order), order.during.streams, UINT64_C(1) << streams->count);
    PLANT(gy_step_order_is_valid(&order), all->is_fenced, true); /* there is no fence */
    PLANT(gy_step_order_is_valid(&order), order.run, 0);         /* nothing can be clear before it */
}

static void test_crossings(void **state)
{
    (void)state;
    int event = 0;
    struct gy_crossing_pool pool = {.devices = 2};
    struct gy_crossing *crossing = gy_zalloc(sizeof(*crossing) + 2 * sizeof(crossing->of[0]));
    assert_non_null(crossing);
    crossing->pool = &pool;
    crossing->exports[1] = (struct gy_export *)(void *)&event;
    PLANT(gy_crossing_is_valid(crossing), crossing->home, 3);
    PLANT(gy_crossing_is_valid(crossing), crossing->visits, 4); /* of a third device */
    PLANT(gy_crossing_is_valid(crossing), crossing->visits, 2); /* it has been there */
    PLANT(gy_crossing_is_valid(crossing), crossing->of[1].streams, 1);
    gy_free(crossing);
}

static void test_device_loops(void **state)
{
    (void)state;
    int place = 0;
    struct gy_unit unit = {.members = 1, .roots = 1};
    struct gy_device_loop loop = {.most = 4, .unit = &unit};
    unit.loop = &loop;
    PLANT(gy_device_loop_is_valid(&loop), loop.most, 0);
    PLANT(gy_device_loop_is_valid(&loop), loop.cpu_turns, 4);
    PLANT(gy_device_loop_is_valid(&loop), loop.state, GY_LOOP_ENDING + 1);
    PLANT(gy_device_loop_is_valid(&loop), loop.list, &s.d->loops);
    PLANT(gy_device_loop_is_valid(&loop), loop.record, (struct gy_while_record *)(void *)&place);
    PLANT(gy_device_loop_is_valid(&loop), unit.loop, NULL);
}

static void test_kept_graphs(void **state)
{
    (void)state;
    struct gy_kept_set *set = &s.d->graphs.kept;
    PLANT(gy_kept_is_valid(set), set->counts.count, GY_KEPT_MOST + 1);
    PLANT(gy_kept_is_valid(set), set->counts.node_count, GY_KEPT_NODES + 1);
    PLANT(gy_kept_is_valid(set), set->counts.nodes_set, set->counts.nodes_hit + 1);
}

static void test_completion_slots(void **state)
{
    (void)state;
    struct gy_completion_slot slot = {.state = GY_SLOT_WRITTEN, .kind = GY_SLOT_POINT, .task = s.kernel[0]};
    PLANT(gy_completion_slot_is_valid(&slot, GY_SLOT_WRITTEN), slot.state, GY_SLOT_LISTED);
    /* the slot has a task */
    PLANT(gy_completion_slot_is_valid(&slot, GY_SLOT_WRITTEN), slot.kind, GY_SLOT_WATCH);
    PLANT(gy_completion_slot_is_valid(&slot, GY_SLOT_WRITTEN), slot.stream, GY_STREAMS_MAX);
    struct gy_completion *c = &s.d->completion.rings[0];
    PLANT(gy_completion_is_valid(c), c->writer.written, atomic_load(&c->head) + GY_COMPLETION_SLOTS + 1);
    PLANT(gy_completion_is_valid(c), c->writer.written,
          c->writer.written + 1); /* a slot that is not WRITTEN */
    gy_mutex_lock(&c->lock);
    PLANT(gy_completion_lead_is_valid(c), c->lead.state, GY_LEAD_ENDED + 1);
    PLANT(gy_completion_lead_is_valid(c), c->lead.orphaned, true); /* no thread blocks */
    gy_mutex_unlock(&c->lock);
    struct gy_completion_list *list = &c->lists[0];
    PLANT(gy_completion_list_is_valid(c, 0), c->round.listed, 1u);
    PLANT(gy_completion_list_is_valid(c, 0), list->first, 0);
    list->first = list->last = 0;
    c->round.listed = 1;
    c->slots[0].state = GY_SLOT_LISTED;
    c->slots[0].next = GY_COMPLETION_NONE;
    PLANT(gy_completion_list_is_valid(c, 0), c->slots[0].state, GY_SLOT_PUBLISHED);
    PLANT(gy_completion_list_is_valid(c, 0), c->slots[0].next, 1); /* behind the last */
    c->slots[0].state = GY_SLOT_FREE;
    list->first = list->last = GY_COMPLETION_NONE;
    c->round.listed = 0;
}

static void test_graphs(void **state)
{
    (void)state;
    struct gy_graphs *g = &s.d->graphs;
    PLANT(gy_graphs_are_valid(g), s.d->streams.batch.state, GY_BATCH_OPEN);
    PLANT(gy_graphs_are_valid(g), g->trusts.count, GY_TRUSTS_FUNCTIONS);
}

static void test_the_gate_of_memory(void **state)
{
    (void)state;
    struct gy_gpu_memory memory = {.state = GY_MEMORY_WAITING, .bytes = {4096}, .held_back_count = 1};
    gy_gpu_list_append(&memory.held_back, s.kernel[0], s.kernel[0]);
    PLANT(gy_gpu_memory_is_valid(&memory), memory.state, GY_MEMORY_HELD);
    PLANT(gy_gpu_memory_is_valid(&memory), memory.held_back_count, 0);

    struct gy_admission *a = &s.d->admission;
    a->first = a->last = &memory;
    atomic_store(&a->was_declared, true);
    atomic_store(&a->stall.waiting, 1);
    PLANT(gy_gate_memory.is_valid(s.d), a->was_declared, false);
    PLANT(gy_gate_memory.is_valid(s.d), a->last, NULL);
    PLANT(gy_gate_memory.is_valid(s.d), a->held[0], 4096);
    PLANT(gy_gates_are_valid(s.d), memory.state, GY_MEMORY_IDLE);
    atomic_store(&a->stall.waiting, 2);
    assert_false(gy_gate_memory.is_valid(s.d));
    atomic_store(&a->stall.waiting, 0);
    a->first = a->last = NULL;
    atomic_store(&a->was_declared, false);
    assert_true(gy_gate_memory.is_valid(s.d));
}

static void test_the_gates_of_gpu_time(void **state)
{
    (void)state;
    static struct gy_quota quota;
    static struct gy_meter meter;
    meter.quotas[0] = &quota;
    PLANT(gy_meter_is_valid(&meter), meter.held_units, 1);
    PLANT(gy_meter_is_valid(&meter), meter.holds_ending, true);
    PLANT(gy_meter_is_valid(&meter), meter.closed, 1);
    PLANT(gy_meter_is_valid(&meter), meter.held[GD_KERNEL].last, s.kernel[0]);
    quota.meters[0] = &meter;
    s.d->shares.quotas[0] = &quota;
    atomic_store(&s.d->shares.count, 1);
    PLANT(gy_gate_share.is_valid(s.d), meter.held_units, 1);
    PLANT(gy_gates_are_valid(s.d), meter.held_units, 1);
    atomic_store(&s.d->shares.count, 0);
    s.d->shares.quotas[0] = NULL;
    assert_true(gy_gates_are_valid(s.d));
}

static void test_the_gate_of_units(void **state)
{
    (void)state;
    struct gy_unit unit = {.members = 2, .roots = 1, .needs = 1, .stage = GY_UNIT_WAITING};
    PLANT(gy_unit_is_valid(&unit), unit.arrived, 1); /* the task is not there */
    PLANT(gy_unit_is_valid(&unit), unit.settled, 2);
    PLANT(gy_unit_is_valid(&unit), unit.stage, GY_UNIT_LAUNCHED); /* there is no graph to launch */
    PLANT(gy_unit_is_valid(&unit), unit.recorded.completes, 1);
    gy_gpu_list_append(&unit.held, s.kernel[0], s.kernel[0]);
    unit.arrived = unit.settled = 1;
    s.d->units.due = s.d->units.last_due = &unit;
    PLANT(gy_gate_units.is_valid(s.d), unit.settled, 0);
    PLANT(gy_gate_units.is_valid(s.d), s.d->units.last_due, NULL);
    PLANT(gy_gates_are_valid(s.d), unit.stage, GY_UNIT_CALLED);
    s.d->units.due = s.d->units.last_due = NULL;
}

static void test_calls(void **state)
{
    (void)state;
    struct gy_round round = {.recording = NULL};
    s.kernel[0]->stream = 1;
    struct gantry_launch launch = {.dispatcher = s.d, .task = s.kernel[0], .round = &round};
    PLANT(gy_launch_is_valid(&launch), launch.round, NULL);
    PLANT(gy_launch_is_valid(&launch), launch.stream_index, s.d->streams.count);
    PLANT(gy_launch_is_valid(&launch), s.kernel[0]->stream, 2);
}

static void test_call_modes(void **state)
{
    (void)state;
    struct gy_unit unit = {.members = 1, .roots = 1, .stage = GY_UNIT_CALLED};
    struct gy_recording recording = {.unit = &unit};
    struct gy_round round = {.recording = NULL};
    struct gy_lane lane = {.nodes = NULL};
    s.kernel[0]->stream = 1;
    struct gantry_launch launch = {.dispatcher = s.d, .task = s.kernel[0], .round = &round};
    PLANT(gy_mode_is_valid(&launch), launch.mode, GY_MODE_SYNCHRONOUS); /* the context is not */
    PLANT(gy_mode_is_valid(&launch), launch.mode, GY_MODE_BATCH);       /* no graph is being built */
    PLANT(gy_mode_is_valid(&launch), launch.lane, &lane);
    PLANT(gy_mode_is_valid(&launch), s.d->streams.batch.state, GY_BATCH_OPEN);
    PLANT(gy_mode_is_valid(&launch), s.d->streams.batch.state,
          GY_BATCH_SUSPENDED); /* the mode is not AHEAD */

    s.d->streams.batch.state = GY_BATCH_OPEN;
    gy_mode_set(&launch, GY_MODE_BATCH);
    launch.lane = &lane;
    PLANT(gy_mode_is_valid(&launch), launch.mode, GY_MODE_PLAIN);
    PLANT(gy_mode_is_valid(&launch), launch.mode, GY_MODE_RECORDING); /* no unit is recorded */
    PLANT(gy_mode_is_valid(&launch), round.recording, &recording);
    s.d->streams.batch.state = GY_BATCH_CLOSED;
}

/* A gate that says no has the task; the gates behind it are not asked. */
static void test_a_task_asks_the_gates_in_order(void **state)
{
    (void)state;
    struct gy_unit other = {.members = 1, .roots = 1, .stage = GY_UNIT_CALLED};
    struct gy_recording recording = {.unit = &other};
    struct gy_round round = {.recording = &recording};
    assert_false(gy_gates_admit(s.d, &round, s.kernel[0]));
    assert_ptr_equal(recording.others.first, s.kernel[0]);
    assert_true(gy_gates_admit_behind_units(s.d, &round, s.kernel[0])); /* it declares no memory */
    round.recording = NULL;
    assert_true(gy_gates_admit(s.d, &round, s.kernel[1]));
    assert_false(gy_gates_concern_calls(s.d)); /* nothing is bounded, so no gate is asked */
    assert_int_equal(gy_gates_deadline(s.d), 0);
    assert_false(gy_gates_hold_calls(s.d));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_lists_and_bins, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(test_rounds, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(test_streams, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(test_clocks_and_deferred_blocks, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(test_completion_slots, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(test_the_order_of_steps, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(test_crossings, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(test_device_loops, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(test_kept_graphs, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(test_graphs, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(test_the_gate_of_memory, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(test_the_gates_of_gpu_time, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(test_the_gate_of_units, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(test_calls, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(test_call_modes, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(test_a_task_asks_the_gates_in_order, open_scene, close_scene),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
