/* SPDX-License-Identifier: MIT */
/**
 * @file heap.h
 * The heap of a context: device, page-locked, write-combined and plain host memory at malloc speed.
 *
 * Blocks are at least 256-byte aligned.  Nothing here waits for the GPU: a block must no longer be in
 * use by queued GPU work when it is freed (gantry_free_after() of dispatcher.h takes it back later).
 * docs/guides/heap.md explains how it works and how to set it up.
 *
 * Threading: any thread.
 */
#ifndef GANTRY_HEAP_H
#define GANTRY_HEAP_H

#include <gantry/base.h>

#include <stdbool.h>
#include <stdio.h>

GANTRY_BEGIN_DECLS

/** Memory of four kinds for one CUDA context.  Every function may be called from any thread. */
typedef struct gantry_heap gantry_heap;

/** What memory an allocation is. */
typedef enum gantry_memory_kind {
    GANTRY_MEMORY_DEVICE = 0,         /* on the device; the CPU must not touch it */
    GANTRY_MEMORY_PINNED = 1,         /* page-locked host memory, mapped into the device */
    GANTRY_MEMORY_WRITE_COMBINED = 2, /* the same, fast for the CPU to write and slow to read */
    GANTRY_MEMORY_HOST = 3,           /* plain host memory */
} gantry_memory_kind;
#define GANTRY_MEMORY_KIND_COUNT 4 /* how many kinds there are */

/** As what device memory may be given to other processes, see gantry_heap_export(). */
typedef enum gantry_heap_handles {
    GANTRY_HEAP_HANDLES_NONE = 0,   /* it cannot be given away */
    GANTRY_HEAP_HANDLES_FD = 1,     /* as a file descriptor, on this machine */
    GANTRY_HEAP_HANDLES_FABRIC = 2, /* as 64 bytes, also on other machines of the same NVLink fabric, where
                                     * the system permits it */
    GANTRY_HEAP_HANDLES_BEST = 3, /* as both where fabric handles are permitted, else as a file descriptor */
} gantry_heap_handles;

/** Where a kind's slabs come from, when the application has a pool of its own.  Both functions may be called
 *  from any thread, with no lock of the heap held and the heap's CUDA context current, so that they can call
 *  CUDA; they must not call into the heap.  The first calls may come from within gantry_context_create(), the
 *  last ones from gantry_context_destroy(). */
typedef struct gantry_memory_source {
    size_t struct_size;
    /** `bytes` (a multiple of 2 MiB) of memory; aligned to 2 MiB if possible, since more is asked for
     *  otherwise.  PINNED, WRITE_COMBINED: `out_device` gets the device address of `*out`.
     *  @return GANTRY_OK, GANTRY_ERR_OUT_OF_DEVICE_MEMORY, GANTRY_ERR_OUT_OF_HOST_MEMORY, or why not */
    gantry_status (*take)(void *user, gantry_memory_kind kind, size_t bytes, void **out, void **out_device);
    /** Memory from take(), with the `bytes` it was asked for. */
    void (*give_back)(void *user, gantry_memory_kind kind, void *memory, size_t bytes);
    void *user; /* handed to both functions */
} gantry_memory_source;
#define GANTRY_MEMORY_SOURCE_INIT                      \
    {                                                  \
        sizeof(gantry_memory_source), NULL, NULL, NULL \
    }

/** Called when an allocation of `bytes` finds no room, after everything unused was given back; may free
 * blocks of the heap.  True: try once more.  Runs on the allocating thread with no lock held. */
typedef bool (*gantry_out_of_memory_fn)(void *user, gantry_heap *heap, gantry_memory_kind kind, size_t bytes);

/** Who does what takes long: gantry_heap_reclaim() and giving unused slabs back. */
typedef enum gantry_reclaim_policy {
    GANTRY_RECLAIM_BOUNDED = 0, /* one thread per memory kind, each with a queue of limited bytes */
    GANTRY_RECLAIM_INLINE = 1,  /* whoever asks; the heap has no thread */
    GANTRY_RECLAIM_UNBOUNDED =
        2, /* a thread for each release, as many at once as there are; slabs as BOUNDED */
} gantry_reclaim_policy;

