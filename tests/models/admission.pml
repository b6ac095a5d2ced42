/* SPDX-License-Identifier: MIT */
/* Memory admission when nothing else can go on: dispatcher/gates/admission.c with the end of GD's loop in loop.c.
 * A task waits for memory that does not fit beside what its own successor holds, so it must be let in although
 * it does not fit: after everything that ends has been passed by the GPU, and once its manager has nothing
 * running.  GD may hear of all that in any order.  No thread sleeps for ever: the task is let in.
 *
 * Each statement is one access of the C code to what GD, the completion thread and the waiting thread share; what GD alone touches
 * between two of them is one step.  The sleep itself is the inbox's model: here it is the condition it waits for.
 *
 * Another manager holds memory, too.  It ends, or falls quiet with a task of its own held back, as late as it
 * likes; its waiting threads belong to another pool, and perhaps nobody waits for it at all.
 *
 * -DBROKEN: GD looks whether somebody is to be let in before it takes in what has come, and not again before it
 * sleeps.  No thread hears then of memory that ends in between.
 * -DBROKEN_ASKS: GD looks only when a thread that waits has asked since it looked last.  The one question may come
 * while the other manager still runs.
 * -DBROKEN_ALONE: a thread that makes a manager quiet informs only the threads that wait for it, not GD.
 * -DBROKEN_EVENTS: GD does not look for events once more when it has seen that all managers are quiet.  What
 * has ended since it took them in would make room by itself. */
#ifndef ENDS
#define ENDS 1 /* memories whose tasks were released, and which the GPU has yet to pass */
#endif
#define OTHER ENDS /* the memory of the other manager */
#define ALL (ENDS + 1)
#define HELD 0
#define ENDING 1
#define IDLE 2

bool event[ALL];      /* memory->ended, in admission.events */
byte state[ALL];      /* memory->state */
bool watched[ALL];    /* memory->watched: the completion thread has a slot for its stream */
bool completed[ALL];  /* stream->completed has come to its timeline point */
byte ending;          /* admission.ending */
byte ended;           /* memories that are IDLE */
byte ends = ALL;      /* that will be; the other manager's may stay HELD */
bool quiet;           /* admission.quiet */
bool first;           /* admission.first: the task waits for memory */
bool ready;           /* admission.ready: it was let in */
bool forced;          /* and taken in */
byte signals;         /* inbox.signals */
bool inbox;           /* inbox.head: the task is there */
byte work = 2;        /* active tasks of the manager: the one before ours, and others */
byte other_work = 1;  /* the same of the other manager */
bool other_held;      /* it has a task that waits for memory, behind ours */
byte pool_held;       /* pool->held_back */
byte told;            /* gy_pool_notify_waiters(): the waiting thread has to look */

/* gy_taskman_count_off(): the waiting threads, and GD if tasks are held back */
inline count_off()
{
    atomic {
        work--;
        if
        :: work == 0 -> told++
        :: else
        fi;
        now_quiet = (work == 0)
    };
#ifndef BROKEN_ALONE
    if
    :: now_quiet && pool_held != 0 -> quiet = true; signals++ /* gy_pool_tell_quiet() */
    :: else
    fi
#else
    skip
#endif
}

/* gy_admission_poll(): take_events() and end_passed() */
inline poll()
{
    i = 0;
    do
    :: i < ALL ->
        if
        :: atomic { event[i] -> event[i] = false }; /* under the lock */
           if
           :: state[i] == HELD -> state[i] = ENDING; ending++
           :: else
           fi
        :: else
        fi;
        i++
    :: else -> break
    od;
    i = 0;
    do
    :: i < ALL && ending != 0 ->
        if
        :: state[i] == ENDING && completed[i] -> state[i] = IDLE; ending--; ended++
        :: else
        fi;
        i++
    :: else -> break
    od
}

/* take_in() of the task: gy_admission_enter(), and gy_task_hold_back() */
inline take_in()
{
    if
    :: ready -> d_step { ready = false; forced = true }
    :: else
    fi;
    if
    :: inbox ->
        d_step { inbox = false; first = true; pool_held++ };
        count_off();
        poll()
    :: else
    fi
}

/* gy_gd_poll(): gy_admission_is_busy() is true all the time */
inline gy_gd_poll()
{
    take_in();
    poll();
    take_in()
}

/* settle_memory(): gy_admission_idle() and watch_memory() */
inline settle_memory()
{
    poll();
    if
    :: first && ending == 0 ->
#ifdef BROKEN_ASKS
        atomic { asked = quiet; quiet = false };
#else
        quiet = false;
#endif
        if
        :: asked && work == 0 && (state[OTHER] == IDLE || (other_held && other_work == 0)) ->
            /* gy_taskman_waits_for_memory() of whoever holds memory */
            has_event = false;
            i = 0;
            do
            :: i < ALL -> has_event = has_event || event[i]; i++
            :: else -> break
            od;
#ifndef BROKEN_EVENTS
            if
            :: !has_event ->
                d_step { first = false; ready = true; work++; pool_held-- }
            :: else
            fi
#else
            assert(!has_event);
            d_step { first = false; ready = true; work++; pool_held-- }
#endif
        :: else
        fi
    :: else
    fi;
    i = 0;
    do
    :: i < ALL ->
        if
        :: state[i] == ENDING -> watched[i] = true /* and gy_rings_flush() */
        :: else
        fi;
        i++
    :: else -> break
    od
}

/* gy_gd_main() */
proctype gd()
{
    byte i, seen;
    bool asked = true, now_quiet, has_event;
    do
    :: forced && ended == ends -> break
    :: else ->
        seen = signals;
#ifdef BROKEN
        settle_memory();
        gy_gd_poll();
#else
        gy_gd_poll();
        settle_memory();
#endif
        if
        :: !ready && !(forced && ended == ends) -> signals != seen || inbox /* wait_for_work() */
        :: else
        fi
    od
}

/* finish_slot() of each watched stream, when the GPU has passed it */
proctype completion_thread()
{
    byte i;
    do
    :: i < ends ->
        if
        :: watched[i] ->
            completed[i] = true; /* gy_streams_passed() */
            if
            :: ending != 0 -> signals++ /* gy_admission_passed() */
            :: else
            fi
        :: i >= ends
        fi;
        i++
    :: else -> break
    od
}

/* The task before ours is released: it makes ours ready, and hands over its place among the active ones. */
proctype predecessor()
{
    inbox = true
}

/* Others are released: with the last one that names a memory, that ends. */
proctype others()
{
    byte i;
    bool now_quiet;
    do
    :: i < ENDS -> event[i] = true; signals++; i++ /* gy_admission_end() */
    :: else -> break
    od;
    count_off()
}

/* The last running task of the other manager is released: nothing names its memory any more, or one task does
 * that comes after one which is held back. */
proctype other()
{
    bool now_quiet;
    if
    :: event[OTHER] = true; signals++; other_work--
    :: atomic { ends = ENDS; other_held = true; pool_held++ }; /* gy_task_hold_back() */
        atomic { other_work--; now_quiet = true };
#ifndef BROKEN_ALONE
        if
        :: now_quiet && pool_held != 0 -> quiet = true; signals++
        :: else
        fi
#endif
    fi
}

/* wait_is_over() in gy_pool_wait() */
proctype waiter()
{
end:
    do
    :: told > 0 ->
        told = 0;
        if
        :: first -> quiet = true; signals++ /* gy_admission_quiet() */
        :: else
        fi
    od
}

init {
    atomic {
        run gd();
        run completion_thread();
        run predecessor();
        run others();
        run other();
        run waiter()
    }
}
