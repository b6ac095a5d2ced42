/* SPDX-License-Identifier: MIT */
/* Edges that no data has needed: for each pair of labels, whether anything that the run has touched needs an
 * edge between two tasks of these, and how long the edges hold the second one back. */
#ifndef PROOF_NEEDLESS_H
#define PROOF_NEEDLESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Two nodes, the second by an edge or not; or one and a part.  Immutable below the count. */
struct gy_trail_node {
    uint32_t first, second; /* 0: none */
    uint32_t edge;          /* 0: none */
    uint32_t part;          /* 0: none */
};

/* Immutable below the count, but `to`. */
struct gy_trail_edge {
    uint32_t from; /* the host part of a task */
    uint32_t to;   /* the same; 0: it has not begun.  Guarded by the lock of order.c */
    uint32_t next; /* of those to the same task */
    bool waits;    /* for GPU work, too */
};

/* Written as the part begins, but for the atomics. */
struct gy_trail_part {
    uint32_t begins;           /* behind this node */
    uint32_t first_node;       /* the node that was made next: those before it do not have the part */
    uint32_t host;             /* the host part of its task */
    uint32_t last;             /* of a host part: the last part of the task */
    _Atomic(bool) has_touched; /* atomic; of a host part: the task has touched watched memory */
    _Atomic(uint64_t) ns;      /* atomic; its works have taken so long */
};

/* Something that comes after a node, which is its past, needs that the part comes before. */
struct gy_trail_need {
    uint32_t part, after;
};

struct gy_trails {
    struct gy_trail_node *nodes;              /* [node_count], from 1 on */
    struct gy_trail_edge *edges;              /* [edge_count], from 1 on */
    struct gy_trail_part *parts;              /* by number */
    struct gy_trail_need *needs;              /* [need_count] */
    _Atomic(uint32_t) node_count, edge_count; /* atomic; written under the lock of order.c */
    _Atomic(uint32_t) need_count;             /* atomic */
};

void gy_needless_tell(struct gy_trails *trails);

#endif