/** How a heap takes memory and gives it back; an array has one element per gantry_memory_kind. */
typedef struct gantry_heap_options {
    size_t struct_size;
    size_t slab_bytes[GANTRY_MEMORY_KIND_COUNT];  /* taken from the driver at a time, rounded up to 2 MiB,
                                                   * less when there is not as much, device memory at most
                                                   * an eighth of the device's; 0: as much as there is
                                                   * already, from 2 MiB to 256 MiB device, 64 MiB others */
    size_t limit_bytes[GANTRY_MEMORY_KIND_COUNT]; /* most slab bytes of a kind; 0: no limit */
    size_t base_bytes[GANTRY_MEMORY_KIND_COUNT];  /* taken with the first slab and never given back */
    size_t keep_bytes[GANTRY_MEMORY_KIND_COUNT];  /* wholly free slabs above that many bytes are given back;
                                                   * 0: page-locked memory never, else as many bytes as are
                                                   * in use, 256 MiB device and 64 MiB host at least */
    const gantry_memory_source *source[GANTRY_MEMORY_KIND_COUNT]; /* NULL: the driver, the system; copied */
    gantry_out_of_memory_fn out_of_memory;                        /* may be NULL */
    void *out_of_memory_user;                                     /* handed to out_of_memory() */
    gantry_reclaim_policy reclaim;                                /* who does what takes long */
    bool check;                   /* as the environment's GANTRY_CHECK=frees,guards: remember what was freed
                                   * where, poison it and look whether it was written to, nor behind blocks;
                                   * slow, see docs/guides/checking.md */
    uint64_t reclaim_queue_bytes; /* most bytes waiting for the reclaimer of a kind; 0: 4 GiB */
    size_t unit_bytes[GANTRY_MEMORY_KIND_COUNT]; /* device memory: slabs are mapped in units of that many
                                                  * bytes, rounded up to 2 MiB, each of which can go back
                                                  * alone; SIZE_MAX: each slab is one; 0: that where there are
                                                  * 16 GiB or more, else 4 MiB */
    size_t
        ahead_bytes[GANTRY_MEMORY_KIND_COUNT];   /* while a kind grows, that much is mapped beforehand, by the
                                                  * reclaimer's thread; SIZE_MAX: nothing; 0: 64 MiB of device
                                                  * memory where there are 16 GiB or more, else nothing */
    uint64_t decay_ms[GANTRY_MEMORY_KIND_COUNT]; /* what lies unused above keep_bytes goes back when it has
                                                  * for so long; UINT64_MAX: at once; 0: 10 s when keep_bytes
                                                  * is 0, else at once */
    uint64_t peers; /* bit d: the device with ordinal d uses device memory of this heap, too: its kernels and
                     * copies may be given the addresses.  Each slab is one piece then, whatever unit_bytes
                     * says, and is let to all of them when it is taken; devices that are not there do not
                     * count.  0: the context's own device alone */
    gantry_heap_handles handles; /* as what its device memory can be exported.  Unless NONE, each slab is one
                                  * piece, whatever unit_bytes says */
    uint32_t reserved;           /* 0 */
} gantry_heap_options;
#define GANTRY_HEAP_OPTIONS_INIT                                                                  \
    {                                                                                             \
        sizeof(gantry_heap_options), {0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0},      \
            {NULL, NULL, NULL, NULL}, NULL, NULL, GANTRY_RECLAIM_BOUNDED, false, 0, {0, 0, 0, 0}, \
            {0, 0, 0, 0}, {0, 0, 0, 0}, 0, GANTRY_HEAP_HANDLES_NONE, 0                            \
    }

