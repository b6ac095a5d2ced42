/* SPDX-License-Identifier: MIT */
/* The dispatcher's loop on loan, dispatcher/loop/inbox.c and dispatcher/loop/guest.c: while GD sleeps a guest takes its place,
 * runs tasks of its own manager, and leaves what is left to GD.  No two threads have the loop at the same time,
 * every task is run once, the guest runs none of another manager, and GD does not sleep on while anything is left.
 *
 * Each statement is one access of the C code to what is shared, in its order; what happens under the inbox's lock is
 * one step, as are taking all that is in the inbox (inbox.pml has it in full) and the run of one task.
 *
 * GD may nap: a nap ends by itself, on loan or not, and then GD looks at the inbox alone unless it was called.  Own tasks
 * may be pushed for a guest, which wakes nobody who naps.
 *
 * -DBROKEN: a thread to which tasks are left finds no news.  -DBROKEN_RULE: the guest does not look whether it is alone
 * once it has taken something in.  -DBROKEN_CALL: who leaves tasks does not say that it has called GD. */
#define OWN 2    /* tasks of the guest's manager */
#define OTHERS 1 /* of another one */
#define LOOKS 2  /* of the guest, each with what it takes and leaves */

#define AWAKE 0
#define ASLEEP 1
#define ON_LOAN 2

byte in_own, in_others;   /* in the inbox */
byte bin_own, bin_others; /* taken in; of who has the loop */
byte ran_own, ran_others;
byte signals;             /* inbox->signals */
byte open_steps = 1;      /* d->open_steps: the guest's */
byte taker = AWAKE;       /* inbox->taker */
bool asleep;              /* inbox->asleep */
bool waiting;             /* GD is in gy_cond_wait(&inbox->wake) */
bool naps;                /* inbox->naps */
bool called;              /* inbox->is_called */
byte holders = 1;         /* to be checked: threads that have the loop */

#define NEWS(seen) (signals != seen || in_own + in_others != 0)
#define LEFT (bin_own + bin_others != 0)
#define DONE (ran_own == OWN && ran_others == OTHERS)

inline wake_sleeper()
{
    if
    :: asleep -> atomic { called = true; waiting = false } /* under the lock */
    :: else
    fi
}

inline take()
{
    d_step { bin_own = bin_own + in_own; bin_others = bin_others + in_others; in_own = 0; in_others = 0 }
}

proctype own()
{
    byte n;
    do
    :: n < OWN ->
        in_own++;
        n++;
        if
        :: naps /* gy_inbox_push_for_guest() */
        :: wake_sleeper()
        fi
    :: else -> break
    od
}

proctype others()
{
    byte n;
    open_steps++; /* step_begin() of run(): it signals nothing */
    do
    :: n < OTHERS -> in_others++; wake_sleeper(); n++
    :: else -> break
    od;
    ran_others == OTHERS;
    open_steps--
}

proctype gd()
{
    byte seen;
    bool tasks_only;
turn:
    seen = signals;
    take();
    do
    :: bin_own != 0 -> assert(holders == 1); d_step { bin_own--; ran_own++ }
    :: bin_others != 0 -> assert(holders == 1); d_step { bin_others--; ran_others++ }
    :: !LEFT -> break
    od;
    atomic { /* sleep_until() */
        taker = ASLEEP;
        asleep = true;
        tasks_only = false;
        holders--
    };
look:
    atomic {
        if
        :: taker == ASLEEP && tasks_only && !called && in_own + in_others != 0 ->
            taker = AWAKE; asleep = false; naps = false; holders++; goto turn
        :: taker == ASLEEP && (!tasks_only || called) && NEWS(seen) ->
            called = false; taker = AWAKE; asleep = false; naps = false; holders++; goto turn
        :: else -> if :: taker == ASLEEP -> called = false :: else fi
        fi;
        if /* sleep_once() */
        :: !naps
        :: naps -> naps = false; tasks_only = true; goto look
        :: naps = true
        fi;
        waiting = true
    };
    do
    :: atomic { !waiting -> break }
    :: atomic { waiting && naps && !(DONE && taker == ASLEEP) -> waiting = false; break }
    :: DONE && taker == ASLEEP -> goto over /* gy_dispatcher_destroy() */
    od;
    tasks_only = naps;
    goto look;
over:
    skip
}

proctype guest()
{
    byte looks, seen;
    bool wakes;
    do
    :: looks < LOOKS && !DONE ->
        looks++;
        if
        :: open_steps != 1 -> goto next /* may_help() */
        :: else
        fi;
        atomic { /* gy_inbox_borrow() */
            if
            :: taker == ASLEEP -> taker = ON_LOAN; asleep = false; holders++
            :: else -> goto next
            fi
        };
        seen = signals;
        take();
        do /* gy_gd_must_leave() after taking in and before each task; its wait may be over at any time */
        :: LEFT ->
#ifndef BROKEN_RULE
            if
            :: open_steps != 1 -> break
            :: else
            fi;
#endif
            assert(holders == 1 && bin_others == 0);
            d_step { bin_own--; ran_own++ }
        :: true -> break
        od;
        wakes = LEFT;
        atomic { /* gy_inbox_give_back() */
            holders--;
            taker = ASLEEP;
            asleep = true
        };
        atomic {
            if
            :: wakes ->
#ifndef BROKEN
                signals++;
#endif
#ifndef BROKEN_CALL
                called = true;
#endif
                waiting = false
            :: !wakes && NEWS(seen) -> called = true; waiting = false
            :: else
            fi
        };
next:
        wakes = false;
        seen = 0
    :: else -> break
    od
}

init {
    atomic {
        run gd();
        run own();
        run others();
        run guest()
    }
}
