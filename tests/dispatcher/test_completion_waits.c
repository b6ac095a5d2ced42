/* SPDX-License-Identifier: MIT */
/* The cost of waiting for the completion threads, in calls of the driver; and a thread that blocks on one
 * event keeps no task from hearing of other completions.  The emulated driver counts the calls; long work
 * is a gate, which the test opens, or which opens after a time. */
#include "base/clock.h"
#include "context/context.h"
#include "dispatcher/internal.h"
#include "taskman/cpu/worker.h"
#include "taskman/manager.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/emu_controls.h"
#include "tests/support/gpu_fixture.h"
#include "tests/support/stops.h"

#include <string.h>
#include <time.h>

#define LONG_NS 400000000u
#define LEARNT_NS 100000000u /* so long counts as long: the threads see it begin, on a busy machine, too */
#define WHILE_NS 20000000u
#define MANY 50u

#define USUALLY_SOON_NS 1000000u
#define USUALLY_LATE_NS 1000000000000u

#define GATES 8u

static struct gpu_fixture fixture;
static _Atomic(uint32_t) *gates; /* pinned; GATES of them, closed while 0 */
static uint32_t gates_used;
static struct gantry_emu_control emu;

/* A GPU task that ends when its gate opens, and the CPU task that its completion starts. */
struct gated {
    bool has_none;           /* it ends at once */
    uint64_t for_ns;         /* not 0: it opens by itself after so long */
    _Atomic(uint32_t) *gate; /* NULL: it has none, or one that opens by itself */
    _Atomic(bool) told;      /* atomic */
    gantry_task *task, *done;
};

static void pause_ns(uint64_t ns)
{
    struct timespec t = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    (void)nanosleep(&t, NULL);
}

static void stand_for_a_while(void *user)
{
    pause_ns(((const struct gated *)user)->for_ns);
}

static bool launch_gate(gantry_launch *launch, struct gated *gated)
{
    const struct gy_driver *driver = launch->dispatcher->config.context->driver;
    CUstream stream = gantry_launch_stream(launch);
    CUresult result = CUDA_SUCCESS;
    if (gated->gate != NULL) {
        result = driver->cuStreamWaitValue32(stream, (CUdeviceptr)(uintptr_t)gated->gate, 1,
                                             CU_STREAM_WAIT_VALUE_GEQ);
    } else if (!gated->has_none) {
        result = driver->cuLaunchHostFunc(stream, stand_for_a_while, gated);
    }
    return result == CUDA_SUCCESS;
}

static gantry_launch_result launch_gated(gantry_launch *launch, void *arg)
{
    struct gated *gated = arg;
    return launch_gate(launch, gated) && gantry_launch_add_completion(launch, gated->done) == GANTRY_OK
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

static gantry_status note_told(gantry_task *task, void *arg)
{
    (void)task;
    atomic_store(&((struct gated *)arg)->told, true);
    return GANTRY_OK;
}

static void submit(struct gated *gated)
{
    atomic_store(&gated->told, false);
    gated->gate = gated->has_none || gated->for_ns != 0 ? NULL : &gates[gates_used++ % GATES];
    if (gated->gate != NULL) {
        atomic_store(gated->gate, 0);
    }
    gated->done = gpu_fixture_cpu(&fixture, "told", note_told, gated);
    gated->task = gpu_fixture_gpu(&fixture, GANTRY_TASK_KERNEL, "gate", launch_gated, gated);
    gpu_fixture_after(gated->done, gated->task);
}

static struct gy_completion *open_ring(gantry_wait_mode mode)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.driver = GANTRY_DRIVER_EMULATED; /* the driver counts calls, and there are gates */
    options.completion_wait = mode;
    options.submission =
        GANTRY_SUBMISSION_STREAMS; /* a call that is made again asks for its completion again */
    gpu_fixture_open_with(&fixture, 1, &options);
    assert_true(emu_controls_open(&emu));
    void *pinned;
    assert_ok(gantry_heap_alloc(gantry_context_heap(fixture.context), GANTRY_MEMORY_PINNED,
                                GATES * sizeof(*gates), 0, GANTRY_ALLOC_SITE("gates"), &pinned));
    gates = pinned;
    return &gantry_context_dispatcher(fixture.context)->completion.rings[0];
}

