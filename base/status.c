/* SPDX-License-Identifier: MIT */
#include "base/status.h"

#include "base/environment.h"
#include "base/outside.h"
#include "base/thread.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static _Thread_local struct gy_error last;

enum {
    LOG_OFF = -1,
    LOG_NOT_ASKED = -2, /* the application has installed no receiver, and $GANTRY_LOG was not read yet */
};

/* Serialises log lines.  It is no gy_mutex, since that may log itself. */
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static gantry_log_fn log_fn;               /* guarded by log_lock */
static void *log_user;                     /* guarded by log_lock */
static atomic_int log_max = LOG_NOT_ASKED; /* atomic; the level, or one of the above */
static bool is_log_chosen;                 /* guarded by log_lock; by gantry_set_log() or $GANTRY_LOG */

const char *gantry_status_name(gantry_status status)
{
    switch (status) {
#define STATUS_NAME(name, value, text) \
    case GANTRY_##name:                \
        return "GANTRY_" #name;
        GANTRY_STATUS_MAP(STATUS_NAME)
#undef STATUS_NAME
    }
    return "GANTRY_ERR_?";
}

const char *gantry_status_text(gantry_status status)
{
    switch (status) {
#define STATUS_TEXT(name, value, text) \
    case GANTRY_##name:                \
        return text;
        GANTRY_STATUS_MAP(STATUS_TEXT)
#undef STATUS_TEXT
    }
    return "unknown status";
}

const char *gantry_version(void)
{
#define VERSION_TEXT_(a, b, c) #a "." #b "." #c
#define VERSION_TEXT(a, b, c) VERSION_TEXT_(a, b, c)
    return VERSION_TEXT(GANTRY_VERSION_MAJOR, GANTRY_VERSION_MINOR, GANTRY_VERSION_PATCH);
}

const char *gantry_last_error(void)
{
    return last.text;
}

int gantry_last_native_error(void)
{
    return last.native;
}

const struct gy_error *gy_error_last(void)
{
    return &last;
}

void gy_error_clear(void)
{
    last.status = GANTRY_OK;
    last.native = 0;
    last.text[0] = '\0';
}

gantry_status gy_error_adopt(const struct gy_error *error)
{
    if (error != &last) {
        last = *error;
    }
    return error->status;
}

