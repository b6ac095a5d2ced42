/* SPDX-License-Identifier: MIT */
/* The bytes are a file with a plan of partitions. */
#include "tests/fuzz/fuzz.h"

#include "cli/plan_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int file = memfd_create("fuzz", 0);
    char path[64];
    static struct cli_plan plan;
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
    if (file < 0 || write(file, data, size) != (ssize_t)size) {
        abort();
    }
    if (cli_plan_read(path, &plan)) {
        if (plan.options.count > GANTRY_PARTITIONS_MAX) {
            abort();
        }
        for (uint32_t i = 0; i < plan.options.count; i++) {
            const gantry_partition_request *request = &plan.options.requests[i];
            if (request->name != NULL && strlen(request->name) > size) {
                abort();
            }
        }
        cli_plan_free(&plan);
    }
    (void)close(file);
    return 0;
}
