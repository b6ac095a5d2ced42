/* SPDX-License-Identifier: MIT */
/* CUDA code that is there already: its context is adopted, a function of its own enqueues on a task's stream,
 * and events order that behind what is on a stream of its own, and before what follows. */
#include <cuda.h>
#include <gantry/gantry.h>
#include <stdio.h>
#include <stdlib.h>
enum { COUNT = 1000, BYTES = COUNT * sizeof(uint32_t) };
static CUstream my_stream;
static CUevent filled, downloaded;
static void *device, *host;
static void must(gantry_status status)
{
    if (status != GANTRY_OK) {
        fprintf(stderr, "%s\n", gantry_last_error());
        exit(EXIT_FAILURE);
    }
}

static void must_cuda(CUresult result)
{
    if (result != CUDA_SUCCESS) {
        fprintf(stderr, "CUDA error %d\n", (int)result);
        exit(EXIT_FAILURE);
    }
}

/* The code that was there: clears the first half of some numbers, on any stream. */
static CUresult clear_first_half(void *numbers, CUstream stream)
{
    return cuMemsetD32Async((CUdeviceptr)(uintptr_t)numbers, 0, COUNT / 2, stream);
}

static gantry_launch_result clear_and_download(gantry_launch *launch, void *arg)
{
    CUstream stream = (CUstream)gantry_launch_stream(launch);
    bool failed = gantry_launch_leave_graph(launch) ||    /* events of a graph mean nothing outside of it */
                  cuStreamWaitEvent(stream, filled, 0) || /* after what `my_stream` was given before */
                  clear_first_half(device, stream) || gantry_launch_copy_dtoh(launch, host, device, BYTES) ||
                  cuEventRecord(downloaded, stream);
    return failed ? GANTRY_LAUNCH_FAILED : GANTRY_LAUNCH_DONE;
}

int main(void)
{
    CUcontext mine; /* here the device's primary context; any other can be adopted, too */
    gantry_context *context;
    gantry_taskman *graph;
    must_cuda(cuInit(0));
    must_cuda(cuDevicePrimaryCtxRetain(&mine, 0));
    must_cuda(cuCtxSetCurrent(mine));
    must_cuda(cuStreamCreate(&my_stream, CU_STREAM_NON_BLOCKING));
    must_cuda(cuEventCreate(&filled, CU_EVENT_DISABLE_TIMING));
    must_cuda(cuEventCreate(&downloaded, CU_EVENT_DISABLE_TIMING));
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.mode = GANTRY_CONTEXT_ADOPT;
    options.adopted = mine;
    must(gantry_context_create(&options, &context));
    gantry_heap *heap = gantry_context_heap(context);
    must(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, BYTES, 0, GANTRY_ALLOC_SITE("device"), &device));
    must(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, BYTES, 0, GANTRY_ALLOC_SITE("host"), &host));
    must_cuda(cuMemsetD32Async((CUdeviceptr)(uintptr_t)device, 7, COUNT, my_stream));
    must_cuda(cuEventRecord(filled, my_stream));
    gantry_taskman_options on = {sizeof(on), .gpu_dispatcher = gantry_context_dispatcher(context)};
    must(gantry_taskman_create(&on, &graph));
    gantry_task_desc desc = {sizeof(desc), GANTRY_TASK_DTOH, .label = "clear and download",
                             .launch = clear_and_download};
    must(gantry_taskman_submit(graph, &desc, NULL));
    must(gantry_taskman_start(graph));
    must(gantry_taskman_stop(graph)); /* the callback has recorded `downloaded` */
    must_cuda(cuStreamWaitEvent(my_stream, downloaded, 0));
    must_cuda(cuStreamSynchronize(my_stream));
    printf("the first number is %u, the last %u\n", ((uint32_t *)host)[0], ((uint32_t *)host)[COUNT - 1]);
    gantry_taskman_destroy(graph);
    gantry_context_destroy(context); /* before what it adopted */
    must_cuda(cuEventDestroy(filled));
    must_cuda(cuEventDestroy(downloaded));
    must_cuda(cuStreamDestroy(my_stream));
    must_cuda(cuDevicePrimaryCtxRelease(0));
    return 0;
}