void gy_error_put_before(const char *format, ...)
{
    struct gy_error error = last;
    char words[GY_ERROR_TEXT_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(words, sizeof(words), format, args);
    va_end(args);
    int bytes = snprintf(error.text, sizeof(error.text), "%s: %s", words, last.text);
    if (bytes > 0 && (size_t)bytes < sizeof(error.text)) {
        last = error;
    }
}

gantry_status gy_fail(gantry_status status, int native, const char *file, int line, const char *format, ...)
{
    struct gy_error error = {.status = status, .native = native};
    char place[128]; /* where the cause is too long for the text, its end is cut and not the place */
    const char *name = gantry_status_name(status);
    /* The place in the library's source is for people who work on it, and log everything. */
    int place_bytes = gy_log_enabled(GANTRY_LOG_DEBUG)
                          ? snprintf(place, sizeof(place), " [%s, %s:%d]", name, file, line)
                          : snprintf(place, sizeof(place), " [%s]", name);
    size_t room =
        sizeof(error.text) - ((size_t)place_bytes < sizeof(place) ? (size_t)place_bytes : sizeof(place));
    va_list args;
    va_start(args, format);
    vsnprintf(error.text, room, format, args);
    va_end(args);
    strncat(error.text, place, sizeof(error.text) - strlen(error.text) - 1);
    last = error;
    gy_log(GANTRY_LOG_ERROR, "%s", last.text);
    return status;
}

void gantry_set_log(gantry_log_fn log, void *user, gantry_log_level max_level)
{
    pthread_mutex_lock(&log_lock);
    log_fn = log;
    log_user = user;
    is_log_chosen = true;
    atomic_store(&log_max, log != NULL ? (int)max_level : LOG_OFF);
    pthread_mutex_unlock(&log_lock);
}

static const char *const level_names[] = {"error", "warning", "info", "debug"};

/* One write per line, without stdio. */
static void write_to_stderr(const char *kind, const char *line)
{
    char text[GY_ERROR_TEXT_BYTES + 96];
    int bytes = snprintf(text, sizeof(text), "gantry: %s: %s\n", kind, line);
    ssize_t written = write(STDERR_FILENO, text, (size_t)bytes);
    (void)written; /* there is nobody to tell */
}

/* The receiver that $GANTRY_LOG asks for. */
static void log_to_stderr(void *user, gantry_log_level level, const char *line)
{
    (void)user;
    write_to_stderr(level_names[level], line);
}

/* Returns what log_max is now.  Who looks for mistakes with $GANTRY_CHECK sees what is found. */
static int ask_environment(void)
{
    const char *asked = gy_environment("GANTRY_LOG");
    const bool checks = gy_environment_is_on("GANTRY_CHECK");
    bool unknown = false;
    pthread_mutex_lock(&log_lock);
    if (atomic_load(&log_max) == LOG_NOT_ASKED) {
        int level = LOG_OFF;
        if (asked != NULL) {
            for (level = GANTRY_LOG_DEBUG; level >= 0 && strcmp(asked, level_names[level]) != 0;) {
                level--;
            }
            unknown = level < 0;
            level = unknown ? GANTRY_LOG_INFO : level;
            log_fn = log_to_stderr;
            is_log_chosen = true;
        } else if (checks) {
            level = GANTRY_LOG_WARNING;
            log_fn = log_to_stderr;
        }
        atomic_store(&log_max, level);
    }
    int level = atomic_load(&log_max);
    pthread_mutex_unlock(&log_lock);
    if (unknown) {
        gy_log(GANTRY_LOG_WARNING, "$GANTRY_LOG is \"%s\", not error, warning, info or debug: info", asked);
    }
    return level;
}

bool gy_log_enabled(gantry_log_level level)
{
    int most = atomic_load_explicit(&log_max, memory_order_relaxed);
    return (int)level <= (most == LOG_NOT_ASKED ? ask_environment() : most);
}

/* The thread is on its way to the application's function, in it, or back: what fails meanwhile is not logged,
 * which would be in the middle of a line. */
static _Thread_local bool is_logging;

#ifdef GANTRY_TESTING
void gy_log_leave(void)
{
    if (is_logging) {
        is_logging = false;
        pthread_mutex_unlock(&log_lock);
    }
}
#endif

/* The error of which the line tells stays the thread's last one.  The lock is held. */
static void call_log_fn(gantry_log_level level, const char *line)
{
    const struct gy_error before = last;
    is_logging = true;
    const struct gy_inside *inside = gy_outside_begin();
    log_fn(log_user, level, line);
    (void)gy_outside_end(inside);
    is_logging = false;
    last = before;
}

void gy_log(gantry_log_level level, const char *format, ...)
{
    if (is_logging || !gy_log_enabled(level)) {
        return;
    }
    char line[GY_ERROR_TEXT_BYTES + 64];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    pthread_mutex_lock(&log_lock);
    if (log_fn != NULL) {
        call_log_fn(level, line);
    }
    pthread_mutex_unlock(&log_lock);
}

void gy_note(const char *format, ...)
{
    char line[GY_ERROR_TEXT_BYTES + 64];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    gy_log(GANTRY_LOG_INFO, "%s", line); /* $GANTRY_LOG has been read after it */
    pthread_mutex_lock(&log_lock);
    bool is_chosen = is_log_chosen;
    pthread_mutex_unlock(&log_lock);
    if (!is_chosen) {
        write_to_stderr("note", line);
    }
}
