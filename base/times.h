/* SPDX-License-Identifier: MIT */
/* The times that waits, wake hints and gates go by: what each is for, and where its figure comes from.
 *
 * Most of them follow from what it costs to sleep.  A thread that slept for 2 ms takes 18 to 50 us to wake
 * up, one that slept for 50 us takes 5: that is from docs/decisions/0031, on an H200's host.  A number of
 * four digits below is a decision, too.  What names none was chosen by the reason that stands there. */
#ifndef BASE_TIMES_H
#define BASE_TIMES_H

/* Any thread that waits. */
enum {
    /* How much longer the system may let a sleep last.  Else naps last 50 us longer (0043). */
    GY_SLACK_NS = 1000,
    /* A learned budget at least: less than falling asleep and waking up takes. */
    GY_WAITER_LEAST_NS = 20000,
    /* What looking in vain costs at most, once per wait, in HYBRID, and in ADAPTIVE (0026). */
    GY_WAITER_HYBRID_NS = 200000,
    GY_WAITER_MOST_NS = 2000000,
};

/* When the end of something is expected (base/foresight.h, 0043). */
enum {
    /* A lookout begins so much before the time that the spread asks for, and ends so much after it. */
    GY_EARLY_NS = 10000,
    GY_LATE_NS = 20000,
    /* Naps between looks, at least and at most.  Between looks that are further apart an interrupt comes
     * sooner. */
    GY_LOOKOUT_NAP_NS = 25000,
    GY_LOOKOUT_NAP_MOST_NS = 200000,
    /* Falling asleep for less is not worth it. */
    GY_SLEEP_LEAST_NS = 10000,
    /* Hardly any thread hears of an end so much later, asleep or not. */
    GY_OVERSLEEP_MOST_NS = 300000,
    /* What is known of a sleep's end moves by so much at least. */
    GY_OVERSLEEP_STEP_NS = 250,
};

/* The CPU pool, and who waits for a manager. */
enum {
    /* A worker in HYBRID looks at the queues for so long before it sleeps: about a wake-up. */
    GY_WORKER_IDLE_NS = 40000,
    /* A thread that waits for a step looks for so long at least. */
    GY_DONE_NS = 10000,
    /* An expected task is looked for in turns of this: another worker may do it instead. */
    GY_PROLONG_NS = 20000,
    /* A thread that has waited for a step for so long without news looks what it waits for: long enough for
     * nobody to be told of a step that is merely slow. */
    GY_REMIND_S = 10,
    /* So long a body fills a bundle of tasks.  A worker that looks for work may look for longer than that
     * before it sleeps (0037). */
    GY_BUNDLE_NS = 16000,
    /* So soon behind the start a thread that sleeps does not wake up (0031). */
    GY_AT_ONCE_NS = 10000,
    /* So long tasks that need bandwidth hold others up, unless a program sets another time; and the longest
     * that it may set. */
    GY_BANDWIDTH_HELD_NS = 100000,
    GY_BANDWIDTH_HELD_MOST_NS = 1000000000,
};

/* The completion threads. */
enum {
    /* The spin budget of a wait for completions to wait for. */
    GY_COMPLETION_IDLE_NS = 100000,
    /* They poll the GPU for so long at least: several times the cost of a nap's end. */
    GY_POLL_LEAST_NS = 50000,
    /* What is expected within so long is not worth blocking on: the interrupt alone takes 40 us (0021). */
    GY_NEAR_NS = 100000,
    /* Naps between looks at the GPU, at least and at most (0021): in BLOCK, behind the spin budget of other
     * modes, and before an end that is expected. */
    GY_BLOCKING_NAP_NS = 20000,
    GY_BLOCKING_NAP_MOST_NS = 500000,
    GY_SPINNING_NAP_NS = 5000,
    GY_SPINNING_NAP_MOST_NS = 100000,
    GY_EARLY_NAP_NS = 50000,
    GY_EARLY_NAP_MOST_NS = 500000,
};

/* The dispatcher. */
enum {
    /* Its thread looks for so long before it sleeps, in modes that spin: between steps, about the time that a
     * sleep and a wake-up take; while a step is open, since more tasks will most likely come; at most, in
     * ADAPTIVE. */
    GY_LOOP_IDLE_NS = 20000,
    GY_LOOP_STEP_NS = 200000,
    GY_LOOP_MOST_NS = 4000000,
    /* It leaves its place to a guest that comes at once: less than a thread that sleeps takes to wake up
     * (0031).  Its first naps for that; later ones are half as long as no guest has come. */
    GY_GUEST_NS = 10000,
    GY_GUEST_NAP_NS = 50000,
    /* It goes on so behind a guest's step: another one is likely to follow.  When a guest has not come,
     * nobody counts on guests for so long, of which a nap is a 20th at most. */
    GY_NAPPING_NS = 1000000,
    GY_DESERTED_NS = 10000000,
    /* Most likely a step is started so long after its first task was submitted (0031). */
    GY_ANNOUNCED_NS = 500000,
    /* A thread that ends a step spins for the launch of a graph: updating a large one takes about that. */
    GY_LAUNCH_SPIN_NS = 200000,
    /* A task that comes while a graph is made may stand for so long, until the loop looks again. */
    GY_AHEAD_NS = 20000,
    /* The first call of a function is held up for so long: less than a user feels, once for each function;
     * more than calls take that enqueue. */
    GY_HOLD_NS = 1000000,
    /* A host function that was let go may take so long to end on a busy machine. */
    GY_LEAVE_NS = 500000000,
    /* A thread that changes partitions sleeps for so long between looks whether calls under way have ended.
     */
    GY_REPLAN_LOOK_NS = 100000,
};

/* A bound on GPU time (0015). */
enum {
    /* What may be saved up, and how long an interval is by prediction. */
    GY_SHARE_BURST_NS = 4000000,
    GY_SHARE_QUANTUM_NS = 1000000,
    /* A call is predicted to take at least so long: an interval has an end. */
    GY_SHARE_CALL_NS = 1000,
};

#endif
