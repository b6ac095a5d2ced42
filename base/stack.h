/* SPDX-License-Identifier: MIT */
/* How much of its stack the calling thread has left. */
#ifndef BASE_STACK_H
#define BASE_STACK_H

#include <stddef.h>

/* Bytes; 0: not known, as on a stack that the application has made itself. */
size_t gy_stack_left(void);

#endif
