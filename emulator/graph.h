/* SPDX-License-Identifier: MIT */
/* Graphs and executable graphs.
 *
 * A graph is a list of nodes the application may look at.  Instantiating makes a program of it: an
 * immutable copy with counted dependencies, which launches share by reference.  An update replaces the
 * program (or changes it in place when no launch uses it), so launches under way keep what they were
 * launched with. */
#ifndef EMULATOR_GRAPH_H
#define EMULATOR_GRAPH_H

#include "emulator/queue.h"

#define GY_EMU_INLINE_DEPENDENCIES 4

struct gy_emu_node {
    struct gy_emu_object object;
    struct gy_emu_graph *graph;
    struct gy_emu_work work;
    uint32_t index; /* its place in the graph */
    uint32_t dependency_count, dependency_room;
    struct gy_emu_node **dependencies; /* inline_dependencies while they fit */
    struct gy_emu_node *inline_dependencies[GY_EMU_INLINE_DEPENDENCIES];
    struct gy_emu_node *next; /* link of the free list */
    bool mark;                /* used by walks of the graph */
    bool is_inner;            /* a copy of a child graph's node: the application does not see it */
    bool is_graph;            /* the node is the end of a child graph, and stands for all of it */
    bool is_captured;
    int priority;         /* of a captured kernel: the priority of its stream */
    uint32_t outer_count; /* is_graph: the number of nodes that the child graph depends on, as the application
                             sees it */
    struct gy_emu_node **outer;
};

struct gy_emu_graph {
    struct gy_emu_object object;
    bool capturing;                      /* a capture adds to it */
    bool is_broken;                      /* a capture that added to it was broken */
    bool is_body;                        /* of a conditional node, to which it belongs */
    struct gy_emu_condition *conditions; /* that were made for it; a reference each */
    uint32_t count, room;
    uint32_t inner; /* the number of these nodes with is_inner */
    struct gy_emu_node **nodes;
};

CUresult gy_emu_graph_open(struct gy_emu_graph **out);
void gy_emu_graph_close(struct gy_emu_graph *graph);
/* Nodes are recycled, with the room that they have for dependencies; NULL: out of memory. */
struct gy_emu_node *gy_emu_node_take(void);
void gy_emu_node_put(struct gy_emu_node *node);
/* Add a node.  This takes the references of `work`, also when it fails.  A dependency that is given twice
 * counts once. */
CUresult gy_emu_graph_add(struct gy_emu_graph *graph, struct gy_emu_work *work,
                          struct gy_emu_node *const *dependencies, uint32_t count, struct gy_emu_node **out);

/* Add the nodes of `child` as they are now, behind `dependencies`.  `out` stands for all these nodes. */
CUresult gy_emu_graph_add_child(struct gy_emu_graph *graph, const struct gy_emu_graph *child,
                                struct gy_emu_node *const *dependencies, uint32_t count,
                                struct gy_emu_node **out);
/* Find the nodes with these handles, all of `graph`; the caller frees the result with gy_free().  NULL and a
 * result: some are not in the graph, or memory ran out. */
struct gy_emu_node **gy_emu_graph_find_nodes(const struct gy_emu_graph *graph, const CUgraphNode *handles,
                                             size_t count, CUresult *result);

/* program.c, program_run.c */
struct gy_emu_exec;
void gy_emu_program_unref(struct gy_emu_program *program);
/* The conditional node `op` is started. */
void gy_emu_program_start_loop(struct gy_emu_op *op);
void gy_emu_program_for_each_in_loop(struct gy_emu_op *op, void (*visit)(struct gy_emu_op *op));
/* The launch op (work GRAPH) has become the head of its stream. */
void gy_emu_program_start(struct gy_emu_op *launch);
void gy_emu_program_node_done(struct gy_emu_op *node);
/* The marker that this launch's run of an event record node completes, or that of an event wait node waits
 * for; NULL: it waits for nothing. */
struct gy_emu_marker *gy_emu_program_mark(struct gy_emu_op *node);
/* A launch of the program is over: drop what its wait nodes waited for. */
void gy_emu_program_drop_waits(const struct gy_emu_program *program, struct gy_emu_marker **waits);
/* The context is about to end: nothing may refer to it any more. */
void gy_emu_graphs_forget(struct gy_emu_context *root);
/* Does this launch have kernels of other green contexts than its stream's? */
bool gy_emu_program_leaves_out(const struct gy_emu_op *launch);
/* Make a marker that comes after all its other nodes (with a reference for the caller); *out is NULL when
 * these are done. */
CUresult gy_emu_program_mark_own(struct gy_emu_op *launch, struct gy_emu_marker **out);
/* These nodes are done, or never will be. */
void gy_emu_program_tell_own(struct gy_emu_op *launch);
void gy_emu_program_for_each(struct gy_emu_program *program, void (*visit)(struct gy_emu_op *op));

CUgraphNodeType gy_emu_node_type(const struct gy_emu_node *node);
CUgraphNodeType gy_emu_work_type(const struct gy_emu_work *work);

/* Import a launch from a kernel node's parameters, on `context` (NULL: the current one), with the attributes
 * that the node has (NULL: none), which parameters do not change. */
CUresult gy_emu_node_params_import(const CUDA_KERNEL_NODE_PARAMS_v2 *params, struct gy_emu_context *context,
                                   const struct gy_emu_attributes *attributes, struct gy_emu_work *work);
/* Import what a node of an executable graph shall copy instead of `before`, or fill; work->context is set. */
CUresult gy_emu_copy_params_import(const CUDA_MEMCPY3D *params, const struct gy_emu_work *before,
                                   struct gy_emu_work *work);
/* The same ends of both copies are pageable: an update changes nothing of that. */
bool gy_emu_copies_alike(const struct gy_emu_work *one, const struct gy_emu_work *two);
CUresult gy_emu_fill_params_import(const CUDA_MEMSET_NODE_PARAMS *params, struct gy_emu_work *work);

#endif