static void close_ring(void)
{
    gy_point_hook(NULL);
    assert_ok(gantry_heap_free(gantry_context_heap(fixture.context), (void *)gates));
    gpu_fixture_close(&fixture);
}

static void open_gate(struct gated *gated)
{
    if (gated->gate != NULL) {
        atomic_store(gated->gate, 1);
    }
}

/* Open the last gate of a step. */
static void end_step(struct gated *gated, const char *what)
{
    open_gate(gated);
    deadline_begin(what);
    assert_ok(gpu_fixture_stop(&fixture));
    deadline_end();
    assert_true(atomic_load(&gated->told));
}

static void step_of(struct gated *gated)
{
    submit(gated);
    assert_ok(gantry_taskman_start(fixture.manager));
    end_step(gated, "a step with one long task");
}

/* When nothing else is pending, a wait that blocks makes one call of the driver after a look, however long
 * it takes. */
static void test_blocking_costs_a_few_calls(void **state)
{
    (void)state;
    struct gated gated = {.for_ns = LONG_NS};
    (void)open_ring(GANTRY_WAIT_BLOCK);
    emu.reset_counters();
    step_of(&gated);
    assert_in_range(emu.calls("cuEventSynchronize"), 1, 2);
    assert_in_range(emu.calls("cuEventQuery"), 1, 6);
    close_ring();
}

static bool is_blocking(struct gy_completion *ring)
{
    gy_mutex_lock(&ring->lock);
    bool blocks = ring->lead.blocking != NULL;
    gy_mutex_unlock(&ring->lock);
    return blocks;
}

/* One thread blocks, and the other one neither naps nor looks. */
static bool is_at_rest(struct gy_completion *ring)
{
    gy_mutex_lock(&ring->lock);
    bool rests = ring->lead.blocking != NULL && ring->lead.napper == NULL && ring->lead.state == GY_LEAD_FREE;
    gy_mutex_unlock(&ring->lock);
    return rests;
}

/* For a while nobody asks for an event. */
static bool nobody_looks(struct gy_completion *ring)
{
    bool rests = is_at_rest(ring);
    uint64_t before = emu.calls("cuEventQuery");
    pause_ns(WHILE_NS);
    return rests && is_at_rest(ring) && emu.calls("cuEventQuery") == before;
}

/* Once waits are known to be long, the modes that spin first block, too: while work runs that takes longer
 * than ever, no thread looks at it. */
static void test_spinning_threads_block_on_long_work(void **state)
{
    (void)state;
    const gantry_wait_mode modes[] = {GANTRY_WAIT_HYBRID, GANTRY_WAIT_ADAPTIVE};
    for (size_t i = 0; i < 2; i++) {
        struct gy_completion *ring = open_ring(modes[i]);
        struct gated gated = {.for_ns = LEARNT_NS};
        step_of(&gated);
        step_of(&gated);
        gated.for_ns = 0;
        submit(&gated);
        assert_ok(gantry_taskman_start(fixture.manager));
        deadline_await(is_blocking(ring), "a thread to block");
        /* A thread looks for the completion at the time when it was expected, and none does after that. */
        deadline_await(nobody_looks(ring), "looks and naps to end");
        assert_false(atomic_load(&gated.told));
        end_step(&gated, "a step with a task that takes longer than ever");
        close_ring();
    }
}

/* The tasks of a step beside a long one: on the CPU `when`, then younger tasks on the GPU, one by one, and
 * on the CPU `meanwhile`, if there is such a task. */
struct beside {
    gantry_task_fn when, meanwhile;
    struct gy_completion *ring;
    uint64_t news; /* flushes of the ring, when `when` had run */
};

static gantry_status when_blocking(gantry_task *task, void *arg)
{
    const struct beside *beside = arg;
    (void)task;
    deadline_await(is_blocking(beside->ring), "a thread to block");
    return GANTRY_OK;
}

/* The younger tasks are told although the long one still runs. */
static void run_beside(struct beside *beside, struct gated *older, struct gated *younger, uint32_t count)
{
    submit(older);
    gantry_task *before = gpu_fixture_cpu(&fixture, "when", beside->when, beside);
    if (beside->meanwhile != NULL) {
        gpu_fixture_after(gpu_fixture_cpu(&fixture, "meanwhile", beside->meanwhile, beside), before);
    }
    for (uint32_t i = 0; i < count; i++) {
        younger[i] = (struct gated){.has_none = true};
        submit(&younger[i]);
        gpu_fixture_after(younger[i].task, before);
        before = younger[i].done;
    }
    assert_ok(gantry_taskman_start(fixture.manager));
    deadline_await(atomic_load(&younger[count - 1].told),
                   "completions of younger work while older work runs");
    assert_false(atomic_load(&older->told));
    end_step(older, "a step with older and younger work");
}

