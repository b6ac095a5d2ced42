/* SPDX-License-Identifier: MIT */
#include "emulator/logs.h"

#include "base/environment.h"
#include "emulator/context.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define RECEIVERS 4
#define TEXT_BYTES 400
#define NO_FILE (-1)

static struct receiver {
    CUlogsCallback callback; /* NULL: the entry is free */
    void *user;
} receivers[RECEIVERS];
static uint32_t receiver_count;
static uint32_t telling; /* threads that are calling receivers */

static enum { FILE_UNREAD, FILE_NONE, FILE_OPEN } file_state; /* of $CUDA_LOG_FILE */
static int log_file;                                          /* while it is open; never closed */

/* The next three belong to the call that the thread is in; only this thread touches them. */
static _Thread_local enum gy_emu_fn running;
static _Thread_local char reasons[TEXT_BYTES]; /* lines, each with its end */
static _Thread_local struct receiver wanted[RECEIVERS];
static _Thread_local int wanted_file; /* for the lines, or for the reason alone where nobody else hears it */
static _Thread_local bool is_unheard;

void gy_emu_explain(const char *format, ...)
{
    size_t used = strlen(reasons);
    if (used + 2 >= sizeof(reasons)) {
        return;
    }
    va_list args;
    va_start(args, format);
    (void)vsnprintf(reasons + used, sizeof(reasons) - used - 1, format, args);
    va_end(args);
    used = strlen(reasons);
    (void)snprintf(reasons + used, sizeof(reasons) - used, "\n"); /* room was left for it */
}

void gy_emu_logs_begin(enum gy_emu_fn fn)
{
    running = fn;
    reasons[0] = '\0';
}

/* Drivers before CUDA 12.9 write none.  The file is made when there is something to write. */
static int open_file(void)
{
    const char *name = gy_environment("CUDA_LOG_FILE");
    if (name == NULL || gy_emu_lacks("cuLogsRegisterCallback")) {
        return NO_FILE;
    }
    if (strcmp(name, "stdout") == 0 || strcmp(name, "stderr") == 0) {
        return strcmp(name, "stdout") == 0 ? STDOUT_FILENO : STDERR_FILENO;
    }
    int file = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (file < 0) {
        (void)dprintf(STDERR_FILENO, "gantry-emu: $CUDA_LOG_FILE: %s: %s\n", name, strerrordesc_np(errno));
    }
    return file;
}

static int file_for_lines(void)
{
    if (file_state == FILE_UNREAD) {
        log_file = open_file();
        file_state = log_file >= 0 ? FILE_OPEN : FILE_NONE;
    }
    return file_state == FILE_OPEN ? log_file : NO_FILE;
}

/* The call fails: who is to hear of it?  The reason why a kernel failed goes to stderr, once, if nobody else.
 */
static bool choose_receivers(CUresult result)
{
    bool is_new = false;
    const char *failure = reasons[0] == '\0' ? gy_emu_failure_of(result, &is_new) : NULL;
    wanted_file = file_for_lines();
    is_unheard = receiver_count == 0 && wanted_file == NO_FILE;
    if (is_unheard && !is_new) {
        return false;
    }
    if (failure != NULL) { /* the call tells the failure of a kernel that was launched before */
        gy_emu_explain("%s", failure);
    }
    memcpy(wanted, receivers, sizeof(wanted));
    telling++;
    return true;
}

bool gy_emu_logs_want(CUresult result)
{
    return __builtin_expect(result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY, 0) &&
           choose_receivers(result);
}

static void tell_all(const char *line, size_t length)
{
    char text[TEXT_BYTES + 1];
    for (int i = 0; i < RECEIVERS; i++) {
        if (wanted[i].callback != NULL) {
            int bytes = snprintf(text, sizeof(text), "%.*s", (int)length, line);
            wanted[i].callback(wanted[i].user, CU_LOG_LEVEL_ERROR, text, (size_t)bytes);
        }
    }
}

/* "[22:21:32.099][25642][CUDA][E] kernel scale: it trapped", in one write, since others may write as well. */
static void write_line(const char *line, size_t length)
{
    struct timespec now;
    struct tm parts = {0};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)localtime_r(&now.tv_sec, &parts);
    (void)dprintf(wanted_file, "[%02d:%02d:%02d.%03ld][%d][CUDA][E] %.*s\n", parts.tm_hour, parts.tm_min,
                  parts.tm_sec, now.tv_nsec / 1000000, (int)gettid(), (int)length, line);
}

void gy_emu_logs_tell(CUresult result)
{
    char lines[TEXT_BYTES + 160];
    snprintf(lines, sizeof(lines), "%sReturning %d (%s) from %s\n", reasons, (int)result,
             gy_emu_result_name(result), gy_emu_fn_symbol(running));
    if (is_unheard) {
        (void)dprintf(STDERR_FILENO, "gantry-emu: %s", reasons);
    }
    for (const char *line = lines; *line != '\0' && !is_unheard;) {
        size_t length = strcspn(line, "\n");
        tell_all(line, length);
        if (wanted_file != NO_FILE) {
            write_line(line, length);
        }
        line += length + 1;
    }
    gy_emu_control_enter();
    telling--;
    gy_emu_progress();
    gy_emu_control_leave();
}

CUresult gy_emu_logs_register(CUlogsCallback callback, void *user, CUlogsCallbackHandle *handle)
{
    if (callback == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (int i = 0; i < RECEIVERS; i++) {
        if (receivers[i].callback == NULL) {
            receivers[i] = (struct receiver){callback, user};
            receiver_count++;
            if (handle != NULL) {
                *handle = (CUlogsCallbackHandle)(uintptr_t)(i + 1);
            }
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult gy_emu_logs_unregister(CUlogsCallbackHandle handle)
{
    const uintptr_t number = (uintptr_t)handle;
    if (number == 0 || number > RECEIVERS || receivers[number - 1].callback == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    receivers[number - 1].callback = NULL;
    receiver_count--;
    while (telling > 0) {
        gy_emu_wait_progress();
    }
    return CUDA_SUCCESS;
}
