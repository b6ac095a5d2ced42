/* SPDX-License-Identifier: MIT */
/* The names of a CUDA driver that the library watches.
 *
 * N(name) is one of which there is one form; V(name, suffix) has a second form for per-thread default
 * streams.  Every one has a function of that name in launches.c, copies.c, waits.c or doors.c, and is
 * exported. */
#ifndef LIMIT_NAMES_H
#define LIMIT_NAMES_H

/* clang-format off */
#define GY_LIMIT_NAMES_DOORS(N, V) \
    N(cuGetProcAddress) N(cuGetProcAddress_v2)

#define GY_LIMIT_NAMES_LAUNCHES(N, V) \
    V(cuLaunchKernel, _ptsz) V(cuLaunchKernelEx, _ptsz) V(cuLaunchCooperativeKernel, _ptsz) V(cuGraphLaunch, _ptsz) \
    V(cuMemsetD8_v2, _ptds) V(cuMemsetD16_v2, _ptds) V(cuMemsetD32_v2, _ptds) \
    V(cuMemsetD2D8_v2, _ptds) V(cuMemsetD2D16_v2, _ptds) V(cuMemsetD2D32_v2, _ptds) \
    V(cuMemsetD8Async, _ptsz) V(cuMemsetD16Async, _ptsz) V(cuMemsetD32Async, _ptsz) \
    V(cuMemsetD2D8Async, _ptsz) V(cuMemsetD2D16Async, _ptsz) V(cuMemsetD2D32Async, _ptsz)

#define GY_LIMIT_NAMES_COPIES(N, V) \
    V(cuMemcpyDtoD_v2, _ptds) V(cuMemcpyDtoDAsync_v2, _ptsz) V(cuMemcpy, _ptds) V(cuMemcpyAsync, _ptsz) \
    V(cuMemcpyPeer, _ptds) V(cuMemcpyPeerAsync, _ptsz) V(cuMemcpy2D_v2, _ptds) V(cuMemcpy2DUnaligned_v2, _ptds) \
    V(cuMemcpy2DAsync_v2, _ptsz) V(cuMemcpy3D_v2, _ptds) V(cuMemcpy3DAsync_v2, _ptsz) V(cuMemcpyBatchAsync, _ptsz) \
    V(cuMemcpyHtoD_v2, _ptds) V(cuMemcpyDtoH_v2, _ptds) V(cuMemcpyHtoDAsync_v2, _ptsz) V(cuMemcpyDtoHAsync_v2, _ptsz)

#define GY_LIMIT_NAMES_WAITS(N, V) \
    V(cuStreamSynchronize, _ptsz) V(cuStreamQuery, _ptsz) N(cuEventSynchronize) N(cuEventQuery) N(cuCtxSynchronize) \
    V(cuStreamWaitEvent, _ptsz) V(cuLaunchHostFunc, _ptsz) V(cuStreamAddCallback, _ptsz) \
    V(cuStreamWaitValue32, _ptsz) V(cuStreamWaitValue32_v2, _ptsz) V(cuStreamWaitValue64, _ptsz) \
    V(cuStreamWaitValue64_v2, _ptsz) V(cuStreamBatchMemOp, _ptsz) V(cuStreamBatchMemOp_v2, _ptsz) \
    V(cuWaitExternalSemaphoresAsync, _ptsz) V(cuStreamBeginCapture, _ptsz) V(cuStreamBeginCapture_v2, _ptsz) V(cuStreamBeginCaptureToGraph, _ptsz) \
    V(cuStreamEndCapture, _ptsz) N(cuStreamDestroy) N(cuStreamDestroy_v2) N(cuCtxDestroy) N(cuCtxDestroy_v2) N(cuCtxDetach) N(cuGreenCtxDestroy) \
    N(cuDevicePrimaryCtxRetain) N(cuDevicePrimaryCtxReset) N(cuDevicePrimaryCtxReset_v2) N(cuDevicePrimaryCtxRelease) N(cuDevicePrimaryCtxRelease_v2)

#define GY_LIMIT_NAMES(N, V) \
    GY_LIMIT_NAMES_DOORS(N, V) GY_LIMIT_NAMES_LAUNCHES(N, V) GY_LIMIT_NAMES_COPIES(N, V) GY_LIMIT_NAMES_WAITS(N, V)
/* clang-format on */

enum gy_limit_name {
#define N(name) GY_NAME_##name,
#define V(name, suffix) GY_NAME_##name, GY_NAME_##name##suffix,
    GY_LIMIT_NAMES(N, V)
#undef N
#undef V
        GY_NAME_COUNT
};

/* What else the library calls, and does not watch: F(name, prototype). */
/* clang-format off */
#define GY_LIMIT_OTHERS(F) \
    F(cuCtxGetCurrent, (CUcontext *context)) \
    F(cuCtxPushCurrent_v2, (CUcontext context)) \
    F(cuCtxPopCurrent_v2, (CUcontext *context)) \
    F(cuCtxGetDevice, (CUdevice *device)) \
    F(cuDeviceGet, (CUdevice *device, int ordinal)) \
    F(cuDeviceGetUuid, (CUuuid *uuid, CUdevice device)) \
    F(cuDeviceGetUuid_v2, (CUuuid *uuid, CUdevice device)) \
    F(cuDevicePrimaryCtxGetState, (CUdevice device, unsigned int *flags, int *active)) \
    F(cuStreamGetCtx, (CUstream stream, CUcontext *context)) \
    F(cuStreamGetFlags, (CUstream stream, unsigned int *flags)) \
    F(cuStreamIsCapturing, (CUstream stream, CUstreamCaptureStatus *status)) \
    F(cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode *mode)) \
    F(cuPointerGetAttribute, (void *value, CUpointer_attribute attribute, CUdeviceptr address)) \
    F(cuEventCreate, (CUevent *event, unsigned int flags)) \
    F(cuEventDestroy_v2, (CUevent event)) \
    F(cuEventRecord, (CUevent event, CUstream stream)) \
    F(cuEventElapsedTime, (float *milliseconds, CUevent start, CUevent end))
/* clang-format on */

#endif
