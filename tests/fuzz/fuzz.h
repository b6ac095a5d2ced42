/* SPDX-License-Identifier: MIT */
/* A fuzz target is one function that takes bytes and must return, whatever they are. */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