/** Where an allocation comes from, for statistics and leak reports.  Strings are static. */
typedef struct gantry_alloc_site {
    const char *tag;  /* NULL: "untagged" */
    const char *file; /* NULL: not known */
    int line;         /* in `file`; 0: not known */
} gantry_alloc_site;
#ifdef __cplusplus
#define GANTRY_ALLOC_SITE(tag) gantry_make_alloc_site((tag), __FILE__, __LINE__)
static inline gantry_alloc_site gantry_make_alloc_site(const char *tag, const char *file, int line)
{
    gantry_alloc_site site = {tag, file, line};
    return site;
}
#else
/** The gantry_alloc_site of the line it stands on; `tag` is a string that is never freed, or NULL. */
#define GANTRY_ALLOC_SITE(tag) ((gantry_alloc_site){(tag), __FILE__, __LINE__})
#endif

/** Allocate `bytes` > 0 of `kind`, aligned to `alignment` (0: 256; a power of two up to 2 MiB).
 *  Device memory comes out as a device address in a `void *`.  What is in the block is not defined: it may
 *  hold what an earlier block held.  Out of memory: unused slabs are given back,
 *  blocks whose stream has passed are freed, the heap's out_of_memory callback is asked; only then it fails,
 *  and the message names the largest users.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT      0 bytes, unknown kind, bad alignment, NULL
 *  @retval GANTRY_ERR_OUT_OF_DEVICE_MEMORY  limit or driver memory exhausted (DEVICE, PINNED, WC)
 *  @retval GANTRY_ERR_OUT_OF_HOST_MEMORY    (HOST, or the heap's own bookkeeping)
 *  @retval GANTRY_ERR_DRIVER, GANTRY_ERR_DEVICE_LOST */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_heap_alloc(gantry_heap *heap, gantry_memory_kind kind,
                                                             size_t bytes, size_t alignment,
                                                             gantry_alloc_site site, void **out);

/** Give a block back.  NULL is ignored.  The address must be one that gantry_heap_alloc() gave out.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_NOT_FOUND  not a live block of this heap (foreign, inside a block, freed before); the
 *                                message says which */
GANTRY_API gantry_status gantry_heap_free(gantry_heap *heap, void *pointer);

/** Change a block's size without moving it.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  0 bytes
 *  @retval GANTRY_ERR_NOT_FOUND         as gantry_heap_free()
 *  @retval GANTRY_ERR_UNSUPPORTED       cannot be done in place; the block is unchanged */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_heap_resize(gantry_heap *heap, void *pointer, size_t bytes);

/** The device address of any address inside a PINNED or WRITE_COMBINED block.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  `heap` or `out` NULL
 *  @retval GANTRY_ERR_NOT_FOUND         no such block */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_heap_device_address(gantry_heap *heap, const void *host,
                                                                      void **out);

/* ---- blocks that are used on streams -------------------------------------------------------- */

/** As gantry_heap_alloc(), for use on `stream` (a CUstream of the heap's CUDA context, created by anybody;
 * the default streams too: NULL or 1 legacy, 2 the calling thread's).  What was freed on that stream is used
 *  again at once, in any size, and what was freed on others when they have passed; so the block may be used
 * on `stream` only, or elsewhere after an event of it.  On a stream under capture the block belongs to the
 *  graph: whenever it is freed, only the same capture uses its memory again, until
 *  gantry_heap_end_capture().  No event is recorded or queried on a stream under capture.  Blocks take whole
 *  4 KiB.
 *
 *  Out of memory: as gantry_heap_alloc(), and what waits for streams is waited for, what was freed first
 * before the rest, and no stream of which nothing comes back.  That needs the heap's events, which are there
 * for all but the last 64th of what the heap may have, and what threads that have stopped calling keep.  The
 * device is never waited for: gantry_heap_settle() does that.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  as gantry_heap_alloc(); not a stream of the heap's CUDA context
 *  @retval GANTRY_ERR_STATE             in a child that was forked from the process with the heap
 *  @retval GANTRY_ERR_OUT_OF_DEVICE_MEMORY, GANTRY_ERR_OUT_OF_HOST_MEMORY, GANTRY_ERR_DRIVER,
 *          GANTRY_ERR_DEVICE_LOST       as gantry_heap_alloc() */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_heap_alloc_on(gantry_heap *heap, gantry_memory_kind kind,
                                                                size_t bytes, size_t alignment, void *stream,
                                                                gantry_alloc_site site, void **out);

