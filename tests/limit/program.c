/* SPDX-License-Identifier: MIT */
/* A program that knows nothing of Gantry: what it does is its first argument, how it reaches the driver its
 * second.  It prints what it found as one line of JSON, and exits with 1 and a word on stderr when something
 * is not as it should be. */
#include "tests/limit/door_program.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORDS = 256 };
#define MS UINT64_C(1000000)

static CUdeviceptr words(void)
{
    CUdeviceptr data;
    OK(cuMemAlloc(&data, WORDS * 4));
    OK(cuMemsetD32Async(data, 1, WORDS, NULL));
    OK(cuCtxSynchronize()); /* by whatever door, it is the legacy stream's */
    return data;
}

static uint32_t first_of(CUdeviceptr data)
{
    uint32_t word = 0;
    OK(cuMemcpyDtoH(&word, data, 4));
    return word;
}

/* Wait until all that was launched is charged, in a program that the test expects to be. */
static void await_charge(uint64_t least)
{
    const char *job = getenv("GANTRY_LIMIT_JOB");
    for (int i = 0; job != NULL && getenv("UNCHARGED") == NULL && door_charged() < least && i < 100000; i++) {
        usleep(100);
    }
}

/* 30 kernels of 1 ms of the emulator's clock each. */
static void run_doors(void)
{
    CUstream stream;
    emu.clock_manual(1);
    emu.clock_kernel_cost(MS);
    const CUdeviceptr data = words();
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (uint32_t i = 0; i < 30; i++) {
        OK(cuMemcpyDtoDAsync(data + 4, data + 8, 4, stream));
        CHECK(door_add(stream, data, 1, i) == CUDA_SUCCESS);
    }
    OK(cuStreamSynchronize(stream));
    await_charge(29 * MS + MS * 85 / 100); /* less the bias of 30 pairs of events */
    printf("{\"word\":%u,\"charged_ms\":%.3f,\"unmeasured\":%llu}\n", first_of(data),
           (double)door_charged() / MS, (unsigned long long)door_unmeasured());
}

/* Which kinds of work are charged: for each, what four pieces were charged, us. */
static void run_kinds(void)
{
    static const char *const names[] = {"kernel", "ex",       "cooperative", "graph",
                                        "fill",   "fill_now", "copy",        "upload"};
    const CUdeviceptr data = words();
    CUgraph graph;
    CUgraphExec exec;
    uint32_t count = 1, value = 1;
    void *parameters[] = {(void *)&data, &count, &value};
    CUstream stream;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CHECK(door_add(stream, data, 1, 1) == CUDA_SUCCESS);
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int kind = 0; kind < 8; kind++) {
        const uint64_t before = door_charged();
        for (int i = 0; i < 4; i++) {
            const CUlaunchConfig config = {1, 1, 1, 64, 1, 1, 0, stream, NULL, 0};
            CUresult result = kind == 0   ? door_add(stream, data, 1, 1)
                              : kind == 1 ? cu.cuLaunchKernelEx(&config, door_kernel("add"), parameters, NULL)
                              : kind == 2 ? cu.cuLaunchCooperativeKernel(door_kernel("add"), 1, 1, 1, 64, 1,
                                                                         1, 0, stream, parameters)
                              : kind == 3 ? cu.cuGraphLaunch(exec, stream)
                              : kind == 4 ? cu.cuMemsetD32Async(data + 64, 7, 16, stream)
                              : kind == 5 ? cu.cuMemsetD32(data + 64, 7, 24)
                              : kind == 6 ? cu.cuMemcpyDtoDAsync(data + 64, data + 128, 32, stream)
                                          : cu.cuMemcpyHtoD(data + 64, &value, 4);
            CHECK(result == CUDA_SUCCESS);
            OK(cuStreamSynchronize(stream));
        }
        while (door_in_flight() > 0) {
            usleep(100);
        }
        printf("%s\"%s\":%.3f", kind == 0 ? "{" : ",", names[kind], (double)(door_charged() - before) / 1000);
    }
    printf(",\"word\":%u}\n", first_of(data));
}

/* A capture beside metered work: it has the program's nodes and no others, in each mode, and the thread that
 * is not ours may do what it may. */
