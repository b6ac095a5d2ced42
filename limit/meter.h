/* SPDX-License-Identifier: MIT */
/* The meter: what runs is measured by timed events around groups of launches on the program's own streams,
 * and charged to the job.
 *
 * A group begins with a launch on a stream that has none, and that is where a launch may be held.  It is
 * closed when it is predicted to run for 1 ms, after 1 ms of host time, before any call that waits or asks,
 * and by the meter's thread when 200 us have passed without a launch.  Launches of unknown cost, and now and
 * then known ones, are groups of their own, by which costs are learnt (costs.h).
 *
 * What is charged is the group's interval, less the time in which others of this process were charged
 * already, less gaps: a launch that comes more than 10 us after everything before it should have ended found
 * the stream idle.
 *
 * Threading: one lock guards everything.  No call of the driver is made under it, and no caller waits for
 * another one: a program's own calls may block in the driver for as long as they like.  The meter's thread
 * begins with the first launch, sleeps when nothing is open, and works in relaxed capture mode.  Nothing of
 * ours is ever recorded in a capture, and results of our own calls go nowhere but into the count
 * `unmeasured`. */
#ifndef LIMIT_METER_H
#define LIMIT_METER_H

#include "driver/cuda_abi.h"

#include <stdbool.h>
#include <stdint.h>

/* Per-thread default streams, as the _ptsz forms mean them. */
#define GY_METER_PER_THREAD(stream) ((stream) == NULL ? (CUstream)(uintptr_t)2 : (stream))

struct gy_meter_group;

struct gy_meter_ticket {
    struct gy_meter_group *group;
    double cost_ns;
};

/* Before a launch on the stream: holds the caller until the job may compute.  `key` is the work's kind
 * (costs.h).  False: it is not charged, and leave() is not called. */
bool gy_meter_enter(struct gy_meter_ticket *ticket, CUstream stream, uint64_t key);
/* After it. */
void gy_meter_leave(const struct gy_meter_ticket *ticket, CUresult result);

/* Close the group of the stream, or all groups: somebody waits or asks. */
void gy_meter_close_stream(CUstream stream);
void gy_meter_close_all(void);
/* Something that is not charged is about to be put on the stream: its group ends before it. */
void gy_meter_puts(CUstream stream);
/* Around a call that waits for the stream, or for the current context: groups end before it.  What is charged
 * by its cost alone ends with it, and the streams are known to be empty then. */
enum { GY_METER_WAITS = 8 };
struct gy_meter_wait {
    CUcontext context; /* that is waited for; NULL: a stream is */
    uint32_t count;
    struct {
        CUstream handle;
        uint64_t touched;
    } streams[GY_METER_WAITS];
};
struct gy_meter_wait gy_meter_wait_for_stream(CUstream stream);
struct gy_meter_wait gy_meter_wait_for_context(void);
void gy_meter_waited(const struct gy_meter_wait *wait, CUresult result);
/* The stream is destroyed. */
void gy_meter_forget_stream(CUstream stream);
/* The context is destroyed: settle what it has, and forget it. */
void gy_meter_forget_context(CUcontext context);
/* The device's primary context was retained. */
void gy_meter_note_primary(CUdevice device, CUcontext context);
/* Around a call that may end the primary context, or just lower its count: events are not asked about
 * meanwhile, and it is forgotten when it is active no more. */
bool gy_meter_primary_leaves(CUdevice device);
void gy_meter_primary_left(bool is_stopped, CUdevice device, CUresult result);

/* A capture begins on the stream, did not begin, or has ended. */
void gy_meter_capture_begins(CUstream stream);
void gy_meter_capture_ended(void);
/* Is the stream in a capture?  Nothing is asked while there is none in the process. */
bool gy_meter_is_capturing(CUstream stream);

/* Are copies between host and device charged, too? */
bool gy_meter_charges_copies(void);

#endif
