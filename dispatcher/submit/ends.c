/* SPDX-License-Identifier: MIT */
#include "dispatcher/submit/ends.h"

#include "base/clock.h"
#include "base/times.h"
#include "work/exec.h"

#include <sched.h>
#include <stddef.h>

/* A graph of two event nodes, the second of which is given an event that has passed; and a gate before it. */
struct ends_question {
    const struct gy_driver *driver;
    struct gy_context *context;
    CUstream stream;
    CUevent first, second, asked;
    struct gy_exec exec;
    _Atomic(uint32_t) *gate;
};

static bool is_good(CUresult result)
{
    return result == CUDA_SUCCESS;
}

/* Make everything, with the event in the graph that is asked, which has passed.  It is waited for itself: on
 * an H200 that several programs use, cuEventQuery() said once in thirty times that an event had not passed
 * whose stream had been waited for. */
static bool make(struct ends_question *q)
{
    const struct gy_driver *driver = q->driver;
    q->exec.shape.places = 1;
    CUgraphNode first, second;
    return is_good(driver->cuStreamCreateWithPriority(&q->stream, CU_STREAM_NON_BLOCKING, 0)) &&
           is_good(driver->cuEventCreate(&q->first, CU_EVENT_DISABLE_TIMING)) &&
           is_good(driver->cuEventCreate(&q->second, CU_EVENT_DISABLE_TIMING)) &&
           is_good(driver->cuEventCreate(&q->asked, CU_EVENT_DISABLE_TIMING)) &&
           is_good(driver->cuGraphCreate(&q->exec.graph, 0)) &&
           is_good(driver->cuGraphAddEventRecordNode(&first, q->exec.graph, NULL, 0, q->first)) &&
           is_good(driver->cuGraphAddEventRecordNode(&second, q->exec.graph, &first, 1, q->second)) &&
           gy_exec_make(q->context, &q->exec, GY_EXEC_OF_STREAM) == GANTRY_OK &&
           is_good(driver->cuGraphExecEventRecordNodeSetEvent(q->exec.native, second, q->asked)) &&
           is_good(driver->cuEventRecord(q->asked, q->stream)) &&
           is_good(driver->cuEventSynchronize(q->asked));
}

/* A host function, behind which the device does not come before the gate is opened.  It leaves the gate alone
 * behind its last line. */
static void hold(void *arg)
{
    _Atomic(uint32_t) *gate = arg;
    while (atomic_load(gate) == GY_ENDS_SHUT) {
        sched_yield();
    }
    atomic_store(gate, GY_ENDS_LEFT);
}

/* The stream cannot be waited for: the host function may still run, but in a context that is lost. */
static void await_host_function(const struct ends_question *q)
{
    const uint64_t end = gy_clock_ns() + GY_LEAVE_NS;
    while (atomic_load(q->gate) != GY_ENDS_LEFT && gy_clock_ns() < end) {
        sched_yield();
    }
}

/* Launch it behind the gate. */
static bool ask(const struct ends_question *q)
{
    const struct gy_driver *driver = q->driver;
    if (!is_good(driver->cuLaunchHostFunc(q->stream, hold, q->gate))) {
        return false;
    }
    const CUresult launched = driver->cuGraphLaunch(q->exec.native, q->stream);
    const CUresult before = driver->cuEventQuery(q->asked);
    atomic_store(q->gate, GY_ENDS_OPEN);
    const CUresult waited = driver->cuStreamSynchronize(q->stream);
    if (!is_good(waited)) {
        await_host_function(q);
    }
    return is_good(launched) && before == CUDA_ERROR_NOT_READY && is_good(waited) &&
           is_good(driver->cuEventSynchronize(q->asked));
}

/* What the driver does not destroy at once it is told to destroy once more. */
static void destroy(struct ends_question *q)
{
    const struct gy_driver *driver = q->driver;
    const CUevent events[] = {q->first, q->second, q->asked};
    gy_exec_drop(q->context, &q->exec);
    for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
        if (events[i] != NULL && !is_good(driver->cuEventDestroy(events[i]))) {
            (void)driver->cuEventDestroy(events[i]);
        }
    }
    if (q->stream != NULL && !is_good(driver->cuStreamDestroy(q->stream))) {
        (void)driver->cuStreamDestroy(q->stream);
    }
}

void gy_ends_ask(struct gy_ends *ends, struct gy_context *context)
{
    if (atomic_exchange(&ends->is_asked, true)) {
        return;
    }
    struct ends_question q = {.driver = context->driver, .context = context, .gate = &ends->gate};
    const bool are_told = make(&q) && ask(&q);
    destroy(&q);
    atomic_store(&ends->are_told, are_told);
    if (!are_told) {
        gy_log(GANTRY_LOG_INFO, "the driver's graphs do not tell the end of a part of them: completions of "
                                "a graph are told when all of it has ended");
    }
}
