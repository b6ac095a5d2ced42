/* SPDX-License-Identifier: MIT */
/* The emulated driver's control functions, for tests. */
#ifndef TESTS_SUPPORT_EMU_CONTROLS_H
#define TESTS_SUPPORT_EMU_CONTROLS_H

#include "emulator/gantry_emu.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* The functions of this library; false, and all are NULL, when it lacks one of them. */
static inline bool emu_controls_bind(struct gantry_emu_control *emu, void *library)
{
    bool there = library != NULL;
#define X(result, name, parameters)                                                      \
    *(void **)&emu->name = library != NULL ? dlsym(library, "gantry_emu_" #name) : NULL; \
    there = there && emu->name != NULL;
    GANTRY_EMU_CONTROLS(X)
#undef X
    return there;
}

/* Load the emulated driver and find its functions; false, with a message, when there is none. */
static inline bool emu_controls_open(struct gantry_emu_control *emu)
{
    const char *path = getenv("GANTRY_EMULATOR");
    if (emu_controls_bind(emu, dlopen(path != NULL ? path : "libgantry-emu.so", RTLD_NOW))) {
        return true;
    }
    fprintf(stderr, "skipped: no emulated driver: %s\n", dlerror());
    return false;
}

#endif
