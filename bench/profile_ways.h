/* SPDX-License-Identifier: MIT */
/* What the kernels of profile_kernels_bench.cu share with the host. */
#ifndef BENCH_PROFILE_WAYS_H
#define BENCH_PROFILE_WAYS_H

#include <stdint.h>

#define BENCH_DATA_WORDS (4u << 20) /* 16 MiB: they stay in the cache */
#define BENCH_SHIFTS 8u             /* kernels of a kind, see bench/profile_work.h */
#define BENCH_COUNTERS 1024u
#define BENCH_COUNTER_WORDS 8u /* from one counter to the next */
#define BENCH_BOX_WORDS 16u    /* of 8 bytes: a line */
#define BENCH_LINES 16u        /* lines through which two SMs send each other messages */

#endif
