#include "dispatcher/inbox.h"

#include "base/clock.h"
#include "base/point.h"
#include "base/waiter.h"

gantry_status gy_inbox_init(struct gy_inbox *inbox)
{
    atomic_init(&inbox->head, NULL);
    atomic_init(&inbox->signals, 0);
    atomic_init(&inbox->asleep, false);
    return gy_guard_init(&inbox->lock, GY_RANK_DISPATCHER_INBOX, &inbox->wake);
}

void gy_inbox_fini(struct gy_inbox *inbox)
{
    gy_guard_fini(&inbox->lock, &inbox->wake);
}

static void wake_sleeper(struct gy_inbox *inbox)
{
    /* Pairs with the taker's store of `asleep` before its last look: both are sequentially consistent, so
     * either we see it asleep or it sees what we just added. */
    if (atomic_load(&inbox->asleep)) {
        gy_mutex_lock(&inbox->lock);
        gy_cond_signal(&inbox->wake);
        gy_mutex_unlock(&inbox->lock);
    }
}

/* Path of a task, step 4 of 8: the inbox. */
void gy_inbox_push(struct gy_inbox *inbox, gantry_task *first, gantry_task *last)
{
    gy_point(GY_POINT_PATH_4, first);
    /* Reverse the list: it becomes newest first, as the stack is. */
    gantry_task *reversed = NULL;
    for (gantry_task *task = first; task != NULL;) {
        gantry_task *next = task == last ? NULL : gy_task_gpu(task)->next;
        gy_task_gpu(task)->next = reversed;
        reversed = task;
        task = next;
    }
    gantry_task *head = atomic_load_explicit(&inbox->head, memory_order_relaxed);
    do {
        gy_task_gpu(first)->next = head;
    } while (!atomic_compare_exchange_weak(&inbox->head, &head, reversed));
    wake_sleeper(inbox);
}

void gy_inbox_signal(struct gy_inbox *inbox)
{
    atomic_fetch_add(&inbox->signals, 1);
    wake_sleeper(inbox);
}

bool gy_inbox_take(struct gy_inbox *inbox, struct gy_gpu_list *list)
{
    if (gy_inbox_is_empty(inbox)) {
        return false;
    }
    gantry_task *newest = atomic_exchange_explicit(&inbox->head, NULL, memory_order_acquire);
    gantry_task *oldest = NULL;
    for (gantry_task *task = newest; task != NULL;) {
        gantry_task *next = gy_task_gpu(task)->next;
        gy_task_gpu(task)->next = oldest;
        oldest = task;
        task = next;
    }
    gy_gpu_list_append(list, oldest, newest);
    return true;
}

static bool has_news(struct gy_inbox *inbox, uint32_t seen, bool tasks_too)
{
    return atomic_load(&inbox->signals) != seen || (tasks_too && atomic_load(&inbox->head) != NULL);
}

/* The taker's sleep, until woken or until the time is over. */
static void sleep_until(struct gy_inbox *inbox, uint32_t seen, bool tasks_too, uint64_t until_ns)
{
    gy_point(GY_POINT_INBOX_SLEEP, inbox);
    gy_mutex_lock(&inbox->lock);
    atomic_store(&inbox->asleep, true);
    while (!has_news(inbox, seen, tasks_too)) {
        if (until_ns == 0) {
            gy_cond_wait(&inbox->wake, &inbox->lock);
        } else if (gy_clock_ns() < until_ns) {
            gy_cond_wait_until(&inbox->wake, &inbox->lock, until_ns);
        } else {
            break;
        }
    }
    atomic_store(&inbox->asleep, false);
    gy_mutex_unlock(&inbox->lock);
}

void gy_inbox_wait(struct gy_inbox *inbox, uint32_t seen, bool tasks_too, gantry_wait_mode mode,
                   uint64_t patience_ns, uint64_t until_ns)
{
    struct gy_waiter waiter = gy_waiter_begin(mode, patience_ns, until_ns);
    while (!has_news(inbox, seen, tasks_too)) {
        enum gy_waiter_next next = gy_waiter_pause(&waiter);
        if (next == GY_WAITER_GIVE_UP) {
            break;
        }
        if (next == GY_WAITER_SLEEP) {
            sleep_until(inbox, seen, tasks_too, until_ns);
        }
    }
}
