/* SPDX-License-Identifier: MIT */
/**
 * @file mpi.h
 * MPI messages as tasks: ordered by edges, blocking no worker, failing with a cause that names the rank.
 *
 * The program's own mpicc compiles this header; the library knows no MPI.  gantry.h does not include it.
 * gantry_mpi_open() makes a port (port.h), whose thread makes all calls of MPI for the messages.  A message is
 * a task that ends when MPI says that it is through.  docs/guides/ranks.md begins with a whole program.
 *
 * The program itself calls MPI_Init_thread(), with MPI_THREAD_SERIALIZED at least, and MPI_Finalize().  With
 * MPI_THREAD_SERIALIZED nobody else may call MPI between gantry_mpi_open() and gantry_mpi_close(); with
 * MPI_THREAD_MULTIPLE anybody may.
 *
 * Errors of MPI fail the task, and end no process: until gantry_mpi_close() the error handler of
 * MPI_COMM_WORLD, which some MPIs ask for any communicator, is MPI_ERRORS_RETURN.  Several may be open at
 * once; they are closed in the opposite order.
 *
 * Threading: gantry_mpi_send(), gantry_mpi_receive() and gantry_mpi_begin() on any thread, also from bodies.
 */
#ifndef GANTRY_MPI_H
#define GANTRY_MPI_H

#include <gantry/port.h>

#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/** A tag that is given by gantry_mpi_send() and gantry_mpi_receive(): the n-th message that a rank sends to
 *  another is the n-th that this one receives from it, in the order of the calls. */
#define GANTRY_MPI_COUNTED INT_MIN

/** The largest count that MPI is given; a longer message is described to it by pieces of so many bytes. */
#ifndef GANTRY_MPI_MOST_COUNT
#define GANTRY_MPI_MOST_COUNT (1 << 30)
#endif

/** The largest tag that is used, if that of MPI (MPI_TAG_UB) is larger; the same on all ranks. */
#ifndef GANTRY_MPI_MOST_TAG
#define GANTRY_MPI_MOST_TAG INT_MAX
#endif

/** A communicator of the library's own, and the thread that sends and receives with it. */
typedef struct gantry_mpi gantry_mpi;

/** Begin an operation of MPI on `comm`, which belongs to the port: MPI_Iallreduce(), MPI_Ibarrier(), ….  Runs
 *  on the port's thread; must not block.  Returns what the call of MPI has returned. */
typedef int (*gantry_mpi_call)(MPI_Comm comm, void *arg, MPI_Request *request);

/** A message, or another operation.  It belongs to the program, and must be there, and the memory that it
 *  names, until its task is released; in a frozen graph until the reset.  Each task has one of its own.
 *  Between runs of a frozen graph `data`, `bytes`, `call` and `arg` may be changed, `peer` and `tag` not. */
typedef struct gantry_mpi_message {
    void *data;           /* what is sent, or room for what is received: memory that the CPU can use */
    size_t bytes;         /* of it; a receive may have more room than its message is long */
    int peer;             /* the rank that it goes to or comes from; or MPI_PROC_NULL: nowhere */
    int tag;              /* from 0 to gantry_mpi_most_tag(), or GANTRY_MPI_COUNTED */
    gantry_mpi_call call; /* of gantry_mpi_begin() */
    void *arg;            /* handed to `call` */
    size_t received;      /* out: the bytes that came, when a receive has ended well */
    gantry_mpi *mpi;      /* as the next two, written when its task is made */
    int kind;             /* what it is */
    int wire_tag;         /* the tag that MPI is given */
} gantry_mpi_message;
#define GANTRY_MPI_MESSAGE_INIT                                               \
    {                                                                         \
        NULL, 0, MPI_PROC_NULL, GANTRY_MPI_COUNTED, NULL, NULL, 0, NULL, 0, 0 \
    }

/** @cond what follows, down to the next line like this, is the header's own */

enum { GANTRY_MPI_KIND_SEND = 1, GANTRY_MPI_KIND_RECEIVE, GANTRY_MPI_KIND_CALL, GANTRY_MPI_KIND_OVER };

