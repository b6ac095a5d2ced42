/* SPDX-License-Identifier: MIT */
/* The arithmetic of limits: the bucket's promise, gaps, charges and costs; and the region's rules. */
#include "limit/costs.h"
#include "limit/job.h"
#include "limit/meter_inside.h"
#include "limit/pace.h"
#include "limit/region.h"
#include "tests/support/cmocka_c11.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MS UINT64_C(1000000)
#define S (1000 * MS)
#define BEGIN (5 * S)

static struct gy_region region; /* of each test, all zero at its beginning */
static struct gy_region_place job = {.region = &region, .slot = 3};

static int clear(void **state)
{
    (void)state;
    memset(&region, 0, sizeof(region));
    job.settings = (struct gy_region_settings){.share = 300000, .devices = 1, .credit_ms = 1000};
    return gy_region_device(&region, 77, BEGIN);
}

static uint64_t random_state = 1;

static uint64_t roll(uint64_t below)
{
    random_state = random_state * UINT64_C(6364136223846793005) + 1;
    return (random_state >> 33) % below;
}

/* ---- the bucket --------------------------------------------------------------------------------- */

/* A program that always has work gets the share: in any time, within the burst and two pieces. */
static void test_share_is_kept(void **state)
{
    (void)state;
    for (uint32_t share = 1000; share <= 900000; share = share * 3 + 7) {
        assert_int_equal(clear(NULL), 0);
        job.settings.share = share;
        uint64_t now = BEGIN, used = 0, longest = 0, ready = 0;
        while (now < BEGIN + 60 * S) {
            if (gy_pace_ask(&region, 0, &job.settings, now, &ready) == GY_PACE_HOLD) {
                assert_true(ready > now);
                now = ready;
                continue;
            }
            const uint64_t piece = 1000 + roll(5 * MS);
            gy_pace_reserve(&job, 0, MS);
            now += piece;
            gy_pace_give_back(&job, 0, MS);
            gy_pace_charge(&job, 0, piece, now);
            used += piece;
            longest = piece > longest ? piece : longest;
        }
        const double wanted = (double)(now - BEGIN) * share / GY_REGION_WHOLE;
        assert_true((double)used <= wanted + (double)(GY_PACE_BURST_NS + 2 * longest));
        assert_true((double)used >= wanted - (double)(2 * longest) - GY_PACE_RESUME_NS);
        assert_int_equal(atomic_load(&region.devices[0].charged), used);
    }
}

/* All of a device is no limit, whatever is in flight or charged. */
static void test_the_whole_is_not_held(void **state)
{
    (void)state;
    uint64_t ready = 0;
    job.settings.share = GY_REGION_WHOLE;
    gy_pace_reserve(&job, 0, 10 * S);
    gy_pace_charge(&job, 0, 10 * S, BEGIN);
    assert_int_equal(gy_pace_ask(&region, 0, &job.settings, BEGIN, &ready), GY_PACE_GO);
}

/* Who uses less than the share, in bursts that the bucket can save for, is never held. */
static void test_frugal_is_not_held(void **state)
{
    (void)state;
    uint64_t now = BEGIN + S, ready = 0; /* the job began a second ago */
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(gy_pace_ask(&region, 0, &job.settings, now, &ready), GY_PACE_GO);
        gy_pace_charge(&job, 0, 5 * MS, now + 5 * MS);
        now += 20 * MS;
    }
}

/* A new bucket is empty, an idle one saves the burst and no more, a busy one no more than a second. */
static void test_saving(void **state)
{
    (void)state;
    uint64_t ready = 0, used = 0, now = BEGIN + 1000 * S;
    while (gy_pace_ask(&region, 0, &job.settings, now, &ready) == GY_PACE_GO && used < S) {
        gy_pace_charge(&job, 0, MS, now);
        used += MS;
    }
    assert_true(used >= GY_PACE_BURST_NS && used <= GY_PACE_BURST_NS + 2 * MS);
    gy_pace_reserve(&job, 0, 1);
    now += 1000 * S;
    used = 0;
    while (gy_pace_ask(&region, 0, &job.settings, now, &ready) == GY_PACE_GO && used < 2 * S) {
        gy_pace_charge(&job, 0, MS, now);
        used += MS;
    }
    assert_true(used >= 299 * MS && used <= 302 * MS);
}

