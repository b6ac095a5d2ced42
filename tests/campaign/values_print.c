/* SPDX-License-Identifier: MIT */
/* Value chains as text, for failures. */
#include "tests/campaign/values.h"

#include <stdio.h>

const char *value_kind_name(enum value_kind kind)
{
    static const char *const names[VALUE_KINDS] = {"fill", "copy",  "batch", "queue",
                                                   "list", "lists", "box",   "kernel"};
    return names[kind];
}

static void print_place(const char *name, struct value_place place)
{
    static const char *const spaces[VALUE_SPACES] = {"device", "other device", "host"};
    fprintf(stderr, " %s %s+%u", name, spaces[place.space], place.at);
}

static void print_op(const struct value_op *op)
{
    const struct value_launch *l = &op->launch;
    fprintf(stderr, "    %s%s:", value_kind_name(op->kind), op->bad != 0 ? " (after a bad call)" : "");
    if (op->kind >= VALUE_BATCH && op->kind <= VALUE_LISTS) {
        for (uint32_t i = 0; i < op->desc_count; i++) {
            const struct value_desc *desc = &op->descs[i];
            print_place("to", desc->to);
            if (desc->is_fill != 0) {
                fprintf(stderr, " fill %x of %u", desc->pattern, desc->pattern_bytes);
            } else {
                print_place("from", desc->from);
            }
            fprintf(stderr, " bytes %u;", desc->bytes);
        }
    } else {
        print_place("to", op->to);
    }
    if (op->kind == VALUE_COPY || op->kind == VALUE_BOX) {
        print_place("from", op->from);
    }
    if (op->kind == VALUE_COPY) {
        fprintf(stderr, " bytes %u", op->bytes);
    } else if (op->kind == VALUE_FILL) {
        fprintf(stderr, " %u of %x of %u", op->count, op->pattern, op->pattern_bytes);
    } else if (op->kind == VALUE_BOX) {
        fprintf(stderr, " %u x %u x %u, pitches %u, %u, of layers %u, %u", op->width, op->rows, op->layers,
                op->to_pitch, op->from_pitch, op->to_layer_pitch, op->from_layer_pitch);
    } else if (op->kind == VALUE_KERNEL) {
        fprintf(stderr, " function %u, grid %u %u %u, block %u %u %u, shared %u, cluster %u %u %u%s%s",
                l->function, l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1], l->block[2],
                l->shared_bytes, l->cluster[0], l->cluster[1], l->cluster[2],
                l->is_cooperative != 0 ? ", cooperative" : "", l->with_options != 0 ? ", options" : "");
    }
    fprintf(stderr, "\n");
}

void value_print(const struct value_chain *chain)
{
    for (uint32_t i = 0; i < chain->node_count; i++) {
        const struct value_node *node = &chain->nodes[i];
        fprintf(stderr, "  node %u: lane %u, device %u, partition %u%s\n", i, node->lane, node->device,
                node->partition, node->has_changed ? ", changed" : "");
        for (uint32_t k = 0; k < node->op_count; k++) {
            print_op(&node->ops[k]);
        }
    }
}
