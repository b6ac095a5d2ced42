/* SPDX-License-Identifier: MIT */
/* Points at which a test can step in, and make something happen between two instructions: so lost wake-ups
 * are tested.  They exist in the testing library only.
 *
 * Each point comes just before the access that it is named for, and has to be moved with it. */
#ifndef BASE_POINT_H
#define BASE_POINT_H

enum gy_point {
    GY_POINT_COND_SLEEP,    /* a thread that waits for a condition falls asleep; at: the condition */
    GY_POINT_COND_WAKE,     /* a thread wakes those that wait for a condition; at: the condition */
    GY_POINT_EVENT_PREPARE, /* a thread counts itself as a sleeper of an event; at: the event */
    GY_POINT_EVENT_KEY,     /* it reads the event's epoch; at: the event */
    GY_POINT_EVENT_NOTIFY,  /* a thread looks whether an event has sleepers; at: the event */
    GY_POINT_EVENT_WAKE,    /* a thread has counted a sleeper as woken, and looks once more; at: the event */
    GY_POINT_EVENT_TAKE_BACK, /* it has found none, and takes the count back; at: the event */
    GY_POINT_EVENT_BACK,      /* a sleeper is back, and says that the woken thread is; at: the event */
    GY_POINT_WORKER_STOLE,    /* a thief has tasks that are in no queue; at: the worker */
    GY_POINT_WORKER_BUNDLED,  /* a worker has closed its bundle, which is in no queue; at: the worker */
    GY_POINT_WORKER_STEAL,    /* a guest has seen that only its manager runs, and steals; at: the pool */
    GY_POINT_WORKER_FOUND, /* a worker ends looking, and passes on the tasks that it leaves; at: the pool */
    GY_POINT_COMPLETION_TELL,  /* the dispatcher's thread tells the completion thread that there is news; at:
                                  the ring */
    GY_POINT_COMPLETION_SLEEP, /* the completion thread says that it sleeps; at: the ring */
    GY_POINT_COMPLETION_BLOCK, /* it says that it blocks on an event; at: the ring */
    GY_POINT_COMPLETION_EVENT, /* it has said so, and looks for news once more; at: the ring */
    GY_POINT_INBOX_READ,   /* the dispatcher's thread has looked at everything, and may be about to wait; at:
                              the inbox */
    GY_POINT_DEFERRED_TRY, /* the dispatcher's thread looks whether a block on its way back fits; at: the
                              queues */
    GY_POINT_INBOX_ADDED,  /* a thread has put tasks into the inbox, and wakes the taker; at: the inbox */
    GY_POINT_INBOX_SLEEP,  /* it says that it sleeps; at: the inbox */
    GY_POINT_ADMISSION_QUIET, /* it knows which declared memory has ended, and looks whether all that hold
                                 some wait; at: the admission */
    GY_POINT_MAKING,          /* the maker's thread makes an executable graph; at: the maker */
    GY_POINT_HEAP_ROOM,       /* a thread has found no room, and looks what others have freed; at: the kind */
    GY_POINT_HEAP_SETTLE,     /* a thread knows up to where it settles, and waits; at: the kind */
    GY_POINT_HEAP_SETTLED,    /* it has waited for the device, and frees what has waited; at: the kind */
    GY_POINT_AWAIT_RETURNED, /* the body of a detached task has returned, and leaves the task; at: the task */
    GY_POINT_AWAIT_COMPLETED, /* a detached task was completed, and may be released; at: the task */
    GY_POINT_AWAIT_GIVEN_UP,  /* it was given up instead; at: the task */
    GY_POINT_GUEST_LEAVE,     /* a guest has looked at everything, and leaves; at: the inbox or the ring */
    /* The steps of docs/design/path-of-a-task.md, each in the function that is marked as such; at: the task,
     * or the first of a list of tasks; at step 7 the graphs of the dispatcher, at step 8 the ring of
     * completions. */
    GY_POINT_PATH_1,
    GY_POINT_PATH_2,
    GY_POINT_PATH_3,
    GY_POINT_PATH_4,
    GY_POINT_PATH_5,
    GY_POINT_PATH_6,
    GY_POINT_PATH_7,
    GY_POINT_PATH_8,
    GY_POINT_PATH_9,
};

#ifdef GANTRY_TESTING
typedef void gy_point_fn(enum gy_point point, const void *at);
/* Have every thread call `hook` at every point; NULL: none is called any more. */
void gy_point_hook(gy_point_fn *hook);
void gy_point(enum gy_point point, const void *at);
#else
static inline void gy_point(enum gy_point point, const void *at)
{
    (void)point;
    (void)at;
}
#endif

#endif