/** Give back any block of the heap that is used by what is enqueued on `stream` so far, and on those named to
 *  gantry_heap_record_stream(): which must exist.  Its memory is used again on `stream` at once, elsewhere
 *  when the streams have passed, and is not unmapped before.  On a stream under capture the block stays with
 *  the graph.  In a forked child this does nothing.  NULL is ignored.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_NOT_FOUND           as gantry_heap_free()
 *  @retval GANTRY_ERR_INVALID_ARGUMENT    `heap` NULL; not a stream of the heap's CUDA context
 *  @retval GANTRY_ERR_OUT_OF_HOST_MEMORY  for bookkeeping; the block is still there */
GANTRY_API gantry_status gantry_heap_free_on(gantry_heap *heap, void *pointer, void *stream);

/** The block is used on `stream`, too, up to when it is freed.  Forgotten when it is.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_NOT_FOUND           as gantry_heap_free()
 *  @retval GANTRY_ERR_INVALID_ARGUMENT    NULL; not a stream of the heap's CUDA context
 *  @retval GANTRY_ERR_STATE               in a forked child
 *  @retval GANTRY_ERR_OUT_OF_HOST_MEMORY  for bookkeeping */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_heap_record_stream(gantry_heap *heap, void *pointer,
                                                                     void *stream);

/** The capture with this number (cuStreamGetCaptureInfo()) has ended; with `graph_is_gone` also: no replay of
 *  its graph is on its way, and none will come, so that what stays with it is free for all.  Without the
 *  first, the heap takes the capture to go on until its stream is named again without it, and
 *  gantry_heap_settle() is refused.  Unknown numbers are ignored.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  `heap` NULL */
GANTRY_API gantry_status gantry_heap_end_capture(gantry_heap *heap, uint64_t capture, bool graph_is_gone);

/** Wait for all that was freed on streams, after which nothing waits for a stream any more: before a stream
 * is destroyed on which large blocks were freed, or before gantry_heap_trim().  The device is waited for if
 * there is memory for which no event was recorded.  While a capture is under way that the heap knows of, this
 * is refused, and the capture goes on.  It knows of captures of streams that were named to it meanwhile, of
 *  blocking streams, and of the calling thread's default stream.  Others stay whole as well.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL
 *  @retval GANTRY_ERR_STATE             something is captured; in a forked child
 *  @retval GANTRY_ERR_DRIVER, GANTRY_ERR_DEVICE_LOST */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_heap_settle(gantry_heap *heap);

/* ---- settings ------------------------------------------------------------------------------ */

/** Of one kind; the members mean what those of gantry_heap_options do. */
typedef struct gantry_heap_settings {
    size_t struct_size;
    size_t slab_bytes;  /* taken from the driver at a time */
    size_t limit_bytes; /* most slab bytes */
    size_t base_bytes;  /* taken with the first slab and never given back */
    size_t keep_bytes;  /* wholly free slabs above that go back */
    size_t unit_bytes;  /* device memory is mapped in such units */
    size_t ahead_bytes; /* mapped beforehand while the kind grows */
    uint64_t decay_ms;  /* unused memory goes back after so long */
} gantry_heap_settings;

/** Change the settings of a kind; they count from now on.  What is above a new limit and in no use is given
 *  back before the call returns, the rest as it is freed; meanwhile nothing more is taken.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL, unknown kind, a size too large to be rounded up
 *  @retval GANTRY_ERR_UNSUPPORTED       a field this version does not know is set */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_heap_configure(gantry_heap *heap, gantry_memory_kind kind,
                                                                 const gantry_heap_settings *settings);
