/* SPDX-License-Identifier: MIT */
/* Memory that another API has exported as a file descriptor.
 *
 * A software Vulkan driver (lavapipe) exports a memory file: at its head the size of the file, the offset at
 * which the data begin and an identifier, then the data.  Any other file is taken as data from its first byte
 * on, which is how a test makes one.  As on a device, the descriptor belongs to the driver when the import
 * has succeeded.  A size above the true one is accepted.  The memory is given back when it is destroyed, not
 * when a mapping of it is freed. */
#include "emulator/capture.h"
#include "emulator/memory.h"

#include "base/alloc.h"

#include <sys/stat.h>
#include <unistd.h>

#define LAVAPIPE_DATA 4096 /* the offset at which its data begin */

struct external_memory {
    struct gy_emu_object object;
    int fd;
    uint64_t size;  /* the size that the import gave */
    uint64_t data;  /* offset in the file of its first byte */
    uint64_t bytes; /* bytes from there to the end of the file */
};

/* The head of lavapipe's files. */
struct lavapipe_head {
    uint64_t file_bytes;
    uint64_t data;
};

static bool has_lavapipe_head(int fd, uint64_t file_bytes)
{
    struct lavapipe_head head;
    return pread(fd, &head, sizeof(head), 0) == (ssize_t)sizeof(head) && head.file_bytes == file_bytes &&
           head.data == LAVAPIPE_DATA;
}

static bool is_good_desc(const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc)
{
    return desc != NULL && desc->size != 0 &&
           (desc->flags & ~(unsigned int)CUDA_EXTERNAL_MEMORY_DEDICATED) == 0;
}

static CUresult import_memory(CUexternalMemory *out, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc)
{
    struct gy_emu_context *context;
    CUresult result = gy_emu_context_current(&context);
    result = result == CUDA_SUCCESS ? gy_emu_capture_forbids_unsafe() : result;
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (out == NULL || !is_good_desc(desc)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (desc->type != CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD) {
        return desc->type == CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD ? CUDA_ERROR_NOT_SUPPORTED
                                                                      : CUDA_ERROR_INVALID_VALUE;
    }
    struct stat file;
    if (fstat(desc->handle.fd, &file) != 0 || !S_ISREG(file.st_mode)) {
        return CUDA_ERROR_UNKNOWN;
    }
    struct external_memory *memory = gy_zalloc(sizeof(*memory));
    if (memory == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    uint64_t file_bytes = (uint64_t)file.st_size;
    memory->data = has_lavapipe_head(desc->handle.fd, file_bytes) ? LAVAPIPE_DATA : 0;
    memory->bytes = file_bytes - memory->data;
    memory->size = desc->size;
    memory->object.context = context->root;
    result = gy_emu_handle_open(GY_EMU_EXTERNAL_MEMORY, &memory->object);
    if (result != CUDA_SUCCESS) {
        gy_free(memory);
        return result;
    }
    memory->fd = desc->handle.fd;
    *out = (CUexternalMemory)memory->object.handle;
    return CUDA_SUCCESS;
}

CUresult cuImportExternalMemory(CUexternalMemory *memory, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc)
{
    return GY_EMU_CALL(cuImportExternalMemory, import_memory(memory, desc));
}

/* Behind the end of the file there is nothing to touch, which a device would find out later. */
CUresult gy_emu_external_map(CUexternalMemory handle, uint64_t offset, uint64_t bytes,
                             struct gy_emu_region **out)
{
    struct gy_emu_context *context;
    const struct external_memory *memory = gy_emu_handle_find(GY_EMU_EXTERNAL_MEMORY, handle);
    CUresult result = memory != NULL ? gy_emu_context_current(&context) : CUDA_ERROR_INVALID_HANDLE;
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (bytes == 0 || offset > memory->size || bytes > memory->size - offset || offset > memory->bytes ||
        bytes > memory->bytes - offset) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct gy_emu_region *region;
    result = gy_emu_region_open_file(memory->fd, memory->data + offset, bytes, &region);
    if (result == CUDA_SUCCESS) {
        region->context = context->root;
        region->device = context->device;
        *out = region;
    }
    return result;
}

static CUresult map_buffer(CUdeviceptr *out, CUexternalMemory handle,
                           const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *desc)
{
    if (desc == NULL || desc->flags != 0 || out == NULL) {
        return gy_emu_handle_find(GY_EMU_EXTERNAL_MEMORY, handle) == NULL ? CUDA_ERROR_INVALID_HANDLE
                                                                          : CUDA_ERROR_INVALID_VALUE;
    }
    struct gy_emu_region *region;
    CUresult result = gy_emu_external_map(handle, desc->offset, desc->size, &region);
    if (result == CUDA_SUCCESS) {
        *out = region->base;
    }
    return result;
}

CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr *address, CUexternalMemory memory,
                                         const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *desc)
{
    return GY_EMU_CALL(cuExternalMemoryGetMappedBuffer, map_buffer(address, memory, desc));
}

static void close_memory(struct external_memory *memory)
{
    gy_emu_handle_close(&memory->object);
    close(memory->fd);
    gy_free(memory);
}

static CUresult destroy_memory(CUexternalMemory handle)
{
    struct external_memory *memory = gy_emu_handle_find(GY_EMU_EXTERNAL_MEMORY, handle);
    const CUresult allowed = gy_emu_capture_forbids_unsafe();
    if (memory == NULL || allowed != CUDA_SUCCESS) {
        return allowed != CUDA_SUCCESS ? allowed : CUDA_ERROR_INVALID_HANDLE;
    }
    close_memory(memory);
    return CUDA_SUCCESS;
}

CUresult cuDestroyExternalMemory(CUexternalMemory memory)
{
    return GY_EMU_CALL(cuDestroyExternalMemory, destroy_memory(memory));
}

void gy_emu_external_close_all(struct gy_emu_context *root)
{
    uint32_t cursor = 0;
    struct gy_emu_object *object;
    while ((object = gy_emu_handle_next(GY_EMU_EXTERNAL_MEMORY, &cursor)) != NULL) {
        if (object->context == root) {
            close_memory((struct external_memory *)(void *)object);
        }
    }
}
