/* SPDX-License-Identifier: MIT */
/* Bundles, taskman/cpu/bundle.c, on the eventcount of taskman/cpu/event.c: a body makes tasks and then computes for
 * ever, so it makes no more.  Every task is run by the other workers all the same, none of which sleeps
 * as long as there is one.
 *
 * Each statement is one access of the C code to what is shared, in its order; the lock of an event makes the
 * check for its epoch and falling asleep one step, as well as moving it on and waking up.  Taking an item of a deque
 * is one step, see deque.pml.  A bundle is closed when it has two tasks.
 *
 * `looking` is pool->idle, of which `sleepers` are not awake; `coming` is work.on_their_way.
 *
 * -DBROKEN: a worker does not take what is being bundled in its last look.
 * -DBROKEN_FIRST: nobody is told that a bundle is no longer empty.
 * -DBROKEN_CLOSED: nobody is told of a closed bundle.
 * -DBROKEN_OPENED: nobody is told of the tasks that the taker of a bundle has pushed.
 * -DBROKEN_LEFT: a worker that has found a task does not see what is being bundled. */
#define WORKERS 2
#define TASKS 3

byte bundle;         /* tasks in worker->bundle */
byte single, closed; /* tasks and bundles in deques */
byte ran;
byte sleepers;        /* pool->work */
bool moved[WORKERS];  /* the epoch, since the worker has read it */
bool coming;          /* the same; one at a time */
byte looking;         /* pool->idle */
bool waiting[WORKERS];
bool over;

/* gy_event_notify(&pool->work, 1): whom the condition variable chooses is not said */
inline notify_one()
{
    atomic {
        moved[0] = true;
        moved[1] = true;
        if
        :: waiting[0] -> waiting[0] = false
        :: waiting[1] -> waiting[1] = false
        :: !waiting[0] && !waiting[1]
        fi
    }
}

/* gy_event_wake_one(&pool->work, 1) */
inline wake_one()
{
    do
    :: sleepers == 0 -> break
    :: atomic {
           sleepers != 0;
           if
           :: coming -> break
           :: else -> coming = true /* compare_exchange(&event->on_their_way), with the load just before */
           fi
       };
       if
       :: sleepers != 0 -> notify_one(); break
       :: sleepers == 0 -> coming = false
       fi
    od
}

/* notify() of taskman/cpu/wake.c, for gy_worker_tell_of_task(), too, which reads `sleepers` once more before */
inline notify_work()
{
    s = sleepers;
    if
    :: s == 0
    :: else ->
        if
        :: looking > s -> s = 0
        :: else -> s = 0; wake_one()
        fi
    fi
}

/* gy_worker_bundle() */
inline put()
{
    if
    :: atomic { bundle != 0 -> bundle++ }; bundled++ /* compare_exchange(&self->bundle) */
    :: bundle == 0 ->
        bundled = 1;
        bundle = 1; /* atomic_store(&self->bundle) */
#ifndef BROKEN_FIRST
        notify_work()
#endif
    fi;
    if
    :: bundled == 2 ->
        atomic { b = bundle; bundle = 0 }; /* publish() */
        if
        :: b != 0 ->
            b = 0;
            closed++; /* gy_deque_push() */
#ifndef BROKEN_CLOSED
            notify_work()
#endif
        :: else
        fi
    :: else
    fi
}

/* Of an item with `b` tasks one is run, the other is pushed. */
inline open()
{
    if
    :: b == 2 ->
        b = 0;
        single++;
#ifndef BROKEN_OPENED
        notify_work()
#endif
    :: else -> b = 0
    fi
}

inline run_task()
{
    atomic {
        ran++;
        assert(ran <= TASKS);
        if
        :: ran == TASKS -> over = true; waiting[0] = false; waiting[1] = false
        :: else
        fi
    }
}

/* The body that makes tasks.  Or it ends when it has made them, its worker takes a bundle out of its own deque, and
 * the task of that which it runs computes for ever. */
proctype body()
{
    byte b, s, bundled, made;
    do
    :: made < TASKS -> put(); made++
    :: else -> break
    od;
    if
    :: true
    :: atomic { closed > 0 -> closed--; b = 2 };
       open();
       run_task()
    fi
}

/* steal_queued() */
inline steal()
{
    b = 0;
    if
    :: atomic { single > 0 -> single--; b = 1 }
    :: atomic { closed > 0 -> closed--; b = 2 }
    :: single == 0 && closed == 0
    fi
}

inline come_back()
{
    sleepers--;
    coming = false
}

/* gy_worker_end_looking() */
inline end_looking()
{
    looking--;
    if
    :: sleepers == 0
    :: sleepers != 0 ->
        if
#ifdef BROKEN_LEFT
        :: single != 0 || closed != 0 -> notify_work()
#else
        :: single != 0 || closed != 0 || bundle != 0 -> notify_work()
#endif
        :: else
        fi
    fi
}

/* What one of them runs lasts until all have been run. */
inline go_on()
{
    run_task();
    if
    :: me == 0 -> over
    :: else
    fi;
    looking++
}

proctype worker(byte me)
{
    byte b, s;
    looking++; /* gy_worker_begin_looking() */
    do
    :: over -> break
    :: else ->
        steal();
        if
        :: b != 0 -> open(); end_looking(); go_on()
        :: else ->
            sleepers++; /* gy_worker_prepare() */
            moved[me] = false;
            coming = false;
            steal();
#ifndef BROKEN
            if
            :: b == 0 -> atomic { b = bundle; bundle = 0 } /* gy_bundle_seize() */
            :: else
            fi;
#endif
            if
            :: b != 0 -> open(); come_back(); end_looking(); go_on()
            :: else -> /* gy_event_sleep() */
                atomic {
                    if
                    :: !moved[me] && !over -> waiting[me] = true
                    :: else
                    fi
                };
                !waiting[me];
                come_back()
            fi
        fi
    od
}

init {
    atomic {
        run body();
        run worker(0);
        run worker(1)
    };
    over;
    assert(ran == TASKS && bundle == 0 && single == 0 && closed == 0)
}
