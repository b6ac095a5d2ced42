/* SPDX-License-Identifier: MIT */
/* What a thread carries out at present, as accesses to memory are judged by it; and the numbers of parts and
 * of works.
 *
 * A part of a task has a number.  So has each work: a body, or a kernel, copy or fill that a part has
 * enqueued. */
#ifndef PROOF_ACCESS_H
#define PROOF_ACCESS_H

#include "base/fast_lock.h"
#include "base/proof.h"
#include "proof/past.h"

enum {
    GY_PROOF_KNOWN = 64,     /* answers that a work remembers */
    GY_PROOF_JOINED = 16,    /* sets */
    GY_PROOF_PASSED = 4,     /* pieces of memory that are judged no more */
    GY_PROOF_FRAMES = 32,    /* works within works, as where a body waits and the thread launches meanwhile */
    GY_PROOF_MOST = 1 << 27, /* numbers of works */
};

struct gy_declared;

struct gy_span {
    uintptr_t from;
    size_t bytes;
};

/* One work of one thread.  Its owner alone reads and writes it. */
struct gy_access {
    uint32_t work; /* 0: nothing is noted */
    uint32_t part;
    uint32_t block; /* of the kernel */
    bool is_kernel;
    uint64_t began;        /* when, in ns; 0: nobody asks how long it takes */
    const void *place;     /* of the code that touches something now; NULL: not known */
    uint64_t touches;      /* calls that have said what was touched */
    struct gy_before past; /* of the part: a reference */
    struct gy_before held; /* parts that have held a mutex which the thread holds now; a reference */
    uint32_t mutexes;      /* so many it holds */
    uint32_t first_work;   /* the part has another one from each mutex on that it takes or gives back */
    struct {
        uint32_t who; /* a writer or readers; 0: none */
        uint32_t bad; /* the first of them that is not in the past; 0: all are */
    } known[GY_PROOF_KNOWN];
    uint32_t joined[GY_PROOF_JOINED]; /* by the low bits; sets that have the work in them; 0: none */
    struct gy_declared *declared; /* by the task; a reference; NULL: nothing, and nothing is judged by it */
    struct gy_span passed[GY_PROOF_PASSED]; /* where it touches what it has not declared, and that is told */
    uint32_t next_passed;                   /* the oldest of them */
};

/* What the calling thread carries out; NULL: nothing that is noted.  Hooks read it at every access. */
extern _Thread_local struct gy_access *gy_access_now __attribute__((tls_model("initial-exec")));

/* The thread is in the proof, which may allocate: what the allocator locks is not the program's. */
extern _Thread_local bool gy_proof_is_inside __attribute__((tls_model("initial-exec")));

/* Take a lock of the proof.  No function that takes one is called while the thread holds another one. */
static inline void gy_proof_take(gy_fast_lock *lock) GY_ACQUIRE(*lock)
{
    gy_proof_is_inside = true;
    gy_fast_lock_take(lock);
}

static inline void gy_proof_give(gy_fast_lock *lock) GY_RELEASE(*lock)
{
    gy_fast_lock_give(lock);
    gy_proof_is_inside = false;
}

/* What a work is: written before its number is given out, but for the name. */
struct gy_work {
    uint32_t part;
    _Atomic(const char *) name; /* atomic; the kernel's; NULL: not known yet */
    _Atomic(bool) is_kernel;    /* atomic; it has blocks */
};

/* What a part is: immutable once its work begins. */
struct gy_part {
    const char *label;
    bool is_device;
    bool is_callback; /* of the host: a launch callback, which waits for no GPU work */
    uint32_t host;    /* of the device: the host part of the task */
    uint32_t earlier; /* of the device: that of the same task before a wait in its callback; 0: none */
    _Atomic(uint32_t) guarded;    /* atomic; the latest work that began as it took a mutex; 0: none */
    struct gy_declared *declared; /* by the task, until its manager is reset; NULL: nothing */
};

const struct gy_work *gy_work_of(uint32_t work);
const struct gy_part *gy_part_of(uint32_t part);

#endif
