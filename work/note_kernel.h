/* SPDX-License-Identifier: MIT */
/* The way of most kernels into a graph that is being built, inline: the driver is known to take such a
 * launch, and there is room for its node. */
#ifndef WORK_NOTE_KERNEL_H
#define WORK_NOTE_KERNEL_H

#include "work/nodes.h"

#include <assert.h>
#include <string.h>

/* `stream` is the stream on which the node is captured; NULL: a call of its own makes it. */
static inline void gy_node_begin(struct gy_node *node, const struct gy_lane *lane, enum gy_node_kind kind,
                                 CUstream stream)
{
    node->kind = kind;
    node->form = lane->form;
    node->before = lane->last;
    node->id = lane->nodes->next_id++;
    node->stream = stream;
    lane->nodes->streams[lane->nodes->count] = lane->stream;
}

/* The node behind the last one is noted: it is the lane's last. */
static inline void gy_lane_close_node(struct gy_lane *lane)
{
    struct gy_nodes *n = lane->nodes;
    const uint32_t number = n->count++, place = n->before_count++;
    lane->last = (struct gy_node_set){place, 1};
    n->before[place] = number;
    assert(gy_nodes_are_valid(n));
}

/* Copy the parameters from the i-th on. */
GY_RARE void gy_parameters_copy_from(unsigned char *to, const struct gy_kernel_layout *layout,
                                     void *const *args, uint32_t i);

/* Copy the parameters; most are pointers or numbers.  What lies between and behind them is 0. */
static GY_INLINE void gy_parameters_copy(unsigned char *to, const struct gy_kernel_layout *layout,
                                         void *const *args)
{
    if (__builtin_expect(layout->padded == 16, 1)) {
        memset(to + layout->bytes - 16, 0, 16);
    } else if (layout->padded != 0) {
        memset(to, 0, layout->padded);
    }
    for (uint32_t i = 0; i < layout->count; i++) {
        if (layout->of[i].bytes == 8) {
            memcpy(to + layout->of[i].offset, args[i], 8);
        } else if (layout->of[i].bytes == 4) {
            memcpy(to + layout->of[i].offset, args[i], 4);
        } else {
            gy_parameters_copy_from(to, layout, args, i);
            return;
        }
    }
}

/* Note a kernel; there is room for the node, its parameters, and the set of nodes that it comes after. */
static GY_INLINE void gy_lane_note_kernel(struct gy_lane *lane, const struct gantry_kernel *kernel,
                                          const struct gy_launch_size *size, void *const *args)
{
    struct gy_nodes *n = lane->nodes;
    const struct gy_kernel_layout *layout = kernel->layout;
    const size_t at = n->bytes_used;
    struct gy_node *node = &n->list[n->count];
    gy_node_begin(node, lane, GY_NODE_KERNEL, lane->kernel_stream);
    node->kernel.layout = layout;
    node->kernel.function = kernel->function;
    node->kernel.at = at;
    node->kernel.size = *size;
    node->kernel.room = layout->bytes;
    node->kernel.extra = 0;
    n->bytes_used = at + layout->bytes;
    gy_lane_close_node(lane);
    gy_parameters_copy(n->bytes + at, layout, args);
}

/* Note a kernel that is like one before it.  False: that is not known, or there is no room; nothing was
 * noted. */
static GY_INLINE bool gy_lane_note_known(struct gy_lane *lane, const struct gantry_kernel *kernel,
                                         const struct gy_launch_size *size, void *const *args)
{
    const struct gy_nodes *n = lane->nodes;
    if (!gy_kernel_is_taken(kernel, size) || args == NULL || n->count >= n->room ||
        n->before_count >= n->before_room || kernel->layout->bytes > n->bytes_room - n->bytes_used) {
        return false;
    }
    gy_lane_note_kernel(lane, kernel, size, args);
    return true;
}

#endif
