/* SPDX-License-Identifier: MIT */
/* A task and its edges.
 *
 * References: the thread that takes a task's last reference dispatches it, so everything that happens to it
 * before (filling a placeholder, declaring edges, presetting a failure) is done by a thread that holds one.
 * That, and not a lock, is what makes the plain fields below safe to read after the count reached 0. */
#ifndef TASKMAN_GRAPH_TASK_H
#define TASKMAN_GRAPH_TASK_H

#include "taskman/graph/owner.h"

#include <gantry/task.h>

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

/* An edge lives in its predecessor's list.  `next` goes from NULL to the following edge (by an adder,
 * under the manager's lock) or to &gy_edge_closed (by the releaser), whichever comes first: that one
 * compare-and-swap decides whether an edge is in time or late. */
struct gy_edge {
    uintptr_t to;                   /* immutable once linked but for freeze(); enum gy_edge_mark and the
                                     * successor, or a group of edges to it */
    _Atomic(struct gy_edge *) next; /* atomic; see above */
};
_Static_assert(sizeof(struct gy_edge) == 16, "16 bytes per edge are promised");

enum gy_edge_mark {
    GY_EDGE_DONE = 1,    /* the successor waits until the GPU has done the predecessor's work, not just until
                          * that    was launched */
    GY_EDGE_GROUPED = 2, /* leads to a struct gy_join_group */
    GY_EDGE_MARKS = 63,  /* tasks and groups are aligned to 64 bytes */
};

/* Some of the edges to a task of a frozen graph that has very many, see taskman/joins.c. */
struct gy_join_group {
    _Alignas(64) _Atomic(int32_t) left; /* atomic; edges of this run whose predecessors have not ended */
    int32_t armed;                      /* immutable while running; what `left` begins with */
    int32_t edges;                      /* immutable once frozen; in all */
    gantry_task *join;                  /* immutable once frozen */
};

extern struct gy_edge gy_edge_closed;

enum gy_task_flag {
    GY_TASK_LIGHT = 1,     /* created by gantry_taskman_create_light(); never changes */
    GY_TASK_HEARD = 2,     /* a release callback hears of its end, or the proof: spares the release path a
                            * cache line */
    GY_TASK_FILLED = 4,    /* submitted; clear: a name that was only referred to */
    GY_TASK_LATE_NAME = 8, /* a placeholder made while running: its first reference is its filler's */
    GY_TASK_ODD = 16,      /* submitted in an odd epoch while running, see GY_WORK_…; never changes */
    GY_TASK_FROZEN = 32,   /* belongs to a frozen graph */
    GY_TASK_CHOSEN = 64,   /* depends on a condition: starts when chosen */
    GY_TASK_PARKED =
        64, /* light tasks, which no condition chooses: lost its last reference before the start */
    GY_TASK_SPAWNED = 128, /* made by spawn.c: its place is used again once it has ended */
};

/* What `traits` holds besides the kind; plain CPU tasks, the quick case, have none. */
enum gy_task_trait {
    GY_TRAIT_KINDS = 7,
    GY_TRAIT_CONDITION = 8,
    GY_TRAIT_HIGH = 16,                           /* priority */
    GY_TRAIT_LOW = 32,                            /* priority */
    GY_TRAIT_AWAITED = 32,                        /* sync points: some edge is GY_EDGE_DONE */
    GY_TRAIT_INDEPENDENT = 32,                    /* GPU: not ordered behind the step before */
    GY_TRAIT_CLASSED = 64,                        /* `cpu_class` or `is_critical` is not 0 */
    GY_TRAIT_STABLE = 64,                         /* GPU: launches the same in every run */
    GY_TRAIT_MEMORY = 128,                        /* `memory` is not 0 */
    GY_TRAIT_PORT = GY_TRAIT_HIGH | GY_TRAIT_LOW, /* CPU: named by `body.port` is who runs it */
    GY_TRAIT_QUEUED = GY_TRAIT_HIGH | GY_TRAIT_LOW | GY_TRAIT_CLASSED, /* goes through special queues */
};

enum { GY_WAIT_SET_PLAIN = 1 };

struct gy_gpu_mark;

