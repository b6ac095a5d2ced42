/* SPDX-License-Identifier: MIT */
/* The kernel images of a context. */
#ifndef DRIVER_MODULE_H
#define DRIVER_MODULE_H

#include "base/hints.h"
#include "driver/context.h"

#include "base/thread.h"

#include <gantry/module.h>

#include <stdatomic.h>

struct gy_launch_size {
    gantry_dim3 grid, block;
    size_t shared_bytes; /* dynamic shared memory */
};

/* The places of a kernel's parameters in the block of bytes that a launch hands to the device. */
struct gy_kernel_layout {
    struct gy_leftover gone; /* the first field, so that freeing that frees all */
    uint32_t bytes;          /* the bytes of all parameters, a multiple of 16 */
    uint32_t count;
    uint32_t padded;  /* all bytes that belong to no parameter are among so many at the end, 0 or 16 or all */
    bool knows_slots; /* its macros do: see work/slot_args.h */
    struct {
        uint32_t offset, bytes;
    } of[];
};

/* The number of remembered launches that the driver has taken, as far as blocks and shared memory decide. */
#define GY_KERNEL_TAKEN 4
struct gy_kernel_taken {
    gantry_dim3 block; /* x 0: the entry is free */
    size_t shared_bytes;
};

/* The number of remembered answers to "how many blocks run at once?". */
#define GY_KERNEL_FITS 4
struct gy_kernel_fit {
    const void *key; /* of the place; NULL: the entry is free */
    gantry_dim3 block, cluster;
    size_t shared_bytes;
    uint32_t blocks;
};

struct gantry_kernel {
    CUfunction function;
    const char *name;                /* the name in the image: static */
    struct gantry_module *module;    /* owner */
    struct gy_kernel_layout *layout; /* dispatcher thread only; NULL: nobody has asked for it yet */
    struct gy_kernel_taken taken[GY_KERNEL_TAKEN]; /* dispatcher thread only */
    uint32_t next_taken;                           /* dispatcher thread only; the place of the next one */
    struct gy_kernel_fit fits[GY_KERNEL_FITS];     /* the module's fit_lock guards both: */
    uint32_t next_fit;                             /* the place of the next one */
    atomic_int ptx_version; /* written by the thread that asks first; 0: none has asked yet */
    bool may_start_early;   /* immutable; it was made with GANTRY_KERNEL_EARLY() */
};

/* How PTX is compiled. */
struct gy_jit {
    uint32_t max_registers; /* 0: no bound */
    uint32_t line_info;
};

struct gantry_module {
    struct gy_context *context;       /* immutable */
    CUmodule native;                  /* immutable; NULL: of devices alone, on the emulated driver */
    const gantry_module_image *image; /* immutable */
    gantry_module_image made;         /* immutable; the image, where the module was made of bare code */
    const char *const *symbols;    /* loading thread only; NULL: its kernels have these names in the code */
    struct gy_jit jit;             /* immutable */
    uint32_t kernel_count;         /* immutable */
    struct gantry_kernel *kernels; /* immutable; their own fields say who guards them */
    struct gantry_module *next;    /* link of the owner's list; its lock guards it */
    struct gantry_context *owner;  /* set by context/ before others see it; NULL for modules of the library
                                      itself;     immutable from then on */
    gy_mutex fit_lock;
    uint32_t loads; /* the owner's lock guards it; the gantry_module_load() calls that were not undone */
};

/* Choose the form of `image` that fits (fatbin, else PTX; host code on the emulated driver), load it and
 * look every kernel up.  Statuses as gantry_module_load(). */
GANTRY_MUST_CHECK gantry_status gy_module_load(struct gy_context *context, const gantry_module_image *image,
                                               struct gantry_module **out);
/* Code that was compiled elsewhere. */
struct gy_bare_code {
    const char *name; /* for messages; read during the load only, as are the code and the symbols */
    const void *bytes;
    const char *const *kernel_names; /* ends with NULL; stays */
    const char *const *symbols;      /* the same kernels as the code calls them; NULL: by these names */
    struct gy_jit jit;
};

/* The same for bare code. */
GANTRY_MUST_CHECK gantry_status gy_module_load_code(struct gy_context *context,
                                                    const struct gy_bare_code *code,
                                                    struct gantry_module **out);
/* NULL is ignored. */
void gy_module_unload(struct gantry_module *module);
GANTRY_MUST_CHECK gantry_status gy_module_kernel(struct gantry_module *module, const char *name,
                                                 struct gantry_kernel **out);

/* Describe a launch that the driver has refused: what it asked for, and the first limit that it breaks, as
 * "grid 1x1x1 of 4096x1x1 threads, 0 bytes of shared memory (block.x 4096 is above 1024)". */
void gy_kernel_describe_launch(const struct gantry_kernel *kernel, const struct gy_launch_size *size,
                               char *text, size_t room);

/* Ask the driver for kernel->layout, which stays.
 * @retval GANTRY_ERR_OUT_OF_HOST_MEMORY, GANTRY_ERR_DRIVER */
GANTRY_MUST_CHECK GY_COLD gantry_status gy_kernel_find_layout(struct gantry_kernel *kernel);

/* The driver has taken such a launch, so it would take it again. */
void gy_kernel_note_taken(struct gantry_kernel *kernel, const struct gy_launch_size *size);
static inline bool gy_kernel_is_taken(const struct gantry_kernel *kernel, const struct gy_launch_size *size)
{
    for (uint32_t i = 0; i < GY_KERNEL_TAKEN; i++) {
        const struct gy_kernel_taken *t = &kernel->taken[i];
        if (t->block.x == size->block.x && t->block.y == size->block.y && t->block.z == size->block.z &&
            t->shared_bytes == size->shared_bytes) {
            return size->block.x != 0 && size->grid.x - 1u < INT32_MAX && size->grid.y - 1u < UINT16_MAX &&
                   size->grid.z - 1u < UINT16_MAX; /* every device takes this */
        }
    }
    return false;
}

#endif
