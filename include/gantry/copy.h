/* SPDX-License-Identifier: MIT */
/**
 * @file copy.h
 * Batched copies: any number of copies and fills in one kernel launch, or by the copy engines where those
 * are faster.
 *
 * Threading: functions that take a gantry_launch have launch scope (see dispatcher.h); a queue belongs to
 * one thread at a time; everything else may be called from any thread.
 */
#ifndef GANTRY_COPY_H
#define GANTRY_COPY_H

#include <gantry/dispatcher.h>

GANTRY_BEGIN_DECLS

/** Which way a copy goes. */
typedef enum gantry_copy_type {
    GANTRY_COPY_HTOD = 0, /* source: page-locked host memory */
    GANTRY_COPY_DTOH = 1, /* dest: page-locked host memory */
    GANTRY_COPY_DTOD = 2, /* both sides: device memory */
    GANTRY_COPY_FILL = 3, /* dest: device or page-locked memory; repeats the pattern from `dest` on */
} gantry_copy_type;

/** One copy.  Any byte count (0 does nothing), any alignment of either side. */
typedef struct gantry_copy_desc {
    void *dest;         /* where the first byte goes */
    const void *source; /* FILL with a pattern of 8 or 16 bytes: host memory of any kind that holds it, read
                         * before the call returns; else unused by FILL */
    uint64_t bytes;     /* how many; 0: nothing is done */
    gantry_copy_type type;  /* which way */
    uint32_t pattern_bytes; /* FILL: 1, 2, 4, 8 or 16 */
    uint32_t pattern;       /* FILL of 1, 2 or 4: the low `pattern_bytes` bytes, lowest first */
} gantry_copy_desc;

/** Perform `count` copies on the launch's stream with one kernel launch.  No order among them: they must
 *  not overlap.  The descriptors are read before the call returns; the memory they name is in use until
 *  the GPU has passed.  Every descriptor is checked before anything is launched; the message names index
 *  and field.  Neighbours in the list that continue each other on both sides become one copy; where the
 *  context's tuning says so, the copies go to the copy engines instead of the kernel.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL, unknown type, bad pattern, NULL address, a wrapping or
 *                                       overlapping range, pageable host memory
 *  @retval GANTRY_ERR_OUT_OF_HOST_MEMORY    no room to plan the batch; nothing was launched
 *  @retval GANTRY_ERR_OUT_OF_DEVICE_MEMORY  no page-locked memory for the descriptors; nothing was launched
 *  @retval GANTRY_ERR_DRIVER, GANTRY_ERR_DEVICE_LOST */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_copy_launch(gantry_launch *launch,
                                                              const gantry_copy_desc *descs, size_t count);

/** Whose thread blocks go first. */
typedef enum gantry_copy_priority {
    GANTRY_COPY_PRIORITY_STREAM = 0, /* that of the launch's stream */
    GANTRY_COPY_PRIORITY_LOW = 1, /* the device's least: blocks of other kernels that wait go first.  Needs a
                                   * driver of CUDA 11.8 or later, else as STREAM; copy engines have none */
} gantry_copy_priority;

/** How one batch is performed.  Zero fields: as the context's tuning says. */
typedef struct gantry_copy_options {
    size_t struct_size;
    gantry_copy_priority priority; /* against other kernels of the device */
    uint32_t htod_blocks;   /* thread blocks, so at most as many multiprocessors, for copies from host memory;
                             * at most 64 */
    uint32_t dtoh_blocks;   /* the same to host memory; at most 64 */
    uint32_t device_blocks; /* the same within device memory */
} gantry_copy_options;
#define GANTRY_COPY_OPTIONS_INIT                                          \
    {                                                                     \
        sizeof(gantry_copy_options), GANTRY_COPY_PRIORITY_STREAM, 0, 0, 0 \
    }

/** gantry_copy_launch() with options; `options` NULL: none.  Statuses as there, and
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  struct_size too small, an unknown priority, too many blocks
 *  @retval GANTRY_ERR_UNSUPPORTED       a field is set that this version does not know */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_copy_launch_with(gantry_launch *launch,
                                                                   const gantry_copy_desc *descs,
                                                                   size_t count,
                                                                   const gantry_copy_options *options);

/* ---- lists that the device reads -------------------------------------------------------------- */

/** A list of copies in memory that the device reads: no host work for each copy, and what GPU work before has
 *  written may decide what is copied.  Either `descs`, or all of `dests`, `sources` and `bytes`, which are
 * the arrays that cub::DeviceMemcpy::Batched takes.  Each array lies in device memory or page-locked host
 * memory and has `most` elements; so do the memory that the copies name and the patterns of fills.  All
 * addresses in them are those that the device uses, which for memory of the heap are the same as the host's.
 */
