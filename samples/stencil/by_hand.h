/* SPDX-License-Identifier: MIT */
/* The steps of a stencil, written by hand. */
#ifndef STENCIL_BY_HAND_H
#define STENCIL_BY_HAND_H

#include "samples/stencil/stencil.h"

struct stencil_by_hand;

/* Streams and events for a stencil that is built.  NULL, and false below: told on stderr. */
struct stencil_by_hand *stencil_by_hand_open(struct stencil *stencil);
void stencil_by_hand_close(struct stencil_by_hand *by_hand);
/* Have a thread for each device stand ready; then let them go, until all devices are done with a run. */
bool stencil_by_hand_ready(struct stencil_by_hand *by_hand);
bool stencil_by_hand_run(struct stencil_by_hand *by_hand);

#endif
