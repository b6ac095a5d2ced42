/* SPDX-License-Identifier: MIT */
/* Random work on streams, events and graphs: the order log shows that everything which must be ordered was.
 *
 * A model keeps, for each stream and event, the set of operations that come before its end.  Each operation
 * writes a word of its own, by whose address the log names it. */
#include "tests/emulator/emu_test.h"

#include "base/thread.h"

#include <string.h>

#define STREAMS 5
#define EVENTS 6
#define OPS 192
#define WORDS (OPS / 64)
#define ROUNDS 40

struct set {
    uint64_t words[WORDS];
};

static struct {
    uint64_t seed;
    CUstream streams[STREAMS]; /* 0: the null stream; 1, 2: blocking; others: non-blocking */
    CUevent events[EVENTS];
    CUdeviceptr data;
    struct set ahead_of_stream[STREAMS], ahead_of_event[EVENTS];
    bool recorded[EVENTS];
    struct set before[OPS]; /* the operations that each operation has to come after */
    uint32_t ops;
} model;

static uint32_t below(uint32_t n)
{
    model.seed = model.seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(model.seed >> 33) % n;
}

static void unite(struct set *into, const struct set *from)
{
    for (size_t i = 0; i < WORDS; i++) {
        into->words[i] |= from->words[i];
    }
}

static void add_to(struct set *set, uint32_t op)
{
    set->words[op / 64] |= (uint64_t)1 << (op % 64);
}

static bool is_in(const struct set *set, uint32_t op)
{
    return (set->words[op / 64] >> (op % 64) & 1) != 0;
}

/* Work on the null stream waits for all blocking streams, and they wait for it. */
static void order_with_null(uint32_t s)
{
    if (s == 0) {
        unite(&model.ahead_of_stream[0], &model.ahead_of_stream[1]);
        unite(&model.ahead_of_stream[0], &model.ahead_of_stream[2]);
    } else if (s <= 2) {
        unite(&model.ahead_of_stream[s], &model.ahead_of_stream[0]);
    }
}

static void nothing(void *user)
{
    (void)user;
}

static void push_operation(uint32_t s)
{
    uint32_t op = model.ops++;
    CUdeviceptr word = model.data + op * sizeof(uint32_t);
    switch (below(4)) {
    case 0:
        cu_ok(cuMemsetD32Async(word, op, 1, model.streams[s]));
        break;
    case 1:
        cu_ok(cuMemcpyDtoDAsync(word, model.data + OPS * sizeof(uint32_t), 4, model.streams[s]));
        break;
    case 2:
        cu_ok(cuLaunchHostFunc(model.streams[s], nothing, (void *)(uintptr_t)word));
        break;
    default:
        assert_int_equal(et_add(model.streams[s], word, 1, 1), CUDA_SUCCESS);
        break;
    }
    order_with_null(s);
    model.before[op] = model.ahead_of_stream[s];
    add_to(&model.ahead_of_stream[s], op);
}

static void push_something(uint32_t first_stream)
{
    uint32_t s = first_stream + below(STREAMS - first_stream), e = below(EVENTS);
    switch (below(5)) {
    case 0:
        cu_ok(cuEventRecord(model.events[e], model.streams[s]));
        order_with_null(s);
        model.ahead_of_event[e] = model.ahead_of_stream[s];
        model.recorded[e] = true;
        break;
    case 1:
        if (model.recorded[e]) {
            cu_ok(cuStreamWaitEvent(model.streams[s], model.events[e], 0));
            unite(&model.ahead_of_stream[s], &model.ahead_of_event[e]);
        }
        break;
    default:
        push_operation(s);
        break;
    }
}

static void start_round(uint64_t seed)
{
    memset(model.ahead_of_stream, 0, sizeof(model.ahead_of_stream));
    memset(model.ahead_of_event, 0, sizeof(model.ahead_of_event));
    memset(model.recorded, 0, sizeof(model.recorded));
    memset(model.before, 0, sizeof(model.before));
    model.ops = 0;
    model.seed = seed * 7919 + 1;
    assert_int_equal(emu.log_start(OPS), 0);
}