/* The first cache line is what running and releasing a task touches. */
struct gantry_task {
    _Alignas(64) _Atomic(int32_t) references; /* atomic; goes up only from above 0 */
    _Atomic(uint8_t) state;                   /* atomic; written by gy_task_enter() alone */
    _Atomic(uint8_t) flags;                   /* atomic; written under the manager's lock */
    uint8_t traits;                           /* immutable once submitted; kind and enum gy_task_trait */
    _Atomic(int8_t) preset;                   /* atomic; not GANTRY_OK: a predecessor failed so */
    struct gy_task_owner *owner;              /* immutable */
    _Atomic(struct gy_edge *) edges;          /* atomic; first dependent, in order of declaration */
    gantry_task *next;                        /* guarded by the queue that the task is in */
    union {
        /* Atomic; the timeline points to come after, in the dispatcher's encoding; 0: none.  Bit 0 set:
         * plain, it may be copied, and dropped by being forgotten. */
        _Atomic(uint64_t) wait_set;
        _Atomic(struct gy_gpu_mark *) mark; /* GPU tasks, from before the first call until the last has
                                             * returned: dispatcher thread only; of the GPU time in a
                                             * recording; NULL: nothing is recorded */
    };
    union {
        uint32_t launch_index; /* GPU tasks: dispatcher thread only; 0: not called; see gy_task_calls() */
        int32_t armed;         /* other tasks: taskman/'s, see gy_task_armed() */
    };
    union {
        uint16_t stream;            /* GPU tasks: dispatcher thread only; pool index + 1, 0: none yet */
        _Atomic(uint16_t) expected; /* CPU tasks: atomic; in a recording, an arrow leads here */
    };
    _Atomic(uint16_t) successors; /* atomic; how many were declared so far, saturating, with
                                   * GY_SUCCESSORS_HOST */
    union {
        gantry_task_fn run;
        gantry_launch_fn launch;
        uint64_t port; /* GY_TRAIT_PORT: its number, see port.h; never 0 */
    } body;            /* immutable once submitted */
    void *arg;         /* immutable once submitted */

    union {
        struct {
            struct gy_edge *last_edge; /* guarded by the manager's lock; NULL: none yet */
            int32_t gpu_armed;         /* immutable while running; see gy_task_armed() */
            union {
                uint8_t cpu_class; /* immutable once submitted; 0: not limited */
                uint8_t partition; /* GPU tasks: see gy_task_partition(); immutable once submitted, but for
                                    * gy_gpu_user_move() */
            };
            union {
                uint8_t is_critical; /* immutable once submitted; raises the bandwidth gate while it runs */
                uint8_t device; /* immutable once submitted; GPU tasks: its number in the manager's fleet */
            };
            uint16_t memory; /* immutable once submitted; see memory.c; 0: none */
        };
        struct gy_edge own_edge; /* light tasks: the one to the continuation; guarded as all edges */
    };
    gantry_task_release_fn release; /* immutable once submitted */
    const char *label;              /* immutable once submitted; may be NULL */
    const char *name;               /* immutable; NULL: unnamed */
    uint64_t context_id;            /* immutable once submitted */
    uint32_t predecessors;          /* guarded by the manager's lock; edges that end here */
    uint32_t index;                 /* immutable; order of creation */
    uint32_t scratch;               /* guarded by the manager's lock; graph searches */
    _Atomic(int32_t) result;        /* atomic; final once the state is FAILED; see gy_task_calls(), too */
};
/* In `successors`: one of them is no GPU task. */
enum { GY_SUCCESSORS_HOST = 0x8000, GY_SUCCESSORS_MOST = 0x7fff };
_Static_assert(offsetof(struct gantry_task, arg) < 64, "one cache line");
_Static_assert(sizeof(struct gantry_task) <= 128, "128 bytes per task are promised");

static inline uintptr_t gy_edge_to(gantry_task *successor, bool when_done)
{
    return (uintptr_t)successor | (when_done ? GY_EDGE_DONE : 0);
}

/* The cache line that the end of the predecessor writes to: the successor's or the group's. */
static inline void *gy_edge_line(const struct gy_edge *edge)
{
    return (void *)(edge->to & ~(uintptr_t)GY_EDGE_MARKS); /* NOLINT: a tagged pointer */
}

/* The group of an edge with GY_EDGE_GROUPED. */
static inline struct gy_join_group *gy_edge_group(const struct gy_edge *edge)
{
    return gy_edge_line(edge);
}

static inline gantry_task *gy_edge_successor(const struct gy_edge *edge)
{
    return __builtin_expect((edge->to & GY_EDGE_GROUPED) != 0, 0) ? gy_edge_group(edge)->join
                                                                  : gy_edge_line(edge);
}

static inline bool gy_edge_is_done(const struct gy_edge *edge)
{
    return (edge->to & GY_EDGE_DONE) != 0;
}

/* Set all fields to 0, line by line: for more at once compilers use a string instruction, which takes longer
 * to start than this takes to end. */
static inline void gy_task_clear_all(gantry_task *task)
{
    memset(task, 0, 64);
    memset((char *)task + 64, 0, sizeof(*task) - 64);
}

