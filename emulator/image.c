/* SPDX-License-Identifier: MIT */
/* Images that another API has exported, as CUDA arrays, and the surfaces by which kernels reach them.
 *
 * The rows of an image lie one behind the other, each from a multiple of 64 bytes on, as a software Vulkan
 * driver (lavapipe) has them whatever the tiling.  An image has two dimensions and one level.  A surface is
 * the address of what a kernel reads to find the rows (<gantry/kernel/surface.h>). */
#include "emulator/image.h"

#include "emulator/capture.h"

#include "base/alloc.h"
#include "emulator/memory.h"

#include <gantry/kernel/surface.h>

#define ROW_STEP 64
#define MOST_ELEMENTS 131072 /* of a row, and rows, as on a device */
#define NOWHERE ((unsigned char *)64)

struct image {
    struct gy_emu_object object; /* of the mipmapped array */
    struct gy_emu_array level;   /* the only one */
    struct gy_emu_region *region;
    bool is_writable; /* it may have surfaces */
};

struct surface {
    struct gantry_host_surface host; /* first member: its address is the surface */
    struct surface *next;
    struct gy_emu_context *context; /* the root; NULL: it was destroyed */
};

static struct surface *surfaces; /* all that were ever made: a kernel may use one that was destroyed */

/* ---- arrays ----------------------------------------------------------------------------------- */

/* The bytes of a channel; 0: there is no such format. */
static uint32_t channel_bytes(CUarray_format format)
{
    switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
        return 4;
    default:
        return 0;
    }
}

static bool is_good_desc(const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *desc)
{
    const CUDA_ARRAY3D_DESCRIPTOR *array = &desc->arrayDesc;
    const unsigned flags = CUDA_ARRAY3D_SURFACE_LDST | CUDA_ARRAY3D_COLOR_ATTACHMENT;
    const unsigned channels = array->NumChannels;
    return desc->numLevels == 1 && array->Width != 0 && array->Height != 0 && array->Depth == 0 &&
           array->Width <= MOST_ELEMENTS && array->Height <= MOST_ELEMENTS &&
           (channels == 1 || channels == 2 || channels == 4) && channel_bytes(array->Format) != 0 &&
           (array->Flags & ~flags) == 0;
}

