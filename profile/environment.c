#include "profile/environment.h"

#include "base/environment.h"
#include "base/status.h"
#include "base/thread.h"
#include "profile/environment_options.h"
#include "profile/nvtx.h"
#include "profile/session.h"

#include <gantry/profile.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static gy_mutex lock = {PTHREAD_MUTEX_INITIALIZER, GY_RANK_LEAF};
static unsigned contexts;       /* guarded by lock */
static unsigned recordings;     /* guarded by lock: the recordings begun in this process */
static gantry_profile *profile; /* guarded by lock */
static pid_t recorder; /* guarded by lock: the process that began the latest; a forked child has no writer */

/* Take the running recording, if `condition` holds. */
static gantry_profile *take_if_locked(bool condition)
{
    gantry_profile *ending = condition ? profile : NULL;
    if (ending != NULL) {
        profile = NULL;
    }
    return ending;
}

/* End the recording at exit, since many programs end without destroying their contexts. */
static void leave_at_exit(void)
{
    gy_mutex_lock(&lock);
    gantry_profile *ending = take_if_locked(getpid() == recorder);
    gy_mutex_unlock(&lock);
    gy_profile_is_in_exit();
    (void)gantry_profile_stop(ending, NULL);
}

void gy_profile_environment_enter(void)
{
    const char *path = gy_environment("GANTRY_PROFILE");
    gy_nvtx_enter();
    gy_mutex_lock(&lock);
    bool first = contexts++ == 0 && profile == NULL && path != NULL;
    unsigned number = first ? ++recordings : 0;
    gy_mutex_unlock(&lock);
    if (!first) {
        return;
    }
    char numbered[4096];
    if (number == 1) {
        snprintf(numbered, sizeof(numbered), "%s", path);
    } else { /* earlier recordings are kept */
        snprintf(numbered, sizeof(numbered), "%s.%u", path, number);
    }
    gantry_profile_options options = GANTRY_PROFILE_OPTIONS_INIT;
    options.path = numbered;
    gantry_profile *started;
    if (gy_profile_parse_options(gy_environment("GANTRY_PROFILE_OPTIONS"), &options) != GANTRY_OK ||
        gy_profile_start(&options, true, &started) != GANTRY_OK) {
        gy_note("nothing is recorded into $GANTRY_PROFILE: %s", gantry_last_error());
        return; /* the program runs all the same */
    }
    gy_mutex_lock(&lock);
    bool is_first = recorder == 0;
    profile = started;
    recorder = getpid();
    gy_mutex_unlock(&lock);
    if (is_first) {
        (void)atexit(leave_at_exit); /* without this, such a recording would be cut short */
    }
    gy_log(GANTRY_LOG_INFO, "profile: recording into %s", numbered);
}

void gy_profile_environment_leave(void)
{
    gy_mutex_lock(&lock);
    gantry_profile *ending = take_if_locked(--contexts == 0);
    gy_mutex_unlock(&lock);
    (void)gantry_profile_stop(ending, NULL); /* logged; NULL is ignored */
}
