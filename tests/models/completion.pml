/* The completion ring, dispatcher/completion.c: GD writes slots and publishes them, GDB takes them in and finishes
 * those that the GPU has passed, in any order among streams; no free slot makes GD wait, and closing waits for
 * what is published.  The positions need no lock, which is for sleeping alone.  Every completion is told once,
 * none is overwritten before it is, and nobody waits for ever.
 *
 * Each statement is one access of the C code to the positions, a slot, the lock or a condition variable.  Two
 * streams; the GPU passes each flush of a stream at any time after it.  Positions are kept modulo nothing: they
 * only grow, as in the code.
 *
 * -DBROKEN: GD does not wait for room.  -DFORGETS: who has news looks for sleepers before telling them. */
#define SLOTS 2 /* ring and nap() name them one by one */
#define COMPLETIONS 5
#define STREAMS 2

byte head, published, written;   /* c->head, c->published, c->written */
byte ring[SLOTS];                /* c->ring: numbers of slots */
byte news;                       /* c->news */
bool closing, locked;            /* c->closing, c->lock */
bool gdb_sleeps, gd_sleeps;      /* c->gdb_sleeps, c->gd_sleeps */
bool gdb_waits, gd_waits;        /* in gy_cond_wait(&news_changed), (&head_changed) */
byte slot_task[SLOTS];           /* 1 + the number of the completion; 0: never used */
byte slot_stream[SLOTS];
byte slot_seq[SLOTS];
bool listed[SLOTS];              /* the slot is in a list of GDB's */
byte tail[STREAMS], flushed[STREAMS], passed[STREAMS]; /* positions of the streams */
bool told[COMPLETIONS + 1];
bool gdb_ended;

inline lock() { atomic { !locked -> locked = true } }
inline unlock() { locked = false }

inline look()
{
#ifdef FORGETS
    sleeps = gdb_sleeps;
    news++;
#else
    news++;
    sleeps = gdb_sleeps;
#endif
    if
    :: sleeps ->
        lock();
        gdb_waits = false; /* gy_cond_signal(&news_changed) */
        unlock()
    :: else
    fi
}

/* gy_completion_flush() */
inline flush()
{
    if
    :: written == published
    :: else ->
        p = published;
        do /* record_events() */
        :: p < written ->
            slot_seq[ring[p % SLOTS]] = tail[slot_stream[ring[p % SLOTS]]];
            flushed[slot_stream[ring[p % SLOTS]]] = tail[slot_stream[ring[p % SLOTS]]]; /* cuEventRecord() */
            p++
        :: else -> break
        od;
        published = written;
        look()
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
    byte n, p;
    bool no_room, sleeps;
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
    look();
    gdb_ended; /* gy_thread_join() */
    n = 1;
    do
    :: n <= COMPLETIONS -> assert(told[n]); n++
    :: else -> break
    od
}

proctype gdb()
{
    byte h, taken, u, p, seen;
    bool any, last, sleeps;
    do
    :: do /* next_round() */
       :: seen = news;
          last = closing;
          u = published;
          if
          :: u != taken ->
              do /* take_in() */
              :: taken < u -> listed[ring[taken % SLOTS]] = true; taken++
              :: else -> break
              od;
              break
          :: else
          fi;
          if
          :: taken != h || last -> break
          :: else
          fi;
          if /* await_news() ends with news or without */
          :: news == seen -> /* sleep_for_news() */
              lock();
              gdb_sleeps = true;
              do
              :: news == seen ->
                  atomic { gdb_waits = true; locked = false }; /* gy_cond_wait(&news_changed) */
                  !gdb_waits;
                  lock()
              :: else -> break
              od;
              gdb_sleeps = false;
              unlock()
          :: else
          fi
       od;
       if
       :: taken == h -> break /* closing and nothing left */
       :: else
       fi;
       any = false;
       p = 0;
       do /* sweep(): of one stream in order, which the positions see to */
       :: p < SLOTS ->
           if
           :: listed[p] && passed[slot_stream[p]] >= slot_seq[p] ->
               assert(!told[slot_task[p]]);
               d_step { told[slot_task[p]] = true; listed[p] = false }; /* finish_slot() */
               ring[h % SLOTS] = p;
               h++;
               any = true
           :: else
           fi;
           p++
       :: else -> break
       od;
       if
       :: any ->
           head = h; /* advance_head() */
           sleeps = gd_sleeps;
           if
           :: sleeps ->
               lock();
               gd_waits = false; /* gy_cond_signal(&head_changed) */
               unlock()
           :: else
           fi
       :: else -> /* nap(): ends by itself, so it is the condition that ends them all */
           (listed[0] && passed[slot_stream[0]] >= slot_seq[0]) ||
               (listed[1] && passed[slot_stream[1]] >= slot_seq[1]) || news != seen
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
        ring[1] = 1;
        run gd();
        run gdb()
    }
}
