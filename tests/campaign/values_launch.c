/* SPDX-License-Identifier: MIT */
/* The calls of a node, and calls that must be refused in every way. */
#include "tests/campaign/values_launch.h"

#include <string.h>

struct value_setup value_setup;

static uint8_t *address_of(struct value_place place)
{
    uint8_t *const spaces[VALUE_SPACES] = {value_setup.devices[0].memory, value_setup.devices[1].memory,
                                           value_setup.host};
    return spaces[place.space] + place.at;
}

static gantry_copy_type type_of(const struct value_desc *desc)
{
    return desc->is_fill != 0               ? GANTRY_COPY_FILL
           : desc->from.space == VALUE_HOST ? GANTRY_COPY_HTOD
           : desc->to.space == VALUE_HOST   ? GANTRY_COPY_DTOH
                                            : GANTRY_COPY_DTOD;
}

/* ---- what is right -------------------------------------------------------------------------------- */

static void describe(const struct value_desc *desc, const void *pattern, gantry_copy_desc *out)
{
    memset(out, 0, sizeof(*out));
    out->dest = address_of(desc->to);
    out->bytes = desc->bytes;
    out->type = type_of(desc);
    if (desc->is_fill != 0) {
        out->pattern = desc->pattern;
        out->pattern_bytes = desc->pattern_bytes;
        out->source = desc->pattern_bytes > 4 ? pattern : NULL;
    } else {
        out->source = address_of(desc->from);
    }
}

static gantry_status launch_batch(gantry_launch *launch, const struct value_op *op)
{
    gantry_copy_desc descs[VALUE_DESCS];
    for (uint32_t i = 0; i < op->desc_count; i++) {
        describe(&op->descs[i], op->descs[i].long_pattern, &descs[i]);
    }
    if (op->kind == VALUE_BATCH) {
        return gantry_copy_launch(launch, descs, op->desc_count);
    }
    gantry_copy_queue *queue = value_setup.queues[op->node];
    gantry_status status = GANTRY_OK;
    for (uint32_t i = 0; i < op->desc_count && status == GANTRY_OK; i++) {
        status = gantry_copy_queue_enqueue(queue, &descs[i]);
    }
    return status == GANTRY_OK ? gantry_copy_queue_flush(queue, launch) : status;
}

void value_write_lists(const struct value_node *node)
{
    for (uint32_t k = 0; k < node->op_count; k++) {
        const struct value_op *op = &node->ops[k];
        struct value_lists *lists = &value_setup.lists[op->node][k];
        for (uint32_t i = 0; i < op->desc_count && (op->kind == VALUE_LIST || op->kind == VALUE_LISTS); i++) {
            memcpy(lists->patterns[i], op->descs[i].long_pattern, sizeof(lists->patterns[i]));
            describe(&op->descs[i], lists->patterns[i], &lists->descs[i]);
            lists->dests[i] = lists->descs[i].dest;
            lists->sources[i] = lists->descs[i].source;
            lists->bytes[i] = lists->descs[i].bytes;
        }
        lists->count = op->desc_count;
    }
}

static gantry_status launch_list(gantry_launch *launch, const struct value_op *op, uint32_t number)
{
    const struct value_lists *lists = &value_setup.lists[op->node][number];
    gantry_copy_list list = GANTRY_COPY_LIST_INIT;
    const bool has_count = op->bad_how % 2 == 0;
    if (op->kind == VALUE_LIST) {
        list.descs = lists->descs;
    } else {
        list.dests = lists->dests;
        list.sources = lists->sources;
        list.bytes = lists->bytes;
    }
    list.count = has_count ? &lists->count : NULL;
    list.most = has_count ? (uint32_t)VALUE_DESCS : op->desc_count;
    return gantry_copy_launch_list(launch, &list, NULL);
}

static gantry_status launch_box(gantry_launch *launch, const struct value_op *op)
{
    gantry_copy_box box = GANTRY_COPY_BOX_INIT;
    box.dest = address_of(op->to);
    box.source = address_of(op->from);
    box.width = op->width;
    box.rows = op->rows;
    box.layers = op->layers;
    box.dest_pitch = op->to_pitch;
    box.source_pitch = op->from_pitch;
    box.dest_layer_pitch = op->to_layer_pitch;
    box.source_layer_pitch = op->from_layer_pitch;
    return gantry_copy_launch_box(launch, &box, NULL);
}

static gantry_status launch_copy(gantry_launch *launch, const struct value_op *op)
{
    uint8_t *to = address_of(op->to), *from = address_of(op->from);
    return op->from.space == VALUE_HOST ? gantry_launch_copy_htod(launch, to, from, op->bytes)
           : op->to.space == VALUE_HOST ? gantry_launch_copy_dtoh(launch, to, from, op->bytes)
                                        : gantry_launch_copy_dtod(launch, to, from, op->bytes);
}