/* An operation under way; the port's thread has them, and when that has ended, close(). */
struct gantry_mpi_record {
    gantry_detached task;        /* good or not: who completes it is told */
    gantry_mpi_message *message; /* NULL: it was given up, and the message may be gone */
    size_t bytes;
    int peer, tag, kind;
    int is_posted; /* sends wait for the receives that became ready with them */
    char label[48];
};

struct gantry_mpi {
    gantry_port *port;
    MPI_Comm comm;
    MPI_Errhandler of_world; /* the error handler to be put back */
    int size, most_tag;
    unsigned *counts;      /* for each peer what was sent, then received, with counted tags; atomic */
    MPI_Request *requests; /* `used` of them, in the order of their begin, as the next; room for `room` */
    struct gantry_mpi_record *records;
    int *ended;
    MPI_Status *statuses;
    int used, room, posted; /* the first `posted` are */
};

static inline const char *gantry_mpi_error_text(int code, char text[MPI_MAX_ERROR_STRING])
{
    int length = 0;
    if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) {
        (void)snprintf(text, MPI_MAX_ERROR_STRING, "error %d of MPI", code);
    }
    return text;
}

/* "receive of 8 bytes from rank 1, tag 7" */
static inline void gantry_mpi_name(const struct gantry_mpi_record *record, char *text, size_t room)
{
    if (record->kind == GANTRY_MPI_KIND_CALL) {
        (void)snprintf(text, room, "operation of MPI");
    } else {
        (void)snprintf(text, room, "%s of %zu bytes %s rank %d, tag %d",
                       record->kind == GANTRY_MPI_KIND_SEND ? "send" : "receive", record->bytes,
                       record->kind == GANTRY_MPI_KIND_SEND ? "to" : "from", record->peer, record->tag);
    }
}

static inline void gantry_mpi_fail(const struct gantry_mpi_record *record, gantry_status status,
                                   const char *why)
{
    char text[256 + MPI_MAX_ERROR_STRING];
    gantry_mpi_name(record, text, 128);
    (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), ": %s", why);
    (void)gantry_task_complete(record->task, status, text);
}

static inline void gantry_mpi_fail_by(const struct gantry_mpi_record *record, int code, MPI_Status *status)
{
    char text[MPI_MAX_ERROR_STRING];
    int kind = MPI_SUCCESS;
    MPI_Count bytes = 0;
    (void)MPI_Error_class(code, &kind);
    if (kind != MPI_ERR_TRUNCATE || status == NULL) {
        gantry_mpi_fail(record, GANTRY_ERR_TASK_FAILED, gantry_mpi_error_text(code, text));
        return;
    }
    if (MPI_Get_elements_x(status, MPI_BYTE, &bytes) == MPI_SUCCESS && bytes > 0 &&
        (size_t)bytes > record->bytes) { /* not all MPIs tell */
        (void)snprintf(text, sizeof(text), "the message is longer: it has %zu bytes", (size_t)bytes);
    } else {
        (void)snprintf(text, sizeof(text), "the message is longer");
    }
    gantry_mpi_fail(record, GANTRY_ERR_TASK_FAILED, text);
}

/* A type of `bytes` bytes, to be freed if it is not MPI_BYTE, and how many of it there are. */
static inline int gantry_mpi_describe(size_t bytes, MPI_Datatype *type, int *count)
{
    const size_t most = (size_t)GANTRY_MPI_MOST_COUNT;
    *type = MPI_BYTE;
    *count = (int)bytes;
    if (bytes <= most) {
        return MPI_SUCCESS;
    }
    int lengths[2] = {(int)(bytes / most), (int)(bytes % most)};
    MPI_Aint places[2] = {0, (MPI_Aint)(bytes - bytes % most)};
    MPI_Datatype types[2] = {MPI_BYTE, MPI_BYTE};
    *count = 1;
    int code = MPI_Type_contiguous((int)most, MPI_BYTE, &types[0]);
    if (code == MPI_SUCCESS) {
        code = MPI_Type_create_struct(2, lengths, places, types, type);
        (void)MPI_Type_free(&types[0]);
    }
    return code == MPI_SUCCESS ? MPI_Type_commit(type) : code;
}

