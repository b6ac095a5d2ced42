/* SPDX-License-Identifier: MIT */
/* All heaps of the process: whose memory an address is that is not one's own. */
#ifndef HEAP_OTHERS_H
#define HEAP_OTHERS_H

#include "heap/heap.h"

/* The context that a heap's device memory is on, as far as others may know it. */
struct gy_heap_owner {
    CUcontext native;
    int ordinal;    /* of its device */
    uint64_t peers; /* bit d: the device with ordinal d uses the memory, too */
    gantry_alloc_site site;
};

/* The heap exists from now on, until the other call, which waits for looks that are under way. */
void gy_heaps_add(gantry_heap *heap);
void gy_heaps_remove(gantry_heap *heap);

/* As gy_heap_look(), in every heap of the process but `own`.  This is on the submit path: it allocates
 * nothing and calls no driver, and takes a lock only when there are several heaps. */
enum gy_heap_place gy_heaps_look(const gantry_heap *own, const void *address, struct gy_heap_look *out,
                                 struct gy_heap_owner *owner);

#endif
