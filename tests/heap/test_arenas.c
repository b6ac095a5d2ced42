/* SPDX-License-Identifier: MIT */
/* The arenas of many small tiers: what one has left is another's, and those beyond what is kept are
 * destroyed. */
#include "tests/support/cmocka_c11.h"

#include "heap/jemalloc.h"
#include "heap/small.h"
#include "heap/usage.h"

#include <stdlib.h>

#define TIERS 100 /* more than are kept, which are 64 */

/* How many arenas jemalloc has numbers for.  That of a destroyed one is given to another. */
static unsigned count_arenas(void)
{
    unsigned count = 0;
    size_t bytes = sizeof(count);
    assert_int_equal(mallctl("arenas.narenas", &count, &bytes, NULL, 0), 0);
    return count;
}

static void test_arenas_do_not_mount_up(void **state)
{
    (void)state;
    struct gy_granules *map = calloc(1, sizeof(*map));
    struct gy_usage usage = {0};
    unsigned before = 0;
    assert_non_null(map);
    assert_true(gy_usage_make_site(&usage, 0));
    for (int round = 0; round < 4; round++) {
        struct gy_small *tiers[TIERS];
        for (int i = 0; i < TIERS; i++) {
            assert_ok(gy_small_create(map, &usage, &tiers[i]));
        }
        if (round == 0) {
            before = count_arenas();
            assert_true(before >= TIERS);
        }
        assert_int_equal(count_arenas(), before);
        for (int i = 0; i < TIERS; i++) {
            assert_null(gy_small_destroy(tiers[i]));
        }
    }
    gy_usage_fini(&usage);
    free(map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arenas_do_not_mount_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
