/* SPDX-License-Identifier: MIT */
/* Messages as tasks beside the same messages by bare MPI: mpiexec -n 2 bench_mpi.mpich [REPETITIONS]
 *
 *   8 B, 1 MiB   to and fro, one after the other; us of a message, and the ratio
 *   halo         2 sends and 2 receives of 1 KiB beside 20 us of work; us of a step, and the ratio
 *
 * Both take turns, in one run; best and median of the repetitions (15).  Times mean something where each rank
 * has a CPU for its port, one for its worker and one for its own thread. */
#include <gantry/gantry.h>
#include <gantry/mpi.h>

#include <time.h>

enum {
    ROUNDS = 200,
    MOST_TASKS = 5 * ROUNDS,
    MOST_REPETITIONS = 1000,
    MEBIBYTE = 1 << 20,
    HALO_BYTES = 1024
};

/* One kind of exchange between two ranks. */
struct scene {
    const char *name;
    size_t bytes;
    int is_halo;
};

static const struct scene scenes[] = {
    {"8 B", 8, 0}, {"1 MiB", MEBIBYTE, 0}, {"halo 4 x 1 KiB + 20 us", HALO_BYTES, 1}};
static char memory[4][MEBIBYTE]; /* two to send, two to receive */
static gantry_mpi_message messages[MOST_TASKS];
static int rank, peer;

static void must(gantry_status status)
{
    if (status != GANTRY_OK) {
        fprintf(stderr, "bench_mpi: %s\n", gantry_last_error());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static double now_us(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

static void work(void)
{
    for (const double end = now_us() + 20; now_us() < end;) {
    }
}

static gantry_status work_body(gantry_task *task, void *unused)
{
    (void)task;
    (void)unused;
    work();
    return GANTRY_OK;
}

static void halo_by_hand(int bytes)
{
    MPI_Request requests[4]; /* two to receive, two to send */
    MPI_Status statuses[4];  /* MPI_STATUSES_IGNORE is an address that gcc 12 warns of */
    for (int i = 0; i < 2; i++) {
        MPI_Irecv(memory[2 + i], bytes, MPI_BYTE, peer, i, MPI_COMM_WORLD, &requests[i]);
    }
    for (int i = 0; i < 2; i++) {
        MPI_Isend(memory[i], bytes, MPI_BYTE, peer, i, MPI_COMM_WORLD, &requests[2 + i]);
    }
    work();
    MPI_Waitall(4, requests, statuses);
}

static double bare(const struct scene *scene)
{
    const int bytes = (int)scene->bytes;
    const double begun = now_us();
    for (int round = 0; round < ROUNDS; round++) {
        if (scene->is_halo) {
            halo_by_hand(bytes);
        } else {
            for (int way = 0; way < 2; way++) {
                if (way == rank) {
                    MPI_Send(memory[0], bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
                } else {
                    MPI_Recv(memory[2], bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                }
            }
        }
    }
    return (now_us() - begun) / (scene->is_halo ? ROUNDS : 2 * ROUNDS);
}

/* One more message, into `memory[which]` or out of it. */
static gantry_task *add(gantry_mpi *mpi, gantry_taskman *graph, const struct scene *scene, int number,
                        int which)
{
    gantry_mpi_message *message = &messages[number];
    gantry_task *task = NULL;
    *message = (gantry_mpi_message)GANTRY_MPI_MESSAGE_INIT;
    message->data = memory[which];
    message->bytes = scene->bytes;
    message->peer = peer;
    must(which < 2 ? gantry_mpi_send(mpi, graph, message, "send", &task)
                   : gantry_mpi_receive(mpi, graph, message, "receive", &task));
    return task;
}

static void submit(gantry_mpi *mpi, gantry_taskman *graph, const struct scene *scene)
{
    gantry_task *before[5] = {NULL}, *now[5];
    int count = 0, number = 0;
    for (int round = 0; round < (scene->is_halo ? ROUNDS : 2 * ROUNDS); round++) {
        int added = 0;
        if (scene->is_halo) {
            gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
            desc.run = work_body;
            for (int which = 3; which >= 0; which--) {
                now[added++] = add(mpi, graph, scene, number++, which);
            }
            must(gantry_taskman_submit(graph, &desc, &now[added++]));
        } else {
            now[added++] = add(mpi, graph, scene, number++, round % 2 == rank ? 0 : 2);
        }
        for (int i = 0; i < added; i++) {
            for (int k = 0; k < count; k++) {
                must(gantry_task_start_after(now[i], before[k]));
            }
        }
        memcpy(before, now, sizeof(before));
        count = added;
    }
    must(gantry_taskman_freeze(graph));
}

static double as_tasks(const struct scene *scene)
{
    gantry_cpu_dispatcher_options workers = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_mpi *mpi = NULL;
    gantry_taskman *graph = NULL;
    workers.worker_count = 1;
    must(gantry_mpi_open(MPI_COMM_WORLD, NULL, &mpi));
    must(gantry_cpu_dispatcher_create(&workers, &options.cpu_dispatcher));
    must(gantry_taskman_create(&options, &graph));
    submit(mpi, graph, scene);
    must(gantry_taskman_run(graph, 1)); /* so that both ranks are here */
    const double begun = now_us();
    must(gantry_taskman_run(graph, 1));
    const double time = (now_us() - begun) / (scene->is_halo ? ROUNDS : 2 * ROUNDS);
    gantry_taskman_destroy(graph);
    gantry_cpu_dispatcher_destroy(options.cpu_dispatcher);
    must(gantry_mpi_close(mpi));
    return time;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(const struct scene *scene, int repetitions)
{
    static double times[2][MOST_REPETITIONS];
    for (int i = 0; i < repetitions; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        times[0][i] = bare(scene);
        MPI_Barrier(MPI_COMM_WORLD);
        times[1][i] = as_tasks(scene);
    }
    for (int i = 0; i < 2; i++) {
        qsort(times[i], (size_t)repetitions, sizeof(double), compare);
    }
    if (rank == 0) {
        const double best[] = {times[0][0], times[1][0]};
        const double median[] = {times[0][repetitions / 2], times[1][repetitions / 2]};
        printf("%-24s best %.2f us bare, %.2f as tasks, %+.2f, %.3f; median %.2f, %.2f, %+.2f, %.3f\n",
               scene->name, best[0], best[1], best[1] - best[0], best[1] / best[0], median[0], median[1],
               median[1] - median[0], median[1] / median[0]);
    }
}

int main(int argc, char **argv)
{
    int level = 0, size = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int repetitions = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 15;
    if (size != 2 || repetitions < 1 || repetitions > MOST_REPETITIONS) {
        fprintf(stderr, "bench_mpi: 2 ranks, and 1 to %d repetitions\n", MOST_REPETITIONS);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    peer = 1 - rank;
    for (size_t i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++) {
        measure(&scenes[i], repetitions);
    }
    MPI_Finalize();
    return EXIT_SUCCESS;
}
