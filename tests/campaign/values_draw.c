/* SPDX-License-Identifier: MIT */
/* How value chains are drawn and changed.  A field is drawn at, around and beyond the ends of its range, and
 * keeps its value where the call would not be legal. */
#include "tests/campaign/values.h"

#include <string.h>

enum field {
    TO_AT,
    FROM_AT,
    FILL_PATTERN,
    FILL_HIGH_BITS,
    FILL_PATTERN_BYTES,
    FILL_COUNT,
    COPY_SPACES,
    COPY_BYTES,
    DESC_TO,
    DESC_FROM,
    DESC_BYTES,
    DESC_IS_FILL,
    DESC_SPACES,
    DESC_PATTERN,
    DESC_HIGH_BITS,
    DESC_PATTERN_BYTES,
    DESC_LONG_PATTERN,
    DESC_COUNT,
    BOX_WIDTH,
    BOX_ROWS,
    BOX_LAYERS,
    BOX_TO_PITCH,
    BOX_FROM_PITCH,
    BOX_TO_LAYER_PITCH,
    BOX_FROM_LAYER_PITCH,
    FUNCTION,
    GRID_X,
    GRID_Y,
    GRID_Z,
    BLOCK_X,
    BLOCK_Y,
    BLOCK_Z,
    SHARED_BYTES,
    ARG_ONE,
    ARG_TWO,
    ARG_THREE,
    ARG_FOUR,
    ARG_EIGHT,
    ARG_EIGHT_HIGH,
    ARG_TWENTY,
    ARG_BLOCK,
    ARG_BLOCK_LAST,
    CLUSTER_X,
    CLUSTER_Y,
    CLUSTER_Z,
    PREFERRED_CLUSTER,
    COOPERATIVE,
    PRIORITY,
    MEMORY_DOMAIN,
    FIELDS
};
_Static_assert((int)FIELDS <= (int)VALUE_FIELDS, "room for all");

#define KIND(name) (1u << VALUE_##name)
#define DESCS (KIND(BATCH) | KIND(QUEUE) | KIND(LIST) | KIND(LISTS))
#define FILLS (KIND(BATCH) | KIND(QUEUE) | KIND(LIST))

static const struct {
    const char *name;
    uint32_t kinds;
} fields[FIELDS] = {
    [TO_AT] = {"target", KIND(FILL) | KIND(COPY) | KIND(BOX) | KIND(KERNEL)},
    [FROM_AT] = {"source", KIND(COPY) | KIND(BOX)},
    [FILL_PATTERN] = {"pattern", KIND(FILL)},
    [FILL_HIGH_BITS] = {"bits above the pattern", KIND(FILL)},
    [FILL_PATTERN_BYTES] = {"pattern_bytes", KIND(FILL)},
    [FILL_COUNT] = {"count", KIND(FILL)},
    [COPY_SPACES] = {"direction", KIND(COPY) | KIND(BOX)},
    [COPY_BYTES] = {"bytes", KIND(COPY)},
    [DESC_TO] = {"a target", DESCS},
    [DESC_FROM] = {"a source", DESCS},
    [DESC_BYTES] = {"a number of bytes", DESCS},
    [DESC_IS_FILL] = {"a type", FILLS},
    [DESC_SPACES] = {"a direction", DESCS},
    [DESC_PATTERN] = {"a pattern", FILLS},
    [DESC_HIGH_BITS] = {"bits above a pattern", FILLS},
    [DESC_PATTERN_BYTES] = {"a pattern's bytes", FILLS},
    [DESC_LONG_PATTERN] = {"a long pattern", FILLS},
    [DESC_COUNT] = {"number of copies", DESCS},
    [BOX_WIDTH] = {"width", KIND(BOX)},
    [BOX_ROWS] = {"rows", KIND(BOX)},
    [BOX_LAYERS] = {"layers", KIND(BOX)},
    [BOX_TO_PITCH] = {"target's pitch", KIND(BOX)},
    [BOX_FROM_PITCH] = {"source's pitch", KIND(BOX)},
    [BOX_TO_LAYER_PITCH] = {"target's layer pitch", KIND(BOX)},
    [BOX_FROM_LAYER_PITCH] = {"source's layer pitch", KIND(BOX)},
    [FUNCTION] = {"function", KIND(KERNEL)},
    [GRID_X] = {"grid.x", KIND(KERNEL)},
    [GRID_Y] = {"grid.y", KIND(KERNEL)},
    [GRID_Z] = {"grid.z", KIND(KERNEL)},
    [BLOCK_X] = {"block.x", KIND(KERNEL)},
    [BLOCK_Y] = {"block.y", KIND(KERNEL)},
    [BLOCK_Z] = {"block.z", KIND(KERNEL)},
    [SHARED_BYTES] = {"shared_bytes", KIND(KERNEL)},
    [ARG_ONE] = {"argument of 1 byte", KIND(KERNEL)},
    [ARG_TWO] = {"argument of 2 bytes", KIND(KERNEL)},
    [ARG_THREE] = {"argument of 3 bytes", KIND(KERNEL)},
    [ARG_FOUR] = {"argument of 4 bytes", KIND(KERNEL)},
    [ARG_EIGHT] = {"argument of 8 bytes", KIND(KERNEL)},
    [ARG_EIGHT_HIGH] = {"last byte of an argument of 8", KIND(KERNEL)},
    [ARG_TWENTY] = {"argument of 20 bytes", KIND(KERNEL)},
    [ARG_BLOCK] = {"a word of a block", KIND(KERNEL)},
    [ARG_BLOCK_LAST] = {"the last word of a block", KIND(KERNEL)},
    [CLUSTER_X] = {"cluster.x", KIND(KERNEL)},
    [CLUSTER_Y] = {"cluster.y", KIND(KERNEL)},
    [CLUSTER_Z] = {"cluster.z", KIND(KERNEL)},
    [PREFERRED_CLUSTER] = {"preferred_cluster", KIND(KERNEL)},
    [COOPERATIVE] = {"cooperative", KIND(KERNEL)},
    [PRIORITY] = {"priority", KIND(KERNEL)},
    [MEMORY_DOMAIN] = {"memory_domain", KIND(KERNEL)},
};

