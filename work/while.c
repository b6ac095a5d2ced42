/* SPDX-License-Identifier: MIT */
#include "work/while.h"

#include "base/alloc.h"

#include <gantry/host_module.h>

#include <assert.h>
#include <string.h>

/* ---- the kernel that decides ------------------------------------------------------------------ */

/* The driver links cudaGraphSetConditional() when it compiles this text; offline compilers cannot. */
static const char decide_ptx[] =
    ".version 8.3\n"
    ".target sm_80\n"
    ".address_size 64\n"
    ".extern .func cudaGraphSetConditional (.param .b64 handle, .param .b32 value);\n"
    ".visible .entry gantry_loop_decide(.param .u64 condition, .param .u64 word, .param .u64 counters,\n"
    "                                   .param .u64 host)\n"
    "{\n"
    "    .reg .pred %p<5>;\n"
    "    .reg .b32 %r<12>;\n"
    "    .reg .b64 %rd<5>;\n"
    "    ld.param.u64 %rd1, [condition];\n"
    "    ld.param.u64 %rd2, [word];\n"
    "    ld.param.u64 %rd3, [counters];\n"
    "    ld.param.u64 %rd4, [host];\n"
    "    ld.volatile.global.v4.u32 {%r1, %r10, %r2, %r11}, [%rd4];\n" /* cancelled, most; and finished */
    "    ld.volatile.global.u32 %r3, [%rd2];\n"                       /* the word */
    "    ld.volatile.global.v2.u32 {%r4, %r5}, [%rd3];\n"             /* entries ended, turns */
    "    add.u32 %r4, %r4, 1;\n"
    "    add.u32 %r5, %r5, 1;\n"
    "    and.b32 %r6, %r4, 32;\n" /* which word of `cancelled`, and which bit of that */
    "    setp.eq.u32 %p3, %r6, 0;\n"
    "    selp.b32 %r6, %r1, %r10, %p3;\n"
    "    and.b32 %r11, %r4, 31;\n"
    "    shr.u32 %r6, %r6, %r11;\n"
    "    and.b32 %r6, %r6, 1;\n"
    "    setp.ne.u32 %p1, %r3, 0;\n"
    "    setp.lt.u32 %p2, %r5, %r2;\n"
    "    setp.eq.u32 %p3, %r6, 0;\n"
    "    and.pred %p4, %p1, %p2;\n"
    "    and.pred %p4, %p4, %p3;\n"
    "    selp.u32 %r7, 1, 0, %p4;\n"
    "    { .param .b64 a; .param .b32 b;\n"
    "      st.param.b64 [a], %rd1;\n"
    "      st.param.b32 [b], %r7;\n"
    "      call.uni cudaGraphSetConditional, (a, b); }\n"
    "    @%p4 st.volatile.global.u32 [%rd3+4], %r5;\n"
    "    @%p4 ret;\n"
    "    mov.u32 %r8, 0;\n"
    "    st.volatile.global.v2.u32 [%rd3], {%r4, %r8};\n"
    "    selp.u32 %r9, 2, 3, %p3;\n" /* the limit, or cancelled */
    "    selp.u32 %r9, %r9, 1, %p1;\n"
    "    st.volatile.global.u32 [%rd4+16], %r5;\n"
    "    st.volatile.global.u32 [%rd4+20], %r9;\n"
    "    membar.sys;\n"
    "    st.volatile.global.u32 [%rd4+12], %r4;\n"
    "    ret;\n"
    "}\n";

_Static_assert(offsetof(struct gy_while_host, most) == 8 && offsetof(struct gy_while_host, finished) == 12 &&
                   offsetof(struct gy_while_host, turns) == 16 && offsetof(struct gy_while_host, end) == 20,
               "the offsets in the text above");

static _Atomic(uint32_t) *word_of(struct gy_while_host *host, uint32_t entry)
{
    return &host->cancelled[entry / 32 % 2];
}

static uint32_t bit_of(uint32_t entry)
{
    return UINT32_C(1) << entry % 32;
}