static void run_capture(void)
{
    const CUdeviceptr data = words();
    CUstream captured, forked, other;
    CUevent event;
    OK(cuStreamCreate(&captured, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&forked, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    for (int mode = 0; mode < 3; mode++) {
        CUgraph graph;
        CUgraphExec exec;
        size_t nodes = 0;
        CHECK(door_add(captured, data, 1, 5) == CUDA_SUCCESS); /* a group is open when the capture begins */
        CHECK(door_add(forked, data, 1, 5) == CUDA_SUCCESS);
        OK(cuStreamBeginCapture(captured, (CUstreamCaptureMode)mode));
        CHECK(door_add(captured, data, 1, 1) == CUDA_SUCCESS);
        OK(cuEventRecord(event, captured));
        OK(cuStreamWaitEvent(forked, event, 0));
        CHECK(door_add(forked, data + 64, 1, 1) == CUDA_SUCCESS);
        for (int i = 0; i < 20; i++) {
            CHECK(door_add(other, data + 128, 1, 1) == CUDA_SUCCESS);
        }
        OK(cuEventRecord(event, forked));
        OK(cuStreamWaitEvent(captured, event, 0));
        OK(cuStreamEndCapture(captured, &graph));
        OK(cuGraphGetNodes(graph, NULL, &nodes));
        CHECK(nodes == 2);
        OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
        OK(cuGraphLaunch(exec, captured));
        OK(cuStreamSynchronize(captured));
        OK(cuStreamSynchronize(other));
        OK(cuStreamSynchronize(forked));
        OK(cuGraphExecDestroy(exec));
        OK(cuGraphDestroy(graph));
    }
    printf("{\"word\":%u,\"unmeasured\":%llu}\n", first_of(data + 64), (unsigned long long)door_unmeasured());
}

/* A kernel that waits for what a later launch does, when all that the job may use is in flight. */
static void run_spin(void)
{
    static atomic_uint flag;
    CUstream waiting, raising;
    const CUdeviceptr data = words();
    OK(cuStreamCreate(&waiting, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&raising, CU_STREAM_NON_BLOCKING));
    CHECK(door_add(raising, data, 1, 1) == CUDA_SUCCESS);
    CHECK(door_flag("spin", waiting, &flag) == CUDA_SUCCESS);
    OK(cuStreamSynchronize(raising));
    while (getenv("GANTRY_LIMIT_JOB") != NULL &&
           door_in_flight() < 400 * MS) { /* no bucket saves so much at 30 % */
        usleep(1000);
    }
    CHECK(door_flag("raise", raising, &flag) == CUDA_SUCCESS);
    OK(cuStreamSynchronize(waiting));
    printf("{\"credits\":%llu,\"held_ms\":%.3f}\n", (unsigned long long)door_credits(),
           (double)door_held() / MS);
}

/* ---- two devices ------------------------------------------------------------------------------- */

enum { RANKS = 2, STEPS = 200, TOILS = 4 };

static atomic_uint met[RANKS][STEPS];

/* Each step of a device ends with a kernel that waits for the other device's. */
static void *run_rank(void *arg)
{
    const int rank = *(const int *)arg;
    CUcontext context;
    CUstream stream;
    OK(cuDevicePrimaryCtxRetain(&context, rank));
    OK(cuCtxSetCurrent(context));
    CUmodule module = door_load();
    const CUdeviceptr data = words();
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (uint32_t step = 0; step < STEPS; step++) {
        for (uint32_t i = 0; i < TOILS; i++) {
            CHECK(door_flag_of(module, "toil", stream, NULL) == CUDA_SUCCESS);
        }
        OK(cuMemsetD32Async(data, step, WORDS, stream));
        CHECK(door_flag_of(module, "raise", stream, &met[rank][step]) == CUDA_SUCCESS);
        CHECK(door_flag_of(module, "spin", stream, &met[1 - rank][step]) == CUDA_SUCCESS);
    }
    OK(cuStreamSynchronize(stream));
    CHECK(first_of(data) == STEPS - 1);
    return NULL;
}

static void run_ranks(void)
{
    int ranks[RANKS] = {0, 1};
    pthread_t threads[RANKS];
    for (int i = 0; i < RANKS; i++) {
        CHECK(pthread_create(&threads[i], NULL, run_rank, &ranks[i]) == 0);
    }
    for (int i = 0; i < RANKS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    printf("{\"credits\":%llu,\"charged_ms\":%.3f}\n", (unsigned long long)door_credits(),
           (double)door_charged() / MS);
}

/* Its own calls fail, and nobody else's; a launch that fails is the program's to see, and is not charged. */
static void run_failures(void)
{
    enum { INVALID = 1, OUT_OF_MEMORY = 2, ALWAYS = 1 };
    CUstream stream;
    const CUdeviceptr data = words();
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cu.cuLaunchKernel(door_kernel("add"), 0, 1, 1, 64, 1, 1, 0, stream, NULL, NULL) ==
          CUDA_ERROR_INVALID_VALUE);
    CHECK(emu.fail("cuEventRecord", 1, INVALID, ALWAYS) == 0);
    for (uint32_t i = 0; i < 10; i++) {
        CHECK(door_add(stream, data, 1, i) == CUDA_SUCCESS);
    }
    OK(cuStreamSynchronize(stream));
    CHECK(emu.fail("cuEventCreate", 1, OUT_OF_MEMORY, ALWAYS) == 0);
    CHECK(emu.fail("cuEventQuery", 1, INVALID, ALWAYS) == 0);
    for (uint32_t i = 0; i < 10; i++) {
        CHECK(door_add(stream, data, 1, i) == CUDA_SUCCESS);
    }
    OK(cuStreamSynchronize(stream));
    printf("{\"word\":%u,\"unmeasured\":%llu}\n", first_of(data), (unsigned long long)door_unmeasured());
}

/* The context goes while groups are open in it, and comes back. */
static void run_contexts(void)
{
    const int events_kind = 2; /* GANTRY_EMU_LIVE_EVENTS */
    uint32_t word = 0;
    for (int i = 0; i < 20; i++) {
        CUcontext context;
        CUstream stream;
        OK(cuCtxCreate(&context, 0, 0));
        OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        const CUdeviceptr data = words();
        OK(cuMemsetD32Async(data, (unsigned)i, WORDS, stream));
        OK(cuStreamSynchronize(stream));
        word = first_of(data);
        for (int k = 0; k < 5; k++) {
            OK(cuMemsetD32Async(data, 77, WORDS, stream));
        }
        if (i % 2 == 0) {
            OK(cuStreamDestroy(stream));
        }
        OK(cuCtxDestroy(context));
    }
    printf("{\"word\":%u,\"events\":%lld}\n", word, (long long)emu.live(events_kind));
}

static void do_nothing(void *user)
{
    (void)user;
}

/* Two kernels of known cost with something else between them: how many events were recorded for them. */
static void run_between(void)
{
    static const uint32_t value = 1;
    CUstream stream;
    const CUdeviceptr data = words();
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int kind = 0; kind < 3; kind++) {
        const uint64_t before = emu.calls("cuEventRecord");
        CHECK(door_add(stream, data, 1, 1) == CUDA_SUCCESS);
        if (kind == 1) {
            OK(cuMemcpyHtoDAsync(data + 64, &value, 4, stream));
        } else if (kind == 2) {
            OK(cuLaunchHostFunc(stream, do_nothing, NULL));
        }
        CHECK(door_add(stream, data, 1, 1) == CUDA_SUCCESS);
        OK(cuStreamSynchronize(stream));
        while (door_in_flight() > 0) { /* then the cost is known */
            usleep(100);
        }
        printf("%s%llu", kind == 0 ? "[" : ",", (unsigned long long)(emu.calls("cuEventRecord") - before));
    }
    printf("]\n");
}

/* Kernels that are waited for at once, by their stream and by their context: how many events they have. */
static void run_waited(void)
{
    CUstream stream;
    const CUdeviceptr data = words();
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 2; i++) { /* the cost is known when the second has ended */
        CHECK(door_add(stream, data, 1, 1) == CUDA_SUCCESS);
        OK(cuStreamSynchronize(stream));
        while (door_in_flight() > 0) {
            usleep(100);
        }
    }
    const uint64_t before = emu.calls("cuEventRecord"), charged = door_charged();
    for (int i = 0; i < 200; i++) {
        CHECK(door_add(stream, data, 1, 1) == CUDA_SUCCESS);
        if (i < 100) {
            OK(cuStreamSynchronize(stream));
        } else {
            OK(cuCtxSynchronize());
        }
    }
    const uint64_t events = emu.calls("cuEventRecord") - before;
    printf("{\"events\":%llu,\"charged_us\":%llu,\"unmeasured\":%llu}\n", (unsigned long long)events,
           (unsigned long long)(door_charged() - charged) / 1000, (unsigned long long)door_unmeasured());
}

