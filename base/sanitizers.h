/* SPDX-License-Identifier: MIT */
/* The sanitizer that the library is built with, GY_WITH_ASAN or GY_WITH_TSAN, and hints for it; both are 0
 * without one. */
#ifndef BASE_SANITIZERS_H
#define BASE_SANITIZERS_H

#if defined(__has_feature) /* clang */
#if __has_feature(address_sanitizer)
#define GY_WITH_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define GY_WITH_TSAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) /* gcc */
#define GY_WITH_ASAN 1
#endif
#if defined(__SANITIZE_THREAD__)
#define GY_WITH_TSAN 1
#endif
#ifndef GY_WITH_ASAN
#define GY_WITH_ASAN 0
#endif
#ifndef GY_WITH_TSAN
#define GY_WITH_TSAN 0
#endif

#if GY_WITH_ASAN /* some compilers come without the header */
#include <sanitizer/asan_interface.h>
#define GY_POISON(address, bytes) ASAN_POISON_MEMORY_REGION(address, bytes)
#define GY_UNPOISON(address, bytes) ASAN_UNPOISON_MEMORY_REGION(address, bytes)
#else
#define GY_POISON(address, bytes) ((void)(address), (void)(bytes))
#define GY_UNPOISON(address, bytes) ((void)(address), (void)(bytes))
#endif

#endif
