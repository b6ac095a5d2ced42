/* SPDX-License-Identifier: MIT */
/* Messages that fail, are given up, or cannot be. */
#include "tests/mpi/ranks.h"

#include <sys/wait.h>
#include <unistd.h>

static const uint64_t minute_ns = 60000000000;

static gantry_mpi_message message_of(const struct rank *rank, void *data, size_t bytes, int tag)
{
    gantry_mpi_message message = GANTRY_MPI_MESSAGE_INIT;
    message.data = data;
    message.bytes = bytes;
    message.peer = rank->peer;
    message.tag = tag;
    return message;
}

static void send_now(struct rank *rank, void *data, size_t bytes, int tag)
{
    gantry_mpi_message message = message_of(rank, data, bytes, tag);
    CHECK_OK(gantry_mpi_send(rank->mpi, rank->graph, &message, "send now", NULL));
    CHECK_OK(gantry_taskman_start(rank->graph));
    CHECK_OK(gantry_taskman_stop(rank->graph));
    CHECK_OK(gantry_taskman_reset(rank->graph));
}

static void has_words(const char *text, const char *const *words)
{
    for (; *words != NULL; words++) {
        if (strstr(text, *words) == NULL) {
            fprintf(stderr, "no '%s' in: %s\n", *words, text);
            CHECK(false);
        }
    }
}

/* Also one whose description has a type of its own; what comes behind it does not run. */
void a_long_message_fails_its_receive(void)
{
    static char in[8000], out[8000]; /* Open MPI writes a long message whole, behind its room */
    struct rank rank = begin_rank(minute_ns, 0);
    for (int i = 0; i < 2; i++) {
        gantry_task *receive = NULL, *behind = NULL;
        const size_t room = i == 0 ? 8 : 2000;
        gantry_mpi_message message = message_of(&rank, in, room, 5), next = message_of(&rank, in, 8, 6);
        gantry_mpi_message send = message_of(&rank, out, i == 0 ? 16 : sizeof(out), 5);
        char peer[32];
        CHECK_OK(gantry_mpi_receive(rank.mpi, rank.graph, &message, "too little", &receive));
        CHECK_OK(gantry_mpi_receive(rank.mpi, rank.graph, &next, "behind", &behind));
        CHECK_OK(gantry_mpi_send(rank.mpi, rank.graph, &send, "send", NULL));
        CHECK_OK(gantry_task_start_after(behind, receive));
        CHECK_OK(gantry_taskman_start(rank.graph));
        CHECK(gantry_taskman_stop(rank.graph) == GANTRY_ERR_TASK_FAILED);
        (void)snprintf(peer, sizeof(peer), "from rank %d, tag 5", rank.peer);
        has_words(gantry_last_error(),
                  (const char *[]){"'too little'", peer, "the message is longer",
                                   i == 0 ? "receive of 8 bytes" : "of 2000 bytes", NULL});
        CHECK(gantry_task_result(receive) == GANTRY_ERR_TASK_FAILED);
        CHECK(gantry_task_result(behind) == GANTRY_ERR_TASK_FAILED);
        CHECK_OK(gantry_taskman_reset(rank.graph));
        MPI_Barrier(MPI_COMM_WORLD);
    }
    end_rank(&rank);
}

void errors_of_mpi_fail_tasks(void)
{
    struct rank rank = begin_rank(minute_ns, 0);
    int value = 1;
    gantry_mpi_message send = message_of(&rank, &value, sizeof(value), 1);
    MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler);
    CHECK(handler == MPI_ERRORS_RETURN);
    atomic_store(&refuses_sends, 1);
    CHECK_OK(gantry_mpi_send(rank.mpi, rank.graph, &send, "refused", NULL));
    CHECK_OK(gantry_taskman_start(rank.graph));
    CHECK(gantry_taskman_stop(rank.graph) == GANTRY_ERR_TASK_FAILED);
    has_words(gantry_last_error(), (const char *[]){"'refused'", "send of 4 bytes to rank", "tag 1", NULL});
    atomic_store(&refuses_sends, 0);
    CHECK_OK(gantry_taskman_reset(rank.graph));
    end_rank(&rank);
}

