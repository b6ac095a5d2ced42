/* SPDX-License-Identifier: MIT */
/* Messages that arrive, and other operations. */
#include "tests/mpi/ranks.h"

#include <pthread.h>

enum { MESSAGES = 40, LONG_BYTES = 300001 };

static const uint64_t minute_ns = 60000000000;

struct mail {
    gantry_mpi_message send, receive;
    int sent, got;
};

static gantry_status fill_body(gantry_task *task, void *arg)
{
    struct mail *mail = arg;
    (void)task;
    mail->sent++;
    mail->got = -1;
    return GANTRY_OK;
}

static gantry_status look_body(gantry_task *task, void *arg)
{
    const struct mail *mail = arg;
    (void)task;
    return mail->got == mail->sent && mail->receive.received == sizeof(int) ? GANTRY_OK
                                                                            : GANTRY_ERR_TASK_FAILED;
}

static gantry_task *add(gantry_taskman *graph, const char *label, gantry_task_fn run, void *arg)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_task *task = NULL;
    desc.label = label;
    desc.run = run;
    desc.arg = arg;
    CHECK_OK(gantry_taskman_submit(graph, &desc, &task));
    return task;
}

/* To the rank above, from the one below, in a frozen graph. */
void messages_arrive(void)
{
    struct rank rank = begin_rank(minute_ns, 0);
    struct mail mail[2] = {{.sent = 100}, {.sent = 200}};
    for (int i = 0; i < 2; i++) {
        gantry_task *send, *receive;
        mail[i].send = mail[i].receive = (gantry_mpi_message)GANTRY_MPI_MESSAGE_INIT;
        mail[i].send.data = &mail[i].sent;
        mail[i].receive.data = &mail[i].got;
        mail[i].send.bytes = mail[i].receive.bytes = sizeof(int);
        mail[i].send.peer = (rank.number + 1) % rank.size;
        mail[i].receive.peer = (rank.number + rank.size - 1) % rank.size;
        mail[i].send.tag = mail[i].receive.tag = i == 0 ? GANTRY_MPI_COUNTED : gantry_mpi_most_tag(rank.mpi);
        gantry_task *fill = add(rank.graph, "fill", fill_body, &mail[i]);
        gantry_task *look = add(rank.graph, "look", look_body, &mail[i]);
        CHECK_OK(gantry_mpi_send(rank.mpi, rank.graph, &mail[i].send, "send", &send));
        CHECK_OK(gantry_mpi_receive(rank.mpi, rank.graph, &mail[i].receive, "receive", &receive));
        CHECK_OK(gantry_task_start_after(send, fill));
        CHECK_OK(gantry_task_start_after(receive, fill));
        CHECK_OK(gantry_task_start_after(look, send));
        CHECK_OK(gantry_task_start_after(look, receive));
    }
    CHECK_OK(gantry_taskman_freeze(rank.graph));
    CHECK_OK(gantry_taskman_run(rank.graph, 50));
    CHECK(mail[0].got == 150 && mail[1].got == 250);
    end_rank(&rank);
}

static void exchange(struct rank *rank, const char *out, size_t bytes, char *in, size_t room)
{
    gantry_mpi_message send = GANTRY_MPI_MESSAGE_INIT, receive = GANTRY_MPI_MESSAGE_INIT;
    send.data = (void *)(uintptr_t)out;
    send.bytes = bytes;
    receive.data = in;
    receive.bytes = room;
    send.peer = receive.peer = rank->peer;
    send.tag = receive.tag = 3;
    CHECK_OK(gantry_mpi_send(rank->mpi, rank->graph, &send, "send", NULL));
    CHECK_OK(gantry_mpi_receive(rank->mpi, rank->graph, &receive, "receive", NULL));
    CHECK_OK(gantry_taskman_start(rank->graph));
    CHECK_OK(gantry_taskman_stop(rank->graph));
    CHECK_OK(gantry_taskman_reset(rank->graph));
    CHECK(receive.received == bytes);
}

