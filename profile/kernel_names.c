/* SPDX-License-Identifier: MIT */
#include "profile/kernel_names.h"

#include "base/alloc.h"
#include "base/status.h"
#include "base/thread.h"

#include <gantry/kernel/ranges.h>
#include <gantry/profile.h>
#include <gantry/profile_kernel.h>

#include <stdatomic.h>
#include <string.h>

struct kernel_name {
    const char *text;   /* immutable */
    atomic_uint macros; /* atomic; enum gy_kernel_macros, written with `lock` held */
};

/* The names of one call, in one block behind the struct; they are never freed before the process ends. */
struct kernel_range {
    struct kernel_range *next; /* immutable */
    uint32_t first, count;
    struct kernel_name names[];
};

/* The kernels of one load of a module. */
struct module {
    struct module *next;
    const char *const *names;
    enum gy_kernel_macros macros;
};

static _Atomic(struct kernel_range *) ranges; /* atomic: newest first; only grows */
static gy_mutex lock = {PTHREAD_MUTEX_INITIALIZER, GY_RANK_LEAF};
static uint32_t given_out = GY_KERNEL_COPIES + 1; /* guarded by lock: the next number */
static struct module *modules;                    /* guarded by lock */

static const struct kernel_name *name_of(uint32_t kernel)
{
    const struct kernel_range *range = atomic_load_explicit(&ranges, memory_order_acquire);
    for (; range != NULL; range = range->next) {
        if (kernel - range->first < range->count) {
            return &range->names[kernel - range->first];
        }
    }
    return NULL;
}

const char *gy_kernel_name(uint32_t kernel)
{
    if (kernel == GY_KERNEL_COPIES) {
        return "batched copies";
    }
    const struct kernel_name *name = name_of(kernel);
    return name != NULL ? name->text : "(not registered)";
}

bool gy_kernel_is_registered(uint32_t kernel)
{
    return name_of(kernel) != NULL;
}

enum gy_kernel_macros gy_kernel_macros_of(uint32_t kernel)
{
    const struct kernel_name *name = name_of(kernel);
    return name != NULL ? (enum gy_kernel_macros)atomic_load_explicit(&name->macros, memory_order_relaxed)
                        : GY_KERNEL_UNKNOWN;
}

bool gy_kernel_names_exist(void)
{
    return atomic_load_explicit(&ranges, memory_order_relaxed) != NULL;
}

/* ---- which kernels have the macros -------------------------------------------------------------- */

static bool has_kernel(const struct module *module, const char *name)
{
    for (const char *const *n = module->names; n != NULL && *n != NULL; n++) {
        if (strcmp(*n, name) == 0) {
            return true;
        }
    }
    return false;
}

/* What holds for all kernels of the name. */
static enum gy_kernel_macros judge(const char *name) GY_REQUIRES(lock)
{
    uint32_t found = 0, silent = 0, slots = 0;
    for (const struct module *m = modules; m != NULL; m = m->next) {
        const bool has = has_kernel(m, name);
        found += has;
        silent += has && m->macros == GY_KERNEL_SILENT;
        slots += has && m->macros == GY_KERNEL_SLOTS;
    }
    return found == 0 || (silent != found && slots != found) ? GY_KERNEL_UNKNOWN
           : silent == found                                 ? GY_KERNEL_SILENT
                                                             : GY_KERNEL_SLOTS;
}

static void judge_locked(struct kernel_range *range) GY_REQUIRES(lock)
{
    for (uint32_t i = 0; i < range->count; i++) {
        atomic_store_explicit(&range->names[i].macros, judge(range->names[i].text), memory_order_relaxed);
    }
}

static void judge_all_locked(void) GY_REQUIRES(lock)
{
    struct kernel_range *range = atomic_load_explicit(&ranges, memory_order_relaxed);
    for (; range != NULL; range = range->next) {
        judge_locked(range);
    }
}

gantry_status gy_kernel_names_add_module(const char *const *names, enum gy_kernel_macros macros)
{
    struct module *module = gy_zalloc(sizeof(*module));
    if (module == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "no memory for names of kernels");
    }
    gy_mutex_lock(&lock);
    *module = (struct module){modules, names, macros};
    modules = module;
    judge_all_locked();
    gy_mutex_unlock(&lock);
    return GANTRY_OK;
}

void gy_kernel_names_remove_module(const char *const *names)
{
    gy_mutex_lock(&lock);
    struct module **link = &modules;
    while (*link != NULL && (*link)->names != names) {
        link = &(*link)->next;
    }
    struct module *module = *link;
    if (module != NULL) {
        *link = module->next;
        judge_all_locked();
    }
    gy_mutex_unlock(&lock);
    gy_free(module);
}

/* ---- registering -------------------------------------------------------------------------------- */

static struct kernel_range *copy_names(const char *const *names, uint32_t count)
{
    size_t bytes = sizeof(struct kernel_range) + count * sizeof(struct kernel_name);
    size_t at = bytes;
    for (uint32_t i = 0; i < count; i++) {
        bytes += strlen(names[i]) + 1;
    }
    struct kernel_range *range = gy_zalloc(bytes);
    if (range == NULL) {
        return NULL;
    }
    for (uint32_t i = 0; i < count; i++) {
        size_t length = strlen(names[i]) + 1;
        range->names[i].text = memcpy((char *)range + at, names[i], length);
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
    struct kernel_range *range = copy_names(names, count);
    if (range == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "no memory for names of kernels");
    }
    gy_mutex_lock(&lock);
    bool full = count > GANTRY_CTA_KERNELS - given_out;
    if (!full) {
        range->first = given_out;
        given_out += count;
        judge_locked(range);
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

void gy_kernel_tell_too_large(uint32_t kernel, uint64_t ctas, uint32_t room, uint64_t records,
                              uint32_t places)
{
    if (room > GANTRY_RANGES_MOST) {
        gy_log(GANTRY_LOG_WARNING,
               "profile: kernel \"%s\": room for %u ranges per block is wanted, at most %u are possible",
               gy_kernel_name(kernel), room, GANTRY_RANGES_MOST);
        return;
    }
    gy_log(GANTRY_LOG_WARNING,
           "profile: kernel \"%s\": %llu blocks with room for %u ranges each take %llu places of a buffer, "
           "which has %u (ctas_per_buffer)",
           gy_kernel_name(kernel), (unsigned long long)ctas, room, (unsigned long long)records, places);
}
