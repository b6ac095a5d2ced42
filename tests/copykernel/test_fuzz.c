/* SPDX-License-Identifier: MIT */
/* The function of the fuzzer (fuzz_batch.h) with random bytes, the same ones each time.
 * $GANTRY_FUZZ_ROUNDS asks for more or fewer of them and $GANTRY_FUZZ_SEED for others. */
#include "tests/support/cmocka_c11.h"

#include "base/alloc.h"
#include "tests/copykernel/fuzz_batch.h"

#include <stdlib.h>

enum { ROUNDS = 3000, LIGHT_ROUNDS = 150, MOST_BYTES = 1200 };

static uint64_t number_of(const char *variable, uint64_t fallback)
{
    const char *text = getenv(variable);
    return text != NULL ? strtoull(text, NULL, 0) : fallback;
}

static uint64_t random_bits(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state >> 11;
}

static void test_random_descriptors_are_copied_or_refused_as_they_should_be(void **state)
{
    (void)state;
    static uint8_t data[MOST_BYTES];
    uint64_t random = number_of("GANTRY_FUZZ_SEED", 0x2545f4914f6cdd1du);
    uint64_t rounds =
        number_of("GANTRY_FUZZ_ROUNDS", getenv("GANTRY_TEST_LIGHT") != NULL ? LIGHT_ROUNDS : ROUNDS);
    for (uint64_t round = 0; round < rounds; round++) {
        size_t size = random_bits(&random) % MOST_BYTES;
        for (size_t i = 0; i < size; i++) {
            data[i] = (uint8_t)random_bits(&random);
        }
        fuzz_one(data, size);
    }
    fuzz_end();
    struct fuzz_counts counts = fuzz_counts();
    assert_true(counts.done > rounds / 4 && counts.refused > rounds / 5);
    assert_true(counts.copies > 3 * rounds);
    assert_int_equal(gy_alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_descriptors_are_copied_or_refused_as_they_should_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
