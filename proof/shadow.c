/* SPDX-License-Identifier: MIT */
/* What is noted of an access: who wrote the bytes, if that was another work, is asked whether it comes
 * before; a write asks the readers since, too.  A write then stands alone.  Reads join: those that the new
 * one comes after are left out, since whoever comes after it comes after them.  So do atomics that nothing
 * orders.
 *
 * Sets of works are made of pairs, a work and the rest, of which there is only one each: a thousand works
 * that read the same megabyte make a thousand sets and not a quarter of a billion. */
#include "proof/shadow.h"

#include "base/fast_lock.h"
#include "proof/declared.h"
#include "proof/marks.h"
#include "proof/order.h"
#include "proof/places.h"
#include "proof/report.h"
#include "proof/trail.h"

#include <string.h>
#include <sys/mman.h>

enum {
    MASK_ALL = 15,
    LOCKS = 4096, /* of cells; each is of 256 at a time */
    CELLS_PER_LOCK = 256,
    MOST_MEMBERS = 64,    /* of a set; the oldest is left out */
    JOINS = 4096,         /* answers of join() that are remembered */
    HASH_SLOTS = 1 << 22, /* of sets */
};
#define MOST_SETS (UINT32_C(1) << 26)
#define MOST_SPLITS (UINT32_C(1) << 26)
#define WHO_BITS UINT64_C(0xfffffff0)
#define FORGET_PAGES \
    ((size_t)1 << 20) /* of shadow: so much is given back to the system rather than cleared */

struct gy_watched gy_watched[GY_WATCHED_KINDS];
struct gy_watched_span gy_watched_span;

struct set {
    uint32_t work, rest; /* immutable; works are in falling order; `rest`: who */
};
static struct set *sets;   /* immutable below set_count */
static uint32_t *slots;    /* guarded by set_lock; numbers of sets by hash, 0: none */
static uint32_t set_count; /* guarded by set_lock */
static struct {
    uint32_t who, work, part, result;
} joins[JOINS]; /* guarded by set_lock */
static gy_fast_lock set_lock = {0, GY_RANK_LEAF};

struct cell_split {
    struct gy_cell bytes[4];
};
static struct cell_split *splits;                     /* each guarded by its cell's lock */
static uint32_t split_count, free_split, live_splits; /* guarded by split_lock; 0: none is free */
static gy_fast_lock split_lock = {0, GY_RANK_LEAF};

static gy_fast_lock locks[LOCKS]; /* of cells, rank PROOF; never two at once */

