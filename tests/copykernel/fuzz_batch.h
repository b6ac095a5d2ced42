/* SPDX-License-Identifier: MIT */
/* One batch of copies made from arbitrary bytes: the copier performs it on the emulated driver, and plain C
 * on copies of the memory.  A libFuzzer target (fuzz_copy.c) and a test with random bytes (test_fuzz.c) use
 * it. */
#ifndef TESTS_COPYKERNEL_FUZZ_BATCH_H
#define TESTS_COPYKERNEL_FUZZ_BATCH_H

#include <stddef.h>
#include <stdint.h>

/* Counts of the batches so far. */
struct fuzz_counts {
    uint64_t done, refused, copies;
};

/* Abort with a message when the copier did something wrong: bytes differ anywhere in the memory around, a
 * refusal is wrong or does not name descriptor and field, or one is missing.  The first call sets up what
 * all calls share; `GANTRY_EMULATOR` names the emulated driver. */
void fuzz_one(const uint8_t *data, size_t size);

struct fuzz_counts fuzz_counts(void);
/* Give everything back; the counts stay. */
void fuzz_end(void);

#endif
