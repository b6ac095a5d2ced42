/* SPDX-License-Identifier: MIT */
/* Each rank sends its number to the next one, by tasks: mpicc ring_mpi.c -lgantry && mpiexec -n 4 a.out */
#include <gantry/gantry.h>
#include <gantry/mpi.h>

static void must(gantry_status status)
{
    if (status != GANTRY_OK) {
        fprintf(stderr, "%s\n", gantry_last_error());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

int main(int argc, char **argv)
{
    int level, rank, size;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);

    gantry_mpi *mpi = NULL;
    gantry_taskman *graph = NULL;
    must(gantry_mpi_open(MPI_COMM_WORLD, NULL, &mpi));
    must(gantry_taskman_create(&(gantry_taskman_options)GANTRY_TASKMAN_OPTIONS_INIT, &graph));

    const int from = (rank + size - 1) % size;
    int got = -1;
    gantry_mpi_message in = GANTRY_MPI_MESSAGE_INIT, out = GANTRY_MPI_MESSAGE_INIT;
    in.data = &got;
    in.peer = from;
    out.data = &rank;
    out.peer = (rank + 1) % size;
    in.bytes = out.bytes = sizeof(int);
    must(gantry_mpi_receive(mpi, graph, &in, "from below", NULL));
    must(gantry_mpi_send(mpi, graph, &out, "to above", NULL));
    must(gantry_taskman_start(graph));
    must(gantry_taskman_stop(graph));
    if (rank == 0) {
        printf("rank 0 of %d has got %d from rank %d\n", size, got, from);
    }

    gantry_taskman_destroy(graph);
    must(gantry_mpi_close(mpi));
    MPI_Finalize();
    return 0;
}
