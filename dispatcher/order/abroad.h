/* SPDX-License-Identifier: MIT */
/* What lines come after on the other devices of their fleet. */
#ifndef DISPATCHER_ORDER_ABROAD_H
#define DISPATCHER_ORDER_ABROAD_H

#include "dispatcher/order/crossing.h"
#include "dispatcher/order/streams.h"

/* `to` comes after what `from` comes after, and no more; or besides what it comes after already. */
void gy_abroad_copy(struct gy_line *to, const struct gy_line *from);
void gy_abroad_merge(struct gy_line *to, const struct gy_line *from);

/* The next work of the stream comes after what its task needs of other devices.  A member's graph waits for
 * that as a whole, on the stream where it will be launched: the lane comes after that, too, but a lane of
 * that stream may be in another graph, which does not. */
GANTRY_MUST_CHECK GY_COLD gantry_status gy_abroad_wait(struct gy_streams *streams, uint32_t stream,
                                                       const struct gy_crossing *crossing);

#endif
