/* SPDX-License-Identifier: MIT */
/* The auto mode's choice: shall a batch be a graph, or go to streams?
 *
 * A batch is known by its shape: the launch functions that are ready at its beginning, and the number of GPU
 * tasks of its step.  It is a graph unless it is known that this gains nothing.  What is known is what came
 * of batches of its shape:
 *
 *     VAIN  none of it was a node; or most of its calls were no nodes, or cut it into graphs of few nodes; or
 *           they are so slow that launches do not matter, and the device waits for the last one; or it was
 *           STRANGE: nothing was like three quarters of its nodes or more, nor are they a beginning that was
 *           seen before
 *
 *        one task, or no credit            several tasks, and credit
 *                |                                 |
 *                v                                 v           VAIN three times in a row, a try once
 *              FIRST -------------------------> GRAPHS ------------------------------------> STREAMS
 *           (on streams)   two works or more       ^                                            |
 *                          or LONE 20 times        +--------------------------------------------+
 *                                                     a try 64 batches later, then 128, ... 512
 *
 * A LONE batch is one of one work.  Its graph is launched in less time than the work on a stream, but to make
 * the graph takes as long as some twenty launches.  So it is made when such batches have come many times.
 *
 * FIRST counts what a batch enqueues.  So a step of one task is not made a graph to find out that it is one
 * node, and a new shape goes to streams once where there is no credit.
 *
 * Credit is a number of strange graphs: one of small steps, one of large ones.  A strange graph takes it,
 * eight that are not in vain give it back.  So of large steps that never come again, but begin as others,
 * nearly all are graphs; and of those that nothing is ever like, one.
 *
 * While the credit is spent, batches in GRAPHS are graphs IF_KNOWN, unless they come from FIRST: their work
 * is noted, and where nothing is like it, it is not made a graph but played (work/play.h), unless it has
 * come before.  To find out that nothing is like it costs little that way.  Of new large shapes eight are so,
 * if no graph gains meanwhile; then the 64th is tried, the 128th behind it, and so on.
 *
 * A shape may come again without its work: where workers release tasks, a batch has now these and now those.
 * Once the credit is spent, such batches are played, and behind eight in a row their shape goes to streams.
 *
 * No time decides but that of slow calls: means of times need many batches of either kind, and the first ones
 * count.
 *
 * Everything belongs to the dispatcher's thread (GD). */
#ifndef DISPATCHER_SUBMIT_CHOICE_H
#define DISPATCHER_SUBMIT_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

#define GY_CHOICE_SHAPES 64u
#define GY_CHOICE_SMALL 32u /* a graph of fewer nodes takes the time of several steps to be made */
#define GY_CHOICE_CREDIT 1u /* of steps of either size: less than a tenth of the first 20 steps' time */
#define GY_CHOICE_GIVES 8u  /* so many graphs that are not strange give one back */
#define GY_CHOICE_VAINS 3u  /* so many in a row */
#define GY_CHOICE_PLAYS 8u  /* so many that were played in a row: these cost little */
#define GY_CHOICE_LONE \
    20u /* so many go to streams before one is made a graph, which takes the time of eight */
#define GY_CHOICE_NODES 4u /* a graph's launch takes the time of so many launches on a stream, at most */
#define GY_CHOICE_SLOW_NS 40000u /* ten launches on a stream: more saves little */
#define GY_CHOICE_CURIOUS 8u     /* so many new shapes in a row are looked at */
#define GY_CHOICE_PAUSE 64u      /* batches on streams before the next try; twice as many each time … */
#define GY_CHOICE_PAUSE_MOST 512u

enum gy_choice_state { GY_CHOICE_FIRST, GY_CHOICE_GRAPHS, GY_CHOICE_STREAMS };

/* What is chosen for a batch.  UNASKED: nothing yet.  MEETING, which the choice is not asked for: it has
 * functions that were not met (call/met.h), and goes to streams; the same graph comes again when all were. */
enum gy_choice_way { GY_WAY_UNASKED, GY_WAY_STREAMS, GY_WAY_MEETING, GY_WAY_IF_KNOWN, GY_WAY_GRAPH };

struct gy_choice_pause {
    uint32_t left; /* batches before the next try */
    uint32_t next; /* so long is the next one; 0: GY_CHOICE_PAUSE */
};

struct gy_choice_credit {
    uint32_t spent; /* at most all of it */
    uint32_t known; /* graphs that were not strange, since a strange one or since they gave back */
};

struct gy_choice_shape {
    uint64_t key;
    enum gy_choice_state state;   /* enter() of choice.c is the only writer */
    struct gy_choice_pause pause; /* STREAMS: the one that is under way */
    uint32_t vains;               /* since one gained, */
    uint32_t plays;               /* and those that were played */
    uint32_t lone;                /* FIRST: lone batches in a row, up to GY_CHOICE_LONE */
    bool has_several;             /* FIRST: a batch of two works or more was on streams */
    bool is_small;                /* its steps have less than GY_CHOICE_SMALL GPU tasks */
};

struct gy_choice {
    struct gy_choice_shape shapes[GY_CHOICE_SHAPES];
    struct gy_choice_credit small, large; /* of new shapes, by the GPU tasks of their steps */
    uint32_t looked_at;                   /* new large shapes on spent credit, since a graph has gained */
    struct gy_choice_pause large_pause;   /* behind these */
    uint64_t slow_ns;                     /* immutable; so long a call is slow; 0: GY_CHOICE_SLOW_NS */
};

/* What came of a batch. */
struct gy_choice_outcome {
    uint64_t calls; /* of launch callbacks */
    uint64_t works; /* what was enqueued through the library, at least one for each task that was released */
    uint64_t nodes; /* that were launched in graphs */
    uint64_t strange; /* of these, nodes of executable graphs that were made since nothing was like them */
    uint64_t ns;      /* of the dispatcher's thread */
    uint64_t graphs;  /* that were launched */
    uint64_t plays;   /* that were played */
};

/* Shall the batch of this shape, which begins, be a graph?  Its step has so many GPU tasks. */
enum gy_choice_way gy_choice_take(struct gy_choice *choice, uint64_t shape, uint64_t tasks);
/* It has ended; the latest batch that was asked for.  True: it went to streams since its shape is new, and is
 * a graph when it comes again. */
bool gy_choice_learn(struct gy_choice *choice, uint64_t shape, bool as_graph,
                     const struct gy_choice_outcome *outcome);

/* The counts are within their bounds. */
bool gy_choice_is_valid(const struct gy_choice *choice);

#endif
