/* SPDX-License-Identifier: MIT */
/* Crossings: random programs in which many features of the library are used at once, and an oracle that says
 * whether what was observed is possible.
 *
 *   crossing_features.c  the table of features with their values, and what cannot be together
 *   crossing_program.c   a seed becomes a program: a value of each feature, and a graph of tasks
 *   crossing_trouble.c   where it fails and where it is cancelled
 *   crossing_open.c      makes what a program needs
 *   crossing_run.c       performs a program
 *   crossing_extras.c    what stands beside the graph: cycles, loops, late names, launch tasks
 *   crossing_beside.c    and what has a promise of its own: older work, debts, thieves
 *   crossing_limit.c     the same of the process's limit on GPU time
 *   crossing_tasks.c     what its tasks do, and note
 *   crossing_foreign.c   calls into CUDA that a callback makes by itself
 *   crossing_oracle.c    rules about what was noted
 *   crossing_effects.c   which values took effect
 *   crossing_matrix.c    how often two of them did so together, or three
 *   crossing_plan.c      which values the next program has
 *   crossing_pace.c      makes threads that spin take short turns
 *   crossing_jobs.c      programs one after the other, in processes of their own
 *   crossing_shrink.c    makes a program that failed smaller
 *   test_crossings.c     what is asked for
 *
 * Nothing here uses the library but through its public headers. */
#ifndef TESTS_CAMPAIGN_CROSSING_H
#define TESTS_CAMPAIGN_CROSSING_H

#include "tests/campaign/crossing_cell.h"

#include <gantry/gantry.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* ---- features -------------------------------------------------------------------------------- */

/* F(NAME, text) begins a feature, V(NAME, text, weight) is one of its values, the first of which is the plain
 * one.  Weight 0: not drawn, takes effect by itself. */
