/* SPDX-License-Identifier: MIT */
#include "tests/copykernel/fixture.h"

#include "base/alloc.h"
#include "tests/support/gpu_fixture.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static uint64_t random_state = 88172645463325252u;

uint64_t random_below(uint64_t bound)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (random_state >> 11) % bound;
}

int open_fixture(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.driver = gpu_fixture_driver();
    assert_ok(gy_context_open(&options, &f->context));
    assert_ok(gy_context_push(f->context));
    assert_ok(gy_heap_create(f->context, NULL, &f->heap));
    assert_ok(gy_copier_create(f->context, f->heap, &f->copier));
    assert_ok(GY_CALL(f->context, cuStreamCreate(&f->stream, CU_STREAM_NON_BLOCKING)));
    assert_ok(
        gantry_heap_alloc(f->heap, GANTRY_MEMORY_DEVICE, ARENA, 0, GANTRY_ALLOC_SITE("test"), &f->device));
    assert_ok(
        gantry_heap_alloc(f->heap, GANTRY_MEMORY_PINNED, ARENA, 0, GANTRY_ALLOC_SITE("test"), &f->pinned));
    f->image = calloc(1, ARENA);
    assert_non_null(f->image);
    for (size_t i = 0; i < ARENA; i++) {
        ((uint8_t *)f->pinned)[i] = (uint8_t)random_below(256);
    }
    assert_ok(GY_CALL(f->context, cuMemcpyHtoD((CUdeviceptr)(uintptr_t)f->device, f->image, ARENA)));
    assert_ok(GY_CALL(f->context, cuStreamSynchronize(NULL)));
    if (f->context->driver->emulated) {
#define FIND(result, name, parameters) \
    *(void **)&f->emu.name = dlsym(f->context->driver->library, "gantry_emu_" #name);
        GANTRY_EMU_CONTROLS(FIND)
#undef FIND
        f->emu.reset();
    }
    *state = f;
    return 0;
}

int close_fixture(void **state)
{
    struct fixture *f = *state;
    if (f->context->driver->emulated) {
        f->emu.reset();
    }
    assert_ok(GY_CALL(f->context, cuStreamSynchronize(f->stream)));
    assert_ok(GY_CALL(f->context, cuStreamDestroy(f->stream)));
    gy_copier_destroy(f->copier);
    assert_ok(gantry_heap_free(f->heap, f->device));
    assert_ok(gantry_heap_free(f->heap, f->pinned));
    gy_heap_destroy(f->heap);
    assert_ok(gy_context_pop(f->context));
    gy_context_close(f->context);
    free(f->image);
    free(f);
    assert_int_equal(gy_alloc_live(), 0);
    return 0;
}

char *at(void *base, size_t offset)
{
    return (char *)base + offset;
}

gantry_status try_launch(struct fixture *f, const gantry_copy_desc *descs, size_t count)
{
    const struct gy_copy_target target = {.stream = f->stream};
    return gy_copier_launch(f->copier, &target, descs, count, NULL);
}

gantry_status flush(struct fixture *f, gantry_copy_queue *queue)
{
    const struct gy_copy_target target = {.stream = f->stream};
    return gy_copier_flush(f->copier, &target, queue, NULL);
}

void launch(struct fixture *f, const gantry_copy_desc *descs, size_t count)
{
    assert_ok(try_launch(f, descs, count));
}

void synchronize(struct fixture *f)
{
    assert_ok(GY_CALL(f->context, cuStreamSynchronize(f->stream)));
}

void assert_device_is_image(struct fixture *f)
{
    uint8_t *got = malloc(ARENA);
    assert_non_null(got);
    synchronize(f);
    assert_ok(GY_CALL(f->context, cuMemcpyDtoH(got, (CUdeviceptr)(uintptr_t)f->device, ARENA)));
    for (size_t i = 0; i < ARENA; i++) {
        if (got[i] != f->image[i]) {
            fail_msg("byte %zu is 0x%02x, not 0x%02x", i, got[i], f->image[i]);
        }
    }
    free(got);
}

struct fixture *emulated_only(void **state)
{
    struct fixture *f = *state;
    if (!f->context->driver->emulated) {
        skip();
    }
    return f;
}