static void test_a_thread_that_blocks_keeps_no_task(void **state)
{
    (void)state;
    static struct gated younger[MANY];
    const gantry_wait_mode modes[] = {GANTRY_WAIT_BLOCK, GANTRY_WAIT_HYBRID, GANTRY_WAIT_ADAPTIVE};
    for (size_t i = 0; i < 3; i++) {
        struct gy_completion *ring = open_ring(modes[i]);
        struct gated older = {.for_ns = LEARNT_NS};
        step_of(&older);
        step_of(&older);
        older.for_ns = 0;
        run_beside(&(struct beside){.when = when_blocking, .ring = ring}, &older, younger, MANY);
        close_ring();
    }
}

static gantry_status when_about_to_block(gantry_task *task, void *arg)
{
    struct beside *beside = arg;
    (void)task;
    stops_await(0);
    beside->news = atomic_load(&beside->ring->news);
    return GANTRY_OK;
}

static gantry_status block_when_told(gantry_task *task, void *arg)
{
    const struct beside *beside = arg;
    (void)task;
    deadline_await(atomic_load(&beside->ring->news) != beside->news, "completions to be published");
    stops_go(0);
    return GANTRY_OK;
}

/* Completions are published when a thread is about to block: it looks once more. */
static void test_a_thread_looks_once_more_before_it_blocks(void **state)
{
    (void)state;
    struct gy_completion *ring = open_ring(GANTRY_WAIT_BLOCK);
    struct gated older = {.for_ns = 0}, younger;
    stops_arm(0, GY_POINT_COMPLETION_BLOCK, ring);
    run_beside(&(struct beside){.when = when_about_to_block, .meanwhile = block_when_told, .ring = ring},
               &older, &younger, 1);
    close_ring();
}

static gantry_status when_about_to_block_or_tell(gantry_task *task, void *arg)
{
    struct beside *beside = arg;
    (void)task;
    stops_await(0);
    emu.reset_counters();
    stops_arm(1, GY_POINT_COMPLETION_TELL, beside->ring);
    return GANTRY_OK;
}

static gantry_status block_then_tell(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    stops_await(1);
    stops_go(0);
    deadline_await(emu.calls("cuEventSynchronize") == 1, "a thread to block");
    stops_go(1);
    return GANTRY_OK;
}

/* They are published before it looks, and told behind that: GD sees that it blocks, and calls another one. */
static void test_a_thread_may_block_while_it_is_told(void **state)
{
    (void)state;
    struct gy_completion *ring = open_ring(GANTRY_WAIT_BLOCK);
    struct gated older = {.for_ns = 0}, younger;
    stops_arm(0, GY_POINT_COMPLETION_BLOCK, ring);
    run_beside(
        &(struct beside){.when = when_about_to_block_or_tell, .meanwhile = block_then_tell, .ring = ring},
        &older, &younger, 1);
    close_ring();
}

/* The completions of two streams are pending, and a thread stops at `point`, about to block on one of
 * them. */
static void start_two(struct gy_completion *ring, enum gy_point point, struct gated *first,
                      struct gated *second)
{
    stops_arm(0, point, ring);
    submit(first);
    submit(second);
    assert_ok(gantry_taskman_start(fixture.manager));
    stops_await(0);
    deadline_await(gpu_fixture_stats(&fixture).completions == 2 &&
                       atomic_load(&ring->published) == atomic_load(&ring->head) + 2,
                   "both to be published");
}

/* It blocks on one of them, and leaves the other to the other thread, whichever stream it is. */
static void test_a_thread_that_blocks_leaves_the_rest_to_another(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct gy_completion *ring = open_ring(GANTRY_WAIT_BLOCK);
        struct gated both[2] = {{.for_ns = 0}, {.for_ns = 0}};
        start_two(ring, GY_POINT_COMPLETION_BLOCK, &both[0], &both[1]);
        stops_go(0);
        deadline_await(emu.calls("cuEventSynchronize") != 0, "a thread to block");
        open_gate(&both[i]);
        deadline_await(atomic_load(&both[i].told), "one of two completions");
        assert_false(atomic_load(&both[1 - i].told));
        end_step(&both[1 - i], "a step with two completions");
        assert_true(atomic_load(&both[i].told));
        close_ring();
    }
}