uint32_t value_field_changed = VALUE_FIELDS;

const char *value_field_name(uint32_t field)
{
    return field < FIELDS ? fields[field].name : NULL;
}

bool value_field_is_option(uint32_t field)
{
    return field >= CLUSTER_X;
}

uint32_t value_draw(struct value_rng *rng, uint32_t below)
{
    rng->state = rng->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((rng->state >> 33) % below);
}

static bool one_in(struct value_rng *rng, uint32_t count)
{
    return value_draw(rng, count) == 0;
}

/* At and around what matters to copies, else anything up to `most`. */
static uint32_t draw_size(struct value_rng *rng, uint32_t most)
{
    static const uint32_t ends[] = {0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048};
    uint32_t size = ends[value_draw(rng, sizeof(ends) / sizeof(ends[0]))] + value_draw(rng, 3);
    size = size > 0 && one_in(rng, 2) ? size - 1 : size;
    return one_in(rng, 3) || size > most ? value_draw(rng, most + 1) : size;
}

static uint32_t draw_word(struct value_rng *rng)
{
    static const uint32_t ends[] = {0, 1, 0xff, 0x100, 0x7fff, 0x10000, 0x80000000u, UINT32_MAX};
    const uint32_t low = value_draw(rng, 1u << 30), high = value_draw(rng, 4);
    return one_in(rng, 4) ? ends[value_draw(rng, 8)] : low << 2 | high;
}

/* ---- fields -------------------------------------------------------------------------------------- */

struct drawing {
    struct value_rng *rng;
    const struct value_world *world;
    const struct value_node *node;
    struct value_op *op;
};

static void draw_at(const struct drawing *d, struct value_place *place)
{
    const uint32_t begin = place->at - place->at % VALUE_HALF;
    const uint32_t at = one_in(d->rng, 2) ? draw_size(d->rng, 300) : value_draw(d->rng, VALUE_HALF);
    place->at = begin + (d->op->kind == VALUE_KERNEL ? at & ~3u : at) % VALUE_HALF;
}

/* One side is of the node's own device. */
static void draw_spaces(const struct drawing *d, struct value_place *to, struct value_place *from)
{
    const uint32_t own = d->node->device,
                   other =
                       d->world->devices > 1 && d->op->kind != VALUE_BOX && one_in(d->rng, 3) ? 1 - own : own;
    const uint32_t far = one_in(d->rng, 2) ? (uint32_t)VALUE_HOST : other;
    const bool to_far = one_in(d->rng, 2);
    to->space = to_far ? far : own;
    from->space = to_far ? own : far;
}

