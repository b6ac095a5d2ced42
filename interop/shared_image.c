/* SPDX-License-Identifier: MIT */
/* Images in memory that another API has allocated and exported, as CUDA arrays with surfaces.
 *
 * An image is of a shared memory and goes with it, before it.  The driver knows how a renderer lays texels
 * out; this file checks what can be checked beforehand, and that copies stay within the image. */
#include "base/alloc.h"
#include "base/handle.h"
#include "base/options.h"
#include "context/context.h"
#include "copykernel/address.h"
#include "dispatcher/call/launch.h"
#include "interop/shared_memory.h"

#include <inttypes.h>

struct gantry_shared_image {
    struct gantry_shared_image *next; /* guarded by the context's lock */
    gantry_shared_memory *memory;     /* immutable, as what follows */
    CUmipmappedArray native;
    CUarray array; /* its only level */
    CUsurfObject surface;
    uint32_t width, height, texel_bytes;
};

/* ---- mapping ---------------------------------------------------------------------------------- */

static const struct {
    CUarray_format native;
    uint32_t bytes;
} formats[] = {
    [GANTRY_IMAGE_U8] = {CU_AD_FORMAT_UNSIGNED_INT8, 1},
    [GANTRY_IMAGE_U16] = {CU_AD_FORMAT_UNSIGNED_INT16, 2},
    [GANTRY_IMAGE_U32] = {CU_AD_FORMAT_UNSIGNED_INT32, 4},
    [GANTRY_IMAGE_S8] = {CU_AD_FORMAT_SIGNED_INT8, 1},
    [GANTRY_IMAGE_S16] = {CU_AD_FORMAT_SIGNED_INT16, 2},
    [GANTRY_IMAGE_S32] = {CU_AD_FORMAT_SIGNED_INT32, 4},
    [GANTRY_IMAGE_F16] = {CU_AD_FORMAT_HALF, 2},
    [GANTRY_IMAGE_F32] = {CU_AD_FORMAT_FLOAT, 4},
};

static gantry_status import_options(const gantry_shared_memory *memory,
                                    const gantry_shared_image_options *options,
                                    gantry_shared_image_options *ours)
{
    const char *label = memory->label;
    *ours = (gantry_shared_image_options){.struct_size = sizeof(*ours)};
    gantry_status status =
        gy_options_import(ours, sizeof(*ours), options, offsetof(gantry_shared_image_options, format),
                          "gantry_shared_image_options");
    if (status != GANTRY_OK) {
        return status;
    }
    if ((unsigned)ours->format >= sizeof(formats) / sizeof(formats[0])) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "%s: an image of unknown format %d", label,
                       (int)ours->format);
    }
    if (ours->channels != 1 && ours->channels != 2 && ours->channels != 4) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "%s: an image of %u channels, not 1, 2 or 4", label,
                       ours->channels);
    }
    if (ours->width == 0 || ours->height == 0 || ours->is_attachment > 1) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                       ours->is_attachment > 1 ? "%s: is_attachment of an image is neither 0 nor 1"
                                               : "%s: an image without texels",
                       label);
    }
    /* A tiling takes no less than this. */
    const uint64_t texels = (uint64_t)ours->width * ours->height;
    const uint64_t bytes = texels * formats[ours->format].bytes * ours->channels;
    return texels > memory->bytes
               ? GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                         "%s: an image of %u x %u texels is not within its %" PRIu64 " bytes", label,
                         ours->width, ours->height, memory->bytes)
               : gy_shared_memory_check_range(memory, ours->offset, bytes);
}

/* The context is current. */
static gantry_status map_native(struct gantry_shared_image *image, const gantry_shared_image_options *options)
{
    struct gy_context *cuda = image->memory->context->cuda;
    const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC desc = {
        .offset = options->offset,
        .arrayDesc = {.Width = options->width,
                      .Height = options->height,
                      .Format = formats[options->format].native,
                      .NumChannels = options->channels,
                      .Flags = CUDA_ARRAY3D_SURFACE_LDST |
                               (options->is_attachment != 0 ? (unsigned)CUDA_ARRAY3D_COLOR_ATTACHMENT : 0)},
        .numLevels = 1};
    gantry_status status =
        GY_CALL(cuda, cuExternalMemoryGetMappedMipmappedArray(&image->native, image->memory->native, &desc));
    if (status != GANTRY_OK) {
        return status;
    }
    status = GY_CALL(cuda, cuMipmappedArrayGetLevel(&image->array, image->native, 0));
    if (status == GANTRY_OK) {
        CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY};
        resource.res.array.hArray = image->array;
        status = GY_CALL(cuda, cuSurfObjectCreate(&image->surface, &resource));
    }
    if (status != GANTRY_OK) {
        struct gy_error why = *gy_error_last();
        (void)GY_CALL(cuda, cuMipmappedArrayDestroy(image->native));
        (void)gy_error_adopt(&why);
    }
    return status;
}

