#include "profile/environment.h"

#include "base/status.h"
#include "base/thread.h"

#include <gantry/profile.h>

#include <stdio.h>
#include <stdlib.h>

static gy_mutex lock = {PTHREAD_MUTEX_INITIALIZER, GY_RANK_LEAF};
static unsigned contexts;       /* guarded by lock */
static unsigned recordings;     /* guarded by lock: begun in this process */
static gantry_profile *profile; /* guarded by lock */

void gy_profile_environment_enter(void)
{
    const char *path = getenv("GANTRY_PROFILE");
    gy_mutex_lock(&lock);
    bool first = contexts++ == 0 && profile == NULL && path != NULL && path[0] != '\0';
    unsigned number = first ? ++recordings : 0;
    gy_mutex_unlock(&lock);
    if (!first) {
        return;
    }
    char numbered[4096];
    if (number == 1) {
        snprintf(numbered, sizeof(numbered), "%s", path);
    } else { /* what was recorded before stays */
        snprintf(numbered, sizeof(numbered), "%s.%u", path, number);
    }
    gantry_profile_options options = GANTRY_PROFILE_OPTIONS_INIT;
    options.path = numbered;
    gantry_profile *started;
    if (gantry_profile_start(&options, &started) != GANTRY_OK) {
        return; /* logged; the program runs all the same */
    }
    gy_mutex_lock(&lock);
    profile = started;
    gy_mutex_unlock(&lock);
    gy_log(GANTRY_LOG_INFO, "profile: recording into %s", numbered);
}

void gy_profile_environment_leave(void)
{
    gy_mutex_lock(&lock);
    gantry_profile *ending = --contexts == 0 ? profile : NULL;
    if (ending != NULL) {
        profile = NULL;
    }
    gy_mutex_unlock(&lock);
    (void)gantry_profile_stop(ending, NULL); /* logged; NULL is ignored */
}
