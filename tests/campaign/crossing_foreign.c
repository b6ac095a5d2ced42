/* SPDX-License-Identifier: MIT */
/* CUDA calls that callbacks make by themselves, and the emulated driver's controls.  The functions are
 * looked up by name, as the library does; none of its declarations is used. */
#include "tests/campaign/crossing.h"
#include "tests/support/emu_controls.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long long address;

struct copy_attributes { /* CUmemcpyAttributes */
    int source_order;
    struct {
        int type, id;
    } source_hint, dest_hint;
    unsigned flags;
};

struct resource { /* CUdevResource */
    int type;
    unsigned char between[92];
    union {
        unsigned sm_count;
        unsigned long long room[6];
    };
};

enum { PLACES_MOST = 64 }; /* as many as a context has streams */
enum { RELAXED = 2, NON_BLOCKING = 1, NO_TIMING = 2, ORDER_STREAM = 1, RESOURCE_SM = 1, GREEN_SMS = 16 };

#define FUNCTIONS(F)                                                                                   \
    F(cuInit, "cuInit", (unsigned))                                                                    \
    F(cuDeviceGetCount, "cuDeviceGetCount", (int *))                                                   \
    F(cuStreamCreate, "cuStreamCreate", (void **, unsigned))                                           \
    F(cuStreamDestroy, "cuStreamDestroy_v2", (void *))                                                 \
    F(cuEventCreate, "cuEventCreate", (void **, unsigned))                                             \
    F(cuEventDestroy, "cuEventDestroy_v2", (void *))                                                   \
    F(cuEventRecord, "cuEventRecord", (void *, void *))                                                \
    F(cuStreamWaitEvent, "cuStreamWaitEvent", (void *, void *, unsigned))                              \
    F(cuLaunchHostFunc, "cuLaunchHostFunc", (void *, void (*)(void *), void *))                        \
    F(cuMemcpyAsync, "cuMemcpyAsync", (address, address, size_t, void *))                              \
    F(cuStreamBeginCapture, "cuStreamBeginCapture_v2", (void *, int))                                  \
    F(cuStreamEndCapture, "cuStreamEndCapture", (void *, void **))                                     \
    F(cuGraphInstantiate, "cuGraphInstantiateWithFlags", (void **, void *, unsigned long long))        \
    F(cuGraphDestroy, "cuGraphDestroy", (void *))                                                      \
    F(cuGraphExecDestroy, "cuGraphExecDestroy", (void *))                                              \
    F(cuMemAlloc, "cuMemAlloc_v2", (address *, size_t))                                                \
    F(cuMemFree, "cuMemFree_v2", (address))                                                            \
    F(cuDeviceGetDevResource, "cuDeviceGetDevResource", (int, struct resource *, int))                 \
    F(cuDevSmResourceSplitByCount, "cuDevSmResourceSplitByCount",                                      \
      (struct resource *, unsigned *, const struct resource *, struct resource *, unsigned, unsigned)) \
    F(cuDevResourceGenerateDesc, "cuDevResourceGenerateDesc", (void **, struct resource *, unsigned))  \
    F(cuGreenCtxCreate, "cuGreenCtxCreate", (void **, void *, int, unsigned))                          \
    F(cuGreenCtxDestroy, "cuGreenCtxDestroy", (void *))                                                \
    F(cuCtxFromGreenCtx, "cuCtxFromGreenCtx", (void **, void *))                                       \
    F(cuMemcpyBatchAsync, "cuMemcpyBatchAsync",                                                        \
      (address *, address *, size_t *, size_t, struct copy_attributes *, size_t *, size_t, size_t *,   \
       void *))

static struct {
#define F(name, symbol, parameters) int(*name) parameters;
    FUNCTIONS(F)
#undef F
} cuda;

struct gantry_emu_control cross_emu;

bool cross_is_device(void)
{
    const char *driver = getenv("GANTRY_TEST_DRIVER");
    return driver != NULL && strcmp(driver, "cuda") == 0;
}

bool cross_foreign_open(void)
{
    const char *path = getenv("GANTRY_EMULATOR");
    void *library = dlopen(cross_is_device() ? "libcuda.so.1"
                           : path != NULL    ? path
                                             : "libgantry-emu.so",
                           RTLD_NOW);
    if (library == NULL) {
        fprintf(stderr, "skipped: %s\n", dlerror());
        return false;
    }
#define F(name, symbol, parameters) *(void **)&cuda.name = dlsym(library, symbol);
    FUNCTIONS(F)
#undef F
    return cross_is_device() || emu_controls_bind(&cross_emu, library);
}

/* The emulated driver has two for it. */
bool cross_two_devices(void)
{
    static int count;
    if (cross_is_device() && count == 0) {
        count = 1;
        if (cross_foreign_open() && cuda.cuInit(0) == 0) {
            (void)cuda.cuDeviceGetCount(&count);
        }
    }
    return !cross_is_device() || count >= 2;
}

