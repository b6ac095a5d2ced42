/* SPDX-License-Identifier: MIT */
/* Host memory.  Every block carries a small header with its size, so that release() of the caller's
 * allocator gets the size it needs and gy_free() needs none. */
#include "base/alloc.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct header {
    void *block;  /* what the allocator returned */
    size_t bytes; /* what it was asked for */
};

static void *default_allocate(void *user, size_t bytes, size_t alignment)
{
    (void)user;
    void *p = NULL;
    return posix_memalign(&p, alignment, bytes) == 0 ? p : NULL;
}

static void default_release(void *user, void *pointer, size_t bytes)
{
    (void)user;
    (void)bytes;
    free(pointer);
}

static const gantry_allocator of_libc = {sizeof(of_libc), default_allocate, default_release, NULL};

/* immutable while live > 0: gantry_set_allocator() refuses to change it then */
static gantry_allocator current = {sizeof(current), default_allocate, default_release, NULL};
static atomic_long live;

#ifdef GANTRY_TESTING
static atomic_long countdown = -1;
static atomic_bool fired;

void gy_fault_arm(long nth)
{
    atomic_store(&fired, false);
    atomic_store(&countdown, nth);
}

bool gy_fault_fired(void)
{
    return atomic_load(&fired);
}

long gy_fault_left(void)
{
    return atomic_load(&countdown);
}

bool gy_fault_should_fail(void)
{
    if (atomic_load_explicit(&countdown, memory_order_relaxed) < 0) {
        return false;
    }
    if (atomic_fetch_sub(&countdown, 1) != 0) {
        return false;
    }
    atomic_store(&fired, true);
    return true;
}
#endif

static void *allocate(size_t bytes, size_t alignment)
{
    if (alignment < sizeof(struct header)) {
        alignment = sizeof(struct header);
    }
    if (bytes > SIZE_MAX - alignment) {
        return NULL;
    }
    char *block = current.allocate(current.user, bytes + alignment, alignment);
    if (block == NULL) {
        return NULL;
    }
    atomic_fetch_add_explicit(&live, 1, memory_order_relaxed);
    struct header header = {block, bytes + alignment};
    memcpy(block + alignment - sizeof(header), &header, sizeof(header));
    return block + alignment;
}

void *gy_alloc_aligned(size_t bytes, size_t alignment)
{
    return gy_fault_should_fail() ? NULL : allocate(bytes, alignment);
}

void *gy_zalloc(size_t bytes)
{
    void *p = gy_alloc_aligned(bytes, 16);
    if (p != NULL) {
        memset(p, 0, bytes);
    }
    return p;
}

void *gy_zalloc_array(size_t count, size_t bytes)
{
    size_t total;
    if (__builtin_mul_overflow(count, bytes, &total)) {
        return NULL;
    }
    return gy_zalloc(total);
}

bool gy_grow_array(void *at, size_t *room, size_t needed, size_t size)
{
    void *array, *larger;
    size_t more;
    if (needed <= *room) {
        return true;
    }
    larger = __builtin_mul_overflow(needed, 2, &more) || __builtin_add_overflow(more, 16, &more)
                 ? NULL
                 : gy_zalloc_array(more, size);
    if (larger == NULL) {
        return false;
    }
    memcpy(&array, at, sizeof(array)); /* a pointer to whatever the things are */
    if (array != NULL) {
        memcpy(larger, array, *room * size);
    }
    gy_free(array);
    memcpy(at, &larger, sizeof(larger));
    *room = more;
    return true;
}

void *gy_zalloc_aside(size_t count, size_t bytes)
{
    size_t total;
    void *p = __builtin_mul_overflow(count, bytes, &total) ? NULL : allocate(total, 16);
    if (p != NULL) {
        memset(p, 0, total);
    }
    return p;
}

void gy_free(void *pointer)
{
    if (pointer == NULL) {
        return;
    }
    struct header header;
    memcpy(&header, (char *)pointer - sizeof(header), sizeof(header));
    current.release(current.user, header.block, header.bytes);
    atomic_fetch_sub_explicit(&live, 1, memory_order_relaxed);
}

char *gy_strdup(const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = gy_alloc_aligned(bytes, 16);
    if (copy != NULL) {
        memcpy(copy, text, bytes);
    }
    return copy;
}

long gy_alloc_count(void)
{
    return atomic_load(&live);
}

void gy_alloc_use(const gantry_allocator *allocator)
{
    current = allocator != NULL ? *allocator : of_libc;
}