/* Hand the operation to MPI.  If MPI refuses it, its task has failed, and the record is over. */
static inline void gantry_mpi_post(gantry_mpi *mpi, int at)
{
    struct gantry_mpi_record *record = &mpi->records[at];
    const gantry_mpi_message *message = record->message;
    MPI_Datatype type = MPI_BYTE;
    int count = 0, code = MPI_SUCCESS;
    record->is_posted = 1;
    if (record->kind == GANTRY_MPI_KIND_CALL) {
        code = message->call(mpi->comm, message->arg, &mpi->requests[at]);
    } else {
        code = gantry_mpi_describe(record->bytes, &type, &count);
        if (code == MPI_SUCCESS && record->kind == GANTRY_MPI_KIND_SEND) {
            code = MPI_Isend(message->data, count, type, record->peer, record->tag, mpi->comm,
                             &mpi->requests[at]);
        } else if (code == MPI_SUCCESS) {
            code = MPI_Irecv(message->data, count, type, record->peer, record->tag, mpi->comm,
                             &mpi->requests[at]);
        }
        if (type != MPI_BYTE && type != MPI_DATATYPE_NULL) {
            (void)MPI_Type_free(&type);
        }
    }
    if (code != MPI_SUCCESS) {
        mpi->requests[at] = MPI_REQUEST_NULL;
        gantry_mpi_fail_by(record, code, NULL);
        record->kind = GANTRY_MPI_KIND_OVER;
    } else if (mpi->requests[at] == MPI_REQUEST_NULL) { /* there was nothing to do */
        (void)gantry_task_complete(record->task, GANTRY_OK, NULL);
        record->kind = GANTRY_MPI_KIND_OVER;
    }
}

/* Room for one more. */
static inline int gantry_mpi_grow(gantry_mpi *mpi)
{
    const size_t room = mpi->room == 0 ? 16 : 2 * (size_t)mpi->room;
    if (mpi->used < mpi->room) {
        return 1;
    }
    void *requests = realloc(mpi->requests, room * sizeof(*mpi->requests));
    mpi->requests = requests != NULL ? (MPI_Request *)requests : mpi->requests;
    void *records = realloc(mpi->records, room * sizeof(*mpi->records));
    mpi->records = records != NULL ? (struct gantry_mpi_record *)records : mpi->records;
    void *ended = realloc(mpi->ended, room * sizeof(*mpi->ended));
    mpi->ended = ended != NULL ? (int *)ended : mpi->ended;
    void *statuses = realloc(mpi->statuses, room * sizeof(*mpi->statuses));
    mpi->statuses = statuses != NULL ? (MPI_Status *)statuses : mpi->statuses;
    if (requests == NULL || records == NULL || ended == NULL || statuses == NULL) {
        return 0;
    }
    mpi->room = (int)room;
    return 1;
}

/* gantry_port_ops.start */
static inline gantry_status gantry_mpi_start(void *user, gantry_task *task, gantry_detached operation)
{
    gantry_mpi *mpi = (gantry_mpi *)user;
    gantry_mpi_message *message = (gantry_mpi_message *)gantry_task_arg(task);
    if (!gantry_mpi_grow(mpi)) {
        return GANTRY_ERR_OUT_OF_HOST_MEMORY;
    }
    struct gantry_mpi_record *record = &mpi->records[mpi->used];
    memset(record, 0, sizeof(*record));
    message->received = 0;
    record->task = operation;
    record->message = message;
    record->bytes = message->bytes;
    record->peer = message->peer;
    record->tag = message->wire_tag;
    record->kind = message->kind;
    (void)snprintf(record->label, sizeof(record->label), "%s", gantry_task_label(task));
    mpi->requests[mpi->used] = MPI_REQUEST_NULL;
    mpi->used++;
    if (message->kind == GANTRY_MPI_KIND_RECEIVE) {
        gantry_mpi_post(mpi, mpi->used - 1);
    }
    return GANTRY_OK;
}

