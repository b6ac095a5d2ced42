/* SPDX-License-Identifier: MIT */
/* Waiting on the host: for a marker, a stream, a context.  The lock is given up meanwhile. */
#include "emulator/queue.h"

#include "emulator/context.h"
#include "emulator/proof.h"
#include "emulator/watch.h"

#include <sched.h>

#define SPINS 64

/* Spin where there may be few cores: look, let others run, look again. */
static void spin_on(struct gy_emu_marker *marker)
{
    gy_emu_control_leave();
    for (int i = 0; i < SPINS && !atomic_load_explicit(&marker->done, memory_order_acquire); i++) {
        sched_yield();
    }
    gy_emu_control_enter();
}

void gy_emu_marker_wait(struct gy_emu_marker *marker, bool spin)
{
    marker->refs++;
    if (spin && !atomic_load_explicit(&marker->done, memory_order_relaxed)) {
        spin_on(marker);
    }
    marker->host_waiters++;
    while (!atomic_load_explicit(&marker->done, memory_order_relaxed)) {
        gy_emu_wait_progress();
    }
    marker->host_waiters--;
    gy_emu_marker_unref(marker);
}

CUresult gy_emu_stream_drain(struct gy_emu_stream *stream)
{
    struct gy_emu_context *root = stream->root;
    struct gy_emu_marker *marker;
    GY_EMU_WATCH(see_done, (stream));
    CUresult result = gy_emu_stream_mark(stream, &marker);
    if (result == CUDA_SUCCESS && marker != NULL) {
        uintptr_t handle = root->object.handle;
        gy_emu_marker_wait(marker, false);
        gy_emu_marker_unref(marker);
        root = gy_emu_handle_find(GY_EMU_CONTEXT, (void *)handle); /* the context may be gone by now */
    }
    if (result == CUDA_SUCCESS) {
        result = root != NULL ? root->sticky : CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
    return result;
}

static CUresult drain(struct gy_emu_context *root, const struct gy_emu_context *only,
                      CUresult (*mark)(struct gy_emu_stream *, struct gy_emu_marker **))
{
    struct gy_emu_marker *chain = NULL;
    CUresult result = CUDA_SUCCESS;
    GY_EMU_WATCH(see_all_done, ());
    gy_emu_proof_context_done(root, only);
    for (struct gy_emu_stream *s = root->streams; s != NULL && result == CUDA_SUCCESS; s = s->next_in_root) {
        struct gy_emu_marker *marker = NULL;
        if (only == NULL || s->object.context == only) {
            result = mark(s, &marker);
        }
        if (result == CUDA_SUCCESS && marker != NULL) {
            marker->next = chain;
            chain = marker;
        }
    }
    while (chain != NULL) {
        struct gy_emu_marker *marker = chain;
        chain = marker->next;
        marker->next = NULL;
        gy_emu_marker_wait(marker, false);
        gy_emu_marker_unref(marker);
    }
    return result;
}

CUresult gy_emu_root_drain(struct gy_emu_context *root, const struct gy_emu_context *only)
{
    return drain(root, only, gy_emu_stream_mark);
}

CUresult gy_emu_context_drain(struct gy_emu_context *context)
{
    return drain(context->root, context == context->root ? NULL : context, gy_emu_stream_mark_own);
}