/** What holds for a kind now.  Any thread.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL, unknown kind, struct_size too small */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_heap_get_settings(gantry_heap *heap,
                                                                    gantry_memory_kind kind,
                                                                    gantry_heap_settings *settings);

/** Take slabs now until `bytes` lie in wholly free ones, so that later allocations need no driver call.
 *  They are kept until gantry_heap_trim().
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL, unknown kind
 *  @retval other                        as gantry_heap_alloc(); what could be taken stays taken */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_heap_reserve(gantry_heap *heap, gantry_memory_kind kind,
                                                               size_t bytes);

/** Give wholly free slabs back now until at most `keep_bytes` lie in them (base_bytes stay).  Page-locked
 *  slabs, and device slabs without virtual memory management, wait for the device.
 *  @param[out] out_bytes  what was given back; may be NULL
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL, unknown kind */
GANTRY_API gantry_status gantry_heap_trim(gantry_heap *heap, gantry_memory_kind kind, size_t keep_bytes,
                                          uint64_t *out_bytes);

/* ---- statistics ---------------------------------------------------------------------------- */

/** Why an allocation took long. */
typedef enum gantry_heap_stall {
    GANTRY_HEAP_STALL_MAPPING = 0, /* it took memory from the driver itself */
    GANTRY_HEAP_STALL_OTHER = 1,   /* it waited for another thread that did */
    GANTRY_HEAP_STALL_GPU = 2,     /* it waited for work of the GPU, behind which memory becomes free */
    GANTRY_HEAP_STALL_CALLBACK = 3 /* it asked the heap's out_of_memory callback */
} gantry_heap_stall;
#define GANTRY_HEAP_STALL_COUNT 4 /* how many reasons there are */

/** What one memory kind of a heap has, see gantry_heap_get_stats(). */
typedef struct gantry_heap_stats {
    size_t struct_size;    /* in: sizeof of the caller */
    uint64_t slab_bytes;   /* taken from the driver */
    uint64_t used_bytes;   /* requested by live blocks */
    uint64_t peak_bytes;   /* most of those at once, never more than there were; per thread up to 32 KiB in
                            * blocks of at most 14 KiB and 1 MiB in others may be missing, or 32 times that with
                            * several at once */
    uint64_t block_count;  /* live blocks */
    uint64_t alloc_count;  /* allocations since creation */
    uint64_t free_count;   /* blocks freed since creation */
    uint64_t largest_free; /* largest free range in the page layer */
    uint64_t free_bytes;   /* of all its free ranges; 1 - largest_free / free_bytes is how fragmented it is */
    uint64_t empty_bytes;  /* of slabs without a live block */
    uint64_t peak_slab_bytes; /* most slab_bytes at once */
    uint64_t waiting_bytes; /* freed on a stream that has not passed yet, as far as is known, or in a graph */
    uint64_t stalls[GANTRY_HEAP_STALL_COUNT];           /* allocations that stalled, by gantry_heap_stall */
    uint64_t stall_ns[GANTRY_HEAP_STALL_COUNT];         /* the time of all */
    uint64_t longest_stall_ns[GANTRY_HEAP_STALL_COUNT]; /* and of the longest */
} gantry_heap_stats;

/** What a kind has now.  Any thread.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL, unknown kind, struct_size too small */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_heap_get_stats(gantry_heap *heap, gantry_memory_kind kind,
                                                                 gantry_heap_stats *stats);

/** Start the peaks of a kind anew: those of gantry_heap_stats and gantry_heap_tag_stats become what there is
 *  now.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL, unknown kind */
GANTRY_API gantry_status gantry_heap_reset_peaks(gantry_heap *heap, gantry_memory_kind kind);

