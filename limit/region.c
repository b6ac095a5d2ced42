/* SPDX-License-Identifier: MIT */
#include "limit/region.h"

#include "limit/pace.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAGIC UINT64_C(0x4c494d4954475941)
#define FOLDER "/dev/shm/gantry-limit"
#define LOCKS \
    ((off_t)sizeof(struct gy_region)) /* behind the file's end, where nothing is stored: a byte per slot */
enum {
    TRIES = 1000,
    MOST_NAME_BYTES = 64,
    CLOSING = GY_REGION_SLOTS
}; /* CLOSING's byte: of who removes it */

bool gy_region_settings_are_valid(const struct gy_region_settings *s)
{
    return s->share >= 1 && s->share <= GY_REGION_WHOLE && s->overrun <= GY_REGION_OVERRUN_KILL &&
           s->credit_ms >= 1 && s->copies <= 1 && s->strict <= 1 && s->verbose <= 1;
}

/* What all jobs of the user share. */
void gy_region_common_path(char *path, size_t room)
{
    (void)snprintf(path, room, "/dev/shm/gantry-devices-%u", (unsigned)geteuid());
}

bool gy_region_path(const char *name, char *path, size_t room)
{
    static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    const size_t bytes = strlen(name);
    int used = 0;
    if (strchr(name, '/') != NULL) {
        used = snprintf(path, room, "%s", name);
    } else if (bytes >= 1 && bytes <= MOST_NAME_BYTES && strspn(name, good) == bytes) {
        used = snprintf(path, room, FOLDER "-%u-%s", (unsigned)geteuid(), name);
    }
    return used > 0 && (size_t)used < room;
}

/* ---- the locks ------------------------------------------------------------------------------- */

static struct flock lock_of(short type, int first, int count)
{
    return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = LOCKS + first, .l_len = count};
}

