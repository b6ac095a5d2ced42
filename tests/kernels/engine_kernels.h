/* SPDX-License-Identifier: MIT */
/* The types that test_exec.c and its kernels exchange. */
#ifndef TESTS_KERNELS_ENGINE_KERNELS_H
#define TESTS_KERNELS_ENGINE_KERNELS_H

#include <stdint.h>

struct triple {
    float x, y, z;
};

struct bulky {
    uint8_t bytes[1001];
};

struct parameters_seen {
    char c;
    short s;
    int i;
    long long l;
    float f;
    double d;
    struct triple t;
    struct bulky b;
    const uint32_t *p;
};

struct place {
    uint32_t thread[3], block[3], sm, lane;
};

struct atomics_seen {
    int sum_int, sub_int, max_int, min_int;
    unsigned sum_unsigned, max_unsigned, min_unsigned;
    unsigned bits_or, bits_and, bits_xor, cas, exchange;
    unsigned long long sum_wide, max_wide, min_wide, exchanged;
    float sum_float;
    double sum_double;
};

struct arithmetic_seen {
    float root, inverse_root, absolute, floor, ceiling, nearest, fused, sum;
    int rounded, truncated, least, ones, leading, first;
    unsigned most, shifted, vector, timer_runs;
    int float_int;
    unsigned float_uint;
    float int_float, uint_float;
    long long double_wide;
    double wide_double;
};

#endif
