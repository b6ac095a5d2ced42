/* SPDX-License-Identifier: MIT */
/* Pasts against sets of plain bits. */
#include "tests/support/cmocka_c11.h"

#include "base/alloc.h"
#include "proof/past.h"

#include <stdlib.h>
#include <string.h>

enum { PASTS = 6, NUMBERS = 3 * 4096 + 17, STEPS = 4000 };

struct model {
    struct gy_past *past;
    bool has[NUMBERS];
};

static uint32_t below(uint32_t *seed, uint32_t bound)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)*seed * bound >> 32);
}

static void assert_same(const struct model *model)
{
    for (uint32_t i = 0; i < NUMBERS; i++) {
        assert_int_equal(gy_past_has(model->past, i), model->has[i]);
    }
    assert_false(gy_past_has(model->past, NUMBERS + 100000));
}

/* Numbers, and whole stretches of them, so that pages become full. */
static void grow(struct model *model, uint32_t *seed)
{
    const uint32_t begin = below(seed, NUMBERS);
    const uint32_t count = below(seed, 8) == 0 ? 6000 : 1;
    for (uint32_t i = begin; i < begin + count && i < NUMBERS; i++) {
        assert_true(gy_past_add(&model->past, i));
        model->has[i] = true;
    }
}

static void become_another(struct model *to, const struct model *from)
{
    struct gy_past *old = to->past;
    to->past = gy_past_ref(from->past);
    gy_past_unref(old);
    memcpy(to->has, from->has, sizeof(to->has));
}

static void join(struct model *to, const struct model *from)
{
    assert_true(gy_past_join(&to->past, from->past));
    for (uint32_t i = 0; i < NUMBERS; i++) {
        to->has[i] |= from->has[i];
    }
}

static void test_random_pasts(void **state)
{
    (void)state;
    static struct model models[PASTS];
    const long before = gy_alloc_count();
    uint32_t seed = 7;
    for (int step = 0; step < STEPS; step++) {
        struct model *one = &models[below(&seed, PASTS)], *other = &models[below(&seed, PASTS)];
        switch (below(&seed, 8)) {
        case 0:
            join(one, other);
            break;
        case 1:
            become_another(one, other);
            break;
        case 2:
            gy_past_unref(one->past);
            memset(one, 0, sizeof(*one));
            break;
        default:
            grow(one, &seed);
        }
        if (step % 50 == 0) {
            for (int i = 0; i < PASTS; i++) {
                assert_same(&models[i]);
            }
        }
    }
    for (int i = 0; i < PASTS; i++) {
        gy_past_unref(models[i].past);
    }
    assert_int_equal(gy_alloc_count(), before); /* nothing is left */
}

/* What one has and the other has not is found in order, also in pages of which all is in. */
static void test_what_another_has_not(void **state)
{
    (void)state;
    enum { PAGE = 4096, MOST = 4 * PAGE };
    struct gy_past *one = NULL, *other = NULL;
    for (uint32_t i = 1; i < MOST; i++) {
        const bool in_page = i / PAGE == 1, is_full = i / PAGE == 2;
        assert_true((!in_page && !is_full && i % 3 != 0) || gy_past_add(&one, i));
        assert_true(i % 5 != 0 || is_full || gy_past_add(&other, i));
    }
    uint32_t next = gy_past_next(one, other, 1), last = gy_past_next(other, one, 1);
    for (uint32_t i = 1; i < MOST; i++) {
        if (gy_past_has(one, i) && !gy_past_has(other, i)) {
            assert_int_equal(next, i);
            next = gy_past_next(one, other, i + 1);
        }
        if (gy_past_has(other, i) && !gy_past_has(one, i)) {
            assert_int_equal(last, i);
            last = gy_past_next(other, one, i + 1);
        }
    }
    assert_int_equal(next, 0);
    assert_int_equal(last, 0);
    assert_int_equal(gy_past_next(NULL, one, 1) + gy_past_next(one, one, 1), 0);
    assert_int_equal(gy_past_next(one, NULL, PAGE), PAGE);
    gy_past_unref(one);
    gy_past_unref(other);
}

/* A past that others have a reference to is not changed. */
static void test_a_shared_past_stays(void **state)
{
    (void)state;
    struct gy_past *mine = NULL;
    assert_true(gy_past_add(&mine, 5));
    struct gy_past *yours = gy_past_ref(mine);
    assert_true(gy_past_add(&mine, 6));
    assert_true(gy_past_has(mine, 5) && gy_past_has(mine, 6));
    assert_true(gy_past_has(yours, 5) && !gy_past_has(yours, 6));
    gy_past_unref(mine);
    gy_past_unref(yours);
}

/* A join that runs out of memory leaves what was there. */
static void test_no_memory(void **state)
{
    (void)state;
    struct gy_past *one = NULL, *other = NULL;
    assert_true(gy_past_add(&one, 1) && gy_past_add(&other, 5000));
    for (long nth = 0;; nth++) {
        gy_fault_arm(nth);
        const bool is_done = gy_past_join(&one, other);
        const bool failed = gy_fault_fired();
        gy_fault_arm(-1);
        assert_int_equal(is_done, !failed);
        assert_true(gy_past_has(one, 1));
        if (!failed) {
            break;
        }
        assert_false(gy_past_has(one, 5000));
    }
    assert_true(gy_past_has(one, 5000));
    gy_past_unref(one);
    gy_past_unref(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_pasts),
        cmocka_unit_test(test_what_another_has_not),
        cmocka_unit_test(test_a_shared_past_stays),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