#define CROSS_FEATURES(F, V)              \
    F(SUBMISSION, "submission")           \
    V(STREAMS, "streams", 3)              \
    V(GRAPHS, "graphs", 4)                \
    V(AUTO, "auto", 3)                    \
    F(GRAPH, "graph")                     \
    V(REBUILT, "rebuilt", 3)              \
    V(LATE, "late", 2)                    \
    V(FROZEN, "frozen", 3)                \
    V(PARTS, "parts", 3)                  \
    V(RUNS, "runs", 2)                    \
    F(STABLE, "stable")                   \
    V(UNSTABLE, "no", 2)                  \
    V(STABLE, "called", 1)                \
    V(REPLAYED, "replayed", 3)            \
    F(CALLS, "calls")                     \
    V(ONE_CALL, "one", 2)                 \
    V(CALLS, "several", 3)                \
    V(AGAIN, "again", 2)                  \
    V(POLL, "poll", 2)                    \
    F(FAILURE, "failure")                 \
    V(NO_FAILURE, "no", 8)                \
    V(CALLBACK, "callback", 2)            \
    V(BODY, "body", 2)                    \
    V(MEMORY_OUT, "out-of-memory", 2)     \
    V(ABORT, "abort", 2)                  \
    V(REFUSED, "driver", 2)               \
    V(FORCED, "forced", 1)                \
    V(FAULT, "fault", 1)                  \
    F(CANCEL, "cancel")                   \
    V(NO_CANCEL, "no", 8)                 \
    V(CANCEL_START, "at-start", 1)        \
    V(CANCEL_BODY, "body", 2)             \
    V(CANCEL_RELEASE, "release", 2)       \
    V(CANCEL_LAUNCH, "launch", 2)         \
    V(CANCEL_THREAD, "thread", 2)         \
    V(CANCEL_STOPPED, "stopped", 1)       \
    V(CANCEL_DEBT, "in-debt", 1)          \
    F(MEMORY, "memory")                   \
    V(NO_MEMORY, "no", 3)                 \
    V(MEMORY_FITS, "fits", 2)             \
    V(MEMORY_WAITS, "waits", 3)           \
    F(PARTITIONS, "partitions")           \
    V(WHOLE, "no", 3)                     \
    V(TWO_PARTITIONS, "two", 2)           \
    V(BORROWING, "borrowing", 2)          \
    F(SHARE, "share")                     \
    V(NO_SHARE, "no", 4)                  \
    V(PARTITION_SHARE, "partition", 2)    \
    V(MANAGER_SHARE, "manager", 2)        \
    F(PRIORITY, "priority")               \
    V(EQUAL, "equal", 1)                  \
    V(MIXED, "mixed", 1)                  \
    V(CLASSES, "classes", 1)              \
    F(COMPLETION, "completion")           \
    V(NO_COMPLETION, "no", 2)             \
    V(COMPLETION, "last-call", 2)         \
    V(COMPLETION_MIDDLE, "first-call", 2) \
    V(DONE, "done", 3)                    \
    V(WITNESS, "witness", 3)              \
    V(ACROSS, "across", 3)                \
    F(LIGHT, "light")                     \
    V(NO_LIGHT, "no", 2)                  \
    V(LIGHT, "light", 1)                  \
    V(SPAWNED, "spawned", 1)              \
    V(ADDED, "added", 2)                  \
    F(MANAGERS, "managers")               \
    V(ALONE, "one", 3)                    \
    V(TWO_MANAGERS, "two", 2)             \
    V(THREE_MANAGERS, "three", 1)         \
    F(CPU_WAIT, "cpu-wait")               \
    V(CPU_HYBRID, "hybrid", 1)            \
    V(CPU_BLOCK, "block", 5)              \
    V(CPU_YIELD, "yield", 1)              \
    V(CPU_SPIN, "spin", 1)                \
    V(CPU_ADAPTIVE, "adaptive", 1)        \
    F(GPU_WAIT, "gpu-wait")               \
    V(GPU_HYBRID, "hybrid", 2)            \
    V(GPU_BLOCK, "block", 5)              \
    V(GPU_YIELD, "yield", 1)              \
    V(GPU_SPIN, "spin", 1)                \
    V(GPU_ADAPTIVE, "adaptive", 1)        \
    F(WORKERS, "workers")                 \
    V(ONE_WORKER, "one", 2)               \
    V(TWO_WORKERS, "two", 2)              \
    V(FOUR_WORKERS, "four", 1)            \
    V(INLINE, "inline", 1)                \
    V(NO_POOL, "none", 1)                 \
    F(WAITERS, "waiters")                 \
    V(STOP, "stop", 2)                    \
    V(WAIT, "wait", 1)                    \
    V(WAITERS, "threads", 2)              \
    F(GUESTS, "gpu-work-of")              \
    V(GUESTS, "who-waits-too", 3)         \
    V(THREADS_ONLY, "threads-only", 1)    \
    F(FOREIGN, "foreign")                 \
    V(NO_FOREIGN, "no", 3)                \
    V(RAW_COPY, "copy", 2)                \
    V(HOST_FUNCTION, "host-function", 2)  \
    V(JOINED, "joined-fork", 2)           \
    V(UNJOINED, "open-fork", 2)           \
    V(RAW_BATCH, "batch-copy", 2)         \
    V(RAW_ALLOC, "allocation", 2)         \
    V(LEAVE, "leave-graph", 2)            \
    V(OWN_GRAPH, "graph", 2)              \
    F(RECORDING, "recording")             \
    V(UNRECORDED, "off", 4)               \
    V(RECORDED, "on", 1)                  \
    F(CONTEXT, "context")                 \
    V(PRIMARY, "primary", 2)              \
    V(OWN, "own", 1)                      \
    V(ADOPTED, "adopted", 1)              \
    F(DEVICES, "devices")                 \
    V(ONE_DEVICE, "one", 6)               \
    V(TWO_DEVICES, "two", 1)              \
    F(COPY, "copy")                       \
    V(NO_COPY, "no", 2)                   \
    V(ENGINE, "engine", 2)                \
    V(BATCH, "batch", 2)                  \
    V(QUEUE, "queue", 1)                  \
    V(BEYOND, "beyond", 1)                \
    F(SYNCHRONOUS, "synchronous")         \
    V(ASYNCHRONOUS, "no", 4)              \
    V(SYNCHRONOUS, "yes", 1)              \
    F(GROUP, "group")                     \
    V(NO_GROUP, "no", 3)                  \
    V(GROUP, "yes", 1)                    \
    F(START, "start")                     \
    V(ONE_BY_ONE, "one-by-one", 3)        \
    V(TOGETHER, "together", 2)            \
    F(HEAP, "heap")                       \
    V(NO_HEAP, "no", 2)                   \
    V(FREE_AFTER, "free-after", 1)        \
    V(LAUNCH_ALLOC, "launch-alloc", 1)    \
    F(WFI, "wfi")                         \
    V(PRECISE, "precise", 3)              \
    V(WIDE, "device-wide", 1)             \
    F(STREAM_LIMIT, "streams")            \
    V(MANY_STREAMS, "many", 3)            \
    V(TWO_STREAMS, "two", 1)              \
    V(ONE_STREAM, "one", 1)               \
    V(SINGLE_STREAM, "single", 1)         \
    F(SYNC_POINT, "sync-point")           \
    V(NO_SYNC_POINT, "no", 3)             \
    V(SYNC_POINT, "asked", 1)             \
    F(NAMES, "names")                     \
    V(UNNAMED, "no", 2)                   \
    V(NAMED, "yes", 1)                    \
    V(FORWARD, "forward", 1)              \
    V(LATE_NAME, "late", 1)               \
    F(REFERENCE, "reference")             \
    V(NO_REFERENCE, "no", 2)              \
    V(REFERENCE_RELEASE, "release", 2)    \
    V(REFERENCE_THREAD, "thread", 2)      \
    V(REFERENCE_FAILED, "failed", 2)      \
    F(CYCLE, "cycle")                     \
    V(NO_CYCLE, "no", 5)                  \
    V(CYCLE, "running", 1)                \
    F(ORDER, "order")                     \
    V(ORDERED, "steps", 4)                \
    V(FREE_TASKS, "free-tasks", 2)        \
    V(FREE_STEPS, "free-steps", 1)        \
    F(CONDITION, "condition")             \
    V(NO_CONDITION, "no", 4)              \
    V(BRANCH, "branch", 1)                \
    V(LOOP, "loop", 1)                    \
    F(BRACKET, "launch-tasks")            \
    V(NO_BRACKET, "no", 4)                \
    V(BRACKET, "yes", 1)                  \
    F(CHANGE, "change")                   \
    V(UNCHANGED, "no", 2)                 \
    V(SET_ARG, "set-arg", 1)              \
    V(INVALIDATE, "invalidate", 1)        \
    F(BESIDE, "beside")                   \
    V(NO_BESIDE, "no", 4)                 \
    V(OLDER, "older-work", 1)             \
    V(STEAL, "stealing", 1)               \
    V(GREEN, "green-context", 1)          \
    V(LIMIT, "sm-limit", 1)               \
    F(STEPS, "steps")                     \
    V(ONE_STEP, "one", 1)                 \
    V(STEPS, "several", 4)

