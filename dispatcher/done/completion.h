/* SPDX-License-Identifier: MIT */
/* Completions: tasks that start when the GPU has finished, and the threads that wait for it.
 *
 * The dispatcher thread (GD) writes a slot per completion into a ring as launch callbacks ask for them,
 * records an event for it when the callback is done, or at a flush, and publishes what it has written there.
 * The completion thread keeps what is published in a list per stream, in which events pass in order, looks at
 * the first event of each list, and removes the references of the tasks whose events have passed, whatever
 * else takes longer.  When all slots are in use GD waits for the completion thread: completions are never
 * dropped.
 *
 *   ring of numbers of slots:   head ≤ taken ≤ published ≤ written ≤ head + SIZE
 *      (each only grows; its index in the ring is the number % SIZE)
 *      [head, taken)            in lists; not needed here, finished ones are put back from the left
 *      [taken, published)       to be taken into lists, by the completion thread
 *      [published, written)     being written by GD
 *      [written, head + SIZE)   free, for GD
 *
 * A ring has two completion threads where the wait mode lets threads sleep, else one; "the completion thread"
 * means either.  At most one of them leads: it owns the lists and looks at the events.  The other one
 * follows, which means that it sleeps until it is called.  A leader that has had nothing to look at for a
 * while stops leading: it naps, or follows, or blocks in the driver until one event has passed.  Nothing
 * interrupts a thread that blocks, so a follower is called to lead when there is something to look at
 * meanwhile: another stream's completions, or the time when the event is expected (completion_wait.c,
 * docs/decisions/0026-one-completion-thread-blocks-and-one-looks.md).
 *
 * While both sleep a guest may lead (guest.h).
 *
 * No lock on the way of a completion: the completion thread is there at once when it polls, and would find GD
 * still inside; a thread that then falls asleep on the lock wakes up tens of microseconds later.  The lock is
 * for sleeping and for changes of the lead alone: a thread that sleeps says so first and looks once more, GD
 * tells its news first and then looks for sleepers; all four sequentially consistent. */
#ifndef DISPATCHER_DONE_COMPLETION_H
#define DISPATCHER_DONE_COMPLETION_H

#include "base/foresight.h"
#include "base/thread.h"
#include "base/wake_hint.h"
#include "dispatcher/streams_max.h"
#include "driver/cuda_abi.h"

#include <gantry/partition.h>
#include <gantry/taskman.h>

struct gy_context;
struct gy_streams;
struct gy_deferred;
struct gy_admission;
struct gy_shares;
struct gy_gpu_time;
struct gy_gpu_guest;
struct gy_span_ranges;

#define GY_COMPLETION_SLOTS 1024
#define GY_COMPLETION_EVENTS \
    (GY_COMPLETION_SLOTS + 1) /* of a kind: of each slot, and one that is blocked on */
#define GY_COMPLETION_NONE UINT16_MAX

/* Where a slot is on its way; gy_completion_slot_enter() is the only writer.
 *
 *    GD adds it         GD flushes              is taken into a list           its event has passed
 *  FREE --------> WRITTEN -----------> PUBLISHED ------------------> LISTED --------------------------> FREE
 *
 * The completion thread does the last two steps.
 * A slot has an event from the flush on, unless another one's covers it or the flush has failed.  Most have
 * it before: see gy_completion_note() and gy_completion_record(). */
enum gy_slot_state { GY_SLOT_FREE, GY_SLOT_WRITTEN, GY_SLOT_PUBLISHED, GY_SLOT_LISTED };

/* What a slot is for: a timeline point of its stream, or whatever is on the stream at the flush, see
 * gy_completion_watch(). */
enum gy_slot_kind { GY_SLOT_POINT, GY_SLOT_WATCH };

struct gy_completion_slot {
    enum gy_slot_state state;
    enum gy_slot_kind kind;
    bool is_noted;        /* from before the flush on: it has an event, or that of one before it covers it */
    gantry_task *task;    /* NULL: only the event matters (GPU times to collect, blocks to free) */
    uint64_t flow;        /* of the GPU task, in a recording; 0: none */
    uint64_t recorded_ns; /* in a recording: when the event was about to be recorded; else 0 */
    uint64_t begun_ns;    /* when the event was recorded, if the stream's completions take long; else 0 */
    uint32_t stream;
    uint16_t next; /* completion thread only; in its list; GY_COMPLETION_NONE: the last */
    uint64_t seq;  /* timeline point of the stream the event covers */
    CUevent event; /* the first slot of a stream in a flush has it, the others NULL */
    CUevent block; /* behind the same work, one that a thread may block on, or NULL; BLOCK: `event` itself */
};

