/* SPDX-License-Identifier: MIT */
/**
 * @file dispatcher.h
 * The three-phase GPU dispatcher: takes ready GPU tasks from task managers, gives each a stream, calls
 * their launch callbacks phase by phase (HtoD → Kernel → DtoH), orders streams among each other with
 * events only where the graph needs it, and completes CPU tasks when the GPU is done.
 *
 * A dispatcher belongs to a context (context.h) and is shared by any number of task managers.
 *
 * Threading: launch-scope functions (those taking a gantry_launch) are legal only inside the launch
 * callback they were handed to, on its thread.  Everything else: any thread.
 */
#ifndef GANTRY_DISPATCHER_H
#define GANTRY_DISPATCHER_H

#include <gantry/heap.h>
#include <gantry/module.h>
#include <gantry/task.h>

GANTRY_BEGIN_DECLS

/** A device in use: a CUDA context, its heap, its dispatcher (context.h). */
typedef struct gantry_context gantry_context;
/** What launches the GPU tasks of a context.  It belongs to the context. */
typedef struct gantry_dispatcher gantry_dispatcher;

/* ---- inside a launch callback -------------------------------------------------------------- */

/** The task's CUstream: the same one at every call of the task's callback.
 *
 * While a batch is to be a graph (GANTRY_SUBMISSION_GRAPHS), what is enqueued on it from here on is captured
 * and joins the batch when the callback returns.  If it turns out then that it cannot be captured (a call
 * that stream capture forbids, a fork that is not joined, pageable memory), nothing of the call has happened,
 * what was before it is launched, and **the callback is called once more with the same index**, on the plain
 * stream, where its function stays.  What it did to the application's own data before must bear that.
 * gantry_launch_leave_graph() avoids all that.  GANTRY_SUBMISSION_AUTO captures nothing here, but for stable
 * tasks of frozen graphs: what was noted before is launched, and the call goes on on the plain stream; see
 * gantry_launch_capture_stream().  It also makes the first call of each launch function on a CUDA context on
 * its plain stream, where libraries may allocate.  Ask on the callback's own thread.
 *  @return NULL and an error only while a batch is to be a graph: on another thread, or when the driver
 *          refuses */
GANTRY_API void *gantry_launch_stream(const gantry_launch *launch);
/** The same stream, and the callback says that all it enqueues there may be captured, and that it bears to be
 * called again.  So GANTRY_SUBMISSION_AUTO, too, makes what is enqueued there part of graphs, as a child
 * graph: for a hundred calls to short kernels that takes about half the time of a hundred calls on streams.
 * It is for kernels, copies and fills of your own, and for libraries that allocate nothing, keep nothing and
 * wait for nothing in the call.  What cannot be captured costs a second call of the callback, on the plain
 * stream, where its function stays, as described above.  A callback that also calls gantry_launch_stream() is
 * as one that calls only that.  In streams mode both are the same.
 *  @return NULL and an error as gantry_launch_stream() */
GANTRY_API void *gantry_launch_capture_stream(const gantry_launch *launch);
/** 0 at the first call of the task's callback in this run, then 1, 2, … */
GANTRY_API uint64_t gantry_launch_index(const gantry_launch *launch);
/** The task whose callback this is.  NULL: there is none yet, the callback is asked what it accesses
 * (gantry_task_desc.calls_say_accesses). */
GANTRY_API gantry_task *gantry_launch_task(const gantry_launch *launch);
/** The context of the dispatcher that calls. */
GANTRY_API gantry_context *gantry_launch_context(const gantry_launch *launch);
/** Whose streams the task's work goes to; NULL only where gantry_launch_task() is. */
GANTRY_API gantry_partition *gantry_launch_partition(const gantry_launch *launch);

/** Blocks of `kernel` that the task's partition runs at once, with `threads` per block and so much dynamic
 * shared memory each: the largest grid whose blocks may wait for each other.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL or no threads
 *  @retval GANTRY_ERR_STATE             not in a launch callback
 *  @retval GANTRY_ERR_DRIVER, GANTRY_ERR_DEVICE_LOST */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_launch_max_blocks(gantry_launch *launch,
                                                                    const gantry_kernel *kernel,
                                                                    uint32_t threads, size_t shared_bytes,
                                                                    uint32_t *out);

