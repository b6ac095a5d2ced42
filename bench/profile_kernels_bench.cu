/* Work whose length is a number of steps, with and without the macros of a recording: arithmetic, which keeps an SM's
 * instruction issue busy as soon as a few blocks are resident, or loads that wait for each other. */
#include "bench/profile_ways.h"

#include <gantry/profile_kernel.h>

static __device__ inline uint32_t arithmetic(uint32_t steps)
{
    uint32_t x = threadIdx.x + 1;
    for (uint32_t i = 0; i < steps; i++) {
        x = x * 1664525u + 1013904223u;
    }
    return x;
}

/* `data` is zero, which the compiler does not know: each load waits for the one before. */
static __device__ inline uint32_t loads(uint32_t steps, const uint32_t *data)
{
    uint32_t x = 0, at = blockIdx.x * 40503u * 128u + threadIdx.x;
    for (uint32_t i = 0; i < steps; i++) {
        at += 128u * 7919u;
        x += data[(at + x) % BENCH_DATA_WORDS];
    }
    return x;
}

/* Adds one to one of the counters per block; `sink` keeps the work from being left out. */
static __device__ inline void finish(uint32_t x, uint32_t *counters, uint32_t *sink)
{
    if (x == 0xdeadbeefu) {
        *sink = x;
    }
    if (threadIdx.x == 0) { /* not all on one: that would be what blocks wait for */
        atomicAdd(&counters[blockIdx.x % BENCH_COUNTERS * BENCH_COUNTER_WORDS], 1u);
    }
}

GANTRY_KERNEL(plain_work, (uint32_t steps, const uint32_t *data, uint32_t *counters, uint32_t *sink))
{
    (void)data;
    finish(arithmetic(steps), counters, sink);
}

GANTRY_KERNEL(recorded_work, (uint32_t steps, const uint32_t *data, uint32_t *counters, uint32_t *sink, void *profile,
                              uint32_t id))
{
    GANTRY_KERNEL_START(profile, id);
    (void)data;
    finish(arithmetic(steps), counters, sink);
    GANTRY_KERNEL_STOP(profile, id);
}

GANTRY_KERNEL(plain_loads, (uint32_t steps, const uint32_t *data, uint32_t *counters, uint32_t *sink))
{
    finish(loads(steps, data), counters, sink);
}

GANTRY_KERNEL(recorded_loads, (uint32_t steps, const uint32_t *data, uint32_t *counters, uint32_t *sink, void *profile,
                               uint32_t id))
{
    GANTRY_KERNEL_START(profile, id);
    finish(loads(steps, data), counters, sink);
    GANTRY_KERNEL_STOP(profile, id);
}

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

/* Whom `player` of an even number of them meets in a round: everybody else in as many rounds less one, each time all at
 * once (the circle method). */
static __device__ inline uint32_t opponent(uint32_t player, uint32_t round, uint32_t players)
{
    uint32_t ring = players - 1;
    if (player == ring) {
        return round * (players / 2) % ring;
    }
    uint32_t other = (round + ring - player) % ring;
    return other == player ? ring : other;
}

/* The time goes there and back through two words of a line of the cache, `volleys` times, so that both ways lead over
 * the same place.  Returns the least of what this SM's clock showed when a message came less what was sent, over all but
 * the first; INT64_MIN after `patience` looks at the box. */
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

/* Blocks of one thread that are all resident at once, an even number, each on an SM of its own: sms[block].  Each two
 * send each other messages through `lines` lines, which lie in different parts of the cache: what is far from the one and
 * near to the other in one of them is the other way round in the next.  The fastest is least_ns[from * blocks + to].
 * Everything is 0 at first.  Ends early, with *stuck set, when an answer does not come. */
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
