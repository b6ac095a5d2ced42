/* SPDX-License-Identifier: MIT */
/* Threads use a sink under reader counts, so that gy_span_set_sink() can wait until the former one is idle;
 * emit() never blocks, so this wait is bounded.  There are several counts, each on a cache line of its own
 * and shared by few threads, since every span changes one twice.  A thread that counts itself in after the
 * sink was replaced uses the new one; so it is enough to see each count at 0 once, one after the other. */
#include "base/span.h"

#include "base/thread.h"

#include <sched.h>

#define STRIPES 64

_Atomic(struct gy_span_sink *) gy_span_current;
_Atomic(const struct gy_span_ranges *) gy_span_ranges;
static struct {
    _Alignas(64) atomic_uint inside; /* atomic: threads between the load of the sink and the end of emit() */
} stripes[STRIPES];
static atomic_uint threads;           /* atomic: threads that have emitted so far */
static _Thread_local unsigned stripe; /* number + 1; 0: none yet */

/* Returns the sink, which stays until leave(); NULL: there is none any more. */
static struct gy_span_sink *enter(atomic_uint **inside)
{
    if (stripe == 0) {
        stripe = atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) % STRIPES + 1;
    }
    *inside = &stripes[stripe - 1].inside;
    atomic_fetch_add(*inside, 1);
    return atomic_load(&gy_span_current);
}

static void leave(atomic_uint *inside)
{
    atomic_fetch_sub_explicit(inside, 1, memory_order_release);
}

static _Thread_local uint64_t flows[GY_SPAN_FLOWS];
static _Thread_local uint32_t flow_count;

void gy_span_add_flow(uint64_t flow)
{
    if (flow != 0 && flow_count < GY_SPAN_FLOWS) {
        flows[flow_count++] = flow;
    }
}

const uint64_t *gy_span_flows(uint32_t *count)
{
    *count = flow_count;
    return flows;
}

void gy_span_end(enum gy_span_category category, const char *name, uint64_t begin_ns, uint64_t id)
{
    if (begin_ns == 0 || !gy_span_on()) {
        flow_count = 0;
        return;
    }
    gy_span_emit(category, name, begin_ns, gy_clock_ns(), id);
}

void gy_span_emit(enum gy_span_category category, const char *name, uint64_t begin_ns, uint64_t end_ns,
                  uint64_t id)
{
    atomic_uint *inside;
    struct gy_span_sink *sink = enter(&inside);
    if (sink != NULL) {
        sink->emit(sink, category, name, begin_ns, end_ns, id);
    }
    leave(inside);
    flow_count = 0;
}

void gy_span_count(const char *name, uint64_t value)
{
    if (!gy_span_on()) {
        return;
    }
    atomic_uint *inside;
    struct gy_span_sink *sink = enter(&inside);
    if (sink != NULL && sink->count != NULL) {
        sink->count(sink, name, value);
    }
    leave(inside);
}

void gy_span_set_sink(struct gy_span_sink *sink)
{
    atomic_store(&gy_span_current, sink);
    for (unsigned i = 0; i < STRIPES; i++) {
        while (atomic_load(&stripes[i].inside) != 0) {
            sched_yield();
        }
    }
}