static inline void gantry_mpi_end(struct gantry_mpi_record *record, int code, MPI_Status *status)
{
    int is_cancelled = 0;
    MPI_Count bytes = 0;
    if (code != MPI_SUCCESS) {
        gantry_mpi_fail_by(record, code, status);
    } else if (record->message == NULL) {
        (void)MPI_Test_cancelled(status, &is_cancelled);
        gantry_mpi_fail(record, GANTRY_ERR_CANCELLED,
                        is_cancelled ? "given up, nothing has come" : "given up, it has ended all the same");
    } else {
        if (record->kind == GANTRY_MPI_KIND_RECEIVE) {
            (void)MPI_Get_elements_x(status, MPI_BYTE, &bytes);
            record->message->received = (size_t)bytes;
        }
        (void)gantry_task_complete(record->task, GANTRY_OK, NULL);
    }
    record->kind = GANTRY_MPI_KIND_OVER;
}

/* Forget those that are over; the others keep their order. */
static inline void gantry_mpi_sweep(gantry_mpi *mpi)
{
    int left = 0;
    for (int i = 0; i < mpi->used; i++) {
        if (mpi->records[i].kind != GANTRY_MPI_KIND_OVER) {
            mpi->records[left] = mpi->records[i];
            mpi->requests[left++] = mpi->requests[i];
        }
    }
    mpi->used = mpi->posted = left;
}

/* gantry_port_ops.look */
static inline bool gantry_mpi_look(void *user)
{
    gantry_mpi *mpi = (gantry_mpi *)user;
    int count = 0, is_over = 0;
    for (; mpi->posted < mpi->used; mpi->posted++) {
        if (!mpi->records[mpi->posted].is_posted) {
            gantry_mpi_post(mpi, mpi->posted);
        }
        is_over |= mpi->records[mpi->posted].kind == GANTRY_MPI_KIND_OVER;
    }
    if (is_over) {
        gantry_mpi_sweep(mpi);
    }
    if (mpi->used == 0) {
        return is_over;
    }
    const int code = MPI_Testsome(mpi->used, mpi->requests, &count, mpi->ended, mpi->statuses);
    if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) {
        for (int i = 0; i < mpi->used; i++) { /* nobody knows what has become of them */
            gantry_mpi_fail_by(&mpi->records[i], code, NULL);
        }
        return false;
    }
    for (int i = 0; i < count; i++) { /* MPI_UNDEFINED is below 0 */
        MPI_Status *status = &mpi->statuses[i];
        gantry_mpi_end(&mpi->records[mpi->ended[i]], code == MPI_SUCCESS ? MPI_SUCCESS : status->MPI_ERROR,
                       status);
    }
    if (count > 0) {
        gantry_mpi_sweep(mpi);
    }
    return count > 0 || is_over;
}

/* gantry_port_ops.give_up: a receive is taken back, and MPI says whether something came after all.  What is
 * sent, and other operations, cannot be. */
static inline void gantry_mpi_give_up(void *user, gantry_detached operation, gantry_status why)
{
    gantry_mpi *mpi = (gantry_mpi *)user;
    (void)why;
    for (int i = 0; i < mpi->used; i++) {
        struct gantry_mpi_record *record = &mpi->records[i];
        if (record->task == operation) {
            record->message = NULL;
            if (record->kind == GANTRY_MPI_KIND_RECEIVE) {
                (void)MPI_Cancel(&mpi->requests[i]);
            }
        }
    }
}

static inline gantry_status gantry_mpi_refuse(gantry_status status, const char *call, int code)
{
    char text[64 + MPI_MAX_ERROR_STRING], why[MPI_MAX_ERROR_STRING];
    (void)snprintf(text, sizeof(text), "%s: %s", call, gantry_mpi_error_text(code, why));
    return gantry_fail(status, text);
}

