/* SPDX-License-Identifier: MIT */
/* Batches of the copier with copies between devices. */
#ifndef COPYKERNEL_BETWEEN_H
#define COPYKERNEL_BETWEEN_H

#include "copykernel/internal.h"

struct gy_copy_between {
    struct gy_copy_way way; /* how the batch is performed */
    uint64_t copies, bytes; /* of it, those between devices */
};

/* Look for copies between devices in the first `count` of copier->items.  False: there are none, and `out` is
 * not filled in. */
bool gy_copier_find_between(struct gy_copier *copier, size_t count, const struct gy_copy_way *way,
                            struct gy_copy_between *out);
/* The same of so many copies of a kernel, which write to that device, or (`is_pull`) read from it. */
void gy_copier_make_between(struct gy_copier *copier, const struct gy_copy_way *way, uint32_t peer,
                            bool is_pull, struct gy_copy_between *out);
/* They are launched. */
void gy_copy_note_between(const struct gy_copy_between *between, enum gy_copy_by by);

#endif
