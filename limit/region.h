/* SPDX-License-Identifier: MIT */
/* The region: the memory that the processes of a job share, a file of one size.  It holds the job's settings,
 * a bucket per device and a slot per process.
 *
 * Nobody waits for a lock.  A bucket is one word that is changed by compare and exchange.  A slot belongs to
 * the process that holds the kernel's record lock (fcntl) on its byte.  The kernel gives such a lock back
 * when the process ends, execs or is killed, in any pid namespace; children do not inherit it.  So no process
 * number is stored, and whoever looks at a slot can tell whether its owner still lives.
 *
 * Only processes of the same user can open the file (mode 0600, owner checked).  Numbers read from it are
 * still bounded wherever they are used: a broken neighbour may spoil shares, and nothing else.  No pointer is
 * stored. */
#ifndef LIMIT_REGION_H
#define LIMIT_REGION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    GY_REGION_VERSION = 3,
    GY_REGION_DEVICES = 16,
    GY_REGION_SLOTS = 256,
    GY_REGION_BINS = 128, /* of 100 ms: what was used lately */
    GY_REGION_PATH_BYTES = 256,
    GY_REGION_TEXT_BYTES = 256,
};

/* Shares are in millionths of a device. */
#define GY_REGION_WHOLE 1000000u

/* What happens to a kernel that runs longer than `overrun_ms`. */
enum gy_region_overrun { GY_REGION_OVERRUN_WARN = 0, GY_REGION_OVERRUN_KILL = 1 };

/* What a job is told when it begins; it does not change afterwards. */
struct gy_region_settings {
    uint32_t share;      /* millionths, 1 to GY_REGION_WHOLE; that much is no limit */
    uint32_t devices;    /* bit n: the device with ordinal n is limited */
    uint32_t overrun;    /* enum gy_region_overrun */
    uint32_t overrun_ms; /* 0: never */
    uint32_t credit_ms;  /* nothing of the job has ended for so long: one held launch goes on credit */
    uint32_t copies;     /* 1: copies between host and device are charged, too */
    uint32_t strict;     /* 1: a process that cannot be limited is refused the driver */
    uint32_t verbose;
};

/* Times are ns of CLOCK_MONOTONIC, amounts are ns of GPU time. */
struct gy_region_device {
    _Atomic uint64_t id;            /* what the device's UUID says; 0: the place is free */
    _Atomic uint64_t paid_until;    /* the bucket: tokens are (now - paid_until) times the share */
    _Atomic uint64_t in_flight;     /* of all slots together, as predicted */
    _Atomic uint64_t progress;      /* when something ended, or was let through on credit, last */
    _Atomic uint64_t since;         /* when the device was used first */
    _Atomic uint64_t ran_out;       /* 1: the tokens were used up, and some are to come together */
    _Atomic uint64_t begun;         /* groups, of all processes */
    _Atomic uint64_t due;           /* when all that is in flight should have ended; 0: nothing is */
    _Atomic uint64_t level;         /* as due: what was launched since the coupled devices began together */
    _Atomic uint64_t coupled_until; /* its work and that of others wait for each other: they keep one pace */
    _Atomic uint64_t charged, held, awaited, credits, unmeasured, overruns;
    _Atomic uint64_t bins[GY_REGION_BINS]; /* the bin's number in the upper half, used us in the lower */
};

struct gy_region_slot {
    _Atomic uint64_t in_flight[GY_REGION_DEVICES]; /* the owner's part; given back by whoever finds it dead */
    _Atomic uint64_t charged;
};

struct gy_region {
    uint64_t magic;
    uint32_t version, bytes;
    struct gy_region_settings settings;
    _Atomic uint32_t closed; /* 1: the last process is about to remove the file, so nobody may enter */
    uint32_t unused;
    _Atomic uint64_t line; /* the `level` that devices which wait for each other may reach now */
    struct gy_region_device devices[GY_REGION_DEVICES];
    struct gy_region_slot slots[GY_REGION_SLOTS];
};

/* An opened region; all zero: none. */
struct gy_region_place {
    struct gy_region *region;
    int file;                    /* holds the slot's lock; meaningless without a region */
    uint64_t file_system, inode; /* of the file, since a program may close numbers that are not its own */
    int slot;                    /* -1: it was only looked at */
    struct gy_region_settings settings; /* as they were when it was opened, within their bounds */
    char path[GY_REGION_PATH_BYTES];
};

/* The file that the processes of all jobs of the user share: who computes on which device. */
void gy_region_common_path(char *path, size_t room);
/* Are these settings within their bounds? */
bool gy_region_settings_are_valid(const struct gy_region_settings *settings);

/* The file of the job `name`: a name with a slash is a path itself, others lie in /dev/shm, apart for each
 * user. False: the name is empty, too long or has characters that a file name should not have. */
bool gy_region_path(const char *name, char *path, size_t room);

/* Look at an existing region without entering it.  False: `why` says what is wrong, and `*absent` whether
 * there is just no file. */
bool gy_region_look(const char *path, struct gy_region_place *out, char why[GY_REGION_TEXT_BYTES],
                    bool *absent);
/* Enter the region, which is made with `settings` where there is none, and take a slot.  An existing one
 * keeps its own settings.  False: `why` says what is wrong. */
bool gy_region_enter(const char *path, const struct gy_region_settings *settings, struct gy_region_place *out,
                     char why[GY_REGION_TEXT_BYTES]);
/* Give the slot back; the last one out removes the file. */
void gy_region_leave(struct gy_region_place *place);
/* The same without unmapping: other threads of a process that ends may still write to it. */
void gy_region_retire(const struct gy_region_place *place);
/* Unmap and close, without giving anything back: for what was looked at, and in a forked child. */
void gy_region_drop(struct gy_region_place *place);

/* The place of the device `id` (not 0), or -1 where all are taken. */
int gy_region_device(struct gy_region *region, uint64_t id, uint64_t now_ns);
/* Take back what dead processes had in flight; whether there was any. */
bool gy_region_reclaim(const struct gy_region_place *place);
/* Slots whose owner lives. */
uint32_t gy_region_alive(const struct gy_region_place *place);
/* Remove the file if no process uses it; whether it was removed. */
bool gy_region_sweep(const char *path);

#endif
