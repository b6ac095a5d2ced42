/* SPDX-License-Identifier: MIT */
/* Foresight: when to look for the end of something that takes about as long as it did lately.
 *
 * A thread that looks all the time is there at once and burns its core; one that sleeps until it is woken is
 * told tens of microseconds late, on a virtual machine hundreds.  So a thread sleeps until shortly before the
 * time at which the end is expected, and looks from then on:
 *
 *   begin                        from                  usual end              until
 *     |---- asleep ------- nap ---|---- looks ------------|------ looks -------|--- asleep, until woken ---
 *                      ^      ^
 *                      the thread sets its alarm earlier, by how late it woke up lately
 *
 * Three parts, each of which is arithmetic on what it is given: none reads a clock, sleeps, or has a lock.
 *
 * - A foresight learns how long something takes, and by how much that differs.  What it learns from is an
 *   interval: the end was not there at one look, and was at the next.  A thread that slept in between was
 *   late and does not know by how much; the foresight then takes what lies nearest to what it expected, so
 *   that being late once does not move the expectation, and with it the next look, to a later time.  If the
 *   end had passed before the first look of a lookout, or did behind the last one, the next one is at least
 *   twice as wide.  Two times in a row that are alike, and far from the usual one, are the new usual one.
 * - A lookout is the time in which a thread looks.  Where the spread is small (GY_FORESIGHT_CLOSE), it looks
 *   without a break; the time costs at most what the wait mode may waste, or a quarter of the time expected.
 *   Where it is large (GY_FORESIGHT_ROUGH), it naps between two looks, a 64th of the time expected and 25 us
 *   at least: a look and a nap's end cost about a quarter of that.  So there are at most 128 naps.  Where
 *   they would be longer than 200 us there is no lookout, since an interrupt comes sooner.
 * - An oversleep knows how much later than its alarm a thread wakes up, by how long it slept: about what one
 *   sleep of ten exceeds.  Long sleeps end later than short ones, so a thread that is early sleeps once more,
 *   for less, and needs less of a lead.
 *
 * docs/design/threading.md says who uses them. */
#ifndef BASE_FORESIGHT_H
#define BASE_FORESIGHT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* gy_foresight_learn() is the only writer.
 *
 *   NOTHING --> ONCE --> ROUGH <--> CLOSE */
enum gy_foresight_state {
    GY_FORESIGHT_NOTHING, /* nothing was seen yet */
    GY_FORESIGHT_ONCE,    /* how much it varies is a guess; as ROUGH otherwise */
    GY_FORESIGHT_ROUGH,   /* it varies too much to look for it without a break */
    GY_FORESIGHT_CLOSE,
};

struct gy_foresight { /* guarded by its owner; zeroed: NOTHING */
    enum gy_foresight_state state;
    uint64_t usual_ns; /* how long it takes */
    uint64_t error_ns; /* by how much it differs from that */
    uint64_t last_ns;  /* how long it took the last time */
};

/* All 0: there is none. */
struct gy_lookout {
    uint64_t from_ns, until_ns; /* times of gy_clock_ns() */
    uint64_t nap_ns;            /* between two looks; 0: no nap */
};

enum { GY_OVERSLEEP_CLASSES = 4 };

struct gy_oversleep {
    /* atomic; by how long a thread slept: less than 128 us, 512 us, 2 ms, or longer */
    _Atomic(uint64_t) late_ns[GY_OVERSLEEP_CLASSES];
};

bool gy_foresight_is_valid(const struct gy_foresight *foresight);

/* It took between `least_ns` and `most_ns`.  `may_waste_ns`: for so long a thread may look without a break,
 * if that is more than a quarter of the usual time.  Returns how long it probably took. */
uint64_t gy_foresight_learn(struct gy_foresight *foresight, uint64_t least_ns, uint64_t most_ns,
                            uint64_t may_waste_ns);

/* When to look for the end of what has begun at `since_ns`. */
struct gy_lookout gy_foresight_lookout(const struct gy_foresight *foresight, uint64_t since_ns);

static inline bool gy_lookout_is_over(const struct gy_lookout *lookout, uint64_t now_ns)
{
    return now_ns >= lookout->until_ns;
}

/* What a thread that has just looked does next: 0: it looks again at once; UINT64_MAX: it sleeps until it is
 * woken; else it sleeps until then and asks again, or looks if the lookout has begun. */
uint64_t gy_lookout_next(const struct gy_lookout *lookout, const struct gy_oversleep *oversleep,
                         uint64_t now_ns);

void gy_oversleep_init(struct gy_oversleep *oversleep);

/* A thread set its alarm to `slept_ns` after it fell asleep, and woke up so much later.  Any thread. */
void gy_oversleep_learn(struct gy_oversleep *oversleep, uint64_t slept_ns, uint64_t late_ns);

#endif
