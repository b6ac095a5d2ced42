/* SPDX-License-Identifier: MIT */
/* The proof that no edge is missing ($GANTRY_CHECK has "edges"), as the rest of the library uses it: a table
 * of functions that hear what the program has declared, and what its work touches.  proof/ defines them, in a
 * library of its own that is opened when the check is on.
 *
 * A task has two *parts*: what it does on the host (a body, a launch callback) and what it has enqueued on
 * the device. Either has a past: the parts that come before it by what the program has declared.
 *
 * Threading: any thread, but for what is said of a function.  None of them fails: a proof that has run out of
 * memory says so, and finds nothing more. */
#ifndef BASE_PROOF_H
#define BASE_PROOF_H

#include <gantry/access.h>
#include <gantry/heap.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum gy_proof_touch { GY_PROOF_READ, GY_PROOF_WRITE };

/* Behind which of the manager's steps before the GPU work of a task comes. */
enum gy_proof_steps { GY_PROOF_ALL_STEPS, GY_PROOF_ALL_BUT_THE_LAST_STEP, GY_PROOF_NO_STEPS };

/* What is known of a task whose part begins. */
struct gy_proof_task {
    const void *manager;
    const void *task; /* its address, which no other task has until end() */
    const char *label;
    enum gy_proof_steps steps;
};

/* For the emulated driver, which carries work out. */
struct gy_proof_device {
    /* The calling thread enqueues something on a stream: its number, for enter(); 0: it belongs to no task.
     */
    uint32_t (*enqueue)(const void *queue);
    /* The calling thread begins to carry out a piece of it, or has ended; `name`: a constant; `block`: of a
     * kernel. */
    void (*enter)(uint32_t work, const char *name, uint64_t block, bool is_kernel);
    void (*leave)(void);
    /* Between the two: memory that is read or written. */
    void (*touch)(const void *address, size_t bytes, enum gy_proof_touch touch);
    /* The addresses from which blocks are given out.  Nothing outside of them is looked at. */
    void (*watch)(const void *from, size_t bytes);
    /* The memory is another's from now on. */
    void (*forget)(const void *address, size_t bytes);
    /* Queues of enqueued work: streams, events and contexts, by addresses that no other has until gone().
     * What `queue` gets from now on comes after all that `other` has; or the calling thread knows that all is
     * done. */
    void (*follow)(const void *queue, const void *other);
    void (*done)(const void *queue);
    void (*gone)(const void *queue);
};

/* What is looked for on request: edges that no data needs, memory that is read before it is written, blocks
 * that nobody reads. */
enum { GY_PROOF_NEEDLESS = 1, GY_PROOF_UNWRITTEN = 2, GY_PROOF_UNREAD = 4 };

struct gy_proof_ops {
    struct gy_proof_device device;
    /* A task ends, and `successor` comes after it; `when_done`: after its GPU work, too.  Before the
     * successor can begin. */
    void (*edge)(const void *task, const void *successor, bool when_done);
    /* All edges of the task were told. */
    void (*end)(const void *manager, const void *task);
    /* A task that has not begun has declared accesses, besides those of calls before; or all tasks of the
     * manager are over, and what they have declared is void. */
    void (*declares)(const void *manager, const void *task, const gantry_access *accesses, size_t count);
    void (*forgets)(const void *manager);
    /* The calling thread begins with the task's body, or has ended; an end without a begin is nothing. */
    void (*body_begin)(const struct gy_proof_task *task);
    void (*body_end)(const void *task);
    /* The same for a launch callback; what the thread enqueues in between is the task's. */
    void (*launch_begin)(const struct gy_proof_task *task);
    void (*launch_end)(const void *task);
    /* What the calling thread carries out, of which other threads will do a part; NULL: nothing.  One of them
     * begins with its part, or has ended, while the first carries it out. */
    const void *(*share)(void);
    void (*share_begin)(const void *shared);
    void (*share_end)(void);
    /* In a launch callback: memory that what it has enqueued touches where nobody sees it. */
    void (*launch_touch)(const void *address, size_t bytes, enum gy_proof_touch touch);
    /* In a launch callback: `task` comes after the GPU work so far of this task, or of all. */
    void (*completes)(const void *task, bool of_all);
    /* The calling thread gives back a reference on the task, or makes a task that needs none. */
    void (*let_go)(const void *task);
    /* `task` has ended before there could be an edge to `successor`, which comes after it; `with_device`:
     * after its GPU work, too. */
    void (*has_ended)(const void *manager, const void *task, const void *successor, bool with_device);
    /* The calling thread starts a step of a manager, of which no task has begun.  Or it has seen the tasks of
     * the step end, or GPU work. */
    void (*step_begin)(const void *manager);
    void (*step_waited)(const void *manager);
    void (*synchronized)(void);
    /* What the calling thread calls of the driver now is the program's own order, as a wait that it has asked
     * for; or no more. */
    void (*calls_driver)(bool is_calling);
    /* The manager is gone. */
    void (*manager_gone)(const void *manager);
    /* Memory has a new owner; `is_device`: the host cannot touch it. */
    void (*allocated)(const void *address, size_t bytes, gantry_alloc_site site, bool is_device);
    /* What calls `tell` with each line that is found; `extras` (GY_PROOF_NEEDLESS ...) are looked for, too.
     */
    void (*open)(void (*tell)(gantry_log_level level, const char *line), unsigned extras);
};

/* What the library exports: `gantry_proof_ops`, of this type. */
#define GY_PROOF_LIBRARY "libgantry-proof.so"
#define GY_PROOF_SYMBOL "gantry_proof_ops"

/* GY_TASK_HEARD of taskman/graph/task.h, which tasks that run while the proof listens have. */
#define GY_PROOF_LISTENS 2u

extern _Atomic(const struct gy_proof_ops *) gy_proof_table; /* atomic; NULL: the check is off */
extern _Atomic(unsigned) gy_proof_flag;                     /* atomic; GY_PROOF_LISTENS, or 0 */

/* NULL: the check is off. */
static inline const struct gy_proof_ops *gy_proof(void)
{
    return atomic_load_explicit(&gy_proof_table, memory_order_acquire);
}

static inline unsigned gy_proof_listens(void)
{
    return atomic_load_explicit(&gy_proof_flag, memory_order_acquire); /* the table is there, too */
}

/* From now on the library tells `ops` what it does; what is found is logged.  It stays so until the process
 * ends. */
void gy_proof_begin(const struct gy_proof_ops *ops);
/* The same where the check is on and the program is linked with the proof: its CPU tasks are looked at though
 * it may never open a driver. */
void gy_proof_begin_if_linked(void);

#endif
