/* SPDX-License-Identifier: MIT */
/* The names of ranges inside blocks by kernel and id, for the life of the process. */
#ifndef PROFILE_RANGE_NAMES_H
#define PROFILE_RANGE_NAMES_H

#include <stdint.h>

#define GY_RANGE_NAME_ROOM 24 /* for the name of a range that has none: "range 65535" */

/* Any thread.  The name of the range, which lives as long as the process, or what is put into `room` when it
 * has none. */
const char *gy_range_name(uint32_t kernel, uint32_t id, char room[GY_RANGE_NAME_ROOM]);

#endif