static gantry_dim3 dim3_of(const uint32_t *size)
{
    return (gantry_dim3){size[0], size[1], size[2]};
}

static gantry_status launch_with(gantry_launch *launch, gantry_kernel *kernel, const struct value_launch *l,
                                 void **args)
{
    const gantry_dim3 grid = dim3_of(l->grid), block = dim3_of(l->block);
    gantry_launch_options options = GANTRY_LAUNCH_OPTIONS_INIT;
    if (l->with_options == 0) {
        return gantry_launch_kernel(launch, kernel, grid, block, l->shared_bytes, args);
    }
    options.cluster = dim3_of(l->cluster);
    options.preferred_cluster = dim3_of(l->preferred);
    options.cooperative = l->is_cooperative;
    options.memory_domain = l->is_remote != 0 ? GANTRY_MEMORY_DOMAIN_REMOTE : GANTRY_MEMORY_DOMAIN_DEFAULT;
    options.has_priority = l->has_priority;
    options.priority = l->priority;
    return gantry_launch_kernel_with(launch, kernel, grid, block, l->shared_bytes, args, &options);
}

/* The arguments are the callback's own, and gone when it returns. */
static gantry_status launch_kernel(gantry_launch *launch, const struct value_op *op, uint32_t device)
{
    struct value_launch l = op->launch;
    gantry_kernel *kernel = value_setup.devices[device].kernels[l.function];
    void *out = address_of(op->to);
    void *scalars[] = {&out, &l.four, &l.eight, &l.one, &l.two, &l.three, &l.twenty, &l.flags};
    void *block[] = {&out, &l.block_value, &l.four, &l.flags};
    const gantry_status status =
        launch_with(launch, kernel, &l, l.function >= VALUE_MIDDLE_KERNEL ? block : scalars);
    memset(&l, 0xee, sizeof(l));
    return status;
}

static gantry_status launch_op(gantry_launch *launch, const struct value_op *op, uint32_t number,
                               uint32_t device)
{
    switch (op->kind) {
    case VALUE_FILL:
        return gantry_launch_fill(launch, address_of(op->to), op->pattern, op->pattern_bytes, op->count);
    case VALUE_COPY:
        return launch_copy(launch, op);
    case VALUE_BATCH:
    case VALUE_QUEUE:
        return launch_batch(launch, op);
    case VALUE_LIST:
    case VALUE_LISTS:
        return launch_list(launch, op, number);
    case VALUE_BOX:
        return launch_box(launch, op);
    case VALUE_KERNEL:
        return launch_kernel(launch, op, device);
    case VALUE_KINDS:
        break;
    }
    return GANTRY_ERR_INVALID_ARGUMENT;
}

/* ---- what must be refused --------------------------------------------------------------------------- */

/* All of it: without the upper bits of their lengths these calls would be legal. */
#define BEYOND ((size_t)1 << 32)

static gantry_status fill_badly(gantry_launch *launch, uint8_t *at, uint8_t *end, uint32_t how)
{
    static const uint32_t sizes[] = {0, 3, 5, 8, 16, UINT32_MAX};
    switch (how % 5) {
    case 0:
        return gantry_launch_fill(launch, at, how, sizes[how % 6], 1);
    case 1:
        return gantry_launch_fill(launch, at + 1, how, how % 2 == 0 ? 2 : 4, 1);
    case 2:
        return gantry_launch_fill(launch, at, how, 1u << how % 3, BEYOND + how % 8);
    case 3:
        return gantry_launch_fill(launch, at, how, 4, SIZE_MAX / 2 + how);
    default:
        return gantry_launch_fill(launch, end - 4, how, 1, 5 + how % 5);
    }
}

static gantry_status copy_badly(gantry_launch *launch, uint8_t *at, uint8_t *end, uint32_t how)
{
    uint8_t *host = value_setup.host;
    const size_t bytes = how % 2 == 0 ? BEYOND + how % 8 : VALUE_BYTES + 1;
    switch (how % 4) {
    case 0:
        return gantry_launch_copy_htod(launch, at, host, bytes);
    case 1:
        return gantry_launch_copy_dtoh(launch, host, at, bytes);
    case 2:
        return gantry_launch_copy_dtod(launch, at, at + VALUE_SLICE, bytes);
    default:
        return gantry_launch_copy_htod(launch, end - 1, host, 2);
    }
}

