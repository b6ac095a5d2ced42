/* SPDX-License-Identifier: MIT */
#include "tests/conformance/differential/ask.h"

#include "tests/conformance/differential/world.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SHAPE_BYTES 400

const struct gy_driver *cu;
int df_null_at = -1;
struct df_progress *df_progress;
_Atomic(unsigned char) *df_marked;

static uint64_t state;
static char shape[SHAPE_BYTES];
static size_t shape_length;
static enum df_entry asked;
static const char *marked_as; /* NULL: the next call is marked by its shape */

static const char *const names[] = {
#define F(need, member, symbol, prototype) [DF_##member] = #member,
    GY_DRIVER_FUNCS(F)
#undef F
};

void df_seed(uint64_t seed, uint32_t sequence)
{
    shape_length = 0;
    state = seed * 0x9e3779b97f4a7c15u + sequence * 0xbf58476d1ce4e5b9u + 1;
}

static uint64_t next(void)
{
    uint64_t z = (state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint32_t df_below(uint32_t end)
{
    return (uint32_t)((next() >> 32) * end >> 32);
}

bool df_one_in(uint32_t end)
{
    return df_below(end) == 0;
}

uint32_t df_choice(const char *what, uint32_t end)
{
    uint32_t number = df_below(end);
    df_shape("%s%u", what, number);
    return number;
}

void df_shape(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (shape_length > 0 && shape_length < SHAPE_BYTES - 1) {
        shape[shape_length++] = ',';
    }
    int more = vsnprintf(shape + shape_length, SHAPE_BYTES - shape_length, format, args);
    va_end(args);
    shape_length += more > 0 ? (size_t)more : 0;
    if (shape_length >= SHAPE_BYTES) {
        shape_length = SHAPE_BYTES - 1;
    }
}

/* Append to the record, which both processes see. */
static void write_record(const char *text, size_t length)
{
    uint32_t used = df_progress->length;
    if (used + length < DF_RECORD_BYTES) {
        memcpy(df_progress->record + used, text, length);
        df_progress->length = used + (uint32_t)length;
    }
}

static void write_formatted(const char *format, va_list args)
{
    char text[SHAPE_BYTES + 100];
    int length = vsnprintf(text, sizeof(text), format, args);
    write_record(text, length < (int)sizeof(text) ? (size_t)length : sizeof(text) - 1);
}

void df_line(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_record("\n", 1);
    write_formatted(format, args);
    va_end(args);
}

void df_note(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_record(" =", 2);
    write_formatted(format, args);
    va_end(args);
}

static void take_shape(void)
{
    if (shape_length == 0) {
        shape[0] = '.';
        shape_length = 1;
    }
    shape[shape_length] = '\0';
    shape_length = 0;
}

void df_skip(enum df_entry entry)
{
    take_shape();
    df_null_at = -1;
    marked_as = NULL;
    df_line("%s %s -", names[entry] + 2, shape);
}

void df_mark_as(const char *word)
{
    marked_as = word;
}

static uint32_t mark_of(enum df_entry entry)
{
    uint32_t hash = 2166136261u ^ (uint32_t)entry ^ (w.has_second ? 1u << 16 : 0);
    for (const char *c = marked_as != NULL ? marked_as : shape; *c != '\0'; c++) {
        hash = (hash ^ (unsigned char)*c) * 16777619u;
    }
    return (hash ^ hash >> 16) % DF_MARKS;
}

bool df_begin(enum df_entry entry, bool is_there)
{
    take_shape();
    uint32_t mark = mark_of(entry);
    asked = entry;
    marked_as = NULL;
    if (!is_there || df_marked[mark] != 0) {
        df_null_at = -1;
        df_line("%s %s ~", names[entry] + 2, shape);
        return false;
    }
    df_world_before(entry);
    df_progress->mark = mark;
    df_line("%s %s", names[entry] + 2, shape);
    df_progress->calls++;
    return true;
}

CUresult df_end(CUresult result)
{
    df_null_at = -1;
    char text[32];
    char statuses[DF_STREAMS + 2];
    int length = snprintf(text, sizeof(text), " %d", (int)result);
    write_record(text, (size_t)length);
    df_world_after(asked, result);
    if (df_world_statuses(statuses)) {
        write_record(" ", 1);
        write_record(statuses, strlen(statuses));
    }
    if (gy_driver_result_is_sticky(result)) {
        df_lost(result);
    }
    return result;
}

void df_lost(CUresult result)
{
    df_marked[df_progress->mark] = 1;
    df_line("lost . L%d", (int)result);
    _exit(3);
}
