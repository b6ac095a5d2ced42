/* SPDX-License-Identifier: MIT */
/* The versions of glibc's functions that the library asks for: the oldest ones, so that it can be loaded into
 * programs that bring a glibc as old as 2.28.  Included by every file of the library. */
#ifndef LIMIT_OLD_GLIBC_H
#define LIMIT_OLD_GLIBC_H

#if defined(__x86_64__) && defined(__GLIBC__)
#define GY_OLD_GLIBC(name) __asm__(".symver " #name ", " #name "@GLIBC_2.2.5")
GY_OLD_GLIBC(dladdr);
__asm__(".symver dladdr1, dladdr1@GLIBC_2.3.3");
GY_OLD_GLIBC(dlerror);
GY_OLD_GLIBC(dlopen);
GY_OLD_GLIBC(pthread_create);
GY_OLD_GLIBC(pthread_detach);
GY_OLD_GLIBC(pthread_mutex_timedlock);
GY_OLD_GLIBC(pthread_once);
GY_OLD_GLIBC(pthread_sigmask);
#endif

#endif
