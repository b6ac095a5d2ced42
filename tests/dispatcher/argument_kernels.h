/* SPDX-License-Identifier: MIT */
/* The types that test_arguments.c and its kernels share. */
#ifndef TESTS_DISPATCHER_ARGUMENT_KERNELS_H
#define TESTS_DISPATCHER_ARGUMENT_KERNELS_H

#include <stdint.h>

struct argument_pair {
    uint32_t first, second, third;
};

#endif
