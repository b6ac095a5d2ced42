/* SPDX-License-Identifier: MIT */
/* $GANTRY_PROFILE records any program, without a line of code in it. */
#ifndef PROFILE_ENVIRONMENT_H
#define PROFILE_ENVIRONMENT_H

/* A context is being made.  If $GANTRY_PROFILE is set and nothing is being recorded, a recording into that
 * file begins.  A recording that cannot begin is logged and otherwise ignored.  Not to be called with a lock
 * held. */
void gy_profile_environment_enter(void);
/* The context is gone; there is one call for every enter().  The last call ends the recording, or else the
 * end of the process does. */
void gy_profile_environment_leave(void);

#endif