/* Does another process hold one of these slots?  Where the system cannot tell, it does. */
static bool is_alive(int file, int first, int count)
{
    struct flock lock = lock_of(F_WRLCK, first, count);
    return fcntl(file, F_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

static bool take_slot(int file, int slot)
{
    struct flock lock = lock_of(F_WRLCK, slot, 1);
    return fcntl(file, F_SETLK, &lock) == 0;
}

static uint64_t file_system_of(const struct statx *info)
{
    return (uint64_t)info->stx_dev_major << 32 | info->stx_dev_minor;
}

static bool is_its_file(const struct gy_region_place *place, int folder, const char *path, int flags)
{
    struct statx info;
    return statx(folder, path, flags, STATX_INO, &info) == 0 && info.stx_ino == place->inode &&
           file_system_of(&info) == place->file_system;
}

/* Is the number still that of our file?  The program may have closed it, and opened another file. */
static bool is_open(const struct gy_region_place *place)
{
    return is_its_file(place, place->file, "", AT_EMPTY_PATH);
}

/* Is the opened file still the one of that name? */
static bool is_current(const struct gy_region_place *place)
{
    return is_its_file(place, AT_FDCWD, place->path, AT_SYMLINK_NOFOLLOW);
}

/* Subtract, but not below 0: the number may be anything. */
static void take_off(_Atomic uint64_t *from, uint64_t amount)
{
    uint64_t old = atomic_load(from);
    while (!atomic_compare_exchange_weak(from, &old, old > amount ? old - amount : 0)) {
    }
}

static bool empty_slot(struct gy_region *region, int slot)
{
    bool had_any = false;
    for (int d = 0; d < GY_REGION_DEVICES; d++) {
        const uint64_t amount = atomic_exchange(&region->slots[slot].in_flight[d], 0);
        if (amount != 0) {
            take_off(&region->devices[d].in_flight, amount);
            had_any = true;
        }
    }
    return had_any;
}

bool gy_region_reclaim(const struct gy_region_place *place)
{
    bool had_any = false;
    for (int slot = 0; slot < GY_REGION_SLOTS; slot++) {
        bool has_any = false;
        for (int d = 0; d < GY_REGION_DEVICES && !has_any; d++) {
            has_any =
                atomic_load_explicit(&place->region->slots[slot].in_flight[d], memory_order_relaxed) != 0;
        }
        if (has_any && slot != place->slot && is_open(place) && !is_alive(place->file, slot, 1)) {
            had_any = empty_slot(place->region, slot) || had_any;
        }
    }
    return had_any;
}

uint32_t gy_region_alive(const struct gy_region_place *place)
{
    uint32_t count = place->slot >= 0 ? 1 : 0;
    for (int slot = 0; slot < GY_REGION_SLOTS; slot++) {
        count += slot != place->slot && is_alive(place->file, slot, 1) ? 1 : 0;
    }
    return count;
}

/* ---- opening --------------------------------------------------------------------------------- */

static bool refuse(char why[GY_REGION_TEXT_BYTES], const char *path, const char *what)
{
    snprintf(why, GY_REGION_TEXT_BYTES, "%.180s: %s", path, what);
    return false;
}

/* What the system says, in English whatever the program's language is; strerrordesc_np() is younger
 * than 2.28. */
static const char *text_of(int error)
{
    return error == ENOENT    ? "there is no such file"
           : error == EACCES  ? "access is denied"
           : error == ELOOP   ? "it is a symbolic link"
           : error == ENOSPC  ? "the file system is full"
           : error == EROFS   ? "the file system is read-only"
           : error == EMFILE  ? "too many files are open"
           : error == ENOTDIR ? "part of the path is no folder"
           : error == ENXIO   ? "it is no regular file"
           : error == EISDIR  ? "it is a folder"
                              : "the system refuses it";
}

/* What keeps the file from being one of ours; NULL: nothing. */
static const char *fault_of(int file, struct statx *info)
{
    if (statx(file, "", AT_EMPTY_PATH, STATX_BASIC_STATS, info) != 0) {
        return text_of(errno);
    }
    return !S_ISREG(info->stx_mode)                     ? "it is no regular file"
           : info->stx_uid != geteuid()                 ? "it belongs to another user"
           : (info->stx_mode & 077) != 0                ? "other users may open it"
           : info->stx_size != sizeof(struct gy_region) ? "it is no job of this version, by its size"
                                                        : NULL;
}

/* The settings are copied before they are looked at: what a neighbour writes later changes nothing. */
static const char *fault_inside(const struct gy_region *region, struct gy_region_settings *settings)
{
    *settings = region->settings;
    return region->magic != MAGIC || region->bytes != sizeof(*region) ? "it is no job"
           : region->version != GY_REGION_VERSION                     ? "it is a job of another version"
           : !gy_region_settings_are_valid(settings)                  ? "its settings are out of bounds"
                                                                      : NULL;
}

/* Open and map what is there. */
static bool open_existing(const char *path, struct gy_region_place *out, char why[GY_REGION_TEXT_BYTES],
                          bool *absent)
{
    *absent = false;
    const int file = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (file < 0) {
        *absent = errno == ENOENT;
        return refuse(why, path, text_of(errno));
    }
    struct gy_region_settings settings = {.share = 0};
    struct statx info;
    const char *fault = fault_of(file, &info);
    void *memory = MAP_FAILED;
    if (fault == NULL) {
        memory = mmap(NULL, sizeof(struct gy_region), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        fault = memory == MAP_FAILED ? text_of(errno) : fault_inside(memory, &settings);
    }
    if (fault != NULL) {
        if (memory != MAP_FAILED) {
            munmap(memory, sizeof(struct gy_region));
        }
        close(file);
        return refuse(why, path, fault);
    }
    *out = (struct gy_region_place){.region = memory, .file = file, .slot = -1, .settings = settings};
    out->file_system = file_system_of(&info);
    out->inode = info.stx_ino;
    snprintf(out->path, sizeof(out->path), "%s", path);
    return true;
}

bool gy_region_look(const char *path, struct gy_region_place *out, char why[GY_REGION_TEXT_BYTES],
                    bool *absent)
{
    return open_existing(path, out, why, absent);
}

void gy_region_drop(struct gy_region_place *place)
{
    if (place->region != NULL) {
        munmap(place->region, sizeof(*place->region));
        if (is_open(place)) {
            close(place->file);
        }
    }
    *place = (struct gy_region_place){.slot = -1};
}

/* Write a new region under a name of its own, and give it the right one when it is whole.  Somebody else may
 * have been faster, which is as good. */
static bool make(const char *path, const struct gy_region_settings *settings, char why[GY_REGION_TEXT_BYTES])
{
    char draft[GY_REGION_PATH_BYTES + 48];
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(draft, sizeof(draft), "%s.%d.%09ld.new", path, (int)getpid(), now.tv_nsec);
    const int file = open(draft, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0) {
        return refuse(why, path, text_of(errno));
    }
    (void)take_slot(file, 0); /* somebody uses it, until it is closed: a sweep leaves it alone */
    bool good = fchmod(file, 0600) == 0 && posix_fallocate(file, 0, sizeof(struct gy_region)) == 0;
    struct gy_region *region =
        good ? mmap(NULL, sizeof(*region), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
    good = region != MAP_FAILED;
    if (good) {
        region->magic = MAGIC;
        region->version = GY_REGION_VERSION;
        region->bytes = sizeof(*region);
        region->settings = *settings;
        munmap(region, sizeof(*region));
    }
    good = good && (link(draft, path) == 0 || errno == EEXIST);
    const int error = errno;
    unlink(draft);
    close(file);
    return good || refuse(why, path, text_of(error));
}

/* Remove the file unless another process is in it, or enters meanwhile.  One process at a time tries: who
 * opened it again for another one would let processes in that do not see the file go. */
static bool remove_unused(const struct gy_region_place *place)
{
    struct flock done = lock_of(F_UNLCK, CLOSING, 1);
    bool is_gone = false, is_ours = false;
    if (!is_open(place)) {
        return false;
    }
    /* Who has it may have seen us alive a moment ago; it is given back after a few calls of the system. */
    for (int i = 0; i < TRIES && !is_ours; i++) {
        is_ours = take_slot(place->file, CLOSING);
        if (!is_ours) {
            sched_yield();
        }
    }
    if (!is_ours) {
        return false;
    }
    atomic_store(&place->region->closed, 1);
    if (is_alive(place->file, 0, GY_REGION_SLOTS)) {
        atomic_store(&place->region->closed, 0);
    } else {
        is_gone = is_current(place) && unlink(place->path) == 0;
    }
    (void)fcntl(place->file, F_SETLK, &done);
    return is_gone;
}

/* A file that nobody uses may be of another boot, with another clock: its times are not in the future. */
static void mend_times(struct gy_region *region)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    const uint64_t now = (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
    for (int d = 0; d < GY_REGION_DEVICES; d++) {
        _Atomic uint64_t *const times[] = {&region->devices[d].paid_until, &region->devices[d].progress,
                                           &region->devices[d].since};
        for (int i = 0; i < 3; i++) {
            uint64_t found = atomic_load(times[i]);
            if (found > now + GY_PACE_CEILING_NS) {
                (void)atomic_compare_exchange_strong(times[i], &found, now);
            }
        }
    }
}

enum entering { ENTERED, FULL, AGAIN };

static enum entering enter_existing(struct gy_region_place *place)
{
    int slot = 0;
    while (slot < GY_REGION_SLOTS && !take_slot(place->file, slot)) {
        slot++;
    }
    if (slot == GY_REGION_SLOTS) {
        return FULL;
    }
    place->slot = slot;
    if (atomic_load(&place->region->closed) == 0 && is_current(place)) {
        if (!is_alive(place->file, 0, GY_REGION_SLOTS)) {
            mend_times(place->region);
        }
        (void)empty_slot(place->region, slot);
        atomic_store(&place->region->slots[slot].charged, 0);
        return ENTERED;
    }
    (void)remove_unused(place); /* whoever began to remove it may be dead */
    return AGAIN;
}

/* Out of the way of programs that close the lowest numbers, or expect them.  No lock is held yet, which the
 * closing would give back. */
static void raise_file(struct gy_region_place *place)
{
    int high = -1;
    for (int from = 512; from >= 16 && high < 0; from /= 2) { /* the process may have a lower limit */
        high = fcntl(place->file, F_DUPFD_CLOEXEC, from);
    }
    if (high >= 0) {
        close(place->file);
        place->file = high;
    }
}

bool gy_region_enter(const char *path, const struct gy_region_settings *settings, struct gy_region_place *out,
                     char why[GY_REGION_TEXT_BYTES])
{
    struct gy_region_place place = {.slot = -1};
    for (int i = 0; i < TRIES; i++) {
        bool absent;
        if (!open_existing(path, &place, why, &absent)) {
            if (!absent || !make(path, settings, why)) {
                return false;
            }
            continue;
        }
        raise_file(&place);
        const enum entering entering = enter_existing(&place);
        if (entering == ENTERED) {
            *out = place;
            return true;
        }
        gy_region_drop(&place);
        if (entering == FULL) {
            return refuse(why, path, "all of its 256 places for processes are taken");
        }
        sched_yield();
    }
    return refuse(why, path, "it is being removed all the time");
}

void gy_region_retire(const struct gy_region_place *place)
{
    struct flock mine = lock_of(F_UNLCK, place->slot, 1);
    (void)empty_slot(place->region, place->slot);
    if (is_open(place)) { /* of two that leave at once, the later one finds nobody */
        (void)fcntl(place->file, F_SETLK, &mine);
    }
    (void)remove_unused(place);
}

void gy_region_leave(struct gy_region_place *place)
{
    if (place->region != NULL && place->slot >= 0) {
        gy_region_retire(place);
    }
    gy_region_drop(place);
}

bool gy_region_sweep(const char *path)
{
    char why[GY_REGION_TEXT_BYTES];
    struct gy_region_place place;
    bool absent;
    if (!open_existing(path, &place, why, &absent)) {
        return false;
    }
    const bool is_gone = !is_alive(place.file, 0, GY_REGION_SLOTS) && remove_unused(&place);
    gy_region_drop(&place);
    return is_gone;
}

int gy_region_device(struct gy_region *region, uint64_t id, uint64_t now_ns)
{
    for (int d = 0; d < GY_REGION_DEVICES; d++) {
        struct gy_region_device *device = &region->devices[d];
        uint64_t found = 0;
        if (atomic_load(&device->id) == id) {
            return d;
        }
        if (atomic_compare_exchange_strong(&device->id, &found, id)) {
            uint64_t never = 0; /* a new bucket is empty: short processes one after the other gain nothing */
            (void)atomic_compare_exchange_strong(&device->paid_until, &never, now_ns);
            atomic_store(&device->since, now_ns);
            atomic_store(&device->progress, now_ns);
            return d;
        }
        if (found == id) {
            return d;
        }
    }
    return -1;
}
