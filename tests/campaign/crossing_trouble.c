/* SPDX-License-Identifier: MIT */
/* Chooses where a program fails, and where it is cancelled: once, or twice in different ways. */
#include "tests/campaign/crossing.h"

enum { ABOUT_PART = 5000, ABOUT_FAILURE, ABOUT_CANCEL };

/* ---- looking it up --------------------------------------------------------------------------- */

static const struct cross_trouble *find(const struct cross_trouble *troubles, int value)
{
    for (int k = 0; k < TROUBLES_MOST; k++) {
        if (troubles[k].value == value) {
            return &troubles[k];
        }
    }
    return NULL;
}

const struct cross_trouble *cross_fails(const struct cross_program *program, int value)
{
    return find(program->fails, value);
}

const struct cross_trouble *cross_cancels(const struct cross_program *program, int value)
{
    return find(program->cancels, value);
}

static bool loses(int value)
{
    return value == VALUE_FORCED || value == VALUE_FAULT || value == VALUE_REFUSED;
}

const struct cross_trouble *cross_loses(const struct cross_program *program)
{
    for (int k = 0; k < TROUBLES_MOST; k++) {
        if (loses(program->fails[k].value)) {
            return &program->fails[k];
        }
    }
    return NULL;
}

const struct cross_trouble *cross_fails_at(const struct cross_program *program, uint32_t node, uint32_t step)
{
    for (int k = 0; k < TROUBLES_MOST; k++) {
        if (program->fails[k].node == node && program->fails[k].step == step) {
            return &program->fails[k];
        }
    }
    return NULL;
}

bool cross_cancels_at(const struct cross_program *program, int value, uint32_t node, uint32_t step)
{
    const struct cross_trouble *cancel = cross_cancels(program, value);
    return cancel != NULL && cancel->node == node && cancel->step == step;
}

/* ---- drawing it ------------------------------------------------------------------------------ */

/* Of a few nodes of another manager than `without`, take the one with the most nodes behind it. */
static uint8_t pick_node(const struct cross_program *p, uint32_t about, uint32_t step, bool gpu, uint32_t of,
                         uint32_t without)
{
    uint8_t best = NOBODY;
    for (uint32_t k = 0; k < 40 && of > 0; k++) {
        uint32_t i = cross_pick(p, about, 1000 + k, p->node_count);
        const struct cross_node *node = &p->nodes[i];
        bool plain = gpu && cross_stays_plain(p, i);
        if ((p->part[step] >> i & 1) != 0 && node->manager != without && !plain &&
            (gpu ? cross_is_gpu(node) : node->kind == KIND_CPU)) {
            bool more = best == NOBODY || __builtin_popcountll(node->offspring) >
                                              __builtin_popcountll(p->nodes[best].offspring);
            best = more ? (uint8_t)i : best;
            of--;
        }
    }
    return best;
}

/* Two failures take effect more often in steps of their own; the one after which nothing runs comes after
 * the other. */
static void draw_steps_of_one(struct cross_program *p)
{
    struct cross_trouble *fail = &p->fails[0], *cancel = &p->cancels[0];
    fail->step = (uint8_t)cross_pick(p, ABOUT_FAILURE, 0, p->steps);
    cancel->step = (uint8_t)cross_pick(p, ABOUT_CANCEL, 0, p->steps);
    if (cross_has(p, VALUE_REPLAYED)) { /* nothing is launched again before the third run */
        cancel->step = (uint8_t)(2 + cross_pick(p, ABOUT_CANCEL, 0, p->steps - 2));
        fail->step = (uint8_t)(2 + cross_pick(p, ABOUT_FAILURE, 0, p->steps - 2));
    }
    if (cross_has(p, VALUE_CANCEL_DEBT)) { /* later steps would pay for it */
        cancel->step = (uint8_t)(p->steps - 1);
        fail->step = fail->value == VALUE_FAULT ? cancel->step : fail->step; /* nothing is owed behind it */
    } else if (!cross_has(p, VALUE_REPLAYED) && p->steps > 1 && loses(fail->value) &&
               !cross_has(p, VALUE_NO_CANCEL) && cross_pick(p, ABOUT_CANCEL, 3, 4) != 0) {
        fail->step = (uint8_t)(p->steps - 1);
        cancel->step = (uint8_t)cross_pick(p, ABOUT_CANCEL, 0, p->steps - 1U);
    }
}

static bool comes_last(int value)
{
    return loses(value) || value == VALUE_CANCEL_DEBT;
}

/* The values of a feature that need a step before the last one. */
static uint32_t count_before(const struct cross_program *p, int feature, bool *has_last)
{
    uint32_t count = 0, values = cross_value_count(p, feature);
    for (uint32_t k = 0; k < values; k++) {
        int value = k == 0 ? p->value[feature] : p->more[feature][k - 1];
        *has_last = *has_last || comes_last(value);
        count += value != cross_features[feature].first && !comes_last(value) ? 1 : 0;
    }
    return count;
}

static bool has_several(const struct cross_program *p)
{
    return cross_value_count(p, FEATURE_FAILURE) > 1 || cross_value_count(p, FEATURE_CANCEL) > 1;
}

uint32_t cross_trouble_steps(const struct cross_program *p, bool together)
{
    bool last = false;
    uint32_t fails = count_before(p, FEATURE_FAILURE, &last),
             cancels = count_before(p, FEATURE_CANCEL, &last);
    uint32_t both = !together ? fails + cancels : fails > cancels ? fails : cancels;
    return has_several(p) ? both + (last ? 1 : 0) : 0;
}

