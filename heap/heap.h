/* The heap as the other rooms see it. */
#ifndef HEAP_HEAP_H
#define HEAP_HEAP_H

#include "driver/context.h"

#include <gantry/heap.h>

/* `options` NULL: defaults. */
GANTRY_MUST_CHECK gantry_status gy_heap_create(struct gy_context *context, const gantry_heap_options *options,
                                               gantry_heap **out);
/* Logs one warning per leaking tag and place, gives every slab back.  NULL is ignored. */
void gy_heap_destroy(gantry_heap *heap);

/* What an address means to the heap. */
enum gy_heap_place {
    GY_HEAP_FOREIGN,  /* not in its memory */
    GY_HEAP_LIVE,     /* in the bytes that a live block was asked for */
    GY_HEAP_NOT_LIVE, /* in its memory, but in no live block */
};
struct gy_heap_look {
    gantry_memory_kind kind; /* unless FOREIGN */
    uintptr_t base;          /* LIVE: of the block; as the following */
    size_t bytes;            /* as asked for */
    uintptr_t device;        /* the device's address of `base` */
    uint32_t site;
};
/* One lookup, on the submit path: no allocation and no driver call. */
enum gy_heap_place gy_heap_look(gantry_heap *heap, const void *address, struct gy_heap_look *out);
/* Who asked for the block; strings are static. */
gantry_alloc_site gy_heap_site(gantry_heap *heap, uint32_t site);

/* A free in two halves, for blocks that wait for their stream.  Between them the block is the application's
 * no more (freeing it is refused) but its memory is in use. */
struct gy_heap_claim {
    gantry_memory_kind kind;
    struct gy_range *range;
    uintptr_t address;
    uint32_t record;
};
/* The first half.
 * @retval GANTRY_ERR_NOT_FOUND  as gantry_heap_free(); `call` is what the message names */
GANTRY_MUST_CHECK gantry_status gy_heap_claim(gantry_heap *heap, void *pointer, const char *call,
                                              struct gy_heap_claim *out);
/* The second half. */
void gy_heap_free_claimed(gantry_heap *heap, const struct gy_heap_claim *claim);
/* Instead of it: give the memory out as a block of `bytes` (checked arguments).  False: it does not fit. */
bool gy_heap_reuse(gantry_heap *heap, const struct gy_heap_claim *claim, gantry_memory_kind kind,
                   size_t bytes, size_t alignment, const gantry_alloc_site *site);

/* Blocks that wait for their stream (dispatcher/) are no longer in use by the application: when memory runs
 * out, `free_pending` is called to free those whose turn has come, and to wait for others that are on their
 * way. True: some were freed.  It runs on the allocating thread with no lock held but this registration,
 * which is taken back with NULL: then no call is running. */
void gy_heap_set_pending(gantry_heap *heap, bool (*free_pending)(void *user, gantry_memory_kind kind),
                         void *user);

/* The bytes that the settings and the device leave to a kind: what its slabs may come to. */
uint64_t gy_heap_budget(gantry_heap *heap, gantry_memory_kind kind);
/* Those that its live blocks, and blocks that wait for their stream, withhold from everybody else: whole
 * units of slabs. */
uint64_t gy_heap_occupied(gantry_heap *heap, gantry_memory_kind kind);

/* "device", "pinned", …; static. */
const char *gy_kind_name(gantry_memory_kind kind);

#endif
