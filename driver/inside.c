/* SPDX-License-Identifier: MIT */
/* The contexts that a thread has pushed, and its way outside and back.
 *
 * Pushes and pops are counted per thread in a small thread-local list of runs, so that a pop without its push
 * is refused instead of taking away a context of the application's.  The run at the end says where the
 * thread is:
 *
 *                     push                    leave
 *   none, ACQUIRED ----------> INSIDE, relaxed ------> OUTSIDE, in a callback ----> again the same, nested
 *                  <----------                 <------
 *                     pop                    come_back
 *
 * A thread may linger OUTSIDE between two callbacks (inside.h).  What a callback has acquired and not
 * released goes when the thread comes back, and so does another context that it has left current: one
 * question to the driver after each call. */
#include "driver/inside.h"

#include <assert.h>

#define MAX_RUNS 16

enum run_kind {
    RUN_ACQUIRED, /* the application's, in its capture mode */
    RUN_INSIDE,   /* the library's */
    RUN_OUTSIDE,  /* no context: the application's code runs in what stands before it */
};

/* The contexts that this thread has pushed, oldest first; neighbours differ in context or kind. */
static _Thread_local struct run {
    struct gy_context *context; /* NULL: OUTSIDE */
    uint32_t depth;
    uint8_t kind;       /* of enum run_kind */
    uint8_t is_relaxed; /* false inside as well, where the driver has refused it */
    uint8_t before;     /* the capture mode of the thread before the run; is_relaxed only */
    uint8_t outer;      /* the one in which the application's code runs */
    uint8_t place;      /* of enum gy_place, before the run */
    uint8_t lingers;    /* OUTSIDE: the thread stays there between callbacks */
} runs[MAX_RUNS + 1];   /* with room to go outside from the last */
static _Thread_local unsigned run_count;

/* Does the thread linger?  What a callback has acquired and not released is above the run that says so. */
static bool lingers(void)
{
    unsigned i = run_count;
    while (i > 0 && runs[i - 1].kind == RUN_ACQUIRED) {
        i--;
    }
    return i > 0 && runs[i - 1].lingers;
}

/* The latest run of the library's; there is one. */
static struct run *inside_run(void)
{
    unsigned i = run_count;
    while (runs[i - 1].kind != RUN_INSIDE) {
        i--;
    }
    return &runs[i - 1];
}

static const struct gy_inside ops;

/* ---- capture mode --------------------------------------------------------------------------- */

/* Exchange the thread's mode; a driver that refuses this has lost the context, or will tell at the next call,
 * and nobody does anything else for it: a thread that takes things apart goes on all the same.  Failures are
 * logged, by the application's function, so the runs are as they should be whenever this is called. */
static inline bool exchange(struct gy_context *context, CUstreamCaptureMode *mode)
{
    return GY_CALL(context, cuThreadExchangeStreamCaptureMode(mode)) == GANTRY_OK;
}

static void relax(struct run *run)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    run->is_relaxed = exchange(run->context, &mode);
    run->before = run->outer = (uint8_t)mode;
}

static void restore(const struct run *run)
{
    if (run->is_relaxed) {
        CUstreamCaptureMode mode = (CUstreamCaptureMode)run->before;
        (void)exchange(run->context, &mode);
    }
}

void gy_inside_set_outer_mode(CUstreamCaptureMode mode)
{
    gy_inside_return();
    assert(run_count > 0 && runs[run_count - 1].kind == RUN_INSIDE);
    runs[run_count - 1].outer = (uint8_t)mode;
}

/* ---- pushes and pops ------------------------------------------------------------------------ */

/* A run ends; the context has been popped. */
static void end_run(void)
{
    const struct run ended = runs[--run_count];
    gy_place = ended.place;
    restore(&ended);
}

static gantry_status push(struct gy_context *context, enum run_kind kind)
{
    struct run *top = run_count > 0 ? &runs[run_count - 1] : NULL;
    const bool same = top != NULL && top->context == context && top->kind == kind;
    if (!same && run_count >= MAX_RUNS) {
        return GY_FAIL(GANTRY_ERR_STATE, "this thread alternates between contexts %d times already",
                       MAX_RUNS);
    }
    gantry_status status = GY_CALL(context, cuCtxPushCurrent(context->native));
    if (status != GANTRY_OK) {
        return status;
    }
    if (same) {
        top->depth++;
        return GANTRY_OK;
    }
    struct run fresh = {.context = context, .depth = 1, .kind = (uint8_t)kind};
    fresh.place = gy_place;
    if (kind == RUN_INSIDE) {
        relax(&fresh);
    }
    runs[run_count++] = fresh;
    if (kind == RUN_INSIDE) {
        gy_place = GY_INSIDE;
    } else if (gy_place == GY_INSIDE) {
        gy_place = GY_OUTSIDE;
    }
    atomic_store_explicit(&gy_inside_ops, &ops, memory_order_relaxed);
    return GANTRY_OK;
}

gantry_status gy_context_push(struct gy_context *context)
{
    return push(context, RUN_INSIDE);
}

