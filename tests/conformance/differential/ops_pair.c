/* SPDX-License-Identifier: MIT */
/* Two devices: access between them, and copies from one to the other. */
#include "tests/conformance/differential/ops.h"

static CUdevice ordinal(void)
{
    return (CUdevice)DF_PICK("d", 0, 1, 0, 1, 0, 1, 99, (unsigned long long)-1);
}

/* Which of A and B is current: 0, 1, or -1. */
static int current_home(void)
{
    CUcontext current = NULL;
    (void)cu->cuCtxGetCurrent(&current);
    return current == w.primary ? 0 : current == w.other ? 1 : -1;
}

void df_enable_peer(CUcontext peer, unsigned flags)
{
    int home = current_home();
    if (ask(cuCtxEnablePeerAccess, peer, flags) == CUDA_SUCCESS && home >= 0) {
        w.reaches[home] = true;
    }
}

void df_disable_peer(CUcontext peer)
{
    int home = current_home();
    if (ask(cuCtxDisablePeerAccess, peer) == CUDA_SUCCESS && home >= 0) {
        w.reaches[home] = false;
    }
}

static void op_enable(void)
{
    CUcontext peer = df_context();
    df_enable_peer(peer, (unsigned)DF_PICK("flags", 0, 0, 0, 0, 0, 1));
}

static void op_disable(void)
{
    df_disable_peer(df_context());
}

static void op_about(void)
{
    int value = -7;
    static const int attributes[] = {1, 2, 3, 4, 0, 5, -1};
    int attribute = attributes[df_choice("a", 7)];
    CUdevice one = ordinal(), two = ordinal();
    CUresult result = df_choice("op", 2) == 0 ? ask(cuDeviceCanAccessPeer, df_or_null(&value), one, two)
                                              : ask(cuDeviceGetP2PAttribute, df_or_null(&value),
                                                    (CUdevice_P2PAttribute)attribute, one, two);
    if (result == CUDA_SUCCESS) {
        df_note("%d", value);
    }
}

/* The contexts are those of the memory, as a rule. */
static void op_copy(void)
{
    size_t room, other;
    CUstream stream = df_stream();
    uint32_t to_arena = df_below(2);
    CUcontext one = df_context(), two = df_context();
    if (df_below(4) != 0) {
        one = to_arena == DF_ARENA_A ? w.primary : w.other;
        two = to_arena == DF_ARENA_A ? w.other : w.primary;
        df_shape("right");
    }
    CUdeviceptr to = df_place_in((int)to_arena, &room), from = df_place_in(1 - (int)to_arena, &other);
    size_t bytes = df_count(room < other ? room : other, 1);
    if (!df_stream_is_there()) {
        df_skip(DF_cuMemcpyPeerAsync);
        return;
    }
    ask(cuMemcpyPeerAsync, to, one, from, two, bytes, stream);
}

/* Most of what comes next is in this context. */
static void op_set_current(void)
{
    bool is_of_second = df_choice("b", 2) == 1;
    ask(cuCtxSetCurrent, is_of_second ? w.other : w.primary);
}

const struct df_op df_ops_pair[] = {{4, op_enable}, {3, op_disable},     {2, op_about},
                                    {5, op_copy},   {5, op_set_current}, {0, NULL}};
