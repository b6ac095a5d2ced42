/* SPDX-License-Identifier: MIT */
/* Memory and semaphores of other APIs: there is none here, so that only refusals are seen. */
#include "tests/conformance/differential/ops.h"

#include <string.h>

static void op_memory(void)
{
    CUexternalMemory memory = NULL;
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc;
    memset(&desc, 0, sizeof(desc));
    desc.type = (CUexternalMemoryHandleType)DF_PICK("type", 1, 0, 99);
    desc.handle.fd = -1;
    desc.size = DF_PICK("size", 4096, 0);
    ask(cuImportExternalMemory, df_or_null(&memory), df_or_null(&desc));
}

static void op_semaphore(void)
{
    CUexternalSemaphore semaphore = NULL;
    CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC desc;
    memset(&desc, 0, sizeof(desc));
    desc.type = (CUexternalSemaphoreHandleType)DF_PICK("type", 1, 9, 0, 99);
    desc.handle.fd = -1;
    ask(cuImportExternalSemaphore, df_or_null(&semaphore), df_or_null(&desc));
}

static void op_null(void)
{
    CUdeviceptr address = 0;
    CUmipmappedArray mipmapped = NULL;
    CUarray array = NULL;
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC buffer;
    CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC image;
    memset(&buffer, 0, sizeof(buffer));
    memset(&image, 0, sizeof(image));
    switch (df_choice("op", 8)) {
    case 0:
        ask(cuExternalMemoryGetMappedBuffer, &address, NULL, &buffer);
        break;
    case 1:
        ask(cuDestroyExternalMemory, NULL);
        break;
    case 2:
        ask(cuExternalMemoryGetMappedMipmappedArray, &mipmapped, NULL, &image);
        break;
    case 3:
        ask(cuMipmappedArrayGetLevel, &array, NULL, 0);
        break;
    case 4:
        ask(cuMipmappedArrayDestroy, NULL);
        break;
    case 5:
        ask(cuDestroyExternalSemaphore, NULL);
        break;
    case 6:
        ask(cuSurfObjectDestroy, 0);
        break;
    default: {
        CUsurfObject surface = 0;
        CUDA_RESOURCE_DESC desc;
        memset(&desc, 0, sizeof(desc));
        desc.flags = (unsigned)DF_PICK("flags", 0, 1);
        ask(cuSurfObjectCreate, &surface, df_or_null(&desc));
    }
    }
}

static void op_semaphores(void)
{
    CUstream stream = df_stream();
    CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS signal;
    CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS wait;
    bool waits = df_choice("wait", 2) == 1;
    memset(&signal, 0, sizeof(signal));
    memset(&wait, 0, sizeof(wait));
    if (!df_stream_is_there()) {
        df_skip(DF_cuSignalExternalSemaphoresAsync);
    } else if (waits) {
        ask(cuWaitExternalSemaphoresAsync, NULL, &wait, 0, stream);
    } else {
        ask(cuSignalExternalSemaphoresAsync, NULL, &signal, 0, stream);
    }
}

const struct df_op df_ops_external[] = {
    {2, op_memory}, {2, op_semaphore}, {3, op_null}, {2, op_semaphores}, {0, NULL}};
