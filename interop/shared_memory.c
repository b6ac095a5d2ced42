/* SPDX-License-Identifier: MIT */
/* Memory that another API has allocated and exported, as device memory of a context.
 *
 * This file checks what the driver does not check: the kind of the descriptor, the device it belongs to,
 * sizes and offsets.  Freeing a mapping gives nothing back to the system; destroying the imported memory
 * does.  Neither waits for the device, so the GPU must have done all work before both happen. */
#include "interop/shared_memory.h"

#include "base/alloc.h"
#include "base/handle.h"
#include "base/options.h"
#include "context/context.h"
#include "interop/descriptor.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

struct mapping {
    struct mapping *next;
    CUdeviceptr address;
};

static gantry_status check_uuid(const struct gy_context *cuda, const gantry_shared_memory_options *options)
{
    static const uint8_t none[16];
    const uint8_t *theirs = options->device_uuid, *ours = cuda->info.uuid;
    if (cuda->info.emulated || memcmp(theirs, none, sizeof(none)) == 0 ||
        memcmp(theirs, ours, sizeof(none)) == 0) {
        return GANTRY_OK;
    }
    return GY_FAIL(
        GANTRY_ERR_INVALID_ARGUMENT,
        "%s was allocated on device %02x%02x%02x%02x-..., the context's device is %02x%02x%02x%02x-...",
        options->label, theirs[0], theirs[1], theirs[2], theirs[3], ours[0], ours[1], ours[2], ours[3]);
}

/* The emulated driver takes files. */
static gantry_status check_descriptor(const struct gy_context *cuda,
                                      const gantry_shared_memory_options *options)
{
    struct stat file;
    gantry_status status = gy_descriptor_check(options->fd, options->label, "memory", &file);
    if (status != GANTRY_OK) {
        return status;
    }
    bool is_file = S_ISREG(file.st_mode);
    if (is_file && (uint64_t)file.st_size < options->bytes) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                       "%s: descriptor %d is a file of %" PRIu64 " bytes, %" PRIu64 " were announced",
                       options->label, options->fd, (uint64_t)file.st_size, options->bytes);
    }
    if (is_file && options->kind == GANTRY_SHARED_OPAQUE_FD && !cuda->info.emulated) {
        return GY_FAIL(
            GANTRY_ERR_INVALID_ARGUMENT,
            "%s: descriptor %d is a file: memory of a software Vulkan driver, which a CUDA device cannot "
            "reach",
            options->label, options->fd);
    }
    return GANTRY_OK;
}

static gantry_status check_options(const gantry_shared_memory_options *options)
{
    if ((unsigned)options->kind > GANTRY_SHARED_DMABUF) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_shared_memory_options: unknown kind %d",
                       (int)options->kind);
    }
    if (options->bytes == 0 || options->dedicated > 1) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_shared_memory_options: %s",
                       options->bytes == 0 ? "bytes is 0" : "dedicated is neither 0 nor 1");
    }
    return GANTRY_OK;
}

static gantry_status import_options(const gantry_shared_memory_options *options,
                                    gantry_shared_memory_options *ours)
{
    *ours = (gantry_shared_memory_options){.struct_size = sizeof(*ours)};
    gantry_status status =
        gy_options_import(ours, sizeof(*ours), options, offsetof(gantry_shared_memory_options, label),
                          "gantry_shared_memory_options");
    if (status != GANTRY_OK) {
        return status;
    }
    if (ours->label == NULL) {
        ours->label = "shared memory";
    }
    if (strlen(ours->label) >= GY_LABEL_BYTES) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                       "gantry_shared_memory_options: label has %zu characters, at most %d",
                       strlen(ours->label), GY_LABEL_BYTES - 1);
    }
    return check_options(ours);
}

static gantry_status fail_import(struct gy_context *cuda, const gantry_shared_memory_options *options,
                                 CUresult result)
{
    if (result == CUDA_ERROR_NOT_SUPPORTED) {
        return GY_FAIL_NATIVE(GANTRY_ERR_UNSUPPORTED, (int)result,
                              "%s: the driver imports no memory of this kind (%s)", options->label,
                              options->kind == GANTRY_SHARED_DMABUF ? "dma-buf" : "opaque descriptor");
    }
    if (result == CUDA_ERROR_UNKNOWN) { /* this is no failure of the device */
        return GY_FAIL_NATIVE(GANTRY_ERR_DRIVER, (int)result,
                              "%s: the driver does not take descriptor %d as memory of %" PRIu64 " bytes",
                              options->label, options->fd, options->bytes);
    }
    return gy_context_check(cuda, result, "cuImportExternalMemory", __FILE__, __LINE__);
}

/* The context is current.  The driver gets a descriptor of its own: the caller's is closed on success only.
 */
static gantry_status import_native(struct gy_context *cuda, const gantry_shared_memory_options *options,
                                   CUexternalMemory *out)
{
    int given;
    gantry_status status = gy_descriptor_copy(options->fd, options->label, &given);
    if (status != GANTRY_OK) {
        return status;
    }
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = {
        .type = options->kind == GANTRY_SHARED_DMABUF ? CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD
                                                      : CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD,
        .handle.fd = given,
        .size = options->bytes,
        .flags = options->dedicated != 0 ? CUDA_EXTERNAL_MEMORY_DEDICATED : 0,
    };
    CUresult result = cuda->driver->cuImportExternalMemory(out, &desc);
    if (result != CUDA_SUCCESS) {
        gy_descriptor_close_refused(given, options->fd);
        return fail_import(cuda, options, result);
    }
    close(options->fd);
    return GANTRY_OK;
}

