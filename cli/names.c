/* SPDX-License-Identifier: MIT */
#include "cli/names.h"

#include <stdlib.h>
#include <string.h>

static uint64_t hash_of(const char *text, size_t bytes)
{
    uint64_t hash = 1469598103934665603u;
    for (size_t i = 0; i < bytes; i++) {
        hash = (hash ^ (unsigned char)text[i]) * 1099511628211u;
    }
    return hash;
}

static bool rehash(struct names *names)
{
    size_t room = names->hash_room == 0 ? 1024 : names->hash_room * 2;
    uint32_t *hash = calloc(room, sizeof(*hash));
    if (hash == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < names->count; i++) {
        size_t slot = hash_of(names->at[i], strlen(names->at[i])) & (room - 1);
        while (hash[slot] != 0) {
            slot = (slot + 1) & (room - 1);
        }
        hash[slot] = i + 1;
    }
    free(names->hash);
    names->hash = hash;
    names->hash_room = room;
    return true;
}

static bool make_room(struct names *names)
{
    if (names->count == names->room) {
        size_t room = names->room == 0 ? 256 : names->room * 2;
        char **owned = realloc(names->owned, room * sizeof(*owned));
        names->owned = owned != NULL ? owned : names->owned;
        const char **at = realloc(names->at, room * sizeof(*at));
        names->at = at != NULL ? at : names->at;
        if (owned == NULL || at == NULL) {
            return false;
        }
        names->room = room;
    }
    return names->count * 2 < names->hash_room || rehash(names);
}

bool cli_names_add(struct names *names, struct span text, uint32_t *number)
{
    const char *at = text.at != NULL ? (const char *)text.at : ""; /* NULL when the name is empty */
    size_t bytes = (size_t)(text.end - text.at);
    if (names->count == MOST_NAMES || !make_room(names)) {
        return false;
    }
    size_t slot = hash_of(at, bytes) & (names->hash_room - 1);
    for (; names->hash[slot] != 0; slot = (slot + 1) & (names->hash_room - 1)) {
        const char *name = names->at[names->hash[slot] - 1];
        if (strncmp(name, at, bytes) == 0 && name[bytes] == '\0') {
            *number = names->hash[slot] - 1;
            return true;
        }
    }
    char *name = strndup(at, bytes);
    if (name == NULL) {
        return false;
    }
    names->owned[names->count] = name;
    names->at[names->count] = name;
    *number = (uint32_t)names->count++;
    names->hash[slot] = (uint32_t)names->count;
    return true;
}

void cli_names_free(struct names *names)
{
    for (size_t i = 0; i < names->count; i++) {
        free(names->owned[i]);
    }
    free(names->owned);
    free(names->at);
    free(names->hash);
}
