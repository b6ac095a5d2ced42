/* SPDX-License-Identifier: MIT */
/* What the slices of a recording say besides their times. */
#include "cli/trace_stage.h"

#include <stdlib.h>
#include <string.h>

enum trace_argument cli_argument_called(const char *name)
{
    static const char *const names[TRACE_ARGUMENTS] = {
        /* in the order of enum trace_argument */
        "id",           "stream",          "ctas",           "lost",
        "alignment_ns", "sm_alignment_ns", "tick_ns",        "shift_ns",
        "block",        "batch",           "ctas_lost",      "ranges_lost",
        "copies",       "bytes_to_device", "bytes_to_host",  "bytes_on_device",
        "tasks",        "after_gpus",      "gpu_unfinished", "ctas_taken",
        "sm",           "manager"};
    enum trace_argument a = TRACE_ID;
    while (a < TRACE_ARGUMENTS && strcmp(names[a], name) != 0) {
        a++;
    }
    return a;
}

static void copy_text(const struct span *span, char *text, size_t room)
{
    const size_t bytes = span->at != NULL ? (size_t)(span->end - span->at) : 0;
    const size_t taken = bytes < room ? bytes : room - 1;
    if (taken > 0) {
        memcpy(text, span->at, taken);
    }
    text[taken] = '\0';
}

/* A name and a text: "id" or "manager" and a number, or "after_gpus" and ordinals with commas between them.
 */
void cli_read_stage_data(struct span span, struct trace_details *details)
{
    struct field field;
    char name[24] = "", value[256] = "";
    while (cli_next_field(&span, &field)) {
        if (field.number == 1) {
            copy_text(&field.bytes, name, sizeof(name));
        } else if (field.number == 2) {
            copy_text(&field.bytes, value, sizeof(value));
        }
    }
    if (strcmp(name, "id") == 0) {
        details->arguments[TRACE_ID] = strtoull(value, NULL, 10);
    }
    if (strcmp(name, "manager") == 0) {
        details->arguments[TRACE_MANAGER] = strtoull(value, NULL, 10);
        details->present |= 1u << TRACE_MANAGER;
    }
    for (char *at = value, *end; strcmp(name, "after_gpus") == 0; at = end + 1) {
        const unsigned long ordinal = strtoul(at, &end, 10);
        if (end == at) {
            break;
        }
        details->arguments[TRACE_AFTER] |= UINT64_C(1) << (ordinal & 63);
        details->present |= 1u << TRACE_AFTER;
        if (*end == '\0') {
            break;
        }
    }
}
