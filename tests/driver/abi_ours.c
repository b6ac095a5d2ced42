/* SPDX-License-Identifier: MIT */
#include "tests/driver/abi_facts_table.h"

#include "driver/cuda_abi.h"

const struct abi_fact abi_ours[] = {
#include "tests/driver/abi_facts.h"
};
const size_t abi_ours_count = sizeof(abi_ours) / sizeof(abi_ours[0]);