/* Can MPI be called, and by the port's thread? */
static inline gantry_status gantry_mpi_check(MPI_Comm comm)
{
    int is_there = 0, is_over = 0, level = MPI_THREAD_SINGLE, is_inter = 0;
    (void)MPI_Initialized(&is_there);
    (void)MPI_Finalized(&is_over);
    if (!is_there || is_over) {
        return gantry_fail(GANTRY_ERR_STATE, is_over ? "gantry_mpi_open: MPI was finalized"
                                                     : "gantry_mpi_open: call MPI_Init_thread() first");
    }
    (void)MPI_Query_thread(&level);
    if (level < MPI_THREAD_SERIALIZED) {
        return gantry_fail(GANTRY_ERR_UNSUPPORTED,
                           "gantry_mpi_open: MPI may be called by the thread that began it alone: begin it "
                           "with MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided)");
    }
    if (comm == MPI_COMM_NULL) {
        return gantry_fail(GANTRY_ERR_INVALID_ARGUMENT, "gantry_mpi_open: `comm` is MPI_COMM_NULL");
    }
    (void)MPI_Comm_test_inter(comm, &is_inter);
    return is_inter ? gantry_fail(GANTRY_ERR_UNSUPPORTED, "gantry_mpi_open: `comm` is an intercommunicator")
                    : GANTRY_OK;
}

static inline void gantry_mpi_free(gantry_mpi *mpi)
{
    free(mpi->requests);
    free(mpi->records);
    free(mpi->ended);
    free(mpi->statuses);
    free(mpi->counts);
    free(mpi);
}

/* The largest tag of MPI, or what is to count as that. */
static inline int gantry_mpi_find_most_tag(void)
{
    int *most = NULL, is_there = 0;
    (void)MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &most, &is_there);
    const int theirs = is_there ? *most : 32767;
    return theirs < GANTRY_MPI_MOST_TAG ? theirs : GANTRY_MPI_MOST_TAG;
}

static inline void gantry_mpi_put_back(gantry_mpi *mpi)
{
    (void)MPI_Comm_set_errhandler(MPI_COMM_WORLD, mpi->of_world);
    if (mpi->of_world != MPI_ERRORS_ARE_FATAL && mpi->of_world != MPI_ERRORS_RETURN) {
        (void)MPI_Errhandler_free(&mpi->of_world);
    }
}

/* Which tag MPI is given.  The upper half of all tags is for those that count. */
static inline gantry_status gantry_mpi_choose_tag(gantry_mpi *mpi, gantry_mpi_message *message)
{
    const int given = mpi->most_tag / 2; /* the largest tag that may be given */
    const unsigned counted = (unsigned)(mpi->most_tag - given);
    char text[128];
    message->wire_tag = message->tag;
    if (message->tag == GANTRY_MPI_COUNTED && message->peer >= 0 && message->peer < mpi->size) {
        unsigned *count = &mpi->counts[2 * message->peer + (message->kind == GANTRY_MPI_KIND_SEND ? 0 : 1)];
        const unsigned number = __atomic_fetch_add(count, 1, __ATOMIC_SEQ_CST);
        message->wire_tag = given + 1 + (int)(number % counted);
    } else if (message->tag == GANTRY_MPI_COUNTED) {
        message->wire_tag = 0; /* to nowhere */
    } else if (message->tag == MPI_ANY_TAG) {
        return gantry_fail(GANTRY_ERR_INVALID_ARGUMENT, "gantry_mpi_receive: MPI_ANY_TAG is not possible: "
                                                        "a task waits for a message of one tag");
    } else if (message->tag < 0 || message->tag > given) {
        (void)snprintf(text, sizeof(text), "gantry_mpi: tag %d is not within 0 to %d", message->tag, given);
        return gantry_fail(GANTRY_ERR_INVALID_ARGUMENT, text);
    }
    return GANTRY_OK;
}

static inline gantry_status gantry_mpi_check_message(gantry_mpi *mpi, gantry_mpi_message *message)
{
    char text[128];
    if (message->peer == MPI_ANY_SOURCE && message->kind == GANTRY_MPI_KIND_RECEIVE) {
        return gantry_fail(GANTRY_ERR_INVALID_ARGUMENT,
                           "gantry_mpi_receive: MPI_ANY_SOURCE is not possible: a task waits for a "
                           "message of one rank");
    }
    if (message->peer != MPI_PROC_NULL && (message->peer < 0 || message->peer >= mpi->size)) {
        (void)snprintf(text, sizeof(text), "gantry_mpi: rank %d is not within 0 to %d", message->peer,
                       mpi->size - 1);
        return gantry_fail(GANTRY_ERR_INVALID_ARGUMENT, text);
    }
    if (message->data == NULL && message->bytes != 0) {
        return gantry_fail(GANTRY_ERR_INVALID_ARGUMENT, "gantry_mpi: `data` is NULL");
    }
    return gantry_mpi_choose_tag(mpi, message);
}

