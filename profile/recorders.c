/* The parts of the library that hold back work of a recording, and that are asked for it before the recording
 * ends. */
#include "base/thread.h"
#include "profile/session.h"

static pthread_cond_t drained = PTHREAD_COND_INITIALIZER; /* recorders_lock: a recorder's users fell to 0 */
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
        pthread_cond_wait(&drained, &recorders_lock.native);
    }
    struct gy_profile_recorder **link = &recorders;
    while (*link != recorder) {
        link = &(*link)->next;
    }
    *link = recorder->next;
    gy_mutex_unlock(&recorders_lock);
}

void gy_profile_drain_recorders(uint64_t generation)
{
    gy_mutex_lock(&recorders_lock);
    for (struct gy_profile_recorder *r = recorders; r != NULL; r = r->next) {
        r->users++; /* this keeps it in the list, and its link valid */
        gy_mutex_unlock(&recorders_lock);
        r->drain(r, generation);
        gy_mutex_lock(&recorders_lock);
        if (--r->users == 0) {
            pthread_cond_broadcast(&drained);
        }
    }
    gy_mutex_unlock(&recorders_lock);
}
