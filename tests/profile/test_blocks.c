/* SPDX-License-Identifier: MIT */
/* Slices of blocks: the file is the same however many threads encode it, and nothing is lost without being
 * counted. */
#include "tests/support/cmocka_c11.h"

#include "base/alloc.h"
#include "profile/blocks.h"
#include "profile/cta_tracks.h"
#include "profile/session.h"
#include "tests/profile/trace_reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_BLOCKS = 24000, MOST_LAUNCHES = 8, HOST_NS = 1000000000 };

static char path[64];
static uint32_t first_kernel;
static struct read_trace trace;
static long live; /* allocations before the tests: names */

/* One batch of a GPU, made from a number. */
struct made {
    struct gy_cta_batch batch;
    uint32_t gpu;
    struct gy_cta_launch launches[MOST_LAUNCHES];
    gantry_cta_record records[MOST_BLOCKS];
};

static uint64_t next(uint64_t *random)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return *random >> 33;
}

/* The properties of a batch; 0 in one of them means the usual value. */
struct shape {
    uint32_t blocks, launches, sms;
    uint32_t resident; /* blocks that an SM has at once */
    uint64_t begin_ns; /* GPU time */
};

static void make(struct made *made, const struct shape *shape, uint64_t *random)
{
    uint32_t sms = shape->sms != 0 ? shape->sms : 37, resident = shape->resident != 0 ? shape->resident : 4;
    uint32_t launches = shape->launches != 0 ? shape->launches : 1;
    memset(made->records, 0, sizeof(made->records));
    for (uint32_t l = 0; l < launches; l++) {
        uint32_t count = shape->blocks / launches;
        struct gy_cta_launch *launch = &made->launches[l];
        *launch = (struct gy_cta_launch){.first = l * count,
                                         .count = count,
                                         .kernel = first_kernel + l % 2,
                                         .stream = l,
                                         .id = l,
                                         .launched_ns = 1,
                                         .ended_ns = UINT64_MAX / 4};
        for (uint32_t b = 0; b < count; b++) {
            uint64_t wave = b / (sms * resident);
            made->records[launch->first + b] =
                (gantry_cta_record){shape->begin_ns + wave * 3000 + next(random) % 200,
                                    (uint32_t)(2000 + next(random) % 700 + (b % 1000 == 0 ? 90000 : 0)),
                                    b % sms | launch->kernel << GANTRY_CTA_SM_BITS};
        }
    }
    made->records[next(random) % shape->blocks].start_ns = 0; /* one block wrote nothing */
    made->batch = (struct gy_cta_batch){.records = made->records,
                                        .launches = made->launches,
                                        .launch_count = launches,
                                        .used = shape->blocks / launches * launches,
                                        .blocks = shape->blocks / launches * launches,
                                        .gpu = 1,
                                        .number = shape->begin_ns,
                                        .seen_ns = UINT64_MAX / 4,
                                        .clock = {.gpu_ns = shape->begin_ns + 5000,
                                                  .host_ns = shape->begin_ns + 5000 + HOST_NS,
                                                  .bound_ns = 10,
                                                  .before_gpu_ns = shape->begin_ns + 1000,
                                                  .before_host_ns = shape->begin_ns + 1000 + HOST_NS,
                                                  .before_bound_ns = 10,
                                                  .rate = 1}};
}

/* A recording under way. */
struct writer {
    struct gy_pftrace *trace;
    struct gy_cta_tracks *tracks;
    gy_pftrace_track gpus[2];
    off_t head; /* bytes of the file before the first track: they differ from time to time */
};

static bool open_writer(struct writer *w, gantry_profile_ctas ctas, uint32_t encoders, bool compress)
{
    struct stat file;
    if (gy_pftrace_open(path, compress, 2 + 4 * encoders, &w->trace) != GANTRY_OK) {
        return false;
    }
    gy_pftrace_flush(w->trace);
    w->head = stat(path, &file) == 0 ? file.st_size : 0;
    w->gpus[0] = gy_pftrace_add_track(w->trace, 1, "GPU 0", 0);
    w->gpus[1] = gy_pftrace_add_track(w->trace, 1, "GPU 1", 1);
    w->tracks = gy_cta_tracks_create(w->trace, ctas, encoders);
    if (w->tracks == NULL) {
        (void)gy_pftrace_close(w->trace, NULL);
    }
    return w->tracks != NULL;
}

