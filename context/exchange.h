/* The inside of exchanges with a renderer: the object and its state, which exchange.c keeps; exchange_step.c
 * has the tasks of a step and the thread that waits. */
#ifndef CONTEXT_EXCHANGE_H
#define CONTEXT_EXCHANGE_H

#include "base/status.h"
#include "base/thread.h"
#include "context/shared_memory.h"

#include <gantry/interop.h>

/* The states of an exchange, which exchange_state.c describes. */
enum gy_exchange_state {
    GY_EXCHANGE_IDLE,
    GY_EXCHANGE_ARMED,
    GY_EXCHANGE_WAITING,
    GY_EXCHANGE_PASSED,
    GY_EXCHANGE_LOST
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
    enum gy_exchange_state state; /* guarded by lock */
    bool has_values;              /* guarded by lock; next() was called at least once */
    bool closing;                 /* guarded by lock */
    bool in_step;                 /* guarded by lock; from `begin` until `signal` is released */
    uint64_t wait_value;          /* guarded by lock */
    uint64_t signal_value;        /* guarded by lock */
    gantry_task *acquire;         /* guarded by lock; of the latest manager */
    struct gy_error cause;        /* guarded by lock; valid once LOST */
    gantry_exchange_stats stats;  /* guarded by lock */
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

/* The body of the thread. */
void gy_exchange_serve(void *exchange);

struct gy_exchange_tasks {
    gantry_task *begin, *acquire, *release, *signal;
};
GANTRY_MUST_CHECK gantry_status gy_exchange_submit(const gantry_exchange *e, gantry_taskman *manager,
                                                   struct gy_exchange_tasks *out);

/* The context ends: its exchanges are lost, and those that wait for the renderer stop waiting now.  They stay
 * until the application destroys them. */
void gy_exchanges_abandon(const gantry_context *context);

#endif
