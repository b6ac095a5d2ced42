/* SPDX-License-Identifier: MIT */
#include "proof/names.h"

#include "base/alloc.h"
#include "base/fast_lock.h"
#include "proof/access.h"

#include <string.h>

enum { SLOTS = 1024 };

struct kept_name {
    struct kept_name *next; /* in its slot; immutable */
    char *text;             /* immutable */
};

static gy_fast_lock lock = {0, GY_RANK_LEAF};
static struct kept_name *names[SLOTS]; /* guarded by lock */

static uint32_t hash_of(const char *text)
{
    uint32_t hash = 2166136261u;
    for (; *text != '\0'; text++) {
        hash = (hash ^ (unsigned char)*text) * 16777619u;
    }
    return hash;
}

/* NULL: no memory. */
static struct kept_name *make(const char *text)
{
    struct kept_name *name = gy_zalloc(sizeof(*name));
    char *copy = name != NULL ? gy_strdup(text) : NULL;
    if (copy == NULL) {
        gy_free(name);
        return NULL;
    }
    name->text = copy;
    return name;
}

const char *gy_name_keep(const char *text)
{
    if (text == NULL) {
        return "?";
    }
    struct kept_name **slot = &names[hash_of(text) % SLOTS];
    const bool was_inside = gy_proof_is_inside;
    gy_proof_is_inside = true; /* malloc() asks for a lock of the proof otherwise */
    gy_fast_lock_take(&lock);
    struct kept_name *name = *slot;
    while (name != NULL && strcmp(name->text, text) != 0) {
        name = name->next;
    }
    if (name == NULL) {
        name = make(text);
        if (name != NULL) {
            name->next = *slot;
            *slot = name;
        }
    }
    gy_fast_lock_give(&lock);
    gy_proof_is_inside = was_inside;
    return name != NULL ? name->text : "?";
}
