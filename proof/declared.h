/* SPDX-License-Identifier: MIT */
/* What tasks have declared that they access (gantry_task_access()), until their managers are reset; and
 * whether they keep to it. */
#ifndef PROOF_DECLARED_H
#define PROOF_DECLARED_H

#include "proof/access.h"

#include <gantry/access.h>

#include <stddef.h>

/* Of one task.  Immutable once a part of the task has begun. */
struct gy_declared;

/* As base/proof.h has it; accesses of no bytes are nothing. */
void gy_declared_add(const void *manager, const void *task, const gantry_access *accesses, size_t count);
void gy_declared_forget(const void *manager);

/* A body or a launch callback of the task begins, or ends; `label`: of gy_name_keep().  NULL: the task has
 * declared nothing.  It lives until the task's manager is reset, or gone. */
struct gy_declared *gy_declared_begin(const void *task, const char *label);
void gy_declared_end(const void *task);
/* Memory is freed, maybe by the task that the thread carries out.  Of other tasks that have declared bytes of
 * it those that are carried out now, and those that begin later, are told. */
void gy_declared_freed(uintptr_t at, size_t bytes);
/* Returns it, with one more reference, unless it is NULL; and gives one back. */
struct gy_declared *gy_declared_ref(struct gy_declared *declared);
void gy_declared_drop(struct gy_declared *declared);

/* The access, whose task has declared some, touches bytes, all of them watched.  What it has not declared is
 * told, once for each label and block.  No lock of the proof is held. */
void gy_declared_judge(struct gy_access *access, uintptr_t at, size_t bytes, unsigned touch);

#endif
