/* SPDX-License-Identifier: MIT */
/* The model of value chains: what each call leaves in memory, byte by byte, by what the public headers
 * promise.  It shares no code with the library, nor with the kernels. */
#include "tests/campaign/values.h"

static uint8_t *at(struct value_memory *memory, struct value_place place)
{
    return &memory->bytes[place.space][place.at];
}

static void move(struct value_memory *memory, struct value_place to, struct value_place from, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++) {
        at(memory, to)[i] = at(memory, from)[i];
    }
}

/* The lowest byte is the first. */
static void repeat(uint8_t *to, uint64_t bytes, uint32_t pattern, uint32_t pattern_bytes)
{
    for (uint64_t i = 0; i < bytes; i++) {
        to[i] = (uint8_t)(pattern >> i % pattern_bytes * 8);
    }
}

static void run_desc(struct value_memory *memory, const struct value_desc *desc)
{
    if (desc->is_fill == 0) {
        move(memory, desc->to, desc->from, desc->bytes);
    } else if (desc->pattern_bytes <= 4) {
        repeat(at(memory, desc->to), desc->bytes, desc->pattern, desc->pattern_bytes);
    } else {
        for (uint32_t i = 0; i < desc->bytes; i++) {
            at(memory, desc->to)[i] = desc->long_pattern[i % desc->pattern_bytes];
        }
    }
}

static void run_box(struct value_memory *memory, const struct value_op *op)
{
    for (uint32_t layer = 0; layer < op->layers; layer++) {
        for (uint32_t row = 0; row < op->rows; row++) {
            struct value_place to = op->to, from = op->from;
            to.at += layer * op->to_layer_pitch + row * op->to_pitch;
            from.at += layer * op->from_layer_pitch + row * op->from_pitch;
            move(memory, to, from, op->width);
        }
    }
}

static uint32_t fold(uint32_t sum, uint32_t word)
{
    sum ^= word;
    sum *= 16777619u;
    return sum ^ (sum >> 15);
}

static uint32_t fold_arguments(uint32_t sum, const struct value_launch *l)
{
    if (l->function <= VALUE_OTHERS_KERNEL) {
        const uint32_t words[] = {l->one, l->two, l->four, (uint32_t)(l->eight & 0xffffffffu),
                                  (uint32_t)(l->eight >> 32)};
        for (uint32_t i = 0; i < 5; i++) {
            sum = fold(sum, words[i]);
        }
        for (uint32_t i = 0; i < VALUE_TINY; i++) {
            sum = fold(sum, l->three.bytes[i]);
        }
        for (uint32_t i = 0; i < VALUE_SMALL; i++) {
            sum = fold(sum, l->twenty.words[i]);
        }
        return sum;
    }
    const uint32_t words = l->function == VALUE_MIDDLE_KERNEL ? VALUE_MIDDLE : VALUE_LARGE;
    for (uint32_t i = 0; i < words; i++) {
        sum = fold(sum, l->block_value.words[i]);
    }
    return fold(sum, l->four);
}

static uint32_t fold_block(const struct value_launch *l, const uint32_t block[3])
{
    uint32_t sum = fold(2166136261u, l->function);
    for (uint32_t i = 0; i < 3; i++) {
        sum = fold(sum, l->grid[i]);
    }
    for (uint32_t i = 0; i < 3; i++) {
        sum = fold(sum, l->block[i]);
    }
    sum = fold(sum, l->shared_bytes);
    for (uint32_t i = 0; i < 3; i++) {
        sum = fold(sum, block[i]);
    }
    if (l->flags == 1) {
        uint32_t blocks = 1, rank = 0;
        for (uint32_t i = 3; i-- > 0 && l->cluster[0] != 0;) {
            rank = rank * l->cluster[i] + block[i] % l->cluster[i];
            blocks *= l->cluster[i];
        }
        sum = fold(fold(sum, blocks), rank);
    }
    return fold_arguments(sum, l);
}

static void add(uint8_t *word, uint32_t more)
{
    uint32_t value = word[0] | (uint32_t)word[1] << 8 | (uint32_t)word[2] << 16 | (uint32_t)word[3] << 24;
    value += more;
    for (uint32_t i = 0; i < 4; i++) {
        word[i] = (uint8_t)(value >> 8 * i);
    }
}

static void run_kernel(struct value_memory *memory, const struct value_op *op)
{
    const struct value_launch *l = &op->launch;
    const uint32_t threads = l->block[0] * l->block[1] * l->block[2];
    uint32_t of_threads = 0, number = 0, block[3];
    for (uint32_t t = 0; t < threads; t++) {
        of_threads += t * t + 1;
    }
    for (block[2] = 0; block[2] < l->grid[2]; block[2]++) {
        for (block[1] = 0; block[1] < l->grid[1]; block[1]++) {
            for (block[0] = 0; block[0] < l->grid[0]; block[0]++, number++) {
                add(at(memory, op->to) + 4 * number, of_threads + fold_block(l, block));
            }
        }
    }
}

static void run_op(struct value_memory *memory, const struct value_op *op)
{
    switch (op->kind) {
    case VALUE_FILL:
        repeat(at(memory, op->to), (uint64_t)op->count * op->pattern_bytes, op->pattern, op->pattern_bytes);
        break;
    case VALUE_COPY:
        move(memory, op->to, op->from, op->bytes);
        break;
    case VALUE_BATCH:
    case VALUE_QUEUE:
    case VALUE_LIST:
    case VALUE_LISTS:
        for (uint32_t i = 0; i < op->desc_count; i++) {
            run_desc(memory, &op->descs[i]);
        }
        break;
    case VALUE_BOX:
        run_box(memory, op);
        break;
    case VALUE_KERNEL:
        run_kernel(memory, op);
        break;
    case VALUE_KINDS:
        break;
    }
}

void value_model_run(const struct value_chain *chain, struct value_memory *memory)
{
    for (uint32_t i = 0; i < chain->node_count; i++) {
        for (uint32_t k = 0; k < chain->nodes[i].op_count; k++) {
            run_op(memory, &chain->nodes[i].ops[k]);
        }
    }
}
