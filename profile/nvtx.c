/* The library is opened once, at the first recording, and stays: a range that is open when the recording ends
 * is closed by the code that opened it.  $GANTRY_NVTX names another file, or none when it is empty. */
#include "profile/nvtx.h"

#include "base/environment.h"
#include "base/span.h"
#include "base/status.h"
#include "base/thread.h"

#include <dlfcn.h>
#include <stdlib.h>

/* The library of toolkits up to 12.8, and that of later ones. */
static const char *const libraries[] = {"libnvToolsExt.so.1", "libnvtx3interop.so.1"};

static gy_mutex lock = {PTHREAD_MUTEX_INITIALIZER, GY_RANK_LEAF};
static struct gy_span_ranges ranges; /* guarded by lock until it is published; immutable then */
static bool is_open;                 /* guarded by lock: opening was tried before, successfully or not */

static void open_library(void)
{
    const char *name = gy_environment_even_empty("GANTRY_NVTX");
    void *library = name != NULL && name[0] != '\0' ? dlopen(name, RTLD_NOW) : NULL;
    for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]) && name == NULL && library == NULL; i++) {
        library = dlopen(libraries[i], RTLD_NOW);
    }
    if (library == NULL) {
        return;
    }
    *(void **)&ranges.push = dlsym(library, "nvtxRangePushA");
    *(void **)&ranges.pop = dlsym(library, "nvtxRangePop");
}

void gy_nvtx_begin(void)
{
    gy_mutex_lock(&lock);
    bool is_new = !is_open;
    if (is_new) {
        is_open = true;
        open_library();
    }
    bool works = ranges.push != NULL && ranges.pop != NULL;
    gy_mutex_unlock(&lock);
    if (works) {
        atomic_store_explicit(&gy_span_ranges, &ranges, memory_order_release);
    }
    if (works && is_new) {
        gy_log(GANTRY_LOG_INFO, "profile: spans of recordings are forwarded as NVTX ranges");
    }
}

void gy_nvtx_end(void)
{
    atomic_store_explicit(&gy_span_ranges, NULL, memory_order_release);
}
