/* SPDX-License-Identifier: MIT */
/* Guest workers, taskman/cpu/guest.c, on the eventcounts of taskman/cpu/event.c: a waiting thread borrows a worker
 * that sleeps, and may leave tasks of other managers behind.  A thread of its own and the guest queue these tasks.
 * No two threads are one worker at the same time, every task is run, and every sleeping thread is woken up when all
 * is over.
 *
 * Each statement is one access of the C code to what is shared, in its order; the lock of an event makes the
 * check for its epoch and falling asleep one step, as well as moving it on and waking up.  Looking for tasks is
 * one step.
 *
 * `looking` is pool->idle, of which `sleepers` are not awake; `coming` is work.on_their_way.
 *
 * -DBROKEN: a guest that returns its worker does not look for wake-ups that were missed.
 * -DBROKEN_COUNT: a thread that is about to sleep does not take back that it was counted as woken.
 * -DLASTING, with two workers: the body that the guest runs lasts until the other worker has come for all queued
 * tasks. */
#ifndef WORKERS
#define WORKERS 1
#define ROUNDS 2 /* how often a thread is a guest */
#define EACH 2   /* tasks queued by the other thread */
#endif
#define ALL (EACH + ROUNDS)

#define AWAKE 0
#define ASLEEP 1
#define LENT 2
#define WANTED 3

byte tasks;                /* queued */
byte ran, queued;          /* so far */
byte epoch, sleepers;      /* pool->work */
bool coming;               /* the same; one at a time */
byte looking;              /* pool->idle */
bool waiting[2];           /* in gy_cond_wait(&work.moved) */
byte back_epoch, back_sleepers; /* pool->returned */
bool back_waiting[2];
short lent;                /* pool->lent; -1 for a moment when a worker wakes up while it is being lent */
bool missed;               /* pool->missed */
byte holder[WORKERS];      /* worker->holder */
byte acting[WORKERS];      /* how many threads are this worker at this moment */
bool stopping, stood_in;

/* gy_event_notify(&pool->work, 1): whom the condition variable chooses is not said */
inline notify_one()
{
    if
    :: sleepers == 0
    :: else ->
        atomic {
            epoch++;
            if
            :: waiting[0] -> waiting[0] = false
            :: waiting[1] -> waiting[1] = false
            :: !waiting[0] && !waiting[1]
            fi
        }
    fi
}

/* gy_event_wake_one(&pool->work, 1) */
inline wake_one()
{
    do
    :: s = sleepers;
       if
       :: s == 0 -> break
       :: else
       fi;
       if
       :: atomic { !coming -> coming = true }
       :: coming -> break
       fi;
       s = sleepers;
       if
       :: s != 0 -> notify_one(); break
       :: else -> coming = false
       fi
    od
}

/* come_back() */
inline come_back()
{
    sleepers--;
    coming = false
}

/* The end of notify() of taskman/cpu/wake.c: unless somebody looks, who was awake when `sleepers` was read */
inline notify_sleeper()
{
    if
    :: looking > s
    :: else -> wake_one()
    fi
}

/* notify() of taskman/cpu/wake.c */
inline notify_work()
{
    s = sleepers;
    if
    :: s == 0
    :: else ->
        if
        :: s > lent -> notify_sleeper()
        :: else ->
            missed = true;
            if
            :: sleepers > lent -> notify_sleeper()
            :: else
            fi
        fi
    fi
}

/* gy_worker_end_looking() */
inline end_looking()
{
    looking--;
    s = sleepers;
    if
    :: s != 0 && tasks > 0 -> notify_work()
    :: else
    fi
}

/* gy_worker_find() */
inline find()
{
    atomic {
        assert(acting[me] == 1);
        if
        :: tasks > 0 -> tasks--; found = true
        :: else -> found = false
        fi
    }
}

/* gy_worker_sleep() */
inline sleep()
{
    acting[me]--;
    holder[me] = ASLEEP;
    atomic {
        if
        :: epoch == key -> waiting[me] = true
        :: else
        fi
    };
    !waiting[me];
    come_back();
    do
    :: atomic { holder[me] == ASLEEP -> holder[me] = AWAKE; acting[me]++ }; break
    :: atomic { holder[me] == LENT -> holder[me] = WANTED };
       lent--;
       looking--;
       notify_one();
       do /* gy_event_wait_for() */
       :: back_sleepers++;
          key = back_epoch;
          if
          :: holder[me] == AWAKE -> back_sleepers--; break
          :: else ->
              atomic {
                  if
                  :: back_epoch == key -> back_waiting[me] = true
                  :: else
                  fi
              };
              !back_waiting[me];
              back_sleepers--
          fi
       od;
       acting[me]++;
       looking++;
       break
    od
}

proctype worker(byte me)
{
    bool found, ends;
    byte key, s;
    acting[me]++;
    do
    :: find();
       if
       :: found -> ran++
       :: else ->
           looking++; /* gy_worker_begin_looking() */
           do
           :: ends = stopping;
              find();
              if
              :: found || ends -> break
              :: else
              fi;
              sleepers++; /* gy_event_prepare() */
              key = epoch;
#ifndef BROKEN_COUNT
              coming = false; /* begin_to_look() */
#endif
              ends = stopping;
              find();
              if
              :: found || ends -> come_back(); break
              :: else -> sleep()
              fi
           od;
           end_looking();
           if
           :: found -> ran++
           :: else -> break
           fi
       fi
    od
}

/* What gy_guest_begin() does, the work, and end() */
proctype waiter()
{
    byte round, at, s;
    bool has;
    do
    :: round < ROUNDS ->
        has = false;
        s = sleepers;
        if
        :: s > lent ->
            for (at : 0 .. WORKERS - 1) {
                atomic {
                    if
                    :: !has && holder[at] == ASLEEP -> holder[at] = LENT; has = true; break
                    :: else
                    fi
                }
            };
        :: else
        fi;
        if
        :: has ->
            lent++;
            acting[at]++;
            assert(acting[at] == 1);
#ifdef LASTING
            queued == EACH && tasks == 0;
#endif
            tasks++; /* a task that it makes ready, and leaves to the others */
            notify_work();
            acting[at]--;
            if
            :: atomic { holder[at] == LENT -> holder[at] = ASLEEP };
               lent--;
#ifndef BROKEN
               if
               :: atomic { missed -> missed = false };
                  if
                  :: tasks > 0 -> notify_work()
                  :: else
                  fi
               :: else
               fi
#endif
            :: holder[at] == WANTED ->
                holder[at] = AWAKE;
                if /* gy_event_notify(&pool->returned, all) */
                :: back_sleepers == 0
                :: else -> d_step { back_epoch++; back_waiting[0] = false; back_waiting[1] = false }
                fi
            fi
        :: else -> /* no worker sleeps */
            tasks++;
            notify_work()
        fi;
        round++
    :: else -> break
    od;
    stood_in = true
}

proctype other()
{
    byte s;
    do
    :: queued < EACH ->
        tasks++;
        notify_work();
        queued++
    :: else -> break
    od;
    stood_in && ran == ALL; /* no manager is left: the pool is destroyed */
    stopping = true;
    if
    :: sleepers == 0
    :: else -> d_step { epoch++; waiting[0] = false; waiting[1] = false }
    fi
}

init {
    atomic {
        run worker(0);
#if WORKERS > 1
        run worker(1);
#endif
        run waiter();
        run other()
    }
}