static void await_state(const gantry_task *task, gantry_task_state state)
{
    while (gantry_task_get_state(task) != state) {
        usleep(100);
    }
}

/* Nobody sends.  What is sent later on that tag goes to the next receive. */
void cancel_takes_receives_back(void)
{
    struct rank rank = begin_rank(0, minute_ns);
    int value = 0, other = 42 + rank.number;
    gantry_mpi_message message = message_of(&rank, &value, sizeof(value), 4);
    gantry_task *task = NULL;
    CHECK_OK(gantry_mpi_receive(rank.mpi, rank.graph, &message, "in vain", &task));
    CHECK_OK(gantry_taskman_start(rank.graph));
    await_state(task, GANTRY_TASK_STATE_AWAITED);
    CHECK_OK(gantry_taskman_cancel(rank.graph));
    CHECK(gantry_taskman_stop(rank.graph) == GANTRY_ERR_CANCELLED);
    has_words(gantry_last_error(), (const char *[]){"'in vain'", "given up, nothing has come", NULL});
    CHECK_OK(gantry_taskman_reset(rank.graph));
    MPI_Barrier(MPI_COMM_WORLD);
    send_now(&rank, &other, sizeof(other), 4);
    CHECK_OK(gantry_mpi_receive(rank.mpi, rank.graph, &message, "again", NULL));
    CHECK_OK(gantry_taskman_start(rank.graph));
    CHECK_OK(gantry_taskman_stop(rank.graph));
    CHECK(value == 42 + rank.peer);
    end_rank(&rank);
}

void time_outs_name_the_peer(void)
{
    struct rank rank = begin_rank(1000000, minute_ns);
    int value = 0;
    char peer[32];
    gantry_mpi_message message = message_of(&rank, &value, sizeof(value), 4);
    CHECK_OK(gantry_mpi_receive(rank.mpi, rank.graph, &message, "silent", NULL));
    CHECK_OK(gantry_taskman_start(rank.graph));
    CHECK(gantry_taskman_stop(rank.graph) == GANTRY_ERR_TIMED_OUT);
    (void)snprintf(peer, sizeof(peer), "from rank %d, tag 4", rank.peer);
    has_words(gantry_last_error(), (const char *[]){"'silent'", peer, "given up, nothing has come", NULL});
    end_rank(&rank);
}

void closing_is_refused_while_messages_are_under_way(void)
{
    struct rank rank = begin_rank(0, minute_ns);
    int value = 0;
    gantry_mpi_message message = message_of(&rank, &value, sizeof(value), 4);
    gantry_task *task = NULL;
    CHECK_OK(gantry_mpi_receive(rank.mpi, rank.graph, &message, "still there", &task));
    CHECK_OK(gantry_taskman_start(rank.graph));
    await_state(task, GANTRY_TASK_STATE_AWAITED);
    CHECK_ERROR(gantry_mpi_close(rank.mpi), GANTRY_ERR_STATE, "'still there'");
    CHECK_OK(gantry_taskman_cancel(rank.graph));
    CHECK(gantry_taskman_stop(rank.graph) == GANTRY_ERR_CANCELLED);
    end_rank(&rank);
}

static void refuse(struct rank *rank, gantry_mpi_message message, const char *text)
{
    gantry_task *task = NULL;
    CHECK_ERROR(gantry_mpi_receive(rank->mpi, rank->graph, &message, "bad", &task),
                GANTRY_ERR_INVALID_ARGUMENT, text);
    CHECK(task == NULL);
}

