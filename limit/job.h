/* SPDX-License-Identifier: MIT */
/* The job that this process belongs to, as the environment says: GANTRY_LIMIT_JOB names the region's file,
 * and GANTRY_LIMIT_SETTINGS has what a new region begins with.  Nothing is opened before the first launch. */
#ifndef LIMIT_JOB_H
#define LIMIT_JOB_H

#include "limit/region.h"

/* Is there a job, and has this process not been told that it runs without a limit? */
bool gy_job_is_limited(void);
/* Enter the region, once; NULL: the process runs without a limit, and `why` says what is wrong if it was
 * tried now. */
/* What the processes of all jobs share, once one has entered; NULL: it cannot be had, and each is alone. */
struct gy_region_place *gy_job_common(void);
struct gy_region_place *gy_job_enter(char why[GY_REGION_TEXT_BYTES]);
/* The process ends: give the slot back. */
void gy_job_leave(void);
/* In a forked child: the slot is the parent's. */
void gy_job_forget(void);
/* A line on stderr, for what is wrong.  Without the meter's lock: stderr may be a pipe that is full. */
void gy_job_tell(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool gy_job_is_verbose(void);

/* Read and write the settings as text, "share=300000 devices=65535 ..."; false: it is none. */
bool gy_job_parse(const char *text, struct gy_region_settings *out);
int gy_job_print(char *text, size_t room, const struct gy_region_settings *settings);

#endif
