/* SPDX-License-Identifier: MIT */
/* Fleets: how they are made, which ones are refused, how they are lost, and in which order their parts may
 * be destroyed. */
#include "base/alloc.h"
#include "dispatcher/internal.h"
#include "dispatcher/order/export.h"
#include "heap/internal.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/deadline.h"
#include "tests/support/gpu_fixture.h"

#include <gantry/links.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static gantry_fleet *make_fleet(const char *devices)
{
    gantry_context_options context = GANTRY_CONTEXT_OPTIONS_INIT;
    context.driver = gpu_fixture_driver();
    context.mode = GANTRY_CONTEXT_OWN;
    gantry_fleet_options options = GANTRY_FLEET_OPTIONS_INIT;
    options.devices = devices;
    options.context = &context;
    gantry_fleet *fleet = NULL;
    assert_ok(gantry_fleet_create(&options, &fleet));
    return fleet;
}

static gantry_taskman *make_manager(gantry_fleet *fleet)
{
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    options.fleet = fleet;
    gantry_taskman *manager = NULL;
    assert_ok(gantry_taskman_create(&options, &manager));
    assert_ptr_equal(gantry_taskman_fleet(manager), fleet);
    assert_null(gantry_taskman_gpu_dispatcher(manager));
    return manager;
}

/* ---- making --------------------------------------------------------------------------------- */

static gantry_status try_list(const char *devices)
{
    gantry_context_options context = GANTRY_CONTEXT_OPTIONS_INIT;
    context.driver = gpu_fixture_driver();
    gantry_fleet_options options = GANTRY_FLEET_OPTIONS_INIT;
    options.devices = devices;
    options.context = &context;
    gantry_fleet *fleet = NULL;
    gantry_status status = gantry_fleet_create(&options, &fleet);
    assert_null(fleet);
    return status;
}