static void draw_pattern_bytes(const struct drawing *d, uint32_t kinds, uint32_t *out)
{
    *out = 1u << value_draw(d->rng, kinds);
}

/* Another one, or one byte of it. */
static void draw_pattern(const struct drawing *d, uint32_t *pattern)
{
    const uint32_t byte = (1 + value_draw(d->rng, 255)) << 8 * value_draw(d->rng, 4);
    *pattern = one_in(d->rng, 2) ? *pattern ^ byte : draw_word(d->rng);
}

/* The bits that no fill of this size uses. */
static void draw_high_bits(const struct drawing *d, uint32_t *pattern, uint32_t pattern_bytes)
{
    const uint32_t high = pattern_bytes < 4 ? UINT32_MAX << 8 * pattern_bytes : 0;
    *pattern = (*pattern & ~high) | (draw_word(d->rng) & high);
}

static void draw_desc(const struct drawing *d, enum field field)
{
    const uint32_t i = value_draw(d->rng, d->op->desc_count), part = VALUE_HALF / VALUE_DESCS;
    struct value_desc *desc = &d->op->descs[i];
    switch (field) {
    case DESC_TO:
        draw_at(d, &desc->to);
        if (d->op->kind != VALUE_QUEUE) {
            const uint32_t at = desc->to.at % VALUE_HALF;
            desc->to.at = desc->to.at - at + i * part + at % part;
        }
        break;
    case DESC_FROM:
        draw_at(d, &desc->from);
        break;
    case DESC_BYTES:
        desc->bytes = draw_size(d->rng, VALUE_HALF / VALUE_DESCS);
        break;
    case DESC_IS_FILL:
        desc->is_fill = !desc->is_fill;
        break;
    case DESC_SPACES:
        draw_spaces(d, &desc->to, &desc->from);
        break;
    case DESC_PATTERN:
        draw_pattern(d, &desc->pattern);
        break;
    case DESC_HIGH_BITS:
        draw_high_bits(d, &desc->pattern, desc->pattern_bytes);
        break;
    case DESC_PATTERN_BYTES:
        draw_pattern_bytes(d, 5, &desc->pattern_bytes);
        break;
    default:
        desc->long_pattern[value_draw(d->rng, 16)] ^= (uint8_t)(1 + value_draw(d->rng, 255));
        break;
    }
}

static void draw_box(const struct drawing *d, enum field field)
{
    struct value_op *op = d->op;
    switch (field) {
    case BOX_WIDTH:
        op->width = draw_size(d->rng, 120);
        break;
    case BOX_ROWS:
        op->rows = value_draw(d->rng, 12);
        break;
    case BOX_LAYERS:
        op->layers = value_draw(d->rng, 6);
        break;
    case BOX_TO_PITCH:
        op->to_pitch = one_in(d->rng, 4) ? op->width : draw_size(d->rng, 160);
        break;
    case BOX_FROM_PITCH:
        op->from_pitch = one_in(d->rng, 4) ? op->width : draw_size(d->rng, 160);
        break;
    case BOX_TO_LAYER_PITCH:
        op->to_layer_pitch = one_in(d->rng, 4) ? op->rows * op->to_pitch : draw_size(d->rng, 900);
        break;
    default:
        op->from_layer_pitch = one_in(d->rng, 4) ? op->rows * op->from_pitch : draw_size(d->rng, 900);
        break;
    }
}

static uint32_t draw_blocks(const struct drawing *d)
{
    return 1 + value_draw(d->rng, one_in(d->rng, 8) ? VALUE_BLOCKS : 5);
}

static uint32_t draw_threads(const struct drawing *d)
{
    return 1 + value_draw(d->rng, one_in(d->rng, 32) ? 1024 : one_in(d->rng, 4) ? 64 : 5);
}

static void draw_cluster(const struct drawing *d, uint32_t i)
{
    struct value_launch *l = &d->op->launch;
    if (!d->world->has_clusters) {
        return;
    }
    for (uint32_t k = 0; k < 3 && l->cluster[0] == 0; k++) {
        l->cluster[2 - k] = 1;
    }
    l->cluster[i] = 1 + value_draw(d->rng, 4);
    if (one_in(d->rng, 4)) {
        memset(l->cluster, 0, sizeof(l->cluster));
    }
}

