/* SPDX-License-Identifier: MIT */
/* The life of operations, from being pushed to being done.
 *
 *             push, not first                    hold, and it takes no time
 *      ----------------------->  QUEUED  --------------------------> STALLED
 *                                  | started                           | release, step
 *            +---------------------+-------------------+  <------------+
 *            | takes time          | waits             | takes no time
 *            v                     v                   |
 *          READY                BLOCKED                |
 *            | a crew takes it     | started again     |
 *            v                     v                   v
 *         RUNNING ----------------------------------> done: recycled, the one behind it is started
 *
 * Starting happens in gy_emu_pump() alone, from a queue, so that chains of markers need no recursion.  In a
 * context that failed or dies ("discarding") started operations are done at once; their markers are completed
 * all the same, so that no thread waits for ever. */
#include "emulator/queue.h"

#include "emulator/context.h"
#include "emulator/crew.h"
#include "emulator/event.h"
#include "emulator/graph.h"
#include "emulator/memory.h"
#include "emulator/proof.h"
#include "emulator/watch.h"

/* ---- starting -------------------------------------------------------------------------------- */

/* What waits for work that a failed context took with it fails its own context, too, once it has noticed. */
static void await(struct gy_emu_op *op, struct gy_emu_marker *marker)
{
    if (marker->lost != CUDA_SUCCESS && gy_emu_spread_is_held()) {
        gy_emu_op_lose(op);
        return;
    }
    if (marker->lost != CUDA_SUCCESS) {
        gy_emu_context_fail(op->work.context, marker->lost);
        gy_emu_op_complete(op);
        return;
    }
    if (atomic_load_explicit(&marker->done, memory_order_relaxed)) {
        gy_emu_op_complete(op);
        return;
    }
    op->state = GY_EMU_OP_BLOCKED;
    gy_emu_list_append(&marker->waiters, op);
}

/* Operations that take no time are done here; the others go to a crew. */
static void execute(struct gy_emu_op *op)
{
    switch (op->work.kind) {
    case GY_EMU_WORK_EMPTY:
        gy_emu_op_complete(op);
        break;
    case GY_EMU_WORK_MARK:
        gy_emu_marker_complete(op->work.marker);
        gy_emu_op_complete(op);
        break;
    case GY_EMU_WORK_WAIT:
        await(op, op->work.marker);
        break;
    case GY_EMU_WORK_EVENT_RECORD:
        gy_emu_event_reach(op->work.event, gy_emu_program_mark(op));
        gy_emu_marker_complete(gy_emu_program_mark(op));
        gy_emu_op_complete(op);
        break;
    case GY_EMU_WORK_EVENT_WAIT: {
        struct gy_emu_marker *marker = gy_emu_program_mark(op);
        if (marker == NULL) {
            gy_emu_op_complete(op);
        } else {
            await(op, marker);
        }
        break;
    }
    case GY_EMU_WORK_FREE:
        gy_emu_memory_free(op->work.region);
        gy_emu_progress();
        gy_emu_op_complete(op);
        break;
    case GY_EMU_WORK_GRAPH:
        gy_emu_program_start(op);
        break;
    case GY_EMU_WORK_LOOP:
        gy_emu_program_start_loop(op);
        break;
    case GY_EMU_WORK_KERNEL:
    case GY_EMU_WORK_COPY:
    case GY_EMU_WORK_COPY_ROWS:
    case GY_EMU_WORK_FILL:
    case GY_EMU_WORK_HOST:
    case GY_EMU_WORK_WRITE_VALUE:
    case GY_EMU_WORK_WAIT_VALUE:
    case GY_EMU_WORK_SIGNAL_SEMAPHORE:
    case GY_EMU_WORK_WAIT_SEMAPHORE:
        gy_emu_crews_add(op);
        break;
    }
}

static void complete_discarded(struct gy_emu_marker *marker, const struct gy_emu_context *root)
{
    marker->lost = root->sticky != CUDA_SUCCESS ? root->sticky : gy_emu_process_failure();
    gy_emu_marker_complete(marker);
}

