/* SPDX-License-Identifier: MIT */
#include "profile/range_names.h"

#include "base/alloc.h"
#include "base/status.h"
#include "base/thread.h"
#include "profile/kernel_names.h"

#include <gantry/profile.h>
#include <gantry/profile_kernel.h>

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* The names of one call, in one block behind the struct; they are never freed before the process ends. */
struct range_names {
    const struct range_names *next; /* immutable */
    uint32_t kernel, count;
    const char *names[];
};

static _Atomic(const struct range_names *) all; /* atomic: newest first; only grows */
static gy_mutex lock = {PTHREAD_MUTEX_INITIALIZER, GY_RANK_LEAF};

const char *gy_range_name(uint32_t kernel, uint32_t id, char room[GY_RANGE_NAME_ROOM])
{
    const struct range_names *names = atomic_load_explicit(&all, memory_order_acquire);
    while (names != NULL && names->kernel != kernel) {
        names = names->next;
    }
    if (names != NULL && id < names->count) {
        return names->names[id];
    }
    snprintf(room, GY_RANGE_NAME_ROOM, "range %u", id);
    return room;
}

static struct range_names *copy_names(uint32_t kernel, const char *const *names, uint32_t count)
{
    size_t bytes = sizeof(struct range_names) + count * sizeof(const char *);
    size_t at = bytes;
    for (uint32_t i = 0; i < count; i++) {
        bytes += strlen(names[i]) + 1;
    }
    struct range_names *copy = gy_zalloc(bytes);
    if (copy == NULL) {
        return NULL;
    }
    for (uint32_t i = 0; i < count; i++) {
        size_t length = strlen(names[i]) + 1;
        copy->names[i] = memcpy((char *)copy + at, names[i], length);
        at += length;
    }
    copy->kernel = kernel;
    copy->count = count;
    return copy;
}

gantry_status gantry_profile_name_ranges(uint32_t kernel, const char *const *names, uint32_t count)
{
    if (names == NULL || count == 0 || count > GANTRY_RANGE_IDS) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                       "gantry_profile_name_ranges: %s, %u names, 1 to %u are possible",
                       names == NULL ? "names is NULL" : "names are given", count, GANTRY_RANGE_IDS);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (names[i] == NULL) {
            return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_profile_name_ranges: name %u is NULL", i);
        }
    }
    if (!gy_kernel_is_registered(kernel)) {
        return GY_FAIL(GANTRY_ERR_NOT_FOUND, "gantry_profile_name_ranges: no kernel has the number %u",
                       kernel);
    }
    struct range_names *copy = copy_names(kernel, names, count);
    if (copy == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "no memory for names of ranges");
    }
    gy_mutex_lock(&lock);
    copy->next = atomic_load_explicit(&all, memory_order_relaxed);
    atomic_store_explicit(&all, copy, memory_order_release);
    gy_mutex_unlock(&lock);
    return GANTRY_OK;
}
