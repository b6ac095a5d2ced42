/* SPDX-License-Identifier: MIT */
/* The order log: which operation began and ended when, in one sequence over the whole device. */
#ifndef EMULATOR_ORDER_H
#define EMULATOR_ORDER_H

#include "emulator/queue.h"

void gy_emu_order_begin(struct gy_emu_op *op);
void gy_emu_order_end(struct gy_emu_op *op);

#endif
