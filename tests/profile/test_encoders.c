/* SPDX-License-Identifier: MIT */
/* Jobs in order and bytes in order, whichever thread does them and whenever they are ready. */
#include "tests/support/cmocka_c11.h"

#include "base/alloc.h"
#include "profile/encoders.h"
#include "profile/outlet.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { JOBS = 120, TURNS = 5, JOB_BYTES = 5003 };

static struct gy_encoders encoders;
static struct gy_turns turns[TURNS];
static atomic_uint begun, ended[TURNS];

struct numbered_job {
    struct gy_job job; /* first */
    uint32_t number;
    uint32_t begun_as, ended_as;
    struct gy_outlet *outlet;
    uint64_t ticket;
};

static struct numbered_job jobs[JOBS];

static void run_numbered(struct gy_job *job)
{
    struct numbered_job *mine = (struct numbered_job *)job;
    mine->begun_as = atomic_fetch_add(&ended[mine->number % TURNS], 0);
    for (uint32_t i = 0; i < mine->number * 7 % 5; i++) {
        sched_yield(); /* some take longer */
    }
    atomic_fetch_add(&begun, 1);
    mine->ended_as = atomic_fetch_add(&ended[mine->number % TURNS], 1);
}

static void add_all(uint32_t *left, void (*run)(struct gy_job *job))
{
    atomic_store(&begun, 0);
    memset(turns, 0, sizeof(turns));
    for (uint32_t t = 0; t < TURNS; t++) {
        atomic_store(&ended[t], 0);
    }
    for (uint32_t i = 0; i < JOBS; i++) {
        jobs[i].job = (struct gy_job){.run = run, .turns = &turns[i % TURNS], .left = left};
        jobs[i].number = i;
        gy_encoders_add(&encoders, &jobs[i].job);
    }
}

static void test_jobs_of_one_kind_follow_each_other(void **state)
{
    (void)state;
    for (uint32_t threads = 0; threads < 4; threads++) {
        uint32_t left = 0;
        memset(&encoders, 0, sizeof(encoders));
        assert_ok(gy_encoders_init(&encoders, threads));
        assert_false(gy_encoders_have_threads(&encoders)); /* threads are not started before there is work */
        add_all(&left, run_numbered);
        assert_int_equal(gy_encoders_have_threads(&encoders), threads != 0);
        gy_encoders_wait(&encoders, &left);
        assert_int_equal(left, 0);
        for (uint32_t i = 0; i < JOBS; i++) {
            assert_int_equal(jobs[i].begun_as, i / TURNS);
            assert_int_equal(jobs[i].ended_as, i / TURNS);
        }
        gy_encoders_fini(&encoders);
    }
}

static void test_without_threads_the_caller_does_it_all(void **state)
{
    (void)state;
    uint32_t left = 0;
    memset(&encoders, 0, sizeof(encoders));
    assert_ok(gy_encoders_init(&encoders, 3));
    gy_fault_arm(0);
    add_all(&left, run_numbered); /* its first thread cannot be started */
    assert_true(gy_fault_fired());
    gy_fault_arm(-1);
    assert_false(gy_encoders_have_threads(&encoders));
    assert_int_equal(atomic_load(&begun), 0);
    gy_encoders_wait(&encoders, &left);
    assert_int_equal(atomic_load(&begun), JOBS);
    gy_encoders_fini(&encoders);
}

static void test_the_default_is_sensible(void **state)
{
    (void)state;
    uint32_t count = gy_encoders_default();
    assert_in_range(count, 1, 8);
}

/* ---- the file ---------------------------------------------------------------------------------- */

/* Job i writes i * JOB_BYTES bytes of its number; later ones write several chunks. */
static void run_writer(struct gy_job *job)
{
    struct numbered_job *mine = (struct numbered_job *)job;
    size_t left = (size_t)mine->number * JOB_BYTES;
    for (;;) {
        struct gy_outlet_chunk *chunk = gy_outlet_take(mine->outlet, mine->ticket);
        size_t part = left < sizeof(chunk->bytes) ? left : sizeof(chunk->bytes);
        memset(chunk->bytes, (int)(mine->number % 251), part);
        chunk->used = part;
        left -= part;
        gy_outlet_put(mine->outlet, mine->ticket, chunk, left == 0);
        if (left == 0) {
            return;
        }
    }
}

static void check_file(const char *path, uint64_t bytes)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    static unsigned char part[JOBS * JOB_BYTES], same[JOBS * JOB_BYTES];
    uint64_t all = 0;
    for (uint32_t i = 0; i < JOBS; i++) {
        size_t expected = (size_t)i * JOB_BYTES;
        assert_int_equal(fread(part, 1, expected, file), expected);
        memset(same, (int)(i % 251), expected);
        assert_memory_equal(part, same, expected);
        all += expected;
    }
    assert_int_equal(fgetc(file), EOF);
    assert_int_equal(all, bytes);
    (void)fclose(file);
}

static void test_bytes_come_in_the_order_of_tickets(void **state)
{
    (void)state;
    static struct gy_outlet outlet;
    char path[64];
    snprintf(path, sizeof(path), "/tmp/gantry-outlet-%d", (int)getpid());
    for (uint32_t threads = 0; threads < 5; threads++) {
        uint32_t left = 0, chunks = threads < 3 ? 3 : 8; /* also fewer than there are threads */
        uint64_t bytes = 0;
        memset(&encoders, 0, sizeof(encoders));
        memset(&outlet, 0, sizeof(outlet));
        memset(turns, 0, sizeof(turns));
        assert_ok(gy_outlet_open(&outlet, path, false, chunks));
        assert_ok(gy_encoders_init(&encoders, threads));
        for (uint32_t i = 0; i < JOBS; i++) {
            jobs[i] =
                (struct numbered_job){.job = {.run = run_writer, .turns = &turns[i % TURNS], .left = &left},
                                      .number = i,
                                      .outlet = &outlet,
                                      .ticket = gy_outlet_ticket(&outlet)};
            gy_encoders_add(&encoders, &jobs[i].job);
            if (i % 100 == 99) { /* there are only so many tickets */
                gy_encoders_wait(&encoders, &left);
            }
        }
        gy_encoders_wait(&encoders, &left);
        assert_true(outlet.made <= chunks);
        assert_int_equal(outlet.free_count, outlet.made);
        assert_ok(gy_outlet_close(&outlet, NULL, &bytes));
        gy_encoders_fini(&encoders);
        check_file(path, bytes);
        assert_int_equal(gy_alloc_live(), 0);
    }
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_jobs_of_one_kind_follow_each_other),
        cmocka_unit_test(test_without_threads_the_caller_does_it_all),
        cmocka_unit_test(test_the_default_is_sensible),
        cmocka_unit_test(test_bytes_come_in_the_order_of_tickets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
