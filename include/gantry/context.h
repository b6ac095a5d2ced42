/* SPDX-License-Identifier: MIT */
/**
 * @file context.h
 * A gantry_context: one CUDA context on one device with its heap and its dispatcher.
 *
 * Threading: create and destroy from any thread, not from a task; queries from any thread.
 */
#ifndef GANTRY_CONTEXT_H
#define GANTRY_CONTEXT_H

#include <gantry/base.h>
#include <gantry/dispatcher.h>
#include <gantry/heap.h>
#include <gantry/partition.h>
#include <gantry/taskman.h>

GANTRY_BEGIN_DECLS

/** Which CUDA driver a context uses. */
typedef enum gantry_driver_choice {
    GANTRY_DRIVER_AUTO = 0,     /* $GANTRY_DRIVER if set, else CUDA if a device is found, else emulated */
    GANTRY_DRIVER_CUDA = 1,     /* libcuda.so.1 */
    GANTRY_DRIVER_EMULATED = 2, /* libgantry-emu.so */
} gantry_driver_choice;

/** Whose CUDA context a gantry_context uses. */
typedef enum gantry_context_mode {
    GANTRY_CONTEXT_PRIMARY = 0, /* retain the device's primary context (shared with the CUDA runtime) */
    GANTRY_CONTEXT_OWN = 1,     /* create a context, destroyed with the gantry_context */
    GANTRY_CONTEXT_ADOPT = 2,   /* use `adopted`, never destroyed */
} gantry_context_mode;

/** What happens when a task must come after work on another stream. */
typedef enum gantry_wfi_mode {
    GANTRY_WFI_PRECISE = 0,     /* its stream waits for just that work */
    GANTRY_WFI_DEVICE_WIDE = 1, /* a sync point: everything launched later comes after everything launched
                                 * before (the original's way: fewer events where joins are dense) */
} gantry_wfi_mode;

/** How gantry_context_create() makes a context. */
typedef struct gantry_context_options {
    size_t struct_size;
    gantry_driver_choice driver; /* which CUDA driver */
    gantry_context_mode mode;    /* whose CUDA context */
    void *adopted;               /* CUcontext, with GANTRY_CONTEXT_ADOPT */
    const char *device;    /* ordinal ("1"), UUID ("GPU-…") or "best"; NULL: $GANTRY_DEVICE, else "0" */
    uint32_t stream_limit; /* streams the dispatcher may create; 0: 32; at most 64 */
    gantry_wait_mode completion_wait; /* how the dispatcher's two threads wait: for tasks, and for the GPU */
    const gantry_heap_options *heap;  /* NULL: defaults */
    gantry_submission submission;     /* how GPU work reaches the device */
    gantry_wfi_mode wfi;              /* how streams wait for each other */
    uint32_t synchronous;   /* 1: wait for the GPU after every call of a launch callback, so that an error
                             * names the task that caused it; also with GANTRY_SYNC=1 */
    uint32_t single_stream; /* 1: see gantry_dispatcher_set_concurrent_streams() */
    const gantry_partition_options *partitions; /* a plan to carry out (partition.h); NULL: one partition that
                                                 * is the whole device */
    uint32_t abort_on_out_of_memory;            /* 1: see gantry_context_is_aborted() */
    uint64_t calibrate_copies; /* bytes for gantry_copy_calibrate() when the context is created; 0: the table
                                * that is built in (copy.h) */
    const char *retired_quota_controller; /* NULL; anything else is refused: $CUDA_DEVICE_SM_LIMIT is kept by
                                           * shares (docs/decisions/0059) */
    uint32_t retired_launch_threads;      /* 0; anything else is refused: the dispatcher's thread, or one that
                                           * waits in its place, calls all callbacks (docs/decisions/0059) */
    uint32_t reserved;                    /* 0 */
} gantry_context_options;
#define GANTRY_CONTEXT_OPTIONS_INIT                                                                     \
    {                                                                                                   \
        sizeof(gantry_context_options), GANTRY_DRIVER_AUTO, GANTRY_CONTEXT_PRIMARY, NULL, NULL, 0,      \
            GANTRY_WAIT_DEFAULT, NULL, GANTRY_SUBMISSION_DEFAULT, GANTRY_WFI_PRECISE, 0, 0, NULL, 0, 0, \
            NULL, 0, 0                                                                                  \
    }

/** Load the driver, open the device, start the dispatcher's two threads.  `options` NULL: defaults.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL, an unknown choice, ADOPT without a context
 *  @retval GANTRY_ERR_NO_DRIVER         the driver library asked for cannot be loaded, or lacks a
 *                                       function (named)
 *  @retval GANTRY_ERR_NO_DEVICE         no device, or no such ordinal
 *  @retval GANTRY_ERR_UNSUPPORTED       a retired field is set; a plan without green contexts, or for a
 *                                       context of its own
 *  @retval GANTRY_ERR_IO                $GANTRY_CONFIG names a file that cannot be read
 *  @retval GANTRY_ERR_DRIVER, GANTRY_ERR_OUT_OF_HOST_MEMORY */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_context_create(const gantry_context_options *options,
                                                                 gantry_context **out);

/** Wait for the GPU, stop the dispatcher, free the heap (leaks are logged), unload modules, give the CUDA
 * context back.  Task managers that use the context may be left, even running: then it counts as lost from
 * now on, what is queued or comes later is released as FAILED, steps end and are refused, and all is freed
 * when the last of those managers is destroyed.  NULL is ignored.  Not from a task or another callback of the
 * library, as gantry_taskman_destroy(). */
GANTRY_API void gantry_context_destroy(gantry_context *context);

/** The dispatcher of the context, for gantry_taskman_options.gpu_dispatcher.  It lives as long as the
 * context.  Any thread. */
