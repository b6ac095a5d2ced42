/* SPDX-License-Identifier: MIT */
#include "profile/environment.h"

#include "base/environment.h"
#include "base/file_name.h"
#include "base/status.h"
#include "base/thread.h"
#include "profile/environment_options.h"
#include "profile/session.h"
#include "profile/trace_file.h"

#include <gantry/profile.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME_BYTES 4096 /* of the file's name, but for what is put behind it */

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

/* Choose and claim the file of this process's recording of that number, the first one 1. */
static gantry_status choose_file(const char *text, unsigned number, char *out, size_t room)
{
    char first[NAME_BYTES];
    gantry_status status = gy_file_name("GANTRY_PROFILE", text, first, sizeof(first));
    if (status != GANTRY_OK) {
        return status;
    }
    if (number == 1) {
        (void)snprintf(out, room, "%s", first);
    } else { /* earlier recordings are kept */
        (void)snprintf(out, room, "%s.%u", first, number);
    }
    if (!gy_trace_file_claim(out)) {
        size_t bytes = strlen(out);
        (void)snprintf(out + bytes, room - bytes, ".%ld", (long)getpid());
        gy_note("profile: another process records into the file of $GANTRY_PROFILE; this one into %s (%%p in "
                "the name is a process's number)",
                out);
        (void)gy_trace_file_claim(out); /* only of an ended process that had this number */
    }
    return GANTRY_OK;
}

void gy_profile_environment_enter(void)
{
    const char *path = gy_environment("GANTRY_PROFILE");
    gy_mutex_lock(&lock);
    bool first = contexts++ == 0 && profile == NULL && path != NULL;
    unsigned number = first ? ++recordings : 0;
    gy_mutex_unlock(&lock);
    if (!first) {
        return;
    }
    char name[NAME_BYTES + 32];
    gantry_profile_options options = GANTRY_PROFILE_OPTIONS_INIT;
    options.path = name;
    gantry_profile *started;
    if (gy_profile_parse_options(gy_environment("GANTRY_PROFILE_OPTIONS"), &options) != GANTRY_OK ||
        choose_file(path, number, name, sizeof(name)) != GANTRY_OK ||
        gy_profile_start(&options, true, &started) != GANTRY_OK) {
        gy_trace_file_unclaim();
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
    gy_log(GANTRY_LOG_INFO, "profile: recording into %s", name);
}

void gy_profile_environment_leave(void)
{
    gy_mutex_lock(&lock);
    gantry_profile *ending = take_if_locked(--contexts == 0);
    gy_mutex_unlock(&lock);
    (void)gantry_profile_stop(ending, NULL); /* logged; NULL is ignored */
}
