/* SPDX-License-Identifier: MIT */
/* The driver itself, behind the names that the library takes: where its functions are, and the real dlsym().
 *
 * One driver per process: the first file named libcuda.so* (or the emulated driver) in which a watched name
 * is found. Others pass through. */
#ifndef LIMIT_REAL_H
#define LIMIT_REAL_H

#include "driver/cuda_abi.h"
#include "limit/names.h"
#include "limit/old_glibc.h"

#include <link.h>
#include <stdbool.h>

typedef void *(*gy_dlsym_fn)(void *handle, const char *name);
typedef void *(*gy_dlvsym_fn)(void *handle, const char *name, const char *version);

/* glibc's own; found by walking the loaded objects, so that nothing that others replace is called.  NULL: not
 * yet. */
extern gy_dlsym_fn gy_real_dlsym;
extern gy_dlvsym_fn gy_real_dlvsym;
void gy_real_find_dlsym(void);

/* The object that has the address among those loaded, or NULL; and the first object from `map` on that
 * defines `name`, and where. */
struct link_map *gy_real_object_of(const void *address);
void *gy_real_after(struct link_map *map, const char *name);

/* The driver's functions: of watched names by number, and of the others.  NULL: it has none, or is not known
 * yet. */
extern void *gy_real[GY_NAME_COUNT];
struct gy_real_others {
#define F(name, prototype) CUresult(*name) prototype;
    GY_LIMIT_OTHERS(F)
#undef F
    CUresult (*cuEventQuery)(CUevent event); /* the same as the watched one */
};
extern struct gy_real_others gy_cu;

/* Has it all that the meter cannot do without? */
bool gy_real_has_needed(void);

/* Has the driver been taken? */
bool gy_real_is_known(void);
/* Does the address lie in a driver's file?  The first time it does, the driver is taken. */
bool gy_real_is_driver(const void *address);
/* Find the driver among what is loaded; whether there is one.  For callers of exported names. */
bool gy_real_find_driver(void);

/* The number of a watched name, GY_NAME_COUNT: it is none.  Calls nothing. */
enum gy_limit_name gy_real_name(const char *name);

#endif