/* Many groups lie behind a kernel that runs: how often the driver is asked about events meanwhile, and how often the
 * meter looks. */
static void run_queued(void)
{
    enum { GROUPS = 20, LOOKS = 20 };
    static atomic_uint flag;
    CUstream stream;
    const CUdeviceptr data = words();
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(door_flag("spin", stream, &flag) == CUDA_SUCCESS);
    for (uint32_t i = 0; i < GROUPS; i++) {
        CHECK(door_add(stream, data, 1, i) == CUDA_SUCCESS);
        CHECK(cu.cuStreamQuery(stream) == CUDA_ERROR_NOT_READY); /* a group ends */
    }
    const uint64_t looked = emu.calls("cuThreadExchangeStreamCaptureMode"); /* once for each look */
    const uint64_t asked = emu.calls("cuEventQuery");
    uint64_t looks = 0;
    while (looks < LOOKS) {
        usleep(100);
        looks = emu.calls("cuThreadExchangeStreamCaptureMode") - looked;
    }
    const uint64_t questions = emu.calls("cuEventQuery") - asked;
    looks = emu.calls("cuThreadExchangeStreamCaptureMode") - looked;
    atomic_store(&flag, 1);
    OK(cuStreamSynchronize(stream));
    while (door_in_flight() > 0) {
        usleep(100);
    }
    printf("{\"looks\":%llu,\"questions\":%llu,\"unmeasured\":%llu}\n", (unsigned long long)looks,
           (unsigned long long)questions, (unsigned long long)door_unmeasured());
}

