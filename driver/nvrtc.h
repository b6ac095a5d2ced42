/* SPDX-License-Identifier: MIT */
/* NVRTC, the compiler of CUDA C++ that is a library: it is found when it is first asked for, and stays. */
#ifndef DRIVER_NVRTC_H
#define DRIVER_NVRTC_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct gy_nvrtc_source {
    const char *text, *name;
    const char *const *options;      /* NULL-terminated; NULL: none */
    const char *const *kernel_names; /* NULL-terminated expressions of C++ */
    int architecture;                /* of the device, as 90 */
    char *log;                       /* takes the compiler's messages; NULL: nobody wants them */
    size_t log_bytes;
};

/* The code that it was compiled to. */
struct gy_nvrtc_code {
    struct _nvrtcProgram *program; /* owns the names */
    char *bytes;                   /* a cubin, or the text of PTX */
    const char **symbols; /* NULL-terminated: the kernels' names in the code, in the source's order */
};

/* Any thread; compiles on the calling one.  `out` is written on success only, and is to be closed then.
 * Statuses as gantry_module_compile(). */
GANTRY_MUST_CHECK gantry_status gy_nvrtc_compile(const struct gy_nvrtc_source *source,
                                                 struct gy_nvrtc_code *out);
void gy_nvrtc_close(struct gy_nvrtc_code *code);

#endif
