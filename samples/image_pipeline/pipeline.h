/* SPDX-License-Identifier: MIT */
/* One photo's way through the machine, as tasks.
 *
 *                                    +-> edges ------------+
 *   decode -> upload -> luminance ---+                     +-> combine -> download -> encode
 *    (CPU)    (HtoD)                 +-> blur -> equalise -+              (DtoH)      (CPU)
 *                                         ^
 *                      blur weights ------+  (HtoD, once for all photos)
 *
 * The graph is complete before the first photo is read: the callbacks find the size in the pipeline,
 * where decode has put it.  Decode takes the photo's memory from the context's heap, and the end of the
 * encode task, whatever came of it, gives it back and lets another photo start. */
#ifndef SAMPLES_IMAGE_PIPELINE_PIPELINE_H
#define SAMPLES_IMAGE_PIPELINE_PIPELINE_H

#include <gantry/gantry.h>

#include "samples/image_pipeline/photos.h"
#include "samples/image_pipeline/progress.h"
#include "samples/image_pipeline/reference.h"

/* Weights of the blur: one for the middle and BLUR_RADIUS to either side. */
#define BLUR_RADIUS REFERENCE_BLUR_RADIUS
#define BLUR_WEIGHTS (2 * BLUR_RADIUS + 1)

enum kernel_id {
    KERNEL_LUMINANCE,
    KERNEL_BLUR_ROWS,
    KERNEL_BLUR_COLUMNS,
    KERNEL_SOBEL,
    KERNEL_HISTOGRAM,
    KERNEL_EQUALISE_LUT,
    KERNEL_APPLY_LUT,
    KERNEL_COMBINE,
    KERNEL_COUNT
};

/* The memory of one photo: two blocks, and what lies in them. */
enum memory_id { MEMORY_HOST, MEMORY_DEVICE, MEMORY_COUNT }; /* MEMORY_HOST is page-locked */
enum buffer_id {
    HOST_RGB, /* decoded into, copied from */
    HOST_EDGES,
    HOST_RESULT, /* copied to, encoded from */
    DEVICE_RGB,
    DEVICE_LUMA,
    DEVICE_BLURRED_ROWS, /* half way through the blur */
    DEVICE_BLURRED,
    DEVICE_EDGES,
    DEVICE_BINS,
    DEVICE_LUT,
    DEVICE_EQUALISED,
    DEVICE_RESULT,
    BUFFER_COUNT
};

/* What the photos of a run share.  Immutable while tasks run, unless it says otherwise. */
struct shared {
    gantry_heap *heap;
    gantry_kernel *kernels[KERNEL_COUNT];
    uint32_t first_profile_id; /* number of kernels[0] in recordings */
    float *host_weights;       /* page-locked */
    void *device_weights;
    atomic_bool untold; /* atomic: a photo failed by something else than its own tasks' bodies */
    bool from_data;     /* the order of tasks comes from what they read and write, and not from edges */
    bool keep_first;    /* there are later rounds to compare with the first */
    struct progress *progress;
    const atomic_bool *interrupted; /* atomic: do not begin another photo */
    atomic_uint_fast64_t pixels;    /* atomic: of photos that were decoded */
    atomic_uint_fast64_t decode_ns; /* atomic: time in decode tasks, all together */
    atomic_uint_fast64_t encode_ns; /* atomic */
    atomic_uint_fast64_t verified;  /* atomic: photos found equal to the first round's */
};

struct pipeline {
    struct shared *shared;
    struct photo *photo;
    uint64_t number; /* shown in the timeline */
    bool first_round;
    gantry_task *decode;
    gantry_task *encode;
    /* Decode task of a later pipeline that holds a reference which this one's end removes; NULL: none. */
    gantry_task *next;
    /* Below: each written by the task that says so, read by those that depend on it. */
    uint32_t width, height; /* decode */
    bool idle;              /* decode: not to be processed after all; the other tasks do nothing */
    bool on_device;         /* upload: the device may be using the buffers */
    void *memory[MEMORY_COUNT];
    void *buffers[BUFFER_COUNT]; /* in `memory` */
};

/* Submit the tasks of one photo and their dependencies.  `weights` is the task that uploads the blur's
 * weights, and with an order from data writes `device_weights`, which stands for them. */
GANTRY_MUST_CHECK gantry_status pipeline_submit(struct pipeline *pipeline, gantry_taskman *manager,
                                                gantry_task *weights);

/* What a photo of so many pixels takes. */
size_t pipeline_bytes(enum memory_id memory, uint64_t pixels);

/* Give back what memory the pipeline still has; no task uses it any more. */
void pipeline_free_buffers(struct pipeline *pipeline);

/* Tell why the photo cannot be processed, once per photo. */
void pipeline_report_failure(struct pipeline *pipeline, const char *format, ...) GANTRY_PRINTF(2, 3);

#endif
