/* SPDX-License-Identifier: MIT */
/* A graph that is kept, and batches that are like it: what is noted now is compared with the nodes of an
 * executable graph, and nodes that differ are given the new work.
 *
 * Two graphs are alike when their nodes can be paired so that partners are of one kind and form, and come
 * after partners.  A kernel's function, sizes and arguments, the addresses and sizes of copies and fills, and
 * the pattern of a fill may differ: those are patched.  Nodes are paired in the order in which they were
 * noted, or by their names (gy_nodes_name()), whatever their order and their lanes.
 *
 * One thread at a time; the context is current. */
#ifndef WORK_PATCH_H
#define WORK_PATCH_H

#include "work/nodes.h"

/* Room for pairing by names. */
struct gy_pairing {
    uint32_t *of; /* per node of the batch: its partner */
    size_t room;
    uint32_t *table; /* of kept nodes, by name: number + 1 */
    size_t table_room;
};

void gy_pairing_fini(struct gy_pairing *pairing);

/* Is there no node that an executable graph cannot be given? */
bool gy_nodes_are_patchable(const struct gy_nodes *nodes);
/* The sum over the names: equal for two batches of the same calls, in whatever order. */
uint64_t gy_nodes_names(const struct gy_nodes *nodes);

/* Copy what is to be compared later: nodes as they were made, what they come after, parameters.
 * @retval GANTRY_ERR_OUT_OF_HOST_MEMORY */
GANTRY_MUST_CHECK gantry_status gy_nodes_copy(struct gy_nodes *to, const struct gy_nodes *from);

/* Are the nodes equal, paired in their order, beside the parameters of kernels?  Then they are alike.  This
 * looks at bytes: false says nothing. */
bool gy_nodes_are_equal(const struct gy_nodes *kept, const struct gy_nodes *nodes);
/* Are they alike, paired in their order? */
bool gy_nodes_are_alike(const struct gy_nodes *kept, const struct gy_nodes *nodes);
/* Are they alike, paired by their names?  Then the pairs are in pairing->of.  False also without memory. */
bool gy_nodes_pair(struct gy_pairing *pairing, const struct gy_nodes *kept, const struct gy_nodes *nodes);

/* Give nodes of `exec`, made of `kept`, the work of their partners where that differs; `of` as above, NULL:
 * paired in their order.  Parameters that are PLACED (work/slot_args.h) are slots of kept->table, and
 * equal; where that is 0, they were settled.  `kept` follows.  Adds the number of nodes given to
 * *set; ends and waits, which are given always, do not count, nor do events that are lent to the batch
 * (work/lent_event.h).  On failure some were given, `exec` must not be launched any more, unless it is
 * updated as a whole. */
GANTRY_MUST_CHECK CUresult gy_nodes_patch(struct gy_nodes *kept, CUgraphExec exec, struct gy_nodes *nodes,
                                          const uint32_t *of, uint64_t *set);

/* The same for nodes for which gy_nodes_are_equal() holds. */
GANTRY_MUST_CHECK CUresult gy_nodes_patch_equal(struct gy_nodes *kept, CUgraphExec exec,
                                                struct gy_nodes *nodes, uint64_t *set);

/* A number for the edges, kinds and forms of the first 2^k nodes, for k from GY_FIRST_SIZE on as far as there
 * are nodes, and behind them one for all nodes; the number of numbers comes out. */
#define GY_FIRST_SIZE 4u
#define GY_MOST_SIZES 32u
uint32_t gy_nodes_shapes(const struct gy_nodes *nodes, uint64_t *shapes);

/* The first `count` nodes are launched: those that are left come after them anyhow.  Only after the first
 * function, which finds room for all nodes, has said that it may be. */
bool gy_nodes_may_drop(struct gy_pairing *pairing, const struct gy_nodes *nodes);
void gy_nodes_drop_first(struct gy_pairing *pairing, struct gy_nodes *nodes, uint32_t count);

#endif