/* The lists are of the thread that leads, which is stopped.  Returns one that is pending, which is expected
 * before all others, or behind them. */
static uint32_t expect_one(struct gy_completion *ring, bool is_first)
{
    const uint32_t one = (uint32_t)__builtin_ctzll(ring->round.listed);
    for (uint32_t i = 0; i < GY_STREAMS_MAX; i++) {
        const uint64_t took_ns = (i == one) == is_first ? USUALLY_SOON_NS : USUALLY_LATE_NS;
        ring->lists[i].foresight = (struct gy_foresight){0};
        (void)gy_foresight_learn(&ring->lists[i].foresight, took_ns, took_ns, took_ns);
    }
    return one;
}

static uint32_t blocked_list(struct gy_completion *ring)
{
    gy_mutex_lock(&ring->lock);
    const uint32_t blocked = ring->lead.blocked_list;
    gy_mutex_unlock(&ring->lock);
    return blocked;
}

/* Of two that are pending a thread blocks on the one that usually takes less, whichever began first. */
static void test_a_thread_blocks_on_what_is_expected_first(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct gy_completion *ring = open_ring(GANTRY_WAIT_BLOCK);
        struct gated both[2] = {{.for_ns = 0}, {.for_ns = 0}};
        start_two(ring, GY_POINT_COMPLETION_BLOCK, &both[0], &both[1]);
        const uint32_t one = expect_one(ring, i == 0);
        emu.reset_counters();
        atomic_fetch_add(&ring->news, 1); /* so it chooses anew */
        stops_go(0);
        deadline_await(emu.calls("cuEventSynchronize") != 0, "a thread to block");
        const uint32_t chosen = blocked_list(ring);
        open_gate(&both[0]);
        end_step(&both[1], "a step with two completions");
        close_ring();
        assert_int_equal(chosen == one, i == 0);
    }
}

/* The other thread tells the completion on whose event one is about to block: the event is not used for
 * anything else before that thread is back (an assertion checks it). */
static void test_the_other_thread_may_tell_a_completion_that_one_blocks_on(void **state)
{
    (void)state;
    struct gy_completion *ring = open_ring(GANTRY_WAIT_BLOCK);
    struct gated first = {.for_ns = 0}, second = {.for_ns = 0};
    start_two(ring, GY_POINT_COMPLETION_EVENT, &first, &second);
    open_gate(&first);
    open_gate(&second);
    deadline_await(atomic_load(&first.told) && atomic_load(&second.told), "both completions");
    stops_go(0);
    end_step(&first, "a step with two completions");
    step_of(&first);
    close_ring();
}

/* Completions behind the one on which a thread blocks wake no thread: they cannot pass before it. */
static void test_more_on_the_same_stream_wakes_nobody(void **state)
{
    (void)state;
    static struct gated behind[MANY];
    struct gy_completion *ring = open_ring(GANTRY_WAIT_BLOCK);
    struct gated first = {.for_ns = 0};
    submit(&first);
    for (uint32_t i = 0; i < MANY; i++) {
        behind[i] = (struct gated){.has_none = true};
        submit(&behind[i]);
        gpu_fixture_after(behind[i].task, i == 0 ? first.task : behind[i - 1].task);
    }
    emu.reset_counters();
    assert_ok(gantry_taskman_start(fixture.manager));
    deadline_await(is_blocking(ring) && gpu_fixture_stats(&fixture).completions > MANY, "all to be launched");
    pause_ns(WHILE_NS);
    assert_in_range(emu.calls("cuEventQuery"), 1, 6);
    end_step(&first, "a step with completions behind the one that is blocked on");
    for (uint32_t i = 0; i < MANY; i++) {
        assert_true(atomic_load(&behind[i].told));
    }
    close_ring();
}