/* End an operation without doing it, except for its effects that others rely on. */
static void discard(struct gy_emu_op *op)
{
    const struct gy_emu_context *root = op->work.context->root;
    switch (op->work.kind) {
    case GY_EMU_WORK_MARK:
        complete_discarded(op->work.marker, root);
        break;
    case GY_EMU_WORK_EVENT_RECORD:
        complete_discarded(gy_emu_program_mark(op), root);
        break;
    case GY_EMU_WORK_FREE:
        gy_emu_memory_free(op->work.region);
        gy_emu_progress();
        break;
    case GY_EMU_WORK_GRAPH:
        for (struct gy_emu_marker *mark = op->work.graph.marks; mark != NULL; mark = mark->next) {
            complete_discarded(mark, root);
        }
        gy_emu_program_tell_own(op);
        break;
    default:
        break;
    }
    gy_emu_op_complete(op);
}

static bool is_nothing_in_noop(enum gy_emu_work_kind kind)
{
    return kind == GY_EMU_WORK_KERNEL || kind == GY_EMU_WORK_COPY || kind == GY_EMU_WORK_COPY_ROWS ||
           kind == GY_EMU_WORK_FILL || kind == GY_EMU_WORK_WRITE_VALUE || kind == GY_EMU_WORK_WAIT_VALUE ||
           kind == GY_EMU_WORK_SIGNAL_SEMAPHORE || kind == GY_EMU_WORK_WAIT_SEMAPHORE ||
           kind == GY_EMU_WORK_LOOP;
}

static bool takes_no_time(enum gy_emu_work_kind kind)
{
    return kind == GY_EMU_WORK_EMPTY || kind == GY_EMU_WORK_MARK || kind == GY_EMU_WORK_WAIT ||
           kind == GY_EMU_WORK_FREE || kind == GY_EMU_WORK_GRAPH;
}

static void start(struct gy_emu_op *op)
{
    if (op->work.context->root->discarding) {
        discard(op);
    } else if (gy_emu_is_held(op->work.context) &&
               ((op->fresh && takes_no_time(op->work.kind)) ||
                (gy_emu_is_noop() && is_nothing_in_noop(op->work.kind)))) {
        gy_emu_op_stall(op);
    } else if (gy_emu_is_noop() && is_nothing_in_noop(op->work.kind)) {
        gy_emu_op_complete(op);
    } else {
        execute(op);
    }
}

bool gy_emu_pump(void)
{
    bool started = false;
    for (struct gy_emu_op *op; (op = gy_emu_op_to_start()) != NULL; started = true) {
        start(op);
    }
    return started;
}

/* ---- pushing --------------------------------------------------------------------------------- */

