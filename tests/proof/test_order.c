/* SPDX-License-Identifier: MIT */
/* Which parts of tasks come before which: threads begin and end tasks, and look at their pasts. */
#include "tests/support/cmocka_c11.h"

#include "proof/order.h"

#include <pthread.h>

static int manager;
static int tasks[9];

/* Without a step that has begun, every task was there before. */
static int setup(void **state)
{
    (void)state;
    gy_order_step_begin(&manager);
    return 0;
}

static struct gy_proof_task about(int task)
{
    return (struct gy_proof_task){.manager = &manager, .task = &tasks[task], .label = "task"};
}

/* Returns the number of the part. */
static uint32_t body(int task)
{
    const struct gy_proof_task one = about(task);
    gy_order_body_begin(&one);
    const uint32_t part = gy_access_now->part;
    gy_order_body_end(one.task);
    return part;
}

static bool comes_after(uint32_t part)
{
    return gy_past_has(gy_access_now->past.set, part);
}

static void test_edges_are_followed(void **state)
{
    (void)state;
    const uint32_t a = body(0), b = body(1);
    gy_order_edge(&tasks[0], &tasks[2], false);
    gy_order_end(&manager, &tasks[0]);
    gy_order_end(&manager, &tasks[1]);
    const uint32_t c = body(2);
    gy_order_edge(&tasks[2], &tasks[3], false);
    gy_order_end(&manager, &tasks[2]);
    const struct gy_proof_task last = about(3);
    gy_order_body_begin(&last);
    assert_true(comes_after(a) && comes_after(c) && !comes_after(b));
    gy_order_body_end(last.task);
    gy_order_end(&manager, &tasks[3]);
    assert_null(gy_access_now);
}

/* A callback runs inside of a body whose thread waits: then the body goes on. */
static void test_works_within_works(void **state)
{
    (void)state;
    const struct gy_proof_task outer = about(0), inner = about(1);
    gy_order_body_begin(&outer);
    const uint32_t part = gy_access_now->part;
    gy_order_launch_begin(&inner);
    assert_int_not_equal(gy_access_now->part, part);
    const uint32_t work = gy_order_enqueue(NULL);
    assert_true(gy_part_of(gy_work_of(work)->part)->is_device);
    gy_order_body_end(inner.task);
    assert_int_equal(gy_access_now->part, part);
    assert_int_equal(gy_work_of(gy_order_enqueue(NULL))->part, part); /* what a body enqueues is its own */
    gy_order_synchronized();
    assert_true(comes_after(gy_work_of(work)->part));
    gy_order_body_end(outer.task);
    gy_order_end(&manager, &tasks[0]);
    gy_order_end(&manager, &tasks[1]);
}

/* Work of a task that has ended, and of none, is looked at no more. */
static void test_work_of_nobody(void **state)
{
    (void)state;
    const struct gy_proof_task one = about(0);
    gy_order_launch_begin(&one);
    const uint32_t work = gy_order_enqueue(NULL);
    gy_order_body_end(one.task);
    gy_order_enter(work, "kernel", 0, true);
    assert_int_equal(gy_access_now->work, work);
    gy_order_leave();
    gy_order_end(&manager, &tasks[0]);
    gy_order_enter(0, "copy", 0, false);
    assert_null(gy_access_now);
    gy_order_leave();
    gy_order_enter(work, "kernel", 0, true);
    assert_null(gy_access_now);
    gy_order_leave();
}

/* A body calls the driver: what that does is in the body's order until it ends, also where nothing comes
 * before. */
static void test_work_of_a_body(void **state)
{
    (void)state;
    const struct gy_proof_task one = about(0);
    gy_order_body_begin(&one);
    const uint32_t part = gy_access_now->part, works[] = {gy_order_enqueue(NULL), gy_order_enqueue(NULL)};
    assert_int_not_equal(works[0], works[1]);
    for (int i = 0; i < 2; i++) {
        gy_order_enter(works[i], "a copy", 0, false);
        assert_int_equal(gy_access_now->work, works[i]);
        assert_int_equal(gy_access_now->part, part);
        gy_order_leave();
    }
    gy_order_body_end(one.task);
    gy_order_enter(works[1], "a copy", 0, false);
    assert_null(gy_access_now);
    gy_order_leave();
    gy_order_end(&manager, one.task);
}

/* Another thread does a part of what a body does. */
static void *do_a_part(void *shared)
{
    static uint32_t part;
    gy_order_share_begin(shared);
    part = gy_access_now->part;
    gy_order_leave();
    return gy_access_now == NULL ? &part : NULL;
}

