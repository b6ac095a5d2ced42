/* SPDX-License-Identifier: MIT */
/* Memory stalls over two devices: dispatcher/gates/stall_group.c with the end of GD's loop.  Each manager holds
 * memory on its own device, and may have a task on the other device that needs memory there, which is held; or
 * its memory ends, early or late.  No thread sleeps for ever, and a task is let in although it does not fit only
 * when nothing else can happen anywhere, and by one device.
 *
 * Each statement is one access of the C code to what the two GDs and the tasks share; what a GD alone touches
 * between two of them is one step.
 *
 * -DALL: also managers without such a task, each memory may end early, and the GPU takes its time.  That takes minutes.
 *
 * -DBROKEN: a device that finds itself stuck does not tell the other one.
 * -DBROKEN_MOVES: tasks that are let go are not counted as a move, so what the other one has noted seems to stand.
 * -DBROKEN_BOTH: each stuck device lets a task in, not the first alone, and no number is made the next one.
 * -DBROKEN_ALONE: a device lets its task in when it is stuck itself. */
#define DEVICES 2
#define OTHER(x) (1 - (x))
#define NONE 0
#define HELD 1
#define ENDING 2
#define AT(d, m) ((d) * 2 + (m))

byte hold[4];     /* of manager m on device d: memory->state */
bool event[4];    /* memory->ended, in admission.events */
bool passed[4];   /* the GPU has passed its work */
bool inbox[2];    /* of device d: the task of the other one's manager is there */
byte waiting[2];  /* member->waiting; at most the task of the other one's manager */
bool noted[2];    /* member->stuck is 1 + group->moves */
bool stands[2];   /* the number that GD has read is group->moves still */
bool signalled[2]; /* the inbox's count of signals has changed since GD read it */
byte moving;      /* the lower half of group->moves */
byte work[2];     /* active tasks of the manager */
byte held_back[2];
bool let_in[2];   /* the manager's task may run */
byte ended;       /* managers that have ended */

/* gy_taskman_waits_for_memory() */
#define WAITS(m) (work[m] == 0 && held_back[m] != 0)
/* Something will make room on device d by itself, or its holders go on. */
#define GOES_ON(d) (hold[AT(d, 0)] == ENDING || hold[AT(d, 1)] == ENDING || event[AT(d, 0)] || event[AT(d, 1)] || \
    (hold[AT(d, 0)] == HELD && !WAITS(0)) || (hold[AT(d, 1)] == HELD && !WAITS(1)))

/* group->moves: only whether what was read or noted stands is known here */
inline move()
{
    d_step { noted[0] = false; noted[1] = false; stands[0] = false; stands[1] = false }
}

inline signal(inb)
{
    signalled[inb] = true
}

inline ask(who)
{
    signal(who)
}

/* gy_owner_fell_quiet(): all devices of the manager */
inline fall_quiet(mgr)
{
    if
    :: held_back[mgr] != 0 -> ask(0); ask(1)
    :: else
    fi
}

/* gy_admission_end() of a task */
inline end_memory(where, whose)
{
    event[AT(where, whose)] = true;
    signal(where)
}

/* let_go() of the task that waits on device d, and admit_first() */
inline let_go()
{
#ifndef BROKEN_MOVES
    atomic { moving++; move() }; /* gy_stall_begin_move() */
#endif
    d_step { hold[AT(d, o)] = HELD; work[o]++; held_back[o]--; let_in[o] = true };
    waiting[d]--;
#ifndef BROKEN_MOVES
    atomic { moving--; move() }; /* gy_stall_end_move() */
#endif
    if
    :: waiting[OTHER(d)] != 0 -> ask(OTHER(d))
    :: else
    fi
}

/* gy_admission_poll() */
inline poll()
{
    atomic {
        if
        :: event[AT(d, 0)] -> event[AT(d, 0)] = false; hold[AT(d, 0)] = ENDING
        :: else
        fi;
        if
        :: event[AT(d, 1)] -> event[AT(d, 1)] = false; hold[AT(d, 1)] = ENDING
        :: else
        fi
    };
    d_step {
        if
        :: hold[AT(d, 0)] == ENDING && passed[AT(d, 0)] -> hold[AT(d, 0)] = NONE
        :: else
        fi;
        if
        :: hold[AT(d, 1)] == ENDING && passed[AT(d, 1)] -> hold[AT(d, 1)] = NONE
        :: else
        fi
    };
    if
    :: waiting[d] != 0 && hold[AT(d, 0)] == NONE && hold[AT(d, 1)] == NONE -> let_go()
    :: else
    fi
}

