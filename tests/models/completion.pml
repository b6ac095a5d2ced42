/* SPDX-License-Identifier: MIT */
/* The completion ring, dispatcher/completion*.c: GD writes slots and publishes them, two completion threads, of which at
 * most one leads, finish those that the GPU has passed, in any order among streams; no free slot makes GD wait,
 * and closing waits for what is published.  A leader that has nothing to look at naps, follows, or blocks until
 * one event has passed, whatever else happens meanwhile.  The positions need no lock, which is for sleeping and
 * for the lead.  Every completion is told once, none is overwritten before it is, two threads never lead, and
 * nobody waits for ever.
 *
 * Each statement is one access of the C code to the positions, a slot, `wake`, the news or a condition variable;
 * what happens under the lock, or to what the leader owns, is one step up to the next such access.  Two streams; the GPU passes each
 * flush of a stream at any time after it, but stream 0 only when stream 1's completion was told: older work that
 * takes long delays no other.  Whether a leader naps or blocks is left open, as in the modes that spin first.
 * Positions are kept modulo nothing: they only grow, as in the code.
 *
 * -DBROKEN: GD does not wait for room.  -DFORGETS: a thread that has news looks for sleepers before it publishes the news.
 * -DDEAF: a thread does not look for news once more before it blocks. */
#define SLOTS 2 /* ring and nap() name them one by one */
#define COMPLETIONS 3 /* of streams 0, 1 and 0 */
#define STREAMS 2
#define NONE 2          /* no stream, no thread */
#define WAKE_NOBODY 2   /* as `wake`: else a stream */
#define WAKE_ONE 3
#define ALL_LISTS 4     /* as what news is for */

byte head, published, written;   /* c->head, c->published, c->written */
byte ring[SLOTS];                /* c->ring: numbers of slots */
bool fresh[2];                   /* c->news is not what the thread has seen */
bool closing, locked;            /* c->closing, c->lock */
bool gd_sleeps;                  /* c->gd_sleeps */
byte wake = WAKE_NOBODY;         /* c->wake */
mtype = { FREE, CALLED, TAKEN, ENDED };
mtype led = CALLED;              /* c->lead */
byte blocking = NONE;            /* c->blocked_list while c->blocking is there */
byte napper = NONE;              /* c->napper */
byte taken, done;                /* c->taken, c->round.head */
bool follows[2];                 /* in gy_cond_wait(&called_changed) */
byte leaders;                    /* to be checked: threads that lead */
bool gd_waits;                   /* in gy_cond_wait(&head_changed) */
byte slot_task[SLOTS];           /* 1 + the number of the completion; 0: never used */
byte slot_stream[SLOTS];
byte slot_seq[SLOTS];
bool listed[SLOTS];              /* the slot is in a list of the completion thread's */
byte tail[STREAMS], flushed[STREAMS], passed[STREAMS]; /* timeline points of the streams */
bool told[COMPLETIONS + 1];
byte threads_ended;

inline lock() { atomic { !locked -> locked = true } }
inline unlock() { locked = false }

inline set_wake()
{
    wake = (led == TAKEN || napper != NONE -> WAKE_NOBODY : (blocking != NONE -> blocking : WAKE_ONE))
}

/* gy_completion_call(): a nap ends by itself */
inline call()
{
    if
    :: led != TAKEN && napper == NONE ->
        led = (led == FREE -> CALLED : led);
        if /* gy_cond_signal(&called_changed) */
        :: follows[0] -> follows[0] = false
        :: follows[1] -> follows[1] = false
        :: !follows[0] && !follows[1]
        fi
    :: else
    fi
}

inline look(which)
{
#ifdef FORGETS
    w = wake;
    atomic { fresh[0] = true; fresh[1] = true };
#else
    atomic { fresh[0] = true; fresh[1] = true };
    w = wake;
#endif
    if
    :: w != WAKE_NOBODY && w != which -> atomic { call(); w = 0 }
    :: else -> w = 0
    fi
}

/* gy_completion_flush() */
inline flush()
{
    if
    :: written == published
    :: else ->
        p = published;
        which = slot_stream[ring[p % SLOTS]];
        do /* record_events() */
        :: p < written ->
            which = (which == slot_stream[ring[p % SLOTS]] -> which : ALL_LISTS);
            slot_seq[ring[p % SLOTS]] = tail[slot_stream[ring[p % SLOTS]]];
            flushed[slot_stream[ring[p % SLOTS]]] = tail[slot_stream[ring[p % SLOTS]]]; /* cuEventRecord() */
            p++
        :: else -> break
        od;
        published = written;
        p = 0;
        look(which);
        which = 0
    fi
}

/* gy_completion_add() */
inline add(stream)
{
    no_room = (written - head == SLOTS); /* gy_completion_is_full() */
#ifndef BROKEN
    if
    :: no_room ->
        flush();
        lock();
        gd_sleeps = true;
        do
        :: written - head == SLOTS ->
            atomic { gd_waits = true; locked = false }; /* gy_cond_wait(&head_changed) */
            !gd_waits;
            lock()
        :: else -> break
        od;
        gd_sleeps = false;
        unlock()
    :: else
    fi;
#endif
    assert(slot_task[ring[written % SLOTS]] == 0 || told[slot_task[ring[written % SLOTS]]]); /* none is dropped */
    d_step {
        slot_task[ring[written % SLOTS]] = n + 1;
        slot_stream[ring[written % SLOTS]] = stream
    };
    written++
}

