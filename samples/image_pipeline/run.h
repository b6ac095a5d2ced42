/* SPDX-License-Identifier: MIT */
/* All photos as one graph, run on one device. */
#ifndef SAMPLES_IMAGE_PIPELINE_RUN_H
#define SAMPLES_IMAGE_PIPELINE_RUN_H

#include <gantry/gantry.h>

#include "samples/image_pipeline/options.h"
#include "samples/image_pipeline/pipeline.h"

struct run {
    const struct options *options;
    struct photo_list *photos;
    gantry_context *context;
    gantry_cpu_dispatcher *workers;
    gantry_taskman *manager;
    gantry_profile *profile; /* NULL: no timeline, or written already */
    struct shared shared;
    struct progress progress;
    struct pipeline *pipelines; /* `repeat` rounds over the photos */
    size_t pipeline_count;
    gantry_profile_stats profile_stats;
    uint64_t wall_ns; /* from start to stop of the task manager */
    char *timeline;   /* path; NULL: none */
    int exit_status;  /* of the sample, where run_open() fails */
};

/* Open the device, build the graph.  `interrupted` says when to begin no more photos.  What is wrong has
 * been told on stderr when this is false; run_close() in any case. */
bool run_open(struct run *run, const struct options *options, struct photo_list *photos,
              const atomic_bool *interrupted);

/* Run the graph to its end.  False when something other than a photo went wrong, which has been told. */
bool run_graph(struct run *run);

void run_close(struct run *run);

#endif
