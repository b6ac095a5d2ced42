/* SPDX-License-Identifier: MIT */
/* The application's code, called on a thread that is inside of the library.
 *
 * A thread is inside while the library has made a CUDA context current on it, in a capture mode of its own
 * (driver/inside.c).  The application's code shall see none of that mode, and must not change what the
 * library finds afterwards.  So each call of such code, whatever it is, stands between gy_outside_begin()
 * and gy_outside_end(). */
#ifndef BASE_OUTSIDE_H
#define BASE_OUTSIDE_H

#include "base/hints.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* Where the thread is. */
enum gy_place {
    GY_OUTSIDE,   /* in the application's code, or the library has nothing of its own on the thread */
    GY_INSIDE,    /* in the library */
    GY_LINGERING, /* in either; the thread is set up as outside (driver/inside.h) */
};
extern _Thread_local unsigned char gy_place GY_TLS_HOT; /* of enum gy_place */

/* How a thread that is not outside goes there and comes back; driver/inside.c has it. */
struct gy_inside {
    void (*leave)(void);
    bool (*come_back)(void);        /* true: something else was left behind, which is told once */
    void (*tell)(const char *what); /* tell of it; `what` has done it */
};

/* Atomic; there before any thread is inside. */
extern const struct gy_inside *_Atomic gy_inside_ops;

/* The thread goes outside.  Returns what gy_outside_end() needs; NULL: it was there. */
static inline const struct gy_inside *gy_outside_begin(void)
{
    if (gy_place == GY_OUTSIDE) {
        return NULL;
    }
    const struct gy_inside *inside = atomic_load_explicit(&gy_inside_ops, memory_order_relaxed);
    inside->leave();
    return inside;
}

/* The code has returned.  True: it has left another CUDA context current, which was put right and is to be
 * told with its name by inside->tell(). */
static inline bool gy_outside_end(const struct gy_inside *inside)
{
    return inside != NULL && __builtin_expect(inside->come_back(), 0);
}

/* The same for code with a name that stands still. */
static inline void gy_outside_end_of(const struct gy_inside *inside, const char *what)
{
    if (gy_outside_end(inside)) {
        inside->tell(what);
    }
}

#endif
