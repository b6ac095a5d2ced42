/* SPDX-License-Identifier: MIT */
#include "driver/told.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FIRST_REFUSAL = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
    LAST_REFUSAL = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
};

/* The messages of the calling thread. */
static _Thread_local struct {
    uint32_t refusals;
    int failed_with;             /* the result of the latest call that failed; 0: its lines were read */
    char pending[GY_TOLD_BYTES]; /* lines of the call that is running */
    char lines[GY_TOLD_BYTES];   /* lines of the latest call that failed */
} heard;

static void append(const char *message, size_t length)
{
    size_t used = strlen(heard.pending);
    (void)snprintf(heard.pending + used, sizeof(heard.pending) - used, "%s%.*s", used != 0 ? "; " : "",
                   (int)length, message);
}

/* Get the result in "Returning 900 (…", or 0. */
static int end_of_call(const char *message, size_t length)
{
    static const char word[] = "Returning ";
    const char *at = memmem(message, length, word, sizeof(word) - 1);
    const char *end = message + length;
    int result = 0;
    for (at = at != NULL ? at + sizeof(word) - 1 : end; at < end && isdigit((unsigned char)*at); at++) {
        result = result < 100000 ? 10 * result + (*at - '0') : result;
    }
    return result;
}

static void hear(void *data, CUlogLevel level, char *message, size_t length)
{
    (void)data;
    if (message == NULL || level != CU_LOG_LEVEL_ERROR) {
        return;
    }
    length = strnlen(message, length < GY_TOLD_BYTES ? length : GY_TOLD_BYTES);
    while (length > 0 && isspace((unsigned char)message[length - 1])) {
        length--;
    }
    int result = end_of_call(message, length);
    if (result == 0) {
        append(message, length);
        return;
    }
    heard.failed_with = result;
    memcpy(heard.lines, heard.pending, sizeof(heard.lines));
    heard.pending[0] = '\0';
    heard.refusals += result >= FIRST_REFUSAL && result <= LAST_REFUSAL;
}

void gy_told_open(struct gy_driver *driver)
{
    driver->log = NULL;
    if (driver->cuLogsRegisterCallback != NULL && driver->cuLogsUnregisterCallback != NULL &&
        driver->cuLogsRegisterCallback(hear, NULL, &driver->log) != CUDA_SUCCESS) {
        driver->log = NULL; /* continue as with a driver that reports nothing */
    }
}

void gy_told_close(const struct gy_driver *driver)
{
    if (driver->log != NULL) {
        (void)driver->cuLogsUnregisterCallback(driver->log);
    }
}

uint32_t gy_told_refusals(void)
{
    return heard.refusals;
}

uint32_t *gy_told_refusals_at(void)
{
    return &heard.refusals;
}

void gy_told_take(CUresult result, char text[GY_TOLD_BYTES])
{
    text[0] = '\0';
    if (heard.failed_with == (int)result && result != CUDA_SUCCESS) {
        heard.failed_with = 0;
        memcpy(text, heard.lines, GY_TOLD_BYTES);
    }
}