/* Give the memory back.  The GPU has done its work on it, or the context is lost; the context is current if
 * the driver permits that. */
static void give_back(gantry_shared_memory *memory)
{
    struct gy_context *cuda = memory->context->cuda;
    gy_shared_images_give_back(memory);
    while (memory->mappings != NULL) {
        struct mapping *mapping = memory->mappings;
        memory->mappings = mapping->next;
        (void)GY_CALL(cuda, cuMemFree(mapping->address));
        gy_free(mapping);
    }
    (void)GY_CALL(cuda, cuDestroyExternalMemory(memory->native));
    gy_handle_free(memory, memory);
}

static void unlink_memory(gantry_shared_memory *memory)
{
    gantry_context *context = memory->context;
    gy_mutex_lock(&context->lock);
    struct gantry_shared_memory **link = &context->shared_memory;
    while (*link != memory) {
        link = &(*link)->next;
    }
    *link = memory->next;
    gy_mutex_unlock(&context->lock);
}

/* The context ends: give back the memory that is left. */
static void give_back_all(gantry_context *context)
{
    while (context->shared_memory != NULL) {
        gantry_shared_memory *memory = context->shared_memory;
        unlink_memory(memory);
        gy_handle_died(memory);
        give_back(memory);
    }
}

gantry_status gantry_shared_memory_import(gantry_context *context,
                                          const gantry_shared_memory_options *options,
                                          gantry_shared_memory **out)
{
    GY_NEED(CONTEXT, context);
    if (options == NULL || out == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_shared_memory_import: %s is NULL",
                       options == NULL ? "options" : "out");
    }
    gantry_shared_memory_options ours;
    struct gy_context *cuda = context->cuda;
    gantry_status status = import_options(options, &ours);
    if (status == GANTRY_OK && (cuda->driver->cuImportExternalMemory == NULL ||
                                cuda->driver->cuExternalMemoryGetMappedBuffer == NULL ||
                                cuda->driver->cuDestroyExternalMemory == NULL)) {
        status =
            GY_FAIL(GANTRY_ERR_UNSUPPORTED, "%s: the driver cannot import memory of another API", ours.label);
    }
    if (status == GANTRY_OK) {
        status = check_descriptor(cuda, &ours);
    }
    if (status == GANTRY_OK) {
        status = check_uuid(cuda, &ours);
    }
    if (status != GANTRY_OK) {
        return status;
    }
    struct gantry_shared_memory *memory = gy_zalloc(sizeof(*memory));
    if (memory == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "no memory for a shared memory");
    }
    status = gy_context_enter(cuda);
    if (status == GANTRY_OK) {
        status = import_native(cuda, &ours, &memory->native);
        (void)gy_context_pop(cuda);
    }
    if (status != GANTRY_OK) {
        gy_free(memory);
        return status;
    }
    memory->context = context;
    memory->bytes = ours.bytes;
    snprintf(memory->label, sizeof(memory->label), "%s", ours.label);
    gy_mutex_lock(&context->lock);
    memory->next = context->shared_memory;
    context->shared_memory = memory;
    context->above.give_back = give_back_all;
    gy_mutex_unlock(&context->lock);
    gy_handle_born(GY_HANDLE_SHARED_MEMORY, memory, sizeof(*memory), sizeof(*memory));
    *out = memory;
    return GANTRY_OK;
}

gantry_status gantry_shared_memory_map(gantry_shared_memory *memory, uint64_t offset, uint64_t bytes,
                                       void **out)
{
    GY_NEED(SHARED_MEMORY, memory);
    if (out == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_shared_memory_map: out is NULL");
    }
    struct gy_context *cuda = memory->context->cuda;
    gantry_status status = gy_shared_memory_check_range(memory, offset, bytes);
    struct mapping *mapping = status == GANTRY_OK ? gy_zalloc(sizeof(*mapping)) : NULL;
    if (status == GANTRY_OK && mapping == NULL) {
        status = GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "no memory for a mapping of %s", memory->label);
    }
    if (status == GANTRY_OK) {
        status = gy_context_enter(cuda);
    }
    if (status != GANTRY_OK) {
        gy_free(mapping);
        return status;
    }
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC desc = {.offset = offset, .size = bytes};
    status = GY_CALL(cuda, cuExternalMemoryGetMappedBuffer(&mapping->address, memory->native, &desc));
    (void)gy_context_pop(cuda);
    if (status != GANTRY_OK) {
        gy_free(mapping);
        return status;
    }
    gy_mutex_lock(&memory->context->lock);
    mapping->next = memory->mappings;
    memory->mappings = mapping;
    gy_mutex_unlock(&memory->context->lock);
    *out = (void *)(uintptr_t)mapping->address;
    return GANTRY_OK;
}

void gantry_shared_memory_destroy(gantry_shared_memory *memory)
{
    GY_ACCEPT_OR_LEAVE(SHARED_MEMORY, memory);
    if (memory == NULL) {
        return;
    }
    struct gy_context *cuda = memory->context->cuda;
    gantry_status status = gantry_context_synchronize(memory->context);
    if (status != GANTRY_OK && status != GANTRY_ERR_DEVICE_LOST) {
        gy_log(GANTRY_LOG_WARNING, "%s stays until its context is destroyed: the GPU may be using it",
               memory->label);
        return;
    }
    unlink_memory(memory);
    bool pushed = gy_context_push(cuda) == GANTRY_OK;
    give_back(memory);
    if (pushed) {
        (void)gy_context_pop(cuda);
    }
}
