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

/* Blocks of one thread that are all resident at once, an even number, each on an SM of its own: sms[block].  Each two
 * send each other the time, `volleys` times there and back, through two words of one line of the cache, so that both
 * ways lead over the same place.  What the receiver's clock showed less what was sent is a way[from * blocks + to] with
 * its least and its sum, over all but the first.  Everything is 0 at first.  Ends early, with *stuck set, after
 * `patience` looks at one box. */
GANTRY_KERNEL(ping_pong, (uint64_t *boxes, bench_way *ways, uint32_t *sms, uint32_t *stuck, uint32_t volleys,
                          uint32_t patience))
{
    uint32_t me = blockIdx.x, blocks = gridDim.x;
    sms[me] = gantry_smid();
    for (uint32_t round = 0; round + 1 < blocks; round++) {
        uint32_t other = opponent(me, round, blocks);
        uint32_t low = me < other ? me : other, high = me < other ? other : me;
        uint64_t *line = &boxes[(low * blocks + high) * BENCH_BOX_WORDS], latest = 0;
        uint64_t *out = &line[me > other], *in = &line[me < other];
        bench_way way = {INT64_MAX, 0};
        for (uint32_t volley = 0; volley < volleys; volley++) {
            if (me < other) {
                write_mail(out, gantry_global_timer());
            }
            uint32_t looks = 0;
            uint64_t sent = read_mail(in);
            while (sent == latest) {
                if (++looks == patience) {
                    *stuck = 1;
                    return;
                }
                sent = read_mail(in);
            }
            int64_t took = (int64_t)(gantry_global_timer() - sent); /* behind a branch on the mail */
            if (me > other) {
                write_mail(out, gantry_global_timer());
            }
            latest = sent;
            if (volley != 0) {
                way.least = took < way.least ? took : way.least;
                way.sum += took;
            }
        }
        ways[other * blocks + me] = way;
    }
}
