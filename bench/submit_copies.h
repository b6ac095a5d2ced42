/* SPDX-License-Identifier: MIT */
/* The row done-copies-1000 of `gantry bench submit`: pipelines of kernels between a copy to the device and
 * one back, and a CPU task behind each. */
#ifndef BENCH_SUBMIT_COPIES_H
#define BENCH_SUBMIT_COPIES_H

#include "bench/submit_work.h"

/* The work is open, with workers, and its context in streams mode, as it is afterwards.  False: something has
 * failed, or was wrong. */
bool bench_submit_copies(struct submit_work *work, const struct bench_options *options, const char *name,
                         uint32_t kernels);

#endif
