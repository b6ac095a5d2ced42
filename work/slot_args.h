/* SPDX-License-Identifier: MIT */
/* Parameters that say where the blocks of a kernel leave their records, in a graph that is launched again.
 *
 * Each launch has other places for its records.  So that the nodes of a graph that is kept stay as they are,
 * they are given the address of a *slot*, a word on the device which has the address of the records: 0 while
 * there are none.  Kernels read it when they start (profile_kernel.h).  The slots of an executable graph are
 * a table, one for each node, which is written before each launch that needs it: see
 * work/slots.h.
 *
 *                given               the call has ended          launched by a graph that is kept
 *    (nothing) ---------> GIVEN ----------------------------> PLACED -----------------------------> gone
 *                           |  the kernel does not know slots,  |
 *                           |  or has no such parameter         |  any other graph: it gets the address itself
 *                           +-----------------> gone            +-----------------------------> gone
 *
 * What a callback gets is a stand-in, which kernels that it launches have as a parameter: the address of a
 * slot that is always 0, another one for each that the call asks for.  So equal steps have equal parameters,
 * and a kernel that is launched by another way reads that it leaves no records.
 *
 * Entries [0, placed) are PLACED and in the order of their nodes, the others are GIVEN in the order of the
 * calls.  One thread at a time. */
#ifndef WORK_SLOT_ARGS_H
#define WORK_SLOT_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gy_nodes;

#define GY_SLOT_STAND_INS 64u /* of one call; what it asks for beyond them it gets itself */
#define GY_SLOT_BITS 6u       /* what tells the address of a slot: see profile_kernel.h */

struct gy_slot_arg {
    uint64_t call;  /* the upper bits of the names of its nodes: see gy_nodes_name() */
    uint64_t value; /* where the blocks leave their records, and what else the parameter says; 0: nowhere */
    size_t at;      /* PLACED: the place of the parameter in nodes->bytes */
    uint32_t node;  /* PLACED: the node; GIVEN: the first that may have it */
    uint32_t stand_in; /* the number of it in its call */
};

struct gy_slot_args {
    struct gy_slot_arg *list;
    size_t room;
    uint32_t count, placed;
    uint64_t stand_ins; /* the address of the first one, a multiple of 8; 0: there are none */
};

/* The parameter of a kernel whose slot is the one of that number. */
static inline uint64_t gy_slot_address(uint64_t table, uint32_t number)
{
    return (table + 8 * (uint64_t)number) | GY_SLOT_BITS;
}

/* The next kernel of the call leaves its records at `value`: this is the parameter for it, which is `value`
 * itself where there is no room. */
uint64_t gy_slot_args_give(struct gy_nodes *nodes, uint64_t value);

/* All calls have ended: find the nodes. */
void gy_slot_args_place(struct gy_nodes *nodes);
/* Nodes from the `count`-th on are gone, or the first ones are. */
void gy_slot_args_cut(struct gy_slot_args *args, uint32_t count);
void gy_slot_args_drop_first(struct gy_slot_args *args, uint32_t count, size_t bytes);

/* PLACED: give the parameters of the first `count` nodes the addresses themselves. */
void gy_slot_args_settle(struct gy_nodes *nodes, uint32_t count);
/* PLACED: for as long as the driver reads them, the parameters of the first `count` nodes are the addresses
 * of slots in `table`, of the numbers of the nodes; the second gives them their stand-ins back. */
void gy_slot_args_point(struct gy_nodes *nodes, uint32_t count, uint64_t table);
void gy_slot_args_unpoint(struct gy_nodes *nodes, uint32_t count);
/* The number of PLACED ones of the first `count` nodes. */
uint32_t gy_slot_args_count(const struct gy_slot_args *args, uint32_t count);
/* The one of the node; NULL: it has none. */
const struct gy_slot_arg *gy_slot_args_of(const struct gy_slot_args *args, uint32_t node);

bool gy_slot_args_are_valid(const struct gy_nodes *nodes);

#endif
