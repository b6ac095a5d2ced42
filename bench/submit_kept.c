/* SPDX-License-Identifier: MIT */
/* A graph of the work of `gantry bench submit` that is made once by hand, kept and launched again and again:
 * this is what remains of a step of known shape in which nothing has changed.  When arguments have changed,
 * its nodes are set. */
#include "bench/submit_work.h"

/* Order all streams behind the work on the first one, or the first one behind the work on all. */
static bool connect(struct submit_work *work, bool forks)
{
    struct raw_cuda *cuda = &work->cuda;
    if (forks && !RAW(cuda, cuEventRecord(work->events[0], work->streams[0]))) {
        return false;
    }
    for (uint32_t p = 1; p < PIPELINES; p++) {
        if (forks ? !RAW(cuda, cuStreamWaitEvent(work->streams[p], work->events[0], 0))
                  : !RAW(cuda, cuEventRecord(work->events[p], work->streams[p])) ||
                        !RAW(cuda, cuStreamWaitEvent(work->streams[0], work->events[p], 0))) {
            return false;
        }
    }
    return true;
}

/* The pipeline to whose cell the node's argument points. */
static bool find_pipeline(struct submit_work *work, uint32_t index)
{
    CUDA_KERNEL_NODE_PARAMS_v2 params;
    if (!RAW(&work->cuda, cuGraphKernelNodeGetParams(work->kept_nodes[index], &params))) {
        return false;
    }
    const void *const cell = *(void **)params.kernelParams[0];
    uint8_t p = 0;
    while (p < PIPELINES && work->cell[p] != cell) {
        p++;
    }
    work->kept_pipelines[index] = p;
    return p < PIPELINES;
}

static bool find_nodes(struct submit_work *work)
{
    size_t count = MOST_KEPT;
    bool good = RAW(&work->cuda, cuGraphGetNodes(work->kept_graph, work->kept_nodes, &count)) &&
                count == work->kernels;
    for (uint32_t i = 0; i < work->kernels && good; i++) {
        good = find_pipeline(work, i);
    }
    return good;
}

bool bench_submit_patch_kept(struct submit_work *work, CUgraphExec kept)
{
    bool good = true;
    work->hand_turn++;
    for (uint32_t i = 0; i < work->kernels && good && work->changed != 0; i++) {
        void **cell = bench_submit_cell(work, i, 1);
        if (cell < &work->cell[PIPELINES]) { /* it does not change */
            continue;
        }
        void *args[] = {&work->cell[work->kept_pipelines[i] + (work->hand_turn % 2 != 0 ? PIPELINES : 0)]};
        const CUDA_KERNEL_NODE_PARAMS_v2 params = {.func = work->function,
                                                   .gridDimX = 1,
                                                   .gridDimY = 1,
                                                   .gridDimZ = 1,
                                                   .blockDimX = 32,
                                                   .blockDimY = 1,
                                                   .blockDimZ = 1,
                                                   .kernelParams = args};
        good = RAW(&work->cuda, cuGraphExecKernelNodeSetParams(kept, work->kept_nodes[i], &params));
    }
    return good;
}

bool bench_submit_keep(struct submit_work *work, CUgraphExec *out)
{
    struct raw_cuda *cuda = &work->cuda;
    work->kept_graph = NULL;
    if (!RAW(cuda, cuStreamBeginCapture(work->streams[0], CU_STREAM_CAPTURE_MODE_RELAXED))) {
        return false;
    }
    bool good = connect(work, true) && bench_submit_by_hand(work) && connect(work, false);
    good = RAW(cuda, cuStreamEndCapture(work->streams[0], &work->kept_graph)) && good;
    return good && RAW(cuda, cuGraphInstantiateWithFlags(out, work->kept_graph, 0)) && find_nodes(work);
}

bool bench_submit_launch_kept(struct submit_work *work, CUgraphExec kept)
{
    return RAW(&work->cuda, cuGraphLaunch(kept, work->streams[0]));
}

bool bench_submit_drop_kept(struct submit_work *work, CUgraphExec kept)
{
    return RAW(&work->cuda, cuGraphExecDestroy(kept)) && RAW(&work->cuda, cuGraphDestroy(work->kept_graph));
}
