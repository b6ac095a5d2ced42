/* SPDX-License-Identifier: MIT */
#include "taskman/cpu/deque.h"

#include "base/alloc.h"
#include "base/status.h"

#include <assert.h>

enum { FIRST_SLOTS = 256 };

/* A thief may still read an array that was replaced: those are kept until the end, together no larger
 * than the present one. */
struct gy_deque_array {
    struct gy_deque_array *replaced;
    int64_t mask; /* capacity - 1 */
    _Atomic(gantry_task *) slots[];
};

static struct gy_deque_array *new_array(size_t capacity, struct gy_deque_array *replaced)
{
    struct gy_deque_array *array = gy_alloc_aligned(sizeof(*array) + capacity * sizeof(array->slots[0]), 64);
    if (array != NULL) {
        array->replaced = replaced;
        array->mask = (int64_t)capacity - 1;
    }
    return array;
}

static gantry_task *slot_load(struct gy_deque_array *array, int64_t i)
{
    return atomic_load_explicit(&array->slots[i & array->mask], memory_order_relaxed);
}

static void slot_store(struct gy_deque_array *array, int64_t i, gantry_task *task)
{
    atomic_store_explicit(&array->slots[i & array->mask], task, memory_order_relaxed);
}

bool gy_deque_is_valid(const struct gy_deque *deque)
{
    const struct gy_deque_array *array = atomic_load_explicit(&deque->array, memory_order_relaxed);
    int64_t bottom = atomic_load_explicit(&deque->bottom, memory_order_relaxed);
    int64_t top = atomic_load_explicit(&deque->top, memory_order_relaxed);
    return array != NULL && (array->mask & (array->mask + 1)) == 0 && deque->seen_top >= 0 &&
           deque->seen_top <= top && top <= bottom && bottom - top <= array->mask + 1;
}

gantry_status gy_deque_init(struct gy_deque *deque)
{
    struct gy_deque_array *array = new_array(FIRST_SLOTS, NULL);
    if (array == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "cpu dispatcher: no memory for a work queue");
    }
    atomic_init(&deque->top, 0);
    atomic_init(&deque->bottom, 0);
    atomic_init(&deque->array, array);
    deque->seen_top = 0;
    assert(gy_deque_is_valid(deque));
    return GANTRY_OK;
}

void gy_deque_fini(struct gy_deque *deque)
{
    struct gy_deque_array *array = atomic_load(&deque->array);
    for (struct gy_deque_array *next; array != NULL; array = next) {
        next = array->replaced;
        gy_free(array);
    }
}

/* Owner: an array with room for `count` more tasks than up to `bottom`; NULL when out of memory. */
static struct gy_deque_array *larger_array(struct gy_deque *deque, struct gy_deque_array *array,
                                           int64_t bottom, size_t count)
{
    int64_t top = deque->seen_top;
    size_t used = (size_t)(bottom - top);
    size_t capacity = (size_t)array->mask + 1;
    while (capacity < used + count) {
        capacity *= 2;
    }
    struct gy_deque_array *larger = new_array(capacity, array);
    if (larger == NULL) {
        return NULL;
    }
    for (int64_t i = top; i < bottom; i++) {
        slot_store(larger, i, slot_load(array, i));
    }
    atomic_store_explicit(&deque->array, larger, memory_order_release);
    return larger;
}

/* Owner: the same; the array that there is if that has room.  Thieves write to `top`, so the owner fetches
 * that only when there would be no room otherwise. */
static inline struct gy_deque_array *room_for(struct gy_deque *deque, int64_t bottom, size_t count)
{
    struct gy_deque_array *array = atomic_load_explicit(&deque->array, memory_order_relaxed);
    size_t capacity = (size_t)array->mask + 1;
    if ((size_t)(bottom - deque->seen_top) + count <= capacity) {
        return array;
    }
    deque->seen_top = atomic_load_explicit(&deque->top, memory_order_acquire);
    return (size_t)(bottom - deque->seen_top) + count <= capacity ? array
                                                                  : larger_array(deque, array, bottom, count);
}

bool gy_deque_push_list(struct gy_deque *deque, gantry_task *first, size_t count)
{
    int64_t bottom = atomic_load_explicit(&deque->bottom, memory_order_relaxed);
    struct gy_deque_array *array = room_for(deque, bottom, count);
    if (array == NULL) {
        return false;
    }
    gantry_task *task = first;
    for (int64_t i = bottom + (int64_t)count - 1; i >= bottom; i--) {
        gantry_task *next = task->next;
        slot_store(array, i, task);
        task = next;
    }
    /* Sequentially consistent for the sake of gy_event_notify(): the tasks are visible to a worker that
     * counted itself as a sleeper too late for us to see. */
    atomic_store(&deque->bottom, bottom + (int64_t)count);
    return true;
}

bool gy_deque_push_array(struct gy_deque *deque, gantry_task *const *tasks, size_t count)
{
    int64_t bottom = atomic_load_explicit(&deque->bottom, memory_order_relaxed);
    struct gy_deque_array *array = room_for(deque, bottom, count);
    if (array == NULL) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        slot_store(array, bottom + (int64_t)i, tasks[i]);
    }
    atomic_store(&deque->bottom, bottom + (int64_t)count); /* as above */
    return true;
}

bool gy_deque_push(struct gy_deque *deque, gantry_task *task)
{
    int64_t bottom = atomic_load_explicit(&deque->bottom, memory_order_relaxed);
    struct gy_deque_array *array = room_for(deque, bottom, 1);
    if (array == NULL) {
        return false;
    }
    slot_store(array, bottom, task);
    atomic_store(&deque->bottom, bottom + 1); /* as above */
    return true;
}

gantry_task *gy_deque_take(struct gy_deque *deque)
{
    int64_t bottom = atomic_load_explicit(&deque->bottom, memory_order_relaxed) - 1;
    if (gy_deque_is_empty(deque)) {
        return NULL;
    }
    struct gy_deque_array *array = atomic_load_explicit(&deque->array, memory_order_relaxed);
    atomic_store(&deque->bottom, bottom);
    int64_t top = atomic_load(&deque->top);
    if (top < bottom) {
        return slot_load(array, bottom);
    }
    gantry_task *task = NULL;
    if (top == bottom) { /* the last one: race the thieves for it */
        task = slot_load(array, bottom);
        if (!atomic_compare_exchange_strong(&deque->top, &top, top + 1)) {
            task = NULL;
        }
    }
    atomic_store_explicit(&deque->bottom, bottom + 1, memory_order_release);
    return task;
}

gantry_task *gy_deque_steal(struct gy_deque *deque, bool *lost_race)
{
    int64_t top = atomic_load(&deque->top);
    int64_t bottom = atomic_load(&deque->bottom);
    if (top >= bottom) {
        return NULL;
    }
    struct gy_deque_array *array = atomic_load_explicit(&deque->array, memory_order_acquire);
    gantry_task *task = slot_load(array, top);
    if (!atomic_compare_exchange_strong(&deque->top, &top, top + 1)) {
        *lost_race = true;
        return NULL;
    }
    return task;
}