/** Launch `kernel` on the task's stream.  `args` has one pointer per kernel parameter; the values are
 *  copied before the call returns.  Sizes are blocks and threads; `shared_bytes` is dynamic shared
 *  memory per block.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL or a size of 0
 *  @retval GANTRY_ERR_DRIVER            the driver refused the launch
 *  @retval GANTRY_ERR_DEVICE_LOST       the context has failed; nothing was launched */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_launch_kernel(gantry_launch *launch, gantry_kernel *kernel,
                                                                gantry_dim3 grid, gantry_dim3 block,
                                                                size_t shared_bytes, void **args);

/** Copy `bytes` asynchronously on the task's stream with the copy engines.  Host memory must be page-
 *  locked (GANTRY_MEMORY_PINNED or the application's own) and stay untouched until the copy is done.
 *  0 bytes do nothing, whatever the addresses are.  An address in the heap's memory must lie in a live block,
 *  and the bytes must not leave it; other memory is taken as it is (with GANTRY_CHECK=1 the driver is asked
 *  for its bounds).
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  an address is NULL, or the bytes leave their block; the message names
 *                                       both sizes and the block.  Nothing was enqueued
 *  @retval GANTRY_ERR_STATE             not in a launch callback
 *  @retval GANTRY_ERR_DRIVER            the driver refused the copy
 *  @retval GANTRY_ERR_DEVICE_LOST       the context has failed; nothing was enqueued */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_launch_copy_htod(gantry_launch *launch, void *device,
                                                                   const void *host, size_t bytes);
/** The same from device memory to page-locked host memory, with the same statuses:
 *  @retval GANTRY_OK  and what gantry_launch_copy_htod() returns */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_launch_copy_dtoh(gantry_launch *launch, void *host,
                                                                   const void *device, size_t bytes);

/** Copy between two places on the device.  Bounds and statuses as gantry_launch_copy_htod(). */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_launch_copy_dtod(gantry_launch *launch, void *to,
                                                                   const void *from, size_t bytes);

/** Fill device memory with `count` copies of the low `pattern_bytes` (1, 2 or 4) bytes of `pattern`;
 *  `device` is aligned to that size.  A count of 0 does nothing.  Bounds and statuses as
 *  gantry_launch_copy_htod(), and
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  another size of pattern, or `device` is not aligned to it */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_launch_fill(gantry_launch *launch, void *device,
                                                              uint32_t pattern, uint32_t pattern_bytes,
                                                              size_t count);

/** A point that nothing passes: what any task has launched so far comes before, and what any task
 *  launches after this call comes after it, on every stream.  Costs an event and a wait per stream in use.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL
 *  @retval GANTRY_ERR_DRIVER, GANTRY_ERR_DEVICE_LOST */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_launch_request_sync_point(gantry_launch *launch);

/** "What follows cannot be captured": launches the graph of what was noted so far and makes the task's stream
 * a plain one, which it stays for this callback's function.  Needed before calls of the application's own
 *  that stream capture forbids (allocation, synchronising, pageable memory); does nothing when nothing is
 *  being captured.  The gantry_launch_* functions need no such care.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL
 *  @retval GANTRY_ERR_DRIVER            also: what the callback has done before cannot be captured; it stays
 *                                       in the graph, nothing of the call happens, and it is called once more
 *  @retval GANTRY_ERR_DEVICE_LOST */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_launch_leave_graph(gantry_launch *launch);

/** Complete `task` only when the GPU has finished everything enqueued so far on this task's stream,
 *  which includes all GPU work this task depends on.  Adds a reference to `task` at once and removes it
 *  from the completion thread when the GPU is done (or when the context is lost: the task is then
 *  released as FAILED).  Any kind of task of any manager; it must not have been dispatched, so declare
 *  that it starts after the task that makes this call.  May be called any number of times.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL
 *  @retval GANTRY_ERR_LATE_DEPENDENCY   `task` was dispatched already
 *  @retval GANTRY_ERR_DEVICE_LOST       the context has failed; no reference was added */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_launch_add_completion(gantry_launch *launch,
                                                                        gantry_task *task);

/** The same for everything that was enqueued so far through this dispatcher, by whatever task of whatever
 *  manager, on all of its streams: what PxTask's addCompletionPrereq() waits for.  No stream waits for
 * another; one completion per stream with unfinished work is used.  A stable task that calls it is called in
 * every run.
 *  @retval other  as gantry_launch_add_completion() */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_launch_add_completion_of_all(gantry_launch *launch,
                                                                               gantry_task *task);

