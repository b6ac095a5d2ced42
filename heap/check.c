/* SPDX-License-Identifier: MIT */
#include "heap/check.h"

#include "base/alloc.h"
#include "base/checking.h"
#include "base/proof.h"
#include "base/status.h"
#include "heap/heap.h"

#include <string.h>

#define SLOTS 8192u
#define PATTERN 0xdb
#define GUARD_PATTERN 0xfd
#define UNIT ((uintptr_t)256) /* every block begins at a multiple of it */
#define MOST_UNGUARDED 64
/* At most this much of a block is filled and looked at. */
#define LOOK_BYTES ((size_t)64 << 10)

struct freed {
    struct gy_visited block; /* base 0: unused */
    bool filled;
};

struct gy_check {
    struct gy_context *context;          /* immutable; may be NULL */
    struct gy_sites *sites;              /* immutable */
    unsigned parts;                      /* immutable */
    gy_mutex lock;                       /* rank HEAP */
    _Atomic(bool) guards_device;         /* atomic; written under lock; never goes back to true */
    unsigned unguarded_count;            /* guarded by lock */
    uintptr_t unguarded[MOST_UNGUARDED]; /* guarded by lock; live blocks without guard bytes */
    struct freed
        slots[SLOTS]; /* guarded by lock; by a hash of the address; the latest block replaces an older one */
};

struct gy_check *gy_check_create(struct gy_context *context, struct gy_sites *sites, unsigned parts)
{
    struct gy_check *check = gy_zalloc(sizeof(*check));
    if (check != NULL) {
        check->context = context;
        check->sites = sites;
        check->parts = parts;
        check->guards_device = context != NULL && context->driver->emulated;
        gy_mutex_init(&check->lock, GY_RANK_HEAP);
    }
    return check;
}

void gy_check_destroy(struct gy_check *check)
{
    if (check != NULL) {
        gy_mutex_fini(&check->lock);
        gy_free(check);
    }
}

static struct freed *slot_of(struct gy_check *check, uintptr_t address)
{
    return &check->slots[((uint64_t)(address >> 8) * 0x9e3779b97f4a7c15u) >> 51];
}
_Static_assert(SLOTS == 1u << (64 - 51), "the hash has that many bits");

static size_t looked_at(size_t bytes)
{
    return bytes < LOOK_BYTES ? bytes : LOOK_BYTES;
}

/* Copy to or from device memory of the emulated driver, behind no other work; false: this cannot be done. */
static bool copy_device(struct gy_check *check, uintptr_t device, unsigned char *host, size_t bytes,
                        bool to_device)
{
    struct gy_context *context = check->context;
    if (context == NULL || !context->driver->emulated || gy_context_is_lost(context) ||
        gy_context_push(context) != GANTRY_OK) {
        return false;
    }
    /* The copy is refused when the block's pages are gone, or in the middle of a capture: then there is no
     * check. */
    const struct gy_relaxed relaxed = gy_relaxed_begin(context);
    CUresult result = to_device ? context->driver->cuMemcpyHtoD((CUdeviceptr)device, host, bytes)
                                : context->driver->cuMemcpyDtoH(host, (CUdeviceptr)device, bytes);
    (void)gy_relaxed_end(context, &relaxed); /* a failure is in the context */
    (void)gy_context_pop(context);
    return result == CUDA_SUCCESS;
}

/* The number of bytes at the start of the memory that hold the pattern. */
static size_t intact(const unsigned char *memory, size_t bytes, unsigned char pattern)
{
    size_t i = 0;
    while (i < bytes && memory[i] == pattern) {
        i++;
    }
    return i;
}

