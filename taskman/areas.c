/* SPDX-License-Identifier: MIT */
#include "taskman/areas.h"

#include "base/alloc.h"

#include <string.h>

enum { FIRST_PLACES = 64 };

static uintptr_t end_of(const struct gy_area_key *key)
{
    return key->at + (key->rows - 1) * key->pitch + key->bytes;
}

/* ---- bytes in common --------------------------------------------------------------------------- */

/* Has one row, [at, end), a byte in common with rows?  The first of them that ends behind `at` tells. */
static bool row_meets(uintptr_t at, uintptr_t end, const struct gy_area_key *rows)
{
    const uintptr_t first_end = rows->at + rows->bytes;
    const size_t row = at < first_end || rows->rows == 1 ? 0 : (at - first_end) / rows->pitch + 1;
    const uintptr_t begin = rows->at + row * rows->pitch;
    return row < rows->rows && at < begin + rows->bytes && begin < end;
}

static bool have_common_byte(const struct gy_area_key *a, const struct gy_area_key *b)
{
    const struct gy_area_key *few = a->rows < b->rows ? a : b, *many = few == a ? b : a;
    bool meet = false;
    for (size_t row = 0; row < few->rows && !meet; row++) {
        const uintptr_t at = few->at + row * few->pitch;
        meet = row_meets(at, at + few->bytes, many);
    }
    return meet;
}

/* Both know that they meet; false: no memory, and neither does. */
static bool introduce(struct gy_area *a, struct gy_area *b)
{
    if (!gy_grow_array(&a->met, &a->met_room, a->met_count + 1, sizeof(struct gy_area *)) ||
        !gy_grow_array(&b->met, &b->met_room, b->met_count + 1, sizeof(struct gy_area *))) {
        return false;
    }
    a->met[a->met_count++] = b;
    b->met[b->met_count++] = a;
    return true;
}

/* It is no more: those that it has met forget it, which came before and have it as their last. */
static void forget(struct gy_area *area)
{
    for (size_t i = 0; i < area->met_count; i++) {
        area->met[i]->met_count--;
    }
    gy_free(area->met);
    gy_free(area);
}

/* The area meets those of the tree that it has a byte in common with. */
static bool meet_below(struct gy_area *area, struct gy_area *node)
{
    if (node == NULL || node->last_end <= area->key.at) {
        return true;
    }
    const bool is_before = node->key.at < area->end;
    return meet_below(area, node->child[0]) &&
           (!is_before || !have_common_byte(&area->key, &node->key) || introduce(area, node)) &&
           (!is_before || meet_below(area, node->child[1]));
}

/* ---- the tree ---------------------------------------------------------------------------------- */

static void note_end(struct gy_area *node)
{
    node->last_end = node->end;
    for (int side = 0; side < 2; side++) {
        const struct gy_area *child = node->child[side];
        node->last_end = child != NULL && child->last_end > node->last_end ? child->last_end : node->last_end;
    }
}

/* The child of that side goes up. */
static struct gy_area *rotate(struct gy_area *node, int side)
{
    struct gy_area *up = node->child[side];
    node->child[side] = up->child[1 - side];
    up->child[1 - side] = node;
    note_end(node);
    note_end(up);
    return up;
}

static struct gy_area *insert(struct gy_area *node, struct gy_area *area)
{
    if (node == NULL) {
        note_end(area);
        return area;
    }
    const int side = area->key.at >= node->key.at;
    node->child[side] = insert(node->child[side], area);
    note_end(node);
    return node->child[side]->priority > node->priority ? rotate(node, side) : node;
}

/* ---- hashes ------------------------------------------------------------------------------------ */

static size_t hash_of(const struct gy_area_key *key)
{
    uint64_t hash = (uint64_t)key->at * UINT64_C(0x9e3779b97f4a7c15);
    hash = (hash ^ hash >> 32 ^ key->bytes) * UINT64_C(0x9e3779b97f4a7c15);
    hash = (hash ^ hash >> 32 ^ key->rows ^ key->pitch << 20) * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(hash >> 20);
}

static bool is_same(const struct gy_area_key *a, const struct gy_area_key *b)
{
    return a->at == b->at && a->bytes == b->bytes && a->rows == b->rows && a->pitch == b->pitch;
}

static struct gy_area **place_of(const struct gy_areas *areas, const struct gy_area_key *key)
{
    return &areas->by_hash[hash_of(key) & (areas->places - 1)];
}

/* As many places as areas, at least; false: no memory. */
static bool make_places(struct gy_areas *areas)
{
    if (areas->count < areas->places) {
        return true;
    }
    struct gy_areas wider = *areas;
    wider.places = areas->places == 0 ? FIRST_PLACES : 2 * areas->places;
    wider.by_hash = gy_zalloc_array(wider.places, sizeof(struct gy_area *));
    if (wider.by_hash == NULL) {
        return false;
    }
    for (size_t i = 0; i < areas->places; i++) {
        for (struct gy_area *area = areas->by_hash[i], *next; area != NULL; area = next) {
            next = area->next_of_hash;
            struct gy_area **place = place_of(&wider, &area->key);
            area->next_of_hash = *place;
            *place = area;
        }
    }
    gy_free(areas->by_hash);
    *areas = wider;
    return true;
}

static uint32_t draw(struct gy_areas *areas)
{
    areas->random = areas->random * 1664525u + 1013904223u;
    return areas->random ^ areas->random >> 15;
}

static struct gy_area *add(struct gy_areas *areas, const struct gy_area_key *key)
{
    struct gy_area *area = make_places(areas) ? gy_zalloc(sizeof(*area)) : NULL;
    if (area == NULL) {
        return NULL;
    }
    area->key = *key;
    area->end = end_of(key);
    area->priority = draw(areas);
    if (!meet_below(area, areas->root)) {
        forget(area);
        return NULL;
    }
    struct gy_area **place = place_of(areas, key);
    area->next_of_hash = *place;
    *place = area;
    areas->root = insert(areas->root, area);
    areas->count++;
    return area;
}

struct gy_area *gy_areas_find(struct gy_areas *areas, const struct gy_area_key *key)
{
    struct gy_area *area = areas->places != 0 ? *place_of(areas, key) : NULL;
    while (area != NULL && !is_same(&area->key, key)) {
        area = area->next_of_hash;
    }
    return area != NULL ? area : add(areas, key);
}

void gy_areas_clear(struct gy_areas *areas)
{
    for (size_t i = 0; i < areas->places; i++) {
        for (struct gy_area *area = areas->by_hash[i], *next; area != NULL; area = next) {
            next = area->next_of_hash;
            gy_free(area->met);
            gy_free(area);
        }
    }
    gy_free(areas->by_hash);
    *areas = (struct gy_areas){.random = areas->random};
}
