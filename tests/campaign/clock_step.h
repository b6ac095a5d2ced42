/* SPDX-License-Identifier: MIT */
/* The process's clock, which can be made to step: this program's own clock_gettime() comes before the C
 * library's, also for the emulated driver. */
#ifndef TESTS_CAMPAIGN_CLOCK_STEP_H
#define TESTS_CAMPAIGN_CLOCK_STEP_H

#include <stdint.h>

/* From the nth reading (1: the next one) of CLOCK_MONOTONIC on, `step_ns` is added; 0: never. */
void clock_step_arm(uint64_t nth, int64_t step_ns);
/* Readings of CLOCK_MONOTONIC since the last arm. */
uint64_t clock_step_readings(void);

#endif
