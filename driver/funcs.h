/* SPDX-License-Identifier: MIT */
/* Every driver function Gantry may call: F(need, member, symbol, prototype).
 *
 *   need       true: a driver without it is refused; false: the member is NULL and the caller has another
 *              way or reports GANTRY_ERR_UNSUPPORTED
 *   member     plain name, as in the CUDA documentation
 *   symbol     the exported symbol, its ABI version pinned: a newer toolkit changes nothing
 *
 * The same list makes the table (driver/driver.h), the loader, the emulated driver's prototypes and the
 * proof against cuda.h (tests/driver/test_abi.c). */
#ifndef DRIVER_FUNCS_H
#define DRIVER_FUNCS_H

#include "driver/cuda_abi.h"

#include <stdbool.h>

/* clang-format off */
#define GY_DRIVER_FUNCS_DEVICE(F) \
    F(true, cuInit, cuInit, (unsigned int flags)) \
    F(true, cuDriverGetVersion, cuDriverGetVersion, (int *version)) \
    F(true, cuGetErrorName, cuGetErrorName, (CUresult result, const char **name)) \
    F(true, cuGetErrorString, cuGetErrorString, (CUresult result, const char **text)) \
    F(true, cuDeviceGetCount, cuDeviceGetCount, (int *count)) \
    F(true, cuDeviceGet, cuDeviceGet, (CUdevice *device, int ordinal)) \
    F(true, cuDeviceGetName, cuDeviceGetName, (char *name, int room, CUdevice device)) \
    F(true, cuDeviceGetAttribute, cuDeviceGetAttribute, \
      (int *value, CUdevice_attribute attribute, CUdevice device)) \
    F(true, cuDeviceTotalMem, cuDeviceTotalMem_v2, (size_t *bytes, CUdevice device)) \
    F(false, cuDeviceGetUuid, cuDeviceGetUuid_v2, (CUuuid *uuid, CUdevice device)) \
    F(true, cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, (CUcontext *context, CUdevice device)) \
    F(true, cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, (CUdevice device)) \
    F(false, cuDevicePrimaryCtxGetState, cuDevicePrimaryCtxGetState, \
      (CUdevice device, unsigned int *flags, int *active)) \
    F(true, cuCtxCreate, cuCtxCreate_v2, (CUcontext *context, unsigned int flags, CUdevice device)) \
    F(true, cuCtxDestroy, cuCtxDestroy_v2, (CUcontext context)) \
    F(true, cuCtxPushCurrent, cuCtxPushCurrent_v2, (CUcontext context)) \
    F(true, cuCtxPopCurrent, cuCtxPopCurrent_v2, (CUcontext *context)) \
    F(true, cuCtxGetCurrent, cuCtxGetCurrent, (CUcontext *context)) \
    F(true, cuCtxSetCurrent, cuCtxSetCurrent, (CUcontext context)) \
    F(true, cuCtxGetDevice, cuCtxGetDevice, (CUdevice *device)) \
    F(false, cuCtxGetId, cuCtxGetId, (CUcontext context, unsigned long long *id)) \
    F(true, cuCtxSynchronize, cuCtxSynchronize, (void)) \
    F(true, cuCtxGetStreamPriorityRange, cuCtxGetStreamPriorityRange, (int *least, int *greatest)) \
    F(false, cuDeviceCanAccessPeer, cuDeviceCanAccessPeer, (int *can, CUdevice device, CUdevice peer)) \
    F(false, cuDeviceGetP2PAttribute, cuDeviceGetP2PAttribute, \
      (int *value, CUdevice_P2PAttribute attribute, CUdevice from, CUdevice to)) \
    F(false, cuCtxEnablePeerAccess, cuCtxEnablePeerAccess, (CUcontext peer, unsigned int flags)) \
    F(false, cuCtxDisablePeerAccess, cuCtxDisablePeerAccess, (CUcontext peer))