/** What one tag has from one place. */
typedef struct gantry_heap_tag_stats {
    const char *tag;      /* never NULL */
    const char *file;     /* may be NULL */
    int line;             /* in `file` */
    uint64_t used_bytes;  /* requested by its live blocks */
    uint64_t peak_bytes;  /* as that of gantry_heap_stats; what other threads freed at the moment of the peak
                           * may be in it */
    uint64_t block_count; /* its live blocks */
} gantry_heap_tag_stats;

/** The tags and places of a kind, those that use most first.  Up to `capacity` entries are written to `stats`
 *  (may be NULL for 0); `out_count` gets how many there are.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT    NULL, unknown kind
 *  @retval GANTRY_ERR_OUT_OF_HOST_MEMORY  for sorting */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_heap_get_tag_stats(gantry_heap *heap,
                                                                     gantry_memory_kind kind,
                                                                     gantry_heap_tag_stats *stats,
                                                                     size_t capacity, size_t *out_count);

/** The live block that an address lies in. */
typedef struct gantry_heap_block {
    size_t struct_size;      /* in: sizeof of the caller */
    gantry_memory_kind kind; /* what memory it is */
    void *base;              /* its first byte */
    size_t bytes;            /* as asked for */
    gantry_alloc_site site;  /* where it was allocated */
} gantry_heap_block;
/** Which live block an address lies in.  Any thread.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL, or a struct_size too small
 *  @retval GANTRY_ERR_NOT_FOUND         in no live block */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_heap_find_block(gantry_heap *heap, const void *address,
                                                                  gantry_heap_block *out);

/** Write a map of a kind for people: its sums, a line of letters per slab, what the tags have.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT    NULL, unknown kind
 *  @retval GANTRY_ERR_OUT_OF_HOST_MEMORY  for drawing
 *  @retval GANTRY_ERR_IO                  `out` could not be written */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_heap_dump(gantry_heap *heap, gantry_memory_kind kind,
                                                            FILE *out);

/** Write all kinds of a heap as one JSON object: what gantry_heap_get_stats() and gantry_heap_get_tag_stats()
 *  tell and, with `with_blocks`, where each slab, range and live block lies and which tag asked for it.
 *  `gantry report heap FILE` draws it; docs/guides/heap.md names the members.  Bytes of tags and file names
 *  are written as they are: they should be UTF-8.  Each kind is copied at one moment but for blocks, counts
 *  and ranges, which are copied one after the other: what other threads do meanwhile may be in one of them
 *  only.  Takes host memory of some 40 bytes per block.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT    NULL
 *  @retval GANTRY_ERR_OUT_OF_HOST_MEMORY  for the copy; what was written is not whole
 *  @retval GANTRY_ERR_IO                  `out` could not be written */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_heap_write_json(gantry_heap *heap, bool with_blocks,
                                                                  FILE *out);

/* ---- large releases ------------------------------------------------------------------------ */

/** Have `release(arg)`, which gives `bytes` of the application's memory back and takes its time (unmapping
 *  gigabytes stalls every core of the process), called as the heap's reclaim policy says.  With
 *  GANTRY_RECLAIM_BOUNDED the releases of a kind run one at a time, in order; the call waits while the kind's
 *  queue has no room for `bytes` more, except from within a release.  Whatever happens, `release` is called
 *  exactly once, at the latest when the heap is destroyed.  Those of different kinds do not wait for each
 *  other: memory that takes the driver long to release keeps no other waiting.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL, unknown kind; `release` is not called */
GANTRY_API gantry_status gantry_heap_reclaim_kind(gantry_heap *heap, gantry_memory_kind kind,
                                                  void (*release)(void *arg), void *arg, uint64_t bytes);
/** The same for plain host memory: GANTRY_MEMORY_HOST.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL; `release` is not called */
GANTRY_API gantry_status gantry_heap_reclaim(gantry_heap *heap, void (*release)(void *arg), void *arg,
                                             uint64_t bytes);
