/* SPDX-License-Identifier: MIT */
/* The graph of a run.
 *
 *   device 0        interior ──────────► interior ──────────►
 *                      ╲               ╱    ╲
 *                   edges ──► halo ─╲╱─► edges ──► halo ──►
 *                                   ╱╲
 *   device 1        edges ──► halo ─╱╲─► edges ──► halo ──►
 *                      ╱               ╲    ╱
 *                   interior ──────────► interior ──────────►
 *
 * The edges of a step come after the whole step before on their device, and after the halo tasks of its
 * neighbours; so a halo is written only when its reader, the edges of the step before, has ended: that
 * neighbour's halo task came after it.  The interior needs no halo, and so waits for no other device.
 *
 * Either all of that is said by edges, or tasks say which rows they read and write, and nobody thinks of it.
 */
#include "samples/stencil/graph.h"

#include <string.h>

static gantry_launch_result launched(gantry_status status)
{
    return status == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

/* Where a part's edges are copied to: the last row of the part above, the first row of the one below. */
static float *halo_above(const struct stencil_step *step)
{
    const struct stencil_part *above = step->part->above;
    return above == NULL
               ? NULL
               : above->buffers[step->index] + (size_t)(above->rows + 1) * above->stencil->settings.columns;
}

static float *halo_below(const struct stencil_step *step)
{
    return step->part->below == NULL ? NULL : step->part->below->buffers[step->index];
}

static gantry_launch_result launch_edges(gantry_launch *launch, void *arg)
{
    struct stencil_step *step = arg;
    struct stencil_part *part = step->part;
    struct stencil *s = part->stencil;
    float *above = s->settings.is_fused ? halo_above(step) : NULL;
    float *below = s->settings.is_fused ? halo_below(step) : NULL;
    void *args[] = {&step->from, &step->to, &s->settings.columns, &part->rows, &above, &below};
    const gantry_dim3 block = {STENCIL_BLOCK, 1, 1};
    return launched(gantry_launch_kernel(launch, part->edges_kernel, stencil_blocks(s, 2), block, 0, args));
}

static gantry_launch_result launch_halo(gantry_launch *launch, void *arg)
{
    struct stencil_step *step = arg;
    const size_t columns = step->part->stencil->settings.columns, bytes = columns * sizeof(float);
    float *above = halo_above(step), *below = halo_below(step);
    gantry_status status = GANTRY_OK;
    if (above != NULL) {
        status = gantry_launch_copy_dtod(launch, above, step->to + columns, bytes);
    }
    if (below != NULL && status == GANTRY_OK) {
        status = gantry_launch_copy_dtod(launch, below, step->to + step->part->rows * columns, bytes);
    }
    return launched(status);
}

static gantry_launch_result launch_interior(gantry_launch *launch, void *arg)
{
    struct stencil_step *step = arg;
    struct stencil_part *part = step->part;
    struct stencil *s = part->stencil;
    uint32_t second = 2;
    void *args[] = {&step->from, &step->to, &s->settings.columns, &second};
    const gantry_dim3 block = {STENCIL_BLOCK, 1, 1};
    return launched(
        gantry_launch_kernel(launch, part->rows_kernel, stencil_blocks(s, part->rows - 2), block, 0, args));
}

/* The tasks of a step, of one part. */
struct tasks {
    gantry_task *edges, *interior,
        *halo; /* `halo` is `edges` where these write the halos, and on one device */
};

/* What a task does with `count` rows, from `first` on. */
static gantry_access rows_of(const struct stencil_step *step, const float *from, uint32_t first,
                             uint32_t count, gantry_access_mode mode)
{
    const size_t columns = step->part->stencil->settings.columns;
    return (gantry_access){from + first * columns, count * columns * sizeof(float), 1, 0, mode, 0};
}

static gantry_access row_of(const struct stencil_step *step, const float *row, gantry_access_mode mode)
{
    return row != NULL ? rows_of(step, row, 0, 1, mode) : (gantry_access){.mode = mode};
}

/* The accesses are those of the task of an order from data. */
static gantry_status submit(struct stencil_step *step, const char *label, gantry_launch_fn launch,
                            const gantry_access *accesses, uint32_t count, gantry_task **out)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.accesses = accesses;
    desc.access_count = step->part->stencil->settings.from_data ? count : 0;
    desc.kind = GANTRY_TASK_KERNEL;
    desc.label = label;
    desc.launch = launch;
    desc.arg = step;
    desc.context = step->part->context;
    desc.is_stable = step->part->stencil->settings.submission != GANTRY_SUBMISSION_STREAMS; /* in every run */
    return gantry_taskman_submit(step->part->stencil->graph, &desc, out);
}

