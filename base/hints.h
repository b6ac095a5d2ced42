/* SPDX-License-Identifier: MIT */
/* Hints for the compiler and the core: they change nothing but time. */
#ifndef BASE_HINTS_H
#define BASE_HINTS_H

/* A function for the path that every task takes: compilers think it too large. */
#define GY_INLINE inline __attribute__((always_inline))
/* A function that is rarely called: kept out of its callers, which save fewer registers then. */
#define GY_RARE __attribute__((noinline))
/* A function that is hardly ever called: kept out of its callers, and compiled for size. */
#define GY_COLD __attribute__((noinline, cold))

/* The line will be written, and most likely another core has written it last: ask for the line and for the
 * right to write it at once.  Compilers make __builtin_prefetch(at, 1) a plain prefetch on any x86-64, which
 * takes the line without that right, so that the write has to ask the other core again.  Every x86-64 takes
 * the instruction, with any address, NULL included; where it has no meaning it does nothing. */
static inline void gy_prefetch_write(const void *at)
{
#if defined(__x86_64__)
    __asm__ volatile("prefetchw (%0)" : : "r"(at));
#else
    __builtin_prefetch(at, 1);
#endif
}

/* For a thread's variables that hot paths read: they lie in the static TLS block, of which a library that is
 * opened at run time finds little.  context/hot_variables.c has them all, in a library of its own.  One that
 * is whole by itself is built with GANTRY_PLUGIN, and has none. */
#ifdef GANTRY_PLUGIN
#define GY_TLS_HOT
#else
#define GY_TLS_HOT __attribute__((tls_model("initial-exec")))
#endif

/* Bytes that keep two fields of a struct in different cache lines, wherever the struct begins. */
#define GY_CACHE_LINE 64

#endif