static inline gantry_status gantry_mpi_submit(gantry_mpi *mpi, gantry_taskman *manager,
                                              gantry_mpi_message *message, int kind, const char *label,
                                              gantry_task **out)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    if (mpi == NULL || message == NULL) {
        return gantry_fail(GANTRY_ERR_INVALID_ARGUMENT,
                           mpi == NULL ? "gantry_mpi: `mpi` is NULL" : "gantry_mpi: `message` is NULL");
    }
    message->mpi = mpi;
    message->kind = kind;
    if (kind != GANTRY_MPI_KIND_CALL) {
        const gantry_status status = gantry_mpi_check_message(mpi, message);
        if (status != GANTRY_OK) {
            return status;
        }
    } else if (message->call == NULL) {
        return gantry_fail(GANTRY_ERR_INVALID_ARGUMENT, "gantry_mpi_begin: `call` is NULL");
    }
    desc.label = label;
    desc.port = mpi->port;
    desc.arg = message;
    return gantry_taskman_submit(manager, &desc, out);
}

/** @endcond it was the header's own; what follows is for programs */

/** Make a communicator of the library's own from `comm`, and a port for it.  Collective, as MPI_Comm_dup().
 *  @param options  of the port: how its thread waits, time-outs of messages; NULL: the defaults
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT    `out` is NULL, MPI_COMM_NULL, or as gantry_port_create()
 *  @retval GANTRY_ERR_STATE               MPI was not begun, or is finalized
 *  @retval GANTRY_ERR_UNSUPPORTED         less than MPI_THREAD_SERIALIZED, or an intercommunicator
 *  @retval GANTRY_ERR_TASK_FAILED         MPI has refused it
 *  @retval GANTRY_ERR_OUT_OF_HOST_MEMORY  no memory, or no thread */
static inline gantry_status gantry_mpi_open(MPI_Comm comm, const gantry_port_options *options,
                                            gantry_mpi **out)
{
    if (out == NULL) {
        return gantry_fail(GANTRY_ERR_INVALID_ARGUMENT, "gantry_mpi_open: `out` is NULL");
    }
    gantry_status status = gantry_mpi_check(comm);
    if (status != GANTRY_OK) {
        return status;
    }
    gantry_mpi *mpi = (gantry_mpi *)calloc(1, sizeof(*mpi));
    if (mpi != NULL && MPI_Comm_size(comm, &mpi->size) == MPI_SUCCESS) {
        mpi->counts = (unsigned *)calloc(2 * (size_t)mpi->size, sizeof(*mpi->counts));
    }
    if (mpi == NULL || mpi->counts == NULL) {
        free(mpi);
        return gantry_fail(GANTRY_ERR_OUT_OF_HOST_MEMORY, "gantry_mpi_open: no memory");
    }
    const gantry_port_ops ops = {sizeof(ops), gantry_mpi_start, gantry_mpi_look, gantry_mpi_give_up, mpi};
    mpi->most_tag = gantry_mpi_find_most_tag();
    status = gantry_port_create(&ops, options, &mpi->port);
    if (status != GANTRY_OK) {
        gantry_mpi_free(mpi);
        return status;
    }
    (void)MPI_Comm_get_errhandler(MPI_COMM_WORLD, &mpi->of_world);
    (void)MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    const int code = MPI_Comm_dup(comm, &mpi->comm);
    if (code != MPI_SUCCESS) {
        gantry_mpi_put_back(mpi);
        if (gantry_port_destroy(mpi->port) == GANTRY_OK) {
            gantry_mpi_free(mpi);
        }
        return gantry_mpi_refuse(GANTRY_ERR_TASK_FAILED, "gantry_mpi_open: MPI_Comm_dup", code);
    }
    (void)MPI_Comm_set_errhandler(mpi->comm, MPI_ERRORS_RETURN);
    *out = mpi;
    return GANTRY_OK;
}