#define GY_DRIVER_FUNCS_MODULE(F) \
    F(true, cuModuleLoadDataEx, cuModuleLoadDataEx, \
      (CUmodule *module, const void *image, unsigned int count, CUjit_option *options, void **values)) \
    F(true, cuModuleUnload, cuModuleUnload, (CUmodule module)) \
    F(true, cuModuleGetFunction, cuModuleGetFunction, \
      (CUfunction *function, CUmodule module, const char *name)) \
    F(true, cuFuncGetAttribute, cuFuncGetAttribute, \
      (int *value, CUfunction_attribute attribute, CUfunction function)) \
    F(true, cuFuncSetAttribute, cuFuncSetAttribute, \
      (CUfunction function, CUfunction_attribute attribute, int value)) \
    F(false, cuFuncGetParamInfo, cuFuncGetParamInfo, \
      (CUfunction function, size_t index, size_t *offset, size_t *bytes)) \
    F(true, cuOccupancyMaxActiveBlocksPerMultiprocessor, cuOccupancyMaxActiveBlocksPerMultiprocessor, \
      (int *blocks, CUfunction function, int block_size, size_t dynamic_shared_bytes)) \
    F(false, cuOccupancyMaxActiveClusters, cuOccupancyMaxActiveClusters, \
      (int *clusters, CUfunction function, const CUlaunchConfig *config)) \
    F(false, cuOccupancyMaxPotentialClusterSize, cuOccupancyMaxPotentialClusterSize, \
      (int *blocks, CUfunction function, const CUlaunchConfig *config)) \
    F(true, cuLaunchKernel, cuLaunchKernel, \
      (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, unsigned int block_x, \
       unsigned int block_y, unsigned int block_z, unsigned int shared_bytes, CUstream stream, void **params, \
       void **extra)) \
    F(false, cuLaunchKernelEx, cuLaunchKernelEx, \
      (const CUlaunchConfig *config, CUfunction function, void **params, void **extra)) \
    F(true, cuLaunchHostFunc, cuLaunchHostFunc, (CUstream stream, CUhostFn function, void *user))

#define GY_DRIVER_FUNCS_STREAM(F) \
    F(true, cuStreamCreate, cuStreamCreate, (CUstream *stream, unsigned int flags)) \
    F(true, cuStreamCreateWithPriority, cuStreamCreateWithPriority, \
      (CUstream *stream, unsigned int flags, int priority)) \
    F(true, cuStreamDestroy, cuStreamDestroy_v2, (CUstream stream)) \
    F(true, cuStreamGetPriority, cuStreamGetPriority, (CUstream stream, int *priority)) \
    F(false, cuStreamGetId, cuStreamGetId, (CUstream stream, unsigned long long *id)) \
    F(true, cuStreamGetCtx, cuStreamGetCtx, (CUstream stream, CUcontext *context)) \
    F(true, cuStreamSynchronize, cuStreamSynchronize, (CUstream stream)) \
    F(true, cuStreamQuery, cuStreamQuery, (CUstream stream)) \
    F(true, cuStreamWaitEvent, cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned int flags)) \
    F(true, cuStreamWriteValue32, cuStreamWriteValue32_v2, \
      (CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags)) \
    F(true, cuStreamWaitValue32, cuStreamWaitValue32_v2, \
      (CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags)) \
    F(true, cuEventCreate, cuEventCreate, (CUevent *event, unsigned int flags)) \
    F(true, cuEventDestroy, cuEventDestroy_v2, (CUevent event)) \
    F(true, cuEventRecord, cuEventRecord, (CUevent event, CUstream stream)) \
    F(true, cuEventRecordWithFlags, cuEventRecordWithFlags, \
      (CUevent event, CUstream stream, unsigned int flags)) \
    F(true, cuEventQuery, cuEventQuery, (CUevent event)) \
    F(true, cuEventSynchronize, cuEventSynchronize, (CUevent event)) \
    F(true, cuEventElapsedTime, cuEventElapsedTime, (float *milliseconds, CUevent start, CUevent end))

