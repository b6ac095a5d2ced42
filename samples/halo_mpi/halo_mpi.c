/* SPDX-License-Identifier: MIT */
/* The grid of samples/stencil/ divided by rows between ranks, each with a context of its own.  A step has, on
 * each rank,
 *
 *   edges      compute the first row and the last one
 *   down       copy these two to page-locked memory
 *   send       send them to the ranks above and below, which receive them meanwhile
 *   up         copy what was received into the halo
 *   interior   compute all other rows, meanwhile
 *
 * and two steps, forth and back between two buffers, are a frozen graph that is run again and again.  In the
 * end each rank compares its rows, bit by bit, with the whole grid computed by the CPU.
 *
 *   mpiexec -n 4 halo_mpi [STEPS [ROWS [COLUMNS]]] */
#include "samples/halo_mpi/halo_mpi.h"

void halo_must(gantry_status status)
{
    if (status != GANTRY_OK) {
        fprintf(stderr, "halo_mpi: %s\n", gantry_last_error());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static uint32_t number(int argc, char **argv, int at, uint32_t otherwise, uint32_t least)
{
    const unsigned long value = argc > at ? strtoul(argv[at], NULL, 10) : otherwise;
    if (value < least || value > 1000000) {
        fprintf(stderr, "halo_mpi: '%s' is not within %u to 1000000\n", argc > at ? argv[at] : "the default",
                least);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    return (uint32_t)value;
}

static void open_rank(struct halo *halo)
{
    gantry_context_options context = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_taskman_options graph = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_port_options port = GANTRY_PORT_OPTIONS_INIT;
    gantry_module *module; /* lives as long as the context */
    port.timeout_ns = 60000000000;
    halo_must(gantry_mpi_open(MPI_COMM_WORLD, &port, &halo->mpi));
    halo_must(gantry_context_create(&context, &halo->context));
    graph.gpu_dispatcher = gantry_context_dispatcher(halo->context);
    halo_must(gantry_taskman_create(&graph, &halo->graph));
    halo_must(gantry_taskman_create(&graph, &halo->aside));
    halo_must(gantry_module_load(halo->context, &gantry_image_stencil_kernels, &module));
    halo_must(gantry_module_get_kernel(module, "stencil_rows", &halo->rows_kernel));
    halo_must(gantry_module_get_kernel(module, "stencil_edges", &halo->edges_kernel));
    halo_must(gantry_module_get_kernel(module, "stencil_fill", &halo->fill_kernel));
}

static float *take(const struct halo *halo, gantry_memory_kind kind, size_t rows)
{
    void *memory = NULL;
    halo_must(gantry_heap_alloc(gantry_context_heap(halo->context), kind,
                                rows * halo->columns * sizeof(float), 0, GANTRY_ALLOC_SITE("halo_mpi"),
                                &memory));
    return memory;
}

static void take_memory(struct halo *halo)
{
    for (int i = 0; i < 2; i++) {
        halo->buffers[i] = take(halo, GANTRY_MEMORY_DEVICE, halo->rows + 2);
        halo->edges_out[i] = take(halo, GANTRY_MEMORY_PINNED, 1);
        halo->halo_in[i] = take(halo, GANTRY_MEMORY_PINNED, 1);
    }
    halo->host = take(halo, GANTRY_MEMORY_PINNED, halo->rows);
}

/* A task of its own, before or after the steps; until the device has done it. */
static void run_aside(struct halo *halo, gantry_task_kind kind, gantry_launch_fn launch, const char *label)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT, last = GANTRY_TASK_DESC_INIT;
    gantry_task *task = NULL, *end = NULL;
    desc.kind = kind;
    desc.label = label;
    desc.launch = launch;
    desc.arg = halo;
    last.kind = GANTRY_TASK_SYNC_POINT;
    halo_must(gantry_taskman_submit(halo->aside, &desc, &task));
    halo_must(gantry_taskman_submit(halo->aside, &last, &end));
    halo_must(gantry_task_start_after_done(end, task));
    halo_must(gantry_taskman_start(halo->aside));
    halo_must(gantry_taskman_stop(halo->aside));
    halo_must(gantry_taskman_reset(halo->aside));
}

static gantry_launch_result launch_fill(gantry_launch *launch, void *arg)
{
    struct halo *halo = arg;
    void *args[] = {&halo->buffers[0], &halo->buffers[1], &halo->columns, &halo->first, &halo->grid_rows};
    return halo_launched(gantry_launch_kernel(launch, halo->fill_kernel, halo_blocks(halo, halo->rows + 2),
                                              (gantry_dim3){HALO_BLOCK, 1, 1}, 0, args));
}

static gantry_launch_result launch_fetch(gantry_launch *launch, void *arg)
{
    const struct halo *halo = arg;
    return halo_launched(gantry_launch_copy_dtoh(launch, halo->host, halo->buffers[0] + halo->columns,
                                                 (size_t)halo->rows * halo->columns * sizeof(float)));
}

/* The grid after `steps` steps, as stencil_mean() computes it; row 0 is above it. */
static float *compute_grid(uint32_t rows, uint32_t columns, uint32_t steps)
{
    const size_t cells = ((size_t)rows + 2) * columns;
    float *from = calloc(cells, sizeof(float)), *to = calloc(cells, sizeof(float));
    if (from == NULL || to == NULL) {
        MPI_Abort(MPI_COMM_WORLD, 1);
        abort();
    }
    for (size_t i = 0; i < (size_t)rows * columns; i++) {
        from[i + columns] = stencil_value((uint32_t)(i / columns), (uint32_t)(i % columns));
    }
    for (uint32_t step = 0; step < steps; step++) {
        for (size_t i = columns; i < (size_t)(rows + 1) * columns; i++) {
            const float west = i % columns > 0 ? from[i - 1] : 0.0f;
            const float east = (i + 1) % columns > 0 ? from[i + 1] : 0.0f;
            const float up_down = from[i - columns] + from[i + columns], sideways = west + east;
            to[i] = 0.25f * (up_down + sideways);
        }
        float *other = from;
        from = to;
        to = other;
    }
    free(to);
    return from;
}

/* How many cells of this rank are not what the CPU says, bit by bit. */
static int count_wrong(const struct halo *halo, uint32_t steps)
{
    float *grid = compute_grid(halo->grid_rows, halo->columns, steps);
    const float *ours = grid + (size_t)(halo->first + 1) * halo->columns;
    int wrong = 0;
    for (size_t i = 0; i < (size_t)halo->rows * halo->columns; i++) {
        wrong += memcmp(&ours[i], &halo->host[i], sizeof(float)) != 0;
    }
    free(grid);
    return wrong;
}

static void close_rank(struct halo *halo)
{
    gantry_heap *heap = gantry_context_heap(halo->context);
    gantry_taskman_destroy(halo->graph);
    gantry_taskman_destroy(halo->aside);
    for (int i = 0; i < 2; i++) {
        gantry_heap_free(heap, halo->buffers[i]);
        gantry_heap_free(heap, halo->edges_out[i]);
        gantry_heap_free(heap, halo->halo_in[i]);
    }
    gantry_heap_free(heap, halo->host);
    gantry_context_destroy(halo->context);
    halo_must(gantry_mpi_close(halo->mpi));
}

int main(int argc, char **argv)
{
    struct halo halo = {.rank = 0};
    int level = 0, wrong = 0, all_wrong = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &halo.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &halo.size);
    const uint32_t ranks = (uint32_t)halo.size, rank = (uint32_t)halo.rank;
    const uint32_t steps = 2 * ((number(argc, argv, 1, 100, 1) + 1) / 2); /* forth and back */
    halo.grid_rows = number(argc, argv, 2, 64 * ranks, HALO_LEAST_ROWS * ranks);
    halo.columns = number(argc, argv, 3, 256, 1);
    halo.rows = halo.grid_rows / ranks + (rank < halo.grid_rows % ranks);
    halo.first =
        halo.grid_rows / ranks * rank + (rank < halo.grid_rows % ranks ? rank : halo.grid_rows % ranks);
    open_rank(&halo);
    take_memory(&halo);
    halo_submit_steps(&halo);
    run_aside(&halo, GANTRY_TASK_KERNEL, launch_fill, "fill");
    halo_must(gantry_taskman_run(halo.graph, steps / 2));
    run_aside(&halo, GANTRY_TASK_DTOH, launch_fetch, "fetch");
    wrong = count_wrong(&halo, steps);
    close_rank(&halo);
    MPI_Allreduce(&wrong, &all_wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (halo.rank == 0) {
        printf("halo_mpi: %d ranks, %u x %u cells, %u steps: %s\n", halo.size, halo.grid_rows, halo.columns,
               steps, all_wrong == 0 ? "every bit as the CPU has it" : "WRONG");
    }
    MPI_Finalize();
    return all_wrong == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