typedef struct gantry_copy_list {
    size_t struct_size;
    const gantry_copy_desc *descs; /* aligned to 8 bytes; the types HTOD, DTOH and DTOD are the same here */
    void *const *dests;            /* aligned to 8 bytes, as are the next two */
    const void *const *sources;    /* where the copies come from */
    const uint64_t *bytes;         /* how many bytes each has */
    const uint32_t *count;         /* aligned to 4 bytes: how many copies there are; NULL: `most` */
    uint64_t largest;  /* bytes of the largest copy, as far as is known; 0: nothing is known.  At most 16 KiB
                        * saves the kernel that shares large copies among many warps; a larger copy than
                        * this says is done all the same, but slowly */
    uint32_t most;     /* copies at most; 0: nothing is done */
    uint32_t reserved; /* 0 */
} gantry_copy_list;
#define GANTRY_COPY_LIST_INIT                                           \
    {                                                                   \
        sizeof(gantry_copy_list), NULL, NULL, NULL, NULL, NULL, 0, 0, 0 \
    }

/** Perform the copies of a list, on the launch's stream, with one or two kernels; always by kernels, never by
 *  the copy engines.  No order among the copies: none may touch what another one writes.  The arrays are read
 *  when the GPU gets there, so they stay as they are until it has passed.
 *
 *  What is in them cannot be checked by the call: a count above `most` counts as `most`, a descriptor of an
 *  unknown type or pattern size does nothing, and a bad address is an error of the device.  With
 *  GANTRY_CHECK=1 (or `bounds`) the device checks it before, which the call waits for, as
 *  gantry_copy_launch() does; such a callback is never captured into a graph.
 *
 *  `options` may be NULL; of the numbers of blocks only `device_blocks` counts.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL, both forms of a list or parts of one, a misaligned array, or
 * one in pageable memory or that leaves its memory.  With checks also what gantry_copy_launch() refuses, with
 * index and number, and a count above `most`.  Nothing was launched
 *  @retval GANTRY_ERR_UNSUPPORTED       a field is set that this version does not know
 *  @retval GANTRY_ERR_STATE             not in a launch callback
 *  @retval GANTRY_ERR_OUT_OF_HOST_MEMORY, GANTRY_ERR_OUT_OF_DEVICE_MEMORY  nothing was launched
 *  @retval GANTRY_ERR_DRIVER, GANTRY_ERR_DEVICE_LOST */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_copy_launch_list(gantry_launch *launch,
                                                                   const gantry_copy_list *list,
                                                                   const gantry_copy_options *options);

/* ---- boxes --------------------------------------------------------------------------------- */

/** Rows of the same size at even distances, in layers at even distances: a part of a matrix, or of a volume.
 * All sizes are bytes. */
typedef struct gantry_copy_box {
    size_t struct_size;
    void *dest;         /* the first row's first byte; device or page-locked memory, as is `source` */
    const void *source; /* where the first row comes from */
    uint64_t width;     /* of a row */
    uint64_t rows;      /* of a layer */
    uint64_t layers;    /* 1: just rows */
    uint64_t
        dest_pitch; /* from the begin of a row to that of the next, at least `width`; unused with one row */
    uint64_t source_pitch;       /* the same; may be any number, 0 too: then all rows are the same */
    uint64_t dest_layer_pitch;   /* from the begin of a layer to that of the next; unused with one layer */
    uint64_t source_layer_pitch; /* the same; may be any number */
} gantry_copy_box;
#define GANTRY_COPY_BOX_INIT                                     \
    {                                                            \
        sizeof(gantry_copy_box), NULL, NULL, 0, 1, 1, 0, 0, 0, 0 \
    }

/** Copy a box on the launch's stream with one kernel, without a descriptor for each row.  A box that is
 * contiguous on both sides is one copy, as a batch of one.  A width, rows or layers of 0 do nothing.  The two
 * sides may be parts of the same rows; of sides that interleave otherwise nothing can be told, so they are
 * refused.  `options` may be NULL.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL, a pitch of the dest that lets rows or layers overlap, pageable
 * memory, or that of a device which this one does not reach, a box that leaves its memory, sides that
 * overlap, more than 2^32 - 1 rows (counted for every 16 KiB).  Nothing was launched
 *  @retval GANTRY_ERR_UNSUPPORTED       a field is set that this version does not know
 *  @retval GANTRY_ERR_STATE             not in a launch callback
 *  @retval GANTRY_ERR_OUT_OF_HOST_MEMORY, GANTRY_ERR_OUT_OF_DEVICE_MEMORY  nothing was launched
 *  @retval GANTRY_ERR_DRIVER, GANTRY_ERR_DEVICE_LOST */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_copy_launch_box(gantry_launch *launch,
                                                                  const gantry_copy_box *box,
                                                                  const gantry_copy_options *options);

