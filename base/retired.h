/* SPDX-License-Identifier: MIT */
/* Variables of the environment that the library reads no longer: who sets one is told what to do instead. */
#ifndef BASE_RETIRED_H
#define BASE_RETIRED_H

/* A context is being made.  The first call in the process tells which of them are set. */
void gy_retired_tell(void);

#endif
