/* SPDX-License-Identifier: MIT */
#include "limit/costs.h"

#include <stddef.h>
#include <string.h>

enum { PLACES = 4096, WAYS = 4 }; /* a key lies in one of WAYS places that follow each other */
enum { FIRST_PERIOD = 32, LAST_PERIOD = 512, SHARED_PERIOD = 4 };
#define SLOW (1.0 / 64)

static struct gy_cost costs[PLACES + WAYS];

static struct gy_cost *place_of(uint64_t key)
{
    return &costs[key % PLACES];
}

static struct gy_cost *find(uint64_t key)
{
    struct gy_cost *place = place_of(key);
    for (int i = 0; i < WAYS; i++) {
        if (place[i].key == key) {
            return &place[i];
        }
    }
    return NULL;
}

struct gy_cost *gy_costs_use(uint64_t key)
{
    struct gy_cost *cost = find(key);
    if (cost != NULL) {
        cost->uses++;
    }
    return cost;
}

bool gy_costs_is_due(const struct gy_cost *cost)
{
    return cost->uses >= cost->period;
}

void gy_costs_doubt(uint64_t key)
{
    struct gy_cost *cost = find(key);
    if (cost != NULL) {
        cost->period = FIRST_PERIOD;
        cost->uses = FIRST_PERIOD;
    }
}

/* A tenth, or what events scatter by. */
static bool is_near(double a, double b)
{
    const double apart = a > b ? a - b : b - a;
    return apart <= 1000 || apart <= b / 10;
}

void gy_costs_learn(uint64_t key, double ns, bool is_shared)
{
    struct gy_cost *place = place_of(key), *chosen = place;
    for (int i = 0; i < WAYS; i++) {
        if (place[i].key == key) {
            const uint32_t longer = place[i].period < LAST_PERIOD ? 2 * place[i].period : LAST_PERIOD;
            place[i].period = is_near(ns, place[i].ns) ? longer : is_shared ? SHARED_PERIOD : FIRST_PERIOD;
            const double part = !is_shared ? 0.25 : ns < place[i].ns ? 1 : SLOW;
            place[i].ns += (ns - place[i].ns) * part;
            place[i].least += (ns - place[i].least) * (ns < place[i].least ? 1 : SLOW);
            place[i].uses = 0;
            return;
        }
        if (chosen->key != 0 && (place[i].key == 0 || place[i].uses > chosen->uses)) {
            chosen = &place[i]; /* empty, or longest not measured */
        }
    }
    *chosen = (struct gy_cost){
        .key = key, .ns = ns, .least = ns, .period = is_shared ? SHARED_PERIOD : FIRST_PERIOD};
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
