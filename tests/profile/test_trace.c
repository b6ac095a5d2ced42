/* SPDX-License-Identifier: MIT */
/* The file itself: protoc, a foreign reader, decodes it, and the result is compared with what was
 * recorded. */
#include "tests/support/cmocka_c11.h"

#include "base/alloc.h"
#include "base/span.h"
#include "base/thread.h"
#include "profile/session.h"
#include "tests/profile/trace_reader.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static char path[64];
static char here[64]; /* the main thread's track */
static struct read_trace trace;

static gantry_profile *started(void)
{
    snprintf(path, sizeof(path), "/tmp/gantry-trace-%d.pftrace", (int)getpid());
    snprintf(here, sizeof(here), "main thread");
    gantry_profile_options options = GANTRY_PROFILE_OPTIONS_INIT;
    options.path = path;
    gantry_profile *profile = NULL;
    assert_ok(gantry_profile_start(&options, &profile));
    return profile;
}

/* Stop the recording, load the file into `trace`, and check the rules for every trace. */
static void loaded(gantry_profile *profile, uint64_t spans)
{
    gantry_profile_stats stats = {.struct_size = sizeof(stats)};
    assert_ok(gantry_profile_stop(profile, &stats));
    assert_int_equal(gy_alloc_live(), 0);
    const char *wrong = reader_load(path, &trace);
    if (wrong != NULL) {
        fail_msg("%s: %s", path, wrong);
    }
    assert_int_equal(stats.spans, spans);
    assert_int_equal(stats.lost, 0);
    assert_int_equal(trace.slice_count, spans);
    assert_int_equal(trace.default_clock, 3);
    assert_int_equal(trace.primary_clock, 3);
    for (size_t i = 0; i < trace.slice_count; i++) {
        assert_true(trace.slices[i].begin <= trace.slices[i].end);
    }
}

static int unload(void **state)
{
    (void)state;
    reader_free(&trace);
    unlink(path);
    return 0;
}

/* The slice [begin, end] called `name`; NULL if there is none. */
static const struct read_slice *slice(const char *name, uint64_t begin, uint64_t end)
{
    for (size_t i = 0; i < trace.slice_count; i++) {
        const struct read_slice *s = &trace.slices[i];
        if (s->begin == begin && s->end == end && strcmp(s->name, name) == 0) {
            return s;
        }
    }
    return NULL;
}

static void emit(enum gy_span_category category, const char *name, uint64_t begin, uint64_t end, uint64_t id)
{
    struct gy_span_sink *sink = atomic_load(&gy_span_current);
    sink->emit(sink, category, name, begin, end, id);
}

static void test_slice_has_name_category_times_id_and_track(void **state)
{
    (void)state;
    static const char *const names[] = {"a task", "HtoD", "launch", "batch", "wait", "submit", "memory"};
    static const char *const categories[] = {"task", "phase", "launch", "batch", "wait", "submit", "memory"};
    gantry_profile *profile = started();
    for (unsigned i = 0; i < 7; i++) {
        emit((enum gy_span_category)i, names[i], 1000 + 100 * i, 1050 + 100 * i, UINT64_MAX - i);
    }
    loaded(profile, 7);
    for (unsigned i = 0; i < 7; i++) {
        const struct read_slice *s = slice(names[i], 1000 + 100 * i, 1050 + 100 * i);
        assert_non_null(s);
        assert_string_equal(s->category, categories[i]);
        assert_true(s->id == UINT64_MAX - i);
        assert_string_equal(s->track->name, here);
        assert_true(s->track->thread);
    }
    const struct read_track *process = reader_track(&trace, NULL, "gantry");
    assert_non_null(process);
    assert_true(process->process);
    assert_ptr_equal(reader_track(&trace, "gantry", here), trace.slices[0].track);
}

static void test_times_are_the_monotonic_clock(void **state)
{
    (void)state;
    uint64_t before = gy_clock_ns();
    gantry_profile *profile = started();
    gy_span_end(GY_SPAN_TASK, "now", gy_span_begin(), 0);
    uint64_t after = gy_clock_ns();
    loaded(profile, 1);
    assert_in_range(trace.slices[0].begin, before, after);
    assert_in_range(trace.slices[0].end, trace.slices[0].begin, after);
    assert_in_range(trace.monotonic_ns, before, after);
    assert_true(trace.realtime_ns > 1000000000000000000u); /* this comes after 2001 */
}

