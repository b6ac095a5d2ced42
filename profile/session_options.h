/* SPDX-License-Identifier: MIT */
/* The options of a recording: they are checked, and defaults are filled in. */
#ifndef PROFILE_SESSION_OPTIONS_H
#define PROFILE_SESSION_OPTIONS_H

#include <gantry/profile.h>

/* `out` is the caller's place for the recording, which must not be NULL either. */
gantry_status gy_session_import_options(gantry_profile_options *ours, const gantry_profile_options *theirs,
                                        gantry_profile **out);

#endif
