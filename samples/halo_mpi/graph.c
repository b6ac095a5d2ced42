/* SPDX-License-Identifier: MIT */
/* Two steps of a rank as tasks.  On the edge of the grid the messages go nowhere (MPI_PROC_NULL), and the halo
 * there stays 0.
 *
 *   interior ───────────────────────────────► interior
 *      ╲╱
 *      ╱╲
 *   edges ──► down ──► send                 ► edges
 *                 receive ──► up ──────────╱
 */
#include "samples/halo_mpi/halo_mpi.h"

enum { ABOVE, BELOW };

/* The tasks of a step. */
struct tasks {
    gantry_task *edges, *interior, *down, *up, *send[2], *receive[2];
};

static gantry_launch_result launch_edges(gantry_launch *launch, void *arg)
{
    struct halo_step *step = arg;
    struct halo *halo = step->halo;
    float *none = NULL;
    void *args[] = {&step->from, &step->to, &halo->columns, &halo->rows, &none, &none};
    return halo_launched(gantry_launch_kernel(launch, halo->edges_kernel, halo_blocks(halo, 2),
                                              (gantry_dim3){HALO_BLOCK, 1, 1}, 0, args));
}

static gantry_launch_result launch_interior(gantry_launch *launch, void *arg)
{
    struct halo_step *step = arg;
    struct halo *halo = step->halo;
    uint32_t second = 2;
    void *args[] = {&step->from, &step->to, &halo->columns, &second};
    return halo_launched(gantry_launch_kernel(launch, halo->rows_kernel, halo_blocks(halo, halo->rows - 2),
                                              (gantry_dim3){HALO_BLOCK, 1, 1}, 0, args));
}

static gantry_launch_result launch_down(gantry_launch *launch, void *arg)
{
    const struct halo_step *step = arg;
    const struct halo *halo = step->halo;
    const size_t columns = halo->columns, bytes = columns * sizeof(float);
    const gantry_status status =
        gantry_launch_copy_dtoh(launch, halo->edges_out[ABOVE], step->to + columns, bytes);
    return halo_launched(status != GANTRY_OK
                             ? status
                             : gantry_launch_copy_dtoh(launch, halo->edges_out[BELOW],
                                                       step->to + halo->rows * columns, bytes));
}

static gantry_launch_result launch_up(gantry_launch *launch, void *arg)
{
    const struct halo_step *step = arg;
    const struct halo *halo = step->halo;
    const size_t columns = halo->columns, bytes = columns * sizeof(float);
    gantry_status status = GANTRY_OK;
    if (halo->rank > 0) {
        status = gantry_launch_copy_htod(launch, step->to, halo->halo_in[ABOVE], bytes);
    }
    if (halo->rank + 1 < halo->size && status == GANTRY_OK) {
        status = gantry_launch_copy_htod(launch, step->to + (halo->rows + 1) * columns, halo->halo_in[BELOW],
                                         bytes);
    }
    return halo_launched(status);
}

static gantry_task *submit(struct halo_step *step, gantry_task_kind kind, const char *label,
                           gantry_launch_fn launch)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_task *task = NULL;
    desc.kind = kind;
    desc.label = label;
    desc.launch = launch;
    desc.arg = step;
    desc.is_stable = true; /* the same in every run */
    halo_must(gantry_taskman_submit(step->halo->graph, &desc, &task));
    return task;
}

static void submit_messages(struct halo_step *step, struct tasks *out)
{
    static const char *const send_labels[] = {"send above", "send below"};
    static const char *const receive_labels[] = {"receive from above", "receive from below"};
    struct halo *halo = step->halo;
    for (int side = ABOVE; side <= BELOW; side++) {
        const int peer = halo->rank + (side == ABOVE ? -1 : 1);
        const gantry_mpi_message none = GANTRY_MPI_MESSAGE_INIT;
        step->send[side] = none;
        step->send[side].data = halo->edges_out[side];
        step->send[side].bytes = halo->columns * sizeof(float);
        step->send[side].peer = peer >= 0 && peer < halo->size ? peer : MPI_PROC_NULL;
        step->receive[side] = step->send[side];
        step->receive[side].data = halo->halo_in[side];
        halo_must(
            gantry_mpi_send(halo->mpi, halo->graph, &step->send[side], send_labels[side], &out->send[side]));
        halo_must(gantry_mpi_receive(halo->mpi, halo->graph, &step->receive[side], receive_labels[side],
                                     &out->receive[side]));
    }
}

/* Within a step. */
static void submit_step(struct halo_step *step, struct tasks *out)
{
    out->edges = submit(step, GANTRY_TASK_KERNEL, "edges", launch_edges);
    out->interior = submit(step, GANTRY_TASK_KERNEL, "interior", launch_interior);
    out->down = submit(step, GANTRY_TASK_DTOH, "down", launch_down);
    out->up = submit(step, GANTRY_TASK_HTOD, "up", launch_up);
    submit_messages(step, out);
    halo_must(gantry_task_start_after(out->down, out->edges));
    halo_must(gantry_task_start_after(out->up, out->edges)); /* and so behind who read that halo before */
    for (int side = ABOVE; side <= BELOW; side++) {
        halo_must(gantry_task_start_after_done(out->send[side], out->down));
        halo_must(gantry_task_start_after(out->up, out->receive[side]));
    }
}

/* The second step comes after the first one. */
static void order(const struct tasks *now, const struct tasks *before)
{
    halo_must(gantry_task_start_after(now->edges, before->edges));
    halo_must(gantry_task_start_after(now->edges, before->interior));
    halo_must(gantry_task_start_after(now->edges, before->up));
    halo_must(gantry_task_start_after(now->interior, before->edges));
    halo_must(gantry_task_start_after(now->interior, before->interior));
    for (int side = ABOVE; side <= BELOW; side++) {
        halo_must(gantry_task_start_after(now->down, before->send[side])); /* it was read */
        halo_must(gantry_task_start_after_done(now->receive[side], before->up));
    }
}

void halo_submit_steps(struct halo *halo)
{
    struct tasks tasks[2];
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_task *end = NULL;
    for (int i = 0; i < 2; i++) {
        halo->steps[i].halo = halo;
        halo->steps[i].from = halo->buffers[i];
        halo->steps[i].to = halo->buffers[1 - i];
        submit_step(&halo->steps[i], &tasks[i]);
    }
    order(&tasks[1], &tasks[0]);
    desc.kind = GANTRY_TASK_SYNC_POINT; /* before the next run receives, the device has what came */
    halo_must(gantry_taskman_submit(halo->graph, &desc, &end));
    halo_must(gantry_task_start_after_done(end, tasks[1].up));
    halo_must(gantry_taskman_freeze(halo->graph));
}
