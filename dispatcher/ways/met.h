/* Launch functions that the process has met: a call of each has returned that left enqueueing to the library.
 *
 * The first call of a function may do what later ones do not: make handles of libraries, allocate.  So the
 * auto mode makes it on the plain stream, where all of that is permitted, and what follows may be noted.
 * That a function was met is known in all contexts.
 *
 * Any thread; nothing is ever taken out.  Where there is no room for a function it is met again. */
#ifndef DISPATCHER_WAYS_MET_H
#define DISPATCHER_WAYS_MET_H

#include <gantry/dispatcher.h>

#define GY_MET_MOST 1024u

void gy_met_add(gantry_launch_fn function);
bool gy_met_has(gantry_launch_fn function);

#endif
