/* SPDX-License-Identifier: MIT */
/* Timeline semaphores that another API has exported as a file descriptor.
 *
 * A timeline is a memory file (timeline_file.h), so that a renderer in another process can signal it.  A
 * descriptor of anything else, /dev/null too, is refused with CUDA_ERROR_UNKNOWN.  What a driver does not
 * check is not checked here either: a signal may lower the value.  As on a device, the descriptor belongs to
 * the driver when the import has succeeded.
 *
 * On a device a wait on a stream of a green context, followed by a kernel and a signal there, hung for good.
 * Here the wait on such a stream never ends, so that nobody relies on it. */
#include "emulator/semaphore.h"

#include "base/alloc.h"
#include "emulator/capture.h"
#include "emulator/context.h"

#include <fcntl.h>
#include <sys/stat.h>

/* ---- import ----------------------------------------------------------------------------------- */

/* Map the file of a timeline.  False: the descriptor is of something else. */
static bool map_file(int fd, struct gy_timeline_file **out)
{
    struct stat file;
    if (fstat(fd, &file) != 0 || !S_ISREG(file.st_mode) || file.st_size != GY_TIMELINE_FILE_BYTES) {
        return false;
    }
    void *page = mmap(NULL, GY_TIMELINE_FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED) {
        return false;
    }
    *out = page;
    if (memcmp((*out)->mark, GY_TIMELINE_FILE_MARK, sizeof((*out)->mark)) != 0) {
        munmap(page, GY_TIMELINE_FILE_BYTES);
        return false;
    }
    return true;
}

static CUresult import_semaphore(CUexternalSemaphore *out, const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC *desc)
{
    struct gy_emu_context *context;
    CUresult result = gy_emu_context_current(&context);
    result = result == CUDA_SUCCESS ? gy_emu_capture_forbids_unsafe() : result;
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (out == NULL || desc == NULL || desc->flags != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (desc->type != CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD) {
        return desc->type == CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD ? CUDA_ERROR_UNKNOWN
                                                                         : CUDA_ERROR_INVALID_VALUE;
    }
    struct gy_timeline_file *file;
    if (fcntl(desc->handle.fd, F_GETFD) < 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!map_file(desc->handle.fd, &file)) {
        return CUDA_ERROR_UNKNOWN;
    }
    struct gy_emu_timeline *timeline = gy_zalloc(sizeof(*timeline));
    result = timeline == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
    if (timeline != NULL) {
        timeline->object.context = context->root;
        result = gy_emu_handle_open(GY_EMU_EXTERNAL_SEMAPHORE, &timeline->object);
    }
    if (result != CUDA_SUCCESS) {
        munmap(file, GY_TIMELINE_FILE_BYTES);
        gy_free(timeline);
        return result;
    }
    timeline->refs = 1;
    timeline->fd = desc->handle.fd;
    timeline->file = file;
    *out = (CUexternalSemaphore)timeline->object.handle;
    return CUDA_SUCCESS;
}

CUresult cuImportExternalSemaphore(CUexternalSemaphore *semaphore,
                                   const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC *desc)
{
    return GY_EMU_CALL(cuImportExternalSemaphore, import_semaphore(semaphore, desc));
}

static CUresult destroy_semaphore(CUexternalSemaphore handle)
{
    struct gy_emu_timeline *timeline = gy_emu_handle_find(GY_EMU_EXTERNAL_SEMAPHORE, handle);
    const CUresult allowed = gy_emu_capture_forbids_unsafe();
    if (timeline == NULL || allowed != CUDA_SUCCESS) {
        return allowed != CUDA_SUCCESS ? allowed : CUDA_ERROR_INVALID_HANDLE;
    }
    gy_emu_semaphore_close(timeline);
    return CUDA_SUCCESS;
}

CUresult cuDestroyExternalSemaphore(CUexternalSemaphore semaphore)
{
    return GY_EMU_CALL(cuDestroyExternalSemaphore, destroy_semaphore(semaphore));
}

/* ---- waits and signals ------------------------------------------------------------------------- */

/* Enqueue one operation; all that several semaphores mean is that each has one. */
static CUresult submit_one(enum gy_emu_work_kind kind, struct gy_emu_stream *stream,
                           CUexternalSemaphore handle, uint64_t value)
{
    struct gy_emu_timeline *timeline = gy_emu_handle_find(GY_EMU_EXTERNAL_SEMAPHORE, handle);
    struct gy_emu_work work = {.kind = kind, .context = stream->object.context};
    timeline->refs++;
    work.semaphore.timeline = timeline;
    work.semaphore.value = value;
    return gy_emu_stream_submit(stream, &work);
}

static CUresult check(const CUexternalSemaphore *semaphores, const void *params, unsigned int count,
                      CUstream handle, struct gy_emu_stream **stream)
{
    CUresult result = gy_emu_stream_find_for_work(handle, stream);
    if (result == CUDA_SUCCESS && (semaphores == NULL || params == NULL || count == 0)) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    for (unsigned int i = 0; i < count && result == CUDA_SUCCESS; i++) {
        if (gy_emu_handle_find(GY_EMU_EXTERNAL_SEMAPHORE, semaphores[i]) == NULL) {
            result = CUDA_ERROR_INVALID_HANDLE;
        }
    }
    return result;
}

static CUresult submit_signals(const CUexternalSemaphore *semaphores,
                               const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *params, unsigned int count,
                               CUstream handle)
{
    struct gy_emu_stream *stream;
    CUresult result = check(semaphores, params, count, handle, &stream);
    for (unsigned int i = 0; i < count && result == CUDA_SUCCESS; i++) {
        result =
            submit_one(GY_EMU_WORK_SIGNAL_SEMAPHORE, stream, semaphores[i], params[i].params.fence.value);
    }
    return result;
}

CUresult cuSignalExternalSemaphoresAsync(const CUexternalSemaphore *semaphores,
                                         const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *params,
                                         unsigned int count, CUstream stream)
{
    return GY_EMU_CALL(cuSignalExternalSemaphoresAsync, submit_signals(semaphores, params, count, stream));
}

static CUresult submit_waits(const CUexternalSemaphore *semaphores,
                             const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *params, unsigned int count,
                             CUstream handle)
{
    struct gy_emu_stream *stream;
    CUresult result = check(semaphores, params, count, handle, &stream);
    for (unsigned int i = 0; i < count && result == CUDA_SUCCESS; i++) {
        result = submit_one(GY_EMU_WORK_WAIT_SEMAPHORE, stream, semaphores[i], params[i].params.fence.value);
    }
    return result;
}

CUresult cuWaitExternalSemaphoresAsync(const CUexternalSemaphore *semaphores,
                                       const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *params, unsigned int count,
                                       CUstream stream)
{
    return GY_EMU_CALL(cuWaitExternalSemaphoresAsync, submit_waits(semaphores, params, count, stream));
}
