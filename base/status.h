/* SPDX-License-Identifier: MIT */
/* Errors with their cause, and the log.
 *
 * The first function that decides on an error calls GY_FAIL once: it formats the cause, keeps it as the
 * calling thread's last error, logs it and returns the status.  Functions above only pass it on. */
#ifndef BASE_STATUS_H
#define BASE_STATUS_H

#include <gantry/base.h>

#include <stdbool.h>

#define GY_ERROR_TEXT_BYTES 512

/* An error with its cause, which can be copied from one thread to another. */
struct gy_error {
    gantry_status status;
    int native; /* CUresult, 0 when no driver call is to blame */
    char text[GY_ERROR_TEXT_BYTES];
};

/* Keep and log the cause; returns `status`. */
gantry_status gy_fail(gantry_status status, int native, const char *file, int line, const char *format, ...)
    GANTRY_PRINTF(5, 6);

#define GY_FAIL(status, ...) gy_fail((status), 0, __FILE__, __LINE__, __VA_ARGS__)
#define GY_FAIL_NATIVE(status, native, ...) gy_fail((status), (native), __FILE__, __LINE__, __VA_ARGS__)

/* Is a callback's answer the status of a failure, and no other number? */
static inline bool gy_status_is_failure(gantry_status status)
{
    return status < GANTRY_OK && status >= GANTRY_ERR_TIMED_OUT; /* the last of GANTRY_STATUS_MAP */
}

/* The calling thread's last error; status GANTRY_OK when there is none. */
const struct gy_error *gy_error_last(void);

/* Forget the calling thread's last error, so that a later look tells whether a callback set one. */
void gy_error_clear(void);

/* Make `error` the calling thread's last error without logging it again; returns its status. */
gantry_status gy_error_adopt(const struct gy_error *error);

/* Put words and a colon before the calling thread's last error, for what only a function above knows: which
 * one of many it was.  Nothing is logged again.  A text that would become too long stays as it is. */
void gy_error_put_before(const char *format, ...) GANTRY_PRINTF(1, 2);

bool gy_log_enabled(gantry_log_level level);
void gy_log(gantry_log_level level, const char *format, ...) GANTRY_PRINTF(2, 3);

/* Log at GANTRY_LOG_INFO what every user should know.  The line goes to stderr when nobody has chosen what is
 * logged: the program has set no receiver, and $GANTRY_LOG is not set. */
void gy_note(const char *format, ...) GANTRY_PRINTF(1, 2);

#ifdef GANTRY_TESTING
/* An assertion has failed in the log callback, which will not return: give the log's lock back.  Does
 * nothing anywhere else. */
void gy_log_leave(void);
#endif

#endif
