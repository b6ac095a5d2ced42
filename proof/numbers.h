/* SPDX-License-Identifier: MIT */
/* The numbers of parts and of works, and what is known of each.  The lock of order.c is held, but for the
 * functions of access.h. */
#ifndef PROOF_NUMBERS_H
#define PROOF_NUMBERS_H

#include "proof/order.h"

/* The first call makes room. */
void gy_numbers_begin(void);
/* Room for a thing of so many bytes for each number, of zeros; NULL: there is none, and nothing more is
 * noted. */
void *gy_number_table(size_t bytes);
/* Nothing more is noted, for lack of `what`. */
void gy_number_spend(const char *what);

/* A new part, or a new work of a part; 0: there are no more, or there is no such part. */
uint32_t gy_number_part(struct gy_part part);
uint32_t gy_number_work(uint32_t part);
/* Another work of the same part, which holds a mutex or none any more: what it does is told from what came
 * before. */
uint32_t gy_number_again(uint32_t work, bool is_guarded);
/* The work's name is known. */
void gy_number_name(uint32_t work, const char *name, bool is_kernel);
/* The part is a launch callback's, before the work of the callback begins. */
void gy_number_callback(uint32_t part);
struct gy_order_counts gy_number_counts(void);

#endif