/** End what gantry_mpi_open() began, before MPI_Finalize().  Collective.  Receives that were given up, and
 *  that MPI has not given back, get 100 ms more.  NULL is ignored.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_STATE      as gantry_port_destroy(): messages are under way, whose labels the last error
 *                                has, for instance.  Nothing has changed
 *  @retval GANTRY_ERR_TIMED_OUT  it is closed, but for messages that MPI has not given back, which the last
 *                                error counts and names: their memory may still be written or read, and must
 *                                stay as it is until the process ends; end it by MPI_Abort() */
static inline gantry_status gantry_mpi_close(gantry_mpi *mpi)
{
    char text[300];
    if (mpi == NULL) {
        return GANTRY_OK;
    }
    const gantry_status status = gantry_port_destroy(mpi->port);
    if (status != GANTRY_OK) {
        return status;
    }
    const double begun = MPI_Wtime();
    while (mpi->used > 0 && MPI_Wtime() - begun < 0.1) {
        (void)gantry_mpi_look(mpi);
    }
    gantry_mpi_put_back(mpi);
    if (mpi->used == 0) {
        (void)MPI_Comm_free(&mpi->comm);
        gantry_mpi_free(mpi);
        return GANTRY_OK;
    }
    int at = snprintf(text, sizeof(text),
                      "gantry_mpi_close: MPI has not given %d back, whose memory may "
                      "still be used:",
                      mpi->used);
    for (int i = 0; i < mpi->used && at + 64 < (int)sizeof(text); i++) {
        at += snprintf(text + at, sizeof(text) - (size_t)at, " '%s'", mpi->records[i].label);
    }
    return gantry_fail(GANTRY_ERR_TIMED_OUT, text); /* and what they may still use stays */
}

/** The largest tag that may be given; the tags above it are for GANTRY_MPI_COUNTED.
 *  @param mpi  not NULL */
static inline int gantry_mpi_most_tag(const gantry_mpi *mpi)
{
    return mpi->most_tag / 2;
}

/** Submit a task that sends a message, and ends when its memory may be used again; as gantry_taskman_submit().
 *  @param label  as gantry_task_desc.label
 *  @param out    the task, for edges; may be NULL
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL, a rank or a tag out of range, or as gantry_taskman_submit()
 *  @retval GANTRY_ERR_STATE             it was opened before a fork, or as gantry_taskman_submit()
 *  @retval other                        as gantry_taskman_submit() */
static inline gantry_status gantry_mpi_send(gantry_mpi *mpi, gantry_taskman *manager,
                                            gantry_mpi_message *message, const char *label, gantry_task **out)
{
    return gantry_mpi_submit(mpi, manager, message, GANTRY_MPI_KIND_SEND, label, out);
}

/** Submit a task that receives a message, and ends when that is there.  A message that is longer than the room
 *  for it fails the task; the room is filled or not, and Open MPI (4.1.4, 5.0.11) may write behind it, too.  Of receives and sends that become ready together
 *  receives are begun first.  Statuses as gantry_mpi_send(), and
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  MPI_ANY_SOURCE or MPI_ANY_TAG */
static inline gantry_status gantry_mpi_receive(gantry_mpi *mpi, gantry_taskman *manager,
                                               gantry_mpi_message *message, const char *label,
                                               gantry_task **out)
{
    return gantry_mpi_submit(mpi, manager, message, GANTRY_MPI_KIND_RECEIVE, label, out);
}

/** Submit a task that begins another operation by message->call, and ends with it.  All ranks must begin their
 *  collective operations in the same order: edges between their tasks see to it.  Statuses as
 *  gantry_mpi_send(). */
static inline gantry_status gantry_mpi_begin(gantry_mpi *mpi, gantry_taskman *manager,
                                             gantry_mpi_message *message, const char *label,
                                             gantry_task **out)
{
    return gantry_mpi_submit(mpi, manager, message, GANTRY_MPI_KIND_CALL, label, out);
}

#endif
