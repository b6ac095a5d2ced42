/* SPDX-License-Identifier: MIT */
/* What of a device this process may use, and what its environment says of it: work queues, MPS, the driver's
 * log, and the allocator of small blocks. */
#ifndef CLI_SURROUNDINGS_H
#define CLI_SURROUNDINGS_H

#include <gantry/gantry.h>

#include <stdbool.h>

struct cli_surroundings {
    int driver_version;
    gantry_sm_topology topology; /* all 0: the driver does not tell */
    const char *max_connections; /* $CUDA_DEVICE_MAX_CONNECTIONS; NULL: not set */
    const char *mps_partition;   /* $CUDA_MPS_SM_PARTITION; NULL: not set */
    const char *log_file;        /* $CUDA_LOG_FILE; NULL: not set */
};

void cli_read_surroundings(gantry_context *context, struct cli_surroundings *out);

enum { CLI_SURROUNDINGS_TEXT = 256 };
/* "8, shared with all contexts (CUDA_DEVICE_MAX_CONNECTIONS is not set)" */
void cli_work_queues_text(const struct cli_surroundings *surroundings, char out[CLI_SURROUNDINGS_TEXT]);
/* "static partition GPU-1/D4: 66 of 132 multiprocessors"; false: the process is no client of MPS. */
bool cli_mps_text(const struct cli_surroundings *surroundings, char out[CLI_SURROUNDINGS_TEXT]);

/* Which jemalloc serves small blocks of the heap: "jemalloc" (built with the library), "installed" (as it is
 * on the machine) or "none". */
const char *cli_small_allocator(void);
/* What that means for programs that open the library at run time. */
const char *cli_small_allocator_text(void);

/* For `gantry info`: four lines, or keys of a JSON object with a comma before each. */
void cli_print_surroundings(const struct cli_surroundings *surroundings);
void cli_print_surroundings_json(const struct cli_surroundings *surroundings);

#endif