#define GY_DRIVER_FUNCS_MEMORY(F) \
    F(true, cuMemGetInfo, cuMemGetInfo_v2, (size_t *free_bytes, size_t *total_bytes)) \
    F(true, cuMemAlloc, cuMemAlloc_v2, (CUdeviceptr *address, size_t bytes)) \
    F(true, cuMemFree, cuMemFree_v2, (CUdeviceptr address)) \
    F(false, cuMemAllocAsync, cuMemAllocAsync, (CUdeviceptr *address, size_t bytes, CUstream stream)) \
    F(false, cuMemFreeAsync, cuMemFreeAsync, (CUdeviceptr address, CUstream stream)) \
    F(true, cuMemHostAlloc, cuMemHostAlloc, (void **pointer, size_t bytes, unsigned int flags)) \
    F(true, cuMemFreeHost, cuMemFreeHost, (void *pointer)) \
    F(true, cuMemHostGetDevicePointer, cuMemHostGetDevicePointer_v2, \
      (CUdeviceptr *address, void *pointer, unsigned int flags)) \
    F(true, cuMemHostRegister, cuMemHostRegister_v2, (void *pointer, size_t bytes, unsigned int flags)) \
    F(true, cuMemHostUnregister, cuMemHostUnregister, (void *pointer)) \
    F(true, cuPointerGetAttribute, cuPointerGetAttribute, \
      (void *value, CUpointer_attribute attribute, CUdeviceptr address)) \
    F(true, cuMemcpyHtoD, cuMemcpyHtoD_v2, (CUdeviceptr to, const void *from, size_t bytes)) \
    F(true, cuMemcpyDtoH, cuMemcpyDtoH_v2, (void *to, CUdeviceptr from, size_t bytes)) \
    F(true, cuMemcpyAsync, cuMemcpyAsync, \
      (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)) \
    F(true, cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, \
      (CUdeviceptr to, const void *from, size_t bytes, CUstream stream)) \
    F(true, cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, \
      (void *to, CUdeviceptr from, size_t bytes, CUstream stream)) \
    F(true, cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2, \
      (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)) \
    F(false, cuMemcpyPeerAsync, cuMemcpyPeerAsync, \
      (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes, \
       CUstream stream)) \
    F(false, cuMemcpyBatchAsync, cuMemcpyBatchAsync, \
      (CUdeviceptr *to, CUdeviceptr *from, size_t *bytes, size_t count, CUmemcpyAttributes *attributes, \
       size_t *attribute_starts, size_t attribute_count, size_t *failed_index, CUstream stream)) \
    F(true, cuMemsetD8Async, cuMemsetD8Async, \
      (CUdeviceptr address, unsigned char value, size_t count, CUstream stream)) \
    F(true, cuMemsetD16Async, cuMemsetD16Async, \
      (CUdeviceptr address, unsigned short value, size_t count, CUstream stream)) \
    F(true, cuMemsetD32Async, cuMemsetD32Async, \
      (CUdeviceptr address, unsigned int value, size_t count, CUstream stream)) \
    F(false, cuMemGetAllocationGranularity, cuMemGetAllocationGranularity, \
      (size_t *bytes, const CUmemAllocationProp *prop, CUmemAllocationGranularity_flags option)) \
    F(false, cuMemAddressReserve, cuMemAddressReserve, \
      (CUdeviceptr *address, size_t bytes, size_t alignment, CUdeviceptr wanted, unsigned long long flags)) \
    F(false, cuMemAddressFree, cuMemAddressFree, (CUdeviceptr address, size_t bytes)) \
    F(false, cuMemCreate, cuMemCreate, \
      (CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *prop, \
       unsigned long long flags)) \
    F(false, cuMemRelease, cuMemRelease, (CUmemGenericAllocationHandle handle)) \
    F(false, cuMemMap, cuMemMap, \
      (CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle, \
       unsigned long long flags)) \
    F(false, cuMemUnmap, cuMemUnmap, (CUdeviceptr address, size_t bytes)) \
    F(false, cuMemSetAccess, cuMemSetAccess, \
      (CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access, size_t count)) \
    F(false, cuMemExportToShareableHandle, cuMemExportToShareableHandle, \
      (void *out, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type, \
       unsigned long long flags)) \
    F(false, cuMemImportFromShareableHandle, cuMemImportFromShareableHandle, \
      (CUmemGenericAllocationHandle *out, void *from, CUmemAllocationHandleType type))