/** Wait until every release and every giving back of slabs asked for so far is done.  Not from a release.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL */
GANTRY_API gantry_status gantry_heap_reclaim_wait(gantry_heap *heap);

/* ---- memory of other processes ----------------------------------------------------------------- */

/** Device memory as another process can get it: send it all there, a file descriptor as one
 *  (SCM_RIGHTS, or inherited). */
typedef struct gantry_exported_memory {
    size_t struct_size;          /* in: sizeof of the caller */
    gantry_heap_handles handles; /* FD or FABRIC: which of the next two counts */
    int fd;                      /* whoever has it closes it, the importer after the import; -1 with FABRIC */
    uint8_t fabric[64];          /* 0 with FD */
    uint64_t slab_bytes; /* of the piece of memory that the block lies in, which is imported as a whole */
    uint64_t offset;     /* of the address in it */
    uint64_t bytes;      /* of the block, from the address on */
} gantry_exported_memory;

/** Export the piece of memory that `address`, in a live block of device memory, lies in.  `handles` is FD or
 *  FABRIC, which the heap was made for (gantry_heap_options.handles).  The importer reaches all of the piece,
 *  other blocks too.  Its memory is there for as long as anybody has it; what a block holds is anybody's once
 *  it was freed.  With FD, the caller closes `out->fd`.  Any thread.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL, a struct_size too small, neither FD nor FABRIC, or memory of
 *                                       another kind
 *  @retval GANTRY_ERR_NOT_FOUND         no live block of the heap is there
 *  @retval GANTRY_ERR_UNSUPPORTED       the heap was not made for such handles
 *  @retval GANTRY_ERR_DRIVER, GANTRY_ERR_DEVICE_LOST */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_heap_export(gantry_heap *heap, const void *address,
                                                              gantry_heap_handles handles,
                                                              gantry_exported_memory *out);
/** Map memory that was exported, by another process or another heap of this one, for the device of this heap;
 *  *out is the exported address here.  Kernels and copies of the device may use it, as memory that is no
 *  heap's; the heap gives out nothing of it.  `memory->fd` stays the caller's.  Order between the processes'
 *  work is theirs.  Any thread.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL, a struct_size too small, what the driver does not take for
 *                                       exported memory, or an offset outside of it
 *  @retval GANTRY_ERR_UNSUPPORTED       the driver cannot do it, or the device does not reach the memory
 *  @retval GANTRY_ERR_OUT_OF_HOST_MEMORY, GANTRY_ERR_DRIVER, GANTRY_ERR_DEVICE_LOST */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_heap_import(gantry_heap *heap,
                                                              const gantry_exported_memory *memory,
                                                              void **out);
/** Unmap what gantry_heap_import() mapped; no work of the GPU uses it any more.  NULL is ignored.  What is
 * left of imports goes with the heap.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_NOT_FOUND         no import of this heap has given that address
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  heap NULL */
GANTRY_API gantry_status gantry_heap_release_import(gantry_heap *heap, void *address);

/** What a heap's reclaimers have done, see gantry_heap_get_reclaim_stats(). */
typedef struct gantry_reclaim_stats {
    size_t struct_size;      /* in: sizeof of the caller */
    uint64_t releases;       /* called so far */
    uint64_t released_bytes; /* theirs */
    uint64_t queued_bytes;   /* waiting or running now */
    uint64_t peak_bytes;     /* most of those */
    uint64_t peak_running;   /* most releases running at once */
    uint64_t waits;          /* calls that waited for room in the queue */
    uint64_t slab_bytes;     /* of slabs given back because the settings let no more lie unused */
    uint64_t threads;        /* made so far for this, one per kind at most; UNBOUNDED: and one per release */
} gantry_reclaim_stats;
/** What the reclaimers of a heap have done so far.  Any thread.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL, struct_size too small */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_heap_get_reclaim_stats(gantry_heap *heap,
                                                                         gantry_reclaim_stats *stats);

GANTRY_END_DECLS

#endif
