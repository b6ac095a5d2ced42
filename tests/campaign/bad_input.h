/* SPDX-License-Identifier: MIT */
/* Calls with a wrong argument or in a wrong state, and their results: the rows of the table in
 * docs/reference/errors.md. */
#ifndef TESTS_CAMPAIGN_BAD_INPUT_H
#define TESTS_CAMPAIGN_BAD_INPUT_H

#include <gantry/gantry.h>

/* One row: the status and message of the call.  `call` names the function first. */
#define BAD(wrong, call) (bad_begin(), bad_end(#call, (wrong), (call)))
/* The same for a call with an output, which must stay as it was. */
#define BAD_OUT(wrong, variable, call)                                           \
    ((variable) = bad_untouched(), bad_begin(), bad_end(#call, (wrong), (call)), \
     bad_check_untouched(#call, (variable)))

/* A function without a status: what it does with a wrong argument, or that it has none. */
void bad_note(const char *function, const char *wrong, const char *what);
/* A function without a status that refuses a handle: it logs the reason and returns this, or does nothing. */
#define BAD_GIVES(wrong, value, call) \
    (bad_begin(), bad_given(#call, (wrong), "gives " #value, (call) == (value)))
#define BAD_GIVES_TEXT(wrong, text, call) \
    (bad_begin(), bad_given(#call, (wrong), "gives \"" text "\"", strcmp((call), (text)) == 0))
#define BAD_REFUSED(wrong, call) (bad_begin(), (call), bad_given(#call, (wrong), "does nothing", true))
void bad_given(const char *call, const char *wrong, const char *what, bool is_given);
#define BAD_UNCHECKED(function, wrong) bad_note(#function, (wrong), "not checked")
#define BAD_IGNORED(function, wrong) bad_note(#function, (wrong), "does nothing")
#define BAD_NOTHING(function) bad_note(#function, "nothing can be wrong", "")

void bad_begin(void);
void bad_end(const char *call, const char *wrong, gantry_status status);
void *bad_untouched(void);
void bad_check_untouched(const char *call, const void *variable);

/* For calls that take the body of a task, or of a loop; both do nothing. */
gantry_status bad_body(gantry_task *task, void *arg);
gantry_status bad_range(size_t begin, size_t end, void *arg);

/* The rows of the rooms. */
void bad_base(void);
void bad_tasks(void);
void bad_context(void);
void bad_handles(void);
void bad_heap(void);
void bad_partition(void);
void bad_interop(void);

#endif