/** Fail with a status of its own: `return gantry_launch_fail(launch, GANTRY_ERR_IO);`.  gantry_task_result()
 * and, for the first task that fails, gantry_taskman_stop() return it then.  A callback that returns
 *  GANTRY_LAUNCH_FAILED by itself fails with the status of the latest call of the library that failed in it,
 * or with GANTRY_ERR_TASK_FAILED.  Anything but the status of a failure counts as
 * GANTRY_ERR_INVALID_ARGUMENT.
 *  @return GANTRY_LAUNCH_FAILED */
GANTRY_API gantry_launch_result gantry_launch_fail(gantry_launch *launch, gantry_status why);

/** Give a block of the context's heap back once the GPU has finished everything enqueued so far on this
 * task's stream, which includes all GPU work this task depends on.  Nobody waits; from now on the block is
 * not the application's any more.  gantry_launch_alloc() on the same stream may use its memory at once.  If
 * the context is lost first, it goes back then.  NULL is ignored.  In a call that is made once more
 * (gantry_launch_stream()) the blocks that were given back before may be used and given back again.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT    launch is NULL
 *  @retval GANTRY_ERR_STATE               not in a launch callback
 *  @retval GANTRY_ERR_NOT_FOUND           not a live block of the heap
 *  @retval GANTRY_ERR_OUT_OF_HOST_MEMORY  the block is live still
 *  @retval GANTRY_ERR_DEVICE_LOST         the context has failed; the block is live still */
GANTRY_API gantry_status gantry_free_after(void *pointer, gantry_launch *launch);

/** As gantry_heap_alloc() on the context's heap, but memory that waits for this task's stream may be given
 * out at once: use it only in work enqueued from now on by this task, and by tasks that depend on it; the CPU
 * must not touch it before such work is done. Statuses as gantry_heap_alloc(), and
 *  @retval GANTRY_ERR_STATE  not in a launch callback */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_launch_alloc(gantry_launch *launch, gantry_memory_kind kind,
                                                               size_t bytes, size_t alignment,
                                                               gantry_alloc_site site, void **out);

/* ---- the dispatcher ------------------------------------------------------------------------ */

/** Keep the dispatcher from reading its queue until the matching finish_group, so that tasks submitted
 *  in between enter the same batch.  Nests.  A batch that is already running takes new tasks anyway. */
GANTRY_API void gantry_dispatcher_start_group(gantry_dispatcher *dispatcher);
/** Let the dispatcher read its queue again; one call for each gantry_dispatcher_start_group(). */
GANTRY_API void gantry_dispatcher_finish_group(gantry_dispatcher *dispatcher);

/** Three tasks around a burst of launches, for parts of a program that launch together without knowing each
 *  other:
 *
 *    preparations -> pre_launch -> GPU tasks -> post_launch -> finished -> whatever needs the results
 *
 *  Each part declares that its preparations finish before `pre_launch` (or makes that the continuation of its
 *  light tasks), its GPU tasks start after `pre_launch` and finish before `post_launch`, and its last tasks
 * start after `finished`.  So all GPU tasks become ready at once, into one batch, and one wait serves
 * everybody. */
typedef struct gantry_launch_tasks {
    size_t struct_size;       /* in: sizeof of the caller */
    gantry_task *pre_launch;  /* a sync point */
    gantry_task *post_launch; /* a GPU task of flavour DtoH with no work of its own: released when everything
                               * before it was launched */
    gantry_task *finished;    /* a sync point: released when the GPU has finished all of that */
} gantry_launch_tasks;

/** Submit the three tasks, with the order between them declared.  They are tasks like all others: may hold
 *  references, fail when something before them does, are part of a frozen graph, and, submitted while a step
 *  runs, each keep one reference until the submitter removes it.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL or a struct_size too small
 *  @retval GANTRY_ERR_UNSUPPORTED       the manager has no GPU dispatcher
 *  @retval GANTRY_ERR_STATE             the manager is stopped
 *  @retval GANTRY_ERR_OUT_OF_HOST_MEMORY  what was submitted of them stays, as tasks without dependents */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_taskman_submit_launch_tasks(gantry_taskman *manager,
                                                                              gantry_launch_tasks *out);