/* What other threads were told of the end of a list's first completion; enter_news() is the only writer.
 *
 *              looked at in vain           it is looked for             passes, or none is first any more
 *   UNKNOWN --------------------> FORETOLD -------------> NEAR     and from each -----------------> UNKNOWN
 *
 * UNKNOWN: nothing, as nothing is known, or no task waits for it.  FORETOLD: when to look for it; a thread
 * that waits for its task wakes up by itself.  NEAR: and that this is now. */
enum gy_list_news { GY_LIST_UNKNOWN, GY_LIST_FORETOLD, GY_LIST_NEAR };

/* The completions of one stream that are pending, and how long they take. */
struct gy_completion_list {
    uint16_t first, last;          /* leader; GY_COMPLETION_NONE: it is empty */
    enum gy_list_news told;        /* leader */
    uint64_t since_ns;             /* leader; since when the first is the first */
    uint64_t ended_ns;             /* leader; when the one before it has probably passed */
    struct gy_foresight foresight; /* leader; how long the first lately took */
    struct gy_lookout lookout;     /* leader; when the first is expected */
    uint32_t long_left;            /* leader; so many quick ones and they count as quick again */
    _Atomic(bool) is_long;         /* atomic; written by the leader: GD records an event to block on */
    /* These four: atomic; written by the leader before bit i of `foretold` is set; for the thread that waits
     * for tasks of the manager.  It may read those of two completions: it then looks in vain. */
    _Atomic(uintptr_t) owner;
    _Atomic(uint64_t) from_ns, until_ns, nap_ns;
};

/* For the statistics. */
struct gy_completion_counts {
    uint64_t looks, naps, awaited, unseen_ns;
};

struct gy_completion_config {
    struct gy_context *context;
    struct gy_streams *streams;
    struct gy_deferred *deferred;
    struct gy_admission *admission;
    struct gy_shares *shares;
    struct gy_gpu_time *time;
    gy_mutex *collecting; /* held by the one completion thread that collects shares and GPU times */
    gantry_wait_mode wait;
};

/* Events that nobody needs now, in order: the completion thread puts them back, GD takes them. */
struct gy_idle_events {
    _Atomic(uint64_t) put;                /* atomic; a position that only grows */
    uint64_t taken;                       /* GD only; likewise */
    CUevent events[GY_COMPLETION_EVENTS]; /* guarded by the positions: [taken, put) is GD's */
};

/* What the completion thread knows about its present round. */
struct gy_completion_round {
    uint64_t head;   /* slots given back up to here */
    uint64_t taken;  /* a position, see above */
    uint64_t listed; /* bit i: list i is not empty */
    uint64_t seen;   /* news when it looked for them last */
    uint64_t since;  /* nothing was published and nothing has passed since then */
    uint64_t took;   /* how long the latest completion that has passed was awaited */
    uint64_t vain;   /* when it looked in vain the last time */
    uint32_t looks;  /* in vain */
    uint32_t stream; /* the latest completion that has passed was there */
    bool lost;
};

struct gy_completion_thread {
    struct gy_completion *ring;                  /* immutable */
    char name[GANTRY_PARTITION_NAME_BYTES + 16]; /* immutable */
    gy_thread thread;                            /* immutable */
    uint64_t span;                               /* its own: when it began to wait; 0: it does not */
    uint32_t stream;                             /* its own: what had passed last was there */
    const struct gy_span_ranges *ranges;         /* its own */
};

#define GY_COMPLETION_THREADS 2

/* Who leads; enter_lead() in completion_wait.c is the only writer.
 *
 *            call            a thread or a guest leads          all was told, and it is closing
 *    FREE ---------> CALLED --------------------------> TAKEN ---------------------------------> ENDED
 *     | ^                                                | ^
 *     | +------------------------------------------------+ |  it naps, blocks, follows or leaves
 *     +----------------------------------------------------+  one that wakes up leads again
 *
 * CALLED: a follower shall lead, if no other thread is faster; that one then looks at everything anyway. */
enum gy_completion_lead { GY_LEAD_FREE, GY_LEAD_CALLED, GY_LEAD_TAKEN, GY_LEAD_ENDED };

/* Does news wake a thread?  The number of a list means: news wakes one, unless it is for that list alone,
 * since a thread blocks on its event.  Otherwise it is one of these. */
