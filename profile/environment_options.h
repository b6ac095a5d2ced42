/* SPDX-License-Identifier: MIT */
/* $GANTRY_PROFILE_OPTIONS: the options of a recording that $GANTRY_PROFILE begins. */
#ifndef PROFILE_ENVIRONMENT_OPTIONS_H
#define PROFILE_ENVIRONMENT_OPTIONS_H

#include <gantry/profile.h>

/* Set in *options what `text` says: KEY=VALUE with commas between them; NULL says nothing.  An error names
 * the part that makes no sense, and *options is unspecified then. */
GANTRY_MUST_CHECK gantry_status gy_profile_parse_options(const char *text, gantry_profile_options *options);

#endif
