/* SPDX-License-Identifier: MIT */
/* The application's allocator, and how many blocks of it are in use.  While handles are checked, the memory
 * of destroyed objects is kept for a while: nobody uses such blocks. */
#include "base/alloc.h"
#include "base/handle.h"
#include "base/options.h"

long gy_alloc_live(void)
{
    return gy_alloc_count() - gy_handle_kept();
}

gantry_status gantry_set_allocator(const gantry_allocator *allocator)
{
    gantry_allocator ours = {.struct_size = 0};
    gantry_status status =
        gy_options_import(&ours, sizeof(ours), allocator, sizeof(ours), "gantry_allocator");
    if (status != GANTRY_OK) {
        return status;
    }
    if (allocator != NULL && (ours.allocate == NULL || ours.release == NULL)) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "allocator: a function is NULL");
    }
    gy_handle_flush();
    if (gy_alloc_live() != 0) {
        return GY_FAIL(GANTRY_ERR_STATE, "allocator: %ld blocks of the present one are in use",
                       gy_alloc_live());
    }
    gy_alloc_use(allocator != NULL ? &ours : NULL);
    return GANTRY_OK;
}