#define GY_DRIVER_FUNCS_GRAPH(F) \
    F(true, cuStreamBeginCapture, cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode)) \
    F(false, cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph, \
      (CUstream stream, CUgraph graph, const CUgraphNode *dependencies, \
       const CUgraphEdgeData *dependency_data, size_t count, CUstreamCaptureMode mode)) \
    F(true, cuStreamEndCapture, cuStreamEndCapture, (CUstream stream, CUgraph *graph)) \
    F(true, cuStreamIsCapturing, cuStreamIsCapturing, (CUstream stream, CUstreamCaptureStatus *status)) \
    F(true, cuStreamGetCaptureInfo, cuStreamGetCaptureInfo_v2, \
      (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph, \
       const CUgraphNode **dependencies, size_t *count)) \
    F(true, cuStreamUpdateCaptureDependencies, cuStreamUpdateCaptureDependencies, \
      (CUstream stream, CUgraphNode *dependencies, size_t count, unsigned int flags)) \
    F(true, cuThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode, \
      (CUstreamCaptureMode *mode)) \
    F(true, cuGraphCreate, cuGraphCreate, (CUgraph *graph, unsigned int flags)) \
    F(true, cuGraphDestroy, cuGraphDestroy, (CUgraph graph)) \
    F(true, cuGraphGetNodes, cuGraphGetNodes, (CUgraph graph, CUgraphNode *nodes, size_t *count)) \
    F(true, cuGraphGetEdges, cuGraphGetEdges, \
      (CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count)) \
    F(true, cuGraphNodeGetType, cuGraphNodeGetType, (CUgraphNode node, CUgraphNodeType *type)) \
    F(true, cuGraphAddKernelNode, cuGraphAddKernelNode_v2, \
      (CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count, \
       const CUDA_KERNEL_NODE_PARAMS_v2 *params)) \
    F(true, cuGraphAddMemcpyNode, cuGraphAddMemcpyNode, \
      (CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count, \
       const CUDA_MEMCPY3D *params, CUcontext context)) \
    F(true, cuGraphAddMemsetNode, cuGraphAddMemsetNode, \
      (CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count, \
       const CUDA_MEMSET_NODE_PARAMS *params, CUcontext context)) \
    F(true, cuGraphAddEventRecordNode, cuGraphAddEventRecordNode, \
      (CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count, CUevent event)) \
    F(false, cuGraphAddEventWaitNode, cuGraphAddEventWaitNode, \
      (CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count, CUevent event)) \
    F(true, cuGraphAddChildGraphNode, cuGraphAddChildGraphNode, \
      (CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count, CUgraph child)) \
    F(false, cuGraphConditionalHandleCreate, cuGraphConditionalHandleCreate, \
      (CUgraphConditionalHandle *handle, CUgraph graph, CUcontext context, unsigned int value, \
       unsigned int flags)) \
    F(false, cuGraphAddNode, cuGraphAddNode_v2, \
      (CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, \
       const CUgraphEdgeData *dependency_data, size_t count, CUgraphNodeParams *params)) \
    F(true, cuGraphMemcpyNodeGetParams, cuGraphMemcpyNodeGetParams, (CUgraphNode node, CUDA_MEMCPY3D *params)) \
    F(true, cuGraphKernelNodeGetParams, cuGraphKernelNodeGetParams_v2, \
      (CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v2 *params)) \
    F(true, cuGraphKernelNodeSetParams, cuGraphKernelNodeSetParams_v2, \
      (CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2 *params)) \
    F(true, cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags, \
      (CUgraphExec *exec, CUgraph graph, unsigned long long flags)) \
    F(true, cuGraphExecDestroy, cuGraphExecDestroy, (CUgraphExec exec)) \
    F(true, cuGraphExecUpdate, cuGraphExecUpdate_v2, \
      (CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info)) \
    F(true, cuGraphExecKernelNodeSetParams, cuGraphExecKernelNodeSetParams_v2, \
      (CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2 *params)) \
    F(true, cuGraphExecMemcpyNodeSetParams, cuGraphExecMemcpyNodeSetParams, \
      (CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *params, CUcontext context)) \
    F(true, cuGraphExecMemsetNodeSetParams, cuGraphExecMemsetNodeSetParams, \
      (CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *params, CUcontext context)) \
    F(true, cuGraphExecEventRecordNodeSetEvent, cuGraphExecEventRecordNodeSetEvent, \
      (CUgraphExec exec, CUgraphNode node, CUevent event)) \
    F(false, cuGraphExecEventWaitNodeSetEvent, cuGraphExecEventWaitNodeSetEvent, \
      (CUgraphExec exec, CUgraphNode node, CUevent event)) \
    F(false, cuGraphUpload, cuGraphUpload, (CUgraphExec exec, CUstream stream)) \
    F(true, cuGraphLaunch, cuGraphLaunch, (CUgraphExec exec, CUstream stream))