/** How GPU work reaches the device. */
typedef enum gantry_submission {
    GANTRY_SUBMISSION_DEFAULT = 0, /* $GANTRY_SUBMISSION ("streams", "graphs", "auto") if set, else AUTO */
    GANTRY_SUBMISSION_STREAMS = 1, /* each launch at once, on its stream */
    GANTRY_SUBMISSION_GRAPHS = 2,  /* each batch is noted, and launched as a graph at its end (a large one in
                                    * parts): much less host time per launch, but nothing starts before that.
                                    * A callback whose work turns out not to be capturable, or that waits for
                                    * the context or frees memory, is called again with the same index on a
                                    * plain stream, see gantry_launch_stream(); nobody else's work is lost by
                                    * that.  Nodes keep their partitions' priorities */
    GANTRY_SUBMISSION_AUTO = 3,    /* graphs, but streams for batches that gain nothing by it, and for
                                    * callbacks that ask for their stream by gantry_launch_stream() */
} gantry_submission;

/** Takes effect with the next batch.  Synchronous mode uses streams anyhow.  The first change to graphs or
 *  auto asks the driver how it tells ends, and makes a green context that runs nothing (4 MiB of device
 * memory): some 1.2 ms, if the context has begun with streams.  While a GRAPHS batch is noted the driver
 * refuses cuCtxSynchronize(), cuCtxRecordEvent() and cuCtxWaitEvent() to all threads.  In AUTO it does so
 * only while callbacks enqueue on gantry_launch_capture_stream() and while stable tasks are recorded, where a
 * graph has copies of other devices' memory, and where the context is not the device's primary one or the
 * driver is older than CUDA 12.5.  Any thread.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL or no such mode, also in $GANTRY_SUBMISSION (for DEFAULT) */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_dispatcher_set_submission(gantry_dispatcher *dispatcher,
                                                                            gantry_submission submission);

/** False: everything runs on one stream, in the order it is launched; true (the default): on as many as the
 *  graph is wide.  Takes effect with the tasks that become ready from now on. */
GANTRY_API void gantry_dispatcher_set_concurrent_streams(gantry_dispatcher *dispatcher, bool concurrent);
/** What gantry_dispatcher_set_concurrent_streams() was told last; false when the context has one stream only.
 */
GANTRY_API bool gantry_dispatcher_get_concurrent_streams(const gantry_dispatcher *dispatcher);

/** True once a CUDA error has made further GPU work impossible.  Never goes back. */
GANTRY_API bool gantry_dispatcher_failure_detected(const gantry_dispatcher *dispatcher);

/** Fail the dispatcher as if a driver call had failed for good: nothing more is launched, everything
 *  queued or in flight is released as FAILED. */
GANTRY_API void gantry_dispatcher_force_failure(gantry_dispatcher *dispatcher);

