/* SPDX-License-Identifier: MIT */
/* One CUDA context: where it comes from, which threads may use it, and whether it is lost. */
#ifndef DRIVER_CONTEXT_H
#define DRIVER_CONTEXT_H

#include "base/hints.h"
#include "base/thread.h"
#include "driver/driver.h"

#include <assert.h>
#include <stdatomic.h>

/* The reasons for which no GPU work may be enqueued; they are one word, since every launch asks. */
enum gy_context_stop {
    GY_STOP_LOST = 1,    /* never goes away */
    GY_STOP_ABORTED = 2, /* memory ran out, see gy_context_note_out_of_memory() */
};

enum { GY_CONTEXTS_IN_GROUP = 16, GY_CONTEXT_SPENT = 32 };

/* Contexts that are lost together: a fault in one of them is the process's, and graphs span them. */
struct gy_context_group {
    gy_mutex lock;                                    /* rank LEAF */
    uint32_t count;                                   /* guarded by lock */
    uint32_t left;                                    /* guarded by lock; of these */
    struct gy_context *members[GY_CONTEXTS_IN_GROUP]; /* guarded by lock; NULL: it has gone */
};

/* Something of a module that was unloaded, kept so that who refers to it can tell that it is gone. */
struct gy_leftover {
    struct gy_leftover *next; /* of whoever has the list */
    _Atomic(bool) is_gone;    /* atomic */
};

/* One of the two. */
struct gy_spent {
    CUgraph graph;
    CUgraphExec exec;
};

struct gy_context {
    const struct gy_driver *driver; /* immutable */
    CUdevice device;                /* immutable */
    CUcontext native;               /* immutable */
    gantry_context_mode mode;       /* immutable */
    gantry_device_info info;        /* immutable */
    uint32_t sms; /* immutable; the SMs that its work may run on: all, or those of an adopted green context */
    CUgreenCtx home; /* immutable but for gy_partitions_enter(), which is called while nobody makes streams:
                        the  green context in which they are made; NULL: all SMs */
    _Atomic(CUgreenCtx) apart; /* atomic; see apart.h */
    uint32_t plans;            /* immutable but for that: how often it has got partitions */
    uint64_t plan_id;          /* immutable but for that: of the latest; no others of the process have it */
    _Atomic(unsigned) stop;    /* atomic; written under cause_lock; of enum gy_context_stop */
    gy_mutex cause_lock;       /* rank LEAF */
    struct gy_error cause;     /* guarded by cause_lock; the first cause, valid once lost */
    bool aborts_on_out_of_memory; /* immutable */
    struct gy_error
        abort_cause; /* guarded by cause_lock; the first cause since it was cleared, valid if aborted */
    _Atomic(uint64_t)
        generation; /* atomic; grows before a module is unloaded: functions may mean others then */
    _Atomic(struct gy_leftover *) leftovers; /* atomic; of modules that were unloaded */
    struct gy_context_group *group;          /* immutable once it has work; NULL: it is lost alone */
    struct gy_places *places;                /* immutable; see places.h */
    struct gy_spent spent[GY_CONTEXT_SPENT]; /* guarded by cause_lock; see spent.h */
    _Atomic(uint32_t) spent_count;           /* atomic; written under cause_lock */
    const struct gy_context *self;           /* immutable; == this while the context exists */
    _Atomic(bool) told_of_current; /* atomic; it was said that a callback has left another current */
};

/* Open the device and the context that `options` (already imported, never NULL) ask for. */
GANTRY_MUST_CHECK gantry_status gy_context_open(const gantry_context_options *options,
                                                struct gy_context **out);
/* Close the context; an adopted one is left alone.  NULL is ignored. */
void gy_context_close(struct gy_context *context);

/* The thread goes inside (inside.h): the context becomes current on it, in relaxed capture mode, counted;
 * every push has one pop on the same thread. */
GANTRY_MUST_CHECK gantry_status gy_context_push(struct gy_context *context);
/* The same for a call of the application: GANTRY_ERR_DEVICE_LOST with the first cause when it is lost. */
GANTRY_MUST_CHECK gantry_status gy_context_enter(struct gy_context *context);
gantry_status gy_context_pop(struct gy_context *context);

/* Make a non-blocking stream of `green`, else of the context's home, else of all SMs.  Every stream of the
 * library is made in this way, so that nothing runs on SMs that a plan has reserved.  The context is current.
 */
GANTRY_MUST_CHECK gantry_status gy_context_create_stream(struct gy_context *context, CUgreenCtx green,
                                                         int priority, CUstream *out);

/* A module is about to be unloaded, and `one`, the first field of what gy_zalloc() gave, outlives it.  Any
 * thread. */
void gy_context_leave(struct gy_context *context, struct gy_leftover *one);
/* What was left so far, which is the caller's now; NULL: nothing.  All of it is marked as gone.  One thread
 * of a context calls this, when it has seen that context->generation has changed. */
struct gy_leftover *gy_context_take_leftovers(struct gy_context *context);
/* Nobody refers to them any more. */
void gy_leftovers_free(struct gy_leftover *list);

/* Copy to the device, or back from it, and wait for that alone: synchronous copies are on the legacy stream,
 * which the driver refuses while a stream that waits for it is captured.  The context is current. */
