/* SPDX-License-Identifier: MIT */
/* A share of GPU time, dispatcher/gates/share_turns.c and share_times.c with partition/bucket.c: GD launches the tasks
 * of a meter while its quota has tokens and few intervals are in flight, holds back what it may not launch, and
 * sleeps until tokens or an interval are there; the completion thread measures what the GPU has passed, GD pays it.  Every task is
 * launched, every interval is paid once, GD never sleeps for good while a task is held, and no more is used than
 * the bound in partition/bucket.h says.
 *
 * Each statement is one access of the C code to the positions or the inbox's signals; what GD alone touches
 * between two of them is one step.  The sleep itself is the inbox's model: here it is the condition it waits for.
 * Times are kept as distances from now, so that states come back: time passes when it likes, but at most
 * MOST_WAIT between two looks at it.  A unit of it brings one token; an interval is one launch and takes 1 to
 * LONGEST.  Predictions are what the last interval took, at first nothing.
 *
 * -DBROKEN: GD reads the inbox's signals after it has looked for work, not before. */
#ifndef TASKS
#define TASKS 3
#endif
#define IN_FLIGHT 2
#define LONGEST 2
#define BURST 1
#define CEILING 3
#define MOST_WAIT 10 /* longer than any deadline is away */
#define NEVER 255

byte since;                         /* now - bucket.at_ns */
byte timer = NEVER;                 /* deadline - now, of GD's sleep */
short tokens = BURST;               /* bucket.tokens */
byte in_flight;                     /* bucket.in_flight, predicted */
byte estimate;                      /* meter->estimate */
bool is_idle = true;                /* quota->is_idle */
byte opened, published;             /* meter->opened, which is closed at once; meter->published */
byte collected, settled;            /* meter->collected, meter->settled; quota->working is opened - settled */
byte passed;                        /* what the GPU has passed */
byte predicted[TASKS], used[TASKS]; /* of each interval */
byte over;                          /* the most that any window until now has used beyond its time */
byte waiting = TASKS, held;         /* tasks in GD's bins; meter->held */
byte signals;                       /* inbox->signals */
bool has_held, gd_ended;

inline refill(most) /* gy_bucket_refill() */
{
    tokens = tokens + since;
    since = 0;
    if
    :: tokens > most -> tokens = most
    :: else
    fi
}

/* settle(), with pay() for each */
inline settle()
{
    until = collected;
    d_step {
        do
        :: settled < until ->
            refill(CEILING);
            in_flight = (in_flight > predicted[settled] -> in_flight - predicted[settled] : 0);
            tokens = tokens - used[settled];
            over = over + used[settled];
            estimate = used[settled];
            settled++;
            is_idle = (settled == opened && !has_held);
            assert(over <= CEILING + (IN_FLIGHT + 1) * LONGEST);
            assert(tokens + IN_FLIGHT * LONGEST >= 0)
        :: else -> break
        od
    }
}

/* gy_meter_admits(): is_within(), has_tokens() */
inline ask()
{
    settle();
    d_step {
        if
        :: is_idle -> refill(BURST)
        :: !is_idle && tokens > in_flight
        :: else -> refill(CEILING)
        fi;
        is_idle = false;
        admits = (opened - settled < IN_FLIGHT && tokens > in_flight)
    }
}

/* gy_shares_deadline() */
inline find_deadline()
{
    d_step {
        if
        :: !has_held || opened - settled >= IN_FLIGHT -> timer = NEVER
        :: else /* gy_bucket_ready_ns() */ ->
            if
            :: in_flight - tokens + 1 <= since -> timer = 0
            :: else -> timer = in_flight - tokens + 1 - since
            fi
        fi
    }
}

proctype gd()
{
    byte seen, until;
    bool admits;
    do
    :: waiting + held == 0 -> break
    :: else ->
#ifndef BROKEN
        seen = signals;
#endif
        settle(); /* gy_shares_unhold() */
        if
        :: has_held ->
            ask();
            if
            :: admits -> d_step { waiting = waiting + held; held = 0; has_held = false }
            :: else
            fi
        :: else
        fi;
        if
        :: waiting > 0 -> /* run_batch() */
            do
            :: waiting > 0 ->
                ask();
                if
                :: admits -> /* gy_meter_enter(), the launch, gy_meter_leave() */
                    d_step {
                        predicted[opened] = estimate;
                        in_flight = in_flight + estimate;
                        waiting--;
                        opened++
                    }
                :: else -> /* gy_meter_hold() */
                    d_step { held = held + waiting; waiting = 0; is_idle = false; has_held = true }
                fi
            :: else -> break
            od;
            published = opened /* gy_shares_publish(), and the completion thread is told */
        :: else -> /* wait_for_work() */
            find_deadline();
#ifdef BROKEN
            seen = signals;
#endif
            signals != seen || timer == 0;
            timer = NEVER
        fi
    od;
    collected == TASKS; /* the dispatcher is destroyed when everything was collected */
    settle();
    assert(settled == TASKS);
    gd_ended = true
}

/* gy_shares_collect() */
proctype completion_thread()
{
    bool news;
    do
    :: collected == TASKS -> break
    :: collected < published && collected < passed ->
        news = false;
        do
        :: collected < published && collected < passed ->
            collected++;
            news = true
        :: else -> break
        od;
        if
        :: news -> signals++ /* gy_inbox_signal() */
        :: else
        fi
    od
}

active proctype gpu()
{
end:
    do
    :: passed < opened ->
        if
        :: used[passed] = 1
        :: used[passed] = LONGEST
        fi;
        passed++
    od
}

active proctype clock()
{
end:
    do
    :: since < MOST_WAIT ->
        d_step {
            since++;
            over = (over > 0 -> over - 1 : 0);
            timer = (timer != NEVER && timer > 0 -> timer - 1 : timer)
        }
    od
}

init {
    atomic {
        run gd();
        run completion_thread()
    }
}
