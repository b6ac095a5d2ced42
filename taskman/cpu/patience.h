/* How long a thread looks for what it waits for before it sleeps: about twice as long as that lately took to
 * come, since waking up takes tens of microseconds; but never longer than it may waste. */
#ifndef TASKMAN_CPU_PATIENCE_H
#define TASKMAN_CPU_PATIENCE_H

#include <stdint.h>

enum {
    GY_PATIENCE_LEAST_NS = 20000,   /* less than falling asleep and waking up takes */
    GY_PATIENCE_HYBRID_NS = 200000, /* what looking in vain costs at most, once per pause: hybrid */
    GY_PATIENCE_MOST_NS = 2000000,  /* the same: adaptive */
};

/* The thread had nothing to do for `idle_ns`, asleep or not, and may waste `most_ns`.  A pause that could
 * have been bridged raises the patience at once and lowers it slowly; one that could not halves it. */
static inline uint64_t gy_patience_after(uint64_t patience_ns, uint64_t idle_ns, uint64_t most_ns)
{
    uint64_t next = patience_ns / 2;
    if (idle_ns <= most_ns) {
        uint64_t wanted = 2 * idle_ns;
        next = wanted >= patience_ns ? wanted : patience_ns - (patience_ns - wanted) / 8;
    }
    return next < GY_PATIENCE_LEAST_NS ? GY_PATIENCE_LEAST_NS : next > most_ns ? most_ns : next;
}

#endif
