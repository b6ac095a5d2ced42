/* What a thread carries out at present, as accesses to memory are judged by it; and the numbers of parts and
 * of works.
 *
 * A part of a task has a number.  So has each work: a body, or a kernel, copy or fill that a part has
 * enqueued. */
#ifndef PROOF_ACCESS_H
#define PROOF_ACCESS_H

#include "base/proof.h"
#include "proof/past.h"

enum {
    GY_PROOF_KNOWN = 64,     /* answers that a work remembers */
    GY_PROOF_FRAMES = 32,    /* works within works, as where a body waits and the thread launches meanwhile */
    GY_PROOF_MOST = 1 << 27, /* numbers of works */
};

/* One work of one thread.  Its owner alone reads and writes it. */
struct gy_access {
    uint32_t work; /* 0: nothing is noted */
    uint32_t part;
    uint32_t block; /* of the kernel */
    bool is_kernel;
    uint64_t touches;     /* calls that have said what was touched */
    struct gy_past *past; /* of the part: a reference */
    struct gy_past
        *held;        /* parts that have held a mutex which the thread holds now; a reference; NULL: none */
    uint32_t mutexes; /* so many it holds */
    struct {
        uint32_t who; /* a writer or readers; 0: none */
        uint32_t bad; /* the first of them that is not in the past; 0: all are */
    } known[GY_PROOF_KNOWN];
};

/* What the calling thread carries out; NULL: nothing that is noted.  Hooks read it at every access. */
extern _Thread_local struct gy_access *gy_access_now __attribute__((tls_model("initial-exec")));

/* The thread is in the proof, which may allocate: what the allocator locks is not the program's. */
extern _Thread_local bool gy_proof_is_inside __attribute__((tls_model("initial-exec")));

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
};

const struct gy_work *gy_work_of(uint32_t work);
const struct gy_part *gy_part_of(uint32_t part);

#endif
