/* SPDX-License-Identifier: MIT */
/* A rank of the tests of <gantry/mpi.h>: mpiexec -n 2 ranks [level].  All ranks do the same scenes, in pairs.
 * With `level` MPI may be called by one thread alone. */
#include "tests/mpi/ranks.h"

atomic_int sends, receives, sent_before_a_receive, lowest_tag, highest_tag, refuses_sends, keeps_receives;

int MPI_Isend(const void *data, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    atomic_fetch_add(&sends, 1);
    if (tag < atomic_load(&lowest_tag)) {
        atomic_store(&lowest_tag, tag);
    }
    if (tag > atomic_load(&highest_tag)) {
        atomic_store(&highest_tag, tag);
    }
    return atomic_load(&refuses_sends) ? MPI_ERR_BUFFER
                                       : PMPI_Isend(data, count, type, peer, tag, comm, request);
}

int MPI_Irecv(void *data, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    atomic_fetch_add(&receives, 1);
    atomic_store(&sent_before_a_receive, atomic_load(&sends));
    return PMPI_Irecv(data, count, type, peer, tag, comm, request);
}

int MPI_Cancel(MPI_Request *request)
{
    return atomic_load(&keeps_receives) ? MPI_SUCCESS : PMPI_Cancel(request);
}

struct rank begin_rank(uint64_t timeout_ns, uint64_t grace_ns)
{
    struct rank rank = {.number = 0};
    gantry_port_options options = GANTRY_PORT_OPTIONS_INIT;
    gantry_cpu_dispatcher_options workers = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    gantry_taskman_options graph = GANTRY_TASKMAN_OPTIONS_INIT;
    options.timeout_ns = timeout_ns;
    options.grace_ns = grace_ns;
    workers.worker_count = 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank.number);
    MPI_Comm_size(MPI_COMM_WORLD, &rank.size);
    rank.peer = rank.number ^ 1;
    CHECK_OK(gantry_mpi_open(MPI_COMM_WORLD, &options, &rank.mpi));
    CHECK_OK(gantry_cpu_dispatcher_create(&workers, &rank.pool));
    graph.cpu_dispatcher = rank.pool;
    CHECK_OK(gantry_taskman_create(&graph, &rank.graph));
    return rank;
}

void end_rank(struct rank *rank)
{
    gantry_taskman_destroy(rank->graph);
    gantry_cpu_dispatcher_destroy(rank->pool);
    CHECK_OK(gantry_mpi_close(rank->mpi));
}

static void handlers_are_put_back(MPI_Errhandler expected)
{
    MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler);
    CHECK(handler == expected);
}

static const struct {
    const char *name;
    void (*run)(void);
} scenes[] = {
#define SCENE(name) \
    {               \
#name, name \
    }
    SCENE(messages_arrive),
    SCENE(long_messages_arrive),
    SCENE(counted_tags_wrap),
    SCENE(receives_come_first),
    SCENE(operations_of_all_ranks),
    SCENE(nowhere_is_a_peer),
    SCENE(managers_share_a_communicator),
    SCENE(a_long_message_fails_its_receive),
    SCENE(errors_of_mpi_fail_tasks),
    SCENE(cancel_takes_receives_back),
    SCENE(time_outs_name_the_peer),
    SCENE(closing_is_refused_while_messages_are_under_way),
    SCENE(bad_arguments_are_refused),
    SCENE(a_fork_leaves_it_behind),
    SCENE(what_is_not_given_back_is_named),
};

static void open_too_low(void)
{
    gantry_mpi *mpi = NULL;
    CHECK_ERROR(gantry_mpi_open(MPI_COMM_WORLD, NULL, &mpi), GANTRY_ERR_UNSUPPORTED,
                "MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided)");
    CHECK(mpi == NULL);
    handlers_are_put_back(MPI_ERRORS_ARE_FATAL);
}

int main(int argc, char **argv)
{
    const bool is_low = argc > 1 && strcmp(argv[1], "level") == 0;
    int level = 0, rank = 0;
    gantry_mpi *mpi = NULL;
    CHECK_ERROR(gantry_mpi_open(MPI_COMM_WORLD, NULL, &mpi), GANTRY_ERR_STATE,
                "call MPI_Init_thread() first");
    MPI_Init_thread(NULL, NULL, is_low ? MPI_THREAD_FUNNELED : MPI_THREAD_SERIALIZED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (is_low && level < MPI_THREAD_SERIALIZED) {
        open_too_low();
    }
    for (size_t i = 0; i < sizeof(scenes) / sizeof(scenes[0]) && !is_low; i++) {
        atomic_store(&lowest_tag, INT_MAX);
        atomic_store(&highest_tag, 0);
        if (rank == 0) {
            printf("%s\n", scenes[i].name);
            fflush(stdout);
        }
        scenes[i].run();
        handlers_are_put_back(MPI_ERRORS_ARE_FATAL);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Finalize();
    CHECK_ERROR(gantry_mpi_open(MPI_COMM_WORLD, NULL, &mpi), GANTRY_ERR_STATE, "MPI was finalized");
    if (rank == 0) {
        printf("done\n");
    }
    return EXIT_SUCCESS;
}