static gantry_status check_driver(const gantry_shared_memory *memory)
{
    const struct gy_driver *driver = memory->context->cuda->driver;
    bool has_all = driver->cuExternalMemoryGetMappedMipmappedArray != NULL &&
                   driver->cuMipmappedArrayGetLevel != NULL && driver->cuMipmappedArrayDestroy != NULL &&
                   driver->cuSurfObjectCreate != NULL && driver->cuSurfObjectDestroy != NULL &&
                   driver->cuMemcpy2DAsync != NULL;
    return has_all ? GANTRY_OK
                   : GY_FAIL(GANTRY_ERR_UNSUPPORTED, "%s: the driver cannot map images", memory->label);
}

gantry_status gantry_shared_memory_map_image(gantry_shared_memory *memory,
                                             const gantry_shared_image_options *options,
                                             gantry_shared_image **out)
{
    GY_NEED(SHARED_MEMORY, memory);
    if (options == NULL || out == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_shared_memory_map_image: %s is NULL",
                       options == NULL ? "options" : "out");
    }
    gantry_shared_image_options ours;
    struct gy_context *cuda = memory->context->cuda;
    gantry_status status = import_options(memory, options, &ours);
    status = status == GANTRY_OK ? check_driver(memory) : status;
    struct gantry_shared_image *image = status == GANTRY_OK ? gy_zalloc(sizeof(*image)) : NULL;
    if (status == GANTRY_OK && image == NULL) {
        status = GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "no memory for an image of %s", memory->label);
    }
    status = status == GANTRY_OK ? gy_context_enter(cuda) : status;
    if (status == GANTRY_OK) {
        image->memory = memory;
        image->width = ours.width;
        image->height = ours.height;
        image->texel_bytes = formats[ours.format].bytes * ours.channels;
        status = map_native(image, &ours);
        (void)gy_context_pop(cuda);
    }
    if (status != GANTRY_OK) {
        gy_free(image);
        return status;
    }
    gy_mutex_lock(&memory->context->lock);
    image->next = memory->images;
    memory->images = image;
    gy_mutex_unlock(&memory->context->lock);
    gy_handle_born(GY_HANDLE_SHARED_IMAGE, image, sizeof(*image), sizeof(*image));
    *out = image;
    return GANTRY_OK;
}

void gy_shared_images_give_back(gantry_shared_memory *memory)
{
    struct gy_context *cuda = memory->context->cuda;
    while (memory->images != NULL) {
        struct gantry_shared_image *image = memory->images;
        memory->images = image->next;
        (void)GY_CALL(cuda, cuSurfObjectDestroy(image->surface));
        (void)GY_CALL(cuda, cuMipmappedArrayDestroy(image->native));
        gy_handle_free(image, image);
    }
}

static bool is_there(const gantry_shared_image *image, const char *call)
{
    if (image == NULL) {
        (void)GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "%s: image is NULL", call);
    }
    return image != NULL;
}

uint64_t gantry_shared_image_surface(const gantry_shared_image *image)
{
    GY_ACCEPT_OR(0, SHARED_IMAGE, image);
    return is_there(image, __func__) ? image->surface : 0;
}

void *gantry_shared_image_native(const gantry_shared_image *image)
{
    GY_ACCEPT_OR(NULL, SHARED_IMAGE, image);
    return is_there(image, __func__) ? image->array : NULL;
}

/* ---- copies ----------------------------------------------------------------------------------- */

struct rows {
    const char *call;
    const gantry_shared_image *image;
    const void *linear;
    size_t pitch; /* of the linear memory, not 0 once it is checked */
    size_t bytes; /* of a row */
    gantry_image_box box;
};