/* Of more bytes than a count may be here; into room that is larger, too, and with the lengths around it. */
void long_messages_arrive(void)
{
    static char out[LONG_BYTES], in[LONG_BYTES + 5000];
    static const size_t bytes[] = {0, 1, 999, 1000, 1001, 1999, 2000, LONG_BYTES};
    struct rank rank = begin_rank(minute_ns, 0);
    for (size_t i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++) {
        for (size_t more = 0; more <= 5000; more += 2500) {
            for (size_t at = 0; at < bytes[i]; at++) {
                out[at] = (char)(at * 7 + at / 1000 + more);
            }
            memset(in, 0, sizeof(in));
            exchange(&rank, out, bytes[i], in, bytes[i] + more);
            CHECK(memcmp(in, out, bytes[i]) == 0);
            CHECK(in[bytes[i]] == 0);
        }
    }
    end_rank(&rank);
}

/* More messages than there are such tags; all are under way at once, and each gets its own. */
void counted_tags_wrap(void)
{
    struct rank rank = begin_rank(minute_ns, 0);
    gantry_mpi_message messages[2 * MESSAGES];
    int sent[MESSAGES], got[MESSAGES] = {0};
    for (int i = 0; i < 2 * MESSAGES; i++) {
        gantry_task *task = NULL;
        messages[i] = (gantry_mpi_message)GANTRY_MPI_MESSAGE_INIT;
        messages[i].bytes = sizeof(int);
        messages[i].peer = rank.peer;
        messages[i].data = i < MESSAGES ? &sent[i] : &got[i - MESSAGES];
        if (i < MESSAGES) {
            sent[i] = 1000 + i;
            CHECK_OK(gantry_mpi_send(rank.mpi, rank.graph, &messages[i], "send", &task));
        } else {
            CHECK_OK(gantry_mpi_receive(rank.mpi, rank.graph, &messages[i], "receive", &task));
        }
        CHECK(gantry_task_get_kind(task) == GANTRY_TASK_CPU);
    }
    CHECK_OK(gantry_taskman_start(rank.graph));
    CHECK_OK(gantry_taskman_stop(rank.graph));
    CHECK(memcmp(sent, got, sizeof(got)) == 0);
    CHECK(atomic_load(&lowest_tag) == 8 && atomic_load(&highest_tag) == 15);
    end_rank(&rank);
}

static atomic_int holds;

static int hold(MPI_Comm comm, void *arg, MPI_Request *request)
{
    (void)comm;
    (void)arg;
    (void)request;
    while (atomic_load(&holds) != 0) {
    }
    return MPI_SUCCESS;
}

/* The port's thread is busy until all have become ready, sends first. */
void receives_come_first(void)
{
    struct rank rank = begin_rank(minute_ns, 0);
    gantry_mpi_message held = GANTRY_MPI_MESSAGE_INIT, messages[6];
    int value = 5, got[3] = {0};
    held.call = hold;
    atomic_store(&holds, 1);
    const int sent = atomic_load(&sends), received = atomic_load(&receives);
    CHECK_OK(gantry_mpi_begin(rank.mpi, rank.graph, &held, "hold", NULL));
    for (int i = 0; i < 6; i++) {
        messages[i] = (gantry_mpi_message)GANTRY_MPI_MESSAGE_INIT;
        messages[i].bytes = sizeof(int);
        messages[i].peer = rank.peer;
        messages[i].data = i < 3 ? &value : &got[i - 3];
        CHECK_OK(i < 3 ? gantry_mpi_send(rank.mpi, rank.graph, &messages[i], "send", NULL)
                       : gantry_mpi_receive(rank.mpi, rank.graph, &messages[i], "receive", NULL));
    }
    CHECK_OK(gantry_taskman_start(rank.graph));
    atomic_store(&holds, 0);
    CHECK_OK(gantry_taskman_stop(rank.graph));
    CHECK(atomic_load(&sends) == sent + 3 && atomic_load(&receives) == received + 3);
    CHECK(atomic_load(&sent_before_a_receive) == sent);
    CHECK(got[0] == 5 && got[1] == 5 && got[2] == 5);
    end_rank(&rank);
}

