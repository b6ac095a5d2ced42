/* The other controller: launches are limited by what NVML says about the device's use.  This is the algorithm
 * that CUDA_DEVICE_SM_LIMIT is known from (HAMi-core, before it vcuda), kept for comparison: the bucket has a
 * bound, this has none.
 *
 * The device has a pool of tokens, SMs * threads per SM * 32.  Each kernel launch takes as many as it has
 * blocks, however long they run, and waits while the pool is below 0.  A watcher looks every 120 ms at how
 * much of the time NVML saw the process on the device, changes what it gives back each time, the share, by
 *
 *     SMs * SMs * threads per SM * |limit - use| / 2560
 *
 * upwards when the use is not above the limit, else downwards, and adds the share to the pool.  Neither goes
 * below 0 by it or above the whole.  Copies and launches of graphs are not limited.
 *
 * Two differences: the device is found by its UUID, not by its number, and each context has its own pool,
 * so it works with several devices; and where NVML does not tell of this process (it sees other process
 * numbers from within a container), the use of the whole device is taken.
 *
 * Any thread, but for tick(). */
#ifndef PARTITION_UTILISATION_H
#define PARTITION_UTILISATION_H

#include "driver/context.h"
#include "partition/nvml.h"

#include <stdatomic.h>

#define GY_UTILISATION_TICK_NS 120000000u

struct gy_utilisation {
    struct gy_nvml nvml;      /* immutable */
    gy_nvml_device device;    /* immutable */
    int limit;                /* immutable; percent */
    int64_t sms, threads;     /* immutable; per device, per SM */
    int64_t whole;            /* immutable; tokens of the device */
    _Atomic(int64_t) tokens;  /* atomic */
    int64_t share;            /* the watcher's */
    unsigned long long since; /* the watcher's; NVML's time of the latest sample, us */
    _Atomic(int) use;         /* atomic; percent, at the latest tick; -1: not known */
    _Atomic(uint64_t) ticks;  /* atomic */
};

/* `limit`: 1 to 99.  @retval GANTRY_ERR_UNSUPPORTED  no NVML, or it does not know the device */
GANTRY_MUST_CHECK gantry_status gy_utilisation_open(struct gy_utilisation *out,
                                                    const struct gy_context *context, int limit);
void gy_utilisation_close(struct gy_utilisation *u);

/* The new share. */
int64_t gy_utilisation_delta(const struct gy_utilisation *u, int use, int64_t share);

/* The watcher, every 120 ms. */
void gy_utilisation_tick(struct gy_utilisation *u);

static inline bool gy_utilisation_admits(const struct gy_utilisation *u)
{
    return atomic_load_explicit(&u->tokens, memory_order_relaxed) >= 0;
}

static inline void gy_utilisation_take(struct gy_utilisation *u, uint64_t blocks)
{
    atomic_fetch_sub_explicit(&u->tokens, (int64_t)blocks, memory_order_relaxed);
}

#endif
