/* SPDX-License-Identifier: MIT */
/* The copier under libFuzzer; see docs/design/testing.md. */
#include "tests/copykernel/fuzz_batch.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_one(data, size);
    return 0;
}
