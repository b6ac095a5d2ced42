/* SPDX-License-Identifier: MIT */
/* Counts the lines of the log, from INFO on, that contain a text. */
#ifndef TESTS_SUPPORT_LOG_LINES_H
#define TESTS_SUPPORT_LOG_LINES_H

#include <gantry/base.h>

#include <stdatomic.h>
#include <string.h>

struct log_lines {
    const char *text;
    _Atomic(uint32_t) count;
};

static inline void log_lines_note(void *user, gantry_log_level level, const char *line)
{
    struct log_lines *lines = user;
    (void)level;
    atomic_fetch_add(&lines->count, strstr(line, lines->text) != NULL);
}

static inline void log_lines_begin(struct log_lines *lines, const char *text)
{
    lines->text = text;
    atomic_store(&lines->count, 0);
    gantry_set_log(log_lines_note, lines, GANTRY_LOG_INFO);
}

static inline uint32_t log_lines_end(struct log_lines *lines)
{
    gantry_set_log(NULL, NULL, GANTRY_LOG_INFO);
    return atomic_load(&lines->count);
}

#endif