static gantry_status submit_tasks(struct stencil_step *step, struct tasks *out)
{
    const struct stencil *s = step->part->stencil;
    const uint32_t rows = step->part->rows;
    const bool is_fused = s->settings.is_fused;
    const gantry_access of_edges[] = {
        rows_of(step, step->from, 0, 3, GANTRY_ACCESS_READ),
        rows_of(step, step->from, rows - 1, 3, GANTRY_ACCESS_READ),
        rows_of(step, step->to, 1, 1, GANTRY_ACCESS_WRITE),
        rows_of(step, step->to, rows, 1, GANTRY_ACCESS_WRITE),
        row_of(step, is_fused ? halo_above(step) : NULL, GANTRY_ACCESS_WRITE),
        row_of(step, is_fused ? halo_below(step) : NULL, GANTRY_ACCESS_WRITE),
    };
    const gantry_access of_interior[] = {rows_of(step, step->from, 1, rows, GANTRY_ACCESS_READ),
                                         rows_of(step, step->to, 2, rows - 2, GANTRY_ACCESS_WRITE)};
    const gantry_access of_halo[] = {
        rows_of(step, step->to, 1, halo_above(step) != NULL, GANTRY_ACCESS_READ),
        rows_of(step, step->to, rows, halo_below(step) != NULL, GANTRY_ACCESS_READ),
        row_of(step, halo_above(step), GANTRY_ACCESS_WRITE),
        row_of(step, halo_below(step), GANTRY_ACCESS_WRITE),
    };
    gantry_status status = submit(step, "edges", launch_edges, of_edges, 6, &out->edges);
    status = status == GANTRY_OK ? submit(step, "interior", launch_interior, of_interior, 2, &out->interior)
                                 : status;
    if (status != GANTRY_OK) {
        return status;
    }
    out->halo = out->edges;
    if (!is_fused && s->count > 1) {
        status = submit(step, "halo", launch_halo, of_halo, 4, &out->halo);
        status = status == GANTRY_OK && !s->settings.from_data
                     ? gantry_task_start_after(out->halo, out->edges)
                     : status;
    }
    return status;
}

/* Part `i`'s tasks `now` come after those of the step before, of all parts. */
static gantry_status order(const struct stencil *s, uint32_t i, const struct tasks *now,
                           const struct tasks *before)
{
    gantry_status status = gantry_task_start_after(now->edges, before[i].edges);
    const struct {
        gantry_task *task, *after;
    } edges[] = {
        {now->edges, before[i].interior},
        {now->interior, before[i].edges},
        {now->interior, before[i].interior},
        {i > 0 ? now->edges : NULL, i > 0 ? before[i - 1].halo : NULL},
        {i + 1 < s->count ? now->edges : NULL, i + 1 < s->count ? before[i + 1].halo : NULL},
    };
    for (size_t e = 0; e < sizeof(edges) / sizeof(edges[0]) && status == GANTRY_OK; e++) {
        status = edges[e].task != NULL ? gantry_task_start_after(edges[e].task, edges[e].after) : GANTRY_OK;
    }
    return status;
}

/* A run ends when all devices have done its last step. */
static gantry_status submit_end(struct stencil *s, const struct tasks *last)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_task *end;
    desc.kind = GANTRY_TASK_SYNC_POINT;
    gantry_status status = gantry_taskman_submit(s->graph, &desc, &end);
    for (uint32_t i = 0; i < s->count && status == GANTRY_OK; i++) {
        status = gantry_task_start_after_done(end, last[i].halo);
        status = status == GANTRY_OK ? gantry_task_start_after_done(end, last[i].interior) : status;
    }
    return status;
}

bool stencil_submit_steps(struct stencil *s)
{
    struct tasks before[GANTRY_FLEET_DEVICES_MAX], now[GANTRY_FLEET_DEVICES_MAX];
    gantry_status status = GANTRY_OK;
    memset(before, 0, sizeof(before));
    for (uint32_t t = 0; t < s->settings.steps && status == GANTRY_OK; t++) {
        for (uint32_t i = 0; i < s->count && status == GANTRY_OK; i++) {
            status = submit_tasks(&s->parts[i].steps[t % 2], &now[i]);
            status = status == GANTRY_OK && t > 0 && !s->settings.from_data ? order(s, i, &now[i], before)
                                                                            : status;
        }
        memcpy(before, now, sizeof(before));
    }
    status = status == GANTRY_OK ? submit_end(s, before) : status;
    return stencil_ok(status == GANTRY_OK ? gantry_taskman_freeze(s->graph) : status, "the graph");
}
