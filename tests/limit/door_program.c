/* SPDX-License-Identifier: MIT */
/* How a program that knows nothing of Gantry reaches the driver, and what it does with it. */
#include "tests/limit/door_program.h"

#include <gantry/host_module.h>

#include "limit/region.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct door_driver cu;
struct door_emulator emu;
static CUmodule module;

void door_check(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "not so: %s\n", what);
        exit(1);
    }
}

void door_expect(CUresult expected, CUresult result, const char *call)
{
    if (result != expected) {
        fprintf(stderr, "%s: %d instead of %d\n", call, (int)result, (int)expected);
        exit(1);
    }
}

/* ---- kernels ------------------------------------------------------------------------------------ */

static void run_add(struct gantry_host_thread *self, void *const *args)
{
    uint32_t *data = *(uint32_t **)args[0];
    const uint32_t i = self->block_index[0] * self->block_size[0] + self->thread_index[0];
    if (i < *(uint32_t *)args[1]) {
        data[i] = data[i] * 3 + *(uint32_t *)args[2];
    }
}

static void run_spin(struct gantry_host_thread *self, void *const *args)
{
    (void)self;
    while (atomic_load(*(atomic_uint **)args[0]) == 0) {
        sched_yield();
    }
}

static void run_raise(struct gantry_host_thread *self, void *const *args)
{
    (void)self;
    atomic_store(*(atomic_uint **)args[0], 1);
}

/* Takes a tenth of a millisecond. */
static void run_toil(struct gantry_host_thread *self, void *const *args)
{
    struct timespec now, begin;
    (void)self;
    (void)args;
    (void)clock_gettime(CLOCK_MONOTONIC, &begin);
    do {
        (void)clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - begin.tv_sec) * 1000000000L + now.tv_nsec - begin.tv_nsec < 100000);
}

static const uint32_t add_bytes[] = {sizeof(void *), sizeof(uint32_t), sizeof(uint32_t)};
static const uint32_t flag_bytes[] = {sizeof(void *)};
static const struct gantry_host_kernel kernels[] = {
    {"add", run_add, 3, add_bytes},
    {"spin", run_spin, 1, flag_bytes},
    {"raise", run_raise, 1, flag_bytes},
    {"toil", run_toil, 1, flag_bytes},
};
static const struct gantry_host_module image = {
    GANTRY_HOST_MODULE_MAGIC, "door", sizeof(kernels) / sizeof(kernels[0]), kernels, 0, 0};

CUfunction door_kernel(const char *name)
{
    CUfunction function = NULL;
    OK(cuModuleGetFunction(&function, module, name));
    return function;
}

CUresult door_add(CUstream stream, CUdeviceptr data, uint32_t count, uint32_t value)
{
    void *parameters[] = {&data, &count, &value};
    return cu.cuLaunchKernel(door_kernel("add"), (count + 63) / 64, 1, 1, 64, 1, 1, 0, stream, parameters,
                             NULL);
}

CUresult door_flag_of(CUmodule of, const char *kernel, CUstream stream, void *flag)
{
    CUfunction function = NULL;
    void *parameters[] = {&flag};
    OK(cuModuleGetFunction(&function, of, kernel));
    return cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL);
}

CUresult door_flag(const char *kernel, CUstream stream, void *flag)
{
    return door_flag_of(module, kernel, stream, flag);
}

CUmodule door_load(void)
{
    CUmodule loaded = NULL;
    OK(cuModuleLoadDataEx(&loaded, &image, 0, NULL, NULL));
    return loaded;
}

/* ---- doors -------------------------------------------------------------------------------------- */

static void *library;
static CUresult (*get_proc)(const char *, void **, int, cuuint64_t);
static CUresult (*get_proc2)(const char *, void **, int, cuuint64_t, int *);

#ifdef DOOR_LINKED
#define F(need, member, symbol, prototype) CUresult symbol prototype;
GY_DRIVER_FUNCS(F)
#undef F
CUresult cuLaunchCooperativeKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                   unsigned, CUstream, void **);
CUresult cuMemsetD32_v2(CUdeviceptr, unsigned, size_t);
CUresult cuStandInOfTheFuture(int);

static void fill(const char *door)
{
    (void)door;
#define F(need, member, symbol, prototype) cu.member = symbol;
    GY_DRIVER_FUNCS(F)
#undef F
    cu.cuLaunchCooperativeKernel = cuLaunchCooperativeKernel;
    cu.cuMemsetD32 = cuMemsetD32_v2;
    cu.cuStandInOfTheFuture = cuStandInOfTheFuture;
}
#else
/* "cuMemAlloc_v2" is asked for as cuMemAlloc. */
static void *through_get_proc(const char *symbol, cuuint64_t flags)
{
    char plain[128];
    void *found = NULL;
    snprintf(plain, sizeof(plain), "%s", symbol);
    const size_t bytes = strlen(plain);
    if (bytes > 3 && strncmp(plain + bytes - 3, "_v2", 3) == 0) {
        plain[bytes - 3] = '\0';
    }
    if (get_proc2 != NULL) {
        (void)get_proc2(plain, &found, 13000, flags, NULL);
    } else {
        (void)get_proc(plain, &found, 11030, flags);
    }
    return found;
}

