/* The library is opened once, at the first recording, and stays: a range that is open when the recording ends
 * is closed by the code that opened it. */
#include "profile/nvtx.h"

#include "base/environment.h"
#include "base/library.h"
#include "base/span.h"
#include "base/status.h"
#include "base/thread.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The library of toolkits up to 12.8, and that of later ones. */
static const char *const libraries[] = {"libnvToolsExt.so.1", "libnvtx3interop.so.1"};

static gy_mutex lock = {PTHREAD_MUTEX_INITIALIZER, GY_RANK_LEAF};
static struct gy_span_ranges ranges; /* guarded by lock until it is published; immutable then */
static bool is_open;                 /* guarded by lock: opening was tried before, successfully or not */
static char missing[256];            /* guarded by lock: why the library is not there */
static atomic_bool always;           /* atomic: spans are forwarded also while nothing is recorded */

/* What $GANTRY_NVTX says: FILE, "always", "always:FILE", or nothing. */
struct wish {
    const char *file; /* NULL: one of `libraries`; "": none */
    bool always;
};

static struct wish read_wish(void)
{
    static const char word[] = "always";
    const size_t length = sizeof(word) - 1;
    const char *text = gy_environment_even_empty("GANTRY_NVTX");
    if (text == NULL || strncmp(text, word, length) != 0 || (text[length] != '\0' && text[length] != ':')) {
        return (struct wish){text, false};
    }
    return (struct wish){text[length] == ':' ? text + length + 1 : NULL, true};
}

static void open_library(void)
{
    const char *name = read_wish().file;
    void *library = name != NULL && name[0] != '\0' ? dlopen(name, RTLD_NOW) : NULL;
    for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]) && name == NULL && library == NULL; i++) {
        library = dlopen(libraries[i], RTLD_NOW);
    }
    if (library == NULL) {
        if (name != NULL && name[0] == '\0') {
            snprintf(missing, sizeof(missing), "$GANTRY_NVTX names none");
        } else {
            (void)gy_library_error(missing, sizeof(missing));
        }
        return;
    }
    *(void **)&ranges.push = dlsym(library, "nvtxRangePushA");
    *(void **)&ranges.pop = dlsym(library, "nvtxRangePop");
    *(void **)&ranges.start = dlsym(library, "nvtxRangeStartA");
    *(void **)&ranges.end = dlsym(library, "nvtxRangeEnd");
    if (ranges.start == NULL || ranges.end == NULL) {
        ranges.start = NULL;
        ranges.end = NULL;
    }
    if (ranges.push == NULL || ranges.pop == NULL) {
        snprintf(missing, sizeof(missing), "%.200s has no nvtxRangePushA() or nvtxRangePop()",
                 name != NULL ? name : "it");
    }
}

/* Is there a library?  The first call looks for it, and sets *is_first. */
static bool find_library(bool *is_first)
{
    gy_mutex_lock(&lock);
    *is_first = !is_open;
    if (!is_open) {
        is_open = true;
        open_library();
    }
    bool works = ranges.push != NULL && ranges.pop != NULL;
    gy_mutex_unlock(&lock);
    return works;
}

/* Spans are emitted to this sink while nothing is recorded: it makes them begin and end. */
static void ignore(struct gy_span_sink *self, enum gy_span_category category, const char *name,
                   uint64_t begin_ns, uint64_t end_ns, uint64_t id)
{
    (void)self;
    (void)category;
    (void)name;
    (void)begin_ns;
    (void)end_ns;
    (void)id;
}
static struct gy_span_sink idle = {.emit = ignore}; /* immutable */

/* A recording that runs has a sink of its own, and calls gy_nvtx_end() behind its end. */
static void forward_without_recording(void)
{
    struct gy_span_sink *none = NULL;
    atomic_store_explicit(&gy_span_ranges, &ranges, memory_order_release);
    (void)atomic_compare_exchange_strong(&gy_span_current, &none, &idle);
}

void gy_nvtx_enter(void)
{
    if (!read_wish().always || atomic_load(&always)) {
        return;
    }
    bool is_first;
    if (!find_library(&is_first)) {
        gy_mutex_lock(&lock);
        char why[sizeof(missing)];
        memcpy(why, missing, sizeof(why));
        gy_mutex_unlock(&lock);
        gy_log(GANTRY_LOG_WARNING,
               "profile: no NVTX ranges although $GANTRY_NVTX says always: it names no other library than "
               "libnvToolsExt.so.1 and libnvtx3interop.so.1, or one that cannot be used: %s",
               why);
        return;
    }
    atomic_store(&always, true);
    forward_without_recording();
    gy_log(GANTRY_LOG_INFO, "profile: spans are forwarded as NVTX ranges, recorded or not");
}

void gy_nvtx_begin(void)
{
    bool is_new;
    bool works = find_library(&is_new);
    if (works) {
        atomic_store_explicit(&gy_span_ranges, &ranges, memory_order_release);
    }
    if (works && is_new) {
        gy_log(GANTRY_LOG_DEBUG, "profile: spans of recordings are forwarded as NVTX ranges");
    }
}

void gy_nvtx_end(void)
{
    if (atomic_load(&always)) {
        forward_without_recording();
        return;
    }
    atomic_store_explicit(&gy_span_ranges, NULL, memory_order_release);
    if (atomic_load(&always)) { /* said meanwhile */
        forward_without_recording();
    }
}