/* What is in flight takes tokens; when it does not end, one launch a second goes on credit. */
static void test_credit(void **state)
{
    (void)state;
    struct gy_region_device *device = &region.devices[0];
    uint64_t now = BEGIN, ready = 0;
    assert_int_equal(gy_pace_ask(&region, 0, &job.settings, now, &ready), GY_PACE_GO);
    gy_pace_reserve(&job, 0, 100 * S);
    assert_int_equal(gy_pace_ask(&region, 0, &job.settings, now + 999 * MS, &ready), GY_PACE_HOLD);
    assert_int_equal(gy_pace_ask(&region, 0, &job.settings, now + S, &ready), GY_PACE_CREDIT);
    assert_int_equal(gy_pace_ask(&region, 0, &job.settings, now + S + 1, &ready), GY_PACE_HOLD);
    assert_int_equal(gy_pace_ask(&region, 0, &job.settings, now + 2 * S, &ready), GY_PACE_CREDIT);
    assert_int_equal(atomic_load(&device->credits), 2);
    gy_pace_give_back(&job, 0, 100 * S);
    gy_pace_charge(&job, 0, 10 * S, now + 3 * S);
    assert_int_equal(gy_pace_ask(&region, 0, &job.settings, now + 10 * S, &ready),
                     GY_PACE_HOLD); /* a debt is waited for */
    assert_true(ready > now + 30 * S);
}

/* Whatever a neighbour has written, an answer comes, and time passes it by. */
static void test_wild_numbers(void **state)
{
    (void)state;
    struct gy_region_device *device = &region.devices[0];
    static const uint64_t wild[] = {0, 1, BEGIN, UINT64_MAX / 2, UINT64_MAX - 1, UINT64_MAX};
    for (size_t i = 0; i < 6; i++) {
        for (size_t k = 0; k < 6; k++) {
            uint64_t ready = 0;
            atomic_store(&device->paid_until, wild[i]);
            atomic_store(&device->in_flight, wild[k]);
            atomic_store(&device->progress, wild[5 - k]);
            job.settings.share = (uint32_t)wild[i];
            (void)gy_pace_ask(&region, 0, &job.settings, BEGIN, &ready);
            gy_pace_charge(&job, 0, MS, BEGIN);
            gy_pace_give_back(&job, 0, UINT64_MAX);
            assert_true(gy_pace_worst(device, 10, BEGIN) >= 0);
            assert_true(atomic_load(&device->paid_until) < BEGIN + 4000 * S * 1000);
        }
    }
}

static void test_windows(void **state)
{
    (void)state;
    struct gy_region_device *device = &region.devices[0];
    for (uint64_t i = 0; i < 120; i++) { /* a tenth of each 100 ms, and all of one */
        gy_pace_charge(&job, 0, i == 60 ? 100 * MS : 10 * MS, BEGIN + i * 100 * MS + 50 * MS);
    }
    const uint64_t now = BEGIN + 12 * S;
    assert_true(gy_pace_worst(device, 1, now) > 0.999 && gy_pace_worst(device, 1, now) < 1.001);
    assert_true(gy_pace_worst(device, 10, now) > 0.189 && gy_pace_worst(device, 10, now) < 0.191);
    assert_true(gy_pace_worst(device, 100, now) > 0.108 && gy_pace_worst(device, 100, now) < 0.110);
    assert_true(gy_pace_worst(device, 1, now + 60 * S) < 0.001);
}

/* ---- charges ------------------------------------------------------------------------------------ */

static void test_gaps(void **state)
{
    (void)state;
    double free_at = 0;
    assert_true(gy_meter_gap(&free_at, 1e9, 50000) == 0);          /* nothing is known of the stream */
    assert_true(gy_meter_gap(&free_at, 1e9 + 20000, 50000) == 0);  /* it is busy until 100000 */
    assert_true(gy_meter_gap(&free_at, 1e9 + 108000, 50000) == 0); /* bridged */
    assert_true(gy_meter_gap(&free_at, 1e9 + 1158000, 0) == 1e6);  /* idle for a millisecond */
}

static void test_charges(void **state)
{
    (void)state;
    struct gy_meter_group group = {.known_ns = 300, .gaps_ns = 500};
    assert_true(gy_meter_charge_of(&group, 1000, 1000, false) == 500); /* without the gaps */
    assert_true(gy_meter_charge_of(&group, 700, 700, false) == 300);   /* but no less than is known */
    assert_true(gy_meter_charge_of(&group, 1000, 100, false) == 100);  /* and no more than is new */
    assert_true(gy_meter_charge_of(&group, 1000, -1, false) == 0);
    assert_true(gy_meter_charge_of(&group, 1000, 1000, true) == 300); /* others had turns in between */
    assert_true(gy_meter_charge_of(&group, 200, 1000, true) == 200);
    group.is_single = true;
    assert_true(gy_meter_charge_of(&group, 1000, 1000, false) == 1000); /* one launch has no gaps */
}

