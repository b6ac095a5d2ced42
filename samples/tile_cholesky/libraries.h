/* SPDX-License-Identifier: MIT */
/* cuBLAS and cuSOLVER, opened when the program runs: it is built without them and runs without them. */
#ifndef CHOLESKY_LIBRARIES_H
#define CHOLESKY_LIBRARIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Handles for one device.  One thread at a time. */
struct cholesky_library {
    void *blas, *solver;
    float *workspace; /* device memory for factoring, given by the caller */
    int workspace_floats;
    int *info; /* device memory: what factoring says of the matrix */
};

/* Find both; false: one of them is not there, and `*why` says so. */
bool cholesky_library_find(const char **why);
/* Make the handles, with the device's context current; says how many floats of workspace factoring of `size`
 * rows needs.  False: told on stderr. */
bool cholesky_library_open(struct cholesky_library *library, uint32_t size, size_t *workspace_floats);
void cholesky_library_close(struct cholesky_library *library);

/* On a CUstream; matrices are column-major with distance `pitch` between columns, lower triangles.  False:
 * told on stderr. */
bool cholesky_library_factor(struct cholesky_library *library, void *stream, float *a, uint32_t size);
bool cholesky_library_solve(struct cholesky_library *library, void *stream, const float *l, float *x,
                            uint32_t size);
bool cholesky_library_update(struct cholesky_library *library, void *stream, const float *left,
                             const float *right, float *to, uint32_t size, bool is_diagonal);

#endif