void bad_arguments_are_refused(void)
{
    struct rank rank = begin_rank(0, 0);
    int value = 0;
    gantry_mpi_message message = message_of(&rank, &value, sizeof(value), 4), other = message;
    gantry_mpi *none = NULL;
    other.peer = rank.size;
    refuse(&rank, other, "is not within 0 to");
    other.peer = -1000;
    refuse(&rank, other, "rank -1000 is not within 0 to");
    other.peer = MPI_ANY_SOURCE;
    refuse(&rank, other, "MPI_ANY_SOURCE is not possible");
    other = message;
    other.tag = MPI_ANY_TAG;
    refuse(&rank, other, "MPI_ANY_TAG is not possible");
    other.tag = 8;
    refuse(&rank, other, "tag 8 is not within 0 to 7");
    other = message;
    other.data = NULL;
    refuse(&rank, other, "`data` is NULL");
    CHECK(gantry_mpi_send(NULL, rank.graph, &message, "bad", NULL) == GANTRY_ERR_INVALID_ARGUMENT);
    CHECK(gantry_mpi_send(rank.mpi, rank.graph, NULL, "bad", NULL) == GANTRY_ERR_INVALID_ARGUMENT);
    CHECK(gantry_mpi_send(rank.mpi, NULL, &message, "bad", NULL) == GANTRY_ERR_INVALID_ARGUMENT);
    CHECK_ERROR(gantry_mpi_begin(rank.mpi, rank.graph, &message, "bad", NULL), GANTRY_ERR_INVALID_ARGUMENT,
                "`call` is NULL");
    CHECK_ERROR(gantry_mpi_open(MPI_COMM_NULL, NULL, &none), GANTRY_ERR_INVALID_ARGUMENT, "MPI_COMM_NULL");
    CHECK_ERROR(gantry_mpi_open(MPI_COMM_WORLD, NULL, NULL), GANTRY_ERR_INVALID_ARGUMENT, "`out` is NULL");
    CHECK_OK(gantry_mpi_close(NULL));
    end_rank(&rank);
}

void a_fork_leaves_it_behind(void)
{
    struct rank rank = begin_rank(0, 0);
    int value = 0, status = -1;
    gantry_mpi_message message = message_of(&rank, &value, sizeof(value), 4);
    const pid_t child = fork();
    if (child == 0) {
        const bool is_refused =
            gantry_mpi_send(rank.mpi, rank.graph, &message, "child", NULL) == GANTRY_ERR_STATE &&
            strstr(gantry_last_error(), "before the fork") != NULL &&
            gantry_mpi_close(rank.mpi) == GANTRY_ERR_STATE &&
            strstr(gantry_last_error(), "before the fork") != NULL;
        _exit(is_refused ? 0 : 1);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    end_rank(&rank);
}

/* MPI_Cancel() does nothing here; the message comes when nobody waits for it any more, and is written. */
void what_is_not_given_back_is_named(void)
{
    static volatile int late; /* MPI writes it when it likes */
    int number = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &number);
    struct rank rank = number % 2 == 1 ? begin_rank(minute_ns, 0) : begin_rank(1, 1);
    int value = 77, is_there = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank.number % 2 == 1) {
        MPI_Recv(&is_there, 1, MPI_INT, rank.peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        send_now(&rank, &value, sizeof(value), 2);
        end_rank(&rank);
        return;
    }
    gantry_mpi_message message = message_of(&rank, (void *)(uintptr_t)&late, sizeof(late), 2);
    atomic_store(&keeps_receives, 1);
    CHECK_OK(gantry_mpi_receive(rank.mpi, rank.graph, &message, "kept", NULL));
    CHECK_OK(gantry_taskman_start(rank.graph));
    CHECK_ERROR(gantry_taskman_stop(rank.graph), GANTRY_ERR_TIMED_OUT, "its memory may still be written");
    gantry_taskman_destroy(rank.graph);
    gantry_cpu_dispatcher_destroy(rank.pool);
    CHECK_ERROR(gantry_mpi_close(rank.mpi), GANTRY_ERR_TIMED_OUT, "has not given 1 back");
    CHECK(strstr(gantry_last_error(), "'kept'") != NULL);
    atomic_store(&keeps_receives, 0);
    MPI_Send(&value, 1, MPI_INT, rank.peer, 0, MPI_COMM_WORLD);
    while (late != 77) {
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &is_there, MPI_STATUS_IGNORE);
        usleep(100);
    }
}
