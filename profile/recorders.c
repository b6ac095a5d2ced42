/* SPDX-License-Identifier: MIT */
/* The parts of the library that hold back work of a recording, and that are asked for it before the recording
 * ends. */
#include "base/clock.h"
#include "base/thread.h"
#include "profile/session.h"

#include <stdatomic.h>

#define PATIENCE_NS 10000000000u
#define EXIT_PATIENCE_NS 2000000000u /* a program that exits, maybe since it was interrupted, ends soon */

static atomic_uint_fast64_t patience = PATIENCE_NS; /* atomic: how long the end of a recording waits */

#ifdef GANTRY_TESTING
void gy_profile_set_patience(uint64_t ns)
{
    atomic_store(&patience, ns);
}
#endif

void gy_profile_is_in_exit(void)
{
    if (atomic_load(&patience) > EXIT_PATIENCE_NS) {
        atomic_store(&patience, EXIT_PATIENCE_NS);
    }
}

#define NAP_LEAST_NS 20000u
#define NAP_MOST_NS 640000u

bool gy_profile_nap(gy_cond *changed, gy_mutex *lock, uint64_t *pause_ns, uint64_t until_ns)
{
    const uint64_t now = gy_clock_ns();
    if (now >= until_ns) {
        return false;
    }
    *pause_ns = *pause_ns == 0 ? NAP_LEAST_NS : *pause_ns < NAP_MOST_NS ? *pause_ns * 2 : *pause_ns;
    gy_mutex_lock(lock);
    gy_cond_wait_until(changed, lock, *pause_ns < until_ns - now ? now + *pause_ns : until_ns);
    gy_mutex_unlock(lock);
    return true;
}

static gy_cond drained = GY_COND_INIT; /* recorders_lock: a recorder's users fell to 0 */
static gy_mutex recorders_lock = {PTHREAD_MUTEX_INITIALIZER, GY_RANK_LEAF};
static struct gy_profile_recorder *recorders; /* guarded by recorders_lock */

void gy_profile_add_recorder(struct gy_profile_recorder *recorder)
{
    gy_mutex_lock(&recorders_lock);
    recorder->next = recorders;
    recorders = recorder;
    gy_mutex_unlock(&recorders_lock);
}

void gy_profile_remove_recorder(struct gy_profile_recorder *recorder)
{
    gy_mutex_lock(&recorders_lock);
    while (recorder->users != 0) {
        gy_cond_wait(&drained, &recorders_lock);
    }
    struct gy_profile_recorder **link = &recorders;
    while (*link != recorder) {
        link = &(*link)->next;
    }
    *link = recorder->next;
    gy_mutex_unlock(&recorders_lock);
}

uint64_t gy_profile_drain_recorders(uint64_t generation)
{
    const uint64_t until_ns = gy_clock_ns() + atomic_load(&patience);
    uint64_t unfinished = 0;
    gy_mutex_lock(&recorders_lock);
    for (struct gy_profile_recorder *r = recorders; r != NULL; r = r->next) {
        r->users++; /* this keeps it in the list, and its link valid */
        gy_mutex_unlock(&recorders_lock);
        unfinished += r->drain(r, generation, until_ns);
        gy_mutex_lock(&recorders_lock);
        if (--r->users == 0) {
            gy_cond_broadcast(&drained);
        }
    }
    gy_mutex_unlock(&recorders_lock);
    return unfinished;
}