/* A failure or cancel after which nothing runs comes in the last step, and the others share the steps before
 * it.  No two cancels are in one step, so that it is known which of them a task met. */
static void draw_steps_of_several(struct cross_program *p)
{
    struct cross_trouble *all[2 * TROUBLES_MOST];
    uint32_t first = cross_has(p, VALUE_REPLAYED) ? 2 : 0, end = p->steps;
    for (int k = 0; k < TROUBLES_MOST; k++) {
        all[k] = &p->cancels[k];
        all[TROUBLES_MOST + k] = &p->fails[k];
        end = comes_last(p->fails[k].value) || comes_last(p->cancels[k].value) ? p->steps - 1U : end;
    }
    uint32_t at = cross_pick(p, ABOUT_CANCEL, 4, end - first);
    for (int k = 0; k < 2 * TROUBLES_MOST; k++) {
        bool none = all[k]->value == VALUE_NO_FAILURE || all[k]->value == VALUE_NO_CANCEL,
             last = comes_last(all[k]->value);
        all[k]->step = (uint8_t)(last ? p->steps - 1U : first + at % (end - first));
        at += none || last ? 0 : 1;
    }
}

static void draw_failure(struct cross_program *p, uint32_t k)
{
    struct cross_trouble *fail = &p->fails[k];
    if (fail->value == VALUE_NO_FAILURE || fail->value == VALUE_REFUSED || fail->value == VALUE_FAULT) {
        return;
    }
    fail->node = pick_node(p, ABOUT_FAILURE + 10 * k, fail->step, fail->value != VALUE_BODY, 1, NOBODY);
    if (fail->node != NOBODY) {
        fail->manager = p->nodes[fail->node].manager;
        fail->call = (uint8_t)cross_pick(p, ABOUT_FAILURE + 10 * k, 2, p->nodes[fail->node].calls + 1U);
        p->nodes[fail->node].stable = false;
    }
}

/* The manager of which a task fails in the step; NOBODY. */
static uint32_t manager_that_fails(const struct cross_program *p, uint32_t step)
{
    uint32_t manager = NOBODY;
    for (uint32_t k = 0; k < TROUBLES_MOST; k++) {
        const struct cross_trouble *fail = &p->fails[k];
        manager = fail->step == step && fail->node != NOBODY ? fail->manager : manager;
    }
    return manager;
}

/* Put it where a failure is in the same step, of another manager, if there is one. */
static void draw_cancel(struct cross_program *p, uint32_t k)
{
    struct cross_trouble *cancel = &p->cancels[k];
    uint32_t about = ABOUT_CANCEL + 10 * k;
    bool launch = cancel->value == VALUE_CANCEL_LAUNCH, release = cancel->value == VALUE_CANCEL_RELEASE;
    uint32_t fails = p->manager_count > 1 ? manager_that_fails(p, cancel->step) : NOBODY;
    cancel->manager = (uint8_t)cross_pick(p, about, 1, p->manager_count);
    if (cancel->manager == fails) {
        cancel->manager = (uint8_t)((fails + 1) % p->manager_count);
    }
    if (cancel->value != VALUE_CANCEL_BODY && !launch && !release) {
        return;
    }
    bool gpu = launch || (release && cross_pick(p, about, 2, 3) != 0);
    cancel->node = pick_node(p, about, cancel->step, gpu, 3, fails);
    if (cancel->node != NOBODY) {
        cancel->manager = p->nodes[cancel->node].manager;
        p->nodes[cancel->node].stable = p->nodes[cancel->node].stable && !launch;
    }
}

void cross_draw_trouble(struct cross_program *p)
{
    uint32_t fails = cross_value_count(p, FEATURE_FAILURE), cancels = cross_value_count(p, FEATURE_CANCEL);
    for (uint32_t k = 0; k < TROUBLES_MOST; k++) {
        p->fails[k] = p->cancels[k] = (struct cross_trouble){.node = NOBODY};
        p->fails[k].value = k == 0      ? p->value[FEATURE_FAILURE]
                            : k < fails ? p->more[FEATURE_FAILURE][k - 1]
                                        : VALUE_NO_FAILURE;
        p->cancels[k].value = k == 0        ? p->value[FEATURE_CANCEL]
                              : k < cancels ? p->more[FEATURE_CANCEL][k - 1]
                                            : VALUE_NO_CANCEL;
    }
    if (has_several(p)) {
        draw_steps_of_several(p);
    } else {
        draw_steps_of_one(p);
    }
    for (uint32_t k = 0; k < TROUBLES_MOST; k++) {
        draw_failure(p, k);
    }
    for (uint32_t k = 0; k < TROUBLES_MOST; k++) {
        draw_cancel(p, k);
    }
}

void cross_print_trouble(const struct cross_program *program, FILE *file)
{
    for (int k = 0; k < TROUBLES_MOST; k++) {
        const struct cross_trouble *fail = &program->fails[k], *cancel = &program->cancels[k];
        if (fail->value != VALUE_NO_FAILURE) {
            fprintf(file, "  %s: node %d fails in step %u, call %u\n", cross_values[fail->value].name,
                    fail->node == NOBODY ? -1 : fail->node, fail->step, fail->call);
        }
        if (cancel->value != VALUE_NO_CANCEL) {
            fprintf(file, "  %s: manager %u is cancelled in step %u by node %d\n",
                    cross_values[cancel->value].name, cancel->manager, cancel->step,
                    cancel->node == NOBODY ? -1 : cancel->node);
        }
    }
}