GANTRY_API gantry_dispatcher *gantry_context_dispatcher(gantry_context *context);
/** The heap of the context.  It lives as long as the context.  Any thread. */
GANTRY_API gantry_heap *gantry_context_heap(gantry_context *context);
/** The CUcontext. */
GANTRY_API void *gantry_context_native(gantry_context *context);
/** False once the context is lost: only destroying it and creating a new one helps. */
GANTRY_API bool gantry_context_is_valid(const gantry_context *context);

/** In a context with `abort_on_out_of_memory`: true from the moment when an allocation of device, page-locked
 * or write-combined memory has failed for want of memory (after everything that could be freed was) until
 *  gantry_context_clear_abort().  Meanwhile steps are refused, GPU tasks that were not launched yet are
 * released as FAILED, and launch-scope functions do nothing: all with GANTRY_ERR_OUT_OF_DEVICE_MEMORY and the
 * first cause.  What was launched goes on, completions come, memory can be freed, by gantry_free_after(),
 * too. */
GANTRY_API bool gantry_context_is_aborted(const gantry_context *context);
/** Launch again.  NULL is ignored. */
GANTRY_API void gantry_context_clear_abort(gantry_context *context);

/** Make the CUDA context current on the calling thread until the matching release; nests, counted per
 *  thread.  For calls of the application's own into CUDA.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_DRIVER, GANTRY_ERR_DEVICE_LOST */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_context_acquire(gantry_context *context);
/** End what gantry_context_acquire() began; on the same thread.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_STATE  not acquired by this thread
 *  @retval GANTRY_ERR_DRIVER */
GANTRY_API gantry_status gantry_context_release(gantry_context *context);

/** Wait until the GPU has done all work that was submitted to this context before the call: by launch
 *  callbacks, what is captured and not launched yet included (it is launched first), and by the application
 * on streams of its own.  That is the work of all partitions; of an adopted green context it is that one's.
 *  Tasks whose callbacks were not called yet are not waited for: after gantry_taskman_stop() or
 *  gantry_taskman_wait() there are none, and then all GPU work of the step is done when this returns.
 *
 *  Threading: any thread, several at once; also a CPU task, whose worker is blocked meanwhile.  Not a launch
 *  callback, nor while one waits for the calling thread.  Other threads may go on submitting work, which is
 * not waited for, but for what the driver has got before this begins to wait.  A stream of the context may
 * be under capture: what is captured is no work yet, and the capture stays whole.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL
 *  @retval GANTRY_ERR_STATE             called from a launch callback of this context
 *  @retval GANTRY_ERR_DRIVER            the driver refused
 *  @retval GANTRY_ERR_DEVICE_LOST       the context has failed: what was in flight may be done or not */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_context_synchronize(gantry_context *context);

/** What a device is, see gantry_context_device_info(). */
typedef struct gantry_device_info {
    size_t struct_size;                   /* in: sizeof of the caller */
    char name[128];                       /* as the driver calls the device */
    uint8_t uuid[16];                     /* the 16 bytes of its UUID */
    int ordinal;                          /* its number among the driver's devices, from 0 */
    int compute_major, compute_minor;     /* its compute capability: 9 and 0 for 9.0 */
    int driver_version;                   /* 13000 for CUDA 13.0 */
    uint32_t total_sms;                   /* multiprocessors; of a MIG instance, those it has */
    uint32_t clock_khz;                   /* highest clock of the SMs, kHz */
    uint32_t copy_engines;                /* copies by engines that can run at once */
    uint32_t max_threads_per_block;       /* threads that a block can have */
    uint32_t shared_bytes_per_block;      /* shared memory that a block can have without asking */
    uint64_t memory_bytes;                /* device memory, all of it */
    bool integrated;                      /* the device shares the host's memory */
    bool can_map_host_memory;             /* page-locked memory has a device address */
    bool emulated;                        /* the driver is the emulated one */
    bool drives_display;                  /* kernels may run for a limited time only */
    uint32_t memory_clock_khz;            /* highest clock of the device memory, kHz */
    uint32_t memory_bus_bits;             /* width of the memory bus */
    uint32_t l2_bytes;                    /* size of the L2 cache */
    uint32_t shared_bytes_per_sm;         /* shared memory of an SM */
    uint32_t most_shared_bytes_per_block; /* if a kernel asks for it; shared_bytes_per_block without */
    uint32_t threads_per_sm;              /* threads that an SM can hold */
    uint32_t reserved;
} gantry_device_info;

/** What was read from the device at creation; no driver call.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL or a struct_size too small */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_context_device_info(const gantry_context *context,
                                                                      gantry_device_info *info);

/** Free and total device memory as the driver tells now; other processes count.  Calls the driver, which may
 *  wait for the device: not for every step.  Either may be NULL.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  `context` NULL
 *  @retval GANTRY_ERR_DRIVER, GANTRY_ERR_DEVICE_LOST */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_context_memory(gantry_context *context,
                                                                 uint64_t *free_bytes, uint64_t *total_bytes);

/** Which device a program should take that has no preference: what $GANTRY_DEVICE says, else what "best"
 * stands for.  That is, among those that may be used: not one that drives a display or shares the host's
 * memory, if there is another; then the one with the most multiprocessors times clock; then with the most
 * memory.  Opens no context.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL, an unknown choice, or $GANTRY_DEVICE makes no sense
 *  @retval GANTRY_ERR_NO_DRIVER, GANTRY_ERR_NO_DEVICE, GANTRY_ERR_DRIVER, GANTRY_ERR_OUT_OF_HOST_MEMORY */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_suggest_device(gantry_driver_choice driver,
                                                                 int *out_ordinal);

GANTRY_END_DECLS

#endif
