/* What the proof has found: one line for each pair of labels, and a summary for who has asked for one. */
#ifndef PROOF_REPORT_H
#define PROOF_REPORT_H

#include "proof/access.h"

/* Bytes that another work has touched and that does not come before. */
struct gy_conflict {
    uint32_t work; /* the other one; 0: there is no conflict */
    uint32_t block;
    bool has_block; /* `block` is known */
    bool was_write;
    uintptr_t at;
    unsigned bytes;
};

void gy_report_conflict(struct gy_access *access, bool is_write, const struct gy_conflict *conflict);
/* The kernel of that name has run; `touches`: so often it has said what it touches. */
void gy_report_kernel(const char *name, uint64_t touches);
/* A block has got an owner. */
void gy_report_block(uintptr_t at, size_t bytes, gantry_alloc_site site);
void gy_report_open(void (*tell)(const char *line));

#endif