static int begin_sum(MPI_Comm comm, void *arg, MPI_Request *request)
{
    int *sum = arg;
    return MPI_Iallreduce(&sum[0], &sum[1], 1, MPI_INT, MPI_SUM, comm, request);
}

static int begin_barrier(MPI_Comm comm, void *arg, MPI_Request *request)
{
    (void)arg;
    return MPI_Ibarrier(comm, request);
}

void operations_of_all_ranks(void)
{
    struct rank rank = begin_rank(minute_ns, 0);
    gantry_mpi_message sum = GANTRY_MPI_MESSAGE_INIT, barrier = GANTRY_MPI_MESSAGE_INIT;
    int values[2] = {rank.number + 1, 0};
    gantry_task *first = NULL, *second = NULL;
    sum.call = begin_sum;
    sum.arg = values;
    barrier.call = begin_barrier;
    CHECK_OK(gantry_mpi_begin(rank.mpi, rank.graph, &sum, "sum", &first));
    CHECK_OK(gantry_mpi_begin(rank.mpi, rank.graph, &barrier, "barrier", &second));
    CHECK_OK(gantry_task_start_after(second, first));
    CHECK_OK(gantry_taskman_freeze(rank.graph));
    CHECK_OK(gantry_taskman_run(rank.graph, 10));
    CHECK(values[1] == rank.size * (rank.size + 1) / 2);
    end_rank(&rank);
}

void nowhere_is_a_peer(void)
{
    struct rank rank = begin_rank(minute_ns, 0);
    gantry_mpi_message send = GANTRY_MPI_MESSAGE_INIT, receive = GANTRY_MPI_MESSAGE_INIT;
    int value = 3;
    send.data = receive.data = &value;
    send.bytes = receive.bytes = sizeof(value);
    receive.received = 7;
    receive.tag = 2;
    CHECK_OK(gantry_mpi_send(rank.mpi, rank.graph, &send, "send", NULL));
    CHECK_OK(gantry_mpi_receive(rank.mpi, rank.graph, &receive, "receive", NULL));
    CHECK_OK(gantry_taskman_start(rank.graph));
    CHECK_OK(gantry_taskman_stop(rank.graph));
    CHECK(receive.received == 0 && value == 3);
    end_rank(&rank);
}

struct sharer {
    struct rank *rank;
    int tag;
    pthread_t thread;
};

static void *share(void *arg)
{
    const struct sharer *sharer = arg;
    gantry_mpi_message send = GANTRY_MPI_MESSAGE_INIT, receive = GANTRY_MPI_MESSAGE_INIT;
    gantry_taskman *graph = NULL;
    int value = 10 + sharer->tag, got = 0;
    send.data = &value;
    receive.data = &got;
    send.bytes = receive.bytes = sizeof(int);
    send.peer = receive.peer = sharer->rank->peer;
    send.tag = receive.tag = sharer->tag;
    CHECK_OK(gantry_taskman_create(&(gantry_taskman_options)GANTRY_TASKMAN_OPTIONS_INIT, &graph));
    CHECK_OK(gantry_mpi_send(sharer->rank->mpi, graph, &send, "send", NULL));
    CHECK_OK(gantry_mpi_receive(sharer->rank->mpi, graph, &receive, "receive", NULL));
    CHECK_OK(gantry_taskman_freeze(graph));
    for (int run = 0; run < 20; run++) {
        got = 0;
        CHECK_OK(gantry_taskman_run(graph, 1));
        CHECK(got == value);
    }
    gantry_taskman_destroy(graph);
    return NULL;
}

void managers_share_a_communicator(void)
{
    struct rank rank = begin_rank(minute_ns, 0);
    struct sharer sharers[3];
    for (int i = 0; i < 3; i++) {
        sharers[i] = (struct sharer){.rank = &rank, .tag = i};
        CHECK(pthread_create(&sharers[i].thread, NULL, share, &sharers[i]) == 0);
    }
    for (int i = 0; i < 3; i++) {
        CHECK(pthread_join(sharers[i].thread, NULL) == 0);
    }
    end_rank(&rank);
}