static void test_lists(void **state)
{
    (void)state;
    char past[24];
    const uint32_t there = gpu_fixture_devices();
    snprintf(past, sizeof(past), "0,%u", there);
    assert_int_equal(gantry_fleet_create(NULL, NULL), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(try_list(""), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(try_list("0,"), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(try_list("0,,1"), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(try_list("0,0"), GANTRY_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(gantry_last_error(), "'0' is in the list twice"));
    assert_int_equal(try_list(past), GANTRY_ERR_NO_DEVICE);
    gantry_fleet *fleet = make_fleet("all");
    assert_int_equal(gantry_fleet_device_count(fleet), there);
    gantry_fleet_destroy(fleet);
}

static void test_a_list_is_in_its_own_order(void **state)
{
    (void)state;
    if (gpu_fixture_lacks_devices(4)) {
        return;
    }
    assert_int_equal(try_list("1,0,1"), GANTRY_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(gantry_last_error(), "'1' is in the list twice"));
    gantry_fleet *fleet = make_fleet("3,1");
    assert_int_equal(gantry_fleet_device_count(fleet), 2);
    gantry_device_info info = {.struct_size = sizeof(info)};
    assert_ok(gantry_context_device_info(gantry_fleet_context(fleet, 0), &info));
    assert_int_equal(info.ordinal, 3);
    assert_null(gantry_fleet_context(fleet, 2));
    assert_null(gantry_fleet_context(NULL, 0));
    assert_int_equal(gantry_fleet_device_count(NULL), 0);
    gantry_context_destroy(gantry_fleet_context(fleet, 0)); /* it was refused */
    assert_true(gantry_context_is_valid(gantry_fleet_context(fleet, 0)));
    gantry_fleet_destroy(fleet);
    gantry_fleet_destroy(NULL);
}

static gantry_launch_result launch_nothing(gantry_launch *launch, void *arg)
{
    (void)arg;
    return gantry_launch_context(launch) != NULL ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static gantry_status run_nothing(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    return GANTRY_OK;
}

/* All devices of a fleet reach the memory of its heaps, and no others do but those that the application
 * names. */
static void test_heaps_are_reached_by_all_devices(void **state)
{
    (void)state;
    if (gpu_fixture_lacks_devices(2)) {
        return;
    }
    gantry_fleet *fleet = make_fleet("0,1");
    for (uint32_t i = 0; i < 2; i++) {
        gantry_link link = {.struct_size = sizeof(link)};
        assert_ok(gantry_link_get(gpu_fixture_driver(), (int)(1 - i), (int)i, &link));
        assert_int_equal(gantry_context_heap(gantry_fleet_context(fleet, i))->peers,
                         link.access != 0 ? UINT64_C(1) << (1 - i) : 0);
    }
    gantry_fleet_destroy(fleet);
}

static void test_what_is_refused(void **state)
{
    (void)state;
    if (gpu_fixture_lacks_devices(3)) {
        return;
    }
    gantry_fleet *fleet = make_fleet("0,1"), *other = make_fleet("2");
    gantry_taskman *manager = make_manager(fleet), *none = NULL;
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    options.fleet = fleet;
    options.gpu_dispatcher = gantry_context_dispatcher(gantry_fleet_context(fleet, 0));
    assert_int_equal(gantry_taskman_create(&options, &none), GANTRY_ERR_INVALID_ARGUMENT);
    options.gpu_dispatcher = NULL;
    gantry_share share = {sizeof(share), .percent = -1};
    options.share = &share;
    assert_int_equal(gantry_taskman_create(&options, &none), GANTRY_ERR_INVALID_ARGUMENT);
    assert_null(none);
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.run = run_nothing;
    desc.context = gantry_fleet_context(fleet, 1);
    assert_int_equal(gantry_taskman_submit(manager, &desc, NULL), GANTRY_ERR_INVALID_ARGUMENT);
    desc.run = NULL;
    desc.launch = launch_nothing;
    desc.kind = GANTRY_TASK_KERNEL;
    desc.context = gantry_fleet_context(other, 0);
    assert_int_equal(gantry_taskman_submit(manager, &desc, NULL), GANTRY_ERR_FOREIGN_HANDLE);
    gantry_taskman_destroy(manager);
    manager = make_manager(other); /* in a fleet of one the only context can be named */
    assert_ok(gantry_taskman_submit(manager, &desc, NULL));
    desc.context = gantry_fleet_context(fleet, 0);
    assert_int_equal(gantry_taskman_submit(manager, &desc, NULL), GANTRY_ERR_FOREIGN_HANDLE);
    assert_ok(gantry_taskman_start(manager));
    assert_ok(gantry_taskman_stop(manager));
    gantry_taskman_destroy(manager);
    gantry_fleet_destroy(other);
    gantry_fleet_destroy(fleet);
}

/* ---- loss ----------------------------------------------------------------------------------- */

struct pair {
    gantry_fleet *fleet;
    gantry_taskman *manager;
    gantry_task *after;    /* it starts when the GPU has done the task on the second device */
    _Atomic(uint32_t) ran; /* it has started */
};

static gantry_launch_result launch_and_break(gantry_launch *launch, void *arg)
{
    struct pair *p = arg;
    (void)launch;
    gantry_dispatcher_force_failure(gantry_context_dispatcher(gantry_fleet_context(p->fleet, 1)));
    return GANTRY_LAUNCH_DONE;
}

static gantry_launch_result launch_and_tell(gantry_launch *launch, void *arg)
{
    struct pair *p = arg;
    return gantry_launch_add_completion(launch, p->after) == GANTRY_OK ? GANTRY_LAUNCH_DONE
                                                                       : GANTRY_LAUNCH_FAILED;
}

static gantry_status run_after(gantry_task *task, void *arg)
{
    (void)task;
    struct pair *p = arg;
    atomic_fetch_add(&p->ran, 1);
    return GANTRY_OK;
}

static gantry_task *submit_gpu(struct pair *p, uint32_t device, gantry_launch_fn launch)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.kind = GANTRY_TASK_KERNEL;
    desc.launch = launch;
    desc.arg = p;
    desc.context = gantry_fleet_context(p->fleet, device);
    gantry_task *task = NULL;
    assert_ok(gantry_taskman_submit(p->manager, &desc, &task));
    return task;
}

/* The first device goes on with its own work; nothing on it that comes after the lost one's work is reported
 * as done. */
static void test_a_device_is_lost(void **state)
{
    (void)state;
    if (gpu_fixture_lacks_devices(2)) {
        return;
    }
    struct pair p = {.fleet = make_fleet("0,1")};
    p.manager = make_manager(p.fleet);
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.run = run_after;
    desc.arg = &p;
    assert_ok(gantry_taskman_submit(p.manager, &desc, &p.after));
    gantry_task *lost = submit_gpu(&p, 1, launch_and_break);
    gantry_task *next = submit_gpu(&p, 0, launch_and_tell);
    assert_ok(gantry_task_start_after(next, lost));
    assert_ok(gantry_task_start_after(p.after, next));
    deadline_begin("a step in which a device is lost");
    assert_ok(gantry_taskman_start(p.manager));
    assert_int_equal(gantry_taskman_stop(p.manager), GANTRY_ERR_DEVICE_LOST);
    deadline_end();
    assert_non_null(strstr(gantry_last_error(), "device 1: "));
    assert_int_equal(atomic_load(&p.ran), 0);
    for (uint32_t e = 0; e < 2; e++) {
        assert_false(gantry_context_is_valid(gantry_fleet_context(p.fleet, e)));
    }
    assert_ok(gantry_taskman_reset(p.manager));
    assert_int_equal(gantry_taskman_start(p.manager), GANTRY_ERR_DEVICE_LOST);
    gantry_taskman_destroy(p.manager);
    gantry_fleet_destroy(p.fleet);
}

/* ---- ends ----------------------------------------------------------------------------------- */

static void run_step(struct pair *p)
{
    gantry_task *first = submit_gpu(p, 1, launch_nothing), *second = submit_gpu(p, 0, launch_nothing);
    assert_ok(gantry_task_start_after(second, first));
    assert_ok(gantry_taskman_start(p->manager));
    assert_ok(gantry_taskman_stop(p->manager));
    assert_ok(gantry_taskman_reset(p->manager));
}

static void test_any_order_of_ends(void **state)
{
    (void)state;
    if (gpu_fixture_lacks_devices(2)) {
        return;
    }
    long before = gy_alloc_live();
    for (uint32_t order = 0; order < 4; order++) {
        struct pair p = {.fleet = make_fleet("0,1")};
        p.manager = make_manager(p.fleet);
        gantry_taskman *second = make_manager(p.fleet), *alone = NULL;
        gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
        options.gpu_dispatcher = gantry_context_dispatcher(gantry_fleet_context(p.fleet, 1));
        assert_ok(gantry_taskman_create(&options, &alone));
        run_step(&p);
        if (order == 0) {
            gantry_fleet_destroy(p.fleet);
        } else if (order == 1) { /* it waits for its first task, which nobody lets go any more */
            (void)submit_gpu(&p, 0, launch_nothing);
            assert_ok(gantry_taskman_start(p.manager));
            gantry_fleet_destroy(p.fleet);
            (void)!gantry_taskman_stop(p.manager);
        }
        gantry_taskman_destroy(p.manager);
        if (order == 2) {
            gantry_fleet_destroy(p.fleet);
        }
        gantry_taskman_destroy(alone);
        gantry_taskman_destroy(second);
        if (order == 3) {
            gantry_fleet_destroy(p.fleet);
        }
    }
    assert_int_equal(gy_alloc_live(), before);
}

/* ---- streams -------------------------------------------------------------------------------- */

enum { ROUNDS = 40 };

struct word {
    gantry_context *context;
    void *at;
};

static gantry_launch_result launch_word(gantry_launch *launch, void *arg)
{
    const struct word *word = arg;
    return gantry_launch_fill(launch, word->at, 1, 1, 4) == GANTRY_OK ? GANTRY_LAUNCH_DONE
                                                                      : GANTRY_LAUNCH_FAILED;
}

/* A task on the word's device that comes after `before`, and after the host has seen that done. */
static gantry_task *submit_seen(gantry_taskman *manager, struct word *word, gantry_task *before)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT, point = GANTRY_TASK_DESC_INIT;
    gantry_task *task, *seen;
    desc.kind = GANTRY_TASK_KERNEL;
    desc.label = "word";
    desc.launch = launch_word;
    desc.arg = word;
    desc.context = word->context;
    point.kind = GANTRY_TASK_SYNC_POINT;
    assert_ok(gantry_taskman_submit(manager, &desc, &task));
    if (before != NULL) {
        assert_ok(gantry_taskman_submit(manager, &point, &seen));
        assert_ok(gantry_task_start_after_done(seen, before));
        assert_ok(gantry_task_start_after(task, seen));
        assert_ok(gantry_task_start_after(task, before));
    }
    return task;
}

/* A task whose dependent is on another device frees its stream, also when that dependent never asks for it,
 * since the host has seen the work pass. */
static void test_a_chain_to_and_fro_needs_one_stream_on_each_device(void **state)
{
    (void)state;
    if (gpu_fixture_lacks_devices(2)) {
        return;
    }
    gantry_fleet *fleet = make_fleet("0,1");
    gantry_taskman *manager = make_manager(fleet);
    struct word words[2];
    gantry_task *last = NULL;
    for (uint32_t i = 0; i < 2; i++) {
        words[i].context = gantry_fleet_context(fleet, i);
        assert_ok(gantry_heap_alloc(gantry_context_heap(words[i].context), GANTRY_MEMORY_DEVICE, 4, 0,
                                    GANTRY_ALLOC_SITE("word"), &words[i].at));
    }
    for (uint32_t i = 0; i < ROUNDS; i++) {
        last = submit_seen(manager, &words[i % 2], last);
    }
    assert_ok(gantry_taskman_start(manager));
    assert_ok(gantry_taskman_stop(manager));
    assert_ok(gantry_taskman_reset(manager));
    for (uint32_t i = 0; i < 2; i++) {
        gantry_dispatcher_stats stats = {.struct_size = sizeof(stats)};
        gantry_context *context = words[i].context;
        assert_ok(gantry_dispatcher_get_stats(gantry_context_dispatcher(context), &stats));
        assert_int_equal(stats.tasks, ROUNDS / 2);
        assert_int_equal(stats.streams_peak, 1);
        assert_ok(gantry_context_synchronize(context));
        assert_ok(gantry_heap_free(gantry_context_heap(context), words[i].at));
    }
    gantry_taskman_destroy(manager);
    gantry_fleet_destroy(fleet);
}

/* ---- events between devices ----------------------------------------------------------------- */

static uint32_t count_exports(gantry_fleet *fleet, uint32_t device)
{
    const gantry_dispatcher *d = gantry_context_dispatcher(gantry_fleet_context(fleet, device));
    uint32_t count = 0;
    for (const struct gy_export *export = d->member.exports.all; export != NULL; export = export->next) {
        count++;
    }
    return count;
}

/* A chain to and fro, whose work begins when all of it is launched: each device waits for events of the
 * other.
 */
static void run_held_chain(gantry_fleet *fleet, gantry_taskman *manager, struct word *words,
                           const struct gantry_emu_control *emu)
{
    gantry_task *before = NULL;
    for (uint32_t i = 0; i < 6; i++) {
        gantry_task *task = submit_seen(manager, &words[i % 2], NULL);
        if (before != NULL) {
            assert_ok(gantry_task_start_after(task, before));
        }
        before = task;
    }
    emu->hold();
    assert_ok(gantry_taskman_start(manager));
    assert_ok(gantry_taskman_stop(manager));
    emu->release();
    for (uint32_t i = 0; i < 2; i++) {
        assert_ok(gantry_context_synchronize(gantry_fleet_context(fleet, i)));
    }
    assert_ok(gantry_taskman_reset(manager));
}

/* Each event is used again once all who wait for it have gone. */
static void test_events_between_devices_are_used_again(void **state)
{
    (void)state;
    struct gantry_emu_control emu;
    if (gpu_fixture_lacks_devices(2) || !gpu_fixture_controls(&emu)) {
        return;
    }
    gantry_fleet *fleet = make_fleet("0,1");
    gantry_taskman *manager = make_manager(fleet);
    struct word words[2];
    uint32_t early[2] = {0, 0};
    for (uint32_t i = 0; i < 2; i++) {
        words[i].context = gantry_fleet_context(fleet, i);
        assert_ok(gantry_heap_alloc(gantry_context_heap(words[i].context), GANTRY_MEMORY_DEVICE, 4, 0,
                                    GANTRY_ALLOC_SITE("word"), &words[i].at));
    }
    for (uint32_t round = 0; round < 2 * ROUNDS; round++) {
        run_held_chain(fleet, manager, words, &emu);
        for (uint32_t i = 0; i < 2 && round + 1 == ROUNDS; i++) {
            early[i] = count_exports(fleet, i);
        }
    }
    for (uint32_t i = 0; i < 2; i++) {
        assert_true(early[i] != 0); /* they have waited for each other */
        assert_true(count_exports(fleet, i) <= early[i] + 2);
        assert_ok(gantry_heap_free(gantry_context_heap(words[i].context), words[i].at));
    }
    gantry_taskman_destroy(manager);
    gantry_fleet_destroy(fleet);
}

int main(void)
{
    setenv("GANTRY_EMU_DEVICES", "4", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_a_list_is_in_its_own_order),
        cmocka_unit_test(test_heaps_are_reached_by_all_devices),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_a_chain_to_and_fro_needs_one_stream_on_each_device),
        cmocka_unit_test(test_events_between_devices_are_used_again),
        cmocka_unit_test(test_a_device_is_lost),
        cmocka_unit_test(test_any_order_of_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
