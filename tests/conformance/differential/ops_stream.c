/* SPDX-License-Identifier: MIT */
/* Streams, events, and values in memory. */
#include "tests/conformance/differential/ops.h"

#include <semaphore.h>

static void put_stream(int slot, CUstream stream)
{
    if (w.busy != NULL && w.busy == w.streams[slot]) {
        df_settle();
    }
    if (w.streams[slot] != NULL) {
        (void)cu->cuStreamDestroy(w.streams[slot]);
    }
    w.streams[slot] = stream;
    w.picked = NULL; /* it is of the current context */
    w.is_of_second[slot] = df_home() == 'b';
}

static void op_create(void)
{
    CUstream stream = NULL;
    int slot = df_slot("slot", DF_STREAMS);
    unsigned flags = (unsigned)DF_PICK("flags", 0, 1, 0, 1, 2, 3, 4, 0xffffffff);
    int priority =
        (int)DF_PICK("p", 0, (unsigned long long)-1, 1, (unsigned long long)-5, 5, (unsigned long long)-1000);
    bool has_priority = df_choice("op", 2) == 1, may_replace = !w.has_graphs;
    CUresult result = has_priority ? ask(cuStreamCreateWithPriority, df_or_null(&stream), flags, priority)
                                   : ask(cuStreamCreate, df_or_null(&stream), flags);
    if (result != CUDA_SUCCESS || stream == NULL) {
        return;
    }
    if (may_replace) {
        put_stream(slot, stream);
    } else {
        (void)cu->cuStreamDestroy(stream);
    }
}

static void op_destroy(void)
{
    int slot;
    CUstream stream = df_stream_of_slot(&slot);
    if (df_one_in(4)) {
        df_shape("NULL");
        ask(cuStreamDestroy, NULL);
        return;
    }
    if (w.has_graphs || stream == NULL) {
        df_skip(DF_cuStreamDestroy);
        return;
    }
    w.streams[slot] = NULL;
    df_settle();
    ask(cuStreamDestroy, stream);
}

static void op_about(void)
{
    int priority = -77;
    unsigned long long id = 0;
    CUcontext context = NULL;
    CUstream stream = df_stream();
    uint32_t what = df_below(3);
    if (!df_stream_is_there()) {
        df_skip(DF_cuStreamGetPriority);
    } else if (what == 0) {
        if (ask(cuStreamGetPriority, stream, df_or_null(&priority)) == CUDA_SUCCESS) {
            df_note("%d", priority);
        }
    } else if (what == 1) {
        ask(cuStreamGetId, stream, df_or_null(&id));
    } else if (ask(cuStreamGetCtx, stream, df_or_null(&context)) == CUDA_SUCCESS) {
        df_note("%c", df_context_letter(context));
    }
}

static void op_synchronize(void)
{
    CUstream stream = df_stream();
    bool asks = df_below(2) == 0;
    if (!df_stream_is_there()) {
        df_skip(asks ? DF_cuStreamQuery : DF_cuStreamSynchronize);
    } else if (asks) {
        ask(cuStreamQuery, stream);
    } else if (ask(cuStreamSynchronize, stream) == CUDA_SUCCESS) {
        df_look();
    }
}

static void op_wait_event(void)
{
    CUstream stream = df_stream();
    unsigned flags = (unsigned)DF_PICK("flags", 0, 0, 0, 0, 0, 1, 2, 0xffffffff);
    CUevent event = df_event();
    bool is_null = df_one_in(32);
    df_shape("z%d", is_null);
    if (!df_stream_is_there() || (event == NULL && !is_null)) {
        df_skip(DF_cuStreamWaitEvent);
        return;
    }
    ask(cuStreamWaitEvent, stream, is_null ? NULL : event, flags);
}

static void op_write_value(void)
{
    size_t room;
    CUstream stream = df_stream();
    CUdeviceptr address = df_place_or_wild(&room);
    uint32_t value = df_below(1u << 31) * 2u + 1u;
    unsigned flags = (unsigned)DF_PICK("flags", 0, 0, 0, 1, 2, 0x100, 0xffffffff);
    df_shape("room%zu", room < 4 ? room : 4);
    if (!df_stream_is_there() || (room < 4 && address % 4 == 0)) {
        df_skip(DF_cuStreamWriteValue32);
        return;
    }
    if (df_is_foreign(df_home(), address)) {
        df_mark_as("foreign");
    }
    ask(cuStreamWriteValue32, stream, address, value, flags);
}

/* Waits whose words are right already, or that are refused. */
static void op_wait_value(void)
{
    CUstream stream = df_stream();
    uint32_t word = df_below(64), value = word + 65;
    static const unsigned kinds[] = {CU_STREAM_WAIT_VALUE_GEQ, CU_STREAM_WAIT_VALUE_EQ,
                                     CU_STREAM_WAIT_VALUE_AND, CU_STREAM_WAIT_VALUE_NOR};
    uint32_t kind = df_below(4), lower = df_below(3);
    unsigned flags = kinds[kind] | (unsigned)DF_PICK("more", 0, 0, 0, 0, 0, 8, 0x100, 0x80000000);
    CUdeviceptr address = w.waits + 4ull * word;
    df_shape("kind%u.%u", kind, lower);
    if (kind == 0 && lower != 0) {
        value -= lower == 1 ? 1 : 0x40000000u;
    } else if (kind == 3) {
        value = 0xffff0000u;
    }
    if (df_one_in(8)) {
        df_shape("odd");
        address += 1 + lower;
    }
    if (!df_stream_is_there()) {
        df_skip(DF_cuStreamWaitValue32);
        return;
    }
    ask(cuStreamWaitValue32, stream, address, value, flags);
}

