/* SPDX-License-Identifier: MIT */
/* The inside of exchanges with a renderer: the object and its state, which exchange.c keeps; exchange_step.c
 * has the tasks of a step and the thread that waits. */
#ifndef INTEROP_EXCHANGE_H
#define INTEROP_EXCHANGE_H

#include "base/status.h"
#include "base/thread.h"
#include "driver/context.h"
#include "interop/shared_memory.h"

#include <gantry/interop.h>

/* The states of an exchange, which exchange_state.c describes. */
enum gy_exchange_state {
    GY_EXCHANGE_IDLE,
    GY_EXCHANGE_ARMED,
    GY_EXCHANGE_WAITING,
    GY_EXCHANGE_PASSED,
    GY_EXCHANGE_LOST
};

/* The device way's state in the driver. */
struct gy_exchange_device {
    struct gy_context *cuda;     /* NULL: the exchange is on the host way, or this was closed */
    CUexternalSemaphore awaited; /* the renderer signals it */
    CUexternalSemaphore told;    /* the GPU does */
    CUstream waits;              /* nothing but waits for the renderer and their marks; of no green context */
    CUstream waiting; /* where the latest wait is: `waits`, or ahead a stream of the step's manager */
    CUstream signals; /* signals of steps whose streams belong to a green context */
    CUstream rescue;  /* what the library signals itself */
    CUevent released; /* where a step's stream is to be signalled behind */
    uint32_t *passed; /* page-locked; the GPU writes the number of the latest wait that is over */
    CUdeviceptr passed_at;
    uint32_t number; /* of the latest wait */
};

/* The values of the step that next() has chosen, and where it is: exchange_step.c. */
struct gy_exchange_step {
    bool is_open; /* from `begin` until `signal` is released */
    uint64_t wait_value, signal_value;
    gantry_task *held; /* of the latest manager: what may not start before the renderer has come, which is
                        * `acquire`, or ahead what `release` comes after */
    bool is_ahead;     /* the work of the latest manager is enqueued behind the wait */
};

struct gantry_exchange {
    gantry_exchange_wait_fn wait;     /* immutable */
    gantry_exchange_signal_fn signal; /* immutable */
    void *arg;                        /* immutable */
    uint64_t timeout_ns;              /* immutable */
    char label[GY_LABEL_BYTES];       /* immutable */
    char span[GY_LABEL_BYTES + 16];   /* immutable: "waits for LABEL" */
    uint64_t id; /* immutable; never used again; its tasks know the exchange by this number */
    struct gantry_exchange *next; /* guarded by registry */
    uint32_t users;          /* guarded by registry: the application, and tasks that run, are its users */
    gy_thread thread;        /* see gy_thread_start() */
    gy_mutex lock;           /* rank EXCHANGE */
    gy_cond changed;         /* the thread waits here for something to do */
    gantry_context *context; /* guarded by lock; NULL: the context is gone */
    enum gy_exchange_state state;     /* guarded by lock */
    bool has_values;                  /* guarded by lock; next() was called at least once */
    bool closing;                     /* guarded by lock */
    bool is_serving;                  /* guarded by lock; the thread makes calls for a step */
    struct gy_exchange_device device; /* its fields are immutable while a step waits; else guarded by lock */
    bool on_device;                   /* immutable */
    bool may_be_ahead;                /* immutable */
    struct gy_exchange_step step;     /* guarded by lock */
    struct gy_error cause;            /* guarded by lock; valid once LOST */
    gantry_exchange_stats stats;      /* guarded by lock */
};

bool gy_exchange_is_valid(const gantry_exchange *e) GY_REQUIRES(e->lock);
/* The only writer of `state`. */
void gy_exchange_enter(gantry_exchange *e, enum gy_exchange_state state) GY_REQUIRES(e->lock);
/* The exchange is lost: no step can follow, and the calling thread's last error is the cause. */
void gy_exchange_lose(gantry_exchange *e) GY_REQUIRES(e->lock);
/* Report that the exchange is lost, and why. */
gantry_status gy_exchange_refuse(const gantry_exchange *e, const char *call) GY_REQUIRES(e->lock);

void gy_exchange_register(gantry_exchange *e);
/* From now on no task finds the exchange; returns when no task uses it any more. */
void gy_exchange_unregister(gantry_exchange *e);
/* Find an exchange by its number, by which tasks know it, since it may be destroyed before them.  NULL: it
 * was destroyed. */
gantry_exchange *gy_exchange_pin(void *number);
void gy_exchange_unpin(gantry_exchange *e);

/* ---- the device way: exchange_device.c ---- */

/* Import the semaphores, whose descriptors are the library's when it succeeds. */
GANTRY_MUST_CHECK gantry_status gy_exchange_device_open(gantry_exchange *e, struct gy_context *cuda,
                                                        const gantry_exchange_options *options);
/* No step waits.  Does nothing when it is closed, or was never open. */
void gy_exchange_device_close(gantry_exchange *e) GY_REQUIRES(e->lock);
/* Enqueue a wait for `value` on `stream`, NULL: on the exchange's own. */
GANTRY_MUST_CHECK gantry_status gy_exchange_device_wait(gantry_exchange *e, CUstream stream, uint64_t value)
    GY_REQUIRES(e->lock);
/* Whether the latest wait, of `since`, is over, as gantry_exchange_wait_fn has it; any other status: the
 * context is lost. */
gantry_status gy_exchange_device_look(gantry_exchange *e, uint64_t since, uint64_t timeout_ns);
/* Signal the awaited value in the renderer's place, so that no stream waits any more. */
void gy_exchange_device_rescue(gantry_exchange *e, uint64_t value);
/* Signal `value` behind the work on `stream`. */
GANTRY_MUST_CHECK gantry_status gy_exchange_device_signal(gantry_exchange *e, CUstream stream, uint64_t value)
    GY_REQUIRES(e->lock);

/* The body of the thread. */
void gy_exchange_serve(void *exchange);

struct gy_exchange_tasks {
    gantry_task *begin, *held, *release, *signal; /* signal: host way */
    bool is_ahead;
};
GANTRY_MUST_CHECK gantry_status gy_exchange_submit(const gantry_exchange *e, gantry_taskman *manager,
                                                   struct gy_exchange_tasks *out);

/* GANTRY_ERR_STATE when the context has an exchange, which is named. */
GANTRY_MUST_CHECK gantry_status gy_exchanges_check_none(const gantry_context *context, const char *call);

/* The context ends: its exchanges are lost, and those that wait for the renderer stop waiting now.  They stay
 * until the application destroys them. */
void gy_exchanges_abandon(const gantry_context *context);

#endif
