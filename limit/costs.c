#include "limit/costs.h"

#include <stddef.h>
#include <string.h>

enum { PLACES = 4096, WAYS = 4 }; /* a key lies in one of WAYS places that follow each other */

static struct gy_cost costs[PLACES + WAYS];

static struct gy_cost *place_of(uint64_t key)
{
    return &costs[key % PLACES];
}

struct gy_cost *gy_costs_use(uint64_t key)
{
    struct gy_cost *place = place_of(key);
    for (int i = 0; i < WAYS; i++) {
        if (place[i].key == key) {
            place[i].uses++;
            return &place[i];
        }
    }
    return NULL;
}

void gy_costs_learn(uint64_t key, double ns)
{
    struct gy_cost *place = place_of(key), *chosen = place;
    for (int i = 0; i < WAYS; i++) {
        if (place[i].key == key) {
            place[i].ns += (ns - place[i].ns) / 4;
            place[i].uses = 0;
            return;
        }
        if (chosen->key != 0 && (place[i].key == 0 || place[i].uses > chosen->uses)) {
            chosen = &place[i]; /* empty, or longest not measured */
        }
    }
    *chosen = (struct gy_cost){.key = key, .ns = ns};
}

void gy_costs_forget_all(void)
{
    memset(costs, 0, sizeof(costs));
}

uint64_t gy_costs_key(uint64_t kind, const void *which, uint64_t a, uint64_t b)
{
    uint64_t key = kind;
    const uint64_t parts[] = {(uint64_t)(uintptr_t)which, a, b};
    for (int i = 0; i < 3; i++) {
        key = (key ^ parts[i]) * UINT64_C(0x9e3779b97f4a7c15);
        key ^= key >> 32;
    }
    return key != 0 ? key : 1;
}
