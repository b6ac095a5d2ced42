/* SPDX-License-Identifier: MIT */
/**
 * @file interop.h
 * Frames shared with Vulkan (or with OpenGL, by the same memory), without a header of either.
 *
 * Vulkan allocates and exports memory; gantry_shared_memory_import() makes it device memory of a context.  An
 * exchange hands such memory back and forth, once per step: its task `acquire` holds what depends on it until
 * the renderer has reached a value of a timeline, its task `release` tells the renderer by another value when
 * the GPU has done all that `release` comes after.  docs/guides/frames.md has a whole example.
 */
#ifndef GANTRY_INTEROP_H
#define GANTRY_INTEROP_H

#include <gantry/context.h>
#include <gantry/taskman.h>

GANTRY_BEGIN_DECLS

/** Memory of another API (Vulkan), mapped into the device. */
typedef struct gantry_shared_memory gantry_shared_memory;
/** The steps that a renderer and the GPU take in turns. */
typedef struct gantry_exchange gantry_exchange;

/** What a file descriptor of exported memory is. */
typedef enum gantry_shared_handle {
    GANTRY_SHARED_OPAQUE_FD = 0, /* VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT */
    GANTRY_SHARED_DMABUF = 1,    /* VK_EXTERNAL_MEMORY_HANDLE_TYPE_DMA_BUF_BIT_EXT; drivers since CUDA 13.0 */
} gantry_shared_handle;

/** Which memory gantry_shared_memory_import() takes. */
typedef struct gantry_shared_memory_options {
    size_t struct_size;
    gantry_shared_handle kind; /* what `fd` is */
    int fd;         /* of vkGetMemoryFdKHR() or a like call; the library's once the import has succeeded */
    uint64_t bytes; /* of the whole VkDeviceMemory: its allocationSize.  A driver takes a size above the true
                     * one without complaint, and nothing tells later: say what was allocated */
    uint32_t dedicated;      /* 1: allocated with VkMemoryDedicatedAllocateInfo */
    uint32_t reserved;       /* 0 */
    uint8_t device_uuid[16]; /* VkPhysicalDeviceIDProperties.deviceUUID; 16 zeros: not compared */
    const char *label;       /* for messages; NULL: "shared memory".  Copied, at most 63 characters */
} gantry_shared_memory_options;
#define GANTRY_SHARED_MEMORY_OPTIONS_INIT                                                     \
    {                                                                                         \
        sizeof(gantry_shared_memory_options), GANTRY_SHARED_OPAQUE_FD, -1, 0, 0, 0, {0}, NULL \
    }

/** Import memory that another API has allocated on this device and exported.  The descriptor belongs to the
 *  library when the call succeeds, and stays the caller's when it fails.  The memory lives on when Vulkan
 *  frees its own handle.  The emulated driver takes what a software Vulkan driver (lavapipe) exports, and any
 *  other memory file; it does not compare the device.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL, a struct_size too small, an unknown kind, no bytes, a label too
 *                                       long, a descriptor that is not open or no exported memory (the
 *                                       message says what it is), a file that is smaller than `bytes`,
 *                                       memory of another device
 *  @retval GANTRY_ERR_UNSUPPORTED       the driver cannot import memory, or none of this kind
 *  @retval GANTRY_ERR_DRIVER            the driver refused it
 *  @retval GANTRY_ERR_DEVICE_LOST, GANTRY_ERR_OUT_OF_HOST_MEMORY, GANTRY_ERR_OUT_OF_DEVICE_MEMORY */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_shared_memory_import(
    gantry_context *context, const gantry_shared_memory_options *options, gantry_shared_memory **out);

/** The device address of `bytes` bytes from `offset` on, as a buffer: that of vkBindBufferMemory(), or of an
 *  image with linear tiling.  Good until gantry_shared_memory_destroy(), for kernels, copies and fills like
 *  memory of the heap; it does not belong to the heap.  May be called several times.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL, an offset that is no multiple of 256, no bytes, or an end
 * behind that of the memory
 *  @retval GANTRY_ERR_DRIVER, GANTRY_ERR_DEVICE_LOST, GANTRY_ERR_OUT_OF_HOST_MEMORY */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_shared_memory_map(gantry_shared_memory *memory,
                                                                    uint64_t offset, uint64_t bytes,
                                                                    void **out);

