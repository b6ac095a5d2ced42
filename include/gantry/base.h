/* SPDX-License-Identifier: MIT */
/**
 * @file base.h
 * What every other Gantry header stands on: statuses, errors, log and allocator hooks, version.
 *
 * Threading: every function here may be called from any thread at any time unless its comment
 * says otherwise.
 */
#ifndef GANTRY_BASE_H
#define GANTRY_BASE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define GANTRY_BEGIN_DECLS extern "C" {
#define GANTRY_END_DECLS }
#else
/** From here on declarations have C names, also in C++. */
#define GANTRY_BEGIN_DECLS
/** The end of what GANTRY_BEGIN_DECLS began. */
#define GANTRY_END_DECLS
#endif

#if defined(__GNUC__)
/** The library exports it. */
#define GANTRY_API __attribute__((visibility("default")))
/** The compiler warns when the result is not looked at. */
#define GANTRY_MUST_CHECK __attribute__((warn_unused_result))
/** The compiler checks the arguments behind `format`, as those of printf(); both are counted from 1. */
#define GANTRY_PRINTF(format_index, first_index) __attribute__((format(printf, format_index, first_index)))
#else
#define GANTRY_API
#define GANTRY_MUST_CHECK
#define GANTRY_PRINTF(format_index, first_index)
#endif

#define GANTRY_VERSION_MAJOR 0 /* of the headers; gantry_version() is that of the library */
#define GANTRY_VERSION_MINOR 2 /* as above */
#define GANTRY_VERSION_PATCH 0 /* as above */

GANTRY_BEGIN_DECLS

/** Every status of the library: X(NAME, value, text).  Values never change meaning. */
#define GANTRY_STATUS_MAP(X)                                                             \
    X(OK, 0, "success")                                                                  \
    X(ERR_INVALID_ARGUMENT, -1, "an argument is invalid")                                \
    X(ERR_OUT_OF_HOST_MEMORY, -2, "host memory or a host resource is exhausted")         \
    X(ERR_OUT_OF_DEVICE_MEMORY, -3, "device or page-locked memory is exhausted")         \
    X(ERR_UNSUPPORTED, -4, "not supported by this library, driver or device")            \
    X(ERR_NOT_FOUND, -5, "no object of that name or id")                                 \
    X(ERR_STATE, -6, "the object is in a state that forbids this call")                  \
    X(ERR_CLOSED, -7, "the object is being destroyed")                                   \
    X(ERR_DEVICE_LOST, -8, "the context is lost after an earlier CUDA error")            \
    X(ERR_DRIVER, -9, "a CUDA driver call failed")                                       \
    X(ERR_NO_DEVICE, -10, "no usable CUDA device")                                       \
    X(ERR_NO_DRIVER, -11, "no usable CUDA driver library")                               \
    X(ERR_DUPLICATE_NAME, -12, "a live task has this name already")                      \
    X(ERR_CYCLE, -13, "the task graph has a cycle")                                      \
    X(ERR_LATE_DEPENDENCY, -14, "the task has been dispatched already")                  \
    X(ERR_FOREIGN_HANDLE, -15, "the handle belongs to another object")                   \
    X(ERR_TASK_FAILED, -16, "a task failed, or one it depends on did")                   \
    X(ERR_IO, -17, "a file could not be read or written")                                \
    X(ERR_UNFILLED_NAME, -18, "a name was referred to but no task was submitted for it") \
    X(ERR_CANCELLED, -19, "the run was cancelled before the task's turn came")           \
    X(ERR_TIMED_OUT, -20, "what was waited for did not come in time")

typedef enum gantry_status {
#define GANTRY_STATUS_ENUM(name, value, text) GANTRY_##name = (value),
    GANTRY_STATUS_MAP(GANTRY_STATUS_ENUM)
#undef GANTRY_STATUS_ENUM
} gantry_status;

/** The constant's name, for instance "GANTRY_ERR_STATE"; "GANTRY_ERR_?" for an unknown value.
 *  The string is static. */
GANTRY_API const char *gantry_status_name(gantry_status status);

/** One English sentence without a full stop; static. */
GANTRY_API const char *gantry_status_text(gantry_status status);

/** What went wrong in the calling thread's latest failed call: cause, the failing driver call with
 *  its CUresult name where there was one, and the status's name; at log level debug also file:line of the
 *  library's source.  "" when nothing has failed yet.
 *  The string belongs to the thread and is valid until its next failing call. */
GANTRY_API const char *gantry_last_error(void);

/** The CUresult behind gantry_last_error(), 0 when the cause was not a driver call. */
GANTRY_API int gantry_last_native_error(void);

/** "0.2.0"; static. */
GANTRY_API const char *gantry_version(void);

/** Log levels: an error is something the caller is told of by a status as well; a warning is
 *  something that works, but not as asked; info happens once per object at most. */
typedef enum gantry_log_level {
    GANTRY_LOG_ERROR = 0,   /* the caller gets a status as well */
    GANTRY_LOG_WARNING = 1, /* it works, but not as asked */
    GANTRY_LOG_INFO = 2,    /* once per object at most */
    GANTRY_LOG_DEBUG = 3,   /* all else */
} gantry_log_level;

/** Receives one log line without a newline.  Called from any thread, with no lock of the library
 *  held except the one that serialises log lines; must not call into Gantry. */
typedef void (*gantry_log_fn)(void *user, gantry_log_level level, const char *line);

/** Install the process's log receiver; NULL discards everything.  Lines with a level above `max_level` are
 *  not formatted.  When this returns, the former receiver is not running and will not be called again.
 *  Without a call of this function there is no receiver either, unless the environment has $GANTRY_LOG:
 *  error, warning, info or debug.  Lines up to that level then go to stderr; with $GANTRY_CHECK alone errors
 *  and warnings do. */
GANTRY_API void gantry_set_log(gantry_log_fn log, void *user, gantry_log_level max_level);

/** Host memory for the library's own objects. */
typedef struct gantry_allocator {
    size_t struct_size;
    /** `bytes` > 0, `alignment` a power of two ≥ sizeof(void *); NULL when out of memory. */
    void *(*allocate)(void *user, size_t bytes, size_t alignment);
    /** `pointer` came from allocate() with the same `bytes`; never NULL. */
    void (*release)(void *user, void *pointer, size_t bytes);
    void *user; /* handed to both functions */
} gantry_allocator;
#define GANTRY_ALLOCATOR_INIT                      \
    {                                              \
        sizeof(gantry_allocator), NULL, NULL, NULL \
    }

/** Use `allocator` for all host memory of the library from now on; NULL restores malloc/free.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  a function of `allocator` is NULL, or its struct_size too small
 *  @retval GANTRY_ERR_UNSUPPORTED       it has a field that this version does not know
 *  @retval GANTRY_ERR_STATE             memory of the present allocator is still in use */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_set_allocator(const gantry_allocator *allocator);

GANTRY_END_DECLS

#endif
