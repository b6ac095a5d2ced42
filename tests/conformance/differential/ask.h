/* SPDX-License-Identifier: MIT */
/* What the parts of the differential fuzz share: the generator, the record, and how a call is asked.
 *
 * A seed and a number of a sequence make the same calls on every driver: all is drawn before a call, and what
 * an answer changes is kept in slots.  An operation whose slot is empty is skipped, so that one difference
 * does not shift all that comes behind it.
 *
 * The record has a line for each call: "entry shape answer [statuses] [=what came out]".
 *
 *   shape     how the arguments were chosen, in words that hold no blank
 *   answer    the CUresult; "-": a slot was empty; "~": not asked, as this call once ended a process or the
 *             driver lacks it; "X11", "H", "L700" as the last of a sequence: it ended the process by a
 * signal, it hung, the context is lost statuses  one digit per stream slot, where one is being captured:
 * CUstreamCaptureStatus; ".": not told
 *
 * Threading: operations run one at a time, on one of two threads; whoever runs owns all that is here. */
#ifndef TESTS_CONFORMANCE_DIFFERENTIAL_ASK_H
#define TESTS_CONFORMANCE_DIFFERENTIAL_ASK_H

#include "driver/driver.h"

#include <stdbool.h>
#include <stdint.h>

enum df_entry {
#define F(need, member, symbol, prototype) DF_##member,
    GY_DRIVER_FUNCS(F)
#undef F
        DF_ENTRIES
};

enum { DF_UNASKED = -1, DF_RECORD_BYTES = 1 << 20, DF_MARKS = 1 << 16 };

/* What a process tells the one that watches it; in memory that both see. */
struct df_progress {
    _Atomic(uint64_t) calls;    /* atomic; grows with each call */
    _Atomic(uint32_t) sequence; /* atomic; the one that runs */
    _Atomic(uint32_t) mark;     /* atomic; of the call that runs */
    _Atomic(uint32_t) length;   /* atomic; bytes in `record` */
    char record[DF_RECORD_BYTES];
};

extern const struct gy_driver *cu;
extern struct df_progress *df_progress;
/* Of all processes: calls that ended one, by their marks; they are not made again. */
extern _Atomic(unsigned char) *df_marked;

/* ---- the generator ---- */

/* Pointers of the first call of an operation, which asks df_or_null() for them. */
extern int df_null_at;
/* What is drawn from now on, and an empty shape. */
void df_seed(uint64_t seed, uint32_t sequence);
uint32_t df_below(uint32_t end);
bool df_one_in(uint32_t end);
/* One of the values, which goes into the shape by its number. */
#define DF_PICK(what, ...)                                \
    ((const unsigned long long[]){__VA_ARGS__}[df_choice( \
        what, sizeof((const unsigned long long[]){__VA_ARGS__}) / sizeof(unsigned long long))])
/* A number below `end`, which goes into the shape. */
uint32_t df_choice(const char *what, uint32_t end);

/* ---- the record ---- */

__attribute__((format(printf, 1, 2))) void df_shape(const char *format, ...);
/* Add what came out to the line of the latest call. */
__attribute__((format(printf, 1, 2))) void df_note(const char *format, ...);
/* The next call may end the process, and so may all of its entry that are marked by this word, whatever their
 * shape: once one did, none is made again. */
void df_mark_as(const char *word);
/* Nothing is called, as a slot is empty (or full). */
void df_skip(enum df_entry entry);
bool df_begin(enum df_entry entry, bool is_there);
CUresult df_end(CUresult result);
/* The record gets a line of its own. */
__attribute__((format(printf, 1, 2))) void df_line(const char *format, ...);

/* Make the call and write its line. */
#define ask(entry, ...) \
    (df_begin(DF_##entry, cu->entry != NULL) ? df_end(cu->entry(__VA_ARGS__)) : (CUresult)DF_UNASKED)

#define ask_without(entry) \
    (df_begin(DF_##entry, cu->entry != NULL) ? df_end(cu->entry()) : (CUresult)DF_UNASKED)

/* The context is lost: this ends the process. */
_Noreturn void df_lost(CUresult result);

#endif
