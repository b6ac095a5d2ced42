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
static inline void gy_emu_proof_enqueue(struct gy_emu_work *work)
{
    if (__builtin_expect(gy_emu_proof != NULL, 0)) {
        work->proof = gy_emu_proof->enqueue();
    }
}

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
    if (__builtin_expect(gy_emu_proof != NULL, 0)) {
        gy_emu_proof->leave();
    }
}

/* The memory is given out no more. */
static inline void gy_emu_proof_forget(uintptr_t address, size_t bytes)
{
    if (__builtin_expect(gy_emu_proof != NULL, 0)) {
        gy_emu_proof->forget((const void *)address, bytes); /* NOLINT: an address of the arena */
    }
}

#endif
