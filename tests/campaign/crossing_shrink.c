/* SPDX-License-Identifier: MIT */
/* Makes a failing program smaller as long as it still fails: first values become plain ones, then tasks are
 * removed. */
#include "tests/campaign/crossing_jobs.h"

#include <sys/wait.h>

enum { TRIES = 6, SECONDS = 60 };

static bool excludes(int a, int b)
{
    return a >= 0 && b >= 0 && cross_impossible(a, b) != NULL;
}

static int value_of(const struct cross_choice *choice, int feature, int number)
{
    return number == 0 ? choice->forced[feature] : choice->more[feature][number - 1];
}

/* Remove one of the values of a feature that has several. */
static void drop_value(struct cross_choice *choice, int feature, int number)
{
    int *more = choice->more[feature];
    for (int k = number; k <= MORE; k++) {
        *(k == 0 ? &choice->forced[feature] : &more[k - 1]) = k < MORE ? more[k] : -1;
    }
}

static bool is_possible(const struct cross_choice *choice)
{
    for (int f = 0; f < FEATURES; f++) {
        for (int g = f + 1; g < FEATURES; g++) {
            for (int k = 0; k < (1 + MORE) * (1 + MORE); k++) {
                if (excludes(value_of(choice, f, k / (1 + MORE)), value_of(choice, g, k % (1 + MORE)))) {
                    return false;
                }
            }
        }
    }
    return true;
}

static bool still_fails(struct cross_shared *shared, int file, const struct cross_slot *slot)
{
    if (!is_possible(&slot->choice)) {
        return false;
    }
    shared->slots[CROSS_SHRINKS] = *slot;
    for (int i = 0; i < TRIES; i++) {
        int status = 0;
        pid_t child = cross_begin_worker(file, CROSS_SHRINKS, true);
        if (child > 0 && waitpid(child, &status, 0) == child && status != 0) {
            return true;
        }
    }
    return false;
}

void cross_shrink(struct cross_shared *shared, int file, const struct cross_slot *failed)
{
    static struct cross_program program;
    struct cross_slot slot = *failed;
    double end = cross_seconds() + SECONDS;
    fflush(stderr);
    if (!still_fails(shared, file, &slot)) {
        fprintf(stderr, "it did not fail again in %d runs\n", TRIES);
        return;
    }
    cross_program_draw(&program, slot.seed, &slot.choice);
    for (int f = 0; f < FEATURES; f++) { /* fix the drawn values, so that one feature can be changed alone */
        slot.choice.forced[f] = program.value[f];
    }
    for (int f = 0; f < FEATURES && cross_seconds() < end; f++) { /* one value of each feature */
        for (int k = MORE; k >= 0 && slot.choice.more[f][0] >= 0; k--) {
            struct cross_slot next = slot;
            drop_value(&next.choice, f, k);
            slot = value_of(&slot.choice, f, k) >= 0 && still_fails(shared, file, &next) ? next : slot;
        }
    }
    for (int f = 0; f < FEATURES && cross_seconds() < end; f++) {
        struct cross_slot next = slot;
        if (slot.choice.more[f][0] >= 0) {
            continue;
        }
        next.choice.forced[f] = cross_features[f].first;
        if (next.choice.forced[f] != slot.choice.forced[f] && still_fails(shared, file, &next)) {
            slot = next;
        }
    }
    for (uint32_t size = program.node_count / 2; size > 0 && cross_seconds() < end; size /= 2) {
        for (uint32_t from = 0; from < program.node_count && cross_seconds() < end; from += size) {
            struct cross_slot next = slot;
            next.choice.dropped |= ((UINT64_C(1) << size) - 1) << from;
            if (next.choice.dropped != slot.choice.dropped && still_fails(shared, file, &next)) {
                slot = next;
            }
        }
    }
    cross_program_draw(&program, slot.seed, &slot.choice);
    fprintf(stderr, "made smaller:\n");
    cross_program_print(&program, stderr);
    cross_print_repetition(&slot, stderr);
}