/** What a channel of an image's texels is. */
typedef enum gantry_image_format {
    GANTRY_IMAGE_U8 = 0,  /* 8 bits, also of UNORM and SRGB formats: bits are read and written as they are */
    GANTRY_IMAGE_U16 = 1, /* unsigned, 16 bits */
    GANTRY_IMAGE_U32 = 2, /* unsigned, 32 bits */
    GANTRY_IMAGE_S8 = 3,  /* signed, 8 bits */
    GANTRY_IMAGE_S16 = 4, /* signed, 16 bits */
    GANTRY_IMAGE_S32 = 5, /* signed, 32 bits */
    GANTRY_IMAGE_F16 = 6, /* floating point, 16 bits */
    GANTRY_IMAGE_F32 = 7, /* floating point, 32 bits */
} gantry_image_format;

/** An image in shared memory: gantry_shared_memory_map_image(). */
typedef struct gantry_shared_image gantry_shared_image;

/** Which image gantry_shared_memory_map_image() maps. */
typedef struct gantry_shared_image_options {
    size_t struct_size;
    uint64_t offset;            /* of vkBindImageMemory(), in bytes; a multiple of 256 */
    uint32_t width, height;     /* in texels */
    uint32_t channels;          /* of a texel: 1, 2 or 4 */
    gantry_image_format format; /* of each channel */
    uint32_t is_attachment;     /* 1: made with VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT */
    uint32_t reserved;          /* 0 */
} gantry_shared_image_options;
#define GANTRY_SHARED_IMAGE_OPTIONS_INIT                                       \
    {                                                                          \
        sizeof(gantry_shared_image_options), 0, 0, 0, 4, GANTRY_IMAGE_U8, 0, 0 \
    }

/** Map a two-dimensional image of one mip level, with whatever tiling (VK_IMAGE_TILING_OPTIMAL), as a CUDA
 *  array.  Kernels read and write it by its surface, callbacks copy from and to it.  Good until
 *  gantry_shared_memory_destroy().  The renderer brings the image into VK_IMAGE_LAYOUT_GENERAL before it
 * hands it over.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL, a struct_size too small, an offset that is no multiple of 256,
 * no texels, a number of channels that is none of 1, 2 and 4, an unknown format, more texels than the memory
 * has room for
 *  @retval GANTRY_ERR_UNSUPPORTED       the driver cannot map images
 *  @retval GANTRY_ERR_DRIVER, GANTRY_ERR_DEVICE_LOST, GANTRY_ERR_OUT_OF_HOST_MEMORY,
 *          GANTRY_ERR_OUT_OF_DEVICE_MEMORY */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_shared_memory_map_image(
    gantry_shared_memory *memory, const gantry_shared_image_options *options, gantry_shared_image **out);

/** The image as kernels take it: a gantry_surface of <gantry/kernel/surface.h>, which is a CUsurfObject.  0
 * where the handle is not good.  Any thread. */
GANTRY_API uint64_t gantry_shared_image_surface(const gantry_shared_image *image);
/** The image as a CUarray, for calls of CUDA's driver API (textures, for instance).  It belongs to the
 * library. NULL where the handle is not good.  Any thread. */
GANTRY_API void *gantry_shared_image_native(const gantry_shared_image *image);

/** A part of an image, in texels. */
typedef struct gantry_image_box {
    size_t struct_size;
    uint32_t x;      /* the first column */
    uint32_t y;      /* the first row */
    uint32_t width;  /* columns; not 0 */
    uint32_t height; /* rows; not 0 */
} gantry_image_box;
#define GANTRY_IMAGE_BOX_INIT                \
    {                                        \
        sizeof(gantry_image_box), 0, 0, 0, 0 \
    }

/** Inside a launch callback: copy a part of an image to linear memory, on the task's stream.
 *  @param to     device or page-locked memory, `box->height` rows
 *  @param pitch  bytes from one row of it to the next; 0: the rows lie close together
 *  @param box    NULL: the whole image
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL, an image of another context, a box that is empty, not within
 * the image or of a struct_size too small, a pitch that is smaller than a row, memory that is too small
 *  @retval GANTRY_ERR_STATE             not in a launch callback
 *  @retval GANTRY_ERR_DRIVER, GANTRY_ERR_DEVICE_LOST */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_launch_copy_from_image(gantry_launch *launch, void *to,
                                                                         size_t pitch,
                                                                         const gantry_shared_image *from,
                                                                         const gantry_image_box *box);