/* A wait that fails reports the loss, whichever thread leads then. */
static void test_a_wait_that_fails_loses_the_context(void **state)
{
    (void)state;
    const gantry_wait_mode modes[] = {GANTRY_WAIT_BLOCK, GANTRY_WAIT_HYBRID};
    for (size_t i = 0; i < 2; i++) {
        struct gated gated = {.for_ns = LEARNT_NS};
        (void)open_ring(modes[i]);
        step_of(&gated);
        step_of(&gated);
        assert_int_equal((emu.fail)("cuEventSynchronize", 1, CUDA_ERROR_ILLEGAL_ADDRESS, GANTRY_EMU_ONCE), 0);
        gantry_status status;
        deadline_begin("a step in which waiting fails");
        do { /* a thread that comes late finds the work done, and does not wait */
            submit(&gated);
            status = gpu_fixture_step(&fixture);
        } while (status == GANTRY_OK);
        deadline_end();
        assert_int_equal(status, GANTRY_ERR_DEVICE_LOST);
        assert_false(atomic_load(&gated.told));
        emu.clear_faults();
        close_ring();
    }
}

/* ---- who waits for an end -------------------------------------------------------------------------- */

#define USUAL_NS 20000000u

/* Whoever waits for a manager with this pool has woken up by its own alarm: it has learnt how late that was.
 */
static bool has_woken(gantry_cpu_dispatcher *pool)
{
    struct gy_oversleep at_first;
    gy_oversleep_init(&at_first);
    bool any = false;
    for (uint32_t i = 0; i < GY_OVERSLEEP_CLASSES; i++) {
        any = any || atomic_load(&pool->oversleep.late_ns[i]) != atomic_load(&at_first.late_ns[i]);
    }
    return any;
}

/* A thread that is kept from running misses an end now and then. */
#define TRIES 400u

static void until_woken(gantry_taskman *manager, struct gated *gated)
{
    gantry_taskman *before = fixture.manager;
    fixture.manager = manager;
    bool any = false;
    for (uint32_t i = 0; i < TRIES && !any; i++) {
        submit(gated);
        assert_ok(gpu_fixture_step(&fixture));
        any = has_woken(manager->as_owner.pool);
    }
    assert_true(any);
    fixture.manager = before;
    assert_int_equal(atomic_load(&manager->as_owner.alarm_ns), GY_ALARM_NONE);
}

/* With workers, as a guest or not, and without any; where the completion threads sleep, and where they spin.
 */
static void test_who_waits_wakes_up_for_a_usual_end(void **state)
{
    (void)state;
    const gantry_wait_mode modes[] = {GANTRY_WAIT_HYBRID, GANTRY_WAIT_ADAPTIVE, GANTRY_WAIT_SPIN};
    for (size_t i = 0; i < 3; i++) {
        struct gated gated = {.for_ns = USUAL_NS};
        (void)open_ring(modes[i]);
        until_woken(fixture.manager, &gated);
        gantry_dispatcher_stats stats = gpu_fixture_stats(&fixture);
        assert_true(stats.completion_awaited >= 2 && stats.completion_unseen_ns != 0);
        assert_true(stats.completion_looks >= stats.completion_awaited);
        gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
        gantry_taskman *alone = NULL;
        options.gpu_dispatcher = gantry_context_dispatcher(fixture.context);
        assert_ok(gantry_taskman_create(&options, &alone));
        until_woken(alone, &gated);
        gantry_taskman_destroy(alone);
        gpu_fixture_use_threads_only(&fixture);
        gy_oversleep_init(&fixture.cpus->oversleep);
        until_woken(fixture.manager, &gated);
        close_ring();
    }
}

#define DIFFERENT_NS 4000000u

/* Where the times differ, the thread that waits looks between naps, and leaves the completion threads alone.
 */
static void test_a_guest_looks_between_naps(void **state)
{
    (void)state;
    struct gated gated = {0};
    bool any = false;
    (void)open_ring(GANTRY_WAIT_HYBRID);
    for (uint32_t i = 0; i < TRIES && !any; i++) {
        gantry_dispatcher_stats before = gpu_fixture_stats(&fixture);
        gated.for_ns = i % 2 == 0 ? DIFFERENT_NS : 2 * DIFFERENT_NS;
        submit(&gated);
        assert_ok(gpu_fixture_step(&fixture));
        gantry_dispatcher_stats now = gpu_fixture_stats(&fixture);
        any = i > 1 && now.completion_awaited == before.completion_awaited + 1 &&
              now.completion_naps == before.completion_naps &&
              now.completion_unseen_ns - before.completion_unseen_ns < DIFFERENT_NS / 20;
    }
    assert_true(any);
    close_ring();
}

