/* SPDX-License-Identifier: MIT */
/* Executable graphs as they lie in memory, for program.c and program_run.c. */
#ifndef EMULATOR_PROGRAM_H
#define EMULATOR_PROGRAM_H

#include "emulator/graph.h"

/* Launches of one executable graph run one after the other, whatever their streams and programs. */
struct gy_emu_exec {
    struct gy_emu_object object;    /* closed by cuGraphExecDestroy() */
    uintptr_t root;                 /* the handle of the context that has its places */
    uint32_t places;                /* see places.h */
    bool keeps_priorities;          /* of its nodes; else they have that of the stream it is launched on */
    uint32_t refs;                  /* the number of references: the handle, and each program */
    struct gy_emu_program *program; /* the program of the next launch; a reference while the handle is open */
    struct gy_emu_op *running;      /* the launch that is running */
    struct gy_emu_list waiting;     /* launches that come after it */
};

void gy_emu_exec_unref(struct gy_emu_exec *exec);

struct gy_emu_program_node {
    struct gy_emu_op op; /* the first member, by which the node is found */
    uint32_t dependency_count;
    uint32_t pending;       /* dependencies that are not done in this run */
    uint32_t *dependencies; /* indices, in program->edges */
    uint32_t *dependents;
    uint32_t dependent_count;
    int priority;                /* the priority of the graph's node */
    uintptr_t source;            /* the handle of the graph's node from which it was made */
    struct gy_emu_marker *mark;  /* in this run: the marker of an event record, or the one that an event wait
                                  * waits for, NULL: nothing; not owned */
    bool is_left_out;            /* in this run: see gy_emu_program_leaves_out() */
    struct gy_emu_program *body; /* of a conditional node: a reference; else NULL */
};

struct gy_emu_program {
    uint32_t refs;
    struct gy_emu_exec *exec; /* a reference */
    struct gy_emu_op *launch; /* the launch of this run; of a body: its conditional node */
    bool is_body;             /* it is the body of a conditional node */
    uint32_t count;
    uint32_t left;        /* nodes of this run that are not done */
    uint32_t own_left;    /* those of them that are not left out */
    uint32_t event_count; /* event record nodes */
    uint32_t wait_count;  /* event wait nodes */
    bool has_effects;     /* it has nodes that no-op mode executes */
    bool is_dead;         /* a context that it needs is gone */
    uint32_t edge_count;
    uint32_t *edges; /* dependencies of all nodes, then dependents of all */
    struct gy_emu_program_node nodes[];
};

#endif