/* Address space, of which the system gives a page when it is first written to; NULL: there is none. */
static void *reserve(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

/* What all that is watched shares. */
static bool begin_once(void)
{
    if (sets == NULL) {
        sets = reserve(MOST_SETS * sizeof(*sets));
        slots = reserve(HASH_SLOTS * sizeof(*slots));
        splits = reserve(MOST_SPLITS * sizeof(*splits));
        set_count = split_count = 1;
        for (int i = 0; i < LOCKS; i++) {
            gy_fast_lock_init(&locks[i], GY_RANK_PROOF);
        }
    }
    return sets != NULL && slots != NULL && splits != NULL;
}

/* Threads may look meanwhile, who must not miss what is watched already. */
static void widen_span(uintptr_t begin, size_t bytes)
{
    const uintptr_t old_begin = atomic_load(&gy_watched_span.begin);
    const size_t old_bytes = atomic_load(&gy_watched_span.bytes);
    uintptr_t end = begin + bytes;
    if (old_bytes != 0) {
        begin = begin < old_begin ? begin : old_begin;
        end = end > old_begin + old_bytes ? end : old_begin + old_bytes;
    }
    atomic_store(&gy_watched_span.bytes, SIZE_MAX);
    atomic_store(&gy_watched_span.begin, begin);
    atomic_store(&gy_watched_span.bytes, end - begin);
}

bool gy_shadow_watch(enum gy_watched_kind kind, uintptr_t begin, size_t bytes)
{
    struct gy_watched *watched = &gy_watched[kind];
    struct gy_cell *cells = reserve(bytes / 4 * sizeof(struct gy_cell));
    if (cells == NULL || !begin_once()) {
        return false;
    }
    watched->cells = cells;
    watched->begin = begin;
    atomic_store(&watched->bytes, bytes);
    widen_span(begin, bytes);
    return true;
}

/* ---- sets ------------------------------------------------------------------------------------ */

/* Work of one part is in the order in which it was enqueued, or called. */
static bool is_before(const struct gy_access *access, uint32_t work)
{
    const uint32_t part = gy_work_of(work)->part;
    return part == access->part || gy_past_has(access->past.set, part);
}

/* Both hold one mutex.  What a part did before it has taken that one counts, too, as it may be handed over
 * so; not what it has done since it gave back the last one. */
static bool is_guarded(const struct gy_access *access, uint32_t work)
{
    const uint32_t part = gy_work_of(work)->part;
    return gy_past_has(access->held.set, part) &&
           work <= atomic_load_explicit(&gy_part_of(part)->guarded, memory_order_relaxed);
}

/* Both may hold one mutex, too: what comes later knows nothing of that.
 *
 * A kernel asks the same of millions of cells, so answers are remembered.  The past of a body may grow while
 * it runs, when it waits for something: then order.c forgets them. */
uint32_t gy_shadow_find_bad(struct gy_access *access, uint32_t who)
{
    const uint32_t at = who * 2654435761u >> 26;
    if (access->known[at].who == who) {
        return access->known[at].bad;
    }
    uint32_t bad = 0, left = who;
    while (left != 0 && bad == 0) {
        const bool is_set = (left & GY_WHO_SET) != 0;
        const uint32_t work = is_set ? sets[left & ~(uint32_t)GY_WHO_SET].work : left;
        if (is_before(access, work)) {
            gy_trail_needs(access, gy_work_of(work)->part);
        } else if (!is_guarded(access, work)) {
            bad = work;
        }
        left = is_set ? sets[left & ~(uint32_t)GY_WHO_SET].rest : 0;
    }
    access->known[at].who = who;
    access->known[at].bad = bad;
    return bad;
}

/* The set of a work and of those in `rest`, whose numbers are lower.  `rest` if there is no room.
 *
 * Sets are never freed: what is in the shadow may refer to any of them, and a program that does the same in
 * each step makes a few with each. */
static uint32_t pair(uint32_t work, uint32_t rest) GY_REQUIRES(set_lock)
{
    uint32_t at = (work * 2654435761u ^ rest * 2246822519u) % HASH_SLOTS;
    for (; slots[at] != 0; at = (at + 1) % HASH_SLOTS) {
        const struct set *set = &sets[slots[at]];
        if (set->work == work && set->rest == rest) {
            return slots[at] | GY_WHO_SET;
        }
    }
    if (set_count >= HASH_SLOTS / 2) {
        gy_order_lack("sets of readers");
        return rest;
    }
    sets[set_count] = (struct set){work, rest};
    slots[at] = set_count;
    return set_count++ | GY_WHO_SET;
}

/* The access's work and those in `who` that it does not come after.
 *
 * In falling order of their numbers, so that the order in which threads happened to read makes no other set.
 * Where there are more than have room, those with the lowest numbers are left out: they began first, and most
 * likely end first. */
static uint32_t join_anew(const struct gy_access *access, uint32_t who) GY_REQUIRES(set_lock)
{
    uint32_t members[MOST_MEMBERS * GY_TRAIL_READERS + 1], count = 0, kept = 0, left = who;
    const uint32_t most = gy_trail_kept() ? MOST_MEMBERS * GY_TRAIL_READERS : MOST_MEMBERS;
    bool is_in = false;
    while (left != 0) {
        if (count == most) {
            gy_order_lack("readers at a time of one piece of memory");
            break;
        }
        const bool is_set = (left & GY_WHO_SET) != 0;
        const uint32_t work = is_set ? sets[left & ~(uint32_t)GY_WHO_SET].work : left;
        left = is_set ? sets[left & ~(uint32_t)GY_WHO_SET].rest : 0;
        if (!is_in && work <= access->work) {
            members[count++] = access->work;
            is_in = true;
        }
        const bool is_old = work != access->work && is_before(access, work);
        if (is_old && gy_trail_keeps(access, work, kept)) {
            members[count++] = work;
            kept++;
        } else if (work != access->work && !is_old) {
            members[count++] = work;
        }
    }
    if (!is_in) {
        members[count++] = access->work;
    }
    uint32_t result = members[count - 1];
    for (uint32_t i = count - 1; i-- > 0;) {
        result = pair(members[i], result);
    }
    return result;
}

/* join_anew(), which is asked the same for one cell after another. */
static uint32_t join(struct gy_access *access, uint32_t who)
{
    if (who == 0 || who == access->work) {
        return access->work;
    }
    const uint32_t at = (who * 2654435761u ^ access->work * 2246822519u) % JOINS;
    gy_fast_lock_take(&set_lock);
    uint32_t result = joins[at].result;
    if (joins[at].who != who || joins[at].work != access->work) {
        result = join_anew(access, who);
        joins[at].who = who;
        joins[at].work = access->work;
        joins[at].result = result;
    }
    gy_fast_lock_give(&set_lock);
    access->joined[result % GY_PROOF_JOINED] = result;
    return result;
}

/* ---- one cell, whose lock is held -------------------------------------------------------------- */

static inline uint64_t load(const _Atomic(uint64_t) *entry)
{
    return atomic_load_explicit(entry, memory_order_relaxed);
}

static inline void store(_Atomic(uint64_t) *entry, uint64_t value)
{
    atomic_store_explicit(entry, value, memory_order_relaxed);
}

static inline uint64_t entry_of(const struct gy_access *access, uint32_t who, unsigned mask, bool is_atomic)
{
    const uint64_t block = access->block < GY_NO_BLOCK ? access->block : GY_NO_BLOCK;
    return mask | (uint64_t)who << 4 | block << 32 | (uint64_t)gy_place_number(access->place) << 52 |
           (is_atomic ? GY_ENTRY_ATOMIC : 0);
}

/* An access, and the first conflict that was found. */
struct judged {
    struct gy_access *access;
    unsigned touch;
    struct gy_conflict conflict; /* work 0: none */
};

/* Does the access meet one that is not ordered before it?  `entry` is the other; `at`: the cell's address. */
static void judge(struct judged *j, uint64_t entry, unsigned mask, uintptr_t at, bool was_write)
{
    const uint32_t who = gy_entry_who(entry);
    const bool both_atomic = (entry & GY_ENTRY_ATOMIC) != 0 && (j->touch & GY_TOUCH_ATOMIC) != 0;
    if ((entry & mask) == 0 || both_atomic || who == j->access->work) {
        return;
    }
    const uint32_t bad = gy_shadow_find_bad(j->access, who);
    if (bad != 0 && j->conflict.work == 0) {
        const unsigned shared = (unsigned)entry & mask & MASK_ALL;
        j->conflict = (struct gy_conflict){.work = bad,
                                           .block = (uint32_t)(entry >> 32) & GY_NO_BLOCK,
                                           .is_known = who == bad,
                                           .place = gy_place_at((uint32_t)(entry >> 52) & (GY_PLACES - 1)),
                                           .was_write = was_write,
                                           .at = at + (unsigned)__builtin_ctz(shared),
                                           .bytes = (unsigned)__builtin_popcount(shared)};
    }
}

/* The access becomes the writer.  Whoever has read before is ordered before it, or was told: a later write
 * that comes after this one need not ask for them. */
static void write_cell(struct judged *j, struct gy_cell *cell, unsigned mask)
{
    const uint64_t writer = load(&cell->writer), reader = load(&cell->reader);
    const bool was_plain = gy_entry_who(writer) == j->access->work && (writer & GY_ENTRY_ATOMIC) == 0;
    const bool is_atomic = (j->touch & GY_TOUCH_ATOMIC) != 0 && !was_plain;
    const bool joins_atomics = is_atomic && (writer & GY_ENTRY_ATOMIC) != 0 && (writer & MASK_ALL) == mask;
    uint32_t who = j->access->work;
    unsigned bytes = mask;
    if (joins_atomics) {
        who = join(j->access, gy_entry_who(writer));
    } else if (gy_entry_who(writer) == who) {
        bytes |= writer & MASK_ALL;
    }
    store(&cell->writer, entry_of(j->access, who, bytes, is_atomic));
    if (!is_atomic || (reader & GY_ENTRY_ATOMIC) == 0) { /* atomic reads may still meet a plain write */
        store(&cell->reader, (reader & ~(uint64_t)mask & MASK_ALL) != 0 ? reader & ~(uint64_t)mask : 0);
    }
}

/* The access joins the readers. */
static void read_cell(struct judged *j, struct gy_cell *cell, unsigned mask)
{
    const bool is_atomic = (j->touch & GY_TOUCH_ATOMIC) != 0;
    const uint64_t reader = load(&cell->reader);
    const bool was_atomic = (reader & GY_ENTRY_ATOMIC) != 0;
    uint32_t who = gy_entry_who(reader);
    unsigned bytes = mask;
    if ((reader & MASK_ALL) == 0) {
        who = j->access->work;
    } else if (is_atomic && !was_atomic) {
        return; /* one entry says the same of all its readers: plain ones count */
    } else if (was_atomic && !is_atomic) {
        who = j->access->work;
    } else if (who == j->access->work) {
        bytes |= reader & MASK_ALL;
    } else {
        who = join(j->access, who);
    }
    store(&cell->reader, entry_of(j->access, who, bytes, is_atomic));
}

/* All bytes of `mask` have one history. */
static void touch_cell(struct judged *j, struct gy_cell *cell, unsigned mask, uintptr_t at)
{
    judge(j, load(&cell->writer), mask, at, true);
    if ((j->touch & GY_TOUCH_WRITE) != 0) {
        judge(j, load(&cell->reader), mask, at, false);
        write_cell(j, cell, mask);
    } else {
        read_cell(j, cell, mask);
    }
}

/* ---- split cells -------------------------------------------------------------------------------- */

/* A cell that is split has no bytes of its own: its writer is the number of the split.  0: it is not split.
 */
static uint32_t split_of(uint64_t writer)
{
    return (writer & MASK_ALL) == 0 ? gy_entry_who(writer) : 0;
}

/* May the entry say the same of all its bytes after an access of these? */
static bool is_apart(uint64_t entry, unsigned mask, uint32_t work, bool is_replaced)
{
    const unsigned bytes = (unsigned)entry & MASK_ALL;
    if (bytes == 0 || bytes == mask || gy_entry_who(entry) == work) {
        return false;
    }
    return is_replaced ? (bytes & ~mask) != 0 : true;
}

/* A write takes the place of the writer, so only a writer of other bytes must be kept beside it.  Of the
 * readers it takes away bytes, which needs no split. */
static bool needs_split(const struct gy_cell *cell, const struct gy_access *access, unsigned mask,
                        unsigned touch)
{
    if ((touch & GY_TOUCH_WRITE) != 0) {
        return is_apart(load(&cell->writer), mask, access->work, true);
    }
    return is_apart(load(&cell->reader), mask, access->work, false);
}

/* Returns the number of a split; 0: there is no room. */
static uint32_t take_split(void)
{
    gy_fast_lock_take(&split_lock);
    uint32_t number = free_split;
    if (number != 0) {
        free_split = (uint32_t)load(&splits[number].bytes[0].writer);
    } else if (split_count < MOST_SPLITS) {
        number = split_count++;
    }
    live_splits += number != 0;
    gy_fast_lock_give(&split_lock);
    return number;
}

static void give_split(uint32_t number)
{
    gy_fast_lock_take(&split_lock);
    store(&splits[number].bytes[0].writer, free_split);
    free_split = number;
    live_splits--;
    gy_fast_lock_give(&split_lock);
}

/* What an entry says of one byte. */
static uint64_t entry_of_byte(uint64_t entry, unsigned byte)
{
    return (entry & 1u << byte) != 0 ? entry & (~(uint64_t)MASK_ALL | 1u << byte) : 0;
}

/* Returns the number of the split; 0: there is no room, and neighbours count as one. */
static uint32_t split(struct gy_cell *cell)
{
    const uint32_t number = take_split();
    for (unsigned i = 0; number != 0 && i < 4; i++) {
        store(&splits[number].bytes[i].writer, entry_of_byte(load(&cell->writer), i));
        store(&splits[number].bytes[i].reader, entry_of_byte(load(&cell->reader), i));
    }
    if (number != 0) {
        store(&cell->writer, (uint64_t)number << 4);
        store(&cell->reader, 0);
    }
    return number;
}

static bool is_same_but_bytes(uint64_t a, uint64_t b)
{
    return (a & (WHO_BITS | GY_ENTRY_ATOMIC)) == (b & (WHO_BITS | GY_ENTRY_ATOMIC));
}

/* All four bytes have the same history again, as where a work has touched them one by one. */
static void fold(struct gy_cell *cell, uint32_t number)
{
    const struct gy_cell *bytes = splits[number].bytes;
    const uint64_t writer = load(&bytes[0].writer), reader = load(&bytes[0].reader);
    for (int i = 1; i < 4; i++) {
        if (!is_same_but_bytes(load(&bytes[i].writer), writer) ||
            !is_same_but_bytes(load(&bytes[i].reader), reader)) {
            return;
        }
    }
    store(&cell->writer, writer != 0 ? writer | MASK_ALL : 0);
    store(&cell->reader, reader != 0 ? reader | MASK_ALL : 0);
    give_split(number);
}

/* A cell of any kind.  Images and text are touched byte by byte, so most splits are short: the fourth byte
 * folds. */
static void touch_any(struct judged *j, struct gy_cell *cell, unsigned mask, uintptr_t at)
{
    uint32_t number = split_of(load(&cell->writer));
    if (number == 0 && needs_split(cell, j->access, mask, j->touch)) {
        number = split(cell);
    }
    if (number == 0) {
        touch_cell(j, cell, mask, at);
        return;
    }
    for (unsigned i = 0; i < 4; i++) {
        if ((mask >> i & 1) != 0) {
            touch_cell(j, &splits[number].bytes[i], 1u << i, at);
        }
    }
    fold(cell, number);
}

/* ---- ranges ------------------------------------------------------------------------------------- */

bool gy_shadow_clip(enum gy_watched_kind kind, uintptr_t *at, size_t *bytes)
{
    const uintptr_t from = gy_watched[kind].begin;
    const size_t watched = atomic_load_explicit(&gy_watched[kind].bytes, memory_order_relaxed);
    const uintptr_t begin = *at > from ? *at : from;
    const uintptr_t end = *at + *bytes < from + watched ? *at + *bytes : from + watched;
    *at = begin;
    *bytes = begin < end ? end - begin : 0;
    return watched != 0 && begin < end;
}

/* Cells that share a lock lie side by side, so a range takes each lock once.  A conflict is told without the
 * lock: who hears of it may allocate, which forgets. */
static void note(struct gy_access *access, enum gy_watched_kind kind, uintptr_t at, size_t bytes,
                 unsigned touch)
{
    if (!gy_shadow_clip(kind, &at, &bytes)) {
        return;
    }
    const struct gy_watched *watched = &gy_watched[kind];
    const uintptr_t end = at + bytes;
    gy_trail_touches(access);
    if (access->declared != NULL && kind == GY_WATCHED_BLOCKS) {
        gy_declared_judge(access, at, bytes, touch);
    }
    while (at < end) {
        struct judged j = {access, touch, {0}};
        const size_t cell = (at - watched->begin) / 4;
        gy_fast_lock *lock = &locks[cell / CELLS_PER_LOCK % LOCKS];
        const uintptr_t stop = watched->begin + (cell / CELLS_PER_LOCK + 1) * CELLS_PER_LOCK * 4;
        gy_fast_lock_take(lock);
        while (at < end && at < stop) {
            const uintptr_t first = at & ~(uintptr_t)3;
            const uintptr_t last = end < first + 4 ? end : first + 4;
            const unsigned mask = ((1u << (last - at)) - 1) << (at - first);
            touch_any(&j, &watched->cells[(at - watched->begin) / 4], mask, first);
            at = last;
        }
        gy_fast_lock_give(lock);
        if (j.conflict.work != 0) {
            gy_report_conflict(access, (touch & GY_TOUCH_WRITE) != 0, &j.conflict);
        }
    }
}

void gy_shadow_note(struct gy_access *access, uintptr_t at, size_t bytes, unsigned touch)
{
    if (gy_marks_kept()) {
        gy_marks_note(access, at, bytes, touch);
    }
    const int kinds = access != NULL && access->work != 0 ? gy_watched_kinds(access) : 0;
    for (int kind = 0; kind < kinds; kind++) {
        note(access, (enum gy_watched_kind)kind, at, bytes, touch);
    }
}

void gy_shadow_touch(const void *address, size_t bytes, unsigned touch, const void *place)
{
    struct gy_access *access = gy_access_now;
    if (access != NULL) {
        access->touches++;
        access->place = place;
    }
    if (access != NULL || gy_marks_kept()) {
        gy_shadow_note(access, (uintptr_t)address, bytes, touch);
    }
}

uint32_t gy_shadow_writer(uintptr_t at)
{
    const uint64_t writer = load(&gy_cell_at(at, GY_WATCHED_KINDS)->writer);
    const bool is_single = split_of(writer) == 0 && (gy_entry_who(writer) & GY_WHO_SET) == 0;
    return is_single ? gy_entry_who(writer) : 0;
}

/* Nobody has touched it. */
static void forget_cell(struct gy_cell *cell)
{
    const uint32_t number = split_of(load(&cell->writer));
    if (number != 0) {
        give_split(number);
    }
    if ((load(&cell->writer) | load(&cell->reader)) != 0) { /* else it may be a page that is not there yet */
        store(&cell->writer, 0);
        store(&cell->reader, 0);
    }
}

static void forget(enum gy_watched_kind kind, uintptr_t at, size_t bytes)
{
    if (!gy_shadow_clip(kind, &at, &bytes)) {
        return;
    }
    struct gy_cell *cells = gy_watched[kind].cells;
    const uintptr_t begin = gy_watched[kind].begin;
    size_t cell = (at - begin) / 4;
    const size_t end = (at + bytes - begin + 3) / 4;
    gy_fast_lock_take(&split_lock);
    const bool has_splits = live_splits != 0;
    gy_fast_lock_give(&split_lock);
    if (!has_splits && (end - cell) * sizeof(struct gy_cell) >= 2 * FORGET_PAGES) {
        const uintptr_t page = 4096, from = ((uintptr_t)&cells[cell] + page - 1) & ~(page - 1);
        const uintptr_t to = (uintptr_t)&cells[end] & ~(page - 1);
        (void)madvise((void *)from, to - from, MADV_DONTNEED); /* NOLINT: computed from a pointer */
        forget(kind, at, (from - (uintptr_t)&cells[cell]) / sizeof(struct gy_cell) * 4);
        cell = (to - (uintptr_t)cells) / sizeof(struct gy_cell);
    }
    while (cell < end) {
        gy_fast_lock *lock = &locks[cell / CELLS_PER_LOCK % LOCKS];
        gy_fast_lock_take(lock);
        do {
            forget_cell(&cells[cell++]);
        } while (cell < end && cell % CELLS_PER_LOCK != 0);
        gy_fast_lock_give(lock);
    }
}

/* Whole cells alone: blocks are aligned to more. */
void gy_shadow_forget(uintptr_t at, size_t bytes)
{
    for (int kind = 0; kind < GY_WATCHED_KINDS; kind++) {
        forget((enum gy_watched_kind)kind, at, bytes);
    }
}
