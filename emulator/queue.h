/* SPDX-License-Identifier: MIT */
/* Work and its order: operations, markers, streams.
 *
 * A stream is a FIFO of operations of which only the head may be in work.  The head is "started" under the
 * lock: operations that take no time (markers, waits, frees, empty nodes) are done there, and the others go
 * to the ready list of a crew (worker.h).  Nodes of a running graph are operations without a stream. */
#ifndef EMULATOR_QUEUE_H
#define EMULATOR_QUEUE_H

#include "emulator/emu.h"

#include <gantry/host_module.h>

#include <stdatomic.h>

struct gy_emu_op;
struct gy_emu_program;
struct gy_emu_region;
struct gy_emu_capture;
struct gy_emu_node;
struct gy_emu_timeline;
struct gy_emu_condition;

struct gy_emu_list {
    struct gy_emu_op *head, *tail;
    uint32_t count;
};

/* A point in a stream that others wait for, which cuEventRecord() makes.  Markers are pooled. */
struct gy_emu_marker {
    uint32_t refs;
    uint32_t host_waiters;
    atomic_bool done; /* written under the lock, read anywhere */
    bool timed;
    CUresult
        /* the error of the context that ended the work it stands for: work that waits for it fails, too */
        lost;
    uint64_t time_ns; /* the time of completion, when timed */
    struct gy_emu_list waiters;
    struct gy_emu_marker *next; /* link of the free list, or of a private chain */
    struct gy_emu_marker *also; /* link of the chain of the graph launch whose own work it waits for */
};

/* The parameters of one launch.  They are pooled, and shared by reference. */
struct gy_emu_args {
    uint32_t refs;
    uint32_t pool;            /* the free list it goes back to */
    struct gy_emu_args *next; /* free list */
    uint32_t count;
    const uint32_t *sizes; /* the kernel's: static */
    void **pointers;       /* into this block */
};

/* What cuLaunchKernelEx() has asked for besides a grid of blocks. */
struct gy_emu_attributes {
    uint32_t cluster[3];      /* blocks of a cluster; x 0: none */
    uint32_t preferred[3];    /* the preferred cluster; 0: none */
    uint32_t has_bad_cluster; /* the cluster, or the preferred one, is impossible */
    uint32_t is_cooperative;
    uint32_t starts_early; /* programmatic stream serialisation */
    uint32_t has_priority;
    int32_t priority;
}; /* without padding: it is compared as bytes */

enum gy_emu_work_kind {
    GY_EMU_WORK_EMPTY,
    GY_EMU_WORK_KERNEL,
    GY_EMU_WORK_COPY,
    GY_EMU_WORK_COPY_ROWS,
    GY_EMU_WORK_FILL,
    GY_EMU_WORK_HOST,
    GY_EMU_WORK_WRITE_VALUE,
    GY_EMU_WORK_WAIT_VALUE,
    GY_EMU_WORK_SIGNAL_SEMAPHORE,
    GY_EMU_WORK_WAIT_SEMAPHORE,
    GY_EMU_WORK_MARK,         /* complete a marker */
    GY_EMU_WORK_WAIT,         /* wait for a marker */
    GY_EMU_WORK_EVENT_RECORD, /* only in graphs: record an event at each launch */
    GY_EMU_WORK_EVENT_WAIT,   /* only in graphs */
    GY_EMU_WORK_FREE,         /* give a stream-ordered block back */
    GY_EMU_WORK_GRAPH,
    GY_EMU_WORK_LOOP, /* only in graphs: a conditional node of type WHILE */
};

/* The work of an operation. */
struct gy_emu_work {
    enum gy_emu_work_kind kind;
    uint32_t proof;                 /* its number for the proof (proof.h); 0: none */
    struct gy_emu_context *context; /* the context on whose SMs it runs */
    union {
        struct {
            const struct gantry_host_kernel *code;
            CUfunction function; /* never dereferenced, since it may be gone */
            struct gy_emu_args *args;
            uint32_t grid[3], block[3];
            uint32_t dynamic_shared_bytes;
            struct gy_emu_attributes attributes;
        } kernel;
        struct {
            char *to;
            const char *from;
            size_t bytes;
            void *staged; /* freed with the work by gy_free(); NULL when `from` is the caller's memory */
        } copy;
        struct {
            char *to;
            const char *from;
            size_t to_pitch, from_pitch, width, height;
            CUarray to_array, from_array; /* NULL: linear memory */
        } copy_rows;
        struct {
            char *to;
            size_t count;
            uint32_t value, width;
        } fill;
        struct {
            CUhostFn function;
            void *user;
        } host;
        struct {
            uint32_t *address;
            uint32_t value;
            unsigned int flags;
        } value;
        struct {
            struct gy_emu_timeline *timeline; /* a reference */
            uint64_t value;
        } semaphore;
        struct gy_emu_marker *marker;       /* a reference: MARK, WAIT */
        CUevent event;                      /* EVENT_RECORD, EVENT_WAIT */
        struct gy_emu_region *region;       /* FREE */
        struct gy_emu_condition *condition; /* a reference: LOOP */
        struct {
            struct gy_emu_program *program; /* a reference */
            struct gy_emu_marker *marks;    /* one reference per event record node, in node order */
            struct gy_emu_marker **waits;   /* one reference per event wait node, in node order, as the events
                                             * were at the call of the launch; NULL: there are none */
            struct gy_emu_marker *own;      /* a reference each: see gy_emu_program_mark_own() */
        } graph;
    };
};

