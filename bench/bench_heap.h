/* SPDX-License-Identifier: MIT */
/* The parts of `gantry bench heap`. */
#ifndef BENCH_BENCH_HEAP_H
#define BENCH_BENCH_HEAP_H

#include "bench/harness.h"
#include "bench/raw_cuda.h"

struct bench_heap_context {
    gantry_context *context; /* current on the main thread */
    gantry_heap *heap;
    struct raw_cuda cuda;
    bool emulated;
};

/* True for GANTRY_OK; for any other status false, with a line on stderr. */
bool bench_heap_ok(gantry_status status);

/* Measure a million operations on blocks of tensor-like sizes (fewer with less than 15 runs): their time,
 * and the slab bytes against the peak in use. */
bool bench_heap_trace(struct bench_heap_context *context, const struct bench_options *options);
/* Let four threads with a stream each allocate and free as training steps do, and measure the time, the
 * slowest operation, and the slab bytes against the peak in use. */
bool bench_heap_training(struct bench_heap_context *context, const struct bench_options *options);
/* Measure the caller's time in gantry_free_after(). */
bool bench_heap_free_after(struct bench_heap_context *context, const struct bench_options *options);
/* Measure the longest time that any thread waits while a large block is given back and the device works. */
bool bench_heap_stall(struct bench_heap_context *context, const struct bench_options *options);

/* Print a row of memory held per byte of the peak in use, which is `peak`. */
void bench_heap_report_slabs(const struct bench_options *options, const char *name, double ratio,
                             uint64_t peak, bool good);

#endif