/* One more reference, or `count`, unless the task was dispatched already; false then.  The caller holds the
 * lock of the task's manager unless that is running and the task not part of a frozen graph. */
bool gy_task_hold_some(gantry_task *task, int32_t count);
static inline bool gy_task_hold(gantry_task *task)
{
    return gy_task_hold_some(task, 1);
}
/* GANTRY_ERR_LATE_DEPENDENCY: why it could not be held; `what`, "reference: task", begins the message. */
gantry_status gy_task_refuse_hold(const gantry_task *task, const char *what);

/* For making plans.  Indices are dense, in order of creation. */
typedef void gy_task_visit(void *user, gantry_task *task);
void gy_task_each_dependent(const gantry_task *task, gy_task_visit *visit, void *user);
uint32_t gy_task_index(const gantry_task *task);
bool gy_task_is_stable(const gantry_task *task);
/* Does the application hold references on the task, in every run?  While the graph is being frozen. */
bool gy_task_is_held_by_others(const gantry_task *task);

enum { GY_MOST_CHOICES = 64 };

/* Make the task fail when its turn comes.  The caller holds a reference. */
void gy_task_preset_failure(gantry_task *task, gantry_status why);

static inline gantry_task_kind gy_task_kind(const gantry_task *task)
{
    return (gantry_task_kind)(task->traits & GY_TRAIT_KINDS);
}

static inline bool gy_task_is_gpu(const gantry_task *task)
{
    return gy_task_kind(task) >= GANTRY_TASK_HTOD;
}

/* gantry_task_label() of one that was submitted. */
static inline const char *gy_task_label(const gantry_task *task)
{
    return task->label != NULL ? task->label : task->name != NULL ? task->name : "task";
}

/* The limited class, which only CPU tasks have; 0: none. */
static inline uint32_t gy_task_class(const gantry_task *task)
{
    return (task->traits & GY_TRAIT_CLASSED) != 0 ? task->cpu_class : 0;
}

static inline bool gy_task_is_for_port(const gantry_task *task)
{
    return (task->traits & GY_TRAIT_PORT) == GY_TRAIT_PORT;
}

static inline bool gy_task_is_critical(const gantry_task *task)
{
    return (task->traits & GY_TRAIT_CLASSED) != 0 && task->is_critical != 0;
}

/* A sync point of which some dependent waits for the GPU.  One that has nothing of the GPU before it is like
 * any other. */
static inline bool gy_task_is_awaited(const gantry_task *task)
{
    return task->traits == (GANTRY_TASK_SYNC_POINT | GY_TRAIT_AWAITED) &&
           atomic_load_explicit(&task->wait_set, memory_order_acquire) != 0;
}

static inline bool gy_task_is_condition(const gantry_task *task)
{
    return (task->traits & GY_TRAIT_CONDITION) != 0;
}

/* The references with which a task of a frozen graph begins each run: what its predecessors and the
 * application hold.  Written by freeze(), and kept where releasing the task finds it in its first line.  In a
 * graph with conditions it is written by each start: what a task begins every round of a loop with, which in
 * a run of a part are its predecessors in that part. */
static inline int32_t gy_task_armed(const gantry_task *task)
{
    return gy_task_is_gpu(task) ? task->gpu_armed : task->armed;
}

static inline void gy_task_arm(gantry_task *task, int32_t references)
{
    *(gy_task_is_gpu(task) ? &task->gpu_armed : &task->armed) = references;
}

static inline bool gy_task_has(const gantry_task *task, enum gy_task_flag flag)
{
    return (atomic_load_explicit(&task->flags, memory_order_relaxed) & (unsigned)flag) != 0;
}

/* The dependent of a light task; NULL: it has none, or is no light task. */
static inline gantry_task *gy_task_continuation(const gantry_task *task)
{
    const struct gy_edge *edge =
        gy_task_has(task, GY_TASK_LIGHT) ? atomic_load_explicit(&task->edges, memory_order_relaxed) : NULL;
    return edge != NULL ? gy_edge_successor(edge) : NULL;
}

/* Under the manager's lock. */
static inline void gy_task_set(gantry_task *task, enum gy_task_flag flag)
{
    unsigned flags = atomic_load_explicit(&task->flags, memory_order_relaxed);
    atomic_store_explicit(&task->flags, (uint8_t)(flags | (unsigned)flag), memory_order_relaxed);
}

/* Under the manager's lock. */
static inline void gy_task_clear(gantry_task *task, enum gy_task_flag flag)
{
    unsigned flags = atomic_load_explicit(&task->flags, memory_order_relaxed);
    atomic_store_explicit(&task->flags, (uint8_t)(flags & ~(unsigned)flag), memory_order_relaxed);
}

#endif
