#include "emulator/logs.h"

#include "emulator/worker.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define RECEIVERS 4
#define TEXT_BYTES 400

static struct receiver {
    CUlogsCallback callback; /* NULL: the entry is free */
    void *user;
} receivers[RECEIVERS];
static uint32_t receiver_count;
static uint32_t telling; /* threads that are calling receivers */

/* The next two belong to the call that the thread is in; only this thread touches them. */
static _Thread_local enum gy_emu_fn running;
static _Thread_local char reasons[TEXT_BYTES]; /* lines, each with its end */
static _Thread_local struct receiver wanted[RECEIVERS];

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

bool gy_emu_logs_want(CUresult result)
{
    if (__builtin_expect(receiver_count == 0 || result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY,
                         1)) {
        return false;
    }
    const char *failure = reasons[0] == '\0' ? gy_emu_failure_of(result) : NULL;
    if (failure != NULL) { /* the call tells the failure of a kernel that was launched before */
        gy_emu_explain("%s", failure);
    }
    memcpy(wanted, receivers, sizeof(wanted));
    telling++;
    return true;
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

void gy_emu_logs_tell(CUresult result)
{
    char lines[TEXT_BYTES + 160];
    snprintf(lines, sizeof(lines), "%sReturning %d (%s) from %s\n", reasons, (int)result,
             gy_emu_result_name(result), gy_emu_fn_symbol(running));
    for (const char *line = lines; *line != '\0';) {
        size_t length = strcspn(line, "\n");
        tell_all(line, length);
        line += length + 1;
    }
    gy_emu_control_enter();
    telling--;
    gy_emu_progress();
    gy_emu_control_leave();
}

/* ---- calls ----------------------------------------------------------------------------------- */

static CUresult register_callback(CUlogsCallback callback, void *user, CUlogsCallbackHandle *handle)
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

CUresult cuLogsRegisterCallback(CUlogsCallback callback, void *user, CUlogsCallbackHandle *handle)
{
    return GY_EMU_CALL(cuLogsRegisterCallback, register_callback(callback, user, handle));
}

/* When this returns, the callback is not called any more. */
static CUresult unregister_callback(CUlogsCallbackHandle handle)
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

CUresult cuLogsUnregisterCallback(CUlogsCallbackHandle handle)
{
    return GY_EMU_CALL(cuLogsUnregisterCallback, unregister_callback(handle));
}