/* The end of a manager's work is foretold to those who wait for that manager. */
static void test_an_end_is_foretold_to_its_manager(void **state)
{
    (void)state;
    struct gy_completion *ring = open_ring(GANTRY_WAIT_HYBRID);
    gantry_dispatcher *d = gantry_context_dispatcher(fixture.context);
    struct gated gated = {.for_ns = USUAL_NS};
    struct gy_lookout lookout;
    step_of(&gated);
    step_of(&gated);
    gated.for_ns = 0;
    submit(&gated);
    assert_ok(gantry_taskman_start(fixture.manager));
    deadline_await(atomic_load(&ring->shown.foretold) != 0 || is_blocking(ring), "the end to be foretold");
    uint64_t before = gy_clock_ns();
    if (d->base.ops->next_end(d, fixture.manager, false, &lookout)) { /* else it is late by now */
        assert_true(lookout.from_ns < lookout.until_ns && before < lookout.until_ns);
    }
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_taskman *other = NULL;
    options.gpu_dispatcher = d;
    assert_ok(gantry_taskman_create(&options, &other));
    assert_false(d->base.ops->next_end(d, other, false, &lookout));
    gantry_taskman_destroy(other);
    end_step(&gated, "a step with a foretold end");
    assert_int_equal(atomic_load(&ring->shown.foretold), 0);
    close_ring();
}

/* Of several ends of a manager's work the first is foretold, whichever stream it is of. */
static void test_the_first_of_several_ends_is_foretold(void **state)
{
    (void)state;
    enum { ENDS = 3 };
    static const uint64_t orders[][ENDS] = {{1, 2, 3}, {3, 2, 1}, {2, 1, 3}, {2, 3, 1}};
    struct gy_completion *ring = open_ring(GANTRY_WAIT_HYBRID);
    gantry_dispatcher *d = gantry_context_dispatcher(fixture.context);
    for (size_t o = 0; o < sizeof(orders) / sizeof(orders[0]); o++) {
        const uint64_t now = gy_clock_ns();
        struct gy_lookout lookout;
        for (uint32_t i = 0; i < ENDS; i++) {
            struct gy_completion_list *list = &ring->lists[i];
            const uint64_t from_ns = now + orders[o][i] * USUALLY_LATE_NS;
            atomic_store(&list->owner, (uintptr_t)fixture.manager);
            atomic_store(&list->from_ns, from_ns);
            atomic_store(&list->until_ns, from_ns + USUALLY_SOON_NS);
        }
        atomic_store(&ring->shown.foretold, (1u << ENDS) - 1);
        assert_true(d->base.ops->next_end(d, fixture.manager, false, &lookout));
        atomic_store(&ring->shown.foretold, 0);
        assert_int_equal(lookout.from_ns, now + USUALLY_LATE_NS);
        assert_int_equal(lookout.until_ns, now + USUALLY_LATE_NS + USUALLY_SOON_NS);
    }
    close_ring();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocking_costs_a_few_calls),
        cmocka_unit_test(test_spinning_threads_block_on_long_work),
        cmocka_unit_test(test_a_thread_that_blocks_keeps_no_task),
        cmocka_unit_test(test_a_thread_looks_once_more_before_it_blocks),
        cmocka_unit_test(test_a_thread_may_block_while_it_is_told),
        cmocka_unit_test(test_a_thread_that_blocks_leaves_the_rest_to_another),
        cmocka_unit_test(test_a_thread_blocks_on_what_is_expected_first),
        cmocka_unit_test(test_the_other_thread_may_tell_a_completion_that_one_blocks_on),
        cmocka_unit_test(test_more_on_the_same_stream_wakes_nobody),
        cmocka_unit_test(test_a_wait_that_fails_loses_the_context),
        cmocka_unit_test(test_who_waits_wakes_up_for_a_usual_end),
        cmocka_unit_test(test_a_guest_looks_between_naps),
        cmocka_unit_test(test_an_end_is_foretold_to_its_manager),
        cmocka_unit_test(test_the_first_of_several_ends_is_foretold),
    };
    return cmocka_run_group_tests_name("completion_waits", tests, NULL, NULL);
}
