/* SPDX-License-Identifier: MIT */
/* What the emulated driver tells the proof that no edge is missing (base/proof.h): which work the threads
 * carry out, and what copies and fills touch.  Kernels and host functions tell it themselves, where they are
 * instrumented. */
#ifndef EMULATOR_PROOF_H
#define EMULATOR_PROOF_H

#include "emulator/queue.h"

#include "base/proof.h"

extern const struct gy_proof_device
    *gy_emu_proof; /* written once, before there is work; NULL: nobody hears of it */

/* The calling thread enqueues work. */
static inline void gy_emu_proof_enqueue(const struct gy_emu_stream *stream, struct gy_emu_work *work)
{
    if (__builtin_expect(gy_emu_proof != NULL, 0)) {
        work->proof = gy_emu_proof->enqueue(stream);
    }
}

/* GY_EMU_PROVE(follow, (stream, event)); of streams and events, by their addresses.  A context stands for
 * what its later streams come after, and the list of its streams for those that are destroyed. */
#define GY_EMU_PROVE(call, arguments)                    \
    do {                                                 \
        if (__builtin_expect(gy_emu_proof != NULL, 0)) { \
            gy_emu_proof->call arguments;                \
        }                                                \
    } while (0)

/* The event has what the stream has, and nothing else. */
void gy_emu_proof_record(const void *event, const struct gy_emu_stream *stream);
/* The calling thread waits for the stream, or for those of a context; NULL: for all of the root's. */
void gy_emu_proof_stream_done(const struct gy_emu_stream *stream);
void gy_emu_proof_context_done(const struct gy_emu_context *root, const struct gy_emu_context *only);

/* The calling thread carries it out, without the lock; `block`: of a kernel. */
void gy_emu_proof_enter_any(const struct gy_emu_op *op, uint64_t block);
static inline void gy_emu_proof_enter(const struct gy_emu_op *op, uint64_t block)
{
    if (__builtin_expect(gy_emu_proof != NULL, 0)) {
        gy_emu_proof_enter_any(op, block);
    }
}

static inline void gy_emu_proof_leave(void)
{
    GY_EMU_PROVE(leave, ());
}

/* The memory is given out no more. */
static inline void gy_emu_proof_forget(uintptr_t address, size_t bytes)
{
    GY_EMU_PROVE(forget, ((const void *)address, bytes)); /* NOLINT: an address of the arena */
}

#endif
