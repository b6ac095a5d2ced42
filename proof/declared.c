/* SPDX-License-Identifier: MIT */
#include "proof/declared.h"

#include "base/alloc.h"
#include "base/fast_lock.h"
#include "proof/order.h"
#include "proof/report.h"
#include "proof/shadow.h"

#include <stdlib.h>
#include <string.h>

enum { SLOTS = 1 << 12 };

struct area {
    uintptr_t at, end; /* of all its rows */
    size_t bytes;      /* of each row */
    size_t rows, pitch;
    uintptr_t reach; /* the greatest end of this area and of all before it */
    bool may_write;
};

struct gy_declared {
    struct gy_declared *next; /* in its slot; guarded by lock */
    const void *manager;      /* immutable */
    const void *task;         /* immutable */
    _Atomic(uint32_t) references;
    struct area *areas; /* [count], by `at`, once a part has begun */
    size_t count, room;
    bool is_sorted;    /* since a part has begun: none is declared any more */
    bool lacks;        /* memory for some: nothing is judged */
    uint32_t inside;   /* guarded by lock; calls that carry the task out now */
    const char *label; /* guarded by lock; of such a call */
    const char *freed; /* guarded by lock; memory of its areas that was freed; NULL: none */
};

static gy_fast_lock lock = {0, GY_RANK_LEAF};
static struct gy_declared *slots[SLOTS]; /* guarded by lock */
static _Atomic(size_t) task_count;       /* atomic; written under lock */

/* ---- by task ---------------------------------------------------------------------------------------- */