static void draw_option(const struct drawing *d, enum field field)
{
    struct value_launch *l = &d->op->launch;
    switch (field) {
    case CLUSTER_X:
    case CLUSTER_Y:
    case CLUSTER_Z:
        draw_cluster(d, field - CLUSTER_X);
        break;
    case PREFERRED_CLUSTER:
        for (uint32_t i = 0; i < 3; i++) {
            l->preferred[i] =
                l->preferred[0] != 0 && i == 0 ? 0 : l->cluster[i] * (1 + value_draw(d->rng, 2));
        }
        if (l->preferred[0] == 0) {
            memset(l->preferred, 0, sizeof(l->preferred));
        }
        break;
    case COOPERATIVE:
        l->is_cooperative = !l->is_cooperative;
        break;
    case PRIORITY:
        l->has_priority = !one_in(d->rng, 3);
        l->priority = d->world->greatest_priority +
                      (int32_t)value_draw(
                          d->rng, 1 + (uint32_t)(d->world->least_priority - d->world->greatest_priority));
        break;
    default:
        l->is_remote = d->world->has_clusters && !l->is_remote;
        break;
    }
    l->with_options = 1;
}

static void draw_argument(const struct drawing *d, enum field field)
{
    struct value_launch *l = &d->op->launch;
    const uint32_t words = l->function == VALUE_LARGE_KERNEL ? VALUE_LARGE : VALUE_MIDDLE;
    switch (field) {
    case ARG_ONE:
        l->one = (uint8_t)draw_word(d->rng);
        break;
    case ARG_TWO:
        l->two = (uint16_t)draw_word(d->rng);
        break;
    case ARG_THREE:
        l->three.bytes[value_draw(d->rng, VALUE_TINY)] = (uint8_t)draw_word(d->rng);
        break;
    case ARG_FOUR:
        l->four = draw_word(d->rng);
        break;
    case ARG_EIGHT:
        l->eight = (uint64_t)draw_word(d->rng) << 32 | draw_word(d->rng);
        break;
    case ARG_EIGHT_HIGH:
        l->eight ^= (uint64_t)(1 + value_draw(d->rng, 255)) << 56;
        break;
    case ARG_TWENTY:
        l->twenty.words[value_draw(d->rng, VALUE_SMALL)] = draw_word(d->rng);
        break;
    case ARG_BLOCK:
        l->block_value.words[value_draw(d->rng, words)] = draw_word(d->rng);
        break;
    default:
        l->block_value.words[words - 1] ^= 1 + value_draw(d->rng, 1000) * 0x400001u;
        break;
    }
}

static void draw_kernel(const struct drawing *d, enum field field)
{
    struct value_launch *l = &d->op->launch;
    if (field >= CLUSTER_X) {
        draw_option(d, field);
    } else if (field >= ARG_ONE) {
        draw_argument(d, field);
    } else if (field == FUNCTION) {
        l->function = value_draw(d->rng, one_in(d->rng, 2) ? 2 : VALUE_KERNELS);
    } else if (field == SHARED_BYTES) {
        l->shared_bytes = one_in(d->rng, 8) ? 49152 - 16 * value_draw(d->rng, 2) : draw_size(d->rng, 4096);
    } else if (field >= BLOCK_X) {
        l->block[field - BLOCK_X] = draw_threads(d);
    } else {
        l->grid[field - GRID_X] = draw_blocks(d);
    }
}

static void draw_field(const struct drawing *d, enum field field)
{
    struct value_op *op = d->op;
    switch (field) {
    case TO_AT:
        draw_at(d, &op->to);
        break;
    case FROM_AT:
        draw_at(d, &op->from);
        break;
    case FILL_PATTERN:
        draw_pattern(d, &op->pattern);
        break;
    case FILL_HIGH_BITS:
        draw_high_bits(d, &op->pattern, op->pattern_bytes);
        break;
    case FILL_PATTERN_BYTES:
        draw_pattern_bytes(d, 3, &op->pattern_bytes);
        break;
    case FILL_COUNT:
        op->count = draw_size(d->rng, VALUE_HALF / op->pattern_bytes);
        break;
    case COPY_SPACES:
        draw_spaces(d, &op->to, &op->from);
        break;
    case COPY_BYTES:
        op->bytes = draw_size(d->rng, VALUE_HALF);
        break;
    case DESC_COUNT:
        op->desc_count = 1 + value_draw(d->rng, VALUE_DESCS);
        break;
    default:
        if (field >= FUNCTION) {
            draw_kernel(d, field);
        } else if (field >= BOX_WIDTH) {
            draw_box(d, field);
        } else {
            draw_desc(d, field);
        }
    }
}

