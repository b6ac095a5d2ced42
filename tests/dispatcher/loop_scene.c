/* SPDX-License-Identifier: MIT */
#include "tests/dispatcher/loop_scene.h"

#include "loop_kernels.kernels.h"
#include "tests/support/cmocka_c11.h"

#include <string.h>

void loops_open_scene(struct loop_scene *s, const gantry_context_options *more)
{
    memset(s, 0, sizeof(*s));
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    if (more != NULL) {
        options = *more;
    }
    options.driver = gpu_fixture_driver();
    gpu_fixture_open_with(&s->gpu, 2, &options);
    s->has_emu = gpu_fixture_controls(&s->emu);
    assert_ok(gantry_module_load(s->gpu.context, &gantry_image_loop_kernels, &s->module));
    assert_ok(gantry_module_get_kernel(s->module, "loop_count", &s->count));
    assert_ok(gantry_module_get_kernel(s->module, "loop_mix", &s->mix));
    gantry_heap *heap = gantry_context_heap(s->gpu.context);
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, CELLS * 4, 256, GANTRY_ALLOC_SITE("loops"),
                                (void **)&s->cells));
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, CELLS * 4, 256, GANTRY_ALLOC_SITE("loops"),
                                (void **)&s->begin));
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, CELLS * 4, 256, GANTRY_ALLOC_SITE("loops"),
                                (void **)&s->end));
}

void loops_close_scene(struct loop_scene *s)
{
    gantry_heap *heap = gantry_context_heap(s->gpu.context);
    gantry_taskman_destroy(s->gpu.manager);
    s->gpu.manager = NULL;
    assert_ok(gantry_context_synchronize(s->gpu.context));
    assert_ok(gantry_heap_free(heap, s->cells));
    assert_ok(gantry_heap_free(heap, s->begin));
    assert_ok(gantry_heap_free(heap, s->end));
    gantry_module_unload(s->module);
    gpu_fixture_close(&s->gpu);
}

void loops_close_lost(struct loop_scene *s)
{
    gantry_taskman_destroy(s->gpu.manager);
    s->gpu.manager = NULL;
    gantry_module_unload(s->module);
    gpu_fixture_close(&s->gpu);
}

/* ---- tasks ------------------------------------------------------------------------------------ */

gantry_launch_result loops_result_of(gantry_status status)
{
    return status == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static gantry_launch_result launch_before(gantry_launch *launch, void *arg)
{
    struct loop_scene *s = arg;
    return loops_result_of(gantry_launch_copy_htod(launch, s->cells, s->begin, CELLS * 4));
}

static gantry_launch_result launch_after(gantry_launch *launch, void *arg)
{
    struct loop_scene *s = arg;
    return loops_result_of(gantry_launch_copy_dtoh(launch, s->end, s->cells, CELLS * 4));
}

static gantry_launch_result launch_step(gantry_launch *launch, void *arg)
{
    struct loop_step *step = arg;
    struct loop_scene *s = step->scene;
    uint32_t *to = s->cells + step->to;
    const uint32_t *from = s->cells + step->from;
    gantry_status status = GANTRY_OK;
    void *count_args[] = {&s->cells};
    void *mix_args[] = {&to, &from, &step->value};
    atomic_fetch_add(&step->calls, 1);
    if (step->extra != NULL && step->extra(launch, arg) != GANTRY_LAUNCH_DONE) {
        return GANTRY_LAUNCH_FAILED;
    }
    switch (step->act) {
    case ACT_COUNT:
        status = gantry_launch_kernel(launch, s->count, (gantry_dim3){1, 1, 1}, (gantry_dim3){1, 1, 1}, 0,
                                      count_args);
        break;
    case ACT_MIX:
        status =
            gantry_launch_kernel(launch, s->mix, (gantry_dim3){1, 1, 1}, (gantry_dim3){1, 1, 1}, 0, mix_args);
        break;
    case ACT_COPY:
        status = gantry_launch_copy_dtod(launch, to, from, 4);
        break;
    case ACT_FILL:
        status = gantry_launch_fill(launch, to, step->value, 4, 1);
        break;
    case ACT_SYNC:
        break;
    }
    return loops_result_of(status);
}

gantry_status loops_see(gantry_task *task, void *arg)
{
    struct loop_scene *s = arg;
    (void)task;
    atomic_fetch_add(&s->checked, 1);
    return GANTRY_OK;
}

struct loop_step *loops_add_step_with(struct loop_scene *s, enum act act, uint32_t to, uint32_t from,
                                      uint32_t value, bool stable)
{
    assert_true(s->step_count < MOST_STEPS);
    struct loop_step *step = &s->steps[s->step_count++];
    step->scene = s;
    step->act = act;
    step->to = to;
    step->from = from;
    step->value = value;
    step->extra = NULL;
    atomic_store(&step->calls, 0);
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.kind = act == ACT_SYNC ? GANTRY_TASK_SYNC_POINT : GANTRY_TASK_KERNEL;
    desc.label = "step";
    desc.partition = act == ACT_SYNC ? NULL : s->partition;
    if (act != ACT_SYNC) {
        desc.launch = launch_step;
        desc.arg = step;
        desc.is_stable = stable;
    }
    assert_ok(gantry_taskman_submit(s->gpu.manager, &desc, &step->task));
    return step;
}

struct loop_step *loops_add_step(struct loop_scene *s, enum act act, uint32_t to, uint32_t from,
                                 uint32_t value)
{
    return loops_add_step_with(s, act, to, from, value, true);
}

gantry_task *loops_gpu_task(struct loop_scene *s, gantry_task_kind kind, gantry_launch_fn launch)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_task *task;
    desc.kind = kind;
    desc.launch = launch;
    desc.arg = s;
    desc.partition = s->partition;
    assert_ok(gantry_taskman_submit(s->gpu.manager, &desc, &task));
    return task;
}