/* The same for the emulated driver. */
static void decide(struct gantry_host_thread *self, void *const *args)
{
    uint64_t condition;
    const volatile uint32_t *word;
    volatile uint32_t *counters;
    struct gy_while_host *host;
    memcpy(&condition, args[0], sizeof(condition));
    memcpy((void *)&word, args[1], sizeof(word));
    memcpy((void *)&counters, args[2], sizeof(counters));
    memcpy((void *)&host, args[3], sizeof(host));
    const uint32_t entry = counters[0] + 1, turns = counters[1] + 1;
    const bool wants = *word != 0;
    const bool is_cancelled = (atomic_load(word_of(host, entry)) & bit_of(entry)) != 0;
    const bool goes_on = wants && turns < atomic_load(&host->most) && !is_cancelled;
    self->ops->set_condition(self, condition, goes_on);
    if (goes_on) {
        counters[1] = turns;
        return;
    }
    counters[0] = entry;
    counters[1] = 0;
    atomic_store(&host->turns, turns);
    atomic_store(&host->end, (uint32_t)(!wants         ? GY_WHILE_BY_WORD
                                        : is_cancelled ? GY_WHILE_CANCELLED
                                                       : GY_WHILE_BY_LIMIT));
    atomic_store(&host->finished, entry);
}

static const uint32_t decide_bytes[] = {8, 8, 8, 8};
static const struct gantry_host_kernel host_kernels[] = {{"gantry_loop_decide", decide, 4, decide_bytes}};
static const struct gantry_host_module host_module = {
    GANTRY_HOST_MODULE_MAGIC, "loop", 1, host_kernels, 0, 0};
static const char *const kernel_names[] = {"gantry_loop_decide", NULL};
static const gantry_module_image image = {.struct_size = sizeof(gantry_module_image),
                                          .name = "loop",
                                          .ptx = decide_ptx,
                                          .host = &host_module,
                                          .kernel_names = kernel_names};

/* ---- records ---------------------------------------------------------------------------------- */

void gy_while_pool_init(struct gy_while_pool *pool, struct gy_context *context)
{
    *pool = (struct gy_while_pool){.context = context};
    gy_mutex_init(&pool->lock, GY_RANK_LEAF);
}

static void free_record(struct gy_while_pool *pool, struct gy_while_record *record)
{
    if (record->counters != 0) {
        (void)GY_CALL(pool->context, cuMemFree(record->counters));
    }
    if (record->host != NULL) {
        (void)GY_CALL(pool->context, cuMemFreeHost(record->host));
    }
    gy_free(record);
}

void gy_while_pool_fini(struct gy_while_pool *pool)
{
    while (pool->free != NULL) {
        struct gy_while_record *record = pool->free;
        pool->free = record->next;
        free_record(pool, record);
    }
    gy_module_unload(pool->module);
    gy_mutex_fini(&pool->lock);
}

/* Load the kernel that decides; the context is current.  A driver that cannot is none to complain about. */
static void ask(struct gy_while_pool *pool)
{
    const struct gy_driver *driver = pool->context->driver;
    struct gantry_module *module = NULL;
    struct gantry_kernel *kernel = NULL;
    if (driver->cuGraphAddNode != NULL && driver->cuGraphConditionalHandleCreate != NULL &&
        gy_nodes_are_possible(driver)) {
        gantry_status status = gy_module_load(pool->context, &image, &module);
        if (status == GANTRY_OK) {
            status = gy_module_kernel(module, kernel_names[0], &kernel);
        }
        if (status != GANTRY_OK && !gy_context_is_lost(pool->context)) {
            gy_log(GANTRY_LOG_INFO, "loops are decided by the CPU: %s", gy_error_last()->text);
            gy_error_clear();
        }
    } else {
        gy_log(GANTRY_LOG_INFO, "loops are decided by the CPU: the driver is older than CUDA 12.4");
    }
    gy_mutex_lock(&pool->lock);
    const bool is_first = !pool->was_asked;
    if (is_first) {
        pool->was_asked = true;
        pool->module = module;
        pool->decide = kernel;
    }
    gy_mutex_unlock(&pool->lock);
    if (!is_first) {
        gy_module_unload(module);
    }
}

/* Take a record that the device has left, out of the free ones. */
static struct gy_while_record *find_free(struct gy_while_pool *pool, bool *was_asked)
{
    gy_mutex_lock(&pool->lock);
    *was_asked = pool->was_asked;
    struct gy_while_record **place = &pool->free;
    while (*place != NULL && atomic_load(&(*place)->host->finished) != atomic_load(&(*place)->launched)) {
        place = &(*place)->next;
    }
    struct gy_while_record *record = *place;
    if (record != NULL) {
        *place = record->next;
    }
    gy_mutex_unlock(&pool->lock);
    return record;
}

