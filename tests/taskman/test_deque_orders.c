/* SPDX-License-Identifier: MIT */
/* The source of the work-stealing deque, with its memory accesses in every order that a processor may
 * choose: no task is lost or got twice.  Real threads that steal from the owner (test_deque.c) see such an
 * order once in many millions. */
#include "tests/support/cmocka_c11.h"

#include "base/alloc.h"
#include "base/status.h"
#include "taskman/graph/task.h"

#include "tests/support/weak_memory.h"

#include "taskman/cpu/deque.c"

#include <stdio.h>

enum { FULL = 256, ITEMS = FULL + 1 }; /* FULL: the number of tasks that a deque has room for at first */

static gantry_task items[ITEMS];
static struct gy_deque deque;
static int got[ITEMS], strange, pushed;

static void get(const gantry_task *task)
{
    if (task != NULL) {
        bool is_ours = task >= items && task < items + ITEMS;
        got[is_ours ? task - items : 0] += is_ours;
        strange += !is_ours;
    }
}

static void take(void)
{
    get(gy_deque_take(&deque));
}

static void steal(void)
{
    bool lost = false;
    get(gy_deque_steal(&deque, &lost));
}

static void steal_twice(void)
{
    steal();
    steal();
}

static void push(void)
{
    if (gy_deque_push(&deque, &items[pushed])) {
        pushed++;
    }
}

static void push_and_take(void)
{
    push();
    take();
}

static void push_list_and_take(void)
{
    items[pushed].next = &items[pushed + 1];
    items[pushed + 1].next = NULL;
    if (gy_deque_push_list(&deque, &items[pushed], 2)) {
        pushed += 2;
    }
    take();
}

static void begin_with(int count)
{
    static gantry_task stranger;
    memset(got, 0, sizeof(got));
    strange = pushed = 0;
    deque.top = deque.bottom = deque.seen_top = 0;
    for (int i = 0; i < FULL; i++) {
        slot_store(deque.array, i, &stranger);
    }
    while (pushed < count) {
        push();
    }
}

static void begin_empty(void)
{
    begin_with(0);
}

static void begin_with_one(void)
{
    begin_with(1);
}

static void begin_with_two(void)
{
    begin_with(2);
}

static void begin_full(void)
{
    begin_with(FULL);
    gy_fault_arm(0); /* there is no larger array */
}

static const char *check(void)
{
    static char text[128];
    gy_fault_arm(-1);
    for (gantry_task *task; (task = gy_deque_take(&deque)) != NULL;) {
        get(task);
    }
    bool right = strange == 0;
    for (int i = 0; i < ITEMS; i++) {
        right = right && got[i] == (i < pushed);
    }
    (void)snprintf(text, sizeof(text),
                   "of %d tasks the first was got %d times, the second %d, the last %d; %d strangers", pushed,
                   got[0], got[1], got[pushed > 0 ? pushed - 1 : 0], strange);
    return right ? NULL : text;
}

static void explore(const struct weak_scene *scene)
{
    uint64_t executions;
    assert_ok(gy_deque_init(&deque));
    const char *wrong = weak_explore(scene, 4, &executions);
    gy_deque_fini(&deque);
    if (wrong != NULL) {
        fail_msg("execution %llu: %s", (unsigned long long)executions, wrong);
    }
    print_message("%llu executions\n", (unsigned long long)executions);
    assert_true(executions > 100);
}

static void test_the_last_task_goes_to_one(void **state)
{
    (void)state;
    explore(&(struct weak_scene){begin_with_one, {take, steal, steal}, check});
}

/* The owner takes the second task without racing for it: nobody may steal it once the owner has said so. */
static void test_the_owner_keeps_what_it_takes_without_a_race(void **state)
{
    (void)state;
    explore(&(struct weak_scene){begin_with_two, {take, steal_twice, NULL}, check});
    explore(&(struct weak_scene){begin_with_two, {take, steal, steal}, check});
}

static void test_a_thief_sees_what_was_pushed(void **state)
{
    (void)state;
    explore(&(struct weak_scene){begin_empty, {push_and_take, steal, NULL}, check});
    explore(&(struct weak_scene){begin_with_one, {push_list_and_take, steal_twice, NULL}, check});
    explore(&(struct weak_scene){begin_empty, {push_list_and_take, steal, steal}, check});
}

/* The owner may use a slot again as soon as its task was stolen. */
static void test_a_slot_is_read_before_it_is_given_up(void **state)
{
    (void)state;
    explore(&(struct weak_scene){begin_full, {push, steal, steal}, check});
}

/* ---- the simulation itself ----------------------------------------------------------------- */

static _Atomic(uintptr_t) x, y;
static uintptr_t seen_x, seen_y;
static memory_order order;

static void begin_words(void)
{
    x = y = seen_x = seen_y = 0;
}

static void store_x_load_y(void)
{
    atomic_store_explicit(&x, 1, order);
    seen_y = atomic_load(&y);
}

static void store_y_load_x(void)
{
    atomic_store_explicit(&y, 1, order);
    seen_x = atomic_load(&x);
}

static const char *check_one_seen(void)
{
    return seen_x == 0 && seen_y == 0 ? "neither store was seen" : NULL;
}

static void send(void)
{
    atomic_store_explicit(&x, 1, memory_order_relaxed);
    atomic_store_explicit(&y, 1, order);
}

static void receive(void)
{
    seen_y = atomic_load(&y);
    seen_x = atomic_load(&x);
}

static const char *check_sent(void)
{
    return seen_y != 0 && seen_x == 0 ? "the second store was seen and the first was not" : NULL;
}

static void test_what_the_simulation_finds(void **state)
{
    (void)state;
    const struct weak_scene both = {begin_words, {store_x_load_y, store_y_load_x, NULL}, check_one_seen};
    const struct weak_scene message = {begin_words, {send, receive, NULL}, check_sent};
    uint64_t executions;
    order = memory_order_release;
    assert_non_null(weak_explore(&both, 2, &executions));
    assert_null(weak_explore(&message, 4, &executions));
    order = memory_order_seq_cst;
    assert_null(weak_explore(&both, 4, &executions));
    order = memory_order_relaxed;
    assert_non_null(weak_explore(&message, 2, &executions));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_last_task_goes_to_one),
        cmocka_unit_test(test_the_owner_keeps_what_it_takes_without_a_race),
        cmocka_unit_test(test_a_thief_sees_what_was_pushed),
        cmocka_unit_test(test_a_slot_is_read_before_it_is_given_up),
        cmocka_unit_test(test_what_the_simulation_finds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