enum feature {
#define CROSS_F(name, text) FEATURE_##name,
#define CROSS_V(name, text, weight)
    CROSS_FEATURES(CROSS_F, CROSS_V)
#undef CROSS_F
#undef CROSS_V
        FEATURES
};

enum value {
#define CROSS_F(name, text)
#define CROSS_V(name, text, weight) VALUE_##name,
    CROSS_FEATURES(CROSS_F, CROSS_V)
#undef CROSS_F
#undef CROSS_V
        VALUES
};

struct cross_feature {
    const char *name;
    int first, count; /* of its values in cross_values */
};

struct cross_value {
    const char *name;
    int feature;
    uint32_t weight;
};

extern struct cross_feature cross_features[FEATURES];
extern struct cross_value cross_values[VALUES];
void cross_features_open(void);
/* Returns the value that is written "feature=value"; -1: there is none. */
int cross_value_find(const char *text, size_t length);
/* Returns why two values never take effect together; NULL: they may. */
const char *cross_impossible(int a, int b);
/* Returns why a value, or two together, are left out as long as the library is known to be wrong there;
 * NULL: they are not left out. */
const char *cross_not_yet(int a, int b);
/* Promises that belong to no feature's value: does the library keep it already? */
enum cross_promise {
    PROMISE_ORDER, /* GPU work of a step comes behind that of the step before; else the GPU is waited for */
    PROMISE_NEVER_STARTED, /* reset() reports to tasks that were in no part that they never ran */
};
bool cross_expects(enum cross_promise promise);
/* Values with threads that spin: if there are more of these threads than processors, a program takes many
 * times as long.  Beside a debt, which takes 70 ms of GPU time to show, they use up that much of each
 * processor; in most programs a lost context ends it before. */