proctype gd()
{
    byte n, p, w, which;
    bool no_room;
    do
    :: n < COMPLETIONS ->
        tail[n % STREAMS]++; /* a task was launched */
        add(n % STREAMS);
        n++;
        if
        :: flush()
        :: skip
        fi
    :: else -> break
    od;
    flush();
    closing = true; /* gy_completion_fini() */
    look(ALL_LISTS);
    threads_ended == 2; /* gy_thread_join() */
    n = 1;
    do
    :: n <= COMPLETIONS -> assert(told[n]); n++
    :: else -> break
    od
}

#define PENDING(stream) ((listed[0] && slot_stream[0] == (stream)) || (listed[1] && slot_stream[1] == (stream)))
#define PASSES(slot) (listed[slot] && passed[slot_stream[slot]] >= slot_seq[slot])
/* the position of the first of a stream's list */
#define FIRST(stream) (listed[0] && slot_stream[0] == (stream) && (!listed[1] || slot_stream[1] != (stream) || slot_seq[0] < slot_seq[1]) -> slot_seq[0] : slot_seq[1])

inline take_lead() /* the lock is held */
{
    mine = (led == FREE || led == CALLED);
    if
    :: mine -> led = TAKEN; leaders++; assert(leaders == 1)
    :: else
    fi;
    set_wake()
}

inline give_up_lead() /* the lock is held */
{
    led = FREE;
    leaders--;
    set_wake()
}

proctype completion_thread(byte me)
{
    byte u, p, on, first;
    bool any, last, mine;
follow:
    atomic {
        do
        :: led == FREE || led == TAKEN ->
            follows[me] = true; /* gy_cond_wait(&called_changed) */
            !follows[me]
        :: else -> break
        od;
        take_lead();
        if
        :: !mine -> goto over
        :: else
        fi
    };
lead:
    fresh[me] = false; /* next_round() reads the news */
    last = closing;
    u = published;
    atomic { /* its own, but for the head, which it writes */
        if
        :: u != taken ->
            do /* take_in() */
            :: taken < u -> listed[ring[taken % SLOTS]] = true; taken++
            :: else -> break
            od
        :: else ->
            if
            :: taken != head -> skip
            :: taken == head && last -> goto over
            :: taken == head && !last -> goto stop_leading /* gy_completion_await_news() */
            fi
        fi;
        any = false;
        u = 0;
        last = false;
        on = 0;
        p = 0
    };
    do /* sweep(): of one stream in order, which the positions see to */
    :: p < SLOTS ->
        atomic {
            if
            :: PASSES(p) ->
                assert(!told[slot_task[p]]);
                told[slot_task[p]] = true; /* finish_slot() */
                listed[p] = false;
                ring[done % SLOTS] = p;
                done++;
                any = true
            :: else
            fi;
            p++
        }
    :: else -> break
    od;
    if
    :: any ->
        head = done; /* advance_head() */
        if
        :: gd_sleeps ->
            atomic { !locked -> gd_waits = false } /* gy_cond_signal(&head_changed) */
        :: else
        fi;
        any = false;
        p = 0;
        goto lead
    :: else
    fi;
    atomic { /* gy_completion_rest() */
        on = blocking;
        if
        :: on == NONE && PENDING(0) -> on = 0; goto block
        :: on == NONE && PENDING(1) -> on = 1; goto block
        :: on == NONE || PENDING(1 - on) -> goto nap
        :: on != NONE && !PENDING(1 - on) -> goto stop_leading
        fi
    };
stop_leading:
    atomic { give_up_lead() };
    atomic {
        if
        :: fresh[me] && led == FREE -> led = CALLED
        :: else
        fi;
        goto follow
    };
nap: /* ends by itself, so it is the conditions that end them all */
    atomic { napper = me; give_up_lead() };
    atomic {
        (PASSES(0) || PASSES(1) || fresh[me] || napper != me || led == ENDED);
        p = 0;
        napper = (napper == me -> NONE : napper);
        take_lead();
        if
        :: mine -> goto lead
        :: else -> goto follow
        fi
    };
block:
    atomic {
        first = FIRST(on);
        blocking = on;
        give_up_lead();
        if /* leave_looking() */
        :: PENDING(1 - on) -> call()
        :: else
        fi
    };
    if
#ifdef DEAF
    :: true -> passed[on] >= first
#else
    :: !fresh[me] -> passed[on] >= first /* cuEventSynchronize() */
    :: else
#endif
    fi;
    atomic {
        blocking = NONE;
        first = 0;
        on = 0;
        take_lead();
        if
        :: mine -> goto lead
        :: else -> fresh[0] = true; fresh[1] = true; goto follow
        fi
    };
over:
    atomic { /* gy_completion_end() */
        led = ENDED;
        follows[0] = false;
        follows[1] = false;
        threads_ended++
    }
}

/* Each stream's work is done some time after it was flushed; that of stream 0 when stream 1's completion was told. */
active proctype gpu()
{
end:
    do
    :: passed[0] < flushed[0] && told[2] -> passed[0]++
    :: passed[1] < flushed[1] -> passed[1]++
    od
}

init {
    atomic {
        ring[1] = 1;
        run gd();
        run completion_thread(0);
        run completion_thread(1)
    }
}
