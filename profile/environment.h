/* $GANTRY_PROFILE: a recording of any program, without a line of code in it. */
#ifndef PROFILE_ENVIRONMENT_H
#define PROFILE_ENVIRONMENT_H

/* A context is being made.  With $GANTRY_PROFILE set, and nothing recorded, a recording into that file
 * begins; one that cannot is logged and otherwise ignored.  Not with a lock held. */
void gy_profile_environment_enter(void);
/* It is gone; every enter() has one.  The last one ends that recording, or else the end of the process. */
void gy_profile_environment_leave(void);

#endif