/** Inside a launch callback: copy linear memory to a part of an image; as gantry_launch_copy_from_image(). */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_launch_copy_to_image(gantry_launch *launch,
                                                                       const gantry_shared_image *to,
                                                                       const gantry_image_box *box,
                                                                       const void *from, size_t pitch);

/** Wait until the GPU has done what was submitted to the context so far, then give the memory, its images and
 * its mappings back.  Steps that use it must have been stopped.  What is left when its context is destroyed
 * is given back then, and the handle is not good any more.  NULL is ignored.  Not from a launch callback:
 * that is logged, and the memory stays until the context is destroyed. */
GANTRY_API void gantry_shared_memory_destroy(gantry_shared_memory *memory);

/** Look at, or wait for, the renderer's timeline: GANTRY_OK as soon as it has reached `value`,
 *  GANTRY_ERR_TIMED_OUT when it has not after `timeout_ns` (0: only look), any other status of a failure when
 *  it never will.  vkWaitSemaphores() does that.  Called on threads of the library, also while callbacks of
 *  other exchanges run, never twice at once for one exchange. */
typedef gantry_status (*gantry_exchange_wait_fn)(void *user, uint64_t value, uint64_t timeout_ns);
/** Tell the renderer that the GPU is done: vkSignalSemaphore() with `value`.  Called on a thread of the
 *  library. */
typedef gantry_status (*gantry_exchange_signal_fn)(void *user, uint64_t value);

/** Who reads and writes the renderer's timelines. */
typedef enum gantry_exchange_way {
    GANTRY_EXCHANGE_HOST = 0,   /* the application's two functions: works with every Vulkan driver */
    GANTRY_EXCHANGE_DEVICE = 1, /* the GPU: two timeline semaphores that Vulkan has exported */
    GANTRY_EXCHANGE_AHEAD = 2,  /* likewise, and the step's GPU work is enqueued behind the wait */
} gantry_exchange_way;

/** How an exchange waits for the renderer and tells it. */
typedef struct gantry_exchange_options {
    size_t struct_size;
    gantry_exchange_wait_fn wait; /* looks at the renderer's timeline, or waits for it; unused on the device
                                   * way, as the next two */
    gantry_exchange_signal_fn signal; /* tells the renderer */
    void *user;                       /* handed to both */
    uint64_t timeout_ns;              /* how long a step waits for the renderer; 0: 1 s.  At most an hour */
    const char *label; /* for messages and recordings; NULL: "exchange".  Copied, at most 63 characters */
    gantry_exchange_way way; /* who waits and signals: the host, or the device */
    int wait_fd;       /* device way: of vkGetSemaphoreFdKHR(), the timeline that the renderer signals */
    int signal_fd;     /* and the one that the GPU signals; both the library's once the call has succeeded */
    uint32_t reserved; /* 0 */
} gantry_exchange_options;
#define GANTRY_EXCHANGE_OPTIONS_INIT                                                                \
    {                                                                                               \
        sizeof(gantry_exchange_options), NULL, NULL, NULL, 0, NULL, GANTRY_EXCHANGE_HOST, -1, -1, 0 \
    }

/** An exchange with a renderer.  It has a thread, which sleeps unless a step waits for the renderer.
 *
 *  On the host way the application's two functions read and write the renderer's timelines.  On the device
 * way the GPU does: a stream of the exchange's own waits, and nothing is enqueued behind that wait, so that
 * an unsatisfied one delays no work and a renderer that never comes makes no bad frame; `release` signals
 * behind the GPU work.
 *
 *  GANTRY_EXCHANGE_AHEAD is the device way with the step's GPU work behind the wait, which starts without the
 * host then.  The manager gets streams that no other manager gets, so an unsatisfied wait delays no other
 * manager's work; `release` signals only after the host has seen that the renderer came, so a renderer that
 * never comes is shown no bad frame, although the step's kernels run on one.  Where that cannot be had, it is
 * as on the device way: in a context with partitions or with shares of GPU time, for a manager of a fleet or
 * with independent steps, and when the context's streams are used up (gantry_context_options.stream_limit).
 *
 *   The semaphores are of VK_SEMAPHORE_TYPE_TIMELINE and exported as
 *  VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT, on the context's device; no two exchanges share one.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT    NULL, a struct_size too small, a function is NULL, a time-out above
 *                                         an hour, a label too long, an unknown way, a descriptor that is not
 *                                         open or no semaphore
 *  @retval GANTRY_ERR_UNSUPPORTED         device way: the driver cannot import timeline semaphores, or the
 *                                         context was adopted and is a green one
 *  @retval GANTRY_ERR_DRIVER              the driver refused a semaphore
 *  @retval GANTRY_ERR_DEVICE_LOST, GANTRY_ERR_OUT_OF_HOST_MEMORY, GANTRY_ERR_OUT_OF_DEVICE_MEMORY */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_exchange_create(gantry_context *context,
                                                                  const gantry_exchange_options *options,
                                                                  gantry_exchange **out);