static gantry_profile_stats close_writer(struct writer *w, gantry_status expected)
{
    gantry_profile_stats stats = {.struct_size = sizeof(stats)};
    gy_cta_tracks_finish(w->tracks);
    gy_cta_tracks_stats(w->tracks, &stats);
    gy_cta_tracks_destroy(w->tracks);
    assert_int_equal(gy_pftrace_close(w->trace, &stats.bytes), expected);
    return stats;
}

/* Batches of every kind: small and large ones, several launches, two GPUs, more blocks at once than an SM
 * has low numbers or lanes for, pauses, batches that come late. */
static const struct shape shapes[] = {
    {.blocks = 9000, .begin_ns = 100000},
    {.blocks = 9000, .begin_ns = 900000, .launches = 6},
    {.blocks = 50, .begin_ns = 1000000},
    {.blocks = 24000, .begin_ns = 1100000, .sms = 132, .resident = 16},
    {.blocks = 24000, .begin_ns = 1150000, .sms = 132, .resident = 16},
    {.blocks = 12000, .begin_ns = 1200000, .sms = 132, .resident = 40},
    {.blocks = 6000, .begin_ns = 1300000, .sms = 3, .resident = 300},
    {.blocks = 9000, .begin_ns = 50000},
    {.blocks = 9000, .begin_ns = 3000000, .launches = 8},
    {.blocks = 700, .begin_ns = 3000000, .launches = 7},
    {.blocks = 9000, .begin_ns = 900000000},
    {.blocks = 5000, .begin_ns = 9000000000},
    {.blocks = 9000, .begin_ns = 9000500000, .sms = 1},
    {.blocks = 20000, .begin_ns = 9001000000},
};
#define SHAPES (sizeof(shapes) / sizeof(shapes[0]))

static uint64_t blocks_of(const struct shape *shape)
{
    uint32_t launches = shape->launches != 0 ? shape->launches : 1;
    return shape->blocks / launches * launches;
}

/* Add two batches each of the first `count` shapes; returns how many blocks they have. */
static uint64_t write_shapes(struct writer *w, size_t count)
{
    static struct made made;
    uint64_t random = 7, blocks = 0;
    for (size_t i = 0; i < 2 * count; i++) {
        make(&made, &shapes[i / 2], &random);
        gy_cta_tracks_add(w->tracks, w->gpus[i % 3 == 0], &made.batch);
        memset(made.records, 0xff, sizeof(made.records)); /* the batch is not needed any more */
        blocks += blocks_of(&shapes[i / 2]);
    }
    return blocks;
}

/* The bytes behind the head of the file. */
static unsigned char *load(const struct writer *w, uint64_t size, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    *bytes = (size_t)size - (size_t)w->head;
    unsigned char *all = malloc(*bytes);
    assert_non_null(file);
    assert_non_null(all);
    assert_int_equal(fseek(file, w->head, SEEK_SET), 0);
    assert_int_equal(fread(all, 1, *bytes, file), *bytes);
    assert_int_equal(fgetc(file), EOF);
    (void)fclose(file);
    return all;
}

static void compare_files(gantry_profile_ctas ctas, bool compress, size_t first_way)
{
    static const uint32_t encoders[] = {1, 2, 8, 1, 3};
    unsigned char *first = NULL;
    size_t first_bytes = 0;
    for (size_t i = first_way; i < 5; i++) {
        struct writer w;
        size_t bytes;
        assert_true(open_writer(&w, ctas, encoders[i], compress));
        uint64_t blocks = write_shapes(&w, SHAPES);
        gantry_profile_stats stats = close_writer(&w, GANTRY_OK);
        assert_int_equal(stats.ctas + stats.ctas_lost, blocks);
        /* more than the blocks that wrote nothing: lanes run out */
        assert_true(stats.ctas_lost > 2 * SHAPES);
        assert_true(stats.ctas_lost < blocks / 20);
        unsigned char *all = load(&w, stats.bytes, &bytes);
        assert_true(first == NULL || (bytes == first_bytes && memcmp(all, first, bytes) == 0));
        free(first);
        first = all;
        first_bytes = bytes;
    }
    free(first);
    assert_int_equal(gy_alloc_live(), live);
}

static void test_the_file_is_the_same_with_any_number_of_threads(void **state)
{
    (void)state;
    compare_files(GANTRY_PROFILE_CTAS_EACH, false, getenv("GANTRY_TEST_LIGHT") != NULL ? 2 : 0);
}

