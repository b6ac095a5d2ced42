/* The auto mode's choice: shall a batch be a graph, or go to streams?
 *
 * A batch is known by its shape: the launch functions that are ready at its beginning, and the number of GPU
 * tasks of its step.  A graph that is like an earlier one costs a tenth of the launches on streams; one that
 * has to be made costs about as much as these; one of a few nodes costs more.  So batches are tried as
 * graphs, and what came of it decides about the next ones of the shape:
 *
 *     GAIN  it was like an earlier one
 *     NONE  an executable graph was made that nothing was like, or most calls were no nodes,
 *           or the calls were so slow that launches do not matter
 *     FEW   it had a few nodes only, so its launch costs more than theirs
 *
 *            no credit                next batch
 *     NEW ------------> SEEN ------------------------+
 *      |                                             v       NONE twice more, or FEW
 *      +--- credit: as a graph --- NONE -------> TRIED ----------------------------> STREAMS
 *      |                              ^            |                                  |  ^
 *      +--- GAIN ---> GRAPHS ---------+            | GAIN                             |  | twice as many
 *                       ^      NONE                |         32 batches later: tried  |  | as before
 *                       +--------------------------+<---------------------------------+--+
 *
 * Shapes that are never seen again would be tried once each.  So there is a credit for shapes that are new:
 * what nothing was like takes from it, what was like an earlier graph gives back.  Without credit a shape is
 * tried when it comes for the second time.
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
#define GY_CHOICE_CREDIT 8u
#define GY_CHOICE_NONES 3u       /* so many in a row */
#define GY_CHOICE_FEW 3u         /* a graph of fewer nodes costs more than their launches */
#define GY_CHOICE_SLOW_NS 40000u /* ten launches on a stream: of so long a call little can be saved */
#define GY_CHOICE_PAUSE 32u      /* batches on streams before the next try; twice as many each time … */
#define GY_CHOICE_PAUSE_MOST 512u

enum gy_choice_state { GY_CHOICE_NEW, GY_CHOICE_SEEN, GY_CHOICE_TRIED, GY_CHOICE_GRAPHS, GY_CHOICE_STREAMS };

struct gy_choice_shape {
    uint64_t key;
    enum gy_choice_state state; /* enter() of choice.c is the only writer */
    uint32_t left;              /* STREAMS: batches before the next try */
    uint32_t pause;             /* of the next time; 0: GY_CHOICE_PAUSE */
    uint32_t nones;             /* in a row */
};

struct gy_choice {
    struct gy_choice_shape shapes[GY_CHOICE_SHAPES];
    uint32_t debt;    /* the credit is GY_CHOICE_CREDIT less this */
    uint64_t slow_ns; /* immutable; so long a call is slow; 0: GY_CHOICE_SLOW_NS */
};

/* What came of a batch. */
struct gy_choice_outcome {
    uint64_t calls;   /* of launch callbacks */
    uint64_t nodes;   /* that were launched in graphs */
    uint64_t strange; /* of these, nodes of executable graphs that were made since nothing was like them */
    uint64_t ns;      /* of the dispatcher's thread */
};

/* Shall the batch of this shape, which begins, be a graph? */
bool gy_choice_take(struct gy_choice *choice, uint64_t shape);
/* It has ended; the latest batch that was asked for. */
void gy_choice_learn(struct gy_choice *choice, uint64_t shape, bool as_graph,
                     const struct gy_choice_outcome *outcome);

#endif