bool cross_are_dear(int a, int b);
bool cross_spins(int value);
bool cross_is_slow(int value); /* a value that spins, or a debt: its programs have few steps */
/* Two values, or three, of different features, no pair of which is listed above; this looks into a table. */
bool cross_may_meet(int a, int b);
bool cross_three_may_meet(int a, int b, int c);
extern bool cross_everything; /* also the values that are left out */

/* ---- programs -------------------------------------------------------------------------------- */

enum {
    NODES_MOST = 48, /* in all managers */
    STEPS_MOST = CROSS_STEPS,
    CALLS_MOST = 4,
    PREDS_MOST = 4,
    MANAGERS_MOST = 3,
    DEVICES_MOST = 2,
    GROUPS_MOST = 4, /* groups of declared memory */
    NOBODY = 255,
};

/* From the first cell: where the stamps are, and the bytes of both. */
#define CROSS_STAMPS_AT ((NODES_MOST + MANAGERS_MOST) * sizeof(struct cross_cell))
#define CROSS_CELL_BYTES (CROSS_STAMPS_AT + (NODES_MOST * CROSS_STAMP + 16) / 16 * 16)

enum cross_kind { KIND_CPU, KIND_SYNC, KIND_HTOD, KIND_KERNEL, KIND_DTOH };

/* The place of a task that is read, relative to the one that reads. */
enum cross_relation { READ_BEFORE, READ_BEHIND };

struct cross_node {
    uint8_t manager, kind;
    uint8_t preds[PREDS_MOST], pred_count;
    uint8_t reads[CROSS_READS], relations[CROSS_READS], read_count;
    uint8_t calls;                 /* calls that enqueue a kernel each */
    uint8_t idle;                  /* calls before those, which enqueue nothing and ask to be called again */
    uint8_t poll;                  /* the node for whose release it asks again and again; NOBODY */
    uint8_t tells;                 /* the node that its completion is for; NOBODY */
    uint8_t tell_call, tell_value; /* tell_value: a value of FEATURE_COMPLETION */
    uint8_t foreign; /* a value of FEATURE_FOREIGN; VALUE_NO_FOREIGN: it calls nothing by itself */
    uint8_t lets_go; /* the node to which its release gives a reference back; NOBODY */
    uint8_t held;    /* extra references that other nodes or threads give back in each run */
    uint8_t group;   /* its group of declared memory; NOBODY */
    uint8_t partition, light, light_value, continuation; /* light: how many tasks it makes */
    uint8_t device;                                      /* of a fleet */
    uint8_t copies, heap; /* values of FEATURE_COPY and FEATURE_HEAP, the first one: none */
    bool thread_lets_go;  /* a thread gives one of `held` back */
    bool apart; /* its callback is a function of its own: the library learns by function what cannot be
                   captured */
    bool stable, named, asks, dropped, independent;
    uint32_t pause_ns;
    uint64_t ancestors, offspring; /* sets of nodes */
};

struct cross_trouble { /* a failure, or a cancel */
    /* a value of FEATURE_FAILURE or FEATURE_CANCEL; the first one of the feature: there is none */
    uint8_t value;
    uint8_t manager, step, call;
    uint8_t node; /* the node that fails, or that cancels its manager; NOBODY */
};

enum { MORE = 3, TROUBLES_MOST = 3, NO_VALUE = 255 };