enum gy_completion_wake {
    GY_COMPLETION_WAKE_NOBODY = GY_STREAMS_MAX, /* no: one leads, or naps and will look soon enough */
    GY_COMPLETION_WAKE_ONE,                     /* yes, the one that naps or a follower */
    GY_COMPLETION_ALL_LISTS,                    /* as the reach of news: it is for no list alone */
};

/* Who leads, who sleeps, and on what: completion_wait.c, under the ring's lock.  Whom a ring belongs to at
 * the moment is all in here. */
struct gy_lead {
    gy_cond called;                       /* followers sleep */
    gy_cond nap;                          /* a thread naps */
    _Atomic(uint32_t) wake;               /* atomic; written under lock: a list, or enum gy_completion_wake */
    enum gy_completion_lead state;        /* see there */
    _Atomic(struct gy_gpu_guest *) guest; /* atomic; written under lock: it leads; NULL: a completion thread,
                                           * or nobody */
    CUevent blocking;                     /* a thread blocks on it; NULL: none does */
    uint32_t blocked_list;                /* it is the event of this list */
    bool orphaned;                        /* `blocking` is in no slot any more */
    const struct gy_completion_thread *napper; /* the thread that naps; NULL: none */
    uint64_t nap_until;                        /* until then */
};

/* What the leader has learned about how long completions take. */
struct gy_completion_learned {
    uint64_t spin_budget_ns;       /* leader only; how long it polls the GPU before it stops leading */
    uint64_t near_ns;              /* leader only; how soon completions came lately; 0: later than it polls */
    struct gy_wake_forecast soon;  /* atomic; near_ns, for the thread that begins a step */
    struct gy_oversleep oversleep; /* atomic; of naps */
};

/* Between the leader and threads that wait for tasks: which ends are foretold, and who will look for them. */
struct gy_completion_shown {
    _Atomic(uint64_t) foretold;       /* atomic; written by the leader; bit i: list i is FORETOLD or NEAR */
    _Atomic(uint64_t) guest_until_ns; /* atomic; a guest has left that looks in time, and until then: a wake
                                       * hint */
};

/* Atomic; written by the leader, or a thread that naps, for the statistics. */
struct gy_completion_counters {
    _Atomic(uint64_t) looks, naps, awaited, unseen_ns;
};

/* GD alone: what it has written and not published yet. */
struct gy_completion_writer {
    uint64_t written;      /* a position, see above */
    uint64_t unnoted;      /* bit s: stream s has slots for points, WRITTEN, that no event covers */
    uint64_t unnoted_from; /* a position; none before it is such a slot */
};

/* GD sleeps until there is room. */
struct gy_completion_room {
    gy_cond changed;         /* under the ring's lock */
    _Atomic(bool) gd_sleeps; /* atomic; written under the ring's lock */
};

struct gy_completion {
    struct gy_completion_config config; /* immutable */
    uint32_t thread_count;              /* immutable: 2 where threads may sleep, else 1 */
    struct gy_completion_thread threads[GY_COMPLETION_THREADS]; /* see there */
    gy_mutex lock;                                              /* rank COMPLETION */
    struct gy_lead lead;                                        /* guarded by lock */
    struct gy_completion_room room;                             /* see there */
    _Atomic(bool) closing;                                      /* atomic; never goes back */
    struct gy_idle_events polled, blocked;           /* see there; `put` by the leader, and under the lock */
    struct gy_completion_learned learned;            /* see there */
    struct gy_completion_round round;                /* leader only */
    struct gy_completion_shown shown;                /* atomic */
    struct gy_completion_counters counters;          /* atomic */
    struct gy_completion_list lists[GY_STREAMS_MAX]; /* leader only; by stream */
    _Atomic(uint64_t) news;             /* atomic: how often the completion thread was told to look */
    _Atomic(uint64_t) head;             /* atomic; written by the leader */
    _Atomic(uint64_t) published;        /* atomic; written by GD */
    struct gy_completion_writer writer; /* GD only */
    uint16_t ring[GY_COMPLETION_SLOTS]; /* owner: see above */
    struct gy_completion_slot slots[GY_COMPLETION_SLOTS]; /* guarded by where its number is, see above */
};

/* `partition`: the name of the one whose streams they are; NULL: of all. */
GANTRY_MUST_CHECK gantry_status gy_completion_init(struct gy_completion *completion,
                                                   const struct gy_completion_config *config,
                                                   const char *partition);

/* Wait until the completion thread has done everything published, stop it, free. */
void gy_completion_fini(struct gy_completion *completion);

/* Does nobody lead? */
static inline bool gy_completion_is_free(const struct gy_completion *completion)
{
    return atomic_load_explicit(&completion->lead.wake, memory_order_relaxed) != GY_COMPLETION_WAKE_NOBODY;
}

