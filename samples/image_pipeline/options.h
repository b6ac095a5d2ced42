/* SPDX-License-Identifier: MIT */
/* The command line of the image pipeline. */
#ifndef SAMPLES_IMAGE_PIPELINE_OPTIONS_H
#define SAMPLES_IMAGE_PIPELINE_OPTIONS_H

#include <gantry/gantry.h>

/* Strings belong to argv or are static. */
struct options {
    const char *input;      /* folder of PNG files */
    const char *output;     /* folder, created if missing */
    const char *device;     /* NULL: the library's default */
    const char *graph_file; /* NULL: no dump */
    gantry_driver_choice driver;
    uint32_t repeat;    /* how often every photo is processed */
    uint32_t workers;   /* threads for CPU tasks; 0: one per CPU */
    uint32_t in_flight; /* most photos in memory at a time */
    bool from_data;     /* the order comes from what tasks read and write */
    bool timeline;      /* write output/timeline.pftrace */
};

/* -1, or the exit status: cli_read_options(). */
int options_read(int argc, char **argv, struct options *out);

#endif
