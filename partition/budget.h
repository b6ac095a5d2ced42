/* SPDX-License-Identifier: MIT */
/* The process's limit on GPU time ($CUDA_DEVICE_SM_LIMIT): there is one bucket per device, which all contexts
 * of that device in this process share.  Each account under the limit has its own bucket as well and asks
 * both; the time that it uses is charged to both.
 *
 * Threading: any thread; each budget has its own lock. */
#ifndef PARTITION_BUDGET_H
#define PARTITION_BUDGET_H

#include "driver/context.h"
#include "partition/bucket.h"

struct gy_budget;

/* Get the budget of the context's device, which is made when there is none; `rate` is its part of the
 * device's time.  A budget that exists keeps its rate, and the log warns when `rate` is another one.
 * `now_ns` is a time of the caller's clock, here and below.
 * @retval GANTRY_ERR_OUT_OF_HOST_MEMORY */
GANTRY_MUST_CHECK gantry_status gy_budget_join(const struct gy_context *context, double rate,
                                               uint64_t burst_ns, uint64_t now_ns, struct gy_budget **out);
/* Leave the budget.  All work that the caller began has ended, and the caller is not busy.  NULL is ignored.
 */
void gy_budget_leave(struct gy_budget *budget);

/* An account begins, or ceases, to want GPU time or to have work in flight: while no account does, no more
 * than a burst is saved up. */
void gy_budget_set_busy(struct gy_budget *budget, bool busy, uint64_t now_ns);

/* Are there tokens now?  If there are none, the budget admits again when it has `group` of them. */
bool gy_budget_admits(struct gy_budget *budget, double group, uint64_t now_ns);
/* As gy_bucket_begin() and gy_bucket_end(). */
void gy_budget_begin(struct gy_budget *budget, double predicted_ns);
void gy_budget_end(struct gy_budget *budget, double predicted_ns, double used_ns, uint64_t now_ns);
/* The time at which to ask again after the budget did not admit; others may end or begin work before. */
uint64_t gy_budget_ready_ns(struct gy_budget *budget);

/* The number of budgets of the process, for tests. */
uint32_t gy_budget_count(void);

#endif
