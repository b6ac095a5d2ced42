#include "profile/kernel_names.h"

#include "base/alloc.h"
#include "base/status.h"
#include "base/thread.h"

#include <gantry/profile.h>
#include <gantry/profile_kernel.h>

#include <stdatomic.h>
#include <string.h>

/* The names of one call, in one block behind the struct; never freed before the process ends. */
struct range {
    struct range *next; /* immutable */
    uint32_t first, count;
    const char *names[];
};

static _Atomic(struct range *) ranges; /* atomic: newest first; only grows */
static gy_mutex lock = {PTHREAD_MUTEX_INITIALIZER, GY_RANK_LEAF};
static uint32_t given_out; /* guarded by lock */

const char *gy_kernel_name(uint32_t kernel)
{
    const struct range *range = atomic_load_explicit(&ranges, memory_order_acquire);
    for (; range != NULL; range = range->next) {
        if (kernel - range->first < range->count) {
            return range->names[kernel - range->first];
        }
    }
    return "(not registered)";
}

bool gy_kernel_names_exist(void)
{
    return atomic_load_explicit(&ranges, memory_order_relaxed) != NULL;
}

static struct range *copy_names(const char *const *names, uint32_t count)
{
    size_t bytes = sizeof(struct range) + count * sizeof(char *);
    size_t at = bytes;
    for (uint32_t i = 0; i < count; i++) {
        bytes += strlen(names[i]) + 1;
    }
    struct range *range = gy_zalloc(bytes);
    if (range == NULL) {
        return NULL;
    }
    for (uint32_t i = 0; i < count; i++) {
        size_t length = strlen(names[i]) + 1;
        range->names[i] = memcpy((char *)range + at, names[i], length);
        at += length;
    }
    range->count = count;
    return range;
}

gantry_status gantry_profile_register_kernels(const char *const *names, uint32_t count, uint32_t *out_first)
{
    if (names == NULL || count == 0 || out_first == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_profile_register_kernels: %s",
                       names == NULL ? "names is NULL"
                       : count == 0  ? "no kernel"
                                     : "out_first is NULL");
    }
    for (uint32_t i = 0; i < count; i++) {
        if (names[i] == NULL) {
            return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_profile_register_kernels: name %u is NULL",
                           i);
        }
    }
    struct range *range = copy_names(names, count);
    if (range == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "no memory for names of kernels");
    }
    gy_mutex_lock(&lock);
    bool full = count > GANTRY_CTA_KERNELS - given_out;
    if (!full) {
        range->first = given_out;
        given_out += count;
        range->next = atomic_load_explicit(&ranges, memory_order_relaxed);
        atomic_store_explicit(&ranges, range, memory_order_release);
        *out_first = range->first;
    }
    gy_mutex_unlock(&lock);
    if (full) {
        gy_free(range);
        return GY_FAIL(GANTRY_ERR_UNSUPPORTED, "kernels have numbers below %u", GANTRY_CTA_KERNELS);
    }
    return GANTRY_OK;
}
