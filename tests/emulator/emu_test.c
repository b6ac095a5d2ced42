/* SPDX-License-Identifier: MIT */
#include "tests/emulator/emu_test.h"

#include <gantry/host_module.h>

#include <dlfcn.h>
#include <sched.h>
#include <string.h>

const struct gy_driver *cu;
struct gantry_emu_control emu;
CUcontext et_context;
CUmodule et_module;

static void run_add(struct gantry_host_thread *self, void *const *args)
{
    uint32_t *data = *(uint32_t **)args[0];
    uint32_t i = self->block_index[0] * self->block_size[0] + self->thread_index[0];
    if (i < *(uint32_t *)args[1]) {
        data[i] += *(uint32_t *)args[2];
    }
}

static void run_where(struct gantry_host_thread *self, void *const *args)
{
    uint32_t *sms = *(uint32_t **)args[0];
    sms[self->block_index[0]] = self->sm;
}

static void run_trap(struct gantry_host_thread *self, void *const *args)
{
    (void)self;
    emu.trap(*(int *)args[0]);
}

static void run_gate(struct gantry_host_thread *self, void *const *args)
{
    (void)self;
    atomic_uint *gate = *(atomic_uint **)args[0];
    while (atomic_load(gate) == 0) {
        sched_yield();
    }
}

static const uint32_t add_bytes[] = {sizeof(void *), sizeof(uint32_t), sizeof(uint32_t)};
static const uint32_t pointer_bytes[] = {sizeof(void *)};
static const uint32_t int_bytes[] = {sizeof(int)};
static const struct gantry_host_kernel kernels[] = {
    {"add", run_add, 3, add_bytes},
    {"where", run_where, 1, pointer_bytes},
    {"trap", run_trap, 1, int_bytes},
    {"gate", run_gate, 1, pointer_bytes},
};
static const struct gantry_host_module image = {GANTRY_HOST_MODULE_MAGIC, "emu_test", 4, kernels, 0, 0};

void et_expect(CUresult expected, CUresult result, const char *call, const char *file, int line)
{
    if (result != expected) {
        print_error("%s: %d instead of %d\n", call, (int)result, (int)expected);
        _fail(file, line);
    }
}

static int load_control(void)
{
#define X(result, name, parameters) *(void **)&emu.name = dlsym(cu->library, "gantry_emu_" #name);
    GANTRY_EMU_CONTROLS(X)
#undef X
    return emu.reset != NULL ? 0 : -1;
}

CUresult et_load(CUmodule *module)
{
    return cu->cuModuleLoadDataEx(module, &image, 0, NULL, NULL);
}

int et_open(void **state)
{
    (void)state;
    if (cu == NULL && (gy_driver_open(GANTRY_DRIVER_EMULATED, &cu) != GANTRY_OK || load_control() != 0)) {
        return -1;
    }
    emu.reset();
    if (cu->cuCtxCreate(&et_context, 0, 0) != CUDA_SUCCESS) {
        return -1;
    }
    return et_load(&et_module) == CUDA_SUCCESS ? 0 : -1;
}

int et_close(void **state)
{
    (void)state;
    emu.reset();
    if (et_context != NULL) {
        cu->cuCtxDestroy(et_context);
    }
    et_context = NULL;
    return emu.live(GANTRY_EMU_LIVE_DEVICE_BYTES) == 0 && emu.live(GANTRY_EMU_LIVE_CONTEXTS) == 0 ? 0 : -1;
}

CUfunction et_function(const char *name)
{
    CUfunction function = NULL;
    cu_ok(cuModuleGetFunction(&function, et_module, name));
    return function;
}

CUresult et_add(CUstream stream, CUdeviceptr data, uint32_t count, uint32_t value)
{
    void *params[] = {&data, &count, &value};
    return cu->cuLaunchKernel(et_function("add"), (count + 63) / 64, 1, 1, 64, 1, 1, 0, stream, params, NULL);
}

CUresult et_trap(CUstream stream, int result)
{
    void *params[] = {&result};
    return cu->cuLaunchKernel(et_function("trap"), 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
}

CUresult et_gate(CUstream stream, atomic_uint *gate)
{
    void *params[] = {&gate};
    return cu->cuLaunchKernel(et_function("gate"), 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
}

CUstream et_stream(void)
{
    CUstream stream = NULL;
    cu_ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

CUdeviceptr et_words(uint32_t count, uint32_t value)
{
    CUdeviceptr address = 0;
    cu_ok(cuMemAlloc(&address, (size_t)count * 4));
    cu_ok(cuMemsetD32Async(address, value, count, NULL));
    cu_ok(cuStreamSynchronize(NULL));
    return address;
}

uint32_t et_word(CUdeviceptr address)
{
    uint32_t word = 0;
    cu_ok(cuMemcpyDtoH(&word, address, sizeof(word)));
    return word;
}
