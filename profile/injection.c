/* SPDX-License-Identifier: MIT */
/* Each module of NVTX has a table of pointers to slots, from number 1 on.  The tool writes its functions into
 * the slots of those that it wants to hear of.  All modules have a table, since a tool may refuse to go on
 * without; we call functions of two. */
#include "profile/injection.h"

#include "base/library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

_Static_assert(sizeof(struct gy_injection_event) == 48 && offsetof(struct gy_injection_event, message) == 40,
               "the layout of nvtxEventAttributes_t");

typedef void (*slot)(void);
enum { CUDA = 2, DOMAINS = 5, MODULES = 7, MOST_SLOTS = 16 };
enum {
    DOMAIN_MARK = 1,
    DOMAIN_START,
    DOMAIN_END,
    DOMAIN_PUSH,
    DOMAIN_POP,
    DOMAIN_CATEGORY = 8,
    DOMAIN_CREATE = 12
};
enum { CUDA_DEVICE = 1, CUDA_STREAM = 5 };
enum { CALLBACKS = 1, VERSIONS = 3 }; /* tables that a tool asks for */

/* How many slots each module has; number 0 is none. */
static const unsigned counts[MODULES] = {0, 16, 9, 15, 7, 16, 7}; /* immutable */
static slot slots[MODULES]
                 [MOST_SLOTS]; /* immutable once gy_injection_open() has returned, which is called once */
static slot *tables[MODULES][MOST_SLOTS]; /* likewise */

static int module_table(int module, slot ***out, unsigned *count)
{
    if (module < 1 || module >= MODULES) {
        return 0;
    }
    if (out != NULL) {
        *out = tables[module];
    }
    if (count != NULL) {
        *count = counts[module];
    }
    return 1;
}

static void hear_version(uint32_t version)
{
    (void)version; /* of the tool; it is told ours */
}

static const struct {
    size_t bytes;
    int (*module_table)(int module, slot ***out, unsigned *count);
} callbacks = {sizeof(callbacks), module_table};
static const struct {
    size_t bytes;
    uint32_t version, reserved;
    void (*hear_version)(uint32_t version);
} versions = {sizeof(versions), 3, 0, hear_version};

static const void *export_table(uint32_t number)
{
    return number == CALLBACKS  ? (const void *)&callbacks
           : number == VERSIONS ? (const void *)&versions
                                : NULL;
}

bool gy_injection_open(const char *file, struct gy_injection *out, char *why, size_t room)
{
    for (unsigned module = 1; module < MODULES; module++) {
        for (unsigned i = 1; i < counts[module]; i++) {
            tables[module][i] = &slots[module][i];
        }
    }
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        (void)gy_library_error(why, room);
        return false;
    }
    int (*initialize)(const void *(*table)(uint32_t)) = NULL;
    *(void **)&initialize = dlsym(library, "InitializeInjectionNvtx2");
    if (initialize == NULL || initialize(export_table) == 0) {
        snprintf(why, room, "%.160s %s", file,
                 initialize == NULL ? "has no InitializeInjectionNvtx2()" : "does not start");
        memset(slots, 0, sizeof(slots));
        return false;
    }
    const slot *const domains = slots[DOMAINS];
    *out = (struct gy_injection){.create_domain = (void *(*)(const char *))domains[DOMAIN_CREATE],
                                 .name_category =
                                     (void (*)(void *, uint32_t, const char *))domains[DOMAIN_CATEGORY],
                                 .name_device = (void (*)(int, const char *))slots[CUDA][CUDA_DEVICE],
                                 .name_stream = (void (*)(void *, const char *))slots[CUDA][CUDA_STREAM]};
    *(slot *)&out->put_mark = domains[DOMAIN_MARK];
    *(slot *)&out->push = domains[DOMAIN_PUSH];
    *(slot *)&out->pop = domains[DOMAIN_POP];
    *(slot *)&out->start = domains[DOMAIN_START];
    *(slot *)&out->end = domains[DOMAIN_END];
    return true;
}