static void test_nested_slices_keep_their_extents(void **state)
{
    (void)state;
    gantry_profile *profile = started();
    emit(GY_SPAN_LAUNCH, "launch", 110, 120, 0);
    emit(GY_SPAN_LAUNCH, "launch", 120, 130, 0);
    emit(GY_SPAN_PHASE, "phase", 105, 130, 0);
    emit(GY_SPAN_LAUNCH, "launch", 140, 150, 0);
    emit(GY_SPAN_PHASE, "phase", 135, 155, 0);
    emit(GY_SPAN_BATCH, "batch", 100, 160, 0);
    loaded(profile, 6);
    assert_non_null(slice("launch", 110, 120));
    assert_non_null(slice("launch", 120, 130));
    assert_non_null(slice("launch", 140, 150));
    assert_non_null(slice("phase", 105, 130));
    assert_non_null(slice("phase", 135, 155));
    assert_non_null(slice("batch", 100, 160));
    for (size_t i = 0; i < 6; i++) {
        assert_string_equal(trace.slices[i].track->name, here); /* one track is enough */
    }
}

static void test_slices_that_do_not_nest_keep_their_extents(void **state)
{
    (void)state;
    gantry_profile *profile = started();
    emit(GY_SPAN_TASK, "a", 100, 200, 0);
    emit(GY_SPAN_TASK, "b", 150, 250, 0); /* it overlaps a */
    emit(GY_SPAN_TASK, "c", 100, 300, 0); /* it begins with a */
    emit(GY_SPAN_TASK, "c", 100, 300, 0); /* it is there twice */
    emit(GY_SPAN_TASK, "d", 300, 300, 0);
    emit(GY_SPAN_TASK, "d", 300, 300, 0);
    loaded(profile, 6);
    assert_non_null(slice("a", 100, 200));
    assert_non_null(slice("b", 150, 250));
    assert_non_null(slice("c", 100, 300));
    assert_non_null(slice("d", 300, 300));
    char name[96];
    snprintf(name, sizeof(name), "%s: overlapping", here);
    assert_non_null(reader_track(&trace, here, name));
}

static void test_random_slices_all_survive(void **state)
{
    (void)state;
    enum { COUNT = 5000 };
    static uint64_t times[COUNT][2];
    uint64_t random = 12345;
    gantry_profile *profile = started();
    for (size_t i = 0; i < COUNT; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        times[i][0] = i * 4 + (random >> 60);
        times[i][1] = times[i][0] + (random >> 40) % 20;
        emit(GY_SPAN_TASK, i % 2 == 0 ? "even" : "odd", times[i][0], times[i][1], i);
    }
    loaded(profile, COUNT);
    uint64_t wrong = 0;
    for (size_t i = 0; i < COUNT; i++) {
        const struct read_slice *s = &trace.slices[i];
        wrong += s->id >= COUNT || times[s->id][0] != s->begin || times[s->id][1] != s->end ||
                 strcmp(s->name, s->id % 2 == 0 ? "even" : "odd") != 0;
    }
    assert_int_equal(wrong, 0);
}

static void test_names_beyond_the_table_are_still_right(void **state)
{
    (void)state;
    enum { COUNT = 9000 };
    gantry_profile *profile = started();
    for (uint64_t i = 0; i < COUNT; i++) {
        char name[32];
        snprintf(name, sizeof(name), "task %u", (unsigned)i);
        emit(GY_SPAN_TASK, name, i * 10, i * 10 + 5, i);
        emit(GY_SPAN_TASK, "same", i * 10 + 6, i * 10 + 8, COUNT);
    }
    loaded(profile, 2 * COUNT);
    assert_true(trace.resets > 1);
    uint64_t wrong = 0;
    for (size_t i = 0; i < trace.slice_count; i++) {
        const struct read_slice *s = &trace.slices[i];
        char name[32];
        snprintf(name, sizeof(name), "task %u", (unsigned)s->id);
        wrong += strcmp(s->name, s->id == COUNT ? "same" : name) != 0;
    }
    assert_int_equal(wrong, 0);
}

