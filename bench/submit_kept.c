/* A graph of the work of `gantry bench submit` that is made once by hand, kept and launched again and again:
 * what is left of a step whose shape is known when nothing in it has changed. */
#include "bench/submit_work.h"

/* All streams come after what is on the first, or it after what is on all. */
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

bool bench_submit_keep(struct submit_work *work, CUgraphExec *out)
{
    struct raw_cuda *cuda = &work->cuda;
    CUgraph graph = NULL;
    if (!RAW(cuda, cuStreamBeginCapture(work->streams[0], CU_STREAM_CAPTURE_MODE_RELAXED))) {
        return false;
    }
    bool good = connect(work, true) && bench_submit_by_hand(work) && connect(work, false);
    good = RAW(cuda, cuStreamEndCapture(work->streams[0], &graph)) && good;
    good = good && RAW(cuda, cuGraphInstantiateWithFlags(out, graph, 0));
    return (graph == NULL || RAW(cuda, cuGraphDestroy(graph))) && good;
}

bool bench_submit_launch_kept(struct submit_work *work, CUgraphExec kept)
{
    return RAW(&work->cuda, cuGraphLaunch(kept, work->streams[0]));
}

bool bench_submit_drop_kept(struct submit_work *work, CUgraphExec kept)
{
    return RAW(&work->cuda, cuGraphExecDestroy(kept));
}
