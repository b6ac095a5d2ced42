/* SPDX-License-Identifier: MIT */
/* Preloaded: one edge or access of a program is not declared, and nothing else is done. */
#include "tests/proof/edge_wrap.h"

void edge_was_declared(enum edge_kind kind, uint64_t number, gantry_task *task, gantry_task *predecessor,
                       bool is_left_out)
{
    (void)kind, (void)number, (void)task, (void)predecessor, (void)is_left_out;
}

void edge_has_ended(gantry_task *task, gantry_task *predecessor)
{
    (void)task, (void)predecessor;
}

void edge_was_submitted(gantry_task *task, const gantry_task_desc *desc)
{
    (void)task, (void)desc;
}

void edge_accesses_declared(gantry_task *task, uint64_t first, const gantry_access *list, size_t count)
{
    (void)task, (void)first, (void)list, (void)count;
}