static struct gy_declared **slot_of(const void *task)
{
    return &slots[((uint64_t)(uintptr_t)task >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 52];
}

static struct gy_declared *find(const void *task) GY_REQUIRES(lock)
{
    struct gy_declared *one = *slot_of(task);
    while (one != NULL && one->task != task) {
        one = one->next;
    }
    return one;
}

/* NULL: no memory, and the task counts as one that has declared nothing. */
static struct gy_declared *find_or_make(const void *manager, const void *task) GY_REQUIRES(lock)
{
    struct gy_declared *one = find(task);
    if (one == NULL && (one = gy_zalloc(sizeof(*one))) != NULL) {
        one->manager = manager;
        one->task = task;
        atomic_init(&one->references, 1);
        one->next = *slot_of(task);
        *slot_of(task) = one;
        atomic_fetch_add(&task_count, 1);
    }
    return one;
}

static void add(struct gy_declared *one, gantry_access access)
{
    if (!gy_grow_array(&one->areas, &one->room, one->count + 1, sizeof(*one->areas))) {
        one->lacks = true;
        gy_order_lack("accesses that tasks declare");
        return;
    }
    struct area area = {.at = (uintptr_t)access.at,
                        .bytes = access.bytes,
                        .rows = access.rows > 1 ? access.rows : 1,
                        .pitch = access.rows > 1 ? access.pitch : access.bytes,
                        .may_write = access.mode != GANTRY_ACCESS_READ};
    if (area.pitch == area.bytes) {
        area.pitch = area.bytes *= area.rows;
        area.rows = 1;
    }
    area.end = area.at + (area.rows - 1) * area.pitch + area.bytes;
    one->areas[one->count++] = area;
}

void gy_declared_add(const void *manager, const void *task, const gantry_access *accesses, size_t count)
{
    gy_proof_take(&lock);
    for (size_t i = 0; i < count; i++) {
        struct gy_declared *one = accesses[i].bytes != 0 ? find_or_make(manager, task) : NULL;
        if (one != NULL) {
            add(one, accesses[i]);
        } else if (accesses[i].bytes != 0) {
            gy_order_lack("accesses that tasks declare");
        }
    }
    gy_proof_give(&lock);
}

static int compare(const void *a, const void *b)
{
    const uintptr_t x = ((const struct area *)a)->at, y = ((const struct area *)b)->at;
    return (x > y) - (x < y);
}

struct gy_declared *gy_declared_begin(const void *task, const char *label)
{
    if (atomic_load_explicit(&task_count, memory_order_relaxed) == 0) {
        return NULL;
    }
    gy_proof_take(&lock);
    struct gy_declared *one = find(task);
    const char *freed = one != NULL ? one->freed : NULL;
    if (one != NULL) {
        one->inside++;
        one->label = label;
    }
    if (one != NULL && !one->is_sorted) {
        uintptr_t reach = 0;
        qsort(one->areas, one->count, sizeof(*one->areas), compare);
        for (size_t i = 0; i < one->count; i++) {
            reach = one->areas[i].end > reach ? one->areas[i].end : reach;
            one->areas[i].reach = reach;
        }
        one->is_sorted = true;
    }
    gy_proof_give(&lock);
    if (freed != NULL) {
        gy_report_early_free(label, freed);
    }
    return one != NULL && !one->lacks ? one : NULL;
}

void gy_declared_end(const void *task)
{
    if (atomic_load_explicit(&task_count, memory_order_relaxed) == 0) {
        return;
    }
    gy_proof_take(&lock);
    struct gy_declared *one = find(task);
    if (one != NULL) {
        one->inside--;
    }
    gy_proof_give(&lock);
}

/* ---- memory that is freed ---------------------------------------------------------------------------- */

static bool has_byte_of(const struct gy_declared *one, uintptr_t at, size_t bytes)
{
    bool has = false;
    for (size_t i = 0; i < one->count; i++) {
        const struct area *area = &one->areas[i];
        for (size_t row = 0; row < area->rows && !has; row++) {
            const uintptr_t from = area->at + row * area->pitch;
            has = from < at + bytes && at < from + area->bytes;
        }
    }
    return has;
}

/* All tasks but `own` that have declared bytes of it note `freed`, if that is not NULL; false: none has.
 * `*label`: that of one which is carried out now, else unchanged. */
static bool note_freed(uintptr_t at, size_t bytes, const struct gy_declared *own, const char *freed,
                       const char **label)
{
    bool is_declared = false;
    gy_proof_take(&lock);
    for (int i = 0; i < SLOTS; i++) {
        for (struct gy_declared *one = slots[i]; one != NULL; one = one->next) {
            if (one != own && one->freed == NULL && has_byte_of(one, at, bytes)) {
                is_declared = true;
                one->freed = freed;
                *label = one->inside != 0 ? one->label : *label;
            }
        }
    }
    gy_proof_give(&lock);
    return is_declared;
}

void gy_declared_freed(uintptr_t at, size_t bytes)
{
    const struct gy_declared *own = gy_access_now != NULL ? gy_access_now->declared : NULL;
    const char *label = NULL;
    if (atomic_load_explicit(&task_count, memory_order_relaxed) != 0 &&
        note_freed(at, bytes, own, NULL, &label)) {
        const char *freed = gy_report_name_of(at);
        (void)note_freed(at, bytes, own, freed, &label);
        if (label != NULL) {
            gy_report_early_free(label, freed);
        }
    }
}

struct gy_declared *gy_declared_ref(struct gy_declared *declared)
{
    if (declared != NULL) {
        atomic_fetch_add_explicit(&declared->references, 1, memory_order_relaxed);
    }
    return declared;
}

void gy_declared_drop(struct gy_declared *declared)
{
    if (declared != NULL && atomic_fetch_sub_explicit(&declared->references, 1, memory_order_acq_rel) == 1) {
        gy_free(declared->areas);
        gy_free(declared);
    }
}

void gy_declared_forget(const void *manager)
{
    if (atomic_load_explicit(&task_count, memory_order_relaxed) == 0) {
        return;
    }
    gy_proof_take(&lock);
    for (int i = 0; i < SLOTS; i++) {
        for (struct gy_declared **place = &slots[i]; *place != NULL;) {
            struct gy_declared *one = *place;
            if (one->manager != manager) {
                place = &one->next;
                continue;
            }
            *place = one->next;
            atomic_fetch_sub(&task_count, 1);
            gy_declared_drop(one);
        }
    }
    gy_proof_give(&lock);
}

/* ---- judging ---------------------------------------------------------------------------------------- */

/* How many areas begin at the address, or before it. */
static size_t count_to(const struct gy_declared *declared, uintptr_t at)
{
    size_t low = 0, high = declared->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (declared->areas[middle].at <= at) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Behind the row of an area in which the byte lies; the byte itself: no area has it. */
static uintptr_t covered_to(const struct gy_declared *declared, uintptr_t at, bool writes)
{
    for (size_t i = count_to(declared, at); i-- > 0 && declared->areas[i].reach > at;) {
        const struct area *area = &declared->areas[i];
        const size_t in_area = at - area->at;
        const size_t in_row = area->rows == 1 ? in_area : in_area % area->pitch; /* a division takes long */
        if (at < area->end && in_row < area->bytes && (area->may_write || !writes)) {
            return at - in_row + area->bytes;
        }
    }
    return at;
}

/* The first byte behind one that no area has which an area has; `end` if there is none before that. */
static uintptr_t covered_from(const struct gy_declared *declared, uintptr_t at, uintptr_t end, bool writes)
{
    for (size_t i = 0; i < declared->count; i++) {
        const struct area *area = &declared->areas[i];
        uintptr_t from = area->at;
        if (from <= at && at < area->end) { /* between two rows, unless it may not be written */
            from += ((at - from) / area->pitch + 1) * area->pitch;
        }
        if (from > at && from < end && (area->may_write || !writes)) {
            end = from;
        }
    }
    return end;
}

/* Behind what of the byte's surroundings was judged before; the byte itself: it was not. */
static uintptr_t passed_to(const struct gy_access *access, uintptr_t at)
{
    for (int i = 0; i < GY_PROOF_PASSED; i++) {
        if (at - access->passed[i].from < access->passed[i].bytes) {
            return access->passed[i].from + access->passed[i].bytes;
        }
    }
    return at;
}

/* The byte, one of those up to `end`, is covered by no area, or by none that may be written. */
static void judge_byte(struct gy_access *access, uintptr_t at, uintptr_t end, unsigned touch)
{
    const uintptr_t read_to = covered_to(access->declared, at, false);
    const bool is_read_only = read_to > at;
    end = is_read_only && read_to < end ? read_to : end;
    end = covered_from(access->declared, at, end, is_read_only);
    const struct gy_undeclared undeclared = {at, end - at, touch, is_read_only};
    struct gy_span *passed = &access->passed[access->next_passed++ % GY_PROOF_PASSED];
    *passed = gy_report_undeclared(access, &undeclared);
}

void gy_declared_judge(struct gy_access *access, uintptr_t at, size_t bytes, unsigned touch)
{
    const uintptr_t end = at + bytes;
    while (at < end) {
        uintptr_t next = covered_to(access->declared, at, (touch & GY_TOUCH_WRITE) != 0);
        next = next > at ? next : passed_to(access, at);
        if (next == at) {
            judge_byte(access, at, end, touch); /* and it is passed now */
        }
        at = next;
    }
}
