/* SPDX-License-Identifier: MIT */
/* Random programs of driver calls: what a seed does is the same each time, with a limit or without, and so
 * must be what every call returns and what the memory holds at the end. */
#include "tests/limit/door_program.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { STREAMS = 4, EVENTS = 3, WORDS = 64, STEPS = 160 };

static struct scene {
    uint64_t state, trace; /* the trace is of results */
    CUstream streams[STREAMS];
    CUevent events[EVENTS];
    CUdeviceptr data[STREAMS]; /* each is of one stream: what is not ordered does not meet */
    CUgraphExec exec;
    int exec_stream; /* whose memory the graph changes; -1: there is no graph */
} s;

static uint32_t roll(uint32_t below)
{
    s.state = s.state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(s.state >> 33) % below;
}

static void note(CUresult result)
{
    s.trace = (s.trace ^ (uint64_t)result) * UINT64_C(1099511628211);
}

/* A graph of one to four kernels, captured in any mode; sometimes something is asked that breaks the capture.
 */
static void capture(int i)
{
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    note(cu.cuStreamBeginCapture(s.streams[i], (CUstreamCaptureMode)roll(3)));
    for (uint32_t k = roll(4) + 1; k > 0; k--) {
        note(door_add(s.streams[i], s.data[i], WORDS, k));
    }
    if (roll(6) == 0) {
        note(cu.cuStreamSynchronize(s.streams[i]));
    }
    note(cu.cuStreamEndCapture(s.streams[i], &graph));
    if (graph == NULL) {
        return;
    }
    const CUresult result = cu.cuGraphInstantiateWithFlags(&exec, graph, 0);
    note(result);
    note(cu.cuGraphDestroy(graph));
    if (s.exec_stream >= 0) {
        note(cu.cuStreamSynchronize(s.streams[s.exec_stream]));
        note(cu.cuGraphExecDestroy(s.exec));
    }
    s.exec = exec;
    s.exec_stream = result == CUDA_SUCCESS ? i : -1;
}

static void renew_stream(int i)
{
    note(cu.cuStreamSynchronize(s.streams[i]));
    note(cu.cuStreamDestroy(s.streams[i]));
    note(cu.cuStreamCreate(&s.streams[i], roll(2)));
}

static void wait_for_event(int i)
{
    const uint32_t e = roll(EVENTS);
    note(cu.cuEventRecord(s.events[e], s.streams[roll(STREAMS)]));
    note(cu.cuStreamWaitEvent(s.streams[i], s.events[e], 0));
}

static void step(void)
{
    const int i = (int)roll(STREAMS);
    const CUstream stream = s.streams[i];
    switch (roll(14)) {
    case 0:
        capture(i);
        break;
    case 1:
        renew_stream(i);
        break;
    case 2:
        wait_for_event(i);
        break;
    case 3:
        note(cu.cuStreamSynchronize(stream));
        break;
    case 4:
        note(cu.cuMemsetD32Async(s.data[i], roll(1000), WORDS / 2, stream));
        break;
    case 5:
        note(cu.cuMemcpyDtoDAsync(s.data[i], s.data[i] + WORDS * 2, WORDS * 2, stream));
        break;
    case 6:
        note(cu.cuLaunchKernel(door_kernel("add"), 0, 1, 1, 1, 1, 1, 0, stream, NULL,
                               NULL)); /* it is refused */
        break;
    case 7:
        if (s.exec_stream >= 0) {
            note(cu.cuGraphLaunch(s.exec, s.streams[s.exec_stream]));
        }
        break;
    case 8:
        note(cu.cuStreamQuery((CUstream)(uintptr_t)0x123456)); /* no stream at all */
        break;
    case 9:
        note(cu.cuCtxSynchronize());
        break;
    default:
        note(door_add(stream, s.data[i], WORDS, roll(1000)));
        break;
    }
}

void door_random(unsigned seed)
{
    uint64_t sum = UINT64_C(1469598103934665603);
    s.state = seed;
    s.exec_stream = -1;
    for (int i = 0; i < STREAMS; i++) {
        OK(cuStreamCreate(&s.streams[i], roll(2)));
        OK(cuMemAlloc(&s.data[i], WORDS * 4));
        OK(cuMemsetD32Async(s.data[i], (unsigned)i, WORDS, s.streams[i]));
    }
    for (int i = 0; i < EVENTS; i++) {
        OK(cuEventCreate(&s.events[i], roll(2) * 2));
    }
    OK(cuCtxSynchronize());
    for (int i = 0; i < STEPS; i++) {
        step();
    }
    OK(cuCtxSynchronize());
    for (int i = 0; i < STREAMS; i++) {
        uint32_t words[WORDS];
        OK(cuMemcpyDtoH(words, s.data[i], sizeof(words)));
        for (int k = 0; k < WORDS; k++) {
            sum = (sum ^ words[k]) * UINT64_C(1099511628211);
        }
    }
    printf("{\"trace\":%llu,\"sum\":%llu}\n", (unsigned long long)s.trace, (unsigned long long)sum);
}

/* ---- several threads ------------------------------------------------------------------------------ */

enum { THREADS = 6, ROUNDS = 60 };

/* Each has memory of its own, and a stream that is its own, the legacy one or its thread's default one. */
static void *work(void *context)
{
    static atomic_uint threads;
    const uint32_t number = atomic_fetch_add(&threads, 1);
    CUdeviceptr data;
    CUstream stream = NULL;
    OK(cuCtxSetCurrent(context));
    OK(cuMemAlloc(&data, WORDS * 4));
    if (number % 3 == 0) {
        OK(cuStreamCreate(&stream, number % 2));
    } else if (number % 3 == 1) {
        stream = (CUstream)(uintptr_t)2;
    }
    OK(cuMemsetD32Async(data, 1, WORDS, stream));
    for (uint32_t i = 0; i < ROUNDS; i++) {
        for (uint32_t k = 0; k < number + 1; k++) {
            CHECK(door_add(stream, data, WORDS, i + k) == CUDA_SUCCESS);
        }
        if (i % (number + 2) == 0) {
            OK(cuStreamSynchronize(stream));
        }
    }
    OK(cuStreamSynchronize(stream));
    static _Thread_local uint32_t words[WORDS];
    OK(cuMemcpyDtoH(words, data, sizeof(words)));
    uint32_t expected = 1;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        for (uint32_t k = 0; k < number + 1; k++) {
            expected = expected * 3 + i + k;
        }
    }
    CHECK(words[0] == expected && words[WORDS - 1] == expected);
    return NULL;
}

void door_threads(void)
{
    pthread_t threads[THREADS];
    CUcontext context;
    OK(cuCtxGetCurrent(&context));
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&threads[i], NULL, work, context) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    printf("{\"done\":true}\n");
}