static void test_shared_work(void **state)
{
    (void)state;
    const struct gy_proof_task one = about(0);
    pthread_t thread;
    void *part;
    assert_null(gy_order_share());
    gy_order_body_begin(&one);
    assert_int_equal(pthread_create(&thread, NULL, do_a_part, (void *)(uintptr_t)gy_order_share()), 0);
    assert_int_equal(pthread_join(thread, &part), 0);
    assert_non_null(part);
    assert_int_equal(*(uint32_t *)part, gy_access_now->part);
    gy_order_body_end(one.task);
    gy_order_end(&manager, one.task);
}

/* Deeper than there is room for: nothing is noted there, and everything above is what it was. */
static void test_too_deep(void **state)
{
    (void)state;
    const struct gy_proof_task one = about(0);
    for (int i = 0; i < GY_PROOF_FRAMES + 3; i++) {
        gy_order_body_begin(&one);
        assert_int_equal(gy_access_now == NULL, i >= GY_PROOF_FRAMES);
    }
    for (int i = 0; i < GY_PROOF_FRAMES + 3; i++) {
        gy_order_body_end(one.task);
    }
    assert_null(gy_access_now);
    gy_order_body_begin(&one);
    assert_non_null(gy_access_now);
    gy_order_body_end(one.task);
    gy_order_end(&manager, &tasks[0]);
}

/* Begins a step with a GPU task.  Returns the number of its device part. */
static uint32_t begin_step(void)
{
    gy_order_step_begin(&manager);
    const struct gy_proof_task gpu = about(0);
    gy_order_launch_begin(&gpu);
    const uint32_t device = gy_work_of(gy_order_enqueue(NULL))->part;
    gy_order_body_end(gpu.task);
    return device;
}

/* What is made while a step runs comes after what its maker has done, and after what the program was told has
 * ended, or with its GPU work what data says: while its record is there, and when its step has it. */
static void test_late_tasks(void **state)
{
    (void)state;
    const uint32_t device = begin_step();
    for (int i = 0; i < 4; i++) {
        const struct gy_proof_task late = about(1 + i);
        if (i == 2) {
            gy_order_end(&manager, &tasks[0]);
        }
        if (i != 0) {
            gy_order_has_ended(&manager, &tasks[0], late.task, i == 3);
        }
        gy_order_body_begin(&late);
        assert_false(comes_after(device));
        assert_int_equal(comes_after(device - 1), i != 0); /* the callback */
        gy_order_body_end(late.task);
        const struct gy_proof_task behind = about(5 + i);
        gy_order_edge(late.task, behind.task, true);
        gy_order_body_begin(&behind);
        assert_int_equal(comes_after(device), i == 3); /* with its GPU work, for who waits for that */
        gy_order_body_end(behind.task);
        gy_order_end(&manager, late.task);
        gy_order_end(&manager, behind.task);
    }
    gy_order_manager_gone(&manager);
}

/* An independent task does not come after the step before, but after the one before that. */
static void test_independent_tasks(void **state)
{
    (void)state;
    static const enum gy_proof_steps kinds[] = {GY_PROOF_ALL_STEPS, GY_PROOF_ALL_BUT_THE_LAST_STEP,
                                                GY_PROOF_NO_STEPS};
    const uint32_t device = begin_step();
    gy_order_end(&manager, &tasks[0]);
    for (int step = 0; step < 2; step++) {
        gy_order_step_begin(&manager);
        for (int i = 0; i < 3; i++) {
            struct gy_proof_task next = about(1 + i);
            next.steps = kinds[i];
            gy_order_launch_begin(&next);
            const uint32_t work = gy_order_enqueue(NULL);
            gy_order_body_end(next.task);
            gy_order_enter(work, "kernel", 0, true);
            assert_int_equal(comes_after(device), i == 0 || (i == 1 && step == 1));
            gy_order_leave();
            gy_order_end(&manager, next.task);
        }
    }
    gy_order_manager_gone(&manager);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_edges_are_followed, setup),
        cmocka_unit_test_setup(test_works_within_works, setup),
        cmocka_unit_test_setup(test_work_of_nobody, setup),
        cmocka_unit_test_setup(test_work_of_a_body, setup),
        cmocka_unit_test_setup(test_shared_work, setup),
        cmocka_unit_test_setup(test_too_deep, setup),
        cmocka_unit_test_setup(test_late_tasks, setup),
        cmocka_unit_test_setup(test_independent_tasks, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
