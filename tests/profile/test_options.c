/* SPDX-License-Identifier: MIT */
/* $GANTRY_PROFILE_OPTIONS: each word sets its field, and nothing else. */
#include "tests/support/cmocka_c11.h"

#include "profile/environment_options.h"

#include <stdio.h>
#include <string.h>

static const gantry_profile_options defaults = GANTRY_PROFILE_OPTIONS_INIT;

/* The struct has no padding: all of it is compared. */
static void expect_read(const char *text, const gantry_profile_options *from,
                        const gantry_profile_options *wanted)
{
    gantry_profile_options options = *from;
    assert_int_equal(gy_profile_parse_options(text, &options), GANTRY_OK);
    if (memcmp(&options, wanted, sizeof(options)) != 0) {
        fail_msg("%s set something else", text);
    }
}

static void expect_refused(const char *text)
{
    gantry_profile_options options = defaults;
    if (gy_profile_parse_options(text, &options) != GANTRY_ERR_INVALID_ARGUMENT) {
        fail_msg("\"%s\" was taken", text);
    }
}

#define EXPECT_FIELD(text, field, value)          \
    do {                                          \
        gantry_profile_options wanted = defaults; \
        wanted.field = value;                     \
        expect_read(text, &defaults, &wanted);    \
    } while (0)

static void test_words_set_their_field_alone(void **state)
{
    (void)state;
    EXPECT_FIELD("blocks=kernels", ctas, GANTRY_PROFILE_CTAS_KERNELS);
    EXPECT_FIELD("blocks=numbers", ctas, GANTRY_PROFILE_CTAS_BLOCKS);
    EXPECT_FIELD("blocks=off", ctas, GANTRY_PROFILE_CTAS_OFF);
    EXPECT_FIELD("clock=sm", clock, GANTRY_PROFILE_CLOCK_SM);
    EXPECT_FIELD("compress=1", compress, true);
}

static void test_words_set_their_field_back(void **state)
{
    (void)state;
    gantry_profile_options set = defaults;
    set.ctas = GANTRY_PROFILE_CTAS_OFF;
    set.clock = GANTRY_PROFILE_CLOCK_SM;
    set.compress = true;
    expect_read("blocks=each,clock=global,compress=0", &set, &defaults);
}

static void test_numbers_set_their_field_alone(void **state)
{
    (void)state;
    EXPECT_FIELD("buffers=20", buffers, 20);
    EXPECT_FIELD("buffers=4294967295", buffers, UINT32_MAX);
    EXPECT_FIELD("blocks-per-buffer=2000", ctas_per_buffer, 2000);
    EXPECT_FIELD("spans=0", spans_per_thread, 0);
    EXPECT_FIELD("spans=7", spans_per_thread, 7);
    EXPECT_FIELD("encoders=255", encoders, 255);
    gantry_profile_options wanted = defaults;
    wanted.first_step = 3;
    wanted.step_count = UINT64_MAX;
    expect_read("steps=3+18446744073709551615", &defaults, &wanted);
}

static void test_all_at_once(void **state)
{
    (void)state;
    gantry_profile_options wanted = defaults;
    wanted.spans_per_thread = 9;
    wanted.ctas = GANTRY_PROFILE_CTAS_KERNELS;
    wanted.first_step = 1;
    wanted.step_count = 2;
    wanted.compress = true;
    wanted.encoders = 4;
    expect_read("spans=9,blocks=kernels,steps=1+2,compress=1,encoders=4", &defaults, &wanted);
    expect_read(NULL, &wanted, &wanted);
}

static void test_what_is_beyond_an_end_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",
                                        "blocks",
                                        "blocks=",
                                        "blocks=Each",
                                        "clock=2",
                                        "compress=2",
                                        "compress=",
                                        "buffers=+1",
                                        "buffers= 1",
                                        "buffers=",
                                        "spans=1x",
                                        "buffers=4294967296",
                                        "steps=1",
                                        "steps=1+0",
                                        "steps=+1",
                                        "steps=1+",
                                        "steps=1+2x",
                                        "steps=18446744073709551616+1",
                                        "spans=:",
                                        "encoders=256",
                                        "encoders=-1",
                                        "spans=/",
                                        "unknown=1",
                                        "compress=1,",
                                        ",spans=1",
                                        "spans=1,,spans=1"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        expect_refused(wrong[i]);
    }
}

/* 63 characters are read of one word, and not 64. */
static void test_long_words(void **state)
{
    (void)state;
    char text[80];
    snprintf(text, sizeof(text), "spans=%057d", 12);
    assert_int_equal(strlen(text), 63);
    EXPECT_FIELD(text, spans_per_thread, 12);
    snprintf(text, sizeof(text), "spans=%058d", 12);
    expect_refused(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words_set_their_field_alone),
        cmocka_unit_test(test_words_set_their_field_back),
        cmocka_unit_test(test_numbers_set_their_field_alone),
        cmocka_unit_test(test_all_at_once),
        cmocka_unit_test(test_what_is_beyond_an_end_is_refused),
        cmocka_unit_test(test_long_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
