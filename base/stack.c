/* SPDX-License-Identifier: MIT */
#include "base/stack.h"

#include <pthread.h>
#include <stdint.h>

/* The stack of this thread, since asking for it takes long; `end` 0: not asked yet. */
static _Thread_local struct {
    uintptr_t begin, end;
} stack;

static void find_stack(void)
{
    pthread_attr_t attributes;
    void *begin = NULL;
    size_t size = 0;
    stack.begin = stack.end = UINTPTR_MAX; /* no address is in it */
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) {
        return;
    }
    if (pthread_attr_getstack(&attributes, &begin, &size) == 0) {
        stack.begin = (uintptr_t)begin;
        stack.end = stack.begin + size;
    }
    (void)pthread_attr_destroy(&attributes);
}

size_t gy_stack_left(void)
{
    if (stack.end == 0) {
        find_stack();
    }
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    return here > stack.begin && here < stack.end ? here - stack.begin : 0;
}
