/* SPDX-License-Identifier: MIT */
/* The kernel of the crossings: it counts its executions, and notes the counts of other tasks that it sees. */
#include <gantry/kernel.h>
/* this comes after kernel.h */
#include <gantry/kernel/steal.h>

#include <time.h>

#include "tests/campaign/crossing_cell.h"

/* Words that kernels write: if the library lets two of them write at the same time, the values that are read
 * show it, and there is no undefined behaviour.  (Words that copies write must not be read meanwhile, see
 * sees_copies.) */
#if GANTRY_KERNEL_FORM_DEVICE
#define PEEK(word) (*(const volatile uint32_t *)&(word))
#define POKE(word, value) (*(volatile uint32_t *)&(word) = (value))
#else
#define PEEK(word) __atomic_load_n(&(word), __ATOMIC_RELAXED)
#define POKE(word, value) __atomic_store_n(&(word), (value), __ATOMIC_RELAXED)
#endif

/* It lasts long enough to show that a task does not wait which should; on the emulated driver it uses no
 * CPU. */
static __device__ inline void pause_ns(uint32_t ns)
{
#if GANTRY_KERNEL_FORM_DEVICE
    uint64_t from = gantry_global_timer();
    while (gantry_global_timer() - from < ns) {
    }
#else
    struct timespec time = {0, (long)ns};
    (void)nanosleep(&time, NULL);
#endif
}

GANTRY_KERNEL(cross, (struct cross_work work))
{
    uint32_t turn = atomicAdd(&work.self->begun, 1u) + 1;
    __threadfence_system();
    struct cross_record *record = &work.records[turn < CROSS_RECORDS ? turn : 0];
    record->ended_before = PEEK(work.self->ended);
    for (uint32_t i = 0; i < work.read_count; i++) {
        record->first[i].begun = PEEK(work.reads[i]->begun);
        record->first[i].ended = PEEK(work.reads[i]->ended);
        record->first[i].copied = work.sees_copies != 0 ? PEEK(work.reads[i]->copied) : 0;
    }
    for (uint32_t k = 0; work.stamp != nullptr && k < CROSS_STAMP; k++) {
        uint32_t sum = turn;
        for (uint32_t i = 0; i < work.read_count; i++) {
            sum += work.stamps[i] != nullptr ? work.stamps[i][k] : 0;
        }
        work.stamp[k] = (uint8_t)sum;
    }
    if (work.pause_ns != 0) {
        pause_ns(work.pause_ns);
    }
    for (uint32_t i = 0; i < work.read_count; i++) {
        record->last[i].begun = PEEK(work.reads[i]->begun);
        record->last[i].ended = PEEK(work.reads[i]->ended);
        record->last[i].copied = work.sees_copies != 0 ? PEEK(work.reads[i]->copied) : 0;
    }
    POKE(record->executions, PEEK(record->executions) + 1);
    __threadfence_system();
    atomicAdd(&work.self->ended, 1u);
}

/* Run until the word has come to `turn`, or for `most_ns`; then it took too long, and the kernel says so. */
GANTRY_KERNEL(cross_older, (struct cross_beside * words, uint32_t turn, uint64_t most_ns))
{
    uint64_t from = gantry_global_timer(), passed = 0;
    bool there = PEEK(words->turn) >= turn;
    while (!there && passed < most_ns) {
        pause_ns(50000);
        passed = gantry_global_timer() - from;
        there = PEEK(words->turn) >= turn;
    }
    if (!there) {
        atomicAdd(&words->overdue, 1u);
    }
    __threadfence_system();
}

#define CROSS_UNIT(X, Y, Z) ((X) + gridDim.x * ((Y) + gridDim.y * (Z)))

/* Each unit of a grid of several rows is done once, whichever block steals it: by the loop that gets only x,
 * and by the one that gets all three. */
GANTRY_KERNEL(cross_steal, (struct cross_beside * words))
{
    uint32_t x = blockIdx.x;
    GANTRY_STEAL(steal);
    do {
        gantry_steal_request(&steal);
        atomicAdd(&words->rows[CROSS_UNIT(x, blockIdx.y, blockIdx.z)], 1u);
    } while (gantry_steal_take(&steal, &x));
}

GANTRY_KERNEL(cross_steal_3d, (struct cross_beside * words))
{
    uint32_t block[3] = {blockIdx.x, blockIdx.y, blockIdx.z};
    GANTRY_STEAL_3D(steal);
    do {
        gantry_steal_request(&steal);
        atomicAdd(&words->units[CROSS_UNIT(block[0], block[1], block[2])], 1u);
    } while (gantry_steal_take_3d(&steal, block));
}
