/* SPDX-License-Identifier: MIT */
/* The file of a trace, filled by several threads in one order.
 *
 * A thread that has something to write asks for a ticket.  Bytes come into the file in the order of tickets,
 * whenever each of them is ready.  Bytes are handed over in chunks, of which there is a fixed number, so
 * memory is bounded.  The thread that hands over the bytes that come next writes them, and those that waited
 * behind them; the other threads go on.
 *
 * No thread waits for ever: the ticket whose turn it is always gets a chunk, since one is kept back for it,
 * and its bytes are written at once.  For this, work on tickets must be taken up in their order.
 *
 * Threading: any thread, except that one thread (the coordinator) calls open, close and ticket. */
#ifndef PROFILE_OUTLET_H
#define PROFILE_OUTLET_H

#include "base/thread.h"
#include "profile/trace_file.h"

#define GY_CHUNK_BYTES (128 * 1024)
#define GY_OUTLET_TICKETS 256u /* tickets whose bytes are not all in the file yet */
#define GY_OUTLET_NO_TICKET UINT64_MAX

struct gy_outlet_chunk {
    struct gy_outlet_chunk *next;
    size_t used;
    uint8_t *packed;     /* deflated; NULL: the trace is not compressed */
    size_t packed_bytes; /* 0: `bytes` go into the file */
    uint8_t bytes[GY_CHUNK_BYTES];
};

/* The chunks that were handed over for a ticket; guarded by the outlet's lock. */
struct gy_outlet_place {
    struct gy_outlet_chunk *first, *last;
    bool complete;
};

struct gy_outlet {
    struct gy_trace_file file;    /* guarded by `writing` */
    gy_mutex lock;                /* rank LEAF */
    gy_cond moved;                /* with lock: a chunk is free, or the turn has changed */
    struct gy_outlet_chunk *free; /* guarded by lock */
    uint32_t free_count;          /* guarded by lock */
    uint32_t made, most;          /* guarded by lock: chunks; `most` falls when there is no memory */
    bool writing;                 /* guarded by lock: a thread writes the file */
    uint64_t given;               /* guarded by lock: tickets given out */
    uint64_t turn;                /* guarded by lock: the ticket whose bytes come next */
    struct gy_outlet_place waiting[GY_OUTLET_TICKETS]; /* guarded by lock; by ticket, modulo */
};

/* Create the file; there are at most `chunks` (at least 3) chunks.
 * @retval GANTRY_ERR_IO, GANTRY_ERR_OUT_OF_HOST_MEMORY  there is nothing to close */
GANTRY_MUST_CHECK gantry_status gy_outlet_open(struct gy_outlet *outlet, const char *path, bool compress,
                                               uint32_t chunks);

/* Get the next ticket.  This waits while too many are open. */
uint64_t gy_outlet_ticket(struct gy_outlet *outlet);

/* Take an empty chunk for bytes of a ticket, or of one that is not yet asked for (NO_TICKET).  This waits for
 * a chunk. */
struct gy_outlet_chunk *gy_outlet_take(struct gy_outlet *outlet, uint64_t ticket);

/* Hand over a chunk of whole packets; with `last`, the ticket has no more.  This may write to the file. */
void gy_outlet_put(struct gy_outlet *outlet, uint64_t ticket, struct gy_outlet_chunk *chunk, bool last);

/* Close the file and free everything.  All tickets have been completed, and all chunks handed over except
 * `left` (may be NULL), which is freed.
 * @retval GANTRY_ERR_IO  now or at an earlier write */
gantry_status gy_outlet_close(struct gy_outlet *outlet, struct gy_outlet_chunk *left, uint64_t *bytes);

#endif
