/* SPDX-License-Identifier: MIT */
/* The choice of the batches that the copy engines do, and of the number of blocks that the kernel may have.
 */
#ifndef COPYKERNEL_TUNING_H
#define COPYKERNEL_TUNING_H

#include "copykernel/plan.h"

#define GY_COPY_HOST_BLOCKS 4u /* they fill the link: 4 blocks of 1024 threads reach what 132 reach */
#define GY_COPY_HOST_THREADS 1024u
#define GY_COPY_MOST_HOST_BLOCKS 64u

/* Both measured on H200; see docs/guides/copies.md. */
void gy_copy_tuning_defaults(gantry_copy_tuning *out);
void gy_copy_peer_defaults(gantry_copy_peer_tuning *out);

/* Make a batch's tuning one for copies to (or, `is_pull`, from) another device. */
void gy_copy_tuning_between(gantry_copy_tuning *tuning, const gantry_copy_peer_tuning *peer, bool is_pull,
                            uint32_t multiprocessors);

/* Check the fields and put the defaults where they are 0.
 * @retval GANTRY_ERR_INVALID_ARGUMENT  the message names the field */
GANTRY_MUST_CHECK gantry_status gy_copy_tuning_complete(gantry_copy_tuning *tuning);

/* The size class of gantry_copy_tuning. */
uint32_t gy_copy_size_class(uint64_t bytes);
/* The smallest size of a class; for the first class this is 16 KiB. */
uint64_t gy_copy_class_bytes(uint32_t size_class);

/* Do the copy engines do a batch of this many copies in this direction, of which the smallest has `smallest`
 * bytes? */
bool gy_copy_engines_take(const gantry_copy_tuning *tuning, uint64_t count, uint64_t smallest, int direction);

/* Do the copy engines do this batch of at least one item?  `direction` is that of all items, or negative when
 * they differ or one is a fill. */
bool gy_copy_prefers_engine(const gantry_copy_tuning *tuning, const struct gy_copy_item *items, size_t count,
                            int direction);

#endif
