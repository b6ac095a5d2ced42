/* SPDX-License-Identifier: MIT */
/* The doors by which a program finds the driver's functions.  Three are watched together: exported names,
 * dlsym() and dlvsym() with any handle, and cuGetProcAddress(), which hands itself out as well.  A function
 * is known by its address: whatever name, version and flags were asked for, the driver's own answer says
 * which form is meant.  What is not known passes through. */
#ifndef LIMIT_DOORS_H
#define LIMIT_DOORS_H

#include "limit/real.h"

/* What a program gets in place of a driver's function: ours, or the function itself. */
void *gy_door_wrap(void *function);

/* The driver's function of a watched name, for the exported one, which knows its type; NULL: there is none.
 */
typedef void (*gy_door_function)(void);
gy_door_function gy_door_real(enum gy_limit_name name);

#endif