/* Since CUDA 12.4; cuGreenCtxStreamCreate, cuCtxRecordEvent and cuCtxWaitEvent since 12.5. */
#define GY_DRIVER_FUNCS_GREEN(F) \
    F(false, cuDeviceGetDevResource, cuDeviceGetDevResource, \
      (CUdevice device, CUdevResource *resource, CUdevResourceType type)) \
    F(false, cuDevSmResourceSplitByCount, cuDevSmResourceSplitByCount, \
      (CUdevResource *result, unsigned int *groups, const CUdevResource *input, CUdevResource *remaining, \
       unsigned int flags, unsigned int min_count)) \
    F(false, cuDevResourceGenerateDesc, cuDevResourceGenerateDesc, \
      (CUdevResourceDesc *desc, CUdevResource *resources, unsigned int count)) \
    F(false, cuGreenCtxCreate, cuGreenCtxCreate, \
      (CUgreenCtx *green, CUdevResourceDesc desc, CUdevice device, unsigned int flags)) \
    F(false, cuGreenCtxDestroy, cuGreenCtxDestroy, (CUgreenCtx green)) \
    F(false, cuGreenCtxStreamCreate, cuGreenCtxStreamCreate, \
      (CUstream *stream, CUgreenCtx green, unsigned int flags, int priority)) \
    F(false, cuCtxFromGreenCtx, cuCtxFromGreenCtx, (CUcontext *context, CUgreenCtx green)) \
    F(false, cuGreenCtxGetDevResource, cuGreenCtxGetDevResource, \
      (CUgreenCtx green, CUdevResource *resource, CUdevResourceType type)) \
    F(false, cuGreenCtxRecordEvent, cuGreenCtxRecordEvent, (CUgreenCtx green, CUevent event)) \
    F(false, cuGreenCtxWaitEvent, cuGreenCtxWaitEvent, (CUgreenCtx green, CUevent event)) \
    F(false, cuStreamGetGreenCtx, cuStreamGetGreenCtx, (CUstream stream, CUgreenCtx *green)) \
    F(false, cuCtxGetDevResource, cuCtxGetDevResource, \
      (CUcontext context, CUdevResource *resource, CUdevResourceType type)) \
    F(false, cuCtxRecordEvent, cuCtxRecordEvent, (CUcontext context, CUevent event)) \
    F(false, cuCtxWaitEvent, cuCtxWaitEvent, (CUcontext context, CUevent event))

