/* What the files of the stream pool share. */
#ifndef DISPATCHER_ORDER_WAITS_H
#define DISPATCHER_ORDER_WAITS_H

#include "dispatcher/order/streams.h"

/* One more; a counter has one writer, so no read-modify-write is needed. */
static inline void gy_streams_count(_Atomic(uint64_t) *counter)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

/* Work on another stream comes after position `seq`. */
static inline void gy_stream_supersede(struct gy_stream *stream, uint64_t seq)
{
    stream->superseded = stream->superseded < seq ? seq : stream->superseded;
}

#endif
