/* SPDX-License-Identifier: MIT */
/* The launch callbacks of a pipeline's GPU tasks; `arg` is its struct pipeline. */
#ifndef SAMPLES_IMAGE_PIPELINE_GPU_STAGES_H
#define SAMPLES_IMAGE_PIPELINE_GPU_STAGES_H

#include <gantry/dispatcher.h>

gantry_launch_result launch_upload(gantry_launch *launch, void *arg);
gantry_launch_result launch_luminance(gantry_launch *launch, void *arg);
gantry_launch_result launch_edges(gantry_launch *launch, void *arg);
gantry_launch_result launch_blur(gantry_launch *launch, void *arg);
gantry_launch_result launch_equalise(gantry_launch *launch, void *arg);
gantry_launch_result launch_combine(gantry_launch *launch, void *arg);
gantry_launch_result launch_download(gantry_launch *launch, void *arg);

/* The task that uploads the blur's weights; `arg` is the struct shared. */
gantry_launch_result launch_weights(gantry_launch *launch, void *arg);

#endif
