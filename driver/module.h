/* Kernel images on a context. */
#ifndef DRIVER_MODULE_H
#define DRIVER_MODULE_H

#include "driver/context.h"

#include <gantry/module.h>

struct gantry_kernel {
    CUfunction function;
    const char *name;             /* of the image: static */
    struct gantry_module *module; /* owner */
};

struct gantry_module {
    struct gy_context *context;
    CUmodule native;
    const gantry_module_image *image;
    uint32_t kernel_count;
    struct gantry_kernel *kernels;
    struct gantry_module *next;   /* link of the owner's list; its lock guards it */
    struct gantry_context *owner; /* set by context/; NULL for modules of the library itself */
    uint32_t loads;               /* the owner's lock guards it; gantry_module_load() calls not undone */
};

/* Choose the form of `image` that fits (fatbin, else PTX; host code on the emulated driver), load it and
 * look every kernel up.  Statuses as gantry_module_load(). */
GANTRY_MUST_CHECK gantry_status gy_module_load(struct gy_context *context, const gantry_module_image *image,
                                               struct gantry_module **out);
/* NULL is ignored. */
void gy_module_unload(struct gantry_module *module);
GANTRY_MUST_CHECK gantry_status gy_module_kernel(struct gantry_module *module, const char *name,
                                                 struct gantry_kernel **out);

struct gy_launch_size {
    gantry_dim3 grid, block;
    size_t shared_bytes; /* dynamic */
};

/* After a launch that the driver has refused: what it asked for, and the first limit that this breaks, as
 * "grid 1x1x1 of 4096x1x1 threads, 0 bytes of shared memory (block.x 4096 is above 1024)". */
void gy_kernel_describe_launch(const struct gantry_kernel *kernel, const struct gy_launch_size *size,
                               char *text, size_t room);

#endif