static CUresult append(struct gy_emu_stream *stream, struct gy_emu_work *work)
{
    struct gy_emu_op *op = gy_emu_op_take();
    if (op == NULL) {
        gy_emu_work_release(work);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    op->work = *work;
    op->stream = stream;
    op->program = NULL;
    op->behind = NULL;
    op->list = NULL;
    op->state = GY_EMU_OP_QUEUED;
    op->priority = work->kind == GY_EMU_WORK_KERNEL && work->kernel.attributes.has_priority
                       ? work->kernel.attributes.priority
                       : stream->priority;
    op->fresh = stream->head == NULL;
    op->failure = CUDA_SUCCESS;
    op->log_number = 0;
    stream->pushed++;
    if (stream->head == NULL) {
        stream->head = op;
        gy_emu_op_start_later(op);
    } else {
        stream->tail->behind = op;
    }
    stream->tail = op;
    return CUDA_SUCCESS;
}

static CUresult append_marker(struct gy_emu_stream *stream, enum gy_emu_work_kind kind,
                              struct gy_emu_marker *marker)
{
    marker->refs++;
    struct gy_emu_work work = {.kind = kind, .context = stream->object.context, .marker = marker};
    return append(stream, &work);
}

CUresult gy_emu_stream_mark(struct gy_emu_stream *stream, struct gy_emu_marker **out)
{
    if (stream->head == NULL) {
        *out = NULL;
        return CUDA_SUCCESS;
    }
    struct gy_emu_marker *marker = gy_emu_marker_create(false);
    if (marker == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult result = append_marker(stream, GY_EMU_WORK_MARK, marker);
    if (result != CUDA_SUCCESS) {
        gy_emu_marker_unref(marker);
        return result;
    }
    *out = marker;
    return CUDA_SUCCESS;
}

/* Find the last work that the stream has before it: a record of an event is not work. */
static struct gy_emu_op *last_work(const struct gy_emu_stream *stream)
{
    struct gy_emu_op *last = NULL;
    for (struct gy_emu_op *op = stream->head; op != NULL; op = op->behind) {
        last = op->work.kind != GY_EMU_WORK_MARK ? op : last;
    }
    return last;
}

CUresult gy_emu_stream_mark_own(struct gy_emu_stream *stream, struct gy_emu_marker **out)
{
    struct gy_emu_op *last = last_work(stream);
    return last != NULL && last->work.kind == GY_EMU_WORK_GRAPH && gy_emu_program_leaves_out(last)
               ? gy_emu_program_mark_own(last, out)
               : gy_emu_stream_mark(stream, out);
}

static CUresult join(struct gy_emu_stream *later, struct gy_emu_stream *earlier,
                     CUresult (*mark)(struct gy_emu_stream *, struct gy_emu_marker **))
{
    struct gy_emu_marker *marker;
    CUresult result = mark(earlier, &marker);
    if (result == CUDA_SUCCESS && marker != NULL) {
        result = append_marker(later, GY_EMU_WORK_WAIT, marker);
        gy_emu_marker_unref(marker);
    }
    return result;
}

CUresult gy_emu_stream_join(struct gy_emu_stream *later, struct gy_emu_stream *earlier)
{
    return join(later, earlier, gy_emu_stream_mark);
}

CUresult gy_emu_stream_join_own(struct gy_emu_stream *later, struct gy_emu_stream *earlier)
{
    return join(later, earlier, gy_emu_stream_mark_own);
}

/* The legacy rule: the null stream waits for the blocking streams of its context and they for it. */
static CUresult order_with_null(struct gy_emu_stream *stream)
{
    struct gy_emu_context *context = stream->object.context;
    CUresult result = CUDA_SUCCESS;
    if (!stream->is_null) {
        struct gy_emu_stream *null_stream = context->null_stream;
        GY_EMU_WATCH(see_join, (stream, null_stream));
        GY_EMU_PROVE(follow, (stream, null_stream));
        if (null_stream->head != NULL && stream->null_seen != null_stream->pushed) {
            result = gy_emu_stream_join(stream, null_stream);
            stream->null_seen = null_stream->pushed;
        }
        return result;
    }
    for (struct gy_emu_stream *s = context->root->streams; s != NULL && result == CUDA_SUCCESS;
         s = s->next_in_root) {
        const bool orders = gy_emu_stream_stands_for(stream, s);
        if (s != stream && orders) {
            GY_EMU_WATCH(see_join, (stream, s));
            GY_EMU_PROVE(follow, (stream, s));
        }
        if (s != stream && orders && s->head != NULL && s->joined != s->pushed) {
            result = gy_emu_stream_join(stream, s);
            s->joined = s->pushed;
        }
    }
    return result;
}

CUresult gy_emu_stream_push(struct gy_emu_stream *stream, struct gy_emu_work *work)
{
    GY_EMU_WATCH(see_work, (stream, work));
    gy_emu_proof_enqueue(stream, work);
    if ((stream->flags & CU_STREAM_NON_BLOCKING) == 0) {
        CUresult result = order_with_null(stream);
        if (result != CUDA_SUCCESS) {
            gy_emu_work_release(work);
            return result;
        }
    }
    if (gy_emu_is_noop() && stream->head == NULL && !gy_emu_is_held(stream->root) &&
        is_nothing_in_noop(work->kind)) {
        gy_emu_work_release(work);
        return CUDA_SUCCESS;
    }
    return append(stream, work);
}