struct cross_program {
    uint64_t seed;
    uint8_t value[FEATURES];      /* enum value, for each feature */
    uint8_t more[FEATURES][MORE]; /* further values of the feature, for other nodes or steps; NO_VALUE */
    uint32_t node_count, manager_count, steps, group_count;
    struct cross_node nodes[NODES_MOST];
    uint64_t part[STEPS_MOST];                /* the nodes that run */
    uint8_t roots[STEPS_MOST][MANAGERS_MOST]; /* the node at which a part begins; NOBODY: everything runs */
    struct cross_trouble fails[TROUBLES_MOST], cancels[TROUBLES_MOST];
    uint64_t group_bytes[GROUPS_MOST];
    uint8_t drawn[FEATURES]; /* how many nodes have a value of the feature */
    bool has_stamps;         /* kernels touch bytes that are no atomics */
    uint8_t stamp_off;       /* the node that writes its own one byte off; NOBODY */
};

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define CROSS_SANITIZED true
#else
#define CROSS_SANITIZED false
#endif

/* GPU time that the debtor's share may have saved up: more than its other kernels take, which under
 * sanitizers are slower.  Otherwise it owes before it should. */
#define CROSS_SAVED_NS (CROSS_SANITIZED ? UINT32_C(25000000) : UINT32_C(15000000))

struct cross_choice {         /* what the command line says besides the seed */
    int forced[FEATURES];     /* enum value, for each feature; -1: it is drawn */
    int more[FEATURES][MORE]; /* further values of the same feature; -1: none */
    uint64_t dropped;         /* the nodes that are left out */
    bool never_spins;         /* in a plan: values that spin are combined with no other */
    bool has_stamps;          /* kernels touch bytes that are no atomics, see struct cross_work */
    uint8_t stamp_off;        /* the node that writes its own one byte off; NOBODY */
};

void cross_choice_init(struct cross_choice *choice);
/* How many values of the feature a program may have: several of a feature that takes effect node by node or
 * step by step. */
int cross_most(int feature);
/* Does the value go with all forced ones, also as one more of its own feature? */
bool cross_goes_with(const struct cross_choice *choice, int value);
bool cross_goes_beside(const struct cross_choice *choice, int value);

void cross_program_draw(struct cross_program *program, uint64_t seed, const struct cross_choice *choice);
/* Does each feature then have a value that goes with the others? */
bool cross_choice_fits(uint64_t seed, const struct cross_choice *choice);
void cross_program_print(const struct cross_program *program, FILE *file);
/* A hash: the same number for the same question about the same program. */
uint32_t cross_pick(const struct cross_program *program, uint32_t about, uint32_t node, uint32_t below);

static inline bool cross_has(const struct cross_program *program, int value)
{
    int feature = cross_values[value].feature;
    bool has = program->value[feature] == value;
    for (int k = 0; k < MORE; k++) {
        has = has || program->more[feature][k] == value;
    }
    return has;
}

/* How many values of the feature the program has. */
static inline uint32_t cross_value_count(const struct cross_program *program, int feature)
{
    uint32_t count = 1;
    while (count <= MORE && program->more[feature][count - 1] != NO_VALUE) {
        count++;
    }
    return count;
}

/* Where work shall be launched again, the tasks that come behind no CPU task, which are one unit, do only
 * work for which that is possible. */
bool cross_stays_plain(const struct cross_program *program, uint32_t node);

/* crossing_trouble.c: the program's trouble of a kind; NULL: there is none. */
void cross_draw_trouble(struct cross_program *program);
/* In how many steps there is room for several failures or cancels; 0: there is one of each at most.
 * `together`: a failure and a cancel, of different managers, share one. */
uint32_t cross_trouble_steps(const struct cross_program *program, bool together);
void cross_print_trouble(const struct cross_program *program, FILE *file);
const struct cross_trouble *cross_fails(const struct cross_program *program, int value);
const struct cross_trouble *cross_cancels(const struct cross_program *program, int value);
/* Does the value lose the context, or may it? */
const struct cross_trouble *cross_loses(const struct cross_program *program);
/* The trouble at the node in the step. */
const struct cross_trouble *cross_fails_at(const struct cross_program *program, uint32_t node, uint32_t step);
bool cross_cancels_at(const struct cross_program *program, int value, uint32_t node, uint32_t step);