int64_t cross_live_objects(void)
{
    int64_t sum = 0;
    for (int kind = 0; !cross_is_device() && kind < GANTRY_EMU_LIVE_KINDS; kind++) {
        sum += cross_emu.live(kind);
    }
    return sum;
}

/* The calling thread waits for all work of the context.  The driver's own call is refused while something
 * is captured, and after a cancelled step that may still be so. */
int cross_synchronize(struct cross_run *run)
{
    gantry_status status = GANTRY_OK;
    for (uint32_t d = 0; d < run->devices; d++) {
        gantry_status one = gantry_context_synchronize(run->contexts[d]);
        status = status == GANTRY_OK ? one : status;
    }
    return status;
}

static struct cross_cell *cell_of(const struct cross_run *run, uint32_t node) /* wait for the GPU */
{
    return (struct cross_cell *)(run->cells_device + node * sizeof(struct cross_cell));
}

/* An executable graph of the program's own, which copies what RAW_COPY does.  For an independent node it
 * copies to the same word in each step: launches of one graph come one after the other. */
static bool make_graph(struct cross_run *run, uint32_t node)
{
    const struct cross_node *n = &run->program->nodes[node];
    address to = (address)(uintptr_t)cross_copy_dest(cell_of(run, node), n, 0);
    address from = (address)(uintptr_t)cross_copy_source(cell_of(run, node), n);
    void *stream = run->own_streams[node], *graph = NULL;
    bool done = cuda.cuStreamBeginCapture(stream, RELAXED) == 0 &&
                cuda.cuMemcpyAsync(to, from, 4, stream) == 0 &&
                cuda.cuStreamEndCapture(stream, &graph) == 0 &&
                cuda.cuGraphInstantiate(&run->own_graphs[node], graph, 0) == 0;
    return graph != NULL && cuda.cuGraphDestroy(graph) == 0 && done;
}

/* The program's own streams and graphs have taken places that the context took ahead for its streams
 * (decision 58).  Whoever has work that is not to be waited for takes as many again, as the context did. */
static bool take_places(void)
{
    void *streams[PLACES_MOST];
    uint32_t made = 0;
    while (made < PLACES_MOST && cuda.cuStreamCreate(&streams[made], NON_BLOCKING) == 0) {
        made++;
    }
    for (uint32_t i = 0; i < made; i++) {
        (void)cuda.cuStreamDestroy(streams[i]);
    }
    return made == PLACES_MOST;
}

bool cross_foreign_prepare(struct cross_run *run)
{
    const struct cross_program *p = run->program;
    bool done = true;
    for (uint32_t i = 0; i < p->node_count && done; i++) {
        int foreign = p->nodes[i].foreign;
        gantry_context *context = run->contexts[p->nodes[i].device];
        done = gantry_context_acquire(context) == GANTRY_OK;
        if (foreign == VALUE_JOINED || foreign == VALUE_UNJOINED || foreign == VALUE_OWN_GRAPH) {
            done = cuda.cuStreamCreate(&run->own_streams[i], NON_BLOCKING) == 0 &&
                   cuda.cuEventCreate(&run->own_events[i][0], NO_TIMING) == 0 &&
                   cuda.cuEventCreate(&run->own_events[i][1], NO_TIMING) == 0;
        }
        done = done && (foreign != VALUE_OWN_GRAPH || make_graph(run, i));
        (void)gantry_context_release(context);
    }
    for (uint32_t d = 0; d < run->devices && done && cross_has(p, VALUE_OLDER); d++) {
        done = gantry_context_acquire(run->contexts[d]) == GANTRY_OK;
        if (done) {
            done = take_places();
            (void)gantry_context_release(run->contexts[d]);
        }
    }
    return done;
}

void cross_foreign_end(struct cross_run *run)
{
    for (uint32_t i = 0; i < run->program->node_count; i++) {
        gantry_context *context = run->contexts[run->program->nodes[i].device];
        if (run->own_graphs[i] == NULL && run->own_streams[i] == NULL) {
            continue;
        }
        bool acquired = gantry_context_acquire(context) == GANTRY_OK;
        if (run->own_graphs[i] != NULL) {
            (void)cuda.cuGraphExecDestroy(run->own_graphs[i]);
        }
        if (run->own_streams[i] != NULL) {
            (void)cuda.cuStreamDestroy(run->own_streams[i]);
            (void)cuda.cuEventDestroy(run->own_events[i][0]);
            (void)cuda.cuEventDestroy(run->own_events[i][1]);
        }
        if (acquired) {
            (void)gantry_context_release(context);
        }
    }
}

static void on_host(void *counter)
{
    atomic_fetch_add((atomic_uint *)counter, 1);
}

static int fork_off(struct cross_run *run, uint32_t node, void *stream)
{
    int result = cuda.cuEventRecord(run->own_events[node][0], stream);
    return result == 0 ? cuda.cuStreamWaitEvent(run->own_streams[node], run->own_events[node][0], 0) : result;
}

