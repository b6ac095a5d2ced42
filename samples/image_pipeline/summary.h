/* SPDX-License-Identifier: MIT */
/* What happened, for people. */
#ifndef SAMPLES_IMAGE_PIPELINE_SUMMARY_H
#define SAMPLES_IMAGE_PIPELINE_SUMMARY_H

#include "samples/image_pipeline/run.h"

/* Print on stdout what a finished run did, how long it took and where its results are. */
void summary_print(const struct run *run);

#endif
