/* SPDX-License-Identifier: MIT */
/* A watch: the work that the calling thread enqueues on each stream, and the part of it that each stream
 * comes after. */
#ifndef EMULATOR_WATCH_H
#define EMULATOR_WATCH_H

#include "emulator/queue.h"

struct gy_emu_watch;
extern _Thread_local struct gy_emu_watch *gy_emu_watch; /* NULL: the thread is not watched */

void gy_emu_watch_begin(void);
/* How many operations the thread has enqueued since on other streams than this one that neither this stream
 * nor the host comes after; `other`: the stream of some of them.  0 also where the watch has lost
 * sight, and for NULL. */
uint32_t gy_emu_watch_end(const struct gy_emu_stream *stream, CUstream *other);

void gy_emu_watch_see_work(const struct gy_emu_stream *stream, const struct gy_emu_work *work);
void gy_emu_watch_see_record(const struct gy_emu_stream *stream, const void *event);
void gy_emu_watch_see_wait(const struct gy_emu_stream *stream, const void *event);
void gy_emu_watch_see_join(const struct gy_emu_stream *later, const struct gy_emu_stream *earlier);
/* The host knows that the stream, the event, or everything is done. */
void gy_emu_watch_see_done(const struct gy_emu_stream *stream);
void gy_emu_watch_see_event_done(const void *event);
void gy_emu_watch_see_all_done(void);

/* GY_EMU_WATCH(see_done, (stream)); */
#define GY_EMU_WATCH(call, arguments)                    \
    do {                                                 \
        if (__builtin_expect(gy_emu_watch != NULL, 0)) { \
            gy_emu_watch_##call arguments;               \
        }                                                \
    } while (0)

#endif