/** Submit the tasks of the exchange to `manager`, which is being built: for every step of a frozen graph
 * once, else for each step anew.  Make what touches the shared memory first start after `acquire`, and
 * `release` (a GPU task of flavour DtoH) start after what touches it last.  `acquire` is a sync point, and on
 * the way AHEAD a GPU task of flavour HtoD: a CPU task that touches the memory comes after the GPU work it
 * needs by gantry_task_start_after_done(), as behind any GPU task.  An exchange has the
 * tasks of one manager at a time.  A part of a frozen graph that is started with gantry_taskman_start_from()
 * has an exchange only when its task `acquire` was reached through the task in front of it: start such graphs
 * whole.
 *
 *  Two frames in flight are two managers with an exchange each.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT    NULL
 *  @retval GANTRY_ERR_STATE               the manager is not being built, a step of the exchange is under
 * way, or the exchange is lost
 *  @retval GANTRY_ERR_UNSUPPORTED         the manager has no GPU dispatcher
 *  @retval GANTRY_ERR_OUT_OF_HOST_MEMORY  what was submitted of the tasks stays and fails in the next step */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_exchange_tasks(gantry_exchange *exchange,
                                                                 gantry_taskman *manager,
                                                                 gantry_task **out_acquire,
                                                                 gantry_task **out_release);

/** Before each step: `acquire` waits until the renderer's timeline has reached `wait_value`, and
 * `signal_value` tells the renderer that `release` is done.  Both rise from step to step.  A step without
 * such a call fails with GANTRY_ERR_STATE.
 *
 *  What ends otherwise: where the renderer does not come in time, `acquire` fails with GANTRY_ERR_TIMED_OUT
 * and the exchange is lost: no more steps.  On the device way the library then signals the awaited value
 * itself, since a wait that is enqueued cannot be taken back; a step that is cancelled while it waits loses
 * the exchange for the same reason.  AHEAD, the step's run is cancelled before that: tasks that were launched
 * already run and keep their result, what comes after them does not start, `release` fails, and so does the
 * step.  A step that fails or is cancelled signals nothing; the renderer
 *  hears of it from the application, which has the step's status.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL, or a value that is not above that of the step before
 *  @retval GANTRY_ERR_STATE             the values of the last call were not used yet, or the exchange is
 * lost; gantry_last_error() says why */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_exchange_next(gantry_exchange *exchange,
                                                                uint64_t wait_value, uint64_t signal_value);

/** The exchange was lost: a wait failed or took too long, or the context is gone. */
GANTRY_API bool gantry_exchange_is_lost(gantry_exchange *exchange);

/** What an exchange has done, see gantry_exchange_get_stats(). */
typedef struct gantry_exchange_stats {
    size_t struct_size;  /* in: sizeof of the caller */
    uint64_t steps;      /* that have begun */
    uint64_t at_once;    /* of those, the renderer had reached the value already */
    uint64_t signalled;  /* of those, the renderer was told */
    uint64_t waited_ns;  /* by the others, in all */
    uint64_t longest_ns; /* of one */
    uint64_t acquire_ns; /* host time of the calls that enqueue or look, in all */
    uint64_t release_ns; /* host time of the calls that signal, in all */
} gantry_exchange_stats;

/** What an exchange has done so far.  Any thread.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL or a struct_size too small */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_exchange_get_stats(gantry_exchange *exchange,
                                                                     gantry_exchange_stats *stats);

/** A step that waits for the renderer fails with GANTRY_ERR_CLOSED; its other tasks may still run. Afterwards
 *  no step of its manager may be started that has its tasks.  May come before or after the context's end.
 *  NULL is ignored.  Not from a task or another callback of the library. */
GANTRY_API void gantry_exchange_destroy(gantry_exchange *exchange);

GANTRY_END_DECLS

#endif
