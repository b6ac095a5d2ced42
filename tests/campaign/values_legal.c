/* SPDX-License-Identifier: MIT */
/* What the calls of value chains may be: they stay in their half of a slice and in the limits of the library
 * and of every device. */
#include "tests/campaign/values.h"

/* The bytes from the place on to the end of its half. */
static uint32_t room_behind(struct value_place place)
{
    return VALUE_HALF - place.at % VALUE_HALF;
}

static bool box_fits(struct value_place place, const struct value_op *op, uint64_t pitch, uint64_t layer)
{
    return (op->layers - 1) * layer + (op->rows - 1) * pitch + op->width <= room_behind(place);
}

static bool box_is_legal(const struct value_op *op)
{
    if (op->width == 0 || op->rows == 0 || op->layers == 0) {
        return true;
    }
    const uint64_t rows_end = (uint64_t)(op->rows - 1) * op->to_pitch + op->width;
    return (op->rows == 1 || op->to_pitch >= op->width) &&
           (op->layers == 1 || op->to_layer_pitch >= rows_end) &&
           box_fits(op->to, op, op->to_pitch, op->to_layer_pitch) &&
           box_fits(op->from, op, op->from_pitch, op->from_layer_pitch);
}

/* Targets of a batch lie in parts of their own; those of a queue anywhere. */
static bool desc_is_legal(const struct value_op *op, uint32_t i)
{
    const struct value_desc *desc = &op->descs[i];
    const uint32_t part = VALUE_HALF / VALUE_DESCS, begin = op->kind == VALUE_QUEUE ? 0 : i * part,
                   end = op->kind == VALUE_QUEUE ? VALUE_HALF : begin + part;
    const uint32_t to = desc->to.at % VALUE_HALF;
    return to >= begin && to + desc->bytes <= end &&
           (desc->is_fill != 0 || desc->bytes <= room_behind(desc->from)) &&
           (desc->is_fill == 0 || op->kind != VALUE_LISTS);
}

static bool divides(const uint32_t *small, const uint32_t *large)
{
    return large[0] % small[0] == 0 && large[1] % small[1] == 0 && large[2] % small[2] == 0;
}

static uint32_t volume(const uint32_t *size)
{
    return size[0] * size[1] * size[2];
}

static bool options_are_legal(const struct value_launch *l)
{
    const bool has_cluster = l->cluster[0] != 0, has_preferred = l->preferred[0] != 0;
    if (has_cluster && (volume(l->cluster) > 4 || !divides(l->cluster, l->grid))) {
        return false;
    }
    if (has_preferred &&
        (!has_cluster || l->flags == 1 || volume(l->preferred) > 8 || !divides(l->cluster, l->preferred) ||
         l->cluster[2] != l->preferred[2] || !divides(l->preferred, l->grid))) {
        return false;
    }
    if (l->is_cooperative != 0 && (has_cluster || volume(l->grid) > 8)) {
        return false;
    }
    return (l->is_cooperative == 0 && !has_cluster) || (volume(l->block) <= 128 && l->shared_bytes <= 4096);
}

static bool kernel_is_legal(const struct value_op *op)
{
    const struct value_launch *l = &op->launch;
    const uint32_t most = l->function == VALUE_LARGE_KERNEL ? 8 : VALUE_BLOCKS;
    return l->grid[0] <= most && l->grid[1] <= most && l->grid[2] <= most && volume(l->grid) <= most &&
           4 * volume(l->grid) <= room_behind(op->to) && op->to.at % 4 == 0 && l->block[2] <= 64 &&
           volume(l->block) <= 1024 && volume(l->grid) * volume(l->block) <= 4096 &&
           l->shared_bytes <= 49152 && options_are_legal(l);
}

bool value_is_legal(const struct value_op *op)
{
    switch (op->kind) {
    case VALUE_FILL:
        return op->to.at % op->pattern_bytes == 0 &&
               (uint64_t)op->count * op->pattern_bytes <= room_behind(op->to);
    case VALUE_COPY:
        return op->bytes <= room_behind(op->to) && op->bytes <= room_behind(op->from);
    case VALUE_BATCH:
    case VALUE_QUEUE:
    case VALUE_LIST:
    case VALUE_LISTS:
        for (uint32_t i = 0; i < op->desc_count; i++) {
            if (!desc_is_legal(op, i)) {
                return false;
            }
        }
        return true;
    case VALUE_BOX:
        return box_is_legal(op);
    case VALUE_KERNEL:
        return kernel_is_legal(op);
    case VALUE_KINDS:
        break;
    }
    return false;
}
