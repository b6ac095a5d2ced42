/* SPDX-License-Identifier: MIT */
/* The dispatcher's inbox, dispatcher/loop/inbox.c: producers push lists, a taker takes everything and sleeps when
 * there is nothing.  No task is lost, each comes once, those of a producer in their order, and the taker never
 * sleeps while something is there for it.
 *
 * Each statement is one access of the C code to `head`, `asleep`, the lock or the condition variable, in its
 * order.  `head` and `asleep` are sequentially consistent in the code where they race.
 *
 * The taker's sleep may be a chain of naps, each of which ends by itself at any time.  A producer whose tasks a guest
 * is about to take wakes nobody who naps, gy_inbox_push_for_guest().  The chain ends when it likes.
 *
 * -DBROKEN: the taker looks for news before it says that it sleeps, and not after.
 * -DBROKEN_NAPS: it does not look once more behind the last nap. */
#define PRODUCERS 2
#define EACH 2
#define NONE 255

byte head = NONE;               /* inbox->head: a task's number */
byte next[PRODUCERS * EACH];    /* the link in each task */
bool asleep, locked;            /* inbox->asleep, inbox->lock */
bool waiting;                   /* the taker is in gy_cond_wait() */
bool naps;                      /* inbox->naps */
byte last[PRODUCERS];           /* how many of each producer have arrived */
byte arrived;

inline lock() { atomic { !locked -> locked = true } }
inline unlock() { locked = false }

/* gy_inbox_push() of one task, with wake_sleeper() */
proctype producer(byte me)
{
    byte h, i;
    do
    :: i < EACH ->
        h = head;
        do
        :: next[me * EACH + i] = h;
           atomic { /* compare_exchange(&inbox->head) */
               if
               :: head == h -> head = me * EACH + i; break
               :: else -> h = head
               fi
           }
        od;
        i++;
        if
        :: naps -> goto pushed /* for a guest */
        :: true
        fi;
        if
        :: asleep ->
            lock();
            waiting = false; /* gy_cond_signal() */
            unlock()
        :: else
        fi;
pushed:
        skip
    :: else -> break
    od
}

/* gy_inbox_take(): the exchange, the reversal, and what the dispatcher finds */
inline take()
{
    if
    :: head == NONE /* gy_inbox_is_empty() */
    :: else ->
        atomic { newest = head; head = NONE };
        oldest = NONE;
        do
        :: newest != NONE -> t = next[newest]; next[newest] = oldest; oldest = newest; newest = t
        :: else -> break
        od;
        do
        :: oldest != NONE ->
            assert(last[oldest / EACH] == oldest % EACH); /* in order, none twice */
            last[oldest / EACH]++;
            arrived++;
            oldest = next[oldest]
        :: else -> break
        od
    fi
}

/* gy_inbox_wait() in mode BLOCK: the other modes look more often before they come to this */
inline wait()
{
    lock();
#ifdef BROKEN
    if
    :: head == NONE ->
        asleep = true;
        waiting = true;
        unlock();
        !waiting;
        lock()
    :: else
    fi;
#else
    asleep = true;
    do
    :: head == NONE -> /* has_news(); then sleep_once() */
        if
        :: !naps
        :: naps ->
            naps = false;
#ifndef BROKEN_NAPS
            goto again
#endif
        :: naps = true
        fi;
        atomic { waiting = true; locked = false }; /* gy_cond_wait(), gy_cond_wait_until() */
        !waiting || naps;
        waiting = false;
        lock();
again:
        skip
    :: else -> break
    od;
    naps = false;
#endif
    asleep = false;
    unlock()
}

proctype taker()
{
    byte newest, oldest, t;
    do
    :: arrived < PRODUCERS * EACH ->
        take();
        if
        :: arrived < PRODUCERS * EACH -> wait()
        :: else
        fi
    :: else -> break
    od
}

init {
    atomic {
        run taker();
        run producer(0);
        run producer(1)
    }
}
