/* SPDX-License-Identifier: MIT */
#include "cli/messages.h"

#include "cli/terminal.h"
#include "cli/text.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define REDRAW_NS UINT64_C(50000000)

static const struct {
    const char *name, *colour; /* the parameters of the escape sequence Select Graphic Rendition */
} kinds[] = {[CLI_ERROR] = {"error", "1;31"},
             [CLI_WARNING] = {"warning", "1;35"},
             [CLI_NOTE] = {"note", "1;36"},
             [CLI_DEBUG] = {"debug", "2"}};

static bool is_shown;     /* guarded by the lock of stderr: the line with the progress stands there */
static uint64_t shown_ns; /* guarded by the lock of stderr: when it was drawn */

static atomic_bool is_muted; /* atomic: notes are not printed */

void cli_mute_notes(bool mute)
{
    atomic_store(&is_muted, mute);
}

static void erase_locked(void)
{
    if (is_shown) {
        fputs("\r\033[K", stderr);
        is_shown = false;
    }
}

void cli_message_list(enum cli_message_kind kind, const char *format, va_list args)
{
    char *text = NULL;
    if (kind == CLI_NOTE && atomic_load(&is_muted)) {
        return;
    }
    if (vasprintf(&text, format, args) < 0) {
        text = NULL;
    }
    bool has_colour = cli_has_colour(stderr);
    flockfile(stderr);
    erase_locked();
    if (has_colour) {
        fprintf(stderr, "gantry: \033[%sm%s:\033[0m ", kinds[kind].colour, kinds[kind].name);
    } else {
        fprintf(stderr, "gantry: %s: ", kinds[kind].name);
    }
    cli_print_text(stderr, text != NULL ? text : format, 0, CLI_ANY_LENGTH);
    fputc('\n', stderr);
    funlockfile(stderr);
    free(text);
}

void cli_message(enum cli_message_kind kind, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    cli_message_list(kind, format, args);
    va_end(args);
}

void cli_error(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    cli_message_list(CLI_ERROR, format, args);
    va_end(args);
}

void cli_warning(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    cli_message_list(CLI_WARNING, format, args);
    va_end(args);
}

void cli_note(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    cli_message_list(CLI_NOTE, format, args);
    va_end(args);
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

void cli_progress(const char *format, ...)
{
    char text[256];
    if (!cli_is_terminal(stderr)) {
        return;
    }
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    unsigned columns = cli_columns(stderr);
    flockfile(stderr);
    uint64_t now = now_ns();
    if (!is_shown || now - shown_ns >= REDRAW_NS) {
        erase_locked();
        /* A line that breaks could not be erased, so it is cut; other output overwrites it from its begin. */
        cli_print_text(stderr, text, 0, columns > 1 ? columns - 1 : CLI_ANY_LENGTH);
        fputc('\r', stderr);
        fflush(stderr);
        is_shown = true;
        shown_ns = now;
    }
    funlockfile(stderr);
}

void cli_progress_end(void)
{
    flockfile(stderr);
    erase_locked();
    fflush(stderr);
    funlockfile(stderr);
}