enum gy_emu_op_state {
    GY_EMU_OP_QUEUED,  /* it is behind another one, or about to be started */
    GY_EMU_OP_STALLED, /* execution is on hold */
    GY_EMU_OP_BLOCKED, /* it waits for a marker, or for an earlier launch of the same graph */
    GY_EMU_OP_READY,   /* on a crew's list */
    GY_EMU_OP_RUNNING,
};

struct gy_emu_op {
    struct gy_emu_work work;
    struct gy_emu_stream *stream;   /* NULL for a graph's node */
    struct gy_emu_program *program; /* the program of which it is a node; NULL: it is a stream's */
    struct gy_emu_op *behind;       /* next in the stream, or in the free list */
    struct gy_emu_list *list;       /* the list it is on */
    struct gy_emu_op *prev, *next;  /* links of that list */
    enum gy_emu_op_state state;
    int priority;        /* of the stream, or of the graph's node; a lower number is more urgent */
    bool fresh;          /* it was pushed to an idle stream, so it obeys hold although it takes no time */
    CUresult failure;    /* how it ended */
    uint32_t helpers;    /* threads inside the grid */
    uint32_t first_sm;   /* index of the SM of block 0 */
    uint64_t log_number; /* of its entry in the order log + 1; 0: none */
    atomic_uint_fast64_t next_block; /* atomic: taken by the threads inside the grid */
    uint64_t blocks; /* units that threads take: blocks, clusters, or the whole of a cooperative grid */
};

struct gy_emu_stream {
    struct gy_emu_object object;
    struct gy_emu_context *root; /* of object.context */
    struct gy_emu_stream *prev_in_root, *next_in_root;
    struct gy_emu_op *head, *tail;
    uint64_t id;        /* unique in the process; 0 is never used */
    uint64_t pushed;    /* operations ever pushed */
    uint64_t null_seen; /* `pushed` of the null stream when this one last waited for it */
    uint64_t joined;    /* its own `pushed` when the null stream last waited for this one */
    unsigned int flags;
    int priority;
    bool is_null;
    bool has_place;                    /* see places.h */
    bool zombie;                       /* the application has destroyed it; it is freed when it is empty */
    unsigned long thread;              /* owner of a per-thread stream, else 0 */
    struct gy_emu_capture *capture;    /* NULL: not capturing */
    struct gy_emu_node **capture_tail; /* the nodes that the next captured node depends on */
    uint32_t capture_tail_count, capture_tail_room;
    CUgraphNode *capture_handles;       /* given out by cuStreamGetCaptureInfo() */
    struct gy_emu_stream *capture_next; /* other streams of the capture */
};

/* Is `other` the stream itself, or, where that is the null stream, one that orders with it? */
static inline bool gy_emu_stream_stands_for(const struct gy_emu_stream *stream,
                                            const struct gy_emu_stream *other)
{
    return other == stream || (stream->is_null && other->object.context == stream->object.context &&
                               (other->flags & CU_STREAM_NON_BLOCKING) == 0);
}

/* ---- markers, parameters, work -------------------------------------------------------------- */

struct gy_emu_marker *gy_emu_marker_create(bool timed); /* one reference; NULL: out of memory */
void gy_emu_marker_unref(struct gy_emu_marker *marker);
void gy_emu_marker_complete(struct gy_emu_marker *marker);
/* Wait for the marker on the host.  The lock is given up meanwhile; the callee holds a reference. */
void gy_emu_marker_wait(struct gy_emu_marker *marker, bool spin);

/* Make a block with the parameters of `kernel`, all values copied from params[]; NULL: out of memory. */
struct gy_emu_args *gy_emu_args_create(const struct gantry_host_kernel *kernel, void *const *params);
void gy_emu_args_unref(struct gy_emu_args *args);

/* Make `to` a second owner of the things that `work` refers to. */
void gy_emu_work_share(struct gy_emu_work *to, const struct gy_emu_work *from);
void gy_emu_work_release(struct gy_emu_work *work);

/* ---- streams and operations ----------------------------------------------------------------- */

void gy_emu_list_append(struct gy_emu_list *list, struct gy_emu_op *op);
/* Insert behind operations that are as urgent, and before those that are less urgent. */
void gy_emu_list_insert(struct gy_emu_list *list, struct gy_emu_op *op);
void gy_emu_list_remove(struct gy_emu_op *op);
struct gy_emu_op *gy_emu_list_pop(struct gy_emu_list *list);

