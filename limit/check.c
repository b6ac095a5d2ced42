/* SPDX-License-Identifier: MIT */
/* libgantry-limit-check.so, named by $CUDA_INJECTION64_PATH: CUDA's driver opens it when a process initialises
 * CUDA, and calls InitializeInjection().  There a process of a strict job ends that lacks the library of
 * limits: LD_PRELOAD was dropped, the driver lies in a namespace of its own (dlmopen), or a static program
 * opened it. */
#include "limit/job.h"

#include "limit/old_glibc.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__) && defined(__GLIBC__)
GY_OLD_GLIBC(dlsym);
#endif

int InitializeInjection(void);

/* Does a program's dlsym() come from the library of limits?  It looks where this library was loaded. */
static bool is_limiting(void)
{
    Dl_info info;
    const void *door = dlsym(RTLD_DEFAULT, "dlsym");
    if (door == NULL || dladdr(door, &info) == 0 || info.dli_fname == NULL) {
        return false;
    }
    const char *slash = strrchr(info.dli_fname, '/');
    return strcmp(slash != NULL ? slash + 1 : info.dli_fname, "libgantry-limit.so") == 0;
}

int InitializeInjection(void)
{
    enum { IS_WELL = 1, NOT_LIMITED = 125 }; /* the latter as the command has it */
    struct gy_region_settings settings;
    const char *job = secure_getenv("GANTRY_LIMIT_JOB"), *text = secure_getenv("GANTRY_LIMIT_SETTINGS");
    if (job == NULL || text == NULL || !gy_job_parse(text, &settings) || settings.strict == 0 ||
        is_limiting()) {
        return IS_WELL;
    }
    gy_job_tell("process %d ends: libgantry-limit.so is not loaded with it, and the job is strict",
                (int)getpid());
    _exit(NOT_LIMITED); /* the driver is half initialised: nothing of the program's runs any more */
}