static void test_costs(void **state)
{
    (void)state;
    gy_costs_forget_all();
    assert_null(gy_costs_use(5));
    gy_costs_learn(5, 1000, false);
    assert_true(gy_costs_use(5)->ns == 1000 && gy_costs_use(5)->uses == 2);
    gy_costs_learn(5, 2000, false);
    assert_true(gy_costs_use(5)->ns == 1250 && gy_costs_use(5)->uses == 2);
    gy_costs_learn(5, 250 * 64 + 1250, true); /* others had turns in between */
    assert_true(gy_costs_use(5)->ns == 1500);
    gy_costs_learn(5, 1000, true);
    assert_true(gy_costs_use(5)->ns == 1000);
    gy_costs_learn(5, 50000, false);
    assert_int_equal(gy_costs_use(5)->period, 32);
    for (uint32_t period = 64; period < 4096; period *= 2) { /* what stays the same is measured more rarely */
        gy_costs_learn(5, gy_costs_use(5)->ns, false);
        assert_int_equal(gy_costs_use(5)->period, period < 512 ? period : 512);
    }
    gy_costs_doubt(5);
    assert_true(gy_costs_is_due(gy_costs_use(5)));
    for (uint64_t key = 5; key < 5 + UINT64_C(4096) * 40;
         key += 4096) { /* they share a place: some are forgotten */
        gy_costs_learn(key, (double)key, false);
    }
    assert_true(gy_costs_use(5 + UINT64_C(4096) * 39)->ns == 5 + 4096.0 * 39);
    assert_true(gy_costs_key(1, &region, 0, 0) != gy_costs_key(2, &region, 0, 0));
}

/* ---- settings and the region -------------------------------------------------------------------- */

static void test_settings_as_text(void **state)
{
    (void)state;
    char text[GY_REGION_TEXT_BYTES];
    struct gy_region_settings read, all = {.share = 1,
                                           .devices = UINT32_MAX,
                                           .overrun = 1,
                                           .overrun_ms = 30000,
                                           .credit_ms = 1,
                                           .copies = 1};
    assert_true(gy_job_print(text, sizeof(text), &all) < (int)sizeof(text));
    assert_true(gy_job_parse(text, &read));
    assert_memory_equal(&read, &all, sizeof(all));
    static const char *const bad[] = {"", "share", "share=", "share=30", "share=-1", "devices=1 share=1"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(gy_job_parse(bad[i], &read));
    }
    all.share = GY_REGION_WHOLE + 1;
    (void)gy_job_print(text, sizeof(text), &all);
    assert_false(gy_job_parse(text, &read));
}

static char path[GY_REGION_PATH_BYTES], why[GY_REGION_TEXT_BYTES];
static const struct gy_region_settings settings = {.share = 500000, .devices = 1, .credit_ms = 1000};

static int make_path(void **state)
{
    (void)state;
    snprintf(path, sizeof(path), "/tmp/gantry-limit-test-%d", (int)getpid());
    (void)unlink(path);
    return 0;
}

static bool exists(void)
{
    return access(path, F_OK) == 0;
}

