/* SPDX-License-Identifier: MIT */
/* The work-stealing deque alone: order, growth, and thieves against the owner. */
#include "tests/taskman/fixture.h"

#include "base/thread.h"
#include "taskman/cpu/deque.h"

enum { ITEMS = 60000, THIEVES = 3 };

static gantry_task items[2048];

static void link_items(int first, int count)
{
    for (int i = first; i < first + count; i++) {
        items[i].next = i + 1 < first + count ? &items[i + 1] : NULL;
    }
}

static void test_owner_takes_a_list_in_its_order_and_thieves_from_the_end(void **state)
{
    (void)state;
    struct gy_deque deque;
    assert_ok(gy_deque_init(&deque));
    bool lost = false;
    assert_null(gy_deque_take(&deque));
    assert_null(gy_deque_steal(&deque, &lost));
    link_items(0, 4);
    assert_true(gy_deque_push_list(&deque, &items[0], 4));
    assert_ptr_equal(gy_deque_take(&deque), &items[0]);
    assert_ptr_equal(gy_deque_steal(&deque, &lost), &items[3]);
    link_items(10, 2);
    assert_true(gy_deque_push_list(&deque, &items[10], 2)); /* newer ones come first */
    assert_ptr_equal(gy_deque_take(&deque), &items[10]);
    assert_ptr_equal(gy_deque_take(&deque), &items[11]);
    assert_ptr_equal(gy_deque_take(&deque), &items[1]);
    assert_ptr_equal(gy_deque_take(&deque), &items[2]);
    assert_null(gy_deque_take(&deque));
    assert_null(gy_deque_steal(&deque, &lost));
    assert_false(lost);
    gy_deque_fini(&deque);
    assert_int_equal(gy_alloc_live(), 0);
}

static void test_it_grows_and_keeps_its_content(void **state)
{
    (void)state;
    struct gy_deque deque;
    assert_ok(gy_deque_init(&deque));
    for (int i = 0; i < 2048; i += 16) {
        link_items(i, 16);
        assert_true(gy_deque_push_list(&deque, &items[i], 16));
        bool lost = false;
        assert_non_null(gy_deque_steal(&deque, &lost)); /* this moves the window through the ring */
    }
    int left = 0;
    while (gy_deque_take(&deque) != NULL) {
        left++;
    }
    assert_int_equal(left, 2048 - 2048 / 16);
    gy_deque_fini(&deque);
    assert_int_equal(gy_alloc_live(), 0);
}

static void test_pushed_one_by_one(void **state)
{
    (void)state;
    struct gy_deque deque;
    assert_ok(gy_deque_init(&deque));
    for (int i = 0; i < 2048; i++) {
        assert_true(gy_deque_push(&deque, &items[i]));
    }
    bool lost = false;
    assert_ptr_equal(gy_deque_steal(&deque, &lost), &items[0]);
    for (int i = 2047; i > 0; i--) {
        assert_ptr_equal(gy_deque_take(&deque), &items[i]);
    }
    assert_null(gy_deque_take(&deque));
    for (int i = 0; i < 2048; i++) {
        assert_true(gy_deque_push(&deque, &items[i]));
    }
    gy_fault_arm(0);
    assert_false(gy_deque_push(&deque, &items[0])); /* it is full */
    gy_fault_arm(-1);
    assert_ptr_equal(gy_deque_take(&deque), &items[2047]);
    gy_deque_fini(&deque);
    assert_int_equal(gy_alloc_live(), 0);
}

static void test_without_memory_nothing_is_pushed(void **state)
{
    (void)state;
    struct gy_deque deque;
    assert_ok(gy_deque_init(&deque));
    link_items(0, 1024);
    gy_fault_arm(0);
    assert_false(gy_deque_push_list(&deque, &items[0], 1024));
    gy_fault_arm(-1);
    assert_null(gy_deque_take(&deque));
    link_items(0, 3);
    assert_true(gy_deque_push_list(&deque, &items[0], 3));
    assert_ptr_equal(gy_deque_take(&deque), &items[0]);
    gy_deque_fini(&deque);
}

struct theft {
    struct gy_deque *deque;
    atomic_int *taken; /* per item: how often it was taken */
    gantry_task *base;
    atomic_bool *over;
    gy_thread thread;
};

static void thief_main(void *arg)
{
    struct theft *theft = arg;
    for (;;) {
        bool over = atomic_load(theft->over), lost = false;
        gantry_task *task = gy_deque_steal(theft->deque, &lost);
        if (task != NULL) {
            atomic_fetch_add(&theft->taken[task - theft->base], 1);
        } else if (over && !lost) {
            return;
        } else {
            sched_yield();
        }
    }
}

/* The owner pushes lists of random length and takes some tasks back, in the end all. */
static bool push_and_take_all(struct gy_deque *deque, gantry_task *tasks, atomic_int *taken)
{
    bool pushed = true;
    uint32_t random = 1;
    for (int i = 0; i < ITEMS;) {
        random = random * 1664525u + 1013904223u;
        int count = 1 + (int)(random >> 24) % 7;
        count = count < ITEMS - i ? count : ITEMS - i;
        for (int k = i; k < i + count; k++) {
            tasks[k].next = &tasks[k + 1 < i + count ? k + 1 : k];
        }
        pushed = pushed && gy_deque_push_list(deque, &tasks[i], (size_t)count);
        i += count;
        for (int k = (int)(random >> 16) % 6; k > 0; k--) {
            gantry_task *task = gy_deque_take(deque);
            if (task != NULL) {
                atomic_fetch_add(&taken[task - tasks], 1);
            }
        }
    }
    for (gantry_task *task; (task = gy_deque_take(deque)) != NULL;) {
        atomic_fetch_add(&taken[task - tasks], 1);
    }
    return pushed;
}

static void test_everything_is_taken_exactly_once(void **state)
{
    (void)state;
    struct gy_deque deque;
    assert_ok(gy_deque_init(&deque));
    gantry_task *tasks = gy_alloc_aligned(ITEMS * sizeof(*tasks), 64);
    atomic_int *taken = gy_zalloc_array(ITEMS, sizeof(*taken));
    assert_non_null(tasks);
    assert_non_null(taken);
    atomic_bool over = false;
    struct theft thefts[THIEVES];
    for (int i = 0; i < THIEVES; i++) {
        thefts[i] = (struct theft){.deque = &deque, .taken = taken, .base = tasks, .over = &over};
        assert_ok(gy_thread_start(&thefts[i].thread, "thief", thief_main, &thefts[i]));
    }
    bool pushed = push_and_take_all(&deque, tasks, taken);
    atomic_store(&over, true);
    for (int i = 0; i < THIEVES; i++) {
        gy_thread_join(&thefts[i].thread);
    }
    assert_true(pushed);
    for (int i = 0; i < ITEMS; i++) {
        assert_int_equal(taken[i], 1);
    }
    gy_free(taken);
    gy_free(tasks);
    gy_deque_fini(&deque);
    assert_int_equal(gy_alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_owner_takes_a_list_in_its_order_and_thieves_from_the_end),
        cmocka_unit_test(test_it_grows_and_keeps_its_content),
        cmocka_unit_test(test_pushed_one_by_one),
        cmocka_unit_test(test_without_memory_nothing_is_pushed),
        cmocka_unit_test(test_everything_is_taken_exactly_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
