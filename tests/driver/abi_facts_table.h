/* SPDX-License-Identifier: MIT */
/* The two tables that test_abi.c compares, row by row. */
#ifndef TESTS_DRIVER_ABI_FACTS_TABLE_H
#define TESTS_DRIVER_ABI_FACTS_TABLE_H

#include <stddef.h>

struct abi_fact {
    const char *name;
    long long value; /* a constant, a size, or an offset */
    size_t size;     /* the size of a member; else 0 */
};

extern const struct abi_fact abi_ours[];
extern const size_t abi_ours_count;
extern const struct abi_fact abi_cuda[];
extern const size_t abi_cuda_count;
extern const int abi_cuda_version;

#define V(constant) {"value of " #constant, (long long)(constant), 0},
#define S(type) {"size of " #type, (long long)sizeof(type), 0},
#define M(type, member) \
    {"offset of " #type "." #member, (long long)offsetof(type, member), sizeof(((type *)0)->member)},

#endif
