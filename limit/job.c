/* SPDX-License-Identifier: MIT */
#include "limit/job.h"

#include "limit/guard.h"
#include "limit/old_glibc.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Why this process has no limit, or that it has one. */
enum job_state { UNREAD, NO_JOB, LIMITED, ENTERED, UNLIMITED };

static _Atomic enum job_state
    state; /* written by begin(), and by who enters or leaves under the meter's lock */
static char path[GY_REGION_PATH_BYTES];    /* immutable after begin() */
static struct gy_region_settings settings; /* immutable after begin() */
static struct gy_region_place place;       /* guarded by the meter's lock, as the next */
static struct gy_region_place common;      /* of all jobs; without a region: it cannot be had */

static void read_environment(void)
{
    const char *job = secure_getenv("GANTRY_LIMIT_JOB"), *text = secure_getenv("GANTRY_LIMIT_SETTINGS");
    const bool is_good = job != NULL && text != NULL && gy_job_parse(text, &settings) &&
                         snprintf(path, sizeof(path), "%s", job) < (int)sizeof(path);
    if (job != NULL && !is_good) {
        gy_job_tell("this process has no limit: GANTRY_LIMIT_SETTINGS or GANTRY_LIMIT_JOB is not what gantry "
                    "limit writes");
    }
    atomic_store(&state, is_good ? LIMITED : NO_JOB);
}

/* When the library is loaded; or when another library's constructor, which may run before, asks. */
__attribute__((constructor)) static void begin(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, read_environment);
}

bool gy_job_is_limited(void)
{
    enum job_state now = atomic_load_explicit(&state, memory_order_relaxed);
    if (now == UNREAD) {
        begin();
        now = atomic_load(&state);
    }
    return now == LIMITED || now == ENTERED;
}

bool gy_job_is_verbose(void)
{
    return settings.verbose != 0;
}

/* Without it the job is limited as if it were alone. */
static void enter_common(void)
{
    const struct gy_region_settings no_limit = {.share = GY_REGION_WHOLE, .credit_ms = 1000};
    char where[GY_REGION_PATH_BYTES], why[GY_REGION_TEXT_BYTES];
    gy_region_common_path(where, sizeof(where));
    if (gy_region_enter(where, &no_limit, &common, why)) {
        gy_guard_begin(common.region, sizeof(*common.region));
    }
}

struct gy_region_place *gy_job_common(void)
{
    return common.region != NULL ? &common : NULL;
}

struct gy_region_place *gy_job_enter(char why[GY_REGION_TEXT_BYTES])
{
    if (atomic_load(&state) == LIMITED) {
        const bool is_in = gy_region_enter(path, &settings, &place, why);
        atomic_store(&state, is_in ? ENTERED : UNLIMITED);
        if (is_in) {
            gy_guard_begin(place.region, sizeof(*place.region));
            enter_common();
        }
    }
    return atomic_load(&state) == ENTERED ? &place : NULL;
}

void gy_job_leave(void)
{
    if (atomic_load(&state) == ENTERED) {
        atomic_store(&state, UNLIMITED);
        gy_region_retire(&place);
        if (common.region != NULL) {
            gy_region_retire(&common);
        }
    }
}

void gy_job_forget(void)
{
    if (atomic_load(&state) == ENTERED) {
        gy_region_drop(&place);
        gy_region_drop(&common);
        gy_guard_forget();
        atomic_store(&state, LIMITED);
    }
}
