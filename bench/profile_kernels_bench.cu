/* SPDX-License-Identifier: MIT */
/* The same work with and without the macros of a recording, each at eight places of the instruction cache's lines; and
 * messages between SMs. */
#include "bench/profile_work.h"

#define PLAIN(shift)                                                                                                   \
    GANTRY_KERNEL(plain_work_##shift, (uint32_t steps, const uint32_t *data, uint32_t *counters, uint32_t *sink))      \
    {                                                                                                                  \
        (void)data;                                                                                                    \
        finish(arithmetic(steps, shifted<shift>()), counters, sink);                                                   \
    }                                                                                                                  \
    GANTRY_KERNEL(plain_loads_##shift, (uint32_t steps, const uint32_t *data, uint32_t *counters, uint32_t *sink))     \
    {                                                                                                                  \
        finish(loads(steps, shifted<shift>(), data), counters, sink);                                                  \
    }

#define RECORDED(shift)                                                                                                \
    BENCH_RECORDED(recorded_work_##shift, arithmetic(steps, shifted<shift>()))                                         \
    BENCH_RECORDED(recorded_loads_##shift, loads(steps, shifted<shift>(), data))

BENCH_EIGHT(PLAIN)
BENCH_EIGHT(RECORDED)
/* The eight places once more, with loops that are eight multiplications and so a whole line longer. */
PLAIN(8)
PLAIN(9)
PLAIN(10)
PLAIN(11)
PLAIN(12)
PLAIN(13)
PLAIN(14)
PLAIN(15)

/* ---- SM to SM ---- */

static __device__ inline uint64_t read_mail(const uint64_t *box)
{
#if GANTRY_KERNEL_FORM_DEVICE
    return *(const volatile uint64_t *)box;
#else
    return __atomic_load_n(box, __ATOMIC_RELAXED);
#endif
}

static __device__ inline void write_mail(uint64_t *box, uint64_t time)
{
#if GANTRY_KERNEL_FORM_DEVICE
    *(volatile uint64_t *)box = time;
#else
    __atomic_store_n(box, time, __ATOMIC_RELAXED);
#endif
}

/* The opponent of `player` in a round, where the number of players is even.  In `players - 1` rounds
 * everybody meets everybody else once, and in each round all play at the same time (the circle method). */
static __device__ inline uint32_t opponent(uint32_t player, uint32_t round, uint32_t players)
{
    uint32_t ring = players - 1;
    if (player == ring) {
        return round * (players / 2) % ring;
    }
    uint32_t other = (round + ring - player) % ring;
    return other == player ? ring : other;
}

/* The two SMs send each other the time through two words of one line of the cache, `volleys` times, so that
 * both ways lead over the same place.  Returns the least of what this SM's clock showed when a message came
 * less what was sent, over all but the first; INT64_MIN after `patience` looks at the box. */
static __device__ inline int64_t play(uint64_t *line, bool first, uint32_t volleys, uint32_t patience)
{
    uint64_t *out = &line[first ? 0 : 1], *in = &line[first ? 1 : 0], latest = 0;
    int64_t least = INT64_MAX;
    for (uint32_t volley = 0; volley < volleys; volley++) {
        if (first) {
            write_mail(out, gantry_global_timer());
        }
        uint32_t looks = 0;
        uint64_t sent = read_mail(in);
        while (sent == latest) {
            if (++looks == patience) {
                return INT64_MIN;
            }
            sent = read_mail(in);
        }
        int64_t took = (int64_t)(gantry_global_timer() - sent); /* behind a branch on the mail */
        if (!first) {
            write_mail(out, gantry_global_timer());
        }
        latest = sent;
        least = volley != 0 && took < least ? took : least;
    }
    return least;
}

/* Blocks of one thread that are all resident at once, an even number, each on an SM of its own:
 * sms[block].  Every two of them send each other messages through `lines` lines, which lie in different
 * parts of the cache: one line is near to the first SM and far from the second, another line the other way
 * round.  The fastest is least_ns[from * blocks + to].  Everything is 0 at first.  The kernel ends early,
 * with *stuck set, when an answer does not come. */
GANTRY_KERNEL(ping_pong, (uint64_t *boxes, int64_t *least_ns, uint32_t *sms, uint32_t *stuck, uint32_t lines,
                          uint32_t volleys, uint32_t patience))
{
    uint32_t me = blockIdx.x, blocks = gridDim.x;
    sms[me] = gantry_smid();
    for (uint32_t round = 0; round + 1 < blocks; round++) {
        uint32_t other = opponent(me, round, blocks);
        uint32_t low = me < other ? me : other, high = me < other ? other : me;
        int64_t least = INT64_MAX;
        for (uint32_t line = 0; line < lines; line++) {
            uint64_t box = ((uint64_t)line * blocks + low) * blocks + high;
            int64_t now = play(&boxes[box * BENCH_BOX_WORDS], me < other, volleys, patience);
            if (now == INT64_MIN) {
                *stuck = 1;
                return;
            }
            least = now < least ? now : least;
        }
        least_ns[other * blocks + me] = least;
    }
}