/** Counters since creation; consistent with each other only while nothing is running. */
typedef struct gantry_dispatcher_stats {
    size_t struct_size;            /* in: sizeof of the caller */
    uint64_t tasks;                /* GPU tasks released, by any fate */
    uint64_t tasks_failed;         /* of those, FAILED */
    uint64_t batches;              /* round trips of the state machine that launched something */
    uint64_t launch_calls;         /* calls of launch callbacks */
    uint64_t kernels;              /* kernels launched through this library */
    uint64_t copies;               /* copies enqueued on copy engines */
    uint64_t batched_copies;       /* descriptors executed by the batched copy kernel */
    uint64_t wfi_edges;            /* stream waits inserted */
    uint64_t wfi_dropped;          /* waits that earlier waits already implied */
    uint64_t events_recorded;      /* events recorded for waits and completions */
    uint64_t completions;          /* completion references taken */
    uint64_t flushes;              /* completion flushes */
    uint32_t streams_created;      /* size of the stream pool */
    uint32_t streams_peak;         /* most streams in use at once */
    uint64_t phase_ns[3];          /* dispatcher time in HtoD, Kernel, DtoH phases, ns of host time */
    uint64_t frees_deferred;       /* calls of gantry_free_after() */
    uint64_t frees_reused;         /* of those, blocks that gantry_launch_alloc() took for their stream */
    uint64_t frees_pending;        /* of those, blocks whose stream has not passed yet */
    uint64_t phase_tasks[3];       /* tasks whose launching ended in them */
    uint64_t graph_launches;       /* batches, or parts or pieces of one, launched as a graph */
    uint64_t graph_instantiations; /* executable graphs that were made, since no earlier one would do */
    uint64_t graph_cuts;           /* captures that ended before their batch: large enough, or they had to */
    uint64_t memory_admitted; /* times that declared memory was held, see gantry_taskman_declare_memory() */
    uint64_t memory_waited;   /* of these (or still waiting), times that it had to wait first */
    uint64_t memory_forced;   /* of these, let in beyond what there is: see docs/guides/heap.md */
    uint64_t memory_wait_ns;  /* time waited, in all */
    uint64_t memory_tasks_waiting;                        /* tasks that wait now */
    uint64_t memory_held_bytes[GANTRY_MEMORY_KIND_COUNT]; /* declared bytes held now, each
                                                           * declaration rounded up to 2 MiB */
    uint64_t graph_replays; /* graphs of stable tasks launched without calling them; not counted above */
    uint64_t graph_nodes;   /* nodes of graph_launches: kernels, copies, fills, and what else was enqueued */
    uint64_t graph_patches; /* of graph_launches, those of an executable graph that was kept and patched */
    uint64_t graph_nodes_kept;  /* nodes of these; over graph_nodes this is the hit rate */
    uint64_t graph_nodes_set;   /* of these, nodes that differed from what the executable graph had */
    uint64_t graphs_kept;       /* executable graphs that are kept now: 64 at most */
    uint64_t graphs_kept_nodes; /* nodes of these: 65536 at most */
    uint64_t peer_copies;       /* of `copies`, with an end in the heap of a context of another device */
    uint64_t staged_copies;  /* of these, through the host, since one device does not reach the other one */
    uint64_t peer_by_engine; /* copies between devices, single or of batches, that copy engines did
                              * without the host; those through the host are staged_copies */
    uint64_t peer_by_kernel; /* that the copy kernel did */
    uint64_t peer_bytes_by_engine; /* bytes of these */
    uint64_t peer_bytes_by_kernel; /* bytes of these */
    uint64_t peer_bytes_by_host;   /* bytes of staged_copies */
    uint64_t completion_looks;     /* looks at the events of pending completions, each at all that are due */
    uint64_t completion_naps;      /* naps of completion threads between two looks */
    uint64_t completion_awaited;   /* ends of GPU work that were waited for, each of one completion or more */
    uint64_t completion_unseen_ns; /* time between these and the look before, in all: none was told later
                                    * after its end than so; see docs/guides/waiting.md */
    uint64_t graph_plays; /* batches, or parts of one, that were noted for a graph and went to streams: the
                           * driver refused to make or to launch the graph; or auto makes none of work that
                           * nothing is like, or of a few nodes while all graphs like them are in flight */
} gantry_dispatcher_stats;

/** The counters as they are now.  Any thread.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL or a struct_size too small */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_dispatcher_get_stats(const gantry_dispatcher *dispatcher,
                                                                       gantry_dispatcher_stats *stats);

/** One batch, from its first launch call to its flush. */
typedef struct gantry_batch_stats {
    size_t struct_size;      /* in: sizeof of the caller */
    uint64_t number;         /* counted from 1; 0: there was none yet */
    uint64_t tasks;          /* released in it */
    uint64_t launch_calls;   /* calls of launch callbacks */
    uint64_t wfi_edges;      /* stream waits inserted */
    uint64_t ns;             /* of host time */
    uint64_t phase_ns[3];    /* of these, in its phases */
    uint64_t phase_tasks[3]; /* tasks whose launching ended in them */
    uint32_t as_graph;       /* 1: (also) launched as a graph */
    uint32_t reserved;
} gantry_batch_stats;

/** The latest batch that has ended; that of the last task of a step may not have yet when the step stops.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL or a struct_size too small */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_dispatcher_get_batch_stats(gantry_dispatcher *dispatcher,
                                                                             gantry_batch_stats *stats);

/** What is known of a GPU task that was released, until its manager is reset. */
typedef struct gantry_task_launch_stats {
    size_t struct_size;    /* in: sizeof of the caller */
    uint32_t launch_calls; /* calls of its callback, at most UINT32_MAX; 0: it was not launched */
    uint32_t stream;       /* the stream's number in the dispatcher's pool, from 1 on; 0: none */
} gantry_task_launch_stats;

/** How the task was launched in its latest run.  Any thread.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL, no GPU task, or a struct_size too small
 *  @retval GANTRY_ERR_STATE             the task is not released yet */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_task_get_launch_stats(gantry_task *task,
                                                                        gantry_task_launch_stats *stats);

GANTRY_END_DECLS

#endif