static gantry_status check_box(struct rows *rows, const gantry_image_box *box)
{
    const gantry_shared_image *image = rows->image;
    rows->box = (gantry_image_box){sizeof(rows->box), 0, 0, image->width, image->height};
    gantry_status status =
        gy_options_import(&rows->box, sizeof(rows->box), box, sizeof(rows->box), "gantry_image_box");
    if (status != GANTRY_OK) {
        return status;
    }
    box = &rows->box;
    if (box->width == 0 || box->height == 0 || box->x > image->width || box->width > image->width - box->x ||
        box->y > image->height || box->height > image->height - box->y) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                       "%s: %u x %u texels from (%u, %u) on are not within the image of %u x %u", rows->call,
                       box->width, box->height, box->x, box->y, image->width, image->height);
    }
    rows->bytes = (size_t)box->width * image->texel_bytes;
    rows->pitch = rows->pitch != 0 ? rows->pitch : rows->bytes;
    if (rows->pitch < rows->bytes || rows->pitch > SIZE_MAX / box->height) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "%s: a pitch of %zu bytes for %u rows of %zu", rows->call,
                       rows->pitch, box->height, rows->bytes);
    }
    return GANTRY_OK;
}

static gantry_status check_linear(const gantry_context *context, const struct rows *rows)
{
    const struct gy_copy_side side = {rows->call, "the linear memory", rows->linear,
                                      (rows->box.height - 1) * rows->pitch + rows->bytes};
    struct gy_copy_end end;
    gantry_status status = gy_copy_check_side(context->cuda, context->heap, &side, &end);
    return status == GANTRY_OK && end.unreached != NULL
               ? GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                         "%s: %p is memory of a device that this one does not reach", rows->call,
                         rows->linear)
               : status;
}

static gantry_status enqueue(gantry_launch *launch, struct gy_context *cuda, const struct rows *rows,
                             bool to_image)
{
    CUstream stream = gantry_launch_stream(launch);
    CUDA_MEMCPY2D copy = {.WidthInBytes = rows->bytes, .Height = rows->box.height};
    copy.srcMemoryType = to_image ? CU_MEMORYTYPE_UNIFIED : CU_MEMORYTYPE_ARRAY;
    copy.dstMemoryType = to_image ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_UNIFIED;
    if (to_image) {
        copy.srcDevice = (uintptr_t)rows->linear;
        copy.srcPitch = rows->pitch;
        copy.dstArray = rows->image->array;
        copy.dstXInBytes = (size_t)rows->box.x * rows->image->texel_bytes;
        copy.dstY = rows->box.y;
    } else {
        copy.dstDevice = (uintptr_t)rows->linear;
        copy.dstPitch = rows->pitch;
        copy.srcArray = rows->image->array;
        copy.srcXInBytes = (size_t)rows->box.x * rows->image->texel_bytes;
        copy.srcY = rows->box.y;
    }
    return GY_CALL(cuda, cuMemcpy2DAsync(&copy, stream));
}

static gantry_status copy_rows(gantry_launch *launch, struct rows *rows, const gantry_image_box *box,
                               bool to_image)
{
    gantry_status status = gy_launch_check_scope(launch, rows->call);
    if (status != GANTRY_OK) {
        return status;
    }
    if (rows->linear == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "%s: %s is NULL", rows->call, to_image ? "from" : "to");
    }
    gantry_context *context = gantry_launch_context(launch);
    if (rows->image->memory->context != context) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "%s: the image of %s belongs to another context",
                       rows->call, rows->image->memory->label);
    }
    status = check_box(rows, box);
    status = status == GANTRY_OK ? check_linear(context, rows) : status;
    return status == GANTRY_OK ? enqueue(launch, context->cuda, rows, to_image) : status;
}

gantry_status gantry_launch_copy_from_image(gantry_launch *launch, void *to, size_t pitch,
                                            const gantry_shared_image *from, const gantry_image_box *box)
{
    GY_ACCEPT(LAUNCH, launch);
    GY_NEED(SHARED_IMAGE, from);
    struct rows rows = {.call = __func__, .image = from, .linear = to, .pitch = pitch};
    return copy_rows(launch, &rows, box, false);
}

gantry_status gantry_launch_copy_to_image(gantry_launch *launch, const gantry_shared_image *to,
                                          const gantry_image_box *box, const void *from, size_t pitch)
{
    GY_ACCEPT(LAUNCH, launch);
    GY_NEED(SHARED_IMAGE, to);
    struct rows rows = {.call = __func__, .image = to, .linear = from, .pitch = pitch};
    return copy_rows(launch, &rows, box, true);
}
