/* SPDX-License-Identifier: MIT */
/* Launch callbacks: our kernels, or those of cuBLAS and cuSOLVER on the task's stream. */
#include "samples/tile_cholesky/cholesky.h"

static const gantry_dim3 wide = {256, 1, 1}, narrow = {CHOLESKY_BLOCK, 1, 1};

static gantry_launch_result launched(bool good)
{
    return good ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static bool update(gantry_launch *launch, const struct cholesky_device *device, const float *left,
                   const float *right, float *to, uint32_t pitch, uint32_t rows, uint32_t depth, bool lower)
{
    const bool large = rows % 128 == 0 && depth % 128 == 0;
    const uint32_t blocks = rows / (large ? 128 : 64);
    uint32_t only_lower = lower;
    void *args[] = {&left, &pitch, &right, &pitch, &to, &pitch, &depth, &only_lower};
    gantry_kernel *kernel = device->kernels[large ? CHOLESKY_UPDATE_128 : CHOLESKY_UPDATE_64];
    const gantry_dim3 grid = {blocks, blocks, 1};
    return gantry_launch_kernel(launch, kernel, grid, wide, 0, args) == GANTRY_OK;
}

/* A block of columns at a time: its own block, the rows below, and what these come to further right. */
gantry_launch_result cholesky_launch_factor(gantry_launch *launch, void *arg)
{
    struct cholesky_work *work = arg;
    struct cholesky_device *device = work->device;
    uint32_t pitch = work->cholesky->settings.tile;
    if (work->cholesky->uses_library) {
        void *stream = gantry_launch_stream(launch);
        return launched(stream != NULL && cholesky_library_factor(&device->library, stream, work->to, pitch));
    }
    const gantry_dim3 one = {1, 1, 1};
    bool good = true;
    for (uint32_t first = 0; first < pitch && good; first += CHOLESKY_BLOCK) {
        uint32_t rest = pitch - first - CHOLESKY_BLOCK;
        float *block = work->to + (size_t)first * pitch + first, *below = block + CHOLESKY_BLOCK;
        void *factor_args[] = {&block, &pitch}, *solve_args[] = {&block, &below, &pitch};
        const gantry_dim3 rows = {rest / CHOLESKY_BLOCK, 1, 1};
        good = gantry_launch_kernel(launch, device->kernels[CHOLESKY_FACTOR], one, narrow, 0, factor_args) ==
               GANTRY_OK;
        if (good && rest > 0) {
            good = gantry_launch_kernel(launch, device->kernels[CHOLESKY_SOLVE_64], rows, narrow, 0,
                                        solve_args) == GANTRY_OK &&
                   update(launch, device, below, below, below + (size_t)CHOLESKY_BLOCK * pitch, pitch, rest,
                          CHOLESKY_BLOCK, true);
        }
    }
    return launched(good);
}

gantry_launch_result cholesky_launch_solve(gantry_launch *launch, void *arg)
{
    struct cholesky_work *work = arg;
    struct cholesky_device *device = work->device;
    uint32_t side = work->cholesky->settings.tile;
    if (work->cholesky->uses_library) {
        void *stream = gantry_launch_stream(launch);
        return launched(stream != NULL &&
                        cholesky_library_solve(&device->library, stream, work->left, work->to, side));
    }
    void *args[] = {&work->left, &work->to, &side};
    const gantry_dim3 grid = {side / CHOLESKY_BLOCK, 1, 1};
    return launched(gantry_launch_kernel(launch, device->kernels[CHOLESKY_SOLVE], grid, wide, 0, args) ==
                    GANTRY_OK);
}

gantry_launch_result cholesky_launch_update(gantry_launch *launch, void *arg)
{
    struct cholesky_work *work = arg;
    struct cholesky_device *device = work->device;
    const uint32_t side = work->cholesky->settings.tile;
    if (work->cholesky->uses_library) {
        void *stream = gantry_launch_stream(launch);
        return launched(stream != NULL &&
                        cholesky_library_update(&device->library, stream, work->left, work->right, work->to,
                                                side, work->is_diagonal));
    }
    return launched(
        update(launch, device, work->left, work->right, work->to, side, side, side, work->is_diagonal));
}

/* A tile of another device, into the cache of this one. */
gantry_launch_result cholesky_launch_copy(gantry_launch *launch, void *arg)
{
    struct cholesky_work *work = arg;
    const size_t side = work->cholesky->settings.tile;
    return launched(gantry_launch_copy_dtod(launch, work->to, work->left, side * side * sizeof(float)) ==
                    GANTRY_OK);
}
