/* The auto mode's choice: shall a batch be a graph, or go to streams?
 *
 * A batch is known by its shape: the launch functions that are ready at its beginning, and the number of GPU
 * tasks of its step.  It is a graph unless it is known that this gains nothing.  What is known is what came
 * of batches of its shape:
 *
 *     VAIN  it was one node or none; or most of its calls were no nodes; or they are so slow that launches do
 *           not matter, and the device waits for the last one; or nothing was like it, and it is so small
 *           that its launches cost less than making a graph
 *
 *     a step of few GPU tasks               a step of many
 *                |                                 |
 *                v                                 v           VAIN three times in a row
 *              FIRST -------------------------> GRAPHS ------------------------------------> STREAMS
 *           (on streams)   two works or more       ^                                            |
 *                                                  +--------------------------------------------+
 *                                                     32 batches later; twice as many each time
 *
 * FIRST counts what a batch enqueues.  So a step of one task is not made a graph to find out that it is one
 * node, and a small step that never comes again costs no graph.
 *
 * No time decides but that of slow calls: means of times need many batches of either kind, and the first ones
 * count.
 *
 * Everything belongs to the dispatcher's thread (GD). */
#ifndef DISPATCHER_WAYS_CHOICE_H
#define DISPATCHER_WAYS_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

#define GY_CHOICE_SHAPES 64u
#define GY_CHOICE_SMALL 32u      /* fewer nodes are launched in less time than a graph of them is made */
#define GY_CHOICE_VAINS 3u       /* so many in a row */
#define GY_CHOICE_SLOW_NS 40000u /* ten launches on a stream: of so long a call little can be saved */
#define GY_CHOICE_PAUSE 32u      /* batches on streams before the next try; twice as many each time … */
#define GY_CHOICE_PAUSE_MOST 512u

enum gy_choice_state { GY_CHOICE_FIRST, GY_CHOICE_GRAPHS, GY_CHOICE_STREAMS };

struct gy_choice_shape {
    uint64_t key;
    enum gy_choice_state state; /* enter() of choice.c is the only writer */
    uint32_t left;              /* STREAMS: batches before the next try */
    uint32_t pause;             /* of the next time; 0: GY_CHOICE_PAUSE */
    uint32_t vains;             /* in a row */
};

struct gy_choice {
    struct gy_choice_shape shapes[GY_CHOICE_SHAPES];
    uint64_t slow_ns; /* immutable; so long a call is slow; 0: GY_CHOICE_SLOW_NS */
};

/* What came of a batch. */
struct gy_choice_outcome {
    uint64_t calls; /* of launch callbacks */
    uint64_t works; /* what was enqueued through the library, at least one for each task that was released */
    uint64_t nodes; /* that were launched in graphs */
    uint64_t strange; /* of these, nodes of executable graphs that were made since nothing was like them */
    uint64_t ns;      /* of the dispatcher's thread */
};

/* Shall the batch of this shape, which begins, be a graph?  Its step has so many GPU tasks. */
bool gy_choice_take(struct gy_choice *choice, uint64_t shape, uint64_t tasks);
/* It has ended; the latest batch that was asked for. */
void gy_choice_learn(struct gy_choice *choice, uint64_t shape, bool as_graph,
                     const struct gy_choice_outcome *outcome);

#endif
