/* SPDX-License-Identifier: MIT */
#include "tests/dispatcher/stamps.h"

#include "tests/support/cmocka_c11.h"

#include "order_kernels.kernels.h"

#include <string.h>

void stamps_open(struct stamps *stamps, gantry_context *context, size_t bytes)
{
    gantry_module *module;
    void *cells, *on_device;
    stamps->heap = gantry_context_heap(context);
    assert_ok(gantry_module_load(context, &gantry_image_order_kernels, &module));
    assert_ok(gantry_module_get_kernel(module, "stamp", &stamps->kernel));
    assert_ok(
        gantry_heap_alloc(stamps->heap, GANTRY_MEMORY_PINNED, bytes, 0, GANTRY_ALLOC_SITE("stamps"), &cells));
    assert_ok(gantry_heap_device_address(stamps->heap, cells, &on_device));
    memset(cells, 0, bytes);
    stamps->cells = cells;
    stamps->on_device = on_device;
}

void stamps_close(struct stamps *stamps)
{
    assert_ok(gantry_heap_free(stamps->heap, stamps->cells));
}

gantry_status stamps_launch(const struct stamps *stamps, gantry_launch *launch, uint32_t begin, uint32_t end,
                            uint32_t spins)
{
    void *clock = &stamps->on_device[0];
    void *from = &stamps->on_device[begin], *to = &stamps->on_device[end];
    void *args[] = {&clock, &from, &to, &spins};
    gantry_dim3 one = {1, 1, 1};
    return gantry_launch_kernel(launch, stamps->kernel, one, one, 0, args);
}

gantry_launch_result stamps_await(const struct stamps *stamps, gantry_launch *launch, gantry_kernel *await,
                                  uint32_t flag, uint64_t most_ns)
{
    void *set = &stamps->on_device[flag], *seen = &stamps->on_device[flag + 1];
    void *args[] = {&set, &seen, &most_ns};
    const gantry_dim3 one = {1, 1, 1};
    return gantry_launch_kernel(launch, await, one, one, 0, args) == GANTRY_OK ? GANTRY_LAUNCH_DONE
                                                                               : GANTRY_LAUNCH_FAILED;
}