/* ---- queues ---------------------------------------------------------------------------------- */

/** Copies that are collected now and launched together later, as if one after the other. */
typedef struct gantry_copy_queue gantry_copy_queue;

/** `reserve`: descriptors that gantry_copy_queue_enqueue() takes without allocating, 56 bytes each; a
 *  queue grows beyond it by doubling and shrinks never.  The queue belongs to the caller.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL
 *  @retval GANTRY_ERR_OUT_OF_HOST_MEMORY */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_copy_queue_create(size_t reserve, gantry_copy_queue **out);
/** What is queued is dropped, what was flushed goes on.  NULL is ignored. */
GANTRY_API void gantry_copy_queue_destroy(gantry_copy_queue *queue);

/** Add a copy of `desc` (and of its pattern) behind the others; nothing is launched.  0 bytes are legal.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  as gantry_copy_launch(), as far as can be told without asking what
 *                                       memory the addresses are; the queue is unchanged
 *  @retval GANTRY_ERR_OUT_OF_HOST_MEMORY  the queue is unchanged */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_copy_queue_enqueue(gantry_copy_queue *queue,
                                                                     const gantry_copy_desc *desc);

/** Launch everything queued on the launch's stream, in order: the result is as if each copy had been done
 *  when the one before it was finished.  Copies that do not touch each other are done at once; a copy that
 *  touches what one before it wrote or read starts a new launch, so that none overtakes another.  Checks
 *  all descriptors first.  Afterwards the queue holds what was not launched: nothing after success,
 *  everything after INVALID_ARGUMENT (indices of the message count from the oldest queued descriptor).
 *  Where the callback does what no graph takes and is called once more (gantry_launch_stream()), the queue
 *  holds again what it held before the first call.  A callback that flushes fewer copies then than before has
 *  lost some, and its task fails with GANTRY_ERR_STATE.  gantry_launch_leave_graph() before the flush avoids
 *  the second call.
 *  Statuses as gantry_copy_launch(), and
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL, or a descriptor whose source overlaps its own dest */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_copy_queue_flush(gantry_copy_queue *queue,
                                                                   gantry_launch *launch);

/** gantry_copy_queue_flush() with options; `options` NULL: none.
 *  @retval GANTRY_OK, GANTRY_ERR_INVALID_ARGUMENT, GANTRY_ERR_OUT_OF_HOST_MEMORY,
 *          GANTRY_ERR_OUT_OF_DEVICE_MEMORY, GANTRY_ERR_DRIVER, GANTRY_ERR_DEVICE_LOST
 *          as gantry_copy_queue_flush() and gantry_copy_launch_with()
 *  @retval GANTRY_ERR_UNSUPPORTED  a field is set that this version does not know */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_copy_queue_flush_with(gantry_copy_queue *queue,
                                                                        gantry_launch *launch,
                                                                        const gantry_copy_options *options);

/** Descriptors queued. */
GANTRY_API size_t gantry_copy_queue_count(const gantry_copy_queue *queue);
/** Forget them. */
GANTRY_API void gantry_copy_queue_clear(gantry_copy_queue *queue);

/* ---- tuning ---------------------------------------------------------------------------------- */

/** Classes of copies by size: class 0 below 64 KiB, then 4 times as much each; class 7 from 256 MiB on. */
#define GANTRY_COPY_SIZE_CLASSES 8

/** Who does copies within device memory that the copy engines would do, but whose two sides are aligned
 *  differently to 16 bytes: engines are slow then. */
typedef enum gantry_copy_misaligned {
    GANTRY_COPY_MISALIGNED_DEFAULT = 0, /* GANTRY_COPY_MISALIGNED_KERNEL */
    GANTRY_COPY_MISALIGNED_KERNEL = 1,  /* the copy kernel */
    GANTRY_COPY_MISALIGNED_ENGINE = 2,  /* a copy engine */
} gantry_copy_misaligned;