/* The job's file is cut short while the program computes. */
static void run_truncated(void)
{
    CUstream stream;
    const CUdeviceptr data = words();
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (uint32_t i = 0; i < 40; i++) {
        CHECK(i != 20 || getenv("GANTRY_LIMIT_JOB") == NULL || truncate(getenv("GANTRY_LIMIT_JOB"), 0) == 0);
        CHECK(door_add(stream, data, 1, i) == CUDA_SUCCESS);
        OK(cuStreamSynchronize(stream));
    }
    printf("{\"word\":%u}\n", first_of(data));
}

static void *destroy_streams(void *failed)
{
    CUcontext context;
    CUdeviceptr data; /* not filled: work on the legacy stream is not always measured beside others' */
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuMemAlloc(&data, WORDS * 4));
    for (int i = 0; i < 300; i++) {
        CUstream stream;
        OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        for (int k = 0; k < 1 + i % 3; k++) {
            CHECK(door_add(stream, data, 1, 1) == CUDA_SUCCESS);
        }
        if (cu.cuStreamDestroy(stream) != CUDA_SUCCESS) {
            (*(int *)failed)++;
        }
    }
    OK(cuCtxSynchronize());
    OK(cuDevicePrimaryCtxRelease(0));
    return NULL;
}

/* Two threads destroy streams whose groups are open, while the meter's thread closes what is quiet. */
static void run_destroyed(void)
{
    pthread_t threads[2];
    int failed[2] = {0, 0};
    for (int i = 0; i < 2; i++) {
        CHECK(pthread_create(&threads[i], NULL, destroy_streams, &failed[i]) == 0);
    }
    for (int i = 0; i < 2; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    while (door_in_flight() > 0) {
        usleep(100);
    }
    printf("{\"unmeasured\":%llu,\"failed\":%d}\n", (unsigned long long)door_unmeasured(),
           failed[0] + failed[1]);
}

static void *raise_later(void *flag)
{
    usleep(30000);
    atomic_store((atomic_uint *)flag, 1);
    return NULL;
}

/* A kernel that takes nothing, several times, and then 30 ms: what is charged for the last. */
static void run_longer(void)
{
    static atomic_uint flag = 1;
    pthread_t thread;
    CUstream stream;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 5; i++) {
        CHECK(door_flag("spin", stream, &flag) == CUDA_SUCCESS);
        OK(cuStreamSynchronize(stream));
        while (door_in_flight() > 0) {
            usleep(100);
        }
    }
    const uint64_t before = door_charged();
    atomic_store(&flag, 0);
    CHECK(pthread_create(&thread, NULL, raise_later, &flag) == 0);
    CHECK(door_flag("spin", stream, &flag) == CUDA_SUCCESS);
    OK(cuStreamSynchronize(stream));
    while (door_in_flight() > 0) {
        usleep(100);
    }
    (void)pthread_join(thread, NULL);
    printf("{\"charged_ms\":%.3f}\n", (double)(door_charged() - before) / MS);
}

/* The primary context is retained twice: one release leaves what runs in it measured, and the last ends it.
 */