static void test_and_with_numbers_of_blocks(void **state)
{
    (void)state;
    compare_files(GANTRY_PROFILE_CTAS_BLOCKS, false, 3);
}

static void test_and_deflated(void **state)
{
    (void)state;
    compare_files(GANTRY_PROFILE_CTAS_EACH, true, 3);
}

/* The block of a slice: its launch is in the name, and its number is an argument. */
static const gantry_cta_record *record_of(const struct made *made, const struct read_slice *slice)
{
    uint64_t block = reader_argument(slice, "block");
    uint32_t kernel = strcmp(slice->name, "odd") == 0;
    for (uint32_t l = kernel; l < made->batch.launch_count; l += 2) {
        const struct gy_cta_launch *launch = &made->launches[l];
        const gantry_cta_record *record = &made->records[launch->first + block];
        if (block < launch->count && record->start_ns + HOST_NS == slice->begin &&
            record->duration_ns == slice->end - slice->begin &&
            (record->origin & (GY_SMS - 1)) == strtoul(slice->track->name + 3, NULL, 10)) {
            return record;
        }
    }
    return NULL;
}

static void test_every_block_is_where_it_was(void **state)
{
    (void)state;
    static const struct shape shape = {.blocks = 6000, .launches = 3, .sms = 20, .begin_ns = 100000};
    static struct made made, none;
    static bool seen[MOST_BLOCKS];
    uint64_t random = 3;
    struct writer w;
    assert_true(open_writer(&w, GANTRY_PROFILE_CTAS_BLOCKS, 3, false));
    make(&made, &shape, &random);
    none = made;
    gy_cta_tracks_add(w.tracks, w.gpus[0], &none.batch);
    gantry_profile_stats stats = close_writer(&w, GANTRY_OK);
    assert_int_equal(stats.ctas, 5999);
    assert_int_equal(stats.ctas_lost, 1);
    const char *wrong = reader_load(path, &trace);
    if (wrong != NULL) {
        fail_msg("%s", wrong);
    }
    uint32_t found = 0;
    for (size_t i = 0; i < trace.slice_count; i++) {
        const struct read_slice *slice = &trace.slices[i];
        if (strncmp(slice->track->name, "SM ", 3) == 0) {
            const gantry_cta_record *record = record_of(&made, slice);
            assert_non_null(record);
            assert_false(seen[record - made.records]);
            seen[record - made.records] = true;
            found++;
        }
    }
    assert_int_equal(found, 5999);
    assert_true(trace.sequences >= 20 * 12); /* three launches at once, four blocks each */
    reader_free(&trace);
}

/* Times around each number of bytes that a time may have in the file. */
static void test_times_of_any_length(void **state)
{
    (void)state;
    static struct made made;
    struct writer w;
    uint64_t random = 1, now = 1000;
    uint32_t count = 0;
    make(&made, &(struct shape){.blocks = 200, .begin_ns = 1}, &random);
    for (uint32_t bits = 0; bits < 32; bits++) {
        for (int32_t step = -1; step < 2; step++) { /* as a duration, then as a pause */
            uint32_t ns = (uint32_t)((INT64_C(1) << bits) + step);
            made.records[count++] = (gantry_cta_record){now, ns, first_kernel << GANTRY_CTA_SM_BITS};
            now += 2 * (uint64_t)ns;
        }
    }
    made.launches[0].count = made.batch.used = made.batch.blocks = count;
    assert_true(open_writer(&w, GANTRY_PROFILE_CTAS_BLOCKS, 1, false));
    gy_cta_tracks_add(w.tracks, w.gpus[0], &made.batch);
    assert_int_equal(close_writer(&w, GANTRY_OK).ctas, count);
    assert_null(reader_load(path, &trace));
    uint32_t found = 0;
    for (size_t i = 0; i < trace.slice_count; i++) {
        const struct read_slice *slice = &trace.slices[i];
        if (strncmp(slice->track->name, "SM ", 3) == 0) {
            const gantry_cta_record *record = &made.records[reader_argument(slice, "block")];
            assert_int_equal(slice->begin, record->start_ns + HOST_NS);
            assert_int_equal(slice->end - slice->begin, record->duration_ns);
            found++;
        }
    }
    assert_int_equal(found, count);
    reader_free(&trace);
}

