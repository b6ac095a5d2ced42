/* The completion ring, dispatcher/completion.c: GD writes slots and publishes them, GDB finishes those that the
 * GPU has passed, a full ring makes GD wait, and closing waits for what is published.  Every completion is told
 * once, none is overwritten before it is, and nobody waits for ever.
 *
 * Each statement is one access of the C code to the positions, a slot, the lock or a condition variable.  Two
 * streams; the GPU passes each flush of a stream at any time after it.  Positions are kept modulo nothing: they
 * only grow, as in the code.
 *
 * -DBROKEN: GD does not wait for room. */
#define SLOTS 2
#define COMPLETIONS 5
#define STREAMS 2

byte head, published, written;   /* c->head, c->published, c->written */
bool closing, locked;            /* c->closing, c->lock */
bool gdb_waits, gd_waits;        /* in gy_cond_wait(&published_changed), (&head_changed) */
byte slot_task[SLOTS];           /* 1 + the number of the completion; 0: never used */
byte slot_stream[SLOTS];
byte slot_seq[SLOTS];
bool slot_done[SLOTS];
byte tail[STREAMS], flushed[STREAMS], passed[STREAMS]; /* positions of the streams */
bool told[COMPLETIONS + 1];
bool gdb_ended;

inline lock() { atomic { !locked -> locked = true } }
inline unlock() { locked = false }

/* gy_completion_flush() */
inline flush()
{
    if
    :: written == published
    :: else ->
        p = published;
        do /* record_events() */
        :: p < written ->
            slot_seq[p % SLOTS] = tail[slot_stream[p % SLOTS]];
            flushed[slot_stream[p % SLOTS]] = tail[slot_stream[p % SLOTS]]; /* cuEventRecord() */
            p++
        :: else -> break
        od;
        lock();
        published = written;
        gdb_waits = false; /* gy_cond_signal(&published_changed) */
        unlock()
    fi
}

/* gy_completion_add() */
inline add(stream)
{
    lock();
    no_room = (written - head == SLOTS); /* gy_completion_is_full() */
    unlock();
#ifndef BROKEN
    if
    :: no_room ->
        flush();
        lock();
        do
        :: written - head == SLOTS ->
            atomic { gd_waits = true; locked = false }; /* gy_cond_wait(&head_changed) */
            !gd_waits;
            lock()
        :: else -> break
        od;
        unlock()
    :: else
    fi;
#endif
    assert(slot_task[written % SLOTS] == 0 || told[slot_task[written % SLOTS]]); /* nothing is dropped */
    d_step {
        slot_task[written % SLOTS] = n + 1;
        slot_stream[written % SLOTS] = stream;
        slot_done[written % SLOTS] = false
    };
    written++
}

proctype gd()
{
    byte n, p;
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
    lock(); /* gy_completion_fini() */
    closing = true;
    gdb_waits = false;
    unlock();
    gdb_ended; /* gy_thread_join() */
    n = 1;
    do
    :: n <= COMPLETIONS -> assert(told[n]); n++
    :: else -> break
    od
}

proctype gdb()
{
    byte h, u, p;
    bool any;
    do
    :: lock(); /* next_round() */
       do
       :: head == published && !closing ->
           atomic { gdb_waits = true; locked = false }; /* gy_cond_wait(&published_changed) */
           !gdb_waits;
           lock()
       :: else -> break
       od;
       h = head;
       u = published;
       unlock();
       if
       :: h == u -> break /* closing and nothing left */
       :: else
       fi;
       any = false;
       p = h;
       do /* sweep() */
       :: p < u ->
           if
           :: !slot_done[p % SLOTS] && passed[slot_stream[p % SLOTS]] >= slot_seq[p % SLOTS] ->
               assert(!told[slot_task[p % SLOTS]]);
               d_step { told[slot_task[p % SLOTS]] = true; slot_done[p % SLOTS] = true }; /* finish_slot() */
               any = true
           :: else
           fi;
           p++
       :: else -> break
       od;
       if
       :: any ->
           p = h;
           do /* advance_head() */
           :: p < u && slot_done[p % SLOTS] -> p++
           :: else -> break
           od;
           lock();
           head = p;
           gd_waits = false; /* gy_cond_signal(&head_changed) */
           unlock()
       :: else -> /* wait_oldest(): cuEventSynchronize() of the first slot that is not done */
           p = h;
           do
           :: slot_done[p % SLOTS] -> p++
           :: else -> break
           od;
           passed[slot_stream[p % SLOTS]] >= slot_seq[p % SLOTS]
       fi
    od;
    gdb_ended = true
}

/* Each stream's work is done some time after it was flushed. */
active proctype gpu()
{
end:
    do
    :: passed[0] < flushed[0] -> passed[0]++
    :: passed[1] < flushed[1] -> passed[1]++
    od
}

init {
    atomic {
        run gd();
        run gdb()
    }
}
