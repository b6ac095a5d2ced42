/* SPDX-License-Identifier: MIT */
/* What the proof has found: one line for each pair of labels, and a summary for who has asked for one. */
#ifndef PROOF_REPORT_H
#define PROOF_REPORT_H

#include "proof/access.h"

/* Bytes that another work has touched and that does not come before. */
struct gy_conflict {
    uint32_t work; /* the other one; 0: there is no conflict */
    uint32_t block;
    bool is_known;     /* `block` and `place` are the other one's */
    const void *place; /* of the code; NULL: not known */
    bool was_write;
    uintptr_t at;
    unsigned bytes;
};

void gy_report_conflict(struct gy_access *access, bool is_write, const struct gy_conflict *conflict);
/* Bytes that the access touches, which its task has not declared so. */
struct gy_undeclared {
    uintptr_t at;
    size_t bytes;
    unsigned touch;    /* enum gy_touch */
    bool is_read_only; /* it has declared that it reads them */
};

/* Told once for each label and block; never of a block that the task itself has allocated.  Returns the
 * memory around of which the access need not tell any more: the block, or what lies between blocks. */
struct gy_span gy_report_undeclared(struct gy_access *access, const struct gy_undeclared *undeclared);
/* The block in which an address lies, in words that stay. */
const char *gy_report_name_of(uintptr_t at);
/* Memory of that name was freed before a task of that label has ended, which declares it.  Told once. */
void gy_report_early_free(const char *label, const char *name);
/* The kernel of that name has run; `touches`: so often it has said what it touches. */
void gy_report_kernel(const char *name, uint64_t touches);
/* A block has got an owner; or memory, maybe with blocks in it, has none any more. */
void gy_report_block(uintptr_t at, size_t bytes, gantry_alloc_site site, bool is_device);
void gy_report_freed(uintptr_t at, size_t bytes);
void gy_report_open(void (*tell)(gantry_log_level level, const char *line), unsigned extras);

/* What is told on request, and what tasks have not declared.  The lock of no part of the proof is held. */
enum gy_report_kind { GY_REPORT_NEEDLESS, GY_REPORT_UNWRITTEN, GY_REPORT_UNREAD, GY_REPORT_UNDECLARED };

/* A line, once for each text of `key`. */
void gy_report_extra(enum gy_report_kind kind, const char *key, const char *line);
/* The access reads a byte that nobody has written; false: of memory that is not judged. */
bool gy_report_unwritten(struct gy_access *access, uintptr_t at);
/* A kernel, or a list of copies that the device reads, does not tell what it touches: then it is not known
 * what is written, read and needed. */
bool gy_report_has_unseen(void);

#endif