static void run_primary(void)
{
    static atomic_uint flag;
    CUcontext context;
    CUstream stream;
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(door_flag("spin", stream, &flag) == CUDA_SUCCESS);
    OK(cuDevicePrimaryCtxRelease(0));
    atomic_store(&flag, 1);
    OK(cuStreamSynchronize(stream));
    while (door_in_flight() > 0) {
        usleep(100);
    }
    const unsigned long long unmeasured = (unsigned long long)door_unmeasured();
    OK(cuStreamDestroy(stream));
    OK(cuDevicePrimaryCtxRelease(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    printf("{\"word\":%u,\"unmeasured\":%llu}\n", first_of(words()), unmeasured);
}

/* Wait to be killed, or leave at once while work is under way: "exit", "_exit" or "wait". */
static void run_leave(const char *how)
{
    CUstream stream;
    const CUdeviceptr data = words();
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (uint32_t i = 0; i < 200; i++) {
        CHECK(door_add(stream, data, 1, i) == CUDA_SUCCESS);
    }
    printf("{\"ready\":true}\n");
    fflush(stdout);
    if (strcmp(how, "_exit") == 0) {
        _exit(0);
    }
    while (strcmp(how, "wait") == 0) {
        CHECK(door_add(stream, data, 1, 1) == CUDA_SUCCESS);
        OK(cuStreamSynchronize(stream));
    }
}

/* Forks before and after the driver is there; the children exec, or leave. */
static void run_fork(const char *self)
{
    int status = 0;
    const pid_t early = fork();
    if (early == 0) { /* it may use the driver: its parent has not yet */
        door_open("dlsym");
        run_doors();
        exit(0);
    }
    CHECK(early > 0 && waitpid(early, &status, 0) == early && status == 0);
    door_open("dlsym");
    CHECK(door_add(NULL, words(), 1, 1) == CUDA_SUCCESS);
    OK(cuStreamSynchronize(NULL));
    const pid_t plain = fork();
    if (plain == 0) {
        _exit(7);
    }
    CHECK(plain > 0 && waitpid(plain, &status, 0) == plain && WEXITSTATUS(status) == 7);
    fflush(stdout);
    const pid_t other = fork();
    if (other == 0) {
        execl(self, self, "doors", "dlsym", (char *)NULL);
        _exit(8);
    }
    CHECK(other > 0 && waitpid(other, &status, 0) == other && status == 0);
    CHECK(door_add(NULL, words(), 1, 1) == CUDA_SUCCESS);
    OK(cuStreamSynchronize(NULL));
    printf("{\"done\":true}\n");
}

/* A kernel that never ends. */
static void run_forever(void)
{
    static atomic_uint flag;
    CHECK(door_flag("spin", NULL, &flag) == CUDA_SUCCESS);
    OK(cuStreamSynchronize(NULL));
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "", *more = argc > 2 ? argv[2] : "dlsym";
    alarm(120); /* a hang is an end, too */
    if (strcmp(mode, "fork") == 0) {
        run_fork(argv[0]);
        return 0;
    }
    const int is_door = strcmp(mode, "doors") == 0;
    if (strcmp(mode, "late") == 0) { /* nothing is found, nor remembered, before there is a driver */
        CHECK(dlsym(RTLD_DEFAULT, "cuStandInOfTheFuture") == NULL &&
              dlopen("libcuda.so.1", RTLD_NOLOAD) == NULL);
        (void)dlsym(RTLD_DEFAULT, "cuLaunchKernel");
        (void)dlsym(RTLD_NEXT, "cuInit");
    }
    door_open(is_door ? more : "dlsym");
    if (is_door) {
        run_doors();
    } else if (strcmp(mode, "kinds") == 0) {
        run_kinds();
    } else if (strcmp(mode, "capture") == 0) {
        run_capture();
    } else if (strcmp(mode, "spin") == 0) {
        run_spin();
    } else if (strcmp(mode, "failures") == 0) {
        run_failures();
    } else if (strcmp(mode, "contexts") == 0) {
        run_contexts();
    } else if (strcmp(mode, "ranks") == 0) {
        run_ranks();
    } else if (strcmp(mode, "primary") == 0) {
        run_primary();
    } else if (strcmp(mode, "queued") == 0) {
        run_queued();
    } else if (strcmp(mode, "waited") == 0) {
        run_waited();
    } else if (strcmp(mode, "late") == 0) {
        run_doors();
    } else if (strcmp(mode, "destroyed") == 0) {
        run_destroyed();
    } else if (strcmp(mode, "truncated") == 0) {
        run_truncated();
    } else if (strcmp(mode, "bus") == 0) {
        CHECK(first_of(words()) == 1);
        raise(SIGBUS);
    } else if (strcmp(mode, "longer") == 0) {
        run_longer();
    } else if (strcmp(mode, "between") == 0) {
        run_between();
    } else if (strcmp(mode, "leave") == 0) {
        run_leave(more);
    } else if (strcmp(mode, "forever") == 0) {
        run_forever();
    } else if (strcmp(mode, "threads") == 0) {
        door_threads();
    } else if (strcmp(mode, "random") == 0) {
        door_random((unsigned)strtoul(more, NULL, 10));
    } else {
        fprintf(stderr, "no mode '%s'\n", mode);
        return 2;
    }
    return 0;
}