/** How a context performs batches.  Printed by `gantry info --copies`. */
typedef struct gantry_copy_tuning {
    size_t struct_size;
    uint32_t host_blocks;   /* thread blocks, so at most as many multiprocessors, for copies from host memory;
                             * 0: 4 */
    uint32_t device_blocks; /* the same for copies within device memory; 0: all there are */
    /* [HTOD, DTOH or DTOD][size class of the smallest copy]: a batch of this direction alone and of at most
     * so many copies goes to the copy engines, a larger one to the kernel.  0: always the kernel */
    uint32_t engine_up_to[3][GANTRY_COPY_SIZE_CLASSES];
    uint32_t host_threads; /* of each host block, a multiple of 32 up to 1024; 0: 1024.  Fewer leave room for
                            * other kernels on the same multiprocessors, more keep more bytes in flight */
    uint32_t measured;     /* 1: by gantry_copy_calibrate(); 0: built in or set */
    uint32_t dtoh_blocks;  /* as host_blocks, for copies to host memory and fills of it; 0: as host_blocks.  A
                            * launch with both directions has both numbers of blocks */
    uint32_t misaligned;   /* gantry_copy_misaligned */
} gantry_copy_tuning;

/** The context's tuning; at first what was measured on an H200.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL or a struct_size too small */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_copy_get_tuning(gantry_context *context,
                                                                  gantry_copy_tuning *out);
/** Use this tuning from the next launch on; `measured` is taken as given.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL, struct_size too small, more than 64 host_blocks or
 *                                       dtoh_blocks, host_threads no multiple of 32 up to 1024, `misaligned`
 * unknown
 *  @retval GANTRY_ERR_UNSUPPORTED       a field is set that this version does not know */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_copy_set_tuning(gantry_context *context,
                                                                  const gantry_copy_tuning *tuning);

/** How copies go between a context's device and another one whose memory it reaches, or that reaches its. */
typedef struct gantry_copy_peer_tuning {
    size_t struct_size;
    /* [0: to the other device, 1: from it][size class of the smallest copy]: as in gantry_copy_tuning.  Of
     * gantry_launch_copy_dtod(), which copies one piece, only what was measured or set counts: where it says
     * 0, the kernel does it, else an engine */
    uint32_t engine_up_to[2][GANTRY_COPY_SIZE_CLASSES];
    uint32_t blocks;   /* thread blocks of the kernel, at most as many as gantry_copy_tuning.device_blocks or
                        * a call's options say, where they do; 0: 8 */
    uint32_t measured; /* 1: by gantry_copy_calibrate(); 0: built in or set */
} gantry_copy_peer_tuning;

/** How the context's device copies from and to the device with ordinal `peer`; at first what was measured on
 *  two H200.  A batch that goes to several devices is done as the first copy of it that leaves the device.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL, a struct_size too small, `peer` below 0 or above 63, or the
 *                                       context's own device */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_copy_get_peer_tuning(gantry_context *context, int peer,
                                                                       gantry_copy_peer_tuning *out);
/** Use this from the next launch on; `measured` is taken as given.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  as gantry_copy_get_peer_tuning()
 *  @retval GANTRY_ERR_UNSUPPORTED       a field is set that this version does not know */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_copy_set_peer_tuning(gantry_context *context, int peer,
                                                                       const gantry_copy_peer_tuning *tuning);

/** Measure the kernel against the copy engines and set `engine_up_to` and `misaligned`; also done when a
 * context is created with `calibrate_copies`.  Where the context's heap is let to other devices
 * (gantry_heap_options.peers, as those of a fleet are), the copies to and from each of them are measured,
 * too, with `most_bytes` of that device's memory for a while.  Takes twice `most_bytes` of device memory and
 * once of page-locked memory for a while; size classes that do not fit take the verdict of the largest that
 * does. Waits for the GPU: for start-up, in a task of its own, while nothing else runs.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  less than 64 KiB
 *  @retval GANTRY_ERR_OUT_OF_HOST_MEMORY, GANTRY_ERR_OUT_OF_DEVICE_MEMORY, GANTRY_ERR_DRIVER,
 *          GANTRY_ERR_DEVICE_LOST  the tuning is unchanged */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_copy_calibrate(gantry_launch *launch, uint64_t most_bytes);

/** Write the tuning as lines of text into `text` (NUL-terminated, cut to `room`, which may be 0).
 *  @return characters that the whole text has, without the NUL */
GANTRY_API size_t gantry_copy_tuning_text(const gantry_copy_tuning *tuning, char *text, size_t room);

GANTRY_END_DECLS

#endif
