/* SPDX-License-Identifier: MIT */
/* jemalloc's functions, under names of our own where it is built in (GANTRY_OWN_JEMALLOC).
 *
 * A library that needs libjemalloc.so brings its malloc() and its operators new and delete into the whole
 * program: a C++ library that is opened later gets its operators from jemalloc then, and its malloc() from
 * libc. Such a library may mix the two (LLVM does, so a software Vulkan driver crashed).  So the archive is
 * linked in, with its symbols renamed (heap/jemalloc_names.txt) and without its C++ operators. */
#ifndef HEAP_JEMALLOC_H
#define HEAP_JEMALLOC_H

#if defined(GANTRY_OWN_JEMALLOC)
#define dallocx gy_jemalloc_dallocx
#define mallctl gy_jemalloc_mallctl
#define mallctlbymib gy_jemalloc_mallctlbymib
#define mallctlnametomib gy_jemalloc_mallctlnametomib
#define mallocx gy_jemalloc_mallocx
#define nallocx gy_jemalloc_nallocx
#define sallocx gy_jemalloc_sallocx
#define sdallocx gy_jemalloc_sdallocx
#endif

#include <jemalloc/jemalloc.h>

#endif
