/* A share of GPU time, dispatcher/shares.c with partition/bucket.c: GD launches a partition's tasks while its
 * bucket has tokens and few segments are in flight, holds back what it may not launch, and sleeps until tokens
 * or a segment are there; GDB charges what the GPU has passed.  Every task is launched, every segment is
 * charged once, GD never sleeps for good while a task is held, and no more is used than the bound in
 * partition/bucket.h says.
 *
 * Each statement is one access of the C code to the positions, the bucket's lock or the inbox's signals; what
 * the lock guards is one step.  The sleep itself is the inbox's model: here it is the condition it waits for.
 * Times are kept as distances from now, so that states come
 * back: time passes when it likes, but at most MOST_WAIT between two looks at it.  A unit of it brings one token; a segment is one launch and takes 1 to LONGEST.
 * Predictions are what the last segment took, at first nothing.
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
byte estimate;                      /* s->estimate */
bool is_idle = true;                /* s->is_idle */
byte opened, closed, collected;     /* s->opened, s->closed, s->collected */
byte watched, passed;               /* up to where GDB looks out; what the GPU has passed */
byte predicted[TASKS], used[TASKS]; /* of each segment */
byte over;                          /* the most that any window until now has used beyond its time */
byte waiting = TASKS, held;         /* tasks in GD's bins; s->held */
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

/* gy_share_admits() */
inline ask()
{
    admits = false;
    if
    :: opened - collected >= IN_FLIGHT /* `collected` is read without the lock */
    :: else ->
        d_step { /* s->lock */
            if
            :: is_idle -> refill(BURST)
            :: else -> refill(CEILING)
            fi;
            is_idle = false;
            admits = tokens > in_flight
        }
    fi
}

/* gy_shares_deadline() */
inline find_deadline()
{
    timer = NEVER;
    if
    :: has_held ->
        if
        :: opened - collected >= IN_FLIGHT
        :: else ->
            d_step { /* gy_bucket_ready_ns() under s->lock */
                if
                :: in_flight - tokens + 1 <= since -> timer = 0
                :: else -> timer = in_flight - tokens + 1 - since
                fi
            }
        fi
    :: else
    fi
}

proctype gd()
{
    byte seen;
    bool admits;
    do
    :: waiting + held == 0 -> break
    :: else ->
#ifndef BROKEN
        seen = signals;
#endif
        if /* gy_shares_unhold() */
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
                :: admits -> /* gy_share_enter(), the launch, gy_share_leave() */
                    opened++;
                    d_step {
                        predicted[closed] = estimate;
                        in_flight = in_flight + estimate
                    };
                    closed++;
                    waiting--
                :: else -> /* gy_share_hold() */
                    d_step { held = held + waiting; waiting = 0 };
                    has_held = true
                fi
            :: else -> break
            od;
            watched = closed /* gy_shares_close(), and GDB is told */
        :: else -> /* wait_for_work() */
            find_deadline();
#ifdef BROKEN
            seen = signals;
#endif
            signals != seen || timer == 0;
            timer = NEVER
        fi
    od;
    collected == TASKS; /* the context is destroyed when everything was collected */
    gd_ended = true
}

/* gy_shares_collect() */
proctype gdb()
{
    bool news;
    do
    :: collected == TASKS -> break
    :: collected < watched && collected < passed ->
        news = false;
        do
        :: collected < closed && collected < passed ->
            d_step { /* charge(), s->lock */
                refill(CEILING);
                in_flight = (in_flight > predicted[collected] -> in_flight - predicted[collected] : 0);
                tokens = tokens - used[collected];
                over = over + used[collected];
                estimate = used[collected];
                is_idle = (collected + 1 == opened && !has_held);
                assert(over <= CEILING + (IN_FLIGHT + 1) * LONGEST);
                assert(tokens + IN_FLIGHT * LONGEST >= 0)
            };
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
    :: passed < closed ->
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
        run gdb()
    }
}