static uint32_t op_of(const struct gantry_emu_operation *entry)
{
    return (uint32_t)((entry->first_word - model.data) / sizeof(uint32_t));
}

static void expect_order(uint64_t seed)
{
    static struct gantry_emu_operation log[OPS], by_op[OPS];
    assert_int_equal(emu.log_stop(), model.ops);
    assert_int_equal(emu.log_read(log, OPS), model.ops);
    for (uint32_t i = 0; i < model.ops; i++) {
        by_op[op_of(&log[i])] = log[i];
    }
    for (uint32_t later = 0; later < model.ops; later++) {
        for (uint32_t earlier = 0; earlier < later; earlier++) {
            if (is_in(&model.before[later], earlier) && by_op[earlier].end >= by_op[later].begin) {
                fail_msg("seed %llu: operation %u began before %u had ended", (unsigned long long)seed, later,
                         earlier);
            }
        }
    }
}

static void make_objects(void)
{
    model.data = et_words(OPS + 1, 0);
    model.streams[0] = NULL;
    for (uint32_t s = 1; s < STREAMS; s++) {
        cu_ok(cuStreamCreate(&model.streams[s], s <= 2 ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
    }
    for (uint32_t e = 0; e < EVENTS; e++) {
        cu_ok(cuEventCreate(&model.events[e], CU_EVENT_DISABLE_TIMING));
    }
}

/* Every third round is enqueued on hold, so that queues become long; the others run while they are
 * enqueued. */
static void test_random_work_on_streams_keeps_its_order(void **state)
{
    (void)state;
    make_objects();
    for (uint64_t seed = 0; seed < ROUNDS; seed++) {
        start_round(seed);
        if (seed % 3 == 0) {
            emu.hold();
        }
        while (model.ops < OPS) {
            push_something(0);
        }
        emu.release();
        cu_ok(cuCtxSynchronize());
        expect_order(seed);
    }
}

static uint32_t not_ahead_of(uint32_t s)
{
    uint32_t count = 0;
    for (uint32_t op = 0; op < model.ops; op++) {
        count += !is_in(&model.ahead_of_stream[s], op);
    }
    return count;
}

/* A watched stream has done what the model expects; waits of the null stream and for it may cover more than
 * that. */
static void test_a_watch_counts_what_a_stream_does_not_come_after(void **state)
{
    (void)state;
    make_objects();
    for (uint64_t seed = 0; seed < ROUNDS; seed++) {
        const uint32_t first = seed % 2 == 0 ? 3 : 0, asked = first + (uint32_t)seed / 2 % (STREAMS - first);
        void *other = NULL;
        start_round(seed);
        if (seed % 3 == 0) {
            emu.hold();
        }
        emu.watch_begin();
        while (model.ops < 1 + seed) {
            push_something(first);
        }
        const uint32_t left = emu.watch_end(model.streams[asked], &other), expected = not_ahead_of(asked);
        emu.release();
        assert_true(first == 3 ? left == expected : left <= expected);
        assert_true(left == 0 || other != model.streams[asked]);
        cu_ok(cuCtxSynchronize());
        (void)emu.log_stop();
    }
}

static void test_a_watch_sees_what_the_host_has_waited_for(void **state)
{
    (void)state;
    void *other = NULL;
    make_objects();
    start_round(1);
    for (int way = 0; way < 4; way++) {
        model.ops = 0;
        emu.watch_begin();
        push_operation(3);
        cu_ok(cuEventRecord(model.events[0], model.streams[3]));
        if (way == 0) {
            cu_ok(cuStreamSynchronize(model.streams[3]));
        } else if (way == 1) {
            cu_ok(cuEventSynchronize(model.events[0]));
        } else if (way == 2) {
            cu_ok(cuCtxSynchronize());
        }
        assert_int_equal(emu.watch_end(model.streams[4], &other), way == 3);
        assert_true(other == (way == 3 ? model.streams[3] : NULL));
        cu_ok(cuCtxSynchronize());
        assert_int_equal(emu.watch_end(model.streams[4], &other), 0); /* there is none such */
    }
    (void)emu.log_stop();
}

/* Streams 3 and up take part: 3 begins the capture, the others fork from it first and join it last. */
static CUgraph capture_random_work(void)
{
    CUgraph graph;
    cu_ok(cuStreamBeginCapture(model.streams[3], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    cu_ok(cuEventRecord(model.events[0], model.streams[3]));
    for (uint32_t s = 4; s < STREAMS; s++) {
        cu_ok(cuStreamWaitEvent(model.streams[s], model.events[0], 0));
    }
    model.recorded[0] = true;
    while (model.ops < OPS) {
        push_something(3);
    }
    for (uint32_t s = 4; s < STREAMS; s++) {
        cu_ok(cuEventRecord(model.events[0], model.streams[s]));
        cu_ok(cuStreamWaitEvent(model.streams[3], model.events[0], 0));
    }
    cu_ok(cuStreamEndCapture(model.streams[3], &graph));
    return graph;
}

static void test_random_work_in_a_graph_keeps_its_order(void **state)
{
    (void)state;
    make_objects();
    for (uint64_t seed = 0; seed < ROUNDS; seed++) {
        start_round(seed);
        CUgraph graph = capture_random_work();
        CUgraphExec exec;
        cu_ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
        cu_ok(cuGraphDestroy(graph));
        cu_ok(cuGraphLaunch(exec, model.streams[3]));
        cu_ok(cuStreamSynchronize(model.streams[3]));
        expect_order(seed);
        cu_ok(cuGraphExecDestroy(exec));
    }
}

/* ---- many threads ---------------------------------------------------------------------------- */

#define THREADS 4
#define STEPS 300

struct pusher {
    gy_thread thread;
    CUevent *events; /* each records its own event, and waits for its neighbour's */
    CUdeviceptr word;
    CUfunction add;
    uint32_t index;
    CUresult worst; /* the first error */
};

static void note(struct pusher *pusher, CUresult result)
{
    if (pusher->worst == CUDA_SUCCESS) {
        pusher->worst = result;
    }
}

static void push_and_check(void *arg)
{
    struct pusher *p = arg;
    CUstream stream = NULL;
    uint32_t one = 1, seen = 0;
    void *params[] = {&p->word, &one, &one};
    note(p, cu->cuCtxPushCurrent(et_context));
    note(p, cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (uint32_t i = 1; i <= STEPS && p->worst == CUDA_SUCCESS; i++) {
        note(p, cu->cuLaunchKernel(p->add, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
        note(p, cu->cuEventRecord(p->events[p->index], stream));
        note(p, cu->cuStreamWaitEvent(stream, p->events[(p->index + 1) % THREADS], 0));
        if (i % 50 == 0) {
            note(p, cu->cuEventSynchronize(p->events[p->index]));
            note(p, cu->cuMemcpyDtoHAsync(&seen, p->word, sizeof(seen), stream));
            note(p, seen == i ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN);
        }
    }
    note(p, cu->cuStreamDestroy(stream));
    note(p, cu->cuCtxPopCurrent(NULL));
}

static void test_threads_push_at_once(void **state)
{
    (void)state;
    struct pusher pushers[THREADS];
    CUevent events[THREADS];
    CUfunction add = et_function("add");
    for (uint32_t i = 0; i < THREADS; i++) {
        cu_ok(cuEventCreate(&events[i], CU_EVENT_DISABLE_TIMING));
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        pushers[i] = (struct pusher){
            .events = events, .word = et_words(1, 0), .add = add, .index = i, .worst = CUDA_SUCCESS};
        assert_int_equal(gy_thread_start(&pushers[i].thread, "pusher", push_and_check, &pushers[i]),
                         GANTRY_OK);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        gy_thread_join(&pushers[i].thread);
    }
    cu_ok(cuCtxSynchronize());
    for (uint32_t i = 0; i < THREADS; i++) {
        assert_int_equal(pushers[i].worst, CUDA_SUCCESS);
        assert_int_equal(et_word(pushers[i].word), STEPS);
    }
    assert_int_equal(emu.live(GANTRY_EMU_LIVE_STREAMS), 0);
}

/* ---- priorities ------------------------------------------------------------------------------ */

enum { PLAIN = 6 };

/* The kernel that begins first among several that are ready at once, by the number of its word. */
static uint64_t first_to_begin(CUdeviceptr words)
{
    struct gantry_emu_operation log[PLAIN + 1];
    cu_ok(cuCtxSynchronize());
    assert_int_equal(emu.log_stop(), PLAIN + 1);
    assert_int_equal(emu.log_read(log, PLAIN + 1), PLAIN + 1);
    return (log[0].first_word - words) / sizeof(uint32_t);
}

/* Launch a kernel on each of some streams without a priority, then one on an urgent stream. */
static void enqueue_all(CUstream *streams, CUdeviceptr words)
{
    for (uint32_t i = 0; i <= PLAIN; i++) {
        assert_int_equal(et_add(streams[i], words + i * sizeof(uint32_t), 1, 1), CUDA_SUCCESS);
    }
}

static void make_streams(CUstream *streams)
{
    for (uint32_t i = 0; i <= PLAIN; i++) {
        cu_ok(cuStreamCreateWithPriority(&streams[i], CU_STREAM_NON_BLOCKING, i == PLAIN ? -2 : 0));
    }
}

static void test_what_is_urgent_begins_first(void **state)
{
    (void)state;
    CUstream streams[PLAIN + 1];
    CUdeviceptr words = et_words(PLAIN + 1, 0);
    make_streams(streams);
    emu.hold();
    enqueue_all(streams, words);
    assert_int_equal(emu.log_start(PLAIN + 1), 0);
    emu.release();
    assert_int_equal(first_to_begin(words), PLAIN);
}

/* The same kernels are captured beside each other and launched on a stream without a priority. */
static uint64_t first_of_graph(unsigned long long flags)
{
    CUstream streams[PLAIN + 1], origin = et_stream();
    CUdeviceptr words = et_words(PLAIN + 1, 0);
    CUevent event = NULL;
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    make_streams(streams);
    cu_ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    cu_ok(cuStreamBeginCapture(origin, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    cu_ok(cuEventRecord(event, origin));
    for (uint32_t i = 0; i <= PLAIN; i++) {
        cu_ok(cuStreamWaitEvent(streams[i], event, 0));
    }
    enqueue_all(streams, words);
    for (uint32_t i = 0; i <= PLAIN; i++) {
        cu_ok(cuEventRecord(event, streams[i]));
        cu_ok(cuStreamWaitEvent(origin, event, 0));
    }
    cu_ok(cuStreamEndCapture(origin, &graph));
    cu_ok(cuGraphInstantiateWithFlags(&exec, graph, flags));
    emu.hold();
    cu_ok(cuGraphLaunch(exec, origin));
    assert_int_equal(emu.log_start(PLAIN + 1), 0);
    emu.release();
    uint64_t first = first_to_begin(words);
    cu_ok(cuGraphExecDestroy(exec));
    cu_ok(cuGraphDestroy(graph));
    return first;
}

/* An H200 showed that without the flag the nodes lose the priorities of their streams. */
static void test_a_graph_keeps_priorities_when_it_is_told_to(void **state)
{
    (void)state;
    assert_int_equal(first_of_graph(CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY), PLAIN);
    assert_int_equal(first_of_graph(0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ET_TEST(test_random_work_on_streams_keeps_its_order),
        ET_TEST(test_a_watch_counts_what_a_stream_does_not_come_after),
        ET_TEST(test_a_watch_sees_what_the_host_has_waited_for),
        ET_TEST(test_random_work_in_a_graph_keeps_its_order),
        ET_TEST(test_threads_push_at_once),
        ET_TEST(test_what_is_urgent_begins_first),
        ET_TEST(test_a_graph_keeps_priorities_when_it_is_told_to),
    };
    return cmocka_run_group_tests_name("order", tests, NULL, NULL);
}