/* Open one for the application: it takes a place, for which the lock may be given up meanwhile. */
CUresult gy_emu_stream_make(struct gy_emu_context *context, unsigned int flags, int priority,
                            struct gy_emu_stream **out);
CUresult gy_emu_stream_open(struct gy_emu_context *context, unsigned int flags, int priority,
                            struct gy_emu_stream **out);
/* Close the handle now; the stream ends when its work is done. */
void gy_emu_stream_close(struct gy_emu_stream *stream);
/* Unlink and free an empty stream. */
void gy_emu_stream_free(struct gy_emu_stream *stream);
/* Find the stream that a handle means; the special handles (0, 1, 2) mean streams of the current context.  A
 * stream whose context is gone or has failed gives that error. */
CUresult gy_emu_stream_find(CUstream handle, struct gy_emu_stream **out);
/* As find, for a call that enqueues: a context must be current, and the legacy stream is refused while
 * another stream of its context that orders with it is being captured. */
CUresult gy_emu_stream_find_for_work(CUstream handle, struct gy_emu_stream **out);
/* For work that no capture takes, not even a broken one. */
CUresult gy_emu_stream_find_uncaptured(CUstream handle, struct gy_emu_stream **out);

/* Enqueue `work`, or capture it.  Its references are taken in any case. */
CUresult gy_emu_stream_submit(struct gy_emu_stream *stream, struct gy_emu_work *work);
/* Enqueue even while capturing: for the emulator's own markers. */
CUresult gy_emu_stream_push(struct gy_emu_stream *stream, struct gy_emu_work *work);
/* Make a marker behind everything in the stream (with a reference for the caller); *out is NULL when the
 * stream is idle. */
CUresult gy_emu_stream_mark(struct gy_emu_stream *stream, struct gy_emu_marker **out);
/* The same, behind the work that counts as activity of the stream's context: see gy_emu_context_drain(). */
CUresult gy_emu_stream_mark_own(struct gy_emu_stream *stream, struct gy_emu_marker **out);
/* Make `later` wait for the work that is in `earlier` now. */
CUresult gy_emu_stream_join(struct gy_emu_stream *later, struct gy_emu_stream *earlier);
/* As gy_emu_stream_join(), for work that counts as activity of the stream's context: see
 * gy_emu_context_drain(). */
CUresult gy_emu_stream_join_own(struct gy_emu_stream *later, struct gy_emu_stream *earlier);
/* Wait until the work that is in the stream now is done. */
CUresult gy_emu_stream_drain(struct gy_emu_stream *stream);
/* Wait until the work that is in the streams of `root` now is done; `only`: of this context alone, if it is
 * not NULL. */
CUresult gy_emu_root_drain(struct gy_emu_context *root, const struct gy_emu_context *only);
/* Wait for the activity of a context, and of a root's green contexts, too.  As on a device, a graph that is
 * the last work of its stream counts without its kernels of other green contexts than the stream's. */
CUresult gy_emu_context_drain(struct gy_emu_context *context);
/* Discard all that is queued on the streams of a failed or dying root context. */
void gy_emu_root_discard(struct gy_emu_context *root);
/* What waits for work of failed contexts notices it now. */
void gy_emu_lost_notice(void);

/* True when a launch or copy on this stream now would do nothing: no-op mode and nothing queued. */
bool gy_emu_stream_is_noop(const struct gy_emu_stream *stream);
/* True when the work of this stream is done and a marker pushed now would complete at once. */
bool gy_emu_stream_is_idle(const struct gy_emu_stream *stream);

/* Queue for starting; gy_emu_pump() starts, and says whether there was anything. */
void gy_emu_op_start_later(struct gy_emu_op *op);
struct gy_emu_op *gy_emu_op_to_start(void); /* the next; NULL: there is none */
bool gy_emu_pump(void);
/* The operation is done with op->failure; its successors are queued for starting. */
void gy_emu_op_complete(struct gy_emu_op *op);

/* Operations are recycled; NULL: out of memory. */
struct gy_emu_op *gy_emu_op_take(void);
void gy_emu_op_give(struct gy_emu_op *op);
/* Keep it until the hold ends, or until its context notices that what it waits for is lost. */
void gy_emu_op_stall(struct gy_emu_op *op);
void gy_emu_op_lose(struct gy_emu_op *op);

/* ---- modes ----------------------------------------------------------------------------------- */

/* Put the devices (bit per device) on hold, and no others. */
void gy_emu_hold(uint32_t devices);
uint32_t gy_emu_held(void);
void gy_emu_step(uint64_t operations);
void gy_emu_set_noop(bool noop);
bool gy_emu_is_noop(void);
bool gy_emu_is_held(const struct gy_emu_context *context);
/* May a crew of the device take an operation now?  While on hold, taking one uses up a step. */
bool gy_emu_take_allowed(int device);
void gy_emu_take_count(int device);

#endif
