/* SPDX-License-Identifier: MIT */
#include "tests/profile/fake_gpu.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>

#define START_NS 5000000000000 /* GPU time when the host's clock says `origin` */

struct fake_gpu fake;

static uint64_t origin;
static _Thread_local CUstreamCaptureMode capture_mode;
static char streams[FAKE_STREAMS + 1]; /* the last one is for anchors */

struct fake_event {
    bool anchor, mute;
    uint64_t time_ns;
};

uint64_t fake_gpu_ns(uint64_t host_ns)
{
    return (uint64_t)(START_NS + (int64_t)((double)(int64_t)(host_ns - origin) * fake.rate));
}

uint64_t fake_host_ns(uint64_t gpu_ns)
{
    return origin + (uint64_t)(int64_t)((double)((int64_t)gpu_ns - START_NS) / fake.rate);
}

CUstream fake_stream(uint32_t index)
{
    return (CUstream)(void *)&streams[index];
}

/* Count a call; returns the result that it has to return, with the lock held. */
static CUresult enter(void)
{
    pthread_mutex_lock(&fake.lock);
    return fake.calls++ == fake.fail_at ? fake.fail_with : CUDA_SUCCESS;
}

static CUresult leave(CUresult result)
{
    pthread_mutex_unlock(&fake.lock);
    return result;
}

static CUresult event_create(CUevent *event, unsigned int flags)
{
    (void)flags;
    CUresult result = enter();
    if (result == CUDA_SUCCESS) {
        *event = (CUevent)calloc(1, sizeof(struct fake_event));
        fake.live++;
    }
    return leave(result);
}

static CUresult event_destroy(CUevent event)
{
    CUresult result = enter();
    fake.live--; /* also when it reports a failure, or the test could not see a leak */
    free(event);
    return leave(result);
}

static CUresult event_record(CUevent event, CUstream stream)
{
    CUresult result = enter();
    struct fake_event *e = (struct fake_event *)event;
    size_t index = (size_t)((char *)stream - streams);
    if (result == CUDA_SUCCESS) {
        e->anchor = index == FAKE_STREAMS;
        e->mute = e->anchor && fake.mute;
        bool now = e->anchor || fake.next_ns[index] == FAKE_NOW;
        e->time_ns = now ? fake_gpu_ns(gy_clock_ns()) : fake.next_ns[index];
        e->time_ns += e->anchor ? (uint64_t)fake.jump_ns : 0;
        fake.last_ns = e->anchor ? fake.last_ns : e->time_ns;
    }
    return leave(result);
}

static CUresult event_query(CUevent event)
{
    CUresult result = enter();
    const struct fake_event *e = (const struct fake_event *)event;
    if (result == CUDA_SUCCESS && (e->anchor ? e->mute : e->time_ns > fake.reached_ns)) {
        result = CUDA_ERROR_NOT_READY;
    }
    return leave(result);
}

static CUresult event_elapsed(float *milliseconds, CUevent from, CUevent to)
{
    CUresult result = enter();
    const struct fake_event *a = (const struct fake_event *)from, *b = (const struct fake_event *)to;
    if (result == CUDA_SUCCESS) {
        *milliseconds = (float)((double)(int64_t)(b->time_ns - a->time_ns) / 1e6);
    }
    return leave(result);
}

static CUresult stream_create(CUstream *stream, unsigned int flags, int priority)
{
    (void)flags;
    CUresult result = enter();
    if (result == CUDA_SUCCESS && priority != -5) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (result == CUDA_SUCCESS) {
        *stream = fake_stream(FAKE_STREAMS);
        fake.live++;
    }
    return leave(result);
}

static CUresult stream_destroy(CUstream stream)
{
    (void)stream;
    CUresult result = enter();
    fake.live--;
    return leave(result);
}

static CUresult priority_range(int *least, int *greatest)
{
    CUresult result = enter();
    *least = 0;
    *greatest = -5;
    return leave(result);
}

static CUresult push_current(CUcontext context)
{
    (void)context;
    return CUDA_SUCCESS;
}

static CUresult get_current(CUcontext *context)
{
    *context = NULL; /* what all of its contexts are */
    return CUDA_SUCCESS;
}

static CUresult pop_current(CUcontext *context)
{
    *context = NULL;
    return CUDA_SUCCESS;
}

static CUresult exchange_mode(CUstreamCaptureMode *mode)
{
    const CUstreamCaptureMode before = capture_mode;
    capture_mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}

static CUresult error_name(CUresult result, const char **name)
{
    (void)result;
    *name = "CUDA_ERROR_FAKE";
    return CUDA_SUCCESS;
}

static const struct gy_driver driver = {
    .name = "fake",
    .cuEventCreate = event_create,
    .cuEventDestroy = event_destroy,
    .cuEventRecord = event_record,
    .cuEventQuery = event_query,
    .cuEventElapsedTime = event_elapsed,
    .cuStreamCreateWithPriority = stream_create,
    .cuStreamDestroy = stream_destroy,
    .cuCtxGetStreamPriorityRange = priority_range,
    .cuCtxPushCurrent = push_current,
    .cuCtxPopCurrent = pop_current,
    .cuCtxGetCurrent = get_current,
    .cuThreadExchangeStreamCaptureMode = exchange_mode,
    .cuGetErrorName = error_name,
    .cuGetErrorString = error_name,
};

void fake_gpu_reset(struct gy_context *context)
{
    fake = (struct fake_gpu){.lock = PTHREAD_MUTEX_INITIALIZER, .rate = 1.0, .fail_at = -1};
    origin = gy_clock_ns();
    *context = (struct gy_context){.driver = &driver};
    gy_mutex_init(&context->cause_lock, GY_RANK_LEAF);
    snprintf(context->info.name, sizeof(context->info.name), "fake");
    context->self = context;
}
