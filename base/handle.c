/* SPDX-License-Identifier: MIT */
/* All handles that exist, as address ranges in order of address.  The range of a destroyed object stays, and
 * so does its memory, until it is too old or another object is created there. */
#include "base/handle.h"

#include "base/alloc.h"
#include "base/checking.h"
#include "base/status.h"
#include "base/thread.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_KEPT = 256, FIRST_RANGES = 64 };
static const size_t most_kept_bytes = (size_t)64 << 20;

struct handle_range {
    uintptr_t begin, end;
    size_t each;
    enum gy_handle_kind kind;
    bool is_dead;
};

struct kept {
    uintptr_t begin;
    size_t bytes;
    void *memory;
};

atomic_int gy_handle_checks = GY_HANDLES_UNDECIDED;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static gy_mutex lock = {.native = PTHREAD_MUTEX_INITIALIZER, .rank = GY_RANK_LEAF};
static struct handle_range *ranges;   /* guarded by lock */
static size_t count, room;            /* guarded by lock */
static struct kept kept[MOST_KEPT];   /* guarded by lock; a ring */
static size_t kept_first, kept_count; /* guarded by lock */
static size_t kept_bytes;             /* guarded by lock */

static void decide(void)
{
    bool checked = gy_check_is_on(GY_CHECK_HANDLES);
    atomic_store(&gy_handle_checks, checked ? GY_HANDLES_CHECKED : GY_HANDLES_TRUSTED);
}

/* Returns the first range that ends behind `address`. */
static size_t find_locked(uintptr_t address)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ranges[middle].end <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void remove_locked(size_t at, size_t how_many)
{
    memmove(&ranges[at], &ranges[at + how_many], (count - at - how_many) * sizeof(ranges[0]));
    count -= how_many;
}

static bool make_room_locked(void)
{
    if (count < room) {
        return true;
    }
    size_t more = room != 0 ? 2 * room : FIRST_RANGES;
    struct handle_range *fresh = gy_zalloc_aside(more, sizeof(ranges[0]));
    if (fresh == NULL) {
        return false;
    }
    if (count != 0) {
        memcpy(fresh, ranges, count * sizeof(ranges[0]));
    }
    gy_free(ranges);
    ranges = fresh;
    room = more;
    return true;
}

/* There is no memory to note a new handle.  It could not be told from a bad one, so checking ends. */
static void give_up(void)
{
    atomic_store(&gy_handle_checks, GY_HANDLES_TRUSTED);
    gy_log(GANTRY_LOG_WARNING, "no memory to check handles: they are trusted from now on");
}

void gy_handle_born(enum gy_handle_kind kind, const void *handle, size_t bytes, size_t each)
{
    (void)pthread_once(&once, decide);
    if (!gy_handles_are_checked()) {
        return;
    }
    uintptr_t begin = (uintptr_t)handle, end = begin + bytes;
    gy_mutex_lock(&lock);
    bool has_room = make_room_locked();
    if (has_room) {
        size_t at = find_locked(begin), past = at;
        while (past < count && ranges[past].begin < end) {
            past++;
        }
        remove_locked(at, past - at);
        memmove(&ranges[at + 1], &ranges[at], (count - at) * sizeof(ranges[0]));
        ranges[at] = (struct handle_range){begin, end, each, kind, false};
        count++;
    }
    gy_mutex_unlock(&lock);
    if (!has_room) {
        give_up();
    }
}

static size_t die_locked(const void *handle)
{
    size_t at = find_locked((uintptr_t)handle);
    if (at == count || ranges[at].begin != (uintptr_t)handle) {
        return 0;
    }
    ranges[at].is_dead = true;
    return ranges[at].end - ranges[at].begin;
}

void gy_handle_died(const void *handle)
{
    if (gy_handles_are_checked()) {
        gy_mutex_lock(&lock);
        (void)die_locked(handle);
        gy_mutex_unlock(&lock);
    }
}

static void *take_oldest_locked(void)
{
    struct kept *oldest = &kept[kept_first];
    size_t at = find_locked(oldest->begin);
    if (at < count && ranges[at].begin == oldest->begin && ranges[at].is_dead) {
        remove_locked(at, 1);
    }
    kept_first = (kept_first + 1) % MOST_KEPT;
    kept_count--;
    kept_bytes -= oldest->bytes;
    return oldest->memory;
}

void gy_handle_free(const void *handle, void *memory)
{
    if (!gy_handles_are_checked() || memory == NULL) {
        gy_free(memory);
        return;
    }
    gy_mutex_lock(&lock);
    size_t bytes = die_locked(handle);
    while (kept_count == MOST_KEPT || (kept_count != 0 && kept_bytes + bytes > most_kept_bytes)) {
        gy_free(take_oldest_locked());
    }
    kept[(kept_first + kept_count) % MOST_KEPT] = (struct kept){(uintptr_t)handle, bytes, memory};
    kept_count++;
    kept_bytes += bytes;
    gy_mutex_unlock(&lock);
}

void gy_handle_flush(void)
{
    gy_mutex_lock(&lock);
    while (kept_count != 0) {
        gy_free(take_oldest_locked());
    }
    bool any = false;
    for (size_t i = 0; i < count; i++) {
        any = any || !ranges[i].is_dead;
    }
    if (!any) {
        gy_free(ranges);
        ranges = NULL;
        count = room = 0;
    }
    gy_mutex_unlock(&lock);
}

long gy_handle_kept(void)
{
    gy_mutex_lock(&lock);
    long blocks = (long)kept_count + (ranges != NULL);
    gy_mutex_unlock(&lock);
    return blocks;
}

bool gy_handle_is_refused(const void *handle, enum gy_handle_kind kind, const char *function)
{
    static const char *const names[] = {
#define NAME(name, text) text,
        GY_HANDLE_KINDS(NAME)
#undef NAME
    };
    uintptr_t address = (uintptr_t)handle;
    struct handle_range found = {0};
    gy_mutex_lock(&lock);
    size_t at = find_locked(address);
    bool is_known =
        at < count && ranges[at].begin <= address && (address - ranges[at].begin) % ranges[at].each == 0;
    if (is_known) {
        found = ranges[at];
    }
    gy_mutex_unlock(&lock);
    if (is_known && !found.is_dead && found.kind == kind) {
        return false;
    }
    const char *ended = found.kind == GY_HANDLE_TASK ? "was destroyed, or forgotten by gantry_taskman_reset()"
                                                     : "was destroyed";
    if (!is_known) {
        (void)GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "%s: %p is no %s", function, handle, names[kind]);
    } else {
        (void)GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "%s: the %s %p %s%s", function, names[found.kind], handle,
                      found.is_dead ? ended : "is no ", found.is_dead ? "" : names[kind]);
    }
    return true;
}

void *gy_handle_accepted(const void *handle, enum gy_handle_kind kind, const char *function, bool *is_refused)
{
    *is_refused = handle != NULL && gy_handle_is_refused(handle, kind, function);
    return (void *)(uintptr_t)handle; /* NOLINT: the pointer that the caller has */
}
