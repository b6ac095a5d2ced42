/* SPDX-License-Identifier: MIT */
#include "tests/profile/cta_fixture.h"

#include "profile/session.h"
#include "tests/support/cmocka_c11.h"

#include "cta_common_clock.kernels.h"
#include "cta_kernels.kernels.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CELLS 4096u

char path[64];
struct gpu_fixture fixture;
gantry_kernel *count_up, *half_silent;
uint32_t first_kernel;
void *cells;
struct read_trace trace;
gantry_profile_stats stats;

int cta_begin(void)
{
    static const char *const names[] = {"count_up", "half_silent"};
    if (!reader_available()) {
        return 77;
    }
    return gantry_profile_register_kernels(names, 2, &first_kernel) == GANTRY_OK ? 0 : 1;
}

gantry_launch_result launch_work(gantry_launch *launch, void *arg)
{
    struct work *work = arg;
    uint32_t id = first_kernel + work->half;
    void *profile = gantry_launch_profile(launch, id, work->grid);
    work->had_records = profile != NULL;
    if (work->leaves && gantry_launch_leave_graph(launch) != GANTRY_OK) {
        return GANTRY_LAUNCH_FAILED;
    }
    void *full[] = {&cells, &work->spins, &profile, &id};
    void *half[] = {&profile, &id};
    gantry_dim3 block = {work->threads, 1, 1};
    if (gantry_launch_kernel(launch, work->half ? half_silent : count_up, work->grid, block, 0,
                             work->half ? half : full) != GANTRY_OK) {
        return GANTRY_LAUNCH_FAILED;
    }
    return gantry_launch_index(launch) + 1 < work->launches ? GANTRY_LAUNCH_AGAIN : GANTRY_LAUNCH_DONE;
}

int set_up(void **state)
{
    (void)state;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.driver = gpu_fixture_driver();
    return set_up_with(&options);
}

int set_up_with(const gantry_context_options *options)
{
    snprintf(path, sizeof(path), "/tmp/gantry-cta-%d.pftrace", (int)getpid());
    gy_profile_set_patience(PATIENCE_NS);
    gpu_fixture_open_with(&fixture, 1, options);
    gantry_module *module;
    assert_ok(gantry_module_load(fixture.context, &gantry_image_cta_kernels, &module));
    assert_ok(gantry_module_get_kernel(module, "count_up", &count_up));
    assert_ok(gantry_module_load(fixture.context, &gantry_image_cta_common_clock, &module));
    assert_ok(gantry_module_get_kernel(module, "half_silent", &half_silent));
    assert_ok(gantry_heap_alloc(gantry_context_heap(fixture.context), GANTRY_MEMORY_DEVICE,
                                CELLS * sizeof(uint32_t), 0, GANTRY_ALLOC_SITE("cells"), &cells));
    gpu_fixture_clear(&fixture, cells, CELLS * sizeof(uint32_t));
    return 0;
}

int tear_down(void **state)
{
    (void)state;
    (void)gantry_heap_free(gantry_context_heap(fixture.context), cells);
    gpu_fixture_close(&fixture);
    reader_free(&trace);
    unlink(path);
    return 0;
}

gantry_profile *start(gantry_profile_ctas ctas, uint32_t per_buffer, uint32_t buffers)
{
    gantry_profile_options options = GANTRY_PROFILE_OPTIONS_INIT;
    options.path = path;
    options.ctas = ctas;
    options.ctas_per_buffer = per_buffer != 0 ? per_buffer : CTAS_PER_BUFFER;
    options.buffers = buffers != 0 ? buffers : BUFFERS;
    gantry_profile *profile = NULL;
    assert_ok(gantry_profile_start(&options, &profile));
    return profile;
}

void stop_and_load(gantry_profile *profile)
{
    stats = (gantry_profile_stats){.struct_size = sizeof(stats)};
    assert_ok(gantry_profile_stop(profile, &stats));
    const char *wrong = reader_load(path, &trace);
    if (wrong != NULL) {
        fail_msg("%s", wrong);
    }
}

bool is_block(const struct read_slice *slice)
{
    return strncmp(slice->track->name, "SM ", 3) == 0;
}

uint64_t blocks_called(const char *name)
{
    uint64_t count = 0;
    for (size_t i = 0; i < trace.slice_count; i++) {
        count += is_block(&trace.slices[i]) && strcmp(trace.slices[i].name, name) == 0;
    }
    return count;
}

const struct read_slice *slice_of(const char *category, const char *name)
{
    for (size_t i = 0; i < trace.slice_count; i++) {
        const struct read_slice *s = &trace.slices[i];
        if (strcmp(s->category, category) == 0 && strcmp(s->name, name) == 0) {
            return s;
        }
    }
    return NULL;
}

gantry_status do_nothing(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    return GANTRY_OK;
}

gantry_launch_result launch_nothing(gantry_launch *launch, void *arg)
{
    (void)launch;
    (void)arg;
    return GANTRY_LAUNCH_DONE;
}

gantry_launch_result launch_done(gantry_launch *launch, void *arg)
{
    return gantry_launch_add_completion(launch, arg) == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}