/* A number that is the same wherever the memory is; `bytes` when it cannot be read. */
static size_t look(struct gy_check *check, gantry_memory_kind kind, uintptr_t base, size_t bytes,
                   unsigned char pattern)
{
    if (kind != GANTRY_MEMORY_DEVICE) {
        return intact((const unsigned char *)base, bytes, pattern);
    }
    unsigned char *copy = gy_zalloc(bytes);
    size_t whole =
        copy != NULL && copy_device(check, base, copy, bytes, false) ? intact(copy, bytes, pattern) : bytes;
    gy_free(copy);
    return whole;
}

static bool fill(struct gy_check *check, gantry_memory_kind kind, uintptr_t base, size_t bytes,
                 unsigned char pattern)
{
    if (kind != GANTRY_MEMORY_DEVICE) {
        memset((void *)base, pattern, bytes);
        return true;
    }
    unsigned char *copy = gy_zalloc(bytes);
    bool filled = false;
    if (copy != NULL) {
        memset(copy, pattern, bytes);
        /* A driver that accepts copies without doing them must not be taken for a bug. */
        filled = copy_device(check, base, copy, bytes, true);
        memset(copy, 0, bytes);
        filled = filled && copy_device(check, base, copy, 1, false) && copy[0] == pattern;
    }
    gy_free(copy);
    return filled;
}

/* ---- guard bytes ---- */

/* The guard bytes of the block could not be written. */
static void note_unguarded(struct gy_check *check, uintptr_t base)
{
    gy_mutex_lock(&check->lock);
    if (check->unguarded_count < MOST_UNGUARDED) {
        check->unguarded[check->unguarded_count++] = base;
    } else {
        check->guards_device = false; /* nobody knows any more which blocks have them */
    }
    gy_mutex_unlock(&check->lock);
}

/* Does the block have guard bytes?  If not, forget this. */
static bool take_guarded(struct gy_check *check, gantry_memory_kind kind, uintptr_t base)
{
    if ((check->parts & GY_CHECK_GUARDS) == 0) {
        return false;
    }
    gy_mutex_lock(&check->lock);
    bool guarded = kind != GANTRY_MEMORY_DEVICE || check->guards_device;
    for (unsigned i = 0; i < check->unguarded_count; i++) {
        if (check->unguarded[i] == base) {
            check->unguarded[i] = check->unguarded[--check->unguarded_count];
            guarded = false;
            break;
        }
    }
    gy_mutex_unlock(&check->lock);
    return guarded;
}

static void guard(struct gy_check *check, gantry_memory_kind kind, const struct gy_visited *block)
{
    bool possible = kind != GANTRY_MEMORY_DEVICE || check->guards_device;
    if ((check->parts & GY_CHECK_GUARDS) != 0 && possible &&
        !fill(check, kind, block->base + block->bytes, GY_GUARD_BYTES, GUARD_PATTERN)) {
        note_unguarded(check, block->base);
    }
}

static void look_behind(struct gy_check *check, gantry_memory_kind kind, const struct gy_visited *block,
                        const char *when)
{
    if (!take_guarded(check, kind, block->base)) {
        return;
    }
    size_t whole = look(check, kind, block->base + block->bytes, GY_GUARD_BYTES, GUARD_PATTERN);
    if (whole == GY_GUARD_BYTES) {
        return;
    }
    gantry_alloc_site where = gy_sites_where(check->sites, block->site);
    gy_log(GANTRY_LOG_ERROR,
           "heap: byte %zu behind the %s block at %p (%zu bytes, %s, from %s:%d) was written to before it "
           "was %s",
           whole + 1, gy_kind_name(kind), (void *)block->base, block->bytes, gy_site_tag(&where),
           gy_site_file(&where), where.line, when);
}

void gy_check_resizing(struct gy_check *check, gantry_memory_kind kind, const struct gy_visited *block)
{
    look_behind(check, kind, block, "resized");
}

void gy_check_resized(struct gy_check *check, gantry_memory_kind kind, const struct gy_visited *block)
{
    guard(check, kind, block);
}

/* ---- freed blocks ---- */

