/* The other controller limits launches by what NVML says about the device's use.  CUDA_DEVICE_SM_LIMIT is
 * known from this algorithm (HAMi-core, before it vcuda).  It is kept for comparison: the bucket's error has
 * a bound, and this controller's has none.
 *
 * The device has a pool of tokens, SMs * threads per SM * 32.  Each kernel launch takes as many as it has
 * blocks, however long they run, and waits while the pool is below 0.  Every 120 ms a watcher asks in how
 * much of the time NVML saw the process on the device.  It changes the share, which is the number of tokens
 * that it gives back each time, by
 *
 *     SMs * SMs * threads per SM * |limit - use| / 2560
 *
 * It goes upwards when the use is not above the limit, else downwards.  Then the watcher adds the share to
 * the pool.  Neither the share nor the pool goes below 0 by this, or above the whole.  Copies and launches of
 * graphs are not limited.
 *
 * There are two differences to the original.  The device is found by its UUID, not by its number, and each
 * device has its own pool, which the contexts of this process on it share.  And where NVML does not know this
 * process (within a container it sees other process numbers), the use of the whole device is taken.
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
    int64_t sms, threads;           /* immutable; SMs per device, threads per SM */
    int64_t whole;                  /* immutable; all tokens of the device */
    _Atomic(int64_t) tokens;        /* atomic */
    gy_mutex lock;                  /* rank LEAF */
    int64_t share;                  /* guarded by lock */
    unsigned long long since;       /* guarded by lock; NVML's time of the latest sample, us */
    uint64_t next_ns;               /* guarded by lock; when the next tick is due; 0: there was none yet */
    _Atomic(int) use;               /* atomic; percent at the latest tick; -1: it is not known */
    _Atomic(uint64_t) ticks;        /* atomic */
    struct gy_utilisation *next;    /* guarded by list_lock, as are the fields below, in utilisation.c */
    const struct gy_driver *driver; /* immutable */
    int ordinal;                    /* immutable; the device's number */
    uint32_t users;                 /* guarded by list_lock */
};

/* `limit`: 1 to 99.  @retval GANTRY_ERR_UNSUPPORTED  no NVML, or it does not know the device */
GANTRY_MUST_CHECK gantry_status gy_utilisation_open(struct gy_utilisation *out,
                                                    const struct gy_context *context, int limit);
void gy_utilisation_close(struct gy_utilisation *u);

/* Join the controller of the context's device.  The first context that joins opens it, and the last one that
 * leaves closes it: the process has one limit per device, that of the first context.  Statuses as
 * gy_utilisation_open(), and
 * @retval GANTRY_ERR_OUT_OF_HOST_MEMORY */
GANTRY_MUST_CHECK gantry_status gy_utilisation_join(const struct gy_context *context, int limit,
                                                    struct gy_utilisation **out);
/* NULL is ignored. */
void gy_utilisation_leave(struct gy_utilisation *u);

/* Compute the new share. */
int64_t gy_utilisation_delta(const struct gy_utilisation *u, int use, int64_t share);

/* A watcher calls this every 120 ms. */
void gy_utilisation_tick(struct gy_utilisation *u);
/* A watcher calls this; nothing is done if another context's watcher has done it for this period. */
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