/* before, test, decide, after, and a CPU task that sees that all is done. */
void loops_add_loop(struct loop_scene *s, uint32_t most)
{
    gantry_loop_options options = GANTRY_LOOP_OPTIONS_INIT;
    options.word = s->cells;
    options.most = most;
    options.label = "rounds";
    options.partition = s->partition;
    s->step_count = 0;
    s->loop.struct_size = sizeof(s->loop);
    assert_ok(gantry_taskman_submit_loop(s->gpu.manager, &options, &s->loop));
    s->before = loops_gpu_task(s, GANTRY_TASK_HTOD, launch_before);
    s->after = loops_gpu_task(s, GANTRY_TASK_DTOH, launch_after);
    s->seen = gpu_fixture_cpu(&s->gpu, "seen", loops_see, s);
    assert_ok(gantry_task_start_after_done(s->seen, s->after));
}

/* The body is a line of all steps. */
void loops_close_line(struct loop_scene *s)
{
    gpu_fixture_after(s->steps[0].task, s->before);
    for (uint32_t i = 1; i < s->step_count; i++) {
        gpu_fixture_after(s->steps[i].task, s->steps[i - 1].task);
    }
    gpu_fixture_after(s->loop.test, s->steps[s->step_count - 1].task);
    gpu_fixture_after(s->steps[0].task, s->loop.decide);
    gpu_fixture_after(s->after, s->loop.decide);
    assert_ok(gantry_taskman_freeze(s->gpu.manager));
}

void loops_set_begin(struct loop_scene *s, uint32_t turns)
{
    for (uint32_t i = 0; i < CELLS; i++) {
        s->begin[i] = i * 7 + 1;
    }
    s->begin[0] = 5; /* what the word is before the first turn does not matter */
    s->begin[1] = turns;
    s->begin[2] = 0;
}

/* What the cells are after `turns` of the body, whose steps are in an order that its edges allow. */
void loops_expect_cells(const struct loop_scene *s, uint32_t turns)
{
    uint32_t cells[CELLS];
    memcpy(cells, s->begin, sizeof(cells));
    for (uint32_t turn = 0; turn < turns; turn++) {
        for (uint32_t i = 0; i < s->step_count; i++) {
            const struct loop_step *step = &s->steps[i];
            switch (step->act) {
            case ACT_COUNT:
                cells[2]++;
                cells[1]--;
                cells[0] = cells[1] != 0;
                break;
            case ACT_MIX:
                cells[step->to] = cells[step->to] * step->value + cells[step->from];
                break;
            case ACT_COPY:
                cells[step->to] = cells[step->from];
                break;
            case ACT_FILL:
                cells[step->to] = step->value;
                break;
            case ACT_SYNC:
                break;
            }
        }
    }
    for (uint32_t i = 0; i < CELLS; i++) {
        if (s->end[i] != cells[i]) {
            fail_msg("cell %u is %u, not %u, after %u turns", i, s->end[i], cells[i], turns);
        }
    }
}

void loops_run(struct loop_scene *s, uint32_t turns)
{
    const uint32_t before = atomic_load(&s->checked);
    loops_set_begin(s, turns);
    memset(s->end, 0xee, CELLS * 4);
    assert_ok(gantry_taskman_start(s->gpu.manager));
    assert_ok(gantry_taskman_stop(s->gpu.manager));
    assert_int_equal(atomic_load(&s->checked), before + 1);
}

gantry_loop_stats loops_stats_of(const struct loop_scene *s)
{
    gantry_loop_stats stats = {.struct_size = sizeof(stats)};
    assert_ok(gantry_loop_get_stats(s->loop.decide, &stats));
    return stats;
}

void loops_expect_stats(const struct loop_scene *s, uint64_t launches, uint64_t cpu_loops,
                        gantry_loop_end end, uint32_t turns)
{
    const gantry_loop_stats stats = loops_stats_of(s);
    assert_int_equal(stats.launches, launches);
    assert_int_equal(stats.cpu_loops, cpu_loops);
    assert_int_equal(stats.end, end);
    assert_int_equal(stats.turns, turns);
    assert_int_equal(stats.is_on_device, 0);
}

void loops_expect(const struct loop_scene *s, uint64_t launches, uint64_t cpu_loops, gantry_loop_end end,
                  uint32_t turns)
{
    loops_expect_cells(s, turns);
    loops_expect_stats(s, launches, cpu_loops, end, turns);
}

void loops_make_usual(struct loop_scene *s, uint32_t most)
{
    loops_add_loop(s, most);
    loops_add_step(s, ACT_MIX, 3, 2, 3);
    loops_add_step(s, ACT_COPY, 4, 3, 0);
    loops_add_step(s, ACT_FILL, 5, 0, 77);
    loops_add_step(s, ACT_MIX, 5, 4, 5);
    loops_add_step(s, ACT_COUNT, 0, 0, 0);
    loops_close_line(s);
}

void loops_open_usual(struct loop_scene *s, uint32_t most)
{
    loops_open_scene(s, NULL);
    loops_make_usual(s, most);
}