/* Everything before the words of a block, which cannot be illegal. */
enum { OP_HEAD = offsetof(struct value_op, launch.block_value) };

/* Draw the field, as often as it takes to get something else that is legal, but a few times at most.  False:
 * it stays as it was. */
static bool redraw(const struct drawing *d, enum field field)
{
    unsigned char before[OP_HEAD];
    memcpy(before, d->op, OP_HEAD);
    for (uint32_t tries = 0; tries < 6; tries++) {
        draw_field(d, field);
        const bool differs =
            field == ARG_BLOCK || field == ARG_BLOCK_LAST || memcmp(before, d->op, OP_HEAD) != 0;
        if (differs && value_is_legal(d->op)) {
            return true;
        }
        memcpy(d->op, before, OP_HEAD);
    }
    return false;
}

/* ---- calls ---------------------------------------------------------------------------------------- */

/* Does the field say anything of this call? */
static bool is_of(const struct value_op *op, enum field field)
{
    const struct value_launch *l = &op->launch;
    const bool has_block = l->function >= VALUE_MIDDLE_KERNEL;
    if ((fields[field].kinds >> op->kind & 1) == 0) {
        return false;
    }
    if (field == ARG_BLOCK || field == ARG_BLOCK_LAST) {
        return has_block;
    }
    return op->kind != VALUE_KERNEL || field < ARG_ONE || field > ARG_TWENTY || field == ARG_FOUR ||
           !has_block;
}

/* Many fills with long patterns that differ in little: a batch of these stays one. */
static bool has_long_fills(const struct value_op *op)
{
    bool has = (op->kind == VALUE_BATCH || op->kind == VALUE_QUEUE) && op->desc_count == VALUE_DESCS;
    for (uint32_t i = 0; i < VALUE_DESCS; i++) {
        has = has && op->descs[i].is_fill != 0 && op->descs[i].pattern_bytes == 16;
    }
    return has;
}

static void draw_values(const struct drawing *d)
{
    const bool has_fills = has_long_fills(d->op);
    for (uint32_t field = 0; field < FIELDS; field++) {
        const bool is_option = field >= CLUSTER_X;
        const bool stays =
            has_fills && (field == DESC_IS_FILL || field == DESC_PATTERN_BYTES || field == DESC_COUNT);
        if (!is_of(d->op, field) || (is_option && !one_in(d->rng, 8)) || stays) {
            continue;
        }
        const bool is_of_desc = field >= DESC_TO && field <= DESC_LONG_PATTERN;
        for (uint32_t times = is_of_desc ? d->op->desc_count : 1; times > 0; times--) {
            (void)redraw(d, field);
        }
    }
    d->op->bad = one_in(d->rng, 10) ? 1 + value_draw(d->rng, 1000) : 0;
    d->op->bad_how = value_draw(d->rng, 2000);
}

static void begin_place(struct value_place *place, uint32_t space, uint32_t lane, uint32_t half)
{
    *place = (struct value_place){space, lane * VALUE_SLICE + half * VALUE_HALF};
}

static void begin_kernel(const struct drawing *d, struct value_launch *l)
{
    for (uint32_t i = 0; i < 3; i++) {
        l->grid[i] = l->block[i] = 1;
    }
    l->flags = value_draw(d->rng, 2);
    for (uint32_t i = 0; i < VALUE_LARGE; i++) {
        l->block_value.words[i] = draw_word(d->rng);
    }
}

static void begin_long_fills(struct value_op *op)
{
    op->desc_count = VALUE_DESCS;
    for (uint32_t i = 0; i < VALUE_DESCS; i++) {
        op->descs[i].is_fill = 1;
        op->descs[i].pattern_bytes = 16;
    }
}