static void *find(const char *door, const char *symbol)
{
    if (strcmp(door, "default") == 0) {
        return dlsym(RTLD_DEFAULT, symbol);
    }
    if (strcmp(door, "next") == 0) {
        return dlsym(RTLD_NEXT, symbol);
    }
    if (strcmp(door, "dlvsym") == 0) {
        return dlvsym(library, symbol, "STAND_IN");
    }
    if (strncmp(door, "getproc", 7) == 0 || strcmp(door, "ptsz") == 0) {
        return through_get_proc(symbol, strcmp(door, "ptsz") == 0 ? 2 : 0);
    }
    return dlsym(library, symbol);
}

static void fill(const char *door)
{
#define F(need, member, symbol, prototype) *(void **)&cu.member = find(door, #symbol);
    GY_DRIVER_FUNCS(F)
#undef F
    *(void **)&cu.cuLaunchCooperativeKernel = find(door, "cuLaunchCooperativeKernel");
    *(void **)&cu.cuMemsetD32 = find(door, "cuMemsetD32_v2");
    *(void **)&cu.cuStandInOfTheFuture = find(door, "cuStandInOfTheFuture");
}
#endif

static void find_get_proc(const char *door)
{
    if (strcmp(door, "getproc") == 0) {
        *(void **)&get_proc = dlsym(library, "cuGetProcAddress");
        void *itself = NULL; /* it must hand itself out as the program got it */
        CHECK(get_proc("cuGetProcAddress", &itself, 11030, 0) == CUDA_SUCCESS &&
              itself == *(void **)&get_proc);
    } else if (strcmp(door, "getproc2") == 0 || strcmp(door, "ptsz") == 0) {
        *(void **)&get_proc2 = dlsym(library, "cuGetProcAddress_v2");
        void *itself = NULL;
        CHECK(get_proc2("cuGetProcAddress", &itself, 12000, 0, NULL) == CUDA_SUCCESS &&
              itself == *(void **)&get_proc2);
    }
}

void door_open(const char *door)
{
    CUcontext context;
    library =
        dlopen("libcuda.so.1",
               RTLD_NOW | (strcmp(door, "default") == 0 || strcmp(door, "next") == 0 ? RTLD_GLOBAL : 0));
    CHECK(library != NULL);
    find_get_proc(door);
    fill(door);
    CHECK(dlerror() == NULL); /* none of our questions is left as an error of the program's */
    void *emulator = dlopen(STAND_IN_EMULATOR, RTLD_NOW | RTLD_NOLOAD);
    *(void **)&emu.clock_manual = dlsym(emulator, "gantry_emu_clock_manual");
    *(void **)&emu.clock_kernel_cost = dlsym(emulator, "gantry_emu_clock_kernel_cost");
    *(void **)&emu.clock_advance = dlsym(emulator, "gantry_emu_clock_advance");
    *(void **)&emu.calls = dlsym(emulator, "gantry_emu_calls");
    *(void **)&emu.live = dlsym(emulator, "gantry_emu_live");
    *(void **)&emu.fail = dlsym(emulator, "gantry_emu_fail");
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuModuleLoadDataEx(&module, &image, 0, NULL, NULL));
    CHECK(cu.cuStandInOfTheFuture(42) == CUDA_SUCCESS);
}

/* ---- figures ------------------------------------------------------------------------------------ */

/* It stays mapped and open: closing it would give the locks of this process back. */
static const struct gy_region_device *device(void)
{
    static struct gy_region_place place;
    static const struct gy_region_device none;
    char why[GY_REGION_TEXT_BYTES];
    bool absent;
    const char *path = getenv("GANTRY_LIMIT_JOB");
    if (place.region == NULL && (path == NULL || !gy_region_look(path, &place, why, &absent))) {
        return &none;
    }
    return &place.region->devices[0];
}

uint64_t door_charged(void)
{
    return atomic_load(&device()->charged);
}

uint64_t door_held(void)
{
    return atomic_load(&device()->held);
}

uint64_t door_credits(void)
{
    return atomic_load(&device()->credits);
}

uint64_t door_in_flight(void)
{
    return atomic_load(&device()->in_flight);
}

uint64_t door_unmeasured(void)
{
    return atomic_load(&device()->unmeasured);
}
