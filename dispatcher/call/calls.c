/* SPDX-License-Identifier: MIT */
#include "dispatcher/call/calls.h"

#include "base/alloc.h"
#include "copykernel/plan.h"
#include "taskman/gpu_ops.h"
#include "work/nodes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NUMBERS 9
#define MOST_PARAMETERS 64

/* The name of a kind of call, with the names of its numbers. */
struct call_kind {
    const char *name;
    const char *numbers[NUMBERS]; /* the names end at the first NULL */
    bool as_address[NUMBERS];
};

static const struct call_kind KERNEL = {"kernel",
                                        {"grid.x", "grid.y", "grid.z", "block.x", "block.y", "block.z",
                                         "shared_bytes", "its options (a number made of them)"},
                                        {false}};
static const struct call_kind COPY = {"copy", {"its target", "its source", "its bytes"}, {true, true, false}};
static const struct call_kind FILL = {
    "fill", {"its address", "its pattern", "its pattern's size", "its bytes"}, {true, true}};
static const struct call_kind BATCH = {
    "batched copy",
    {"its target", "its source", "its bytes", "its type", "its pattern", "the end of its pattern"},
    {true, true, false, false, true, true}};
static const struct call_kind LIST = {
    "list of copies",
    {"its targets", "its sources", "its sizes", "its descriptors", "its count", "its maximum", "its largest"},
    {true, true, true, true, true}};
static const struct call_kind BOX = {"box of copies",
                                     {"its target", "its source", "its width", "its rows", "its layers",
                                      "its target's pitch", "its source's pitch",
                                      "its target's layers' pitch", "its source's layers' pitch"},
                                     {true, true}};
static const struct call_kind COMPLETION = {"completion", {"its task"}, {true}};

struct gy_noted_call {
    const struct call_kind *kind;
    const char *name; /* of a kernel: the name in the image; else "" */
    uint64_t numbers[NUMBERS];
    size_t values; /* the index at which its parameters' values begin */
    uint32_t parameters;
    uint32_t sizes[MOST_PARAMETERS];
};

/* The only writer of the state. */
static void enter(struct gy_calls *calls, enum gy_calls_state state)
{
    calls->state = state;
    if (state != GY_CALLS_COMPARING) {
        calls->count = calls->at = 0;
        calls->bytes = 0;
    }
}

void gy_calls_begin(struct gy_calls *calls, uint64_t index)
{
    if (index == 0) {
        calls->at = 0;
        calls->lost = false;
        if (calls->state == GY_CALLS_NOTING) {
            enter(calls, GY_CALLS_NOTING); /* nothing of a failed run is kept */
        }
    }
}

void gy_calls_set_free(struct gy_calls *calls)
{
    enter(calls, GY_CALLS_FREE);
}

void gy_calls_forget(struct gy_calls *calls)
{
    if (calls->state != GY_CALLS_FREE) {
        enter(calls, GY_CALLS_NOTING);
    }
}

void gy_calls_fini(struct gy_calls *calls)
{
    gy_free(calls->noted);
    gy_free(calls->values);
}

/* ---- differences --------------------------------------------------------------------------------- */

static void tell(struct gy_calls *calls, const gantry_task *task, const char *what)
{
    gy_log(GANTRY_LOG_ERROR,
           "stable task '%s' does not enqueue what it did in the run before: %s; a replay would not notice: "
           "gantry_task_invalidate(), or it is not stable",
           gantry_task_label(task), what);
    enter(calls, GY_CALLS_TOLD);
}

static void describe(const struct gy_noted_call *call, char *text, size_t room)
{
    snprintf(text, room, "%s%s%.80s", call->kind->name, call->name[0] != '\0' ? " " : "", call->name);
}

/* Find the first number that differs; NUMBERS: none does. */
static int find_number(const struct gy_noted_call *now, const struct gy_noted_call *then)
{
    int i = 0;
    while (i < NUMBERS && now->numbers[i] == then->numbers[i]) {
        i++;
    }
    return i;
}

/* A parameter of up to 8 bytes as a number; of a larger one, its first 8 bytes. */
static uint64_t value_of(const unsigned char *bytes, uint32_t size)
{
    uint64_t value = 0;
    memcpy(&value, bytes, size < sizeof(value) ? size : sizeof(value));
    return value;
}

