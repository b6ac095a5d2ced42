/* SPDX-License-Identifier: MIT */
/* Allocation sites by number: many of them, that share slots of the table. */
#include "tests/support/cmocka_c11.h"

#include "base/alloc.h"
#include "heap/chunk.h"
#include "heap/sites.h"

#define MOST ((uint32_t)1 << GY_SITE_BITS) /* numbers, with that of no site */

static const char *const tags[] = {"mesh", "cloth"}, *const files[] = {"scene.c", "light.c", NULL};

/* The site of that number in the order in which they are made: each differs from another in one field only.
 */
static gantry_alloc_site site_of(uint32_t i)
{
    return (gantry_alloc_site){tags[i % 2], files[i / 2 % 3], (int)(i / 6)};
}

static void test_each_has_a_number(void **state)
{
    (void)state;
    enum { SITES = 3000 };
    struct gy_sites sites;
    uint32_t number;
    assert_true(gy_sites_init(&sites));
    assert_int_equal(gy_sites_count(&sites), 1);
    for (uint32_t i = 0; i < SITES; i++) {
        for (uint32_t j = i < 40 ? 0 : i; j <= i; j++) { /* the first ones again after each */
            gantry_alloc_site site = site_of(j);
            assert_true(gy_sites_number(&sites, &site, &number));
            assert_int_equal(number, j + 1);
        }
        assert_int_equal(gy_sites_count(&sites), i + 2);
    }
    for (uint32_t i = 0; i < SITES; i++) {
        gantry_alloc_site site = site_of(i), where = gy_sites_where(&sites, i + 1);
        assert_true(gy_sites_number(&sites, &site, &number));
        assert_int_equal(number, i + 1);
        assert_true(where.tag == site.tag && where.file == site.file && where.line == site.line);
    }
    assert_null(gy_sites_where(&sites, 0).tag);
    size_t count = 0;
    struct gy_site *copy = gy_sites_copy(&sites, &count);
    assert_int_equal(count, SITES);
    for (uint32_t i = 0; i < SITES; i++) {
        assert_int_equal(copy[i].number, SITES - i); /* the newest first */
        assert_int_equal(copy[i].where.line, site_of(SITES - i - 1).line);
    }
    gy_free(copy);
    gy_sites_fini(&sites);
}

static void test_what_has_no_number_left_shares_that_of_none(void **state)
{
    (void)state;
    struct gy_sites sites;
    uint32_t number;
    assert_true(gy_sites_init(&sites));
    for (uint32_t i = 1; i < MOST + 3; i++) {
        gantry_alloc_site site = site_of(i);
        assert_true(gy_sites_number(&sites, &site, &number));
        assert_int_equal(number, i < MOST ? i : 0);
    }
    assert_int_equal(gy_sites_count(&sites), MOST);
    gy_sites_fini(&sites);
}

static void test_those_that_read_the_same(void **state)
{
    (void)state;
    char file[] = "scene.c";
    const gantry_alloc_site a = {"mesh", "scene.c", 4}, same = {"mesh", file, 4}, line = {"mesh", file, 5},
                            tag = {"cloth", file, 4}, other = {"mesh", "light.c", 4}, none = {NULL, NULL, 4};
    assert_true(gy_sites_same(&a, &same));
    assert_true(gy_sites_same(&none, &none));
    const gantry_alloc_site *const different[] = {&line, &tag, &other, &none};
    for (size_t i = 0; i < sizeof(different) / sizeof(different[0]); i++) {
        assert_false(gy_sites_same(&a, different[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_has_a_number),
        cmocka_unit_test(test_what_has_no_number_left_shares_that_of_none),
        cmocka_unit_test(test_those_that_read_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
