/* SPDX-License-Identifier: MIT */
/* The public functions that declare edges and accesses, wrapped: what is preloaded before the library hears
 * of each, and one is left out.  $PROOF_LEAVE_OUT has the number of an edge, of a completion "c" and its
 * number; $PROOF_SPOIL "out" and the number of an access, or "half" and it: half of the bytes of its rows are
 * declared.
 *
 * Edges are numbered from 0 in the order of the calls; so are completions, by themselves, since callbacks ask
 * for those. Threading: any thread. */
#ifndef TESTS_PROOF_EDGE_WRAP_H
#define TESTS_PROOF_EDGE_WRAP_H

#include <gantry/gantry.h>

/* Edges of the library have no number. */
enum edge_kind { EDGE_PLAIN, EDGE_DONE, EDGE_OF_LIBRARY, EDGE_COMPLETION, EDGE_COMPLETION_OF_ALL };

/* The library's function of that name goes to `*function`, a pointer to a function. */
void edge_find_real(void *function, const char *name);

/* What who is preloaded defines: the edge was declared, unless it `is_left_out`. */
void edge_was_declared(enum edge_kind kind, uint64_t number, gantry_task *task, gantry_task *predecessor,
                       bool is_left_out);
/* The program was told that `predecessor` has ended. */
void edge_has_ended(gantry_task *task, gantry_task *predecessor);
/* A task was submitted. */
void edge_was_submitted(gantry_task *task, const gantry_task_desc *desc);
/* It has these accesses, which have numbers from `first` on; none of them is spoiled yet. */
void edge_accesses_declared(gantry_task *task, uint64_t first, const gantry_access *list, size_t count);

#endif