static void test_last_one_removes_the_file(void **state)
{
    (void)state;
    struct gy_region_place first, second;
    bool absent;
    assert_false(gy_region_look(path, &first, why, &absent));
    assert_true(absent);
    assert_true(gy_region_enter(path, &settings, &first, why));
    assert_int_equal(gy_region_alive(&first), 1);
    const pid_t child = fork();
    if (child == 0) { /* the lock is the parent's: the child takes a slot of its own, and leaves the file */
        const bool in = gy_region_enter(path, &settings, &second, why) && second.slot != first.slot &&
                        gy_region_alive(&second) == 2;
        gy_region_leave(&second);
        _exit(in && exists() ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_false(gy_region_sweep("/tmp/there-is-no-such-job"));
    gy_region_leave(&first);
    assert_false(exists());
}

/* What a process that was killed had in flight is given back, and its slot and file are nobody's. */
static void test_killed(void **state)
{
    (void)state;
    struct gy_region_place place;
    bool absent;
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
        if (gy_region_enter(path, &settings, &place, why) && gy_region_device(place.region, 9, 1) == 0) {
            gy_pace_reserve(&place, 0, 1234);
            (void)!write(ready[1], "x", 1);
        }
        for (;;) {
            pause();
        }
    }
    char byte;
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_true(gy_region_look(path, &place, why, &absent));
    assert_int_equal(gy_region_alive(&place), 1);
    assert_false(gy_region_reclaim(&place));
    assert_int_equal(atomic_load(&place.region->devices[0].in_flight), 1234);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(gy_region_alive(&place), 0);
    assert_true(gy_region_reclaim(&place));
    assert_int_equal(atomic_load(&place.region->devices[0].in_flight), 0);
    gy_region_drop(&place);
    assert_true(gy_region_sweep(path));
    assert_false(exists());
}

static void refused(const char *words)
{
    struct gy_region_place place;
    assert_false(gy_region_enter(path, &settings, &place, why));
    assert_non_null(strstr(why, words));
    assert_non_null(strstr(why, path));
}

static void test_what_is_no_job(void **state)
{
    (void)state;
    struct gy_region_place place;
    assert_int_equal(symlink("/tmp/elsewhere", path), 0);
    refused("symbolic link");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    refused("no regular file");
    assert_int_equal(unlink(path), 0);
    const int file = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    refused("size");
    assert_int_equal(ftruncate(file, sizeof(struct gy_region)), 0);
    refused("no job");
    assert_int_equal(fchmod(file, 0640), 0);
    refused("other users");
    assert_int_equal(unlink(path), 0);
    assert_true(gy_region_enter(path, &settings, &place, why));
    place.region->version++;
    refused("another version");
    place.region->version--;
    place.region->settings.share = 0;
    refused("out of bounds");
    gy_region_leave(&place);
    close(file);
}

/* Somebody was killed between closing a job and removing its file. */
static void test_half_removed(void **state)
{
    (void)state;
    struct gy_region_place place;
    bool absent;
    const pid_t child = fork();
    if (child == 0) {
        _exit(gy_region_enter(path, &settings, &place, why) ? 0 : 1); /* it does not leave */
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_true(gy_region_look(path, &place, why, &absent));
    atomic_store(&place.region->closed, 1);
    gy_region_drop(&place);
    assert_true(gy_region_enter(path, &settings, &place, why));
    assert_int_equal(atomic_load(&place.region->closed), 0);
    gy_region_leave(&place);
    assert_false(exists());
}

/* The file lay over a boot, after which the clock began anew. */
static void test_times_of_another_boot(void **state)
{
    (void)state;
    struct gy_region_place place;
    bool absent;
    const pid_t child = fork();
    if (child == 0) {
        _exit(gy_region_enter(path, &settings, &place, why) ? 0 : 1); /* it does not leave */
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_true(gy_region_look(path, &place, why, &absent));
    const uint64_t later = UINT64_C(1) << 62;
    assert_int_equal(gy_region_device(place.region, 5, later), 0);
    gy_region_drop(&place);
    assert_true(gy_region_enter(path, &settings, &place, why));
    assert_true(atomic_load(&place.region->devices[0].paid_until) < later);
    assert_true(atomic_load(&place.region->devices[0].progress) < later);
    assert_true(atomic_load(&place.region->devices[0].since) < later);
    gy_region_leave(&place);
    assert_false(exists());
}

/* The program closes a number that is not its own, and opens a file of its own by it. */
static void test_number_is_taken(void **state)
{
    (void)state;
    struct gy_region_place place;
    assert_true(gy_region_enter(path, &settings, &place, why));
    const int number = place.file;
    assert_true(number >= 16);
    assert_int_equal(dup2(STDERR_FILENO, number), number);
    gy_region_retire(&place);
    assert_true(exists()); /* whether others are in it cannot be told */
    gy_region_drop(&place);
    assert_true(fcntl(number, F_GETFD) >= 0);
    close(number);
    assert_true(gy_region_sweep(path));
}

static void test_names(void **state)
{
    (void)state;
    char out[GY_REGION_PATH_BYTES];
    assert_true(gy_region_path("train-1", out, sizeof(out)));
    assert_non_null(strstr(out, "-train-1"));
    assert_true(gy_region_path("./train", out, sizeof(out)));
    assert_string_equal(out, "./train");
    assert_false(gy_region_path("", out, sizeof(out)));
    assert_false(gy_region_path("a b", out, sizeof(out)));
    assert_false(gy_region_path("/long", out, 4));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_share_is_kept, clear),
        cmocka_unit_test_setup(test_frugal_is_not_held, clear),
        cmocka_unit_test_setup(test_the_whole_is_not_held, clear),
        cmocka_unit_test_setup(test_saving, clear),
        cmocka_unit_test_setup(test_credit, clear),
        cmocka_unit_test_setup(test_wild_numbers, clear),
        cmocka_unit_test_setup(test_windows, clear),
        cmocka_unit_test(test_gaps),
        cmocka_unit_test(test_charges),
        cmocka_unit_test(test_costs),
        cmocka_unit_test(test_settings_as_text),
        cmocka_unit_test_setup(test_last_one_removes_the_file, make_path),
        cmocka_unit_test_setup(test_killed, make_path),
        cmocka_unit_test_setup(test_what_is_no_job, make_path),
        cmocka_unit_test_setup(test_half_removed, make_path),
        cmocka_unit_test_setup(test_times_of_another_boot, make_path),
        cmocka_unit_test_setup(test_number_is_taken, make_path),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