static inline bool cross_is_gpu(const struct cross_node *node)
{
    return node->kind >= KIND_HTOD;
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* What was noted of one node in one step. */
struct cross_seen {
    atomic_uint begins, ends;               /* of bodies or callbacks */
    atomic_ullong first_begin, last_end;    /* times of a clock that counts events */
    atomic_uint releases, result, returned; /* a status, as a number without its sign */
    atomic_uint enqueued[CALLS_MOST];       /* 1: that call's kernel was accepted */
    atomic_uint last_index, finished;       /* of the calls; finished: the last one ended the task */
    atomic_uint wrong_index, called_again;
    atomic_uint told, told_version;     /* 1: the completion was accepted, when so many calls had enqueued */
    atomic_uint looked, looked_version; /* 1: the CPU node of the completion has run and looked */
    atomic_uint light_made, light_run, light_refused;
    atomic_ullong light_end;
    atomic_uint refusal;  /* the status with which the library refused a call of the callback, as a number */
    atomic_uint declined; /* the same for a completion that came too late, in the latest call */
    atomic_uint group_overlap; /* declared memory: another group that does not fit beside it, plus 1 */
    atomic_uint foreign_code;  /* the result of the callback's own CUDA call */
    atomic_uint failed_by;     /* a reference was given back as failed */
    atomic_uint doomed;        /* an added task that must end before this one and failed */
};

/* A set of values, one bit each. */
enum { VALUE_WORDS = (VALUES + 63) / 64 };
struct cross_effects {
    uint64_t words[VALUE_WORDS];
};

struct cross_run {
    const struct cross_program *program;
    gantry_fleet *fleet; /* NULL: one device */
    uint32_t devices;
    gantry_context *contexts[DEVICES_MOST]; /* of the fleet's devices; the first one is `context` */
    gantry_heap *heaps[DEVICES_MOST];
    gantry_kernel *kernels[DEVICES_MOST];
    void *scratches[DEVICES_MOST];  /* device memory, 64 bytes per node */
    gantry_context *base, *context; /* `base`: the context that is adopted */
    gantry_cpu_dispatcher *cpus;
    gantry_heap *heap;
    gantry_kernel *kernel;
    gantry_taskman *managers[MANAGERS_MOST];
    gantry_task *tasks[NODES_MOST];
    struct cross_arg {
        struct cross_run *run;
        uint32_t node;
    } args[2][NODES_MOST]; /* two of each: a change of the argument gives the task the other one */
    uint32_t groups[MANAGERS_MOST][GROUPS_MOST];
    struct cross_cell *cells; /* one per node; the stamps behind them */
    struct cross_record *records;
    uint8_t *cells_device, *records_device;
    struct cross_extra { /* the things beside the nodes of a manager */
        struct cross_run *run;
        uint32_t manager, rounds, behind; /* rounds of a loop; `behind`: a node, or NOBODY */
        gantry_task *entry, *body, *condition, *ends[2];
        gantry_launch_tasks bracket;
        atomic_uint bodies, ended[2], checks, chosen, done_before, checks_before;
    } extras[MANAGERS_MOST];
    gantry_copy_queue *queues[NODES_MOST];
    void *own_streams[NODES_MOST], *own_events[NODES_MOST][2], *own_graphs[NODES_MOST];
    atomic_uint hosts[NODES_MOST], hosts_expected[NODES_MOST][STEPS_MOST];
    struct cross_seen seen[STEPS_MOST][NODES_MOST];
    _Atomic(gantry_status) start[STEPS_MOST][MANAGERS_MOST]; /* callbacks read it while it is written */
    gantry_status stop[STEPS_MOST][MANAGERS_MOST];
    gantry_status waited[STEPS_MOST][MANAGERS_MOST];
    atomic_uint step[MANAGERS_MOST], ended[MANAGERS_MOST], gives_up; /* ended: how many steps are over */
    atomic_uint resetting, reset_releases[NODES_MOST];
    atomic_uint cancelled[STEPS_MOST][MANAGERS_MOST]; /* accepted calls of gantry_taskman_cancel() */
    atomic_uint cancel_refused;
    atomic_uint lost, aborted, exhausted; /* the failures that were caused */
    atomic_uint cycles, cycle_released, finished_checks, changed, references_given, waits_done, groups_used,
        sync_points;
    atomic_uint together, beyond, late_names, leaves, heap_done, added_failed;
    /* how often values took effect that belong to a node or a manager: foreign work, copies, blocks,
     * conditions */
    atomic_uint done[VALUES];
    struct cross_besides { /* crossing_beside.c */
        struct cross_beside *words, *words_device;
        gantry_kernel *older, *rows, *units;
        gantry_task *quick;
        _Atomic(void *) older_stream;
        atomic_uint turn, same_stream, told; /* counts of older work */
        atomic_uint in_debt, victims, owes;  /* owes: a cancel came while the share owed GPU time */
        /* the cancelling thread and the stopping one write them; read when both have ended */
        double cancelled_at, stopped_at;
        atomic_uint thieves, greens, limits;
    } beside;
    gantry_dispatcher_stats stats;
    struct cross_effects effects;
    atomic_ullong clock;
    bool unsettled;     /* the context is lost, and its work may still run */
    const char *broken; /* the first rule that did not hold; the text belongs to the run */
    char broken_text[512], log_line[512];
};

/* Perform the program and check it; false, with the reason in `broken`, when a rule did not hold. */
bool cross_run(struct cross_run *run, const struct cross_program *program);
/* Note the rule that does not hold, once; any thread. */
void cross_break(struct cross_run *run, const char *format, ...) GANTRY_PRINTF(2, 3);
/* The same when a call was refused; returns whether it was accepted. */
bool cross_must(struct cross_run *run, gantry_status status, const char *what);
/* crossing_open.c */
bool cross_open(struct cross_run *run);
void cross_close(struct cross_run *run);
/* The dispatchers' statistics: those of all devices added up, of the members that are used here. */
void cross_stats(struct cross_run *run, gantry_dispatcher_stats *sum);
bool cross_two_devices(void); /* this machine has two of them */
uint32_t cross_step_of(struct cross_run *run, uint32_t node);
uint64_t cross_now(struct cross_run *run);
/* The progress of the process, for the watchdog: it grows as long as something happens. */
extern atomic_ullong cross_progress;

/* crossing_tasks.c: the words between which a node's copies in a step go. */
uint32_t *cross_copy_source(struct cross_cell *cell, const struct cross_node *node);
uint32_t *cross_copy_dest(struct cross_cell *cell, const struct cross_node *node, uint32_t step);

/* crossing_extras.c */
bool cross_extras_build(struct cross_run *run, uint32_t manager);
void cross_extras_started(struct cross_run *run, uint32_t manager);
void cross_extras_stopped(struct cross_run *run, uint32_t step, uint32_t manager, gantry_status stop);
gantry_status cross_enqueue_extra(struct cross_run *run, gantry_launch *launch, uint32_t cell);

/* The result of a faulty kernel: an uncorrectable memory error, which its own context does not survive. Work
 * beside it in other contexts must not notice, while an illegal address would end all of them. */
#define CROSS_FAULT 214

/* crossing_beside.c */
bool cross_beside_open(struct cross_run *run, gantry_module *module);
bool cross_beside_build(struct cross_run *run, uint32_t manager);
void cross_beside_cancel(struct cross_run *run, uint32_t step);
/* Does the fault come when GPU time is owed, and not before? */
bool cross_beside_breaks(const struct cross_program *program);
void cross_beside_stopped(struct cross_run *run, uint32_t step, uint32_t manager);
void cross_beside_check(struct cross_run *run);
void cross_beside_close(struct cross_run *run);
bool cross_green(struct cross_run *run); /* crossing_foreign.c */

/* crossing_limit.c: it begins before the program's context is made, and does not end with it. */
bool cross_limit_begin(struct cross_run *run);
void cross_limit_end(struct cross_run *run);
bool cross_limit_runs(void);

/* crossing_tasks.c */
gantry_status cross_body(gantry_task *task, void *arg);
gantry_launch_result cross_launch(gantry_launch *launch, void *arg);
/* The calling thread waits for managers, or will wait. */
extern _Thread_local bool cross_waits;
gantry_launch_result cross_launch_apart(gantry_launch *launch, void *arg);
void cross_release(gantry_task *task, void *arg, gantry_status result);
void cross_cancel(struct cross_run *run, uint32_t manager);
/* Give back a reference that holds a node; refused when the node does not run now.  `cause`: give it back
 * as failed. */
void cross_give_back(struct cross_run *run, uint32_t node, gantry_status cause);
void cross_make_lost(struct cross_run *run);

/* crossing_foreign.c */
struct gantry_emu_control;
extern struct gantry_emu_control cross_emu;
bool cross_is_device(void); /* $GANTRY_TEST_DRIVER is "cuda" */
bool cross_foreign_open(void);
bool cross_foreign_prepare(struct cross_run *run);
void cross_foreign_end(struct cross_run *run);
gantry_launch_result cross_foreign(struct cross_run *run, gantry_launch *launch, uint32_t node, uint32_t step,
                                   uint32_t call);
int cross_synchronize(struct cross_run *run);
int64_t cross_live_objects(void);

/* crossing_pace.c */
uint32_t cross_processors(void); /* processors that this process may use */
void cross_pace_open(void);
void cross_pace_begin(const struct cross_program *program);
void cross_pace_end(void);

/* crossing_oracle.c */
void cross_check(struct cross_run *run);
void cross_check_end(struct cross_run *run);
bool cross_may_be_lost(const struct cross_run *run);

/* crossing_effects.c */
void cross_effects(const struct cross_run *run, struct cross_effects *effects);

/* ---- the matrix ------------------------------------------------------------------------------ */

enum { CROSS_TRIPLES_MOST = 200 }; /* meetings beyond this number are not counted */

struct cross_matrix { /* processes share it */
    uint32_t least, least_dear,
        /* how many meetings are asked for, written before the first program: of pairs, of pairs that are
         * expensive together, of triples (0: triples do not count) */
        least_triples;
    atomic_ullong programs;
    atomic_uint planned[VALUES], single[VALUES];
    atomic_uint pairs[VALUES][VALUES], tried[VALUES][VALUES]; /* pairs: [a][b] with a < b */
    /* programs that had both values, whether these took effect or not; indexed like `pairs` */
    atomic_uint both[VALUES][VALUES];
    atomic_uchar triples[VALUES][VALUES][VALUES]; /* [a][b][c] with a < b < c */
};
void cross_matrix_count(struct cross_matrix *matrix, const struct cross_program *program,
                        const struct cross_effects *effects);
uint32_t cross_matrix_met(const struct cross_matrix *matrix, int a, int b);
uint32_t cross_matrix_had(const struct cross_matrix *matrix, int a, int b);
/* the number of meetings asked for */
uint32_t cross_matrix_least(const struct cross_matrix *matrix, int a, int b);
uint32_t cross_matrix_met_three(const struct cross_matrix *matrix, int a, int b, int c);
void cross_matrix_print(const struct cross_matrix *matrix, FILE *file);
/* Count pairs and triples that met fewer times than is asked for, and that may meet; prints up to `most` of
 * them. */
uint32_t cross_matrix_missing(const struct cross_matrix *matrix, uint32_t most, FILE *file);
uint32_t cross_matrix_missing_triples(const struct cross_matrix *matrix, uint32_t most, FILE *file);
/* Count pairs that never met in so many programs that had both values; prints them. */
uint32_t cross_matrix_never(const struct cross_matrix *matrix, uint32_t tried, FILE *file);
/* How many of those pairs have values that do not spin; it counts up to `most` or a few more. */
uint32_t cross_matrix_missing_calm(const struct cross_matrix *matrix, uint32_t most);
/* Count pairs that are listed as impossible and took effect; prints them. */
uint32_t cross_matrix_unexpected(const struct cross_matrix *matrix, FILE *file);

/* crossing_plan.c: gives each feature that is not forced the value that has met those of the others least. */
enum cross_spin { CROSS_MAY_SPIN, CROSS_SPINS_FIRST, CROSS_NEVER_SPINS };
void cross_plan(struct cross_matrix *matrix, uint64_t number, enum cross_spin spin,
                struct cross_choice *choice);
void cross_force(struct cross_choice *choice, int value);

#endif