gantry_status gy_context_enter(struct gy_context *context)
{
    return gy_context_is_lost(context) ? gy_context_adopt_loss(context) : push(context, RUN_INSIDE);
}

gantry_status gy_context_acquire(struct gy_context *context)
{
    return gy_context_is_lost(context) ? gy_context_adopt_loss(context) : push(context, RUN_ACQUIRED);
}

gantry_status gy_context_pop(struct gy_context *context)
{
    CUcontext popped;
    if (run_count == 0 || runs[run_count - 1].context != context) {
        return GY_FAIL(GANTRY_ERR_STATE, "this thread's latest context is another one, or none");
    }
    gantry_status status = GY_CALL(context, cuCtxPopCurrent(&popped));
    if (status == GANTRY_OK && popped != context->native) {
        /* The application pushed a context of its own and did not take it away: leave things as they are. */
        status = GY_CALL(context, cuCtxPushCurrent(popped));
        return status != GANTRY_OK ? status
                                   : GY_FAIL(GANTRY_ERR_STATE, "another CUDA context was made current since");
    }
    if (--runs[run_count - 1].depth == 0) {
        end_run();
    }
    return status;
}

/* ---- outside -------------------------------------------------------------------------------- */

static void go_outside(bool stays)
{
    const struct run *run = &runs[run_count - 1];
    assert(run->kind == RUN_INSIDE && run_count <= MAX_RUNS);
    if (run->is_relaxed) {
        CUstreamCaptureMode mode = (CUstreamCaptureMode)run->outer;
        (void)exchange(run->context, &mode);
    }
    runs[run_count++] = (struct run){.kind = RUN_OUTSIDE, .lingers = stays};
    gy_place = stays ? GY_LINGERING : GY_OUTSIDE;
}

/* What was current when a thread that lingers called something else of the application's; it may have done
 * that in a callback that has its own context current. */
static _Thread_local CUcontext current_before;

static void leave(void)
{
    if (gy_place == GY_LINGERING) {
        struct gy_context *context = inside_run()->context;
        if (GY_CALL(context, cuCtxGetCurrent(&current_before)) != GANTRY_OK) {
            current_before = context->native;
        }
        gy_place = GY_OUTSIDE;
    } else {
        go_outside(false);
    }
}

void gy_inside_linger(void)
{
    go_outside(true);
}

/* What was acquired outside is given back. */
static GY_COLD void drop_acquired(void)
{
    CUcontext popped;
    for (; runs[run_count - 1].kind != RUN_OUTSIDE; run_count--) {
        for (uint32_t i = 0; i < runs[run_count - 1].depth; i++) {
            (void)runs[run_count - 1].context->driver->cuCtxPopCurrent(&popped);
        }
        restore(&runs[run_count - 1]);
    }
}

/* The latest run is OUTSIDE, or what was acquired there: back to the one before. */
static void return_inside(void)
{
    if (__builtin_expect(runs[run_count - 1].kind != RUN_OUTSIDE, 0)) {
        drop_acquired();
    }
    struct run *run = &runs[--run_count - 1];
    gy_place = GY_INSIDE;
    if (run->is_relaxed) {
        CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
        if (exchange(run->context, &mode) && run->outer == run->before) {
            run->before = run->outer =
                (uint8_t)mode; /* the code may have chosen another one for its thread */
        }
    }
}

void gy_inside_stop_lingering(void)
{
    return_inside();
}

/* Ours is below what was pushed outside, or it was replaced.  A callback that has popped it as well has taken
 * what it must not take: then ours stands in the place of what is there. */
static bool put_back(struct gy_context *context, CUcontext native, CUresult asked)
{
    const struct gy_driver *driver = context->driver;
    CUcontext popped = NULL, current = NULL;
    if (gy_context_check(context, asked, "cuCtxGetCurrent(&current)", __FILE__, __LINE__) != GANTRY_OK) {
        return false;
    }
    if (driver->cuCtxPopCurrent(&popped) == CUDA_SUCCESS && popped != NULL) {
        if (driver->cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == native) {
            return true;
        }
        (void)driver->cuCtxPushCurrent(popped);
    }
    (void)driver->cuCtxSetCurrent(native);
    return true;
}

bool gy_inside_put_back(struct gy_context *context, CUresult asked)
{
    return put_back(context, context->native, asked);
}

static bool come_back(void)
{
    const bool stays = lingers();
    if (stays) {
        gy_place = GY_LINGERING;
    } else {
        return_inside();
    }
    struct gy_context *context = inside_run()->context;
    const CUcontext native = stays ? current_before : context->native;
    CUcontext current = NULL;
    const CUresult asked = context->driver->cuCtxGetCurrent(&current);
    return current != native && put_back(context, native, asked);
}

void gy_inside_tell(const char *what)
{
    struct gy_context *context = inside_run()->context;
    if (!atomic_exchange_explicit(&context->told_of_current, true, memory_order_relaxed)) {
        gy_log(GANTRY_LOG_WARNING,
               "%s has left another CUDA context current, or none: the library's was made current again; "
               "said once",
               what);
    }
}

static const struct gy_inside ops = {leave, come_back, gy_inside_tell};