static void test_odd_names_are_kept_or_cut_cleanly(void **state)
{
    (void)state;
    char name[200], cut[200];
    memset(name, 'n', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    snprintf(cut, sizeof(cut), "%.51s", name);
    gantry_profile *profile = started();
    emit(GY_SPAN_TASK, name, 10, 20, 0);
    emit(GY_SPAN_TASK, "quote \" back \\ slash", 30, 40, 0);
    emit(GY_SPAN_TASK,
         "gr\xC3\xBC\xC3\x9F"
         "e",
         50, 60, 0);
    loaded(profile, 3);
    assert_non_null(slice(cut, 10, 20));
    assert_non_null(slice("quote \" back \\ slash", 30, 40));
    assert_non_null(slice("gr\xC3\xBC\xC3\x9F"
                          "e",
                          50, 60));
}

static void worker(void *arg)
{
    uint64_t base = (uint64_t)(uintptr_t)arg;
    for (uint64_t i = 0; i < 500; i++) {
        emit(GY_SPAN_TASK, "work", base + i * 10, base + i * 10 + 9, base);
    }
}

static void test_each_thread_has_its_track(void **state)
{
    (void)state;
    static const char *const names[] = {"gantry worker 0", "gantry worker 1", "gantry GD",
                                        "gantry completion"};
    gantry_profile *profile = started();
    gy_thread threads[4];
    for (uintptr_t i = 0; i < 4; i++) {
        assert_ok(gy_thread_start(&threads[i], names[i], worker, (void *)((i + 1) * 10000)));
    }
    for (size_t i = 0; i < 4; i++) {
        gy_thread_join(&threads[i]);
    }
    loaded(profile, 2000);
    size_t wrong = 0;
    for (size_t i = 0; i < trace.slice_count; i++) {
        const struct read_slice *s = &trace.slices[i];
        wrong += strcmp(s->track->name, names[s->id / 10000 - 1]) != 0 || s->begin < s->id ||
                 s->end >= s->id + 10000;
    }
    assert_int_equal(wrong, 0);
    for (size_t i = 0; i < 4; i++) {
        const struct read_track *track = reader_track(&trace, "gantry", names[i]);
        assert_non_null(track);
        assert_true(track->thread);
    }
}

static void test_gpu_slices_are_events_of_queues(void **state)
{
    (void)state;
    gantry_profile *profile = started();
    uint64_t generation = gy_profile_generation();
    uint32_t gpus[2] = {gy_profile_add_gpu(generation, "GPU 0: one"),
                        gy_profile_add_gpu(generation, "GPU 1: two")};
    for (uint32_t i = 0; i < 6; i++) {
        struct gy_gpu_slice s = {.gpu = gpus[i % 2],
                                 .stream = i / 2,
                                 .name = i < 4 ? "kernel" : "copy",
                                 .begin_ns = 100 * i,
                                 .end_ns = 100 * i + 50,
                                 .id = i};
        gy_profile_gpu_slice(generation, &s);
    }
    struct gy_gpu_slice over = {
        .gpu = gpus[0], .stream = 0, .name = "overlaps", .begin_ns = 25, .end_ns = 75, .id = UINT64_MAX};
    gy_profile_gpu_slice(generation, &over);
    gy_span_end(GY_SPAN_WAIT, "wait", gy_span_begin(), 0);
    loaded(profile, 8);
    for (uint32_t i = 0; i < 6; i++) {
        const struct read_slice *s = slice(i < 4 ? "kernel" : "copy", 100 * i, 100 * i + 50);
        char name[32];
        snprintf(name, sizeof(name), "stream %u", i / 2);
        assert_non_null(s);
        assert_string_equal(s->category, "gpu");
        assert_string_equal(s->track->name, name);
        assert_int_equal(s->gpu, i % 2);
        assert_int_equal(s->id, i);
    }
    const struct read_slice *s = slice("overlaps", 25, 75), *k = slice("kernel", 0, 50);
    assert_non_null(s);
    assert_true(s->id == UINT64_MAX && s->track == k->track);
}

/* The application gives a slice with its times and its number, which goes to its thread's track. */
static void test_slices_of_the_application_are_in_the_file(void **state)
{
    (void)state;
    assert_int_equal(gantry_profile_now(), 0);
    assert_ok(gantry_profile_span("before", 10, 20, 1)); /* nothing is recorded */
    gantry_profile *profile = started();
    uint64_t begin = gantry_profile_now(), end;
    do {
        end = gantry_profile_now();
    } while (end == begin);
    assert_true(begin != 0);
    assert_ok(gantry_profile_span("present", 500, 900, UINT64_MAX)); /* a time stamp from the renderer */
    assert_ok(gantry_profile_span("vkQueueSubmit", begin, end, 7));
    assert_ok(gantry_profile_span("begun while off", 0, end, 2));
    assert_ok(gantry_profile_span("ended while off", begin, 0, 3));
    assert_int_equal(gantry_profile_span("turned", 30, 20, 4), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_profile_span(NULL, 10, 20, 5), GANTRY_ERR_INVALID_ARGUMENT);
    loaded(profile, 2);
    const struct read_slice *submit = slice("vkQueueSubmit", begin, end),
                            *present = slice("present", 500, 900);
    assert_non_null(submit);
    assert_string_equal(submit->category, "application");
    assert_string_equal(submit->track->name, here);
    assert_int_equal(submit->id, 7);
    assert_non_null(present);
    assert_true(present->id == UINT64_MAX && present->track == submit->track);
}

static void test_names_of_queues_outlive_the_table(void **state)
{
    (void)state;
    enum { COUNT = 5000 };
    gantry_profile *profile = started();
    uint64_t generation = gy_profile_generation();
    uint32_t gpu = gy_profile_add_gpu(generation, "GPU 0: one");
    for (uint32_t i = 0; i < COUNT; i++) {
        char name[32];
        snprintf(name, sizeof(name), "task %u", i);
        struct gy_gpu_slice s = {
            .gpu = gpu, .stream = i % 3, .name = name, .begin_ns = i, .end_ns = i + 1, .id = i};
        gy_profile_gpu_slice(generation, &s);
    }
    loaded(profile, COUNT);
    assert_true(trace.resets > 1);
    uint64_t wrong = 0;
    for (size_t i = 0; i < trace.slice_count; i++) {
        char name[32];
        snprintf(name, sizeof(name), "task %u", (unsigned)trace.slices[i].id);
        wrong += strcmp(trace.slices[i].name, name) != 0;
    }
    assert_int_equal(wrong, 0);
}

static void test_arrows_join_things_with_a_common_number(void **state)
{
    (void)state;
    gantry_profile *profile = started();
    for (uint64_t i = 1; i <= 8; i++) {
        gy_span_add_flow(i * 1000);
    }
    gy_span_add_flow(0); /* there is none */
    gy_span_emit(GY_SPAN_SUBMIT, "submit", 10, 20, 8);
    for (uint64_t i = 1; i <= 8; i++) {
        gy_span_add_flow(i * 1000);
        gy_span_emit(GY_SPAN_LAUNCH, "launch", 20 + i * 10, 25 + i * 10, i);
    }
    gy_span_add_flow(77);
    gy_span_end(GY_SPAN_WAIT, "unrecorded", 0, 0); /* and its flow is forgotten */
    gy_span_emit(GY_SPAN_WAIT, "wait", 500, 501, 0);
    loaded(profile, 10);
    const struct read_slice *submit = slice("submit", 10, 20);
    assert_non_null(submit);
    assert_int_equal(submit->flow_count, 8);
    for (uint64_t i = 1; i <= 8; i++) {
        const struct read_slice *launch = slice("launch", 20 + i * 10, 25 + i * 10);
        assert_non_null(launch);
        assert_int_equal(launch->flow_count, 1);
        assert_int_equal(launch->flows[0], i * 1000);
        assert_true(reader_joined(submit, launch));
    }
    assert_int_equal(slice("wait", 500, 501)->flow_count, 0);
}

int main(void)
{
    if (!reader_available()) {
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_slice_has_name_category_times_id_and_track, unload),
        cmocka_unit_test_teardown(test_times_are_the_monotonic_clock, unload),
        cmocka_unit_test_teardown(test_nested_slices_keep_their_extents, unload),
        cmocka_unit_test_teardown(test_slices_that_do_not_nest_keep_their_extents, unload),
        cmocka_unit_test_teardown(test_random_slices_all_survive, unload),
        cmocka_unit_test_teardown(test_names_beyond_the_table_are_still_right, unload),
        cmocka_unit_test_teardown(test_odd_names_are_kept_or_cut_cleanly, unload),
        cmocka_unit_test_teardown(test_each_thread_has_its_track, unload),
        cmocka_unit_test_teardown(test_gpu_slices_are_events_of_queues, unload),
        cmocka_unit_test_teardown(test_slices_of_the_application_are_in_the_file, unload),
        cmocka_unit_test_teardown(test_names_of_queues_outlive_the_table, unload),
        cmocka_unit_test_teardown(test_arrows_join_things_with_a_common_number, unload),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
