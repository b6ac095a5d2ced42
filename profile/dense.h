/* SPDX-License-Identifier: MIT */
/* Tracks of very many slices that follow each other, each packed into some 30 bytes.  The packets of such a
 * track are a sequence of their own, with a clock that counts from packet to packet.
 *
 * Each function writes to memory, at `at`, and returns the position behind what it wrote.  The caller
 * provides the room, and puts the bytes into a trace in the order of its calls.
 *
 * Threading: one thread at a time per track. */
#ifndef PROFILE_DENSE_H
#define PROFILE_DENSE_H

#include "profile/pftrace.h"

/* The most bytes that one call writes. */
#define GY_DENSE_ROOM 1024

struct gy_dense {
    uint32_t sequence; /* the number of the sequence; 1 is the trace's own */
    uint32_t named;    /* the number of the name in `begin`; UINT32_MAX: none yet */
    uint64_t now_ns;
    uint32_t known[8]; /* the numbers declared so far; those above 255 are declared every time */
    /* The bytes of a begin's and an end's packet behind their time. */
    uint8_t begin_bytes, end_bytes;
    uint8_t event_at; /* position in `begin` of the length of the event */
    bool numbered;    /* begins end with the head of a block's number */
    uint8_t begin[32], end[16];
};

/* Declare a track.  `track` and `sequence` are its numbers, which the caller gives out; `rank` orders it
 * among the children of `parent`; no slice begins before `begin_ns`.  With `numbered`, slices have a block's
 * number. */
struct gy_dense_track {
    gy_pftrace_track track, parent;
    uint32_t sequence, rank;
    const char *name;
    uint64_t begin_ns;
    bool numbered;
};
uint8_t *gy_dense_open(uint8_t *at, const struct gy_dense_track *track, struct gy_dense *out);

/* Set the name of the slices that follow.  Each number has one name.  To be called when dense->named is
 * another number. */
uint8_t *gy_dense_name(uint8_t *at, struct gy_dense *dense, uint32_t number, const char *name);

/* Add a slice; begin_ns is not before the end of the slice before.  `block` is ignored unless `numbered`. */
uint8_t *gy_dense_add(uint8_t *at, struct gy_dense *dense, uint64_t begin_ns, uint64_t end_ns,
                      uint64_t block);

#endif
