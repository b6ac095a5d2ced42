/* SPDX-License-Identifier: MIT */
/* Copies.  Within a device they are charged as launches are; between devices, or with host memory, when the
 * job asks for it, since they need little of the device. */
#include "limit/costs.h"
#include "limit/doors.h"
#include "limit/wrap.h"

enum { COPY = 4 };

static bool is_on_device(CUdeviceptr address)
{
    unsigned type = 0;
    return gy_cu.cuPointerGetAttribute != NULL &&
           gy_cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) == CUDA_SUCCESS &&
           type == CU_MEMORYTYPE_DEVICE;
}

static bool is_within(CUdeviceptr to, CUdeviceptr from)
{
    return gy_meter_charges_copies() || (is_on_device(to) && is_on_device(from));
}

static bool is_side(CUmemorytype type, CUdeviceptr address)
{
    return type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_ARRAY ||
           (type == CU_MEMORYTYPE_UNIFIED && is_on_device(address));
}

static bool are_rows_within(const CUDA_MEMCPY2D *c)
{
    return gy_meter_charges_copies() ||
           (c != NULL && is_side(c->srcMemoryType, c->srcDevice) && is_side(c->dstMemoryType, c->dstDevice));
}

static bool is_box_within(const CUDA_MEMCPY3D *c)
{
    return gy_meter_charges_copies() ||
           (c != NULL && is_side(c->srcMemoryType, c->srcDevice) && is_side(c->dstMemoryType, c->dstDevice));
}

#define BYTES_KEY gy_costs_key(COPY, NULL, bytes, 0)
#define ROWS_KEY (rows != NULL ? gy_costs_key(COPY, NULL, rows->WidthInBytes, rows->Height) : 1)
#define BOX_KEY (box != NULL ? gy_costs_key(COPY, NULL, box->WidthInBytes, box->Height * box->Depth) : 1)

GY_WRAP_LAUNCH(cuMemcpyDtoD_v2, _ptds, (CUdeviceptr to, CUdeviceptr from, size_t bytes), (to, from, bytes),
               NULL, BYTES_KEY)
GY_WRAP_LAUNCH(cuMemcpyDtoDAsync_v2, _ptsz, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream),
               (to, from, bytes, stream), stream, BYTES_KEY)
GY_WRAP_IF(cuMemcpy, _ptds, (CUdeviceptr to, CUdeviceptr from, size_t bytes), (to, from, bytes),
           is_within(to, from), NULL, BYTES_KEY)
GY_WRAP_IF(cuMemcpyAsync, _ptsz, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream),
           (to, from, bytes, stream), is_within(to, from), stream, BYTES_KEY)
GY_WRAP_IF(cuMemcpy2D_v2, _ptds, (const CUDA_MEMCPY2D *rows), (rows), are_rows_within(rows), NULL, ROWS_KEY)
GY_WRAP_IF(cuMemcpy2DUnaligned_v2, _ptds, (const CUDA_MEMCPY2D *rows), (rows), are_rows_within(rows), NULL,
           ROWS_KEY)
GY_WRAP_IF(cuMemcpy2DAsync_v2, _ptsz, (const CUDA_MEMCPY2D *rows, CUstream stream), (rows, stream),
           are_rows_within(rows), stream, ROWS_KEY)
GY_WRAP_IF(cuMemcpy3D_v2, _ptds, (const CUDA_MEMCPY3D *box), (box), is_box_within(box), NULL, BOX_KEY)
GY_WRAP_IF(cuMemcpy3DAsync_v2, _ptsz, (const CUDA_MEMCPY3D *box, CUstream stream), (box, stream),
           is_box_within(box), stream, BOX_KEY)

/* Between devices, and with host memory. */
#define OTHERS gy_meter_charges_copies()
GY_WRAP_IF(cuMemcpyPeer, _ptds,
           (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes),
           (to, to_context, from, from_context, bytes), OTHERS, NULL, BYTES_KEY)
GY_WRAP_IF(cuMemcpyPeerAsync, _ptsz,
           (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes,
            CUstream stream),
           (to, to_context, from, from_context, bytes, stream), OTHERS, stream, BYTES_KEY)
GY_WRAP_IF(cuMemcpyHtoD_v2, _ptds, (CUdeviceptr to, const void *from, size_t bytes), (to, from, bytes),
           OTHERS, NULL, BYTES_KEY)
GY_WRAP_IF(cuMemcpyHtoDAsync_v2, _ptsz, (CUdeviceptr to, const void *from, size_t bytes, CUstream stream),
           (to, from, bytes, stream), OTHERS, stream, BYTES_KEY)
GY_WRAP_IF(cuMemcpyDtoHAsync_v2, _ptsz, (void *to, CUdeviceptr from, size_t bytes, CUstream stream),
           (to, from, bytes, stream), OTHERS, stream, BYTES_KEY)

/* A batch of any kinds. */
GY_WRAP_IF(cuMemcpyBatchAsync, _ptsz,
           (CUdeviceptr * to, CUdeviceptr *from, size_t *bytes, size_t count, CUmemcpyAttributes *attributes,
            size_t *starts, size_t attribute_count, size_t *failed, CUstream stream),
           (to, from, bytes, count, attributes, starts, attribute_count, failed, stream), OTHERS, stream, 1)

/* It waits: the groups that it waits for end before it. */
GY_WRAP_WAIT(cuMemcpyDtoH_v2, (void *to, CUdeviceptr from, size_t bytes), (to, from, bytes),
             gy_meter_close_all(), GY_WRAP_NOTHING)
GY_WRAP_WAIT(cuMemcpyDtoH_v2_ptds, (void *to, CUdeviceptr from, size_t bytes), (to, from, bytes),
             gy_meter_close_all(), GY_WRAP_NOTHING)
