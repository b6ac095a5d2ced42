/* SPDX-License-Identifier: MIT */
/* What the ranks of the tests have in common.  All limits of the header are small here. */
#ifndef TESTS_MPI_RANKS_H
#define TESTS_MPI_RANKS_H

#define GANTRY_MPI_MOST_TAG 15     /* tags are given from 0 to 7, and counted from 8 to 15 */
#define GANTRY_MPI_MOST_COUNT 1000 /* longer messages have a type of their own */
#include <gantry/gantry.h>
#include <gantry/mpi.h>

#include <stdatomic.h>
#include <stdbool.h>

/* On failure the job ends. */
#define CHECK(condition) check((condition), #condition, __FILE__, __LINE__)
#define CHECK_OK(call) CHECK((call) == GANTRY_OK)
#define CHECK_ERROR(call, status, text) \
    (CHECK((call) == (status)), CHECK(strstr(gantry_last_error(), (text)) != NULL))

static inline void check(bool is_right, const char *what, const char *file, int line)
{
    int rank = -1;
    if (!is_right) {
        (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        fprintf(stderr, "%s:%d: rank %d: %s does not hold; the last error: %s\n", file, line, rank, what,
                gantry_last_error());
        (void)MPI_Abort(MPI_COMM_WORLD, 1);
        abort();
    }
}

/* What the test sees of the calls of MPI, and does to them; the port's thread. */
extern atomic_int sends, receives;               /* made so far */
extern atomic_int sent_before_a_receive;         /* sends when the last receive was posted */
extern atomic_int lowest_tag, highest_tag;       /* of the messages sent */
extern atomic_int refuses_sends, keeps_receives; /* MPI_Isend() fails; MPI_Cancel() does nothing */

/* Ranks in pairs: 0 and 1, 2 and 3. */
struct rank {
    int number, peer, size;
    gantry_mpi *mpi;
    gantry_cpu_dispatcher *pool;
    gantry_taskman *graph;
};

/* Time-outs of messages are `timeout_ns`, the grace `grace_ns`. */
struct rank begin_rank(uint64_t timeout_ns, uint64_t grace_ns);
void end_rank(struct rank *rank);

void messages_arrive(void);
void long_messages_arrive(void);
void counted_tags_wrap(void);
void receives_come_first(void);
void operations_of_all_ranks(void);
void nowhere_is_a_peer(void);
void managers_share_a_communicator(void);

void a_long_message_fails_its_receive(void);
void errors_of_mpi_fail_tasks(void);
void cancel_takes_receives_back(void);
void time_outs_name_the_peer(void);
void what_is_not_given_back_is_named(void);
void closing_is_refused_while_messages_are_under_way(void);
void bad_arguments_are_refused(void);
void a_fork_leaves_it_behind(void);

#endif
