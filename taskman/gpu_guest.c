/* SPDX-License-Identifier: MIT */
#include "taskman/gpu_guest.h"

#include "base/stack.h"
#include "taskman/cpu/guest.h"
#include "taskman/cpu/kept_error.h"

#include <assert.h>

enum { GUEST_STACK = 256 << 10 /* a guest has so much of it left: callbacks may need that */ };

void gy_gpu_guest_init(struct gy_gpu_guest *guest, gantry_taskman *manager)
{
    bool may_help = manager->gpu.lets_guests && !manager->without_gpu && gy_worker_current == NULL &&
                    gy_stack_left() >= GUEST_STACK;
    *guest = (struct gy_gpu_guest){.manager = manager, .may_help = may_help};
}

void gy_gpu_guest_enter(struct gy_gpu_guest *guest)
{
    if (guest->may_help) {
        guest->manager->gpu.ops->guests.enter(guest->manager->gpu.dispatcher, guest);
    }
}

bool gy_gpu_guest_is_through(const struct gy_gpu_guest *guest)
{
    return guest->wait->condition(guest->wait->user, false);
}

/* Borrow a worker: the thread itself then runs what becomes ready, and wakes nobody for it. */
void gy_gpu_guest_begin_release(struct gy_gpu_guest *guest)
{
    if (guest->worker == NULL) {
        guest->worker = gy_guest_begin(&guest->manager->as_owner);
        if (guest->worker != NULL) {
            gy_worker_enter(guest->worker, GY_WORKER_RELEASING);
        }
    }
}

void gy_gpu_guest_stop_helping(struct gy_gpu_guest *guest)
{
    assert(guest->worker == NULL);
    if (guest->is_in || guest->is_counted) {
        struct gy_kept_error before;
        gy_error_keep(&before);
        guest->manager->gpu.ops->guests.leave(guest->manager->gpu.dispatcher, guest);
        gy_error_put_back(&before);
    }
}

/* Run what completions have made ready, without holding anything of the dispatcher's. */
static void run_released(struct gy_gpu_guest *guest)
{
    struct gy_worker *worker = guest->worker;
    guest->worker = NULL;
    gy_worker_enter(worker, GY_WORKER_BETWEEN);
    if (worker->next == NULL && gy_deque_is_empty(&worker->deque)) {
        gy_guest_end(worker);
    } else {
        gy_gpu_guest_stop_helping(guest);
        (void)gy_guest_work(worker, guest->wait);
    }
}

bool gy_gpu_guest_help(struct gy_gpu_guest *guest)
{
    struct gy_kept_error before;
    gy_error_keep(&before);
    bool any = guest->manager->gpu.ops->guests.look(guest->manager->gpu.dispatcher, guest);
    gy_error_put_back(&before);
    if (guest->worker != NULL) {
        run_released(guest);
    }
    guest->has_helped |= any;
    return any;
}
