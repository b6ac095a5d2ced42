/* SPDX-License-Identifier: MIT */
#include "samples/tile_cholesky/libraries.h"

#include "cli/messages.h"

#include <dlfcn.h>
#include <string.h>

/* What the libraries' documentation says of these arguments. */
enum { LOWER = 0, NOT_TRANSPOSED = 0, TRANSPOSED = 1, RIGHT_SIDE = 1, NOT_UNIT = 0 };

/* member, symbol, arguments; all return 0 when they have worked */
#define BLAS_FUNCTIONS(F)                                                                                    \
    F(blas_create, cublasCreate_v2, (void **handle))                                                         \
    F(blas_destroy, cublasDestroy_v2, (void *handle))                                                        \
    F(blas_set_stream, cublasSetStream_v2, (void *handle, void *stream))                                     \
    F(blas_gemm, cublasSgemm_v2,                                                                             \
      (void *handle, int trans_a, int trans_b, int m, int n, int k, const float *alpha, const float *a,      \
       int a_pitch, const float *b, int b_pitch, const float *beta, float *c, int c_pitch))                  \
    F(blas_syrk, cublasSsyrk_v2,                                                                             \
      (void *handle, int triangle, int trans, int n, int k, const float *alpha, const float *a, int a_pitch, \
       const float *beta, float *c, int c_pitch))                                                            \
    F(blas_trsm, cublasStrsm_v2,                                                                             \
      (void *handle, int side, int triangle, int trans, int diagonal, int m, int n, const float *alpha,      \
       const float *a, int a_pitch, float *b, int b_pitch))
#define SOLVER_FUNCTIONS(F)                                                  \
    F(solver_create, cusolverDnCreate, (void **handle))                      \
    F(solver_destroy, cusolverDnDestroy, (void *handle))                     \
    F(solver_set_stream, cusolverDnSetStream, (void *handle, void *stream))  \
    F(solver_workspace, cusolverDnSpotrf_bufferSize,                         \
      (void *handle, int triangle, int n, float *a, int pitch, int *floats)) \
    F(solver_potrf, cusolverDnSpotrf,                                        \
      (void *handle, int triangle, int n, float *a, int pitch, float *workspace, int floats, int *info))

#define MEMBER(member, symbol, arguments) int(*member) arguments;
static struct {
    BLAS_FUNCTIONS(MEMBER)
    SOLVER_FUNCTIONS(MEMBER)
    bool is_found;
} functions;
#undef MEMBER

static void *open_first(const char *const *names)
{
    void *library = NULL;
    for (; library == NULL && *names != NULL; names++) {
        library = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
    }
    return library;
}

/* POSIX lets dlsym()'s void * be a function's address; ISO C wants it copied. */
static bool bind(void *library, const char *symbol, void *out, size_t bytes)
{
    void *address = dlsym(library, symbol);
    memcpy(out, &address, bytes);
    return address != NULL;
}

/* The libraries stay open: they cannot be relied on to go away. */
bool cholesky_library_find(const char **why)
{
    static const char *const blas[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so", NULL},
                             *const solvers[] = {"libcusolver.so.12", "libcusolver.so.11", "libcusolver.so",
                                                 NULL};
    *why = NULL;
    if (functions.is_found) {
        return true;
    }
    void *a = open_first(blas), *b = open_first(solvers);
    if (a == NULL || b == NULL) {
        *why = a == NULL ? "libcublas.so is not found" : "libcusolver.so is not found";
        return false;
    }
#define BIND_BLAS(member, symbol, arguments)                              \
    if (!bind(a, #symbol, &functions.member, sizeof(functions.member))) { \
        *why = "libcublas.so lacks " #symbol;                             \
    }
#define BIND_SOLVER(member, symbol, arguments)                            \
    if (!bind(b, #symbol, &functions.member, sizeof(functions.member))) { \
        *why = "libcusolver.so lacks " #symbol;                           \
    }
    BLAS_FUNCTIONS(BIND_BLAS)
    SOLVER_FUNCTIONS(BIND_SOLVER)
    functions.is_found = *why == NULL;
    return functions.is_found;
}

static bool ok(int result, const char *what)
{
    if (result != 0) {
        cli_error("tile_cholesky: %s: status %d", what, result);
    }
    return result == 0;
}

bool cholesky_library_open(struct cholesky_library *library, uint32_t size, size_t *workspace_floats)
{
    int floats = 0;
    bool good = ok(functions.blas_create(&library->blas), "cublasCreate") &&
                ok(functions.solver_create(&library->solver), "cusolverDnCreate") &&
                ok(functions.solver_workspace(library->solver, LOWER, (int)size, NULL, (int)size, &floats),
                   "cusolverDnSpotrf_bufferSize");
    *workspace_floats = floats > 0 ? (size_t)floats : 0;
    library->workspace_floats = floats;
    return good;
}

void cholesky_library_close(struct cholesky_library *library)
{
    if (library->solver != NULL) {
        (void)functions.solver_destroy(library->solver);
    }
    if (library->blas != NULL) {
        (void)functions.blas_destroy(library->blas);
    }
    memset(library, 0, sizeof(*library));
}

bool cholesky_library_factor(struct cholesky_library *library, void *stream, float *a, uint32_t size)
{
    int n = (int)size;
    return ok(functions.solver_set_stream(library->solver, stream), "cusolverDnSetStream") &&
           ok(functions.solver_potrf(library->solver, LOWER, n, a, n, library->workspace,
                                     library->workspace_floats, library->info),
              "cusolverDnSpotrf");
}

bool cholesky_library_solve(struct cholesky_library *library, void *stream, const float *l, float *x,
                            uint32_t size)
{
    const float one = 1;
    int n = (int)size;
    return ok(functions.blas_set_stream(library->blas, stream), "cublasSetStream") &&
           ok(functions.blas_trsm(library->blas, RIGHT_SIDE, LOWER, TRANSPOSED, NOT_UNIT, n, n, &one, l, n, x,
                                  n),
              "cublasStrsm");
}

bool cholesky_library_update(struct cholesky_library *library, void *stream, const float *left,
                             const float *right, float *to, uint32_t size, bool is_diagonal)
{
    const float minus = -1, one = 1;
    int n = (int)size;
    if (!ok(functions.blas_set_stream(library->blas, stream), "cublasSetStream")) {
        return false;
    }
    return is_diagonal ? ok(functions.blas_syrk(library->blas, LOWER, NOT_TRANSPOSED, n, n, &minus, left, n,
                                                &one, to, n),
                            "cublasSsyrk")
                       : ok(functions.blas_gemm(library->blas, NOT_TRANSPOSED, TRANSPOSED, n, n, n, &minus,
                                                left, n, right, n, &one, to, n),
                            "cublasSgemm");
}
