/* SPDX-License-Identifier: MIT */
/* A thread's last error, kept while it runs the tasks of others. */
#ifndef TASKMAN_CPU_KEPT_ERROR_H
#define TASKMAN_CPU_KEPT_ERROR_H

#include "base/status.h"

/* The calling thread's last error, kept while it waits: the tasks that it runs meanwhile have errors of
 * their own. */
struct gy_kept_error {
    bool is_set;
    struct gy_error error; /* meaningless unless is_set: it is long */
};

static inline void gy_error_keep(struct gy_kept_error *kept)
{
    const struct gy_error *last = gy_error_last();
    kept->is_set = last->status != GANTRY_OK;
    if (kept->is_set) {
        kept->error = *last;
    }
}

static inline void gy_error_put_back(const struct gy_kept_error *kept)
{
    if (kept->is_set) {
        gy_error_adopt(&kept->error);
    } else if (gy_error_last()->status != GANTRY_OK) {
        gy_error_clear();
    }
}

#endif