static int join(struct cross_run *run, uint32_t node, void *stream)
{
    int result = cuda.cuEventRecord(run->own_events[node][1], run->own_streams[node]);
    return result == 0 ? cuda.cuStreamWaitEvent(stream, run->own_events[node][1], 0) : result;
}

static int copy_as_batch(address to, address from, void *stream)
{
    struct copy_attributes attributes;
    size_t bytes = 4, zero = 0, failed = 0;
    memset(&attributes, 0, sizeof(attributes));
    attributes.source_order = ORDER_STREAM;
    return cuda.cuMemcpyBatchAsync(&to, &from, &bytes, 1, &attributes, &zero, 1, &failed, stream);
}

static int allocate(void)
{
    address block = 0;
    int result = cuda.cuMemAlloc(&block, 4096);
    return result == 0 ? cuda.cuMemFree(block) : result;
}

static int call_host(struct cross_run *run, uint32_t node, uint32_t step, uint32_t call, void *stream)
{
    int result = cuda.cuLaunchHostFunc(stream, on_host, &run->hosts[node]);
    if (result == 0) {
        atomic_fetch_or(&run->hosts_expected[node][step], 1U << call);
    }
    return result;
}

/* A callback that checks every status: it returns FAILED when a call was refused, so that the library can
 * call it again where nothing is captured. */
gantry_launch_result cross_foreign(struct cross_run *run, gantry_launch *launch, uint32_t node, uint32_t step,
                                   uint32_t call)
{
    const struct cross_program *p = run->program;
    void *stream = gantry_launch_stream(launch);
    struct cross_cell *cell = cell_of(run, node);
    address to = (address)(uintptr_t)cross_copy_dest(cell, &p->nodes[node], step);
    address from = (address)(uintptr_t)cross_copy_source(cell, &p->nodes[node]);
    int result = 0, kind = p->nodes[node].foreign;
    if (kind == VALUE_RAW_COPY) {
        result = cuda.cuMemcpyAsync(to, from, 4, stream);
    } else if (kind == VALUE_HOST_FUNCTION) {
        result = call_host(run, node, step, call, stream);
    } else if (kind == VALUE_JOINED) {
        result = fork_off(run, node, stream);
        result = result == 0 ? cuda.cuMemcpyAsync(to, from, 4, run->own_streams[node]) : result;
        result = result == 0 ? join(run, node, stream) : result;
    } else if (kind == VALUE_UNJOINED) {
        result = fork_off(run, node, stream);
        result = result == 0 ? call_host(run, node, step, call, run->own_streams[node]) : result;
    } else if (kind == VALUE_RAW_BATCH) {
        result = copy_as_batch(to, from, stream);
    } else if (kind == VALUE_OWN_GRAPH) {
        result = gantry_launch_graph(launch, run->own_graphs[node]) == GANTRY_OK ? 0 : -1;
    } else {
        gantry_status left = kind == VALUE_LEAVE ? gantry_launch_leave_graph(launch) : GANTRY_OK;
        atomic_fetch_add(&run->leaves, 1);
        result = left == GANTRY_OK ? allocate() : -1;
    }
    if (result != 0) {
        atomic_store(&run->seen[step][node].foreign_code, (unsigned)result);
        return GANTRY_LAUNCH_FAILED;
    }
    atomic_store(&run->seen[step][node].foreign_code, 0);
    atomic_fetch_add(&run->done[kind], 1);
    return GANTRY_LAUNCH_DONE;
}

/* A green context that somebody else has made is adopted beside the program's context, and reports its own
 * SMs. */
bool cross_green(struct cross_run *run)
{
    struct resource all, part;
    unsigned groups = 1;
    void *description = NULL, *green = NULL, *native = NULL;
    gantry_context *adopted = NULL;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_partition_info info = {.struct_size = sizeof(info)};
    if (cuda.cuDeviceGetDevResource(0, &all, RESOURCE_SM) != 0 ||
        cuda.cuDevSmResourceSplitByCount(&part, &groups, &all, NULL, 0, GREEN_SMS) != 0 ||
        cuda.cuDevResourceGenerateDesc(&description, &part, 1) != 0 ||
        cuda.cuGreenCtxCreate(&green, description, 0, 1) != 0 ||
        cuda.cuCtxFromGreenCtx(&native, green) != 0) {
        cross_break(run, "no green context of its own");
        return false;
    }
    options.driver = cross_is_device() ? GANTRY_DRIVER_CUDA : GANTRY_DRIVER_EMULATED;
    options.mode = GANTRY_CONTEXT_ADOPT;
    options.adopted = native;
    bool done =
        cross_must(run, gantry_context_create(&options, &adopted), "green context to adopt") &&
        cross_must(run, gantry_partition_get_info(gantry_partition_default(adopted), &info), "its SMs");
    if (done && info.granted_sms != part.sm_count) {
        cross_break(run, "a green context of %u SMs was adopted and tells %u", part.sm_count,
                    info.granted_sms);
    }
    gantry_context_destroy(adopted);
    (void)cuda.cuGreenCtxDestroy(green);
    atomic_fetch_add(&run->beside.greens, 1);
    return done;
}
