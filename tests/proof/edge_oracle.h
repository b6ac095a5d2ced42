/* SPDX-License-Identifier: MIT */
/* What the two files of the oracle's library share. */
#ifndef TESTS_PROOF_EDGE_ORACLE_H
#define TESTS_PROOF_EDGE_ORACLE_H

#include <stddef.h>
#include <stdint.h>

enum { ORACLE_FRAMES = 64 }; /* works within works of a thread */
enum oracle_how { ORACLE_READ, ORACLE_WRITE, ORACLE_ATOMIC_READ, ORACLE_ATOMIC_WRITE };

struct oracle_range {
    uintptr_t from, to;
    enum oracle_how how;
};

/* What a thread carries out: its owner's alone. */
struct oracle_frame {
    const void *task; /* whose body or callback; NULL: enqueued work */
    uint32_t work;    /* its number; 0: a body */
    uint32_t share;   /* the number of what other threads do for it */
    struct oracle_range *ranges;
    size_t count, room;
};

extern _Thread_local struct oracle_frame *oracle_now
    __attribute__((tls_model("initial-exec"))); /* NULL: nothing */
extern uintptr_t oracle_begin;                  /* watched addresses; written before there is work */
extern size_t oracle_bytes;

void oracle_touch(const void *address, size_t bytes, enum oracle_how how);

#endif