static gantry_status make_record(struct gy_while_pool *pool, struct gy_while_record *record)
{
    static const uint32_t zero[2] = {0, 0};
    gantry_status status =
        GY_CALL(pool->context,
                cuMemHostAlloc((void **)&record->host, sizeof(*record->host), CU_MEMHOSTALLOC_DEVICEMAP));
    if (status != GANTRY_OK) {
        record->host = NULL;
        return status;
    }
    memset((void *)record->host, 0, sizeof(*record->host));
    status = GY_CALL(pool->context, cuMemHostGetDevicePointer(&record->host_address, record->host, 0));
    if (status == GANTRY_OK) {
        status = GY_CALL(pool->context, cuMemAlloc(&record->counters, sizeof(zero)));
    }
    if (status == GANTRY_OK) {
        status = gy_context_copy_in(pool->context, record->counters, zero, sizeof(zero));
    }
    return status;
}

gantry_status gy_while_take(struct gy_while_pool *pool, struct gy_while_record **out)
{
    bool was_asked;
    struct gy_while_record *record = find_free(pool, &was_asked);
    if (record != NULL) {
        *out = record;
        return GANTRY_OK;
    }
    gantry_status status = gy_context_enter(pool->context);
    if (status != GANTRY_OK) {
        return status;
    }
    if (!was_asked) {
        ask(pool);
    }
    record = gy_zalloc(sizeof(*record));
    status = record == NULL ? GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "no memory for a loop")
                            : make_record(pool, record);
    if (status != GANTRY_OK && record != NULL) {
        free_record(pool, record);
    }
    (void)gy_context_pop(pool->context);
    if (status == GANTRY_OK) {
        gy_mutex_lock(&pool->lock);
        record->made_before = pool->made;
        pool->made = record;
        gy_mutex_unlock(&pool->lock);
        *out = record;
    }
    return status;
}

void gy_while_put(struct gy_while_pool *pool, struct gy_while_record *record)
{
    gy_mutex_lock(&pool->lock);
    record->next = pool->free;
    pool->free = record;
    gy_mutex_unlock(&pool->lock);
}

/* ---- entries ---------------------------------------------------------------------------------- */

static uint32_t on_their_way(const struct gy_while_record *record)
{
    return atomic_load(&record->launched) - atomic_load(&record->host->finished);
}

bool gy_while_is_full(const struct gy_while_record *record)
{
    return on_their_way(record) >= GY_WHILE_ENTRIES;
}

void gy_while_enter(struct gy_while_pool *pool, struct gy_while_record *record)
{
    gy_mutex_lock(&pool->lock);
    assert(!gy_while_is_full(record));
    const uint32_t entry = atomic_load(&record->launched) + 1;
    atomic_fetch_and(word_of(record->host, entry),
                     ~bit_of(entry)); /* it was that of an entry that has ended */
    atomic_store(&record->launched, entry);
    gy_mutex_unlock(&pool->lock);
}

/* The caller holds the pool's lock. */
static bool cancel(struct gy_while_record *record, uint32_t after)
{
    const uint32_t launched = atomic_load(&record->launched), count = on_their_way(record);
    bool any = false;
    for (uint32_t back = 0; back < count && launched - back != after; back++) {
        atomic_fetch_or(word_of(record->host, launched - back), bit_of(launched - back));
        any = true;
    }
    return any;
}

bool gy_while_cancel(struct gy_while_pool *pool, struct gy_while_record *record, uint32_t after)
{
    gy_mutex_lock(&pool->lock);
    const bool any = cancel(record, after);
    gy_mutex_unlock(&pool->lock);
    return any;
}

void gy_while_cancel_all(struct gy_while_pool *pool)
{
    gy_mutex_lock(&pool->lock);
    for (struct gy_while_record *record = pool->made; record != NULL; record = record->made_before) {
        (void)cancel(record, atomic_load(&record->host->finished));
    }
    gy_mutex_unlock(&pool->lock);
}

/* ---- the graph -------------------------------------------------------------------------------- */

/* Gather the made nodes that no other comes after in n->making.handles.  False: there is no memory for them.
 */
static bool gather_ends(struct gy_nodes *n, uint32_t *count)
{
    if (!gy_grow_array(&n->making.handles, &n->making.handles_room, n->count, sizeof(*n->making.handles))) {
        return false;
    }
    *count = 0;
    for (uint32_t i = 0; i < n->count; i++) {
        n->making.handles[i] = n->made[i];
    }
    for (uint32_t i = 0; i < n->count; i++) {
        const struct gy_node_set *before = &n->list[i].before;
        for (uint32_t b = 0; b < before->count; b++) {
            n->making.handles[n->before[before->first + b]] = NULL;
        }
    }
    for (uint32_t i = 0; i < n->count; i++) {
        if (n->making.handles[i] != NULL) {
            n->making.handles[(*count)++] = n->making.handles[i];
        }
    }
    return true;
}

