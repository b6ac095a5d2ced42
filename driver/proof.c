/* SPDX-License-Identifier: MIT */
#include "driver/proof.h"

#include "base/checking.h"
#include "base/library.h"
#include "base/proof.h"
#include "base/status.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* Why the proof could not begin: the application hears of it when the driver's lock is given back.  The
 * program runs all the same. */
static char failure[384]; /* written before `has_failed` is set */
static atomic_bool has_failed;

static void note_failure(const char *why)
{
    snprintf(failure, sizeof(failure), "%s", why);
    atomic_store(&has_failed, true);
}

void gy_driver_tell_proof(void)
{
    if (__builtin_expect(atomic_load(&has_failed), 0) && atomic_exchange(&has_failed, false)) {
        gy_log(GANTRY_LOG_WARNING, "$GANTRY_CHECK has \"edges\", which finds nothing here: %s", failure);
    }
}

/* Open the proof's library, which lies beside the emulated driver; NULL: the log says why not.  A program
 * with instrumented code has it already, and that one counts. */
static void *open_library(void *function_of_driver)
{
    char path[PATH_MAX], why[384];
    Dl_info info;
    void *library = dlopen(GY_PROOF_LIBRARY, RTLD_NOW | RTLD_NOLOAD);
    const char *slash = NULL;
    if (library == NULL && dladdr(function_of_driver, &info) != 0 && info.dli_fname != NULL) {
        slash = strrchr(info.dli_fname, '/');
    }
    if (slash != NULL) {
        const int length = (int)(slash - info.dli_fname);
        snprintf(path, sizeof(path), "%.*s/" GY_PROOF_LIBRARY, length, info.dli_fname);
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    }
    if (library == NULL) {
        note_failure(gy_library_error(why, sizeof(why)));
    }
    return library;
}

void gy_driver_begin_proof(const struct gy_driver *driver)
{
    if (!gy_check_is_on(GY_CHECK_EDGES)) {
        return;
    }
    void *prove = driver->emulated ? dlsym(driver->library, "gantry_emu_prove") : NULL;
    if (prove == NULL) {
        note_failure("it takes the emulated driver (GANTRY_DRIVER=emulated)");
        return;
    }
    void *library = open_library(prove);
    const struct gy_proof_ops *ops = library != NULL ? dlsym(library, GY_PROOF_SYMBOL) : NULL;
    if (library != NULL && ops == NULL) {
        note_failure(GY_PROOF_LIBRARY " is of another version");
    }
    if (ops != NULL) {
        void (*begin)(const struct gy_proof_device *device);
        memcpy(&begin, &prove,
               sizeof(begin)); /* ISO C has no cast from an object pointer to a function pointer */
        begin(&ops->device);
        gy_proof_begin(ops);
    }
}
