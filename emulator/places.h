/* SPDX-License-Identifier: MIT */
/* Places of streams on the device.
 *
 * As on an H200 (driver 580): a stream takes a place, and so does each branch of an executable graph.  A
 * context has GY_EMU_PLACES_FIRST of them, and gets GY_EMU_PLACES_MORE when none is left.  For these the call
 * waits until all work of the context has ended.  What is destroyed gives its places to others. */
#ifndef EMULATOR_PLACES_H
#define EMULATOR_PLACES_H

#include "emulator/context.h"
#include "emulator/graph.h"

enum { GY_EMU_PLACES_FIRST = 35, GY_EMU_PLACES_MORE = 43 };

/* Take so many places of the root context; the lock may be given up meanwhile, so pointers are found anew.
 * An error is the context's, and nothing was taken. */
CUresult gy_emu_places_take(struct gy_emu_context *root, uint32_t count);
/* The context of this handle may be gone. */
void gy_emu_places_give(uintptr_t root, uint32_t count);
/* The places that an executable form of the graph takes: its branches, and more where they meet often. */
uint32_t gy_emu_places_of_graph(const struct gy_emu_graph *graph);

#endif
