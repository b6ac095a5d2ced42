/* One batch of copies made from arbitrary bytes: performed by the copier on the emulated driver, and by plain
 * C on copies of the memory.  Used by a libFuzzer target (fuzz_copy.c) and by a test with random bytes
 * (test_fuzz.c). */
#ifndef TESTS_COPYKERNEL_FUZZ_BATCH_H
#define TESTS_COPYKERNEL_FUZZ_BATCH_H

#include <stddef.h>
#include <stdint.h>

/* What the batches so far came to. */
struct fuzz_counts {
    uint64_t done, refused, copies;
};

/* Aborts with a message when the copier did something else than it should have: bytes that differ anywhere in
 * the memory around, a refusal that is wrong or does not name descriptor and field, or none where one is due.
 * The first call sets up what all share; `GANTRY_EMULATOR` names the emulated driver. */
void fuzz_one(const uint8_t *data, size_t size);

struct fuzz_counts fuzz_counts(void);
/* Give everything back; the counts stay. */
void fuzz_end(void);

#endif