/* Add it as a capture on `stream` would. */
static gantry_status capture_last(struct gy_nodes *n, CUgraph graph, CUstream stream, uint32_t ends,
                                  const CUDA_KERNEL_NODE_PARAMS_v2 *p)
{
    gantry_status status =
        GY_CALL(n->context, cuStreamBeginCaptureToGraph(stream, graph, n->making.handles, NULL, ends,
                                                        CU_STREAM_CAPTURE_MODE_RELAXED));
    if (status != GANTRY_OK) {
        return status;
    }
    status = GY_CALL(n->context, cuLaunchKernel(p->func, p->gridDimX, p->gridDimY, p->gridDimZ, p->blockDimX,
                                                p->blockDimY, p->blockDimZ, p->sharedMemBytes, stream,
                                                p->kernelParams, NULL));
    CUgraph same;
    const CUresult ended = gy_stream_end_capture(n->context->driver, stream, &same);
    n->making.is_stuck = ended != CUDA_SUCCESS;
    return status != GANTRY_OK
               ? status
               : gy_context_check(n->context, ended, "cuStreamEndCapture", __FILE__, __LINE__);
}

/* Add a kernel that comes after all nodes, on the streams of their partition. */
static gantry_status add_last(struct gy_nodes *n, CUgraph graph, const CUDA_KERNEL_NODE_PARAMS_v2 *params)
{
    uint32_t ends;
    CUstream special = NULL;
    if (!gather_ends(n, &ends)) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "out of memory for the nodes of a loop");
    }
    for (uint32_t i = 0; i < n->count && special == NULL; i++) {
        special = n->list[i].kind == GY_NODE_KERNEL ? n->list[i].stream : NULL;
    }
    CUgraphNode node;
    return special != NULL
               ? capture_last(n, graph, special, ends, params)
               : GY_CALL(n->context, cuGraphAddKernelNode(&node, graph, n->making.handles, ends, params));
}

/* Add the kernel that decides behind all nodes of the body. */
static gantry_status add_decide(struct gy_nodes *nodes, const struct gy_while_made *loop, CUgraph body,
                                CUgraphConditionalHandle condition)
{
    CUdeviceptr word = loop->word, counters = loop->record->counters, host = loop->record->host_address;
    void *params[] = {&condition, &word, &counters, &host};
    CUDA_KERNEL_NODE_PARAMS_v2 node = {.func = loop->pool->decide->function,
                                       .gridDimX = 1,
                                       .gridDimY = 1,
                                       .gridDimZ = 1,
                                       .blockDimX = 1,
                                       .blockDimY = 1,
                                       .blockDimZ = 1,
                                       .kernelParams = params};
    return add_last(nodes, body, &node);
}

static gantry_status make_in(struct gy_nodes *nodes, const struct gy_while_made *loop, CUgraph graph)
{
    CUgraphConditionalHandle condition = 0;
    gantry_status status =
        GY_CALL(nodes->context, cuGraphConditionalHandleCreate(&condition, graph, loop->where, 1,
                                                               CU_GRAPH_COND_ASSIGN_DEFAULT));
    if (status != GANTRY_OK) {
        return status;
    }
    CUgraphNode node;
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
    params.conditional.handle = condition;
    params.conditional.type = CU_GRAPH_COND_TYPE_WHILE;
    params.conditional.size = 1;
    params.conditional.ctx = loop->where;
    status = GY_CALL(nodes->context, cuGraphAddNode(&node, graph, NULL, NULL, 0, &params));
    if (status != GANTRY_OK) {
        return status;
    }
    const CUgraph body = params.conditional.phGraph_out[0];
    status = gy_nodes_make_in(nodes, body);
    return status == GANTRY_OK ? add_decide(nodes, loop, body, condition) : status;
}

gantry_status gy_while_make(struct gy_nodes *nodes, const struct gy_while_made *loop, CUgraph *out)
{
    assert(gy_while_is_possible(loop->pool) && nodes->count != 0);
    CUgraph graph = NULL;
    gantry_status status = GY_CALL(nodes->context, cuGraphCreate(&graph, 0));
    if (status != GANTRY_OK) {
        return status;
    }
    status = make_in(nodes, loop, graph);
    if (status != GANTRY_OK) {
        gy_nodes_drop(nodes, graph);
        return status;
    }
    *out = graph;
    return GANTRY_OK;
}