static void op_create_event(void)
{
    CUevent event = NULL;
    int slot = df_slot("slot", DF_EVENTS);
    unsigned flags = (unsigned)DF_PICK("flags", 0, 1, 2, 3, 0, 2, 4, 6, 8, 16, 0xffffffff);
    if (ask(cuEventCreate, df_or_null(&event), flags) != CUDA_SUCCESS || event == NULL) {
        return;
    }
    /* A device's driver crashes when a stream of another context waits for one that is for other processes.
     */
    if ((w.has_graphs && w.events[slot] != NULL) || (flags & 4) != 0) {
        (void)cu->cuEventDestroy(event);
        return;
    }
    if (w.events[slot] != NULL) {
        (void)cu->cuEventDestroy(w.events[slot]);
    }
    w.events[slot] = event;
}

static void op_destroy_event(void)
{
    int slot = df_slot("e", DF_EVENTS);
    CUevent event = w.events[slot];
    if (df_one_in(4)) {
        df_shape("NULL");
        ask(cuEventDestroy, NULL);
        return;
    }
    if (event == NULL || w.has_graphs) {
        df_skip(DF_cuEventDestroy);
        return;
    }
    w.events[slot] = NULL;
    ask(cuEventDestroy, event);
}

static void op_record(void)
{
    CUstream stream = df_stream();
    CUevent event = df_event();
    unsigned flags = (unsigned)DF_PICK("flags", 0, 0, 1, 1, 2, 0xffffffff);
    bool has_flags = df_choice("op", 2) == 1, is_null = df_one_in(32);
    df_shape("z%d", is_null);
    if (!df_stream_is_there() || (event == NULL && !is_null)) {
        df_skip(has_flags ? DF_cuEventRecordWithFlags : DF_cuEventRecord);
        return;
    }
    event = is_null ? NULL : event;
    if (has_flags) {
        ask(cuEventRecordWithFlags, event, stream, flags);
    } else {
        ask(cuEventRecord, event, stream);
    }
}

static void op_event(void)
{
    float milliseconds = -7;
    CUevent event = df_event(), other = df_event();
    uint32_t what = df_below(3);
    bool is_null = df_one_in(24);
    df_shape("z%d", is_null);
    if ((event == NULL && !is_null) || (what == 2 && other == NULL)) {
        df_skip(what == 0 ? DF_cuEventQuery : what == 1 ? DF_cuEventSynchronize : DF_cuEventElapsedTime);
        return;
    }
    event = is_null ? NULL : event;
    if (what == 0) {
        ask(cuEventQuery, event);
    } else if (what == 1) {
        ask(cuEventSynchronize, event);
    } else {
        ask(cuEventElapsedTime, df_or_null(&milliseconds), event, other);
    }
}

static sem_t gate;

static void wait_at_gate(void *user)
{
    (void)user;
    while (sem_wait(&gate) != 0) {
    }
}

/* Work that is not done yet, as seen by the calls that do not wait. */
static void op_not_ready(void)
{
    float milliseconds;
    int slot;
    CUstream stream = df_stream_of_slot(&slot);
    CUevent event = df_event();
    if (stream == NULL || event == NULL || df_is_capturing(stream)) {
        df_skip(DF_cuStreamQuery);
        return;
    }
    df_settle();
    sem_init(&gate, 0, 0);
    df_shape("gate,s%d", slot);
    if (ask(cuLaunchHostFunc, stream, wait_at_gate, NULL) != CUDA_SUCCESS) {
        return;
    }
    w.busy = NULL; /* nobody waits for it but this operation */
    df_shape("shut,s%d", slot);
    CUresult result = ask(cuEventRecord, event, stream);
    w.busy = NULL;
    df_shape("shut,s%d", slot);
    ask(cuStreamQuery, stream);
    if (result == CUDA_SUCCESS) {
        df_shape("shut");
        ask(cuEventQuery, event);
        df_shape("shut");
        ask(cuEventElapsedTime, &milliseconds, event, event);
    }
    sem_post(&gate);
    w.busy = stream;
    df_settle();
}

const struct df_op df_ops_stream[] = {{2, op_create},
                                      {1, op_destroy},
                                      {3, op_about},
                                      {5, op_synchronize},
                                      {10, op_wait_event},
                                      {4, op_write_value},
                                      {3, op_wait_value},
                                      {3, op_create_event},
                                      {1, op_destroy_event},
                                      {10, op_record},
                                      {6, op_event},
                                      {1, op_not_ready},
                                      {0, NULL}};
