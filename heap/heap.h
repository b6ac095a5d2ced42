/* SPDX-License-Identifier: MIT */
/* The heap as the other rooms see it. */
#ifndef HEAP_HEAP_H
#define HEAP_HEAP_H

#include "driver/context.h"

#include <gantry/heap.h>

/* `options` NULL: defaults. */
GANTRY_MUST_CHECK gantry_status gy_heap_create(struct gy_context *context, const gantry_heap_options *options,
                                               gantry_heap **out);
/* Logs one warning per leaking tag and place, and gives every slab back.  NULL is ignored. */
void gy_heap_destroy(gantry_heap *heap);

/* What an address means to the heap. */
enum gy_heap_place {
    GY_HEAP_FOREIGN,  /* not in its memory */
    GY_HEAP_LIVE,     /* in the bytes that were asked for of a live block */
    GY_HEAP_NOT_LIVE, /* in its memory, but in no live block */
};
struct gy_heap_look {
    gantry_memory_kind kind; /* not set when FOREIGN */
    uintptr_t base;          /* the block's; this and the following fields are set when LIVE */
    size_t bytes;            /* the bytes that were asked for */
    uintptr_t device;        /* the device's address of `base` */
    uint32_t site;
};
/* Look an address up once.  This is on the submit path: it allocates nothing and calls no driver. */
enum gy_heap_place gy_heap_look(gantry_heap *heap, const void *address, struct gy_heap_look *out);
/* The place that asked for the block; its strings are static. */
gantry_alloc_site gy_heap_site(gantry_heap *heap, uint32_t site);

/* A free has two halves, for blocks that wait for their stream.  Between them the block is no longer the
 * application's (freeing it is refused), but its memory is in use. */
struct gy_heap_claim {
    gantry_memory_kind kind;
    struct gy_range *range;
    uintptr_t address;
    uint32_t record;
};
/* The first half of a free.
 * @retval GANTRY_ERR_NOT_FOUND  as gantry_heap_free(); `call` is what the message names */
GANTRY_MUST_CHECK gantry_status gy_heap_claim(gantry_heap *heap, void *pointer, const char *call,
                                              struct gy_heap_claim *out);
/* The second half of a free. */
void gy_heap_free_claimed(gantry_heap *heap, const struct gy_heap_claim *claim);
/* Call this instead of the second half to give the memory out as a block of `bytes` (checked arguments).
 * False: the block does not fit. */
bool gy_heap_reuse(gantry_heap *heap, const struct gy_heap_claim *claim, gantry_memory_kind kind,
                   size_t bytes, size_t alignment, const gantry_alloc_site *site);

/* Blocks that wait for their stream (dispatcher/) are no longer in use by the application.  When memory runs
 * out, `free_pending` is called: it frees the blocks whose turn has come, and waits for those whose turn will
 * come.  True: some were freed.  It runs on the allocating thread, which holds no lock but this registration.
 * NULL takes the registration back; no call is running then. */
void gy_heap_set_pending(gantry_heap *heap, bool (*free_pending)(void *user, gantry_memory_kind kind),
                         void *user);

/* The bytes that the settings and the device leave to a kind: its slabs cannot come to more. */
uint64_t gy_heap_budget(gantry_heap *heap, gantry_memory_kind kind);
/* The bytes that nobody else can have because of the kind's live blocks, and of its blocks that wait for
 * their stream: these are whole units of slabs. */
uint64_t gy_heap_occupied(gantry_heap *heap, gantry_memory_kind kind);

/* Blocks that the library itself needs for as long as its objects live: their bytes, in whole pages, are
 * counted by kind, since no declared memory can have them.  `bytes` is the same for both calls. */
GANTRY_MUST_CHECK gantry_status gy_heap_alloc_own(gantry_heap *heap, gantry_memory_kind kind, size_t bytes,
                                                  gantry_alloc_site site, void **out);
void gy_heap_free_own(gantry_heap *heap, gantry_memory_kind kind, size_t bytes, void *pointer);
uint64_t gy_heap_own(gantry_heap *heap, gantry_memory_kind kind);

/* The devices that device memory is let to: a bit for each ordinal. */
uint64_t gy_heap_peers(const gantry_heap *heap);

/* "device", "pinned", …; static. */
const char *gy_kind_name(gantry_memory_kind kind);

#endif