static CUresult map_image(CUmipmappedArray *out, CUexternalMemory memory,
                          const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *desc)
{
    struct gy_emu_context *context;
    CUresult result = gy_emu_context_current(&context);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (out == NULL || desc == NULL || !is_good_desc(desc)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    const CUDA_ARRAY3D_DESCRIPTOR *array = &desc->arrayDesc;
    const size_t row_bytes = array->Width * channel_bytes(array->Format) * array->NumChannels;
    const size_t pitch = (row_bytes + ROW_STEP - 1) / ROW_STEP * ROW_STEP;
    struct image *image = gy_zalloc(sizeof(*image));
    if (image == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    result = gy_emu_external_map(memory, desc->offset, pitch * array->Height, &image->region);
    if (result != CUDA_SUCCESS) {
        gy_free(image);
        return result;
    }
    image->is_writable = (array->Flags & CUDA_ARRAY3D_SURFACE_LDST) != 0;
    image->object.context = image->level.object.context = context->root;
    image->level.bytes = (char *)image->region->base;
    image->level.pitch = pitch;
    image->level.row_bytes = row_bytes;
    image->level.rows = array->Height;
    image->level.image = image;
    result = gy_emu_handle_open(GY_EMU_MIPMAPPED_ARRAY, &image->object);
    if (result == CUDA_SUCCESS) {
        result = gy_emu_handle_open(GY_EMU_ARRAY, &image->level.object);
        if (result != CUDA_SUCCESS) {
            gy_emu_handle_close(&image->object);
        }
    }
    if (result != CUDA_SUCCESS) {
        gy_emu_memory_free(image->region);
        gy_free(image);
        return result;
    }
    *out = (CUmipmappedArray)image->object.handle;
    return CUDA_SUCCESS;
}

CUresult cuExternalMemoryGetMappedMipmappedArray(CUmipmappedArray *array, CUexternalMemory memory,
                                                 const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *desc)
{
    return GY_EMU_CALL(cuExternalMemoryGetMappedMipmappedArray, map_image(array, memory, desc));
}

static CUresult get_level(CUarray *out, CUmipmappedArray handle, unsigned int level)
{
    const struct image *image = gy_emu_handle_find(GY_EMU_MIPMAPPED_ARRAY, handle);
    if (image == NULL) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (out == NULL || level != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *out = (CUarray)image->level.object.handle;
    return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayGetLevel(CUarray *array, CUmipmappedArray mipmapped, unsigned int level)
{
    return GY_EMU_CALL(cuMipmappedArrayGetLevel, get_level(array, mipmapped, level));
}

struct gy_emu_array *gy_emu_array_find(CUarray handle)
{
    return gy_emu_handle_find(GY_EMU_ARRAY, handle);
}

static void close_image(struct image *image)
{
    gy_emu_handle_close(&image->level.object);
    gy_emu_handle_close(&image->object);
    gy_emu_memory_free(image->region);
    gy_free(image);
}

static CUresult destroy_image(CUmipmappedArray handle)
{
    struct image *image = gy_emu_handle_find(GY_EMU_MIPMAPPED_ARRAY, handle);
    if (image == NULL) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    close_image(image);
    return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray array)
{
    return GY_EMU_CALL(cuMipmappedArrayDestroy, destroy_image(array));
}

/* ---- surfaces --------------------------------------------------------------------------------- */

static struct surface *find_free(void)
{
    struct surface *surface = surfaces;
    while (surface != NULL && surface->context != NULL) {
        surface = surface->next;
    }
    if (surface == NULL) {
        surface = gy_zalloc(sizeof(*surface));
        if (surface != NULL) {
            surface->next = surfaces;
            surfaces = surface;
        }
    }
    return surface;
}

static CUresult create_surface(CUsurfObject *out, const CUDA_RESOURCE_DESC *desc)
{
    struct gy_emu_context *context;
    CUresult result = gy_emu_context_current(&context);
    result = result == CUDA_SUCCESS ? gy_emu_capture_forbids_unsafe() : result;
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (out == NULL || desc == NULL || desc->resType != CU_RESOURCE_TYPE_ARRAY || desc->flags != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    const struct gy_emu_array *array = gy_emu_array_find(desc->res.array.hArray);
    if (array == NULL) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (!array->image->is_writable) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct surface *surface = find_free();
    if (surface == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    surface->context = context->root;
    surface->host = (struct gantry_host_surface){.bytes = (unsigned char *)array->bytes,
                                                 .pitch = array->pitch,
                                                 .row_bytes = (uint32_t)array->row_bytes,
                                                 .rows = (uint32_t)array->rows};
    *out = (uintptr_t)&surface->host;
    return CUDA_SUCCESS;
}

CUresult cuSurfObjectCreate(CUsurfObject *surface, const CUDA_RESOURCE_DESC *desc)
{
    return GY_EMU_CALL(cuSurfObjectCreate, create_surface(surface, desc));
}

/* A kernel that uses it later touches memory that is not there. */
static void close_surface(struct surface *surface)
{
    surface->context = NULL;
    surface->host.bytes = NOWHERE;
    surface->host.pitch = 0;
}

static CUresult destroy_surface(CUsurfObject handle)
{
    struct gy_emu_context *context;
    CUresult allowed = gy_emu_context_current(&context);
    allowed = allowed == CUDA_SUCCESS ? gy_emu_capture_forbids_unsafe() : allowed;
    if (allowed != CUDA_SUCCESS || handle == 0) {
        return allowed;
    }
    for (struct surface *surface = surfaces; surface != NULL; surface = surface->next) {
        if ((uintptr_t)&surface->host == handle && surface->context != NULL) {
            close_surface(surface);
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuSurfObjectDestroy(CUsurfObject surface)
{
    return GY_EMU_CALL(cuSurfObjectDestroy, destroy_surface(surface));
}

void gy_emu_images_close_all(struct gy_emu_context *root)
{
    for (struct surface *surface = surfaces; surface != NULL; surface = surface->next) {
        if (surface->context == root) {
            close_surface(surface);
        }
    }
    uint32_t cursor = 0;
    struct gy_emu_object *object;
    while ((object = gy_emu_handle_next(GY_EMU_MIPMAPPED_ARRAY, &cursor)) != NULL) {
        if (object->context == root) {
            close_image((struct image *)(void *)object);
        }
    }
}
