/* SPDX-License-Identifier: MIT */
/* A fixture for tests of block records: a context, kernels, work to launch, and the trace of it.  A program
 * has one of each. */
#ifndef TESTS_PROFILE_CTA_FIXTURE_H
#define TESTS_PROFILE_CTA_FIXTURE_H

#include "tests/profile/trace_reader.h"
#include "tests/support/gpu_fixture.h"

extern char path[64]; /* the path of the trace */
extern struct gpu_fixture fixture;
extern gantry_kernel *count_up, *half_silent;
extern uint32_t first_kernel; /* the number of count_up; half_silent is the next */
extern void *cells;
extern struct read_trace trace;
extern gantry_profile_stats stats;

struct work {
    gantry_dim3 grid;
    uint32_t threads, spins;
    bool half;
    bool had_records; /* out */
    uint32_t launches;
    bool leaves; /* the graph before it launches */
};

/* Call this before the first test: it names the kernels.  Returns an exit status, 0 to go on. */
int cta_begin(void);

gantry_launch_result launch_work(gantry_launch *launch, void *arg);
int set_up(void **state);
int set_up_with(const gantry_context_options *options);
int tear_down(void **state);
/* Each batch takes a buffer until the writer has its records, and on a busy machine the writer comes late:
 * there are so many that each batch of a test has its own. */
enum { CTAS_PER_BUFFER = 4096, BUFFERS = 64 };
/* The end of a recording waits for work of the GPU for so long: longer than a test may take. */
#define PATIENCE_NS UINT64_C(60000000000)
/* Sizes of 0 mean these. */
gantry_profile *start(gantry_profile_ctas ctas, uint32_t per_buffer, uint32_t buffers);
void stop_and_load(gantry_profile *profile);
bool is_block(const struct read_slice *slice);
uint64_t blocks_called(const char *name);
const struct read_slice *slice_of(const char *category, const char *name);
gantry_status do_nothing(gantry_task *task, void *arg);
gantry_launch_result launch_nothing(gantry_launch *launch, void *arg);
gantry_launch_result launch_done(gantry_launch *launch, void *arg);

#endif
