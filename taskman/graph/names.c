/* SPDX-License-Identifier: MIT */
#include "taskman/graph/names.h"

#include "base/alloc.h"

#include <assert.h>
#include <string.h>

enum {
    FIRST_SLOTS = 64,
    CHUNK_BYTES = 1 << 16,
};

struct gy_name_chunk {
    struct gy_name_chunk *next;
    size_t used;
    size_t capacity;
    char text[];
};

bool gy_names_are_valid(const struct gy_names *names)
{
    bool has_slots = (names->slots != NULL) == (names->capacity != 0) &&
                     (names->capacity & (names->capacity - 1)) == 0 && names->used <= names->capacity / 4 * 3;
    bool has_texts = (names->current != NULL) == (names->chunks != NULL) &&
                     (names->current == NULL || names->current->used <= names->current->capacity);
    return has_slots && has_texts;
}

/* FNV-1a */
struct gy_name gy_name_of(const char *text)
{
    struct gy_name name = {text, 0, 2166136261u};
    for (; text[name.length] != '\0'; name.length++) {
        name.hash = (name.hash ^ (unsigned char)text[name.length]) * 16777619u;
    }
    return name;
}

gantry_task *gy_names_find(const struct gy_names *names, const struct gy_name *name)
{
    assert(gy_names_are_valid(names));
    if (names->capacity == 0) {
        return NULL;
    }
    size_t mask = names->capacity - 1;
    for (size_t i = name->hash & mask;; i = (i + 1) & mask) {
        const struct gy_name_slot *slot = &names->slots[i];
        if (slot->task == NULL) {
            return NULL;
        }
        if (slot->hash == name->hash && strcmp(slot->task->name, name->text) == 0) {
            return slot->task;
        }
    }
}

static void put(struct gy_name_slot *slots, size_t capacity, struct gy_name_slot slot)
{
    size_t i = slot.hash & (capacity - 1);
    while (slots[i].task != NULL) {
        i = (i + 1) & (capacity - 1);
    }
    slots[i] = slot;
}

static bool reserve_slot(struct gy_names *names)
{
    if (names->used + 1 <= names->capacity / 4 * 3) {
        return true;
    }
    size_t capacity = names->capacity == 0 ? FIRST_SLOTS : names->capacity * 2;
    struct gy_name_slot *slots = gy_zalloc_array(capacity, sizeof(*slots));
    if (slots == NULL) {
        return false;
    }
    for (size_t i = 0; i < names->capacity; i++) {
        if (names->slots[i].task != NULL) {
            put(slots, capacity, names->slots[i]);
        }
    }
    gy_free(names->slots);
    names->bytes += (capacity - names->capacity) * sizeof(*slots);
    names->slots = slots;
    names->capacity = capacity;
    return true;
}

static bool fits(const struct gy_name_chunk *chunk, const struct gy_name *name)
{
    return chunk != NULL && chunk->capacity - chunk->used > name->length;
}

static bool reserve_text(struct gy_names *names, const struct gy_name *name)
{
    if (fits(names->current, name)) {
        return true;
    }
    struct gy_name_chunk *current = names->current;
    if (current != NULL && fits(current->next, name)) { /* left over from before a reset */
        names->current = current->next;
        return true;
    }
    size_t capacity = name->length < CHUNK_BYTES ? CHUNK_BYTES : name->length + 1;
    struct gy_name_chunk *chunk = gy_alloc_aligned(sizeof(*chunk) + capacity, 16);
    if (chunk == NULL) {
        return false;
    }
    chunk->used = 0;
    chunk->capacity = capacity;
    struct gy_name_chunk **place = current == NULL ? &names->chunks : &current->next;
    chunk->next = current == NULL ? NULL : current->next;
    *place = chunk;
    names->current = chunk;
    names->bytes += sizeof(*chunk) + capacity;
    return true;
}

bool gy_names_reserve(struct gy_names *names, const struct gy_name *name)
{
    assert(gy_names_are_valid(names));
    return reserve_slot(names) && reserve_text(names, name);
}

const char *gy_names_add(struct gy_names *names, const struct gy_name *name, gantry_task *task)
{
    assert(gy_names_are_valid(names));
    struct gy_name_chunk *chunk = names->current;
    char *text = chunk->text + chunk->used;
    memcpy(text, name->text, name->length + 1);
    chunk->used += name->length + 1;
    put(names->slots, names->capacity, (struct gy_name_slot){task, name->hash});
    names->used++;
    return text;
}

void gy_names_reset(struct gy_names *names)
{
    if (names->used != 0) {
        memset(names->slots, 0, names->capacity * sizeof(*names->slots));
    }
    for (struct gy_name_chunk *chunk = names->chunks; chunk != NULL; chunk = chunk->next) {
        chunk->used = 0;
    }
    names->used = 0;
    names->current = names->chunks;
    assert(gy_names_are_valid(names));
}

void gy_names_fini(struct gy_names *names)
{
    assert(gy_names_are_valid(names));
    gy_free(names->slots);
    for (struct gy_name_chunk *chunk = names->chunks, *next; chunk != NULL; chunk = next) {
        next = chunk->next;
        gy_free(chunk);
    }
}
