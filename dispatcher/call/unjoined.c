/* SPDX-License-Identifier: MIT */
#include "dispatcher/call/unjoined.h"

#include "base/checking.h"
#include "dispatcher/internal.h"
#include "driver/driver.h"
#include "driver/told.h"

#include <inttypes.h>
#include <stdio.h>

#define ADVICE                                                                                             \
    "completions of the task, and what comes after it, do not cover that: record an event there and have " \
    "the stream of gantry_launch_stream() wait for it"

static void tell(const struct gantry_launch *launch, const char *what)
{
    const char *label = gantry_task_label(launch->task);
    const gantry_launch_fn function = gy_task_launch_fn(launch->task);
    if (gy_check_is_first((uintptr_t)function, (uintptr_t)label)) {
        gy_log(GANTRY_LOG_WARNING, "task '%s' %s; " ADVICE, label, what);
    }
}

void gy_unjoined_begin(const struct gantry_launch *launch)
{
    const struct gy_driver *driver = launch->dispatcher->config.context->driver;
    if (driver->watch_begin != NULL) {
        driver->watch_begin();
    }
}

void gy_unjoined_end(const struct gantry_launch *launch, gantry_launch_result result)
{
    struct gantry_dispatcher *d = launch->dispatcher;
    const struct gy_driver *driver = d->config.context->driver;
    void *other = NULL;
    if (driver->watch_end == NULL) {
        return;
    }
    const uint32_t left = driver->watch_end(d->streams.streams[launch->stream_index].native, &other);
    /* The callback may have failed to join, and work that a capture has refused is done again. */
    const bool is_whole = result != GANTRY_LAUNCH_FAILED &&
                          (!gy_mode_is_noted(launch) || gy_told_refusals() == launch->refusals);
    if (left != 0 && is_whole) {
        char what[120];
        snprintf(what, sizeof(what),
                 "leaves work on stream %p that its own stream does not wait for (%" PRIu32 " calls)", other,
                 left);
        tell(launch, what);
    }
}

void gy_unjoined_tell_capture(const struct gantry_launch *launch)
{
    if (gy_check_is_on(GY_CHECK_FORKS)) {
        tell(launch, "forks to a stream that it does not join");
    }
}
