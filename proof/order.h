/* SPDX-License-Identifier: MIT */
/* The order that the program has declared: which parts of tasks come before which. */
#ifndef PROOF_ORDER_H
#define PROOF_ORDER_H

#include "proof/access.h"

/* Each is what base/proof.h says of the function of that name. */
void gy_order_edge(const void *task, const void *successor, bool when_done);
void gy_order_end(const void *manager, const void *task);
void gy_order_body_begin(const struct gy_proof_task *task);
void gy_order_body_end(const void *task);
void gy_order_launch_begin(const struct gy_proof_task *task);
void gy_order_completes(const void *task, bool of_all);
void gy_order_let_go(const void *task);
void gy_order_has_ended(const void *manager, const void *task, const void *successor, bool with_device);
void gy_order_step_begin(const void *manager);
void gy_order_step_waited(const void *manager);
void gy_order_synchronized(void);
void gy_order_calls_driver(bool is_calling);
void gy_order_manager_gone(const void *manager);

/* The work that the calling thread carries out has taken a mutex of the program, or is about to give one
 * back: while it holds one, whoever has held that comes before. */
void gy_order_locked(const void *mutex, bool is_shared); /* shared: beside others, as readers do */
void gy_order_unlocking(void);
/* The work has told a condition or a semaphore, and has waited for one: it comes after all that have told. */
void gy_order_wakes(const void *condition);
void gy_order_woken(const void *condition);

/* As base/proof.h has it, `queue` NULL: on none that is known.  A wait by the program joins what of the queue
 * was launched before by what the waiter comes after: that the rest ran earlier is chance. */
void gy_order_queue_follows(const void *queue, const void *other);
void gy_order_queue_done(const void *queue);
void gy_order_queue_gone(const void *queue);

uint32_t gy_order_enqueue(const void *queue);
void gy_order_enter(uint32_t work, const char *name, uint64_t block, bool is_kernel);
void gy_order_leave(void);
const void *gy_order_share(void);
void gy_order_share_begin(const void *shared);

/* There is no room for more of `what`, a constant: what the proof finds from now on is not all.  NULL: there
 * is. */
void gy_order_lack(const char *what);
const char *gy_order_lacks(void);

/* Parts and works so far. */
struct gy_order_counts {
    uint64_t parts, works;
};
struct gy_order_counts gy_order_counts(void);

#endif