/* Does some parameter differ?  Then `text` says which one. */
static bool find_parameter(const struct gy_noted_call *now, const unsigned char *values,
                           const struct gy_noted_call *then, const unsigned char *values_then, char *text,
                           size_t room)
{
    for (uint32_t i = 0; i < now->parameters && i < then->parameters; i++) {
        const uint32_t size = now->sizes[i];
        if (size != then->sizes[i]) {
            return false; /* the driver describes another function of the same name differently */
        }
        if (memcmp(values, values_then, size) != 0) {
            uint32_t at = 0; /* the part of a large parameter that differs */
            while (size - at > 8 && memcmp(values + at, values_then + at, 8) == 0) {
                at += 8;
            }
            snprintf(text, room,
                     "argument %u (%u bytes) is 0x%" PRIx64 " from byte %u on, and was 0x%" PRIx64, i, size,
                     value_of(values + at, size - at), at, value_of(values_then + at, size - at));
            return true;
        }
        values += size;
        values_then += size;
    }
    return false;
}

static void compare(struct gy_calls *calls, const gantry_task *task, const struct gy_noted_call *now,
                    const unsigned char *values)
{
    char text[400], name[100], name_then[100], detail[200];
    const uint32_t number = calls->at++;
    describe(now, name, sizeof(name));
    if (number >= calls->count) {
        snprintf(text, sizeof(text), "call %u is %s, and there were only %u calls", number, name,
                 calls->count);
        tell(calls, task, text);
        return;
    }
    const struct gy_noted_call *then = &calls->noted[number];
    describe(then, name_then, sizeof(name_then));
    if (now->kind != then->kind || strcmp(now->name, then->name) != 0) {
        snprintf(text, sizeof(text), "call %u is %s, and was %s", number, name, name_then);
        tell(calls, task, text);
        return;
    }
    const int i = find_number(now, then);
    if (i < NUMBERS) {
        const char *format = now->kind->as_address[i] ? "%s is 0x%" PRIx64 ", and was 0x%" PRIx64
                                                      : "%s is %" PRIu64 ", and was %" PRIu64;
        snprintf(detail, sizeof(detail), format, now->kind->numbers[i], now->numbers[i], then->numbers[i]);
    }
    if (i < NUMBERS ||
        find_parameter(now, values, then, calls->values + then->values, detail, sizeof(detail))) {
        snprintf(text, sizeof(text), "call %u (%s): %s", number, name, detail);
        tell(calls, task, text);
    }
}

/* ---- notes --------------------------------------------------------------------------------------- */

static void keep(struct gy_calls *calls, const struct gy_noted_call *call, const unsigned char *values,
                 size_t bytes)
{
    if (!gy_grow_array(&calls->noted, &calls->room, calls->count + (size_t)1, sizeof(*call)) ||
        !gy_grow_array(&calls->values, &calls->bytes_room, calls->bytes + bytes, 1)) {
        gy_calls_set_free(calls);
        return;
    }
    calls->noted[calls->count] = *call;
    calls->noted[calls->count].values = calls->bytes;
    if (bytes != 0) {
        memcpy(calls->values + calls->bytes, values, bytes);
    }
    calls->bytes += bytes;
    calls->at = ++calls->count;
}

static void note(struct gy_calls *calls, const gantry_task *task, const struct gy_noted_call *call,
                 const unsigned char *values, size_t bytes)
{
    if (calls->state == GY_CALLS_NOTING && !calls->lost) {
        keep(calls, call, values, bytes);
    } else if (calls->state == GY_CALLS_COMPARING) {
        compare(calls, task, call, values);
    }
}

/* A number that differs where the options of two launches differ; 0: none. */
static uint64_t number_of(const struct gy_launch_extra *extra)
{
    uint64_t number = 0;
    const unsigned char *bytes = (const unsigned char *)extra;
    for (size_t i = 0; extra != NULL && i < sizeof(*extra); i++) {
        number = (number ^ bytes[i]) * UINT64_C(0x100000001b3) + 1;
    }
    return number;
}

void gy_calls_note_kernel(struct gy_calls *calls, const gantry_task *task, const struct gantry_kernel *kernel,
                          const struct gy_launch_size *size, const struct gy_launch_extra *extra,
                          void *const *args)
{
    const struct gy_driver *driver = kernel->module->context->driver;
    struct gy_noted_call call = {.kind = &KERNEL,
                                 .name = kernel->name,
                                 .numbers = {size->grid.x, size->grid.y, size->grid.z, size->block.x,
                                             size->block.y, size->block.z, size->shared_bytes,
                                             number_of(extra)}};
    unsigned char values[4096]; /* the most bytes of parameters that are not copied in pieces */
    size_t bytes = 0, offset, one;
    while (args != NULL && driver->cuFuncGetParamInfo != NULL && call.parameters < MOST_PARAMETERS &&
           driver->cuFuncGetParamInfo(kernel->function, call.parameters, &offset, &one) == CUDA_SUCCESS &&
           one <= sizeof(values) - bytes) {
        memcpy(values + bytes, args[call.parameters], one);
        call.sizes[call.parameters++] = (uint32_t)one;
        bytes += one;
    }
    note(calls, task, &call, values, bytes);
}

