/* SPDX-License-Identifier: MIT */
/* SM resources: the SMs that a CUdevResource stands for.
 *
 * A resource carries its set of SMs, and which split it came from, in the bytes that belong to the driver. */
#ifndef EMULATOR_RESOURCE_H
#define EMULATOR_RESOURCE_H

#include "emulator/context.h"

struct gy_emu_sm_set {
    uint32_t words[GY_EMU_MAX_SMS / 32];
};

/* The content of CUdevResource.driver_private. */
struct gy_emu_resource {
    uint32_t magic;
    int32_t device;
    uint32_t cluster; /* the number of its SMs that are co-scheduled; 0: nothing is promised */
    uint32_t split;   /* the number of the split it is a part of; 0: it may be split */
    struct gy_emu_sm_set sms;
};
_Static_assert(sizeof(struct gy_emu_resource) <= sizeof(((CUdevResource *)0)->driver_private),
               "room in a resource");

/* A set of work queues: the content of CUdevResource.wq. */
struct gy_emu_queues {
    uint32_t magic;
    int32_t device;
    uint32_t number; /* of the set; 0: the one that is shared by all */
    uint32_t limit;
    uint32_t scope; /* enum CUdevWorkqueueConfigScope_enum */
};
_Static_assert(sizeof(struct gy_emu_queues) <= sizeof(CUdevWorkqueueResource), "room in a resource");

static inline bool gy_emu_sm_in(const struct gy_emu_sm_set *set, uint32_t sm)
{
    return (set->words[sm / 32] >> (sm % 32) & 1u) != 0;
}

static inline void gy_emu_sm_add(struct gy_emu_sm_set *set, uint32_t sm)
{
    set->words[sm / 32] |= 1u << (sm % 32);
}

uint32_t gy_emu_sm_count(const struct gy_emu_sm_set *set);
void gy_emu_resource_write(CUdevResource *out, int device, uint32_t split, uint32_t cluster,
                           const struct gy_emu_sm_set *sms);
/* Read a resource; only bytes that this driver wrote, and that nobody changed, are one. */
CUresult gy_emu_resource_read(const CUdevResource *resource, struct gy_emu_resource *out);
/* True since CUDA 13.1, if the emulated driver pretends to be of that version. */
bool gy_emu_has_workqueues(void);
/* The work queues that all contexts of a device share. */
struct gy_emu_queues gy_emu_shared_queues(int device);
/* Write a set of work queues as a resource, its configuration or itself; false: the type is another one. */
bool gy_emu_queues_write(const struct gy_emu_queues *queues, CUdevResourceType type, CUdevResource *out);
/* Read either of the two; a configuration gives a new set. */
CUresult gy_emu_queues_read(const CUdevResource *resource, struct gy_emu_queues *out);

#endif