/* Memory and semaphores that another API has exported. */
#define GY_DRIVER_FUNCS_EXTERNAL(F) \
    F(false, cuImportExternalMemory, cuImportExternalMemory, \
      (CUexternalMemory *memory, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc)) \
    F(false, cuExternalMemoryGetMappedBuffer, cuExternalMemoryGetMappedBuffer, \
      (CUdeviceptr *address, CUexternalMemory memory, const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *desc)) \
    F(false, cuDestroyExternalMemory, cuDestroyExternalMemory, (CUexternalMemory memory)) \
    F(false, cuExternalMemoryGetMappedMipmappedArray, cuExternalMemoryGetMappedMipmappedArray, \
      (CUmipmappedArray *array, CUexternalMemory memory, \
       const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *desc)) \
    F(false, cuMipmappedArrayGetLevel, cuMipmappedArrayGetLevel, \
      (CUarray *array, CUmipmappedArray mipmapped, unsigned int level)) \
    F(false, cuMipmappedArrayDestroy, cuMipmappedArrayDestroy, (CUmipmappedArray array)) \
    F(false, cuSurfObjectCreate, cuSurfObjectCreate, (CUsurfObject *surface, const CUDA_RESOURCE_DESC *desc)) \
    F(false, cuSurfObjectDestroy, cuSurfObjectDestroy, (CUsurfObject surface)) \
    F(false, cuMemcpy2DAsync, cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *copy, CUstream stream)) \
    F(false, cuImportExternalSemaphore, cuImportExternalSemaphore, \
      (CUexternalSemaphore *semaphore, const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC *desc)) \
    F(false, cuDestroyExternalSemaphore, cuDestroyExternalSemaphore, (CUexternalSemaphore semaphore)) \
    F(false, cuSignalExternalSemaphoresAsync, cuSignalExternalSemaphoresAsync, \
      (const CUexternalSemaphore *semaphores, const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *params, \
       unsigned int count, CUstream stream)) \
    F(false, cuWaitExternalSemaphoresAsync, cuWaitExternalSemaphoresAsync, \
      (const CUexternalSemaphore *semaphores, const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *params, \
       unsigned int count, CUstream stream))

/* Since CUDA 12.9; an older cuda.h has nothing to compare them with. */
#if defined(CUDA_VERSION) && CUDA_VERSION < 12090
#define GY_DRIVER_FUNCS_LOG(F)
#else
#define GY_DRIVER_FUNCS_LOG(F) \
    F(false, cuLogsRegisterCallback, cuLogsRegisterCallback, \
      (CUlogsCallback callback, void *user, CUlogsCallbackHandle *handle)) \
    F(false, cuLogsUnregisterCallback, cuLogsUnregisterCallback, (CUlogsCallbackHandle handle))
#endif

/* Since CUDA 13.1; an older cuda.h has nothing to compare it with. */
#if defined(CUDA_VERSION) && CUDA_VERSION < 13010
#define GY_DRIVER_FUNCS_SPLIT(F)
#else
#define GY_DRIVER_FUNCS_SPLIT(F) \
    F(false, cuDevSmResourceSplit, cuDevSmResourceSplit, \
      (CUdevResource *result, unsigned int groups, const CUdevResource *input, CUdevResource *remainder, \
       unsigned int flags, CU_DEV_SM_RESOURCE_GROUP_PARAMS *params)) \
    F(false, cuStreamGetDevResource, cuStreamGetDevResource, \
      (CUstream stream, CUdevResource *resource, CUdevResourceType type))
#endif

#define GY_DRIVER_FUNCS(F) \
    GY_DRIVER_FUNCS_DEVICE(F) GY_DRIVER_FUNCS_MODULE(F) GY_DRIVER_FUNCS_STREAM(F) \
    GY_DRIVER_FUNCS_MEMORY(F) GY_DRIVER_FUNCS_GRAPH(F) GY_DRIVER_FUNCS_GREEN(F) \
    GY_DRIVER_FUNCS_EXTERNAL(F) GY_DRIVER_FUNCS_LOG(F) GY_DRIVER_FUNCS_SPLIT(F)
/* clang-format on */

#endif
