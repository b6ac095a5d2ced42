/* SPDX-License-Identifier: MIT */
/* Conditional nodes of type WHILE: the value that decides about one, and the graph that is its body. */
#ifndef EMULATOR_CONDITION_H
#define EMULATOR_CONDITION_H

#include "emulator/graph.h"

struct gy_emu_condition {
    struct gy_emu_object object;
    uint32_t refs;                 /* of its graph, its node, and programs made of that */
    uint32_t initial;              /* the value with which a launch begins, if has_initial */
    bool has_initial;              /* else it keeps what the launch before has left */
    _Atomic(uint32_t) value;       /* atomic: kernels write it */
    struct gy_emu_graph *body;     /* NULL: no node uses it yet */
    CUgraph body_handle;           /* what the application is shown */
    bool is_used;                  /* an executable graph was made of it that is not destroyed */
    struct gy_emu_condition *next; /* of its graph */
};

void gy_emu_condition_unref(struct gy_emu_condition *condition);
/* Drop what was made for the graph, which ends. */
void gy_emu_conditions_drop(struct gy_emu_graph *graph);
/* A kernel sets the value; takes the lock.  False: there is no such condition. */
bool gy_emu_condition_set(uint64_t handle, uint32_t value);

/* May the graph be instantiated?  Not a second time while it has conditional nodes, and their bodies have
 * nothing but kernels, copies, fills and empty nodes. */
CUresult gy_emu_conditions_allow(const struct gy_emu_graph *graph);
/* It is; the executable graph that the node is part of is destroyed. */
void gy_emu_conditions_use(const struct gy_emu_graph *graph);
void gy_emu_condition_leave(struct gy_emu_condition *condition);

static inline const struct gy_emu_graph *gy_emu_condition_body(const struct gy_emu_condition *condition)
{
    return condition->body;
}
static inline bool gy_emu_condition_holds(struct gy_emu_condition *condition)
{
    return atomic_load_explicit(&condition->value, memory_order_acquire) != 0;
}
/* A launch has reached the node. */
static inline void gy_emu_condition_begin(struct gy_emu_condition *condition)
{
    if (condition->has_initial) {
        atomic_store_explicit(&condition->value, condition->initial, memory_order_release);
    }
}

#endif
