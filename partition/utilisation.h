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
 * Two differences: the device is found by its UUID, not by its number, and each device has its own pool,
 * which the contexts of this process on it share; and where NVML does not tell of this process (it sees other
 * process numbers from within a container), the use of the whole device is taken.
 *
 * Any thread. */
#ifndef PARTITION_UTILISATION_H
#define PARTITION_UTILISATION_H

#include "driver/context.h"
#include "partition/nvml.h"

#include <stdatomic.h>

#define GY_UTILISATION_TICK_NS 120000000u

struct gy_utilisation {
    struct gy_nvml nvml;            /* immutable */
    gy_nvml_device device;          /* immutable */
    int limit;                      /* immutable; percent */
    int64_t sms, threads;           /* immutable; per device, per SM */
    int64_t whole;                  /* immutable; tokens of the device */
    _Atomic(int64_t) tokens;        /* atomic */
    gy_mutex lock;                  /* rank LEAF */
    int64_t share;                  /* guarded by lock */
    unsigned long long since;       /* guarded by lock; NVML's time of the latest sample, us */
    uint64_t next_ns;               /* guarded by lock; when the next tick is due; 0: none was yet */
    _Atomic(int) use;               /* atomic; percent, at the latest tick; -1: not known */
    _Atomic(uint64_t) ticks;        /* atomic */
    struct gy_utilisation *next;    /* as the following, in utilisation.c: guarded by list_lock */
    const struct gy_driver *driver; /* immutable */
    int ordinal;                    /* immutable; of the device */
    uint32_t users;                 /* guarded by list_lock */
};

/* `limit`: 1 to 99.  @retval GANTRY_ERR_UNSUPPORTED  no NVML, or it does not know the device */
GANTRY_MUST_CHECK gantry_status gy_utilisation_open(struct gy_utilisation *out,
                                                    const struct gy_context *context, int limit);
void gy_utilisation_close(struct gy_utilisation *u);

/* That of the context's device, opened by the first who joins and closed by the last who leaves: the process
 * has one limit per device, the first one's.  Statuses as gy_utilisation_open(), and
 * @retval GANTRY_ERR_OUT_OF_HOST_MEMORY */
GANTRY_MUST_CHECK gantry_status gy_utilisation_join(const struct gy_context *context, int limit,
                                                    struct gy_utilisation **out);
/* NULL is ignored. */
void gy_utilisation_leave(struct gy_utilisation *u);

/* The new share. */
int64_t gy_utilisation_delta(const struct gy_utilisation *u, int use, int64_t share);

/* A watcher, every 120 ms. */
void gy_utilisation_tick(struct gy_utilisation *u);
/* The same unless another context's watcher has done it for this period. */
void gy_utilisation_tick_if_due(struct gy_utilisation *u, uint64_t now_ns);

static inline bool gy_utilisation_admits(const struct gy_utilisation *u)
{
    return atomic_load_explicit(&u->tokens, memory_order_relaxed) >= 0;
}

static inline void gy_utilisation_take(struct gy_utilisation *u, uint64_t blocks)
{
    atomic_fetch_sub_explicit(&u->tokens, (int64_t)blocks, memory_order_relaxed);
}

#endif