GANTRY_MUST_CHECK gantry_status gy_context_copy_in(struct gy_context *context, CUdeviceptr to,
                                                   const void *from, size_t bytes);
GANTRY_MUST_CHECK gantry_status gy_context_copy_out(struct gy_context *context, void *to, CUdeviceptr from,
                                                    size_t bytes);

/* Destroy a stream of the library's own when its work is done; it becomes NULL.  NULL is ignored.  The
 * context is current. */
void gy_context_drop_stream(struct gy_context *context, CUstream *stream);

/* Has the driver calls on a whole context, which are cuCtxRecordEvent() and cuCtxWaitEvent()? */
static inline bool gy_context_has_events(const struct gy_context *context)
{
    const struct gy_driver *driver = context->driver;
    return driver->version >= 12050 && driver->cuCtxRecordEvent != NULL && driver->cuCtxWaitEvent != NULL;
}

/* The label of the task for which this thread calls the driver now, which the text of a failure names; NULL:
 * it calls for no task.  The label is not copied. */
extern _Thread_local const char *gy_context_subject GY_TLS_HOT;

/* As gy_driver_check().  A sticky result also makes the context lost, and any result on a lost context
 * becomes GANTRY_ERR_DEVICE_LOST with the first cause. */
gantry_status gy_context_failed(struct gy_context *context, CUresult result, const char *call,
                                const char *file, int line);
static inline gantry_status gy_context_check(struct gy_context *context, CUresult result, const char *call,
                                             const char *file, int line)
{
    if (__builtin_expect(result == CUDA_SUCCESS, 1)) {
        return GANTRY_OK;
    }
    return gy_context_failed(context, result, call, file, line);
}
/* status = GY_CALL(context, cuStreamWaitEvent(stream, event, 0)); */
#define GY_CALL(ctx, call) gy_context_check((ctx), (ctx)->driver->call, #call, __FILE__, __LINE__)

/* The calling thread in relaxed capture mode, between gy_relaxed_begin() and gy_relaxed_end().
 *
 * While a thread captures a stream, which may be the application's doing, many calls that have nothing to do
 * with that stream fail and spoil the capture: asking for events, taking memory, making executable graphs.
 * Relaxed mode permits them.  Pairs may be nested; a pair begins and ends on one thread. */
struct gy_relaxed {
    gantry_status status;       /* of the beginning; GANTRY_OK: the mode is relaxed */
    CUstreamCaptureMode before; /* the capture mode to which the thread returns */
};

/* The context is current.  A failure changes nothing on the thread. */
static inline struct gy_relaxed gy_relaxed_begin(struct gy_context *context)
{
    struct gy_relaxed relaxed = {.before = CU_STREAM_CAPTURE_MODE_RELAXED};
    relaxed.status = GY_CALL(context, cuThreadExchangeStreamCaptureMode(&relaxed.before));
    return relaxed;
}

/* Put the mode back.  Does nothing, with GANTRY_OK, when the beginning has failed. */
static inline gantry_status gy_relaxed_end(struct gy_context *context, const struct gy_relaxed *relaxed)
{
    if (relaxed->status != GANTRY_OK) {
        return GANTRY_OK;
    }
    CUstreamCaptureMode mode = relaxed->before;
    const gantry_status status = GY_CALL(context, cuThreadExchangeStreamCaptureMode(&mode));
    assert(status != GANTRY_OK || mode == CU_STREAM_CAPTURE_MODE_RELAXED); /* pairs are nested */
    return status;
}

/* From now on the contexts, which have no work yet, are lost together.  Each parts from the others when it is
 * closed.
 * @retval GANTRY_ERR_OUT_OF_HOST_MEMORY */
GANTRY_MUST_CHECK gantry_status gy_contexts_join(struct gy_context *const *contexts, uint32_t count);

/* Declare the context lost with `cause`, and with it the others of its group; only the first cause is kept.
 */
void gy_context_lose(struct gy_context *context, const struct gy_error *cause);

static inline bool gy_context_is_lost(const struct gy_context *context)
{
    return (atomic_load_explicit(&context->stop, memory_order_acquire) & GY_STOP_LOST) != 0;
}

/* Make the first cause of a lost context the calling thread's last error; returns GANTRY_ERR_DEVICE_LOST. */
gantry_status gy_context_adopt_loss(struct gy_context *context);

/* Abort mode: memory of the context ran out, and the application wants everything to stop until it says
 * otherwise, instead of task after task failing.  This does nothing in a context without that mode. */
void gy_context_note_out_of_memory(struct gy_context *context, const struct gy_error *cause);
void gy_context_clear_abort(struct gy_context *context);

static inline bool gy_context_is_aborted(const struct gy_context *context)
{
    return (atomic_load_explicit(&context->stop, memory_order_acquire) & GY_STOP_ABORTED) != 0;
}

/* The context is lost or aborted: no GPU work may be enqueued. */
static inline bool gy_context_is_stopped(const struct gy_context *context)
{
    return __builtin_expect(atomic_load_explicit(&context->stop, memory_order_acquire) != 0, 0);
}

/* Make the reason the calling thread's last error: GANTRY_ERR_DEVICE_LOST, GANTRY_ERR_OUT_OF_DEVICE_MEMORY,
 * or GANTRY_OK when the context is neither lost nor aborted, or no longer aborted. */
gantry_status gy_context_adopt_stop(struct gy_context *context);

#endif
