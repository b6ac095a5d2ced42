/* The thread that keeps the process's limit by what NVML says (partition/utilisation.h), and the tasks that
 * wait for it.  GD is the dispatcher's thread. */
#ifndef DISPATCHER_GATES_WATCHER_H
#define DISPATCHER_GATES_WATCHER_H

#include "dispatcher/bins.h"
#include "partition/utilisation.h"

struct gy_watcher {
    struct gy_utilisation *use; /* see there; shared with other contexts of the device */
    struct gy_inbox *inbox;     /* immutable; signalled when tokens were added */
    struct gy_gpu_list held;    /* GD only; kernel tasks */
    gy_mutex lock;              /* rank LEAF */
    gy_cond wake;               /* `closing` has changed */
    bool closing;               /* guarded by lock; never goes back */
    bool has_thread;            /* immutable; a test has none */
    gy_thread thread;           /* immutable */
};

/* @retval GANTRY_ERR_UNSUPPORTED         no NVML
 * @retval GANTRY_ERR_OUT_OF_HOST_MEMORY */
GANTRY_MUST_CHECK gantry_status gy_watcher_create(const struct gy_context *context, int limit,
                                                  struct gy_inbox *inbox, bool with_thread,
                                                  struct gy_watcher **out);
/* NULL is ignored. */
void gy_watcher_destroy(struct gy_watcher *watcher);

/* Every 120 ms, by the thread or by a test. */
void gy_watcher_tick(struct gy_watcher *watcher);

/* GD: put held tasks that may be launched, or all, in front of the kernel tasks in `bins`. */
void gy_watcher_unhold(struct gy_watcher *watcher, struct gy_bins *bins, bool all);

#endif
