/* SPDX-License-Identifier: MIT */
/* Memory that faults when anybody touches it; it stands for a device's memory. */
#ifndef TESTS_HEAP_UNTOUCHABLE_H
#define TESTS_HEAP_UNTOUCHABLE_H

#include "heap/backing.h"

/* Reserve `bytes` at a multiple of 2 MiB; returns 0 when there is no address space. */
uintptr_t untouchable_map(size_t bytes);
void untouchable_unmap(uintptr_t base, size_t bytes);

/* The same as slab memory of a struct gy_kind: granules are taken from one window of `granules` (at most
 * 1024), first fit. */
void untouchable_open(size_t granules);
void untouchable_close(void);
uintptr_t untouchable_window(void);
size_t untouchable_taken(void); /* bytes */
size_t untouchable_calls(void); /* calls of take since open */
extern const struct gy_backing_ops untouchable_ops;

/* Close the kind and its map, and the window, in which nothing must be left, at the end of a test. */
struct gy_kind;
struct gy_granules;
void untouchable_close_kind(struct gy_kind *kind, struct gy_granules *map);

#endif
