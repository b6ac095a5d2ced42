/* SPDX-License-Identifier: MIT */
/* How the arguments of a launch are compared with the kernel's parameters, which the driver says.  A call
 * that states sizes is held to them.  One that hands over bare addresses can be told only what no right call
 * does: an address where nothing can be read, and values that lie partly in one another. */
#include "dispatcher/call/launch_arguments.h"

#include <errno.h>
#include <stdio.h>
#include <sys/uio.h>
#include <unistd.h>

#define PAGE 4096u /* no page is smaller */

/* The ends of a message about the argument of that number. */
static GY_COLD gantry_status refuse(const char *what, const gantry_kernel *kernel, uint32_t argument,
                                    const char *why)
{
    return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "%s(%s): argument %u %s", what, kernel->name, argument, why);
}

/* The sizes that the call states. */
static gantry_status compare(const char *what, const gantry_kernel *kernel,
                             const struct gy_launch_arguments *given)
{
    const struct gy_kernel_layout *layout = kernel->layout;
    char why[128];
    for (uint32_t i = 0; i < given->count && i < layout->count; i++) {
        if (given->bytes[i] != layout->of[i].bytes) {
            snprintf(why, sizeof(why), "has %u bytes, and the kernel's parameter has %u", given->bytes[i],
                     layout->of[i].bytes);
            return refuse(what, kernel, i, why);
        }
    }
    if (given->count < layout->count) {
        snprintf(why, sizeof(why), "of %u bytes is missing: %u arguments for %u parameters",
                 layout->of[given->count].bytes, given->count, layout->count);
        return refuse(what, kernel, given->count, why);
    }
    if (given->count > layout->count) {
        snprintf(why, sizeof(why), "of %u bytes is one too many: %u arguments for %u parameters",
                 given->bytes[layout->count], given->count, layout->count);
        return refuse(what, kernel, layout->count, why);
    }
    return GANTRY_OK;
}

/* Can that byte be read?  True, too, when the system does not tell. */
static bool is_readable_at(uintptr_t address)
{
    char byte;
    const struct iovec here = {&byte, 1}, there = {(void *)address, 1};
    return process_vm_readv(getpid(), &here, 1, &there, 1, 0) >= 0 || errno != EFAULT;
}

static bool are_readable(const void *address, size_t bytes)
{
    const uintptr_t begin = (uintptr_t)address;
    for (size_t at = 0; at < bytes; at += PAGE) {
        if (!is_readable_at(begin + at)) {
            return false;
        }
    }
    return bytes == 0 || is_readable_at(begin + bytes - 1);
}

/* Do two values lie partly in one another?  One may be a member of the other. */
static bool are_entangled(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
    const uintptr_t first = (uintptr_t)a, second = (uintptr_t)b;
    return first < second && second < first + a_bytes && first + a_bytes < second + b_bytes;
}

static gantry_status look_at(const char *what, const gantry_kernel *kernel, void *const *values)
{
    const struct gy_kernel_layout *layout = kernel->layout;
    char why[160];
    if (layout->count != 0 && (values == NULL || !are_readable(values, layout->count * sizeof(void *)))) {
        snprintf(why, sizeof(why), "of %u bytes is missing: there is no array of %u addresses at %p",
                 layout->of[0].bytes, layout->count, (const void *)values);
        return refuse(what, kernel, 0, why);
    }
    for (uint32_t i = 0; i < layout->count; i++) {
        const uint32_t bytes = layout->of[i].bytes;
        if (values[i] == NULL || !are_readable(values[i], bytes)) {
            snprintf(
                why, sizeof(why),
                "is at %p, where %u bytes cannot be read (a value in place of its address, or fewer than "
                "%u arguments)",
                values[i], bytes, layout->count);
            return refuse(what, kernel, i, why);
        }
        for (uint32_t j = 0; j < layout->count; j++) {
            if (are_entangled(values[i], bytes, values[j], layout->of[j].bytes)) {
                snprintf(why, sizeof(why),
                         "has at most %zu bytes, where argument %u begins, and the kernel's parameter has %u",
                         (size_t)((const char *)values[j] - (const char *)values[i]), j, bytes);
                return refuse(what, kernel, i, why);
            }
        }
    }
    return GANTRY_OK;
}

gantry_status gy_launch_check_arguments(const char *what, gantry_kernel *kernel,
                                        const struct gy_launch_arguments *given)
{
    if (kernel == NULL || kernel->module->context->driver->cuFuncGetParamInfo == NULL) {
        return GANTRY_OK;
    }
    gantry_status status = kernel->layout == NULL ? gy_kernel_find_layout(kernel) : GANTRY_OK;
    if (status == GANTRY_OK && given->bytes != NULL) {
        status = compare(what, kernel, given);
    }
    return status == GANTRY_OK ? look_at(what, kernel, given->values) : status;
}
