/* SPDX-License-Identifier: MIT */
/* Noted work that is enqueued on the streams of its lanes, call by call, in place of being made a graph.
 *
 * The nodes of a lane are enqueued in their order on the lane's stream.  What a node comes after on other
 * lanes, its stream waits for.  Seen from outside it is as if the graph were launched on `home`: each other
 * stream first waits for what is on home, and at the end home waits for all of them.
 *
 *      home      ──●──[ a1 ]──[ a2 ]─────────[ a3 ]──┬──►     ● an event; a stream that waits for one: ┬
 *                  └─────────┐      └──────┐         │
 *      another   ────────────┴──[ b1 ]─────┴─[ b2 ]──●──►     b2 comes after a2
 *
 * Or each lane but home's is on a side stream (side_streams.h).  Then nothing of it is on the lane's stream,
 * as with a graph: what comes there next does not wait for it, nor it for what is there.
 *
 *             begin             all nodes are enqueued, some at a time                end
 *      IDLE ---------> PLAYING -----------------------------------------> PLAYING ---------> IDLE
 *
 * Events are recorded behind the nodes that others wait for, GY_PLAY_EVENTS in turn, and made when they are
 * first needed.  Where one was used again before the last that waits for its node has come, that waits for
 * all that is on the node's stream by then.
 *
 * One thread at a time; the context is current, and none of the streams is captured. */
#ifndef WORK_PLAY_H
#define WORK_PLAY_H

#include "work/nodes.h"
#include "work/side_streams.h"

#define GY_PLAY_EVENTS 1024u
#define GY_PLAY_LANES 65u

struct gy_play_event {
    CUevent native; /* NULL: not made yet */
    uint32_t node;  /* it was last recorded behind this one, in its lane */
};

struct gy_play_lane {
    CUstream stream;                /* that its nodes were noted for, and */
    CUstream on;                    /* where they are enqueued */
    struct gy_side_stream *side;    /* that is this one's; NULL: it is `stream` */
    uint32_t last;                  /* the node that was enqueued last; GY_PLAY_NONE: none */
    uint32_t behind[GY_PLAY_LANES]; /* per lane: it has waited for the nodes there below this number */
};

#define GY_PLAY_NONE UINT32_MAX

struct gy_player {
    struct gy_context *context;    /* immutable */
    struct gy_side_streams *sides; /* immutable */
    struct gy_nodes *nodes;        /* those that are being played; NULL: IDLE */
    uint32_t count, next;          /* so many of them, and the next one */
    uint32_t *marks; /* per node: GY_PLAY_NONE, or the number of the event behind it, or MARKED */
    size_t marks_room;
    uint32_t *ends; /* per node: the first end behind it, or behind an end the next one; GY_PLAY_NONE: none */
    size_t ends_room;
    uint32_t lane_count;
    uint32_t latest;                          /* the lane of the node that was looked at last */
    struct gy_play_lane lanes[GY_PLAY_LANES]; /* the first one is that of home */
    bool is_apart;                            /* the lanes are found already, and have side streams */
    uint32_t next_event;
    struct gy_play_event events[GY_PLAY_EVENTS];
};

void gy_player_init(struct gy_player *player, struct gy_context *context, struct gy_side_streams *sides);
/* It is IDLE, or the context is lost. */
void gy_player_fini(struct gy_player *player);

/* Find a side stream for each lane of the first `count` nodes but home's, all of which are of
 * no partition and no priority: to play them begins next.  False: there are none, or others wait for so many
 * of the nodes that events would be used again. */
GANTRY_MUST_CHECK bool gy_play_apart(struct gy_player *player, struct gy_nodes *nodes, uint32_t count,
                                     CUstream home);
/* Begin to play the first `count` nodes; parameters that were PLACED are settled (work/slot_args.h).
 * On failure, of this as of the others, it is IDLE: parts of the work may have been enqueued.
 * @retval GANTRY_ERR_OUT_OF_HOST_MEMORY, and the driver's errors */
GANTRY_MUST_CHECK gantry_status gy_play_begin(struct gy_player *player, struct gy_nodes *nodes,
                                              uint32_t count, CUstream home);
/* Enqueue `most` nodes, or as many as there are left. */
GANTRY_MUST_CHECK gantry_status gy_play_some(struct gy_player *player, uint32_t most);
/* All nodes were enqueued: home comes after them from here on. */
GANTRY_MUST_CHECK gantry_status gy_play_end(struct gy_player *player);
static inline bool gy_play_has_more(const struct gy_player *player)
{
    return player->nodes != NULL && player->next < player->count;
}

/* Enqueue the work of all nodes on the one stream that all of it was noted for. */
GANTRY_MUST_CHECK gantry_status gy_nodes_play(struct gy_nodes *nodes, CUstream stream);

bool gy_player_is_valid(const struct gy_player *player);

#endif
