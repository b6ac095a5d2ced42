/* SPDX-License-Identifier: MIT */
/* Cluster Launch Control; see steal.h. */
#include "emulator/steal.h"

#include <string.h>

/* A barrier holds this and the parity of its present phase, in bit 0. */
#define BARRIER 0x7265697272616220u
/* The first half of an answer that has arrived; the second is 2 * block + 1, or 0: refused. */
#define ANSWER 0x72657773e1a57e1au
#define GARBAGE 0xdb

struct answer {
    uint64_t mark, value;
};

static bool broken(struct gy_emu_steal *steal, const char *rule)
{
    steal->broken = rule;
    return false;
}

void gy_emu_steal_init(uint64_t *barrier)
{
    *barrier = BARRIER;
}

static struct gy_emu_steal_request *find(struct gy_emu_steal *steal, const uint64_t *barrier)
{
    for (int i = 0; i < GY_EMU_STEALS; i++) {
        if (steal->requests[i].barrier == barrier) {
            return &steal->requests[i];
        }
    }
    return NULL;
}

static bool is_barrier(const uint64_t *barrier)
{
    return (*barrier & ~(uint64_t)1) == BARRIER;
}

bool gy_emu_steal_send(struct gy_emu_steal *steal, const struct gy_emu_grid *grid, void *answer,
                       uint64_t *barrier)
{
    if (steal->refused) {
        return broken(steal, "asks for a block after it has seen a refusal");
    }
    if (!is_barrier(barrier)) {
        return broken(steal, "asks for a block with a barrier that was not initialised");
    }
    if (find(steal, barrier) != NULL) {
        return broken(steal, "asks for a block with a barrier that another request is to complete");
    }
    if (steal->unread == answer) {
        return broken(steal, "asks for a block before it has looked at the one it got");
    }
    struct gy_emu_steal_request *request = find(steal, NULL);
    if (request == NULL) {
        return broken(steal, "has more requests for blocks in flight than the emulator keeps");
    }
    *request = (struct gy_emu_steal_request){.barrier = barrier, .answer = answer};
    request->granted = grid->take(grid->grid_owner, &request->block);
    memset(answer, GARBAGE, sizeof(struct answer));
    return true;
}

bool gy_emu_steal_arrived(struct gy_emu_steal *steal, uint64_t *barrier, uint32_t phase)
{
    if (!is_barrier(barrier)) {
        return broken(steal, "waits at a barrier that was not initialised");
    }
    if ((*barrier & 1) != phase) {
        return true;
    }
    struct gy_emu_steal_request *request = find(steal, barrier);
    if (request == NULL) {
        return false;
    }
    const struct answer answer = {ANSWER, request->granted ? 2 * request->block + 1 : 0};
    memcpy(request->answer, &answer, sizeof(answer));
    steal->unread = request->granted ? request->answer : steal->unread;
    request->barrier = NULL;
    *barrier ^= 1;
    return true;
}

static bool read_answer(struct gy_emu_steal *steal, const void *from, struct answer *out)
{
    memcpy(out, from, sizeof(*out));
    return out->mark == ANSWER || broken(steal, "reads the answer to a request before it has arrived");
}

bool gy_emu_steal_granted(struct gy_emu_steal *steal, const void *from)
{
    struct answer answer;
    if (!read_answer(steal, from, &answer)) {
        return false;
    }
    steal->refused = steal->refused || answer.value == 0;
    return answer.value != 0;
}

bool gy_emu_steal_block(struct gy_emu_steal *steal, const void *from, uint64_t *block)
{
    struct answer answer;
    if (!read_answer(steal, from, &answer)) {
        return false;
    }
    if (answer.value == 0) {
        return broken(steal, "asks which block it got by a request that was refused");
    }
    steal->unread = steal->unread == from ? NULL : steal->unread;
    *block = answer.value >> 1;
    return true;
}

bool gy_emu_steal_ended(struct gy_emu_steal *steal)
{
    for (int i = 0; i < GY_EMU_STEALS; i++) {
        if (steal->requests[i].barrier != NULL) {
            return broken(steal, "ended before the answer to its request had arrived");
        }
    }
    return steal->unread == NULL || broken(steal, "ended without doing the block it got");
}