/* gy_admission_enter() */
inline take_in()
{
    if
    :: inbox[d] ->
        d_step { inbox[d] = false; waiting[d]++ };
        held_back[o]++; /* gy_task_hold_back() */
        atomic { work[o]--; quiet = (work[o] == 0) };
        if
        :: quiet -> fall_quiet(o)
        :: else
        fi
    :: else
    fi
}

inline force()
{
#ifdef BROKEN_BOTH
    d_step {
        assert(!GOES_ON(d) && (waiting[OTHER(d)] == 0 || !GOES_ON(OTHER(d))));
    };
    let_go()
#else
    ours = false;
    atomic {
        if
        :: stands[d] ->
            move();
            ours = true;
            assert(!GOES_ON(d) && (waiting[OTHER(d)] == 0 || !GOES_ON(OTHER(d))))
        :: else
        fi
    };
    if
    :: ours -> let_go()
    :: else
    fi
#endif
}

/* gy_admission_idle(), and gy_stall_is_ours() */
inline settle()
{
    atomic { stands[d] = true; open = (moving != 0) };
    if
    :: !open && waiting[d] != 0 && hold[AT(d, 0)] != ENDING && hold[AT(d, 1)] != ENDING ->
        if
        :: (hold[AT(d, 0)] == NONE || WAITS(0)) ->
            if
            :: (hold[AT(d, 1)] == NONE || WAITS(1)) ->
                if
                :: !event[AT(d, 0)] && !event[AT(d, 1)] ->
#ifdef BROKEN_ALONE
                    force()
#else
                    atomic { /* under the lock, which the other one needs, too */
                        if
                        :: stands[d] -> news = !noted[d]; noted[d] = true; known = noted[OTHER(d)]
                        :: !stands[d] -> news = true; known = false /* whatever was noted at that number */
                        :: !stands[d] -> news = false; known = true
                        :: !stands[d] -> news = false; known = false
                        :: !stands[d] -> news = true; known = true
                        fi;
                        all = true;
                        if
                        :: waiting[OTHER(d)] != 0 ->
                            all = known;
#ifndef BROKEN
                            if
                            :: news || !all -> ask(OTHER(d))
                            :: else
                            fi;
#endif
#ifndef BROKEN_BOTH
                            all = all && d == 0
#endif
                        :: else
                        fi
                    };
                    if
                    :: all -> force()
                    :: else
                    fi
#endif
                :: else
                fi
            :: else
            fi
        :: else
        fi
    :: else
    fi
}

proctype gd(byte d)
{
    byte o = OTHER(d);
    bool all, news, known, ours, open, quiet;
    do
    :: ended == 2 -> break
    :: else ->
        signalled[d] = false;
        take_in();
        poll();
        settle();
        d_step { stands[d] = false; known = false; open = false; all = false; news = false; ours = false; quiet = false };
        if
        :: signalled[d] || ended == 2
        fi
    od
}

/* The GPU passes what the memory's tasks have enqueued, if any device still cares; the completion thread signals GD. */
proctype gpu()
{
    do
    :: hold[AT(0, 0)] == ENDING && !passed[AT(0, 0)] -> passed[AT(0, 0)] = true; signal(0)
    :: hold[AT(0, 1)] == ENDING && !passed[AT(0, 1)] -> passed[AT(0, 1)] = true; signal(0)
    :: hold[AT(1, 0)] == ENDING && !passed[AT(1, 0)] -> passed[AT(1, 0)] = true; signal(1)
    :: hold[AT(1, 1)] == ENDING && !passed[AT(1, 1)] -> passed[AT(1, 1)] = true; signal(1)
    :: ended == 2 -> break
    od
}

proctype manager(byte m)
{
    bool early, quiet;
    if
#ifndef ALL
    :: m == 0 -> early = true; end_memory(m, m)
#else
    :: early = true; end_memory(m, m)
#endif
    :: early = false
    fi;
    if
    :: inbox[OTHER(m)] = true; signal(OTHER(m)); /* it has a task on the other device, the last active one */
        let_in[m];
        end_memory(OTHER(m), m)
#ifdef ALL
    :: skip
#endif
    fi;
    if
    :: !early -> end_memory(m, m)
    :: else
    fi;
    atomic { work[m]--; quiet = (work[m] == 0) };
    if
    :: quiet -> fall_quiet(m)
    :: else
    fi;
    atomic { ended++; signalled[0] = true; signalled[1] = true }
}

init {
    atomic {
        hold[AT(0, 0)] = HELD; hold[AT(1, 1)] = HELD;
        work[0] = 1; work[1] = 1;
        run gd(0); run gd(1);
#ifdef ALL
        run gpu();
#else
        passed[0] = true; passed[1] = true; passed[2] = true; passed[3] = true;
#endif
        run manager(0); run manager(1)
    }
}