static gantry_status batch_badly(gantry_launch *launch, uint8_t *at, uint32_t how)
{
    gantry_copy_desc desc = {at, value_setup.host, 4, GANTRY_COPY_HTOD, 0, 0};
    gantry_copy_box box = GANTRY_COPY_BOX_INIT;
    box.dest = at;
    box.source = value_setup.host;
    box.width = box.source_pitch = 8;
    box.rows = box.layers = 2;
    box.dest_pitch = 8;
    box.dest_layer_pitch = box.source_layer_pitch = 16;
    switch (how % 6) {
    case 0:
        desc.bytes = BEYOND + how % 8;
        break;
    case 1:
        desc.type = GANTRY_COPY_FILL;
        desc.pattern_bytes = how % 4 == 1 ? 3 : 32;
        break;
    case 2:
        desc.type = (gantry_copy_type)4;
        break;
    case 3:
        box.dest_pitch = how % 8;
        return gantry_copy_launch_box(launch, &box, NULL);
    case 4:
        box.dest_layer_pitch = how % 16;
        return gantry_copy_launch_box(launch, &box, NULL);
    default:
        box.source_layer_pitch = BEYOND + how % 8;
        return gantry_copy_launch_box(launch, &box, NULL);
    }
    return gantry_copy_launch(launch, &desc, 1);
}

/* The driver refuses the second half of these. */
enum { REFUSED_BY_US = 6, BAD_KERNELS = 13 };

/* The call's own kernel, or a small one, but for one number: the driver may have taken the others before. */
static gantry_status kernel_badly(gantry_launch *launch, const struct value_op *op, uint32_t device)
{
    struct value_launch l = op->launch;
    const uint32_t how = op->bad_how;
    size_t shared_bytes = l.shared_bytes;
    switch (how % BAD_KERNELS) {
    case 0:
    case 1:
    case 2:
        l.grid[how % BAD_KERNELS] = 0;
        break;
    case 3:
        l.block[how % 3] = 0;
        break;
    case 4:
    case 5:
        shared_bytes += BEYOND;
        break;
    case 6:
        l.block[0] = 1025;
        break;
    case 7:
        l.block[1] = 1025;
        break;
    case 8:
        l.block[2] = 65;
        break;
    case 9:
        l.block[0] = l.block[1] = 33;
        break;
    case 10:
        shared_bytes = 300000 + how;
        break;
    case 11:
        l.grid[1 + how % 2] = 65536;
        break;
    default:
        l.grid[0] = 0x80000000u;
        break;
    }
    void *out = value_setup.devices[device].memory;
    void *scalars[] = {&out, &l.four, &l.eight, &l.one, &l.two, &l.three, &l.twenty, &l.flags};
    void *block[] = {&out, &l.block_value, &l.four, &l.flags};
    return gantry_launch_kernel(launch, value_setup.devices[device].kernels[l.function], dim3_of(l.grid),
                                dim3_of(l.block), shared_bytes,
                                l.function >= VALUE_MIDDLE_KERNEL ? block : scalars);
}

static void call_badly(gantry_launch *launch, const struct value_op *op, uint32_t device)
{
    uint8_t *at = value_setup.devices[device].memory, *end = at + VALUE_BYTES;
    gantry_status wanted = GANTRY_ERR_INVALID_ARGUMENT, status;
    const uint32_t how = op->bad_how;
    switch (op->bad % 4) {
    case 0:
        status = fill_badly(launch, at, end, how);
        break;
    case 1:
        status = copy_badly(launch, at, end, how);
        break;
    case 2:
        status = batch_badly(launch, at, how);
        break;
    default:
        status = kernel_badly(launch, op, device);
        wanted = how % BAD_KERNELS >= REFUSED_BY_US ? GANTRY_ERR_DRIVER : wanted;
        break;
    }
    if (status != wanted) {
        value_broken("bad call %u, %u: %s in place of %s", op->bad % 4, how, gantry_status_name(status),
                     gantry_status_name(wanted));
    }
}

gantry_launch_result value_launch_node(gantry_launch *launch, void *arg)
{
    const struct value_node *node = arg;
    for (uint32_t k = 0; k < node->op_count; k++) {
        const struct value_op *op = &node->ops[k];
        const bool is_behind = op->bad_how / 1000 != 0;
        if (op->bad != 0 && !is_behind) {
            call_badly(launch, op, node->device);
        }
        const gantry_status status = launch_op(launch, op, k, node->device);
        if (status != GANTRY_OK) {
            value_broken("call %u of node %u, a %s: %s: %s", k, op->node, value_kind_name(op->kind),
                         gantry_status_name(status), gantry_last_error());
        }
        if (op->bad != 0 && is_behind) {
            call_badly(launch, op, node->device);
        }
    }
    return GANTRY_LAUNCH_DONE;
}