static inline bool gy_completion_is_led_by(const struct gy_completion *completion,
                                           const struct gy_gpu_guest *guest)
{
    return atomic_load_explicit(&completion->lead.guest, memory_order_relaxed) == guest;
}

/* A guest leads until gy_completion_stop_leading(); false: another thread does.  See guest.h. */
bool gy_completion_lead(struct gy_completion *completion, struct gy_gpu_guest *guest);
/* Does nothing if the guest does not lead any more. */
void gy_completion_stop_leading(struct gy_completion *completion, const struct gy_gpu_guest *guest);

/* Guest: take in published completions; true when it leads and completions are pending. */
bool gy_completion_take_in(struct gy_completion *completion, const struct gy_gpu_guest *guest);
/* Then: look at the events once, and tell the completions that have passed; true when there are any. */
bool gy_completion_tell(struct gy_completion *completion);

/* Would the completion thread sleep on without news? */
static inline bool gy_completion_is_asleep(const struct gy_completion *completion)
{
    return atomic_load(&completion->lead.wake) == GY_COMPLETION_WAKE_ONE;
}

/* GD: complete `task` (whose reference is held for us) when the GPU has passed what is on `stream` at the
 * next flush.  Flushes by itself when the ring is full.  `flow` joins it with the GPU task in a recording.
 * @retval GANTRY_ERR_DEVICE_LOST  the flush failed; the slot was not written */
GANTRY_MUST_CHECK gantry_status gy_completion_add(struct gy_completion *completion, uint32_t stream,
                                                  gantry_task *task, uint64_t flow);

/* GD: will it complete `task` when the GPU has passed what is on `stream` at the next flush? */
bool gy_completion_has(struct gy_completion *completion, uint32_t stream, const gantry_task *task);

/* A step begins: if completions came soon after their publication lately, the completion thread wakes up and
 * looks out for them. In so many ns they are likely to come; 0: not known.  Any thread. */
uint64_t gy_completion_expect(struct gy_completion *completion);

/* When to look for the first end that a task of the manager waits for; false: none is foretold.  will_look:
 * the caller comes back as a guest then, and nobody else need look.  Any thread. */
bool gy_completion_next_end(struct gy_completion *completion, const gantry_taskman *manager, bool will_look,
                            struct gy_lookout *out);

/* GD: have the completion thread look around when the GPU has passed what is on the stream at
 * the next flush, be it of a task that has not ended. */
GANTRY_MUST_CHECK gantry_status gy_completion_watch(struct gy_completion *completion, uint32_t stream);

/* A slot fits its state and kind.  GD: the positions of the ring are in order, and what it has written and
 * not published yet is WRITTEN. */
bool gy_completion_slot_is_valid(const struct gy_completion_slot *slot, enum gy_slot_state state);
bool gy_completion_is_valid(struct gy_completion *completion);
/* The lead fits who naps, blocks or is a guest, and what is told to whom GD would wake. */
bool gy_completion_lead_is_valid(const struct gy_completion *completion) GY_REQUIRES(completion->lock);
/* Leader: the ends of the list of that stream are slots that are LISTED, and it is known whether it is empty.
 */
bool gy_completion_list_is_valid(const struct gy_completion *completion, uint32_t stream);

/* GD: the next add will flush. */
bool gy_completion_is_full(struct gy_completion *completion);

static inline bool gy_completion_is_pending(const struct gy_completion *completion)
{
    return completion->writer.written != atomic_load_explicit(&completion->published, memory_order_relaxed);
}

/* GD: the tasks on the stream, which is a member of a batch, have ended their calls: the completions that
 * they have asked for get an event in the graph, right behind the work that is noted on the stream.  The
 * graph is launched before the next flush.  Without memory they get one at the flush, behind the graph.
 * Returns the number of completions that have it. */
uint32_t gy_completion_note(struct gy_completion *completion, uint32_t stream);
/* The same for a stream that is no member: the event is recorded on it, before the stream gets other work. If
 * that fails they get one at the flush. */
uint32_t gy_completion_record(struct gy_completion *completion, uint32_t stream);
static inline bool gy_completion_is_unnoted(const struct gy_completion *completion, uint32_t stream)
{
    return (completion->writer.unnoted >> stream & 1u) != 0;
}

/* GD: record the events and hand everything written to the completion thread.  On failure the context is lost
 * and the slots are handed over all the same: the completion thread then fails their tasks. */
gantry_status gy_completion_flush(struct gy_completion *completion);

#endif