static void test_resident_blocks_are_counted_whoever_adds_them(void **state)
{
    (void)state;
    static struct made made;
    struct writer w;
    assert_true(open_writer(&w, GANTRY_PROFILE_CTAS_EACH, 4, false));
    uint64_t random = 1;
    make(&made, &(struct shape){.blocks = 6000, .begin_ns = 1}, &random);
    for (uint32_t b = 0; b < 6000; b++) { /* two on each SM, all the time, 100 us each */
        made.records[b] = (gantry_cta_record){1000000 + b / 200 * 100000, 100000,
                                              b % 100 | first_kernel << GANTRY_CTA_SM_BITS};
    }
    gy_cta_tracks_add(w.tracks, w.gpus[0], &made.batch);
    (void)close_writer(&w, GANTRY_OK);
    assert_null(reader_load(path, &trace));
    assert_int_equal(trace.count_count, 2);
    assert_int_equal(trace.counts[0].value, 200);
    assert_int_equal(trace.counts[0].time, HOST_NS + 1000000);
    assert_int_equal(trace.counts[1].value, 0);
    assert_int_equal(trace.counts[1].time, HOST_NS + 1000000 + 3000000);
    reader_free(&trace);
}

/* Each allocation and each thread fails once: slices that are not written are counted. */
static void test_what_fails_is_counted(void **state)
{
    (void)state;
    bool fired = true;
    uint32_t complete = 0;
    const long gap = getenv("GANTRY_TEST_LIGHT") != NULL ? 199 : 31;
    for (long nth = 0; fired; nth++) {
        struct writer w;
        gy_fault_arm(nth);
        bool opened = open_writer(&w, GANTRY_PROFILE_CTAS_EACH, 3, true);
        if (opened) {
            uint64_t blocks = write_shapes(&w, 3);
            fired = gy_fault_fired();
            gy_fault_arm(-1);
            gantry_profile_stats stats = close_writer(&w, GANTRY_OK);
            assert_int_equal(stats.ctas + stats.ctas_lost, blocks);
            assert_true(stats.ctas_lost < blocks); /* one failure is not the end */
            complete++;
        }
        gy_fault_arm(-1);
        assert_int_equal(gy_alloc_live(), live);
        nth += nth > 60 ? gap : 0; /* then come the lanes of the SMs, hundreds of them */
    }
    assert_true(complete > 20);
}

static void test_a_full_disk_ends_the_file(void **state)
{
    (void)state;
    char good[64];
    memcpy(good, path, sizeof(good));
    snprintf(path, sizeof(path), "/dev/full");
    for (uint32_t encoders = 1; encoders <= 4; encoders += 3) {
        struct writer w;
        assert_true(open_writer(&w, GANTRY_PROFILE_CTAS_EACH, encoders, false));
        uint64_t blocks = write_shapes(&w, SHAPES);
        gantry_profile_stats stats = close_writer(&w, GANTRY_ERR_IO);
        assert_int_equal(stats.ctas + stats.ctas_lost, blocks);
    }
    memcpy(path, good, sizeof(good));
}

static int remove_path(void **state)
{
    (void)state;
    unlink(path);
    return 0;
}

int main(void)
{
    static const char *const names[] = {"even", "odd"};
    if (gantry_profile_register_kernels(names, 2, &first_kernel) != GANTRY_OK) {
        return 1;
    }
    live = gy_alloc_live();
    snprintf(path, sizeof(path), "/tmp/gantry-blocks-%d.pftrace", (int)getpid());
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_the_file_is_the_same_with_any_number_of_threads, remove_path),
        cmocka_unit_test_teardown(test_and_with_numbers_of_blocks, remove_path),
        cmocka_unit_test_teardown(test_and_deflated, remove_path),
        cmocka_unit_test_teardown(test_what_fails_is_counted, remove_path),
        cmocka_unit_test_teardown(test_a_full_disk_ends_the_file, remove_path),
    };
    const struct CMUnitTest decoded[] = {
        cmocka_unit_test_teardown(test_every_block_is_where_it_was, remove_path),
        cmocka_unit_test_teardown(test_times_of_any_length, remove_path),
        cmocka_unit_test_teardown(test_resident_blocks_are_counted_whoever_adds_them, remove_path),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed != 0 || !reader_available() ? failed : cmocka_run_group_tests(decoded, NULL, NULL);
}
