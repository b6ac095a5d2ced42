/* SPDX-License-Identifier: MIT */
/* Chains of launches with random values: what a chain does, how it is drawn, changed, launched and
 * computed on the CPU.
 *
 * A chain has lanes, each with memory of its own: a slice of each space.  A lane has nodes, one behind the
 * other, each a task with a few calls.  A call writes in one half of the slice and reads in the other one, so
 * it never overlaps itself.  The model (values_model.c) knows this header and nothing of the library. */
#ifndef TESTS_CAMPAIGN_VALUES_H
#define TESTS_CAMPAIGN_VALUES_H

#include "tests/campaign/values_cell.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    VALUE_LANES = 3,
    VALUE_NODES = 12, /* at most */
    VALUE_OPS = 3,    /* of a node, at most */
    VALUE_DESCS = 5,  /* of a batch, at most */
    VALUE_HALF = 4096,
    VALUE_SLICE = 2 * VALUE_HALF,
    VALUE_BYTES = VALUE_LANES * VALUE_SLICE, /* of a space */
    VALUE_BLOCKS = 64,                       /* of a grid, at most */
};

enum value_space { VALUE_DEVICE, VALUE_OTHER_DEVICE, VALUE_HOST, VALUE_SPACES };

enum value_kind {
    VALUE_FILL,
    VALUE_COPY,
    VALUE_BATCH, /* gantry_copy_launch() */
    VALUE_QUEUE, /* gantry_copy_queue_flush(): one after the other */
    VALUE_LIST,  /* gantry_copy_launch_list() with descriptors */
    VALUE_LISTS, /* the same with three arrays: copies only */
    VALUE_BOX,
    VALUE_KERNEL,
    VALUE_KINDS
};

enum value_function {
    VALUE_SCALARS_KERNEL,
    VALUE_OTHERS_KERNEL,
    VALUE_MIDDLE_KERNEL,
    VALUE_LARGE_KERNEL,
    VALUE_KERNELS
};

struct value_place {
    uint32_t space, at;
};

struct value_desc {
    struct value_place to, from;
    uint32_t bytes, is_fill;
    uint32_t pattern_bytes, pattern; /* fill */
    uint8_t long_pattern[16];        /* fill of 8 or 16 bytes */
};

struct value_launch {
    uint32_t function, grid[3], block[3], shared_bytes;
    uint32_t cluster[3];   /* 0: none */
    uint32_t preferred[3]; /* 0: none */
    uint32_t is_cooperative, has_priority, is_remote, with_options;
    int32_t priority;
    uint8_t one;
    uint16_t two;
    struct value_tiny three;
    uint32_t four, flags;
    uint64_t eight;
    struct value_small twenty;
    struct value_large block_value; /* of the kernels with a block: as many words as they take */
};

struct value_op {
    enum value_kind kind;
    uint32_t node; /* its own */
    struct value_place to, from;
    uint32_t bytes;                         /* copy */
    uint32_t pattern, pattern_bytes, count; /* fill */
    uint32_t desc_count, list_has_count;
    struct value_desc descs[VALUE_DESCS];
    uint32_t width, rows, layers, to_pitch, from_pitch, to_layer_pitch, from_layer_pitch;
    uint32_t bad;               /* a call that must be refused, made before this one or behind it; 0: none */
    uint32_t bad_how;           /* which one; 1000 and more: behind it */
    struct value_launch launch; /* the last, for its last field */
};

struct value_node {
    uint32_t lane, op_count;
    uint32_t device;    /* 0 or 1 */
    uint32_t partition; /* 0: the default one */
    uint32_t after;     /* one more node that it comes after; itself: none */
    bool has_changed;   /* in this step */
    struct value_op ops[VALUE_OPS];
};

struct value_chain {
    uint32_t node_count;
    struct value_node nodes[VALUE_NODES];
};

/* ---- the model --------------------------------------------------------------------------------- */

struct value_memory {
    uint8_t bytes[VALUE_SPACES][VALUE_BYTES];
};
/* Do what the chain does, one call after the other. */
void value_model_run(const struct value_chain *chain, struct value_memory *memory);

/* ---- drawing ----------------------------------------------------------------------------------- */

struct value_rng {
    uint64_t state;
};
uint32_t value_draw(struct value_rng *rng, uint32_t below);

/* What the world in which the chain runs has. */
struct value_world {
    uint32_t devices, partitions;
    bool has_clusters;
    int32_t least_priority, greatest_priority;
};

void value_draw_chain(struct value_rng *rng, const struct value_world *world, struct value_chain *chain);

enum value_change {
    VALUE_NOTHING,
    VALUE_ONE_FIELD, /* of one call */
    VALUE_ONE_CALL,
    VALUE_ALL_VALUES,
    VALUE_ONE_KIND, /* a call becomes another one */
    VALUE_BACK,     /* all is as it was a step before the last one */
    VALUE_CHANGES
};
/* Change the chain; tasks and their order stay. */
enum value_change value_change_chain(struct value_rng *rng, const struct value_world *world,
                                     struct value_chain *chain);

/* Fields that can change alone, over all kinds, and their names.  The latest change of one field: its number;
 * VALUE_FIELDS: none. */
enum { VALUE_FIELDS = 64 };
extern uint32_t value_field_changed;
const char *value_field_name(uint32_t field); /* NULL: there are no more */
bool value_field_is_option(uint32_t field);   /* no graph can be patched with it */
const char *value_kind_name(enum value_kind kind);

/* Would the library take the call, and does it stay where it belongs? */
bool value_is_legal(const struct value_op *op);

/* Print the chain, for a failure. */
void value_print(const struct value_chain *chain);

#endif
