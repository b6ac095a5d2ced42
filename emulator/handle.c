/* SPDX-License-Identifier: MIT */
/* Handles: kind, generation and slot number packed into a pointer-sized number.  A slot's generation grows
 * when its object is closed, so an old handle no longer matches.  Generations begin with a number that
 * another copy of this library in the process does not begin with: no copy takes a handle of another one for
 * its own.
 */
#include "emulator/emu.h"

#include "base/alloc.h"

#define CHUNK_SLOTS 1024u
#define CHUNKS 16384u
#define NO_SLOT UINT32_MAX

/*   63..56 kind   55..32 generation   31..4 slot + 1   3..0 zero */
#define KIND_SHIFT 56
#define GENERATION_SHIFT 32
#define GENERATION_MASK 0xffffffu
#define SLOT_SHIFT 4
#define SLOT_MASK 0xfffffffu

struct handle_slot {
    struct gy_emu_object *object; /* NULL: the slot is free */
    uint32_t generation;
    uint32_t next_free;
    enum gy_emu_kind kind; /* the kind of the last owner */
};

static struct handle_slot *chunks[CHUNKS];
static uint32_t slots_used; /* slots ever handed out */
static uint32_t first_free = NO_SLOT;
static long live[GY_EMU_KIND_COUNT];

/* The page of a variable of this copy. */
static uint32_t first_generation(void)
{
    return (uint32_t)((uintptr_t)&slots_used >> 12) & GENERATION_MASK;
}

static struct handle_slot *slot_at(uint32_t index)
{
    return &chunks[index / CHUNK_SLOTS][index % CHUNK_SLOTS];
}

static uint32_t take_slot(void)
{
    uint32_t index = first_free;
    if (index != NO_SLOT) {
        first_free = slot_at(index)->next_free;
        return index;
    }
    uint32_t chunk = slots_used / CHUNK_SLOTS;
    if (chunk >= CHUNKS) {
        return NO_SLOT;
    }
    if (chunks[chunk] == NULL) {
        chunks[chunk] = gy_zalloc_array(CHUNK_SLOTS, sizeof(struct handle_slot));
        if (chunks[chunk] == NULL) {
            return NO_SLOT;
        }
    }
    return slots_used++;
}

CUresult gy_emu_handle_open(enum gy_emu_kind kind, struct gy_emu_object *object)
{
    uint32_t index = take_slot();
    if (index == NO_SLOT) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    struct handle_slot *slot = slot_at(index);
    slot->object = object;
    slot->kind = kind;
    live[kind]++;
    const uintptr_t generation = (slot->generation + first_generation()) & GENERATION_MASK;
    object->handle =
        (uintptr_t)kind << KIND_SHIFT | generation << GENERATION_SHIFT | (uintptr_t)(index + 1) << SLOT_SHIFT;
    return CUDA_SUCCESS;
}

/* Find the slot that a number points to; NULL: the number cannot be a handle of `kind`. */
static struct handle_slot *decode(enum gy_emu_kind kind, const void *handle, uint32_t *generation)
{
    uintptr_t value = (uintptr_t)handle;
    uint32_t index = (uint32_t)(value >> SLOT_SHIFT) & SLOT_MASK;
    if (value >> KIND_SHIFT != (uintptr_t)kind || (value & ((1u << SLOT_SHIFT) - 1)) != 0 || index == 0 ||
        index > slots_used) {
        return NULL;
    }
    *generation = ((uint32_t)(value >> GENERATION_SHIFT) - first_generation()) & GENERATION_MASK;
    return slot_at(index - 1);
}

void gy_emu_handle_close(struct gy_emu_object *object)
{
    uint32_t index = ((uint32_t)(object->handle >> SLOT_SHIFT) & SLOT_MASK) - 1;
    struct handle_slot *slot = slot_at(index);
    live[slot->kind]--;
    slot->object = NULL;
    slot->generation = (slot->generation + 1) & GENERATION_MASK;
    slot->next_free = first_free;
    first_free = index;
    object->handle = 0;
}

void *gy_emu_handle_find(enum gy_emu_kind kind, const void *handle)
{
    const uintptr_t value = (uintptr_t)handle;
    const uint32_t index = (uint32_t)(value >> SLOT_SHIFT) & SLOT_MASK;
    if (index - 1 >= slots_used || value >> KIND_SHIFT != (uintptr_t)kind) {
        return NULL;
    }
    struct gy_emu_object *object = slot_at(index - 1)->object;
    return object != NULL && object->handle == value ? object : NULL;
}

bool gy_emu_handle_is_stale(enum gy_emu_kind kind, const void *handle)
{
    uint32_t generation;
    struct handle_slot *slot = decode(kind, handle, &generation);
    return slot != NULL && slot->generation > generation;
}

long gy_emu_handle_live(enum gy_emu_kind kind)
{
    return live[kind];
}

struct gy_emu_object *gy_emu_handle_next(enum gy_emu_kind kind, uint32_t *cursor)
{
    while (*cursor < slots_used) {
        struct handle_slot *slot = slot_at((*cursor)++);
        if (slot->object != NULL && slot->kind == kind) {
            return slot->object;
        }
    }
    return NULL;
}