static void draw_op(const struct drawing *d, enum value_kind kind, uint32_t node)
{
    struct value_op *op = d->op;
    const uint32_t half = value_draw(d->rng, 2), own = d->node->device, lane = d->node->lane;
    memset(op, 0, sizeof(*op));
    op->kind = kind;
    op->node = node;
    op->pattern_bytes = op->desc_count = op->rows = op->layers = 1;
    begin_place(&op->to, own, lane, half);
    begin_place(&op->from, own, lane, 1 - half);
    for (uint32_t i = 0; i < VALUE_DESCS; i++) {
        op->descs[i] = (struct value_desc){op->to, op->from, 0, 0, 1, draw_word(d->rng), {0}};
        op->descs[i].to.at += i * (VALUE_HALF / VALUE_DESCS);
    }
    begin_kernel(d, &op->launch);
    if (kind <= VALUE_QUEUE && one_in(d->rng, 4)) {
        begin_long_fills(op);
    }
    draw_values(d);
    draw_values(d);
}

static enum value_kind draw_kind(struct value_rng *rng)
{
    static const enum value_kind kinds[] = {VALUE_KERNEL, VALUE_KERNEL, VALUE_KERNEL, VALUE_KERNEL,
                                            VALUE_KERNEL, VALUE_FILL,   VALUE_FILL,   VALUE_COPY,
                                            VALUE_COPY,   VALUE_BATCH,  VALUE_QUEUE,  VALUE_LIST,
                                            VALUE_LISTS,  VALUE_BOX,    VALUE_BOX,    VALUE_BOX};
    return kinds[value_draw(rng, sizeof(kinds) / sizeof(kinds[0]))];
}

void value_draw_chain(struct value_rng *rng, const struct value_world *world, struct value_chain *chain)
{
    const uint32_t lanes = 1 + value_draw(rng, VALUE_LANES);
    chain->node_count = lanes + value_draw(rng, one_in(rng, 4) ? VALUE_NODES - lanes + 1 : 4);
    for (uint32_t i = 0; i < chain->node_count; i++) {
        struct value_node *node = &chain->nodes[i];
        node->lane = value_draw(rng, lanes);
        node->op_count = 1 + value_draw(rng, one_in(rng, 3) ? VALUE_OPS : 1);
        node->device = value_draw(rng, world->devices);
        node->partition = world->partitions != 0 ? value_draw(rng, world->partitions + 1) : 0;
        node->after = i > 0 && one_in(rng, 6) ? value_draw(rng, i) : i;
        node->has_changed = true;
        for (uint32_t k = 0; k < node->op_count; k++) {
            const struct drawing d = {rng, world, node, &node->ops[k]};
            draw_op(&d, draw_kind(rng), i);
        }
    }
}

/* ---- changes -------------------------------------------------------------------------------------- */

static void change_field(const struct drawing *d)
{
    for (uint32_t tries = 0; tries < 64 && value_field_changed == VALUE_FIELDS; tries++) {
        const enum field field = (enum field)value_draw(d->rng, FIELDS);
        if (is_of(d->op, field) &&
            (field < CLUSTER_X || d->op->launch.with_options != 0 || one_in(d->rng, 4)) && redraw(d, field)) {
            value_field_changed = field;
        }
    }
}

enum value_change value_change_chain(struct value_rng *rng, const struct value_world *world,
                                     struct value_chain *chain)
{
    static const enum value_change changes[] = {VALUE_NOTHING,   VALUE_ONE_FIELD, VALUE_ONE_FIELD,
                                                VALUE_ONE_FIELD, VALUE_ONE_FIELD, VALUE_ONE_FIELD,
                                                VALUE_ONE_CALL,  VALUE_ALL_VALUES};
    const enum value_change change = one_in(rng, 24) ? VALUE_ONE_KIND : changes[value_draw(rng, 8)];
    const uint32_t which = value_draw(rng, chain->node_count);
    const uint32_t op = value_draw(rng, chain->nodes[which].op_count);
    value_field_changed = VALUE_FIELDS;
    for (uint32_t i = 0; i < chain->node_count; i++) {
        struct value_node *node = &chain->nodes[i];
        node->has_changed = change == VALUE_ALL_VALUES || (i == which && change != VALUE_NOTHING);
        for (uint32_t k = 0; k < node->op_count && node->has_changed; k++) {
            const struct drawing d = {rng, world, node, &node->ops[k]};
            if (change == VALUE_ALL_VALUES || (k == op && change == VALUE_ONE_CALL)) {
                draw_values(&d);
            } else if (k == op && change == VALUE_ONE_FIELD) {
                change_field(&d);
            } else if (k == op) {
                draw_op(&d, draw_kind(rng), i);
            }
        }
    }
    return change;
}