void gy_calls_note_copy(struct gy_calls *calls, const gantry_task *task, const void *to, const void *from,
                        uint64_t bytes)
{
    const struct gy_noted_call call = {
        .kind = &COPY, .name = "", .numbers = {(uintptr_t)to, (uintptr_t)from, bytes}};
    note(calls, task, &call, NULL, 0);
}

void gy_calls_note_fill(struct gy_calls *calls, const gantry_task *task, const struct gy_fill *fill)
{
    const struct gy_noted_call call = {
        .kind = &FILL,
        .name = "",
        .numbers = {fill->at, fill->pattern, fill->pattern_bytes, fill->pattern_bytes * fill->count}};
    note(calls, task, &call, NULL, 0);
}

/* What a fill repeats, as 16 bytes: equal for patterns that leave the same.  Nothing was checked yet. */
static void pattern_of(const gantry_copy_desc *desc, uint64_t out[2])
{
    const uint32_t size = desc->pattern_bytes;
    const bool is_known = size != 0 && size <= 16 && (size & (size - 1)) == 0;
    out[0] = out[1] = 0;
    if (desc->type == GANTRY_COPY_FILL && is_known && (size <= 4 || desc->source != NULL)) {
        gy_copy_pattern(desc, 0, &out[0], &out[1]);
    }
}

void gy_calls_note_batch(struct gy_calls *calls, const gantry_task *task, const gantry_copy_desc *descs,
                         size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const gantry_copy_desc *desc = &descs[i];
        const bool is_fill = desc->type == GANTRY_COPY_FILL;
        uint64_t pattern[2];
        pattern_of(desc, pattern);
        const struct gy_noted_call call = {.kind = &BATCH,
                                           .name = "",
                                           .numbers = {(uintptr_t)desc->dest,
                                                       is_fill ? 0 : (uintptr_t)desc->source, desc->bytes,
                                                       (uint64_t)desc->type, pattern[0], pattern[1]}};
        note(calls, task, &call, NULL, 0);
    }
}

/* The contents of the arrays may change from run to run, so they are not noted. */
void gy_calls_note_list(struct gy_calls *calls, const gantry_task *task, const gantry_copy_list *list)
{
    const struct gy_noted_call call = {.kind = &LIST,
                                       .name = "",
                                       .numbers = {(uintptr_t)list->dests, (uintptr_t)list->sources,
                                                   (uintptr_t)list->bytes, (uintptr_t)list->descs,
                                                   (uintptr_t)list->count, list->most, list->largest}};
    note(calls, task, &call, NULL, 0);
}

void gy_calls_note_box(struct gy_calls *calls, const gantry_task *task, const gantry_copy_box *box)
{
    const struct gy_noted_call call = {.kind = &BOX,
                                       .name = "",
                                       .numbers = {(uintptr_t)box->dest, (uintptr_t)box->source, box->width,
                                                   box->rows, box->layers, box->dest_pitch, box->source_pitch,
                                                   box->dest_layer_pitch, box->source_layer_pitch}};
    note(calls, task, &call, NULL, 0);
}

void gy_calls_note_completion(struct gy_calls *calls, const gantry_task *task, const gantry_task *target)
{
    const struct gy_noted_call call = {.kind = &COMPLETION, .name = "", .numbers = {(uintptr_t)target}};
    note(calls, task, &call, NULL, 0);
}

/* Fewer calls than in the run before? */
static void check_count(struct gy_calls *calls, const gantry_task *task)
{
    char text[200], name[100];
    if (calls->at < calls->count) {
        describe(&calls->noted[calls->at], name, sizeof(name));
        snprintf(text, sizeof(text), "it makes %u calls, and made %u, the next of them a %s", calls->at,
                 calls->count, name);
        tell(calls, task, text);
    }
}

void gy_calls_end(struct gy_calls *calls, const gantry_task *task, gantry_launch_result result)
{
    if (calls->state == GY_CALLS_NOTING && result == GANTRY_LAUNCH_DONE && !calls->lost) {
        enter(calls, GY_CALLS_COMPARING);
    } else if (calls->state == GY_CALLS_NOTING) {
        calls->lost |= result != GANTRY_LAUNCH_AGAIN;
    } else if (calls->state == GY_CALLS_COMPARING && result == GANTRY_LAUNCH_DONE) {
        check_count(calls, task);
    }
}
