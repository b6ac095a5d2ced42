/* SPDX-License-Identifier: MIT */
/* The contexts that operations work in, and what stays in each as long as the process. */
#include "tests/conformance/differential/homes.h"

#include "conformance_kernels.kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A; the other context of its device; the primary context of the second device. */
enum { HOME_A, HOME_OTHER, HOME_SECOND, HOMES };

static struct df_home homes[HOMES]; /* those that no sequence has needed yet have no context */
static int b;                       /* which one is B; A: there is none */
static const void *image;
static CUdeviceptr second_of_a; /* the second arena where A is alone */
static void *words_of_host;     /* as w.waits, for both devices */
static CUdeviceptr words_of_device;

static void open_kernels(struct df_home *home)
{
    uint32_t count = 0, value = 0;
    void *params[] = {&home->arena, &count, &value}, *look[] = {&home->arena, &home->arena};
    MUST(cuModuleLoadDataEx(&home->module, image, 0, NULL, NULL));
    MUST(cuModuleGetFunction(&home->add, home->module, "cf_add"));
    MUST(cuModuleGetFunction(&home->look, home->module, "cf_look"));
    MUST(cuModuleGetFunction(&home->cluster, home->module, "cf_cluster"));
    MUST(cuLaunchKernel(home->add, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    MUST(cuLaunchKernel(home->look, 1, 1, 1, 1, 1, 1, 0, NULL, look, NULL));
    MUST(cuCtxSynchronize());
}

/* Whatever goes beyond an arena misses what is hashed. */
static CUdeviceptr open_arena(void)
{
    CUdeviceptr arena;
    MUST(cuMemAlloc(&arena, 2 * DF_ARENA));
    return arena + DF_ARENA / 2;
}

static void open_home(struct df_home *home)
{
    MUST(cuCtxSetCurrent(home->context));
    home->arena = open_arena();
    MUST(cuStreamCreate(&home->own, CU_STREAM_NON_BLOCKING));
    open_kernels(home);
}

/* Words that nothing writes, those before and behind them as well. */
static void open_words(void)
{
    uint32_t words[2 * DF_WORDS];
    for (uint32_t i = 0; i < 2 * DF_WORDS; i++) {
        words[i] = i + 1;
    }
    MUST(cuMemAlloc(&words_of_device, sizeof(words)));
    MUST(cuMemcpyHtoD(words_of_device, words, sizeof(words)));
    MUST(cuMemHostAlloc(&words_of_host, sizeof(words), CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE));
    memcpy(words_of_host, words, sizeof(words));
}

static void open_host_memory(void)
{
    MUST(cuMemHostAlloc(&w.pinned, 2 * DF_ARENA, CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE));
    MUST(cuMemHostGetDevicePointer(&w.arena[DF_ARENA_PINNED], w.pinned, 0));
    w.arena[DF_ARENA_PINNED] += DF_ARENA / 2;
    w.pinned = (char *)w.pinned + DF_ARENA / 2;
    w.pageable = calloc(1, 2 * DF_ARENA);
    w.pages = aligned_alloc(DF_PAGE, (size_t)DF_PAGES * DF_PAGE);
    memset(w.pages, 0, (size_t)DF_PAGES * DF_PAGE);
}

void df_homes_open(void)
{
    const gantry_module_image *images = &gantry_image_conformance_kernels;
    image = cu->emulated ? images->host : images->fatbin != NULL ? images->fatbin : (const void *)images->ptx;
    w.image = image;
    MUST(cuDeviceGet(&w.device, 0));
    MUST(cuDeviceGetCount(&w.devices));
    MUST(cuDevicePrimaryCtxRetain(&w.primary, w.device));
    homes[HOME_A].context = w.primary;
    open_home(&homes[HOME_A]);
    w.arena[DF_ARENA_A] = homes[HOME_A].arena;
    second_of_a = open_arena();
    open_words();
    open_host_memory();
}

static int choose_b(uint32_t sequence)
{
    return df_needs_two_devices(sequence) ? HOME_SECOND : sequence % 4 == 0 ? HOME_OTHER : HOME_A;
}

void df_homes_choose(uint32_t sequence)
{
    b = choose_b(sequence);
    struct df_home *home = &homes[b];
    if (home->context == NULL) {
        if (b == HOME_SECOND) {
            MUST(cuDevicePrimaryCtxRetain(&home->context, 1));
        } else {
            MUST(cuCtxCreate(&home->context, 0, w.device));
        }
        open_home(home);
    }
    w.has_other = b != HOME_A;
    w.has_second = b == HOME_SECOND;
    w.other = w.has_other ? home->context : NULL;
    w.reaches[0] = w.reaches[1] = false;
    w.waits = (w.has_second ? (CUdeviceptr)(uintptr_t)words_of_host : words_of_device) + 4ull * DF_WORDS;
    w.cluster = homes[HOME_A].cluster;
    for (int i = 0; i < 2; i++) {
        const struct df_home *of = &homes[i == 0 ? HOME_A : b];
        w.modules[i] = of->module;
        w.add[i] = of->add;
        w.look[i] = of->look;
    }
    w.arena[DF_ARENA_B] = w.has_other ? home->arena : second_of_a;
    MUST(cuCtxSetCurrent(w.primary));
}

CUstream df_own_stream(bool of_second)
{
    return homes[of_second ? HOME_SECOND : HOME_A].own;
}

bool df_needs_two_devices(uint32_t sequence)
{
    return sequence % 9 == 7; /* not 8: each process shall have some */
}

CUdevice df_second_device(void)
{
    return w.has_second ? 1 : DF_NO_DEVICE;
}

/* Whoever has no access answers that it has none. */
static void end_access(CUcontext from, CUcontext to)
{
    MUST(cuCtxSetCurrent(from));
    (void)cu->cuCtxDisablePeerAccess(to);
}

void df_homes_leave(void)
{
    if (w.has_second) {
        end_access(w.other, w.primary);
        end_access(w.primary, w.other);
    }
}

void df_must(CUresult result, const char *what)
{
    if (result != CUDA_SUCCESS) {
        fprintf(stderr, "differential: %s: %s (%d)\n", what, gy_driver_result_name(cu, result), (int)result);
        df_line("lost %s L%d", what, (int)result);
        _exit(4);
    }
}