/* What these checks read and write themselves is nobody's, whoever allocates or frees. */
static void forget_touches(const struct gy_check *check, const struct gy_visited *block)
{
    const size_t guard = (check->parts & GY_CHECK_GUARDS) != 0 ? GY_GUARD_BYTES : 0; /* else a neighbour's */
    if (gy_proof() != NULL) {
        gy_proof()->device.forget((const void *)block->base, block->bytes + guard);
    }
}

void gy_check_freeing(struct gy_check *check, gantry_memory_kind kind, const struct gy_visited *block)
{
    look_behind(check, kind, block, "freed");
    forget_touches(check, block);
    if ((check->parts & GY_CHECK_FREES) == 0) {
        return;
    }
    bool filled = fill(check, kind, block->base, looked_at(block->bytes), PATTERN);
    gy_mutex_lock(&check->lock);
    *slot_of(check, block->base) = (struct freed){*block, filled};
    gy_mutex_unlock(&check->lock);
}

static void forget_if_shared(struct freed *slot, const struct gy_visited *block)
{
    if (slot->block.base < block->base + block->bytes &&
        block->base < slot->block.base + looked_at(slot->block.bytes)) {
        *slot = (struct freed){.filled = false};
    }
}

/* Forget every freed block whose filled part shares memory with `block`, which is live now.  Returns the one
 * that has its address.  Blocks begin at multiples of 256 bytes, so only few slots come into question unless
 * the block is large. */
static struct freed forget(struct gy_check *check, const struct gy_visited *block)
{
    uintptr_t first = block->base > LOOK_BYTES ? block->base - LOOK_BYTES : 0,
              end = block->base + block->bytes;
    gy_mutex_lock(&check->lock);
    struct freed same = *slot_of(check, block->base);
    if ((end - first) / UNIT < SLOTS / 2) {
        for (uintptr_t at = first; at < end; at += UNIT) {
            forget_if_shared(slot_of(check, at), block);
        }
    } else {
        for (unsigned i = 0; i < SLOTS; i++) {
            forget_if_shared(&check->slots[i], block);
        }
    }
    gy_mutex_unlock(&check->lock);
    return same;
}

static void look_at_freed(struct gy_check *check, gantry_memory_kind kind, const struct gy_visited *block)
{
    struct freed before = forget(check, block);
    if (before.block.base != block->base || !before.filled) {
        return;
    }
    size_t bytes = looked_at(before.block.bytes < block->bytes ? before.block.bytes : block->bytes);
    size_t whole = look(check, kind, block->base, bytes, PATTERN);
    if (whole == bytes) {
        return;
    }
    gantry_alloc_site where = gy_sites_where(check->sites, before.block.site);
    gy_log(GANTRY_LOG_ERROR,
           "heap: byte %zu of the block at %p (%zu bytes, %s, from %s:%d) was written to after it was freed",
           whole, (void *)block->base, before.block.bytes, gy_site_tag(&where), gy_site_file(&where),
           where.line);
}

void gy_check_allocated(struct gy_check *check, gantry_memory_kind kind, const struct gy_visited *block)
{
    forget_touches(check, block);
    if ((check->parts & GY_CHECK_FREES) != 0) {
        look_at_freed(check, kind, block);
    }
    guard(check, kind, block);
    if (gy_proof() != NULL) {
        const gantry_alloc_site site = gy_sites_where(check->sites, block->site);
        forget_touches(check, block);
        gy_proof()->allocated((const void *)block->base, block->bytes, site, kind == GANTRY_MEMORY_DEVICE);
    }
}

bool gy_check_remember(struct gy_check *check, uintptr_t address, struct gy_visited *out)
{
    gy_mutex_lock(&check->lock);
    struct freed slot = *slot_of(check, address);
    gy_mutex_unlock(&check->lock);
    if (slot.block.base != address || address == 0) {
        return false;
    }
    *out = slot.block;
    return true;
}
