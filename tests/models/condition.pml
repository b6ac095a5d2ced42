/* SPDX-License-Identifier: MIT */
/* Conditions, gy_cond_wait() and gy_cond_signal() of base/thread.c: threads wait for tokens under a mutex, others give
 * them and signal, with the mutex or after they have given it back.  Each token is taken: no waiter sleeps for
 * ever beside one.
 *
 * Each statement is one access of the C code to what is shared, in its order; the kernel compares and falls asleep in one
 * step, and wakes any sleeper, not the first one, as it does where priorities differ.  One wait ends by time.
 *
 * -DBROKEN: the sequence is read after the mutex was given back.  -DBROKEN_COUNT: the waiter is counted in after that.
 * -DBROKEN_SEQUENCE: a signal only wakes.  -DBROKEN_LOOK: a signal looks for waiters before the change. */
#ifndef WAITERS
#define WAITERS 3
#endif
#ifndef EACH
#define EACH 1 /* tokens that each waiter takes */
#endif
#define SIGNALERS 2
#define TOKENS (WAITERS * EACH)

bool locked;
byte tokens;   /* guarded by the mutex */
byte sequence; /* cond->sequence */
byte waiters;  /* cond->waiters */
bool asleep[WAITERS]; /* in the kernel's queue */
byte given;
bool may_end = true; /* a timed wait has not ended yet */

inline lock()
{
    atomic { !locked -> locked = true }
}

inline unlock()
{
    locked = false
}

inline wake_one() /* FUTEX_WAKE */
{
    atomic {
        if
        :: asleep[0] -> asleep[0] = false
        :: asleep[1] -> asleep[1] = false
#if WAITERS > 2
        :: asleep[2] -> asleep[2] = false
        :: !asleep[0] && !asleep[1] && !asleep[2]
#else
        :: !asleep[0] && !asleep[1]
#endif
        fi
    }
}

inline signal(any)
{
    if
    :: any ->
#ifndef BROKEN_SEQUENCE
        sequence++;
#endif
        wake_one()
    :: else
    fi
}

inline wait()
{
#ifndef BROKEN_COUNT
    waiters++;
#endif
#ifndef BROKEN
    seen = sequence;
#endif
    unlock();
#ifdef BROKEN_COUNT
    waiters++;
#endif
#ifdef BROKEN
    seen = sequence;
#endif
    atomic { /* FUTEX_WAIT */
        if
        :: sequence == seen -> asleep[me] = true
        :: else
        fi
    };
    if
    :: !asleep[me]
    :: atomic { asleep[me] && may_end -> may_end = false; asleep[me] = false }
    fi;
    lock();
    waiters--;
    seen = 0
}

proctype waiter(byte me)
{
    byte seen, took;
    do
    :: took < EACH ->
        lock();
        do
        :: tokens == 0 -> wait()
        :: else -> break
        od;
        tokens--;
        took++;
        unlock()
    :: else -> break
    od
}

proctype signaler()
{
    bool any;
    do
    :: atomic { given < TOKENS -> given++ };
#ifdef BROKEN_LOOK
        any = waiters != 0;
#endif
        lock();
        tokens++;
        if
        :: true -> unlock() /* signal afterwards */
        :: true ->
#ifndef BROKEN_LOOK
            any = waiters != 0;
#endif
            signal(any);
            unlock();
            goto next
        fi;
#ifndef BROKEN_LOOK
        any = waiters != 0;
#endif
        signal(any);
next:
        any = false
    :: else -> break
    od
}

init {
    atomic {
        byte i;
        for (i : 0 .. WAITERS - 1) {
            run waiter(i)
        }
        for (i : 0 .. SIGNALERS - 1) {
            run signaler()
        }
    };
    _nr_pr == 1;
    assert(tokens == 0 && waiters == 0 && !locked)
}
