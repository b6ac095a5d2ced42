/* SPDX-License-Identifier: MIT */
/* How boxes are copied.  Contiguous rows are first joined into fewer and longer ones.  A box that is one row
 * then is a batch of one copy, so the copy engines may do it. */
#include "copykernel/box.h"

#include "base/options.h"
#include "copykernel/address.h"
#include "copykernel/between.h"
#include "copykernel/internal.h"

gantry_status gy_copy_box_import(const gantry_copy_box *theirs, gantry_copy_box *out)
{
    *out = (gantry_copy_box){0};
    if (theirs == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "copy box: NULL");
    }
    return gy_options_import(out, sizeof(*out), theirs, sizeof(gantry_copy_box), "copy box");
}

/* The bytes from the first to the last; false: more than an address space has. */
static bool span_of(const gantry_copy_box *box, uint64_t pitch, uint64_t layer_pitch, uint64_t *out)
{
    uint64_t rows, layers;
    return !__builtin_mul_overflow(box->rows - 1, pitch, &rows) &&
           !__builtin_mul_overflow(box->layers - 1, layer_pitch, &layers) &&
           !__builtin_add_overflow(rows, layers, out) && !__builtin_add_overflow(*out, box->width, out) &&
           *out >> GY_COPY_ADDRESS_BITS == 0;
}

/* The rows of the dest must not touch each other. */
static gantry_status check_dest(const gantry_copy_box *box)
{
    if (box->rows > 1 && box->dest_pitch < box->width) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "copy box: dest_pitch is %llu, less than the width %llu",
                       (unsigned long long)box->dest_pitch, (unsigned long long)box->width);
    }
    uint64_t layer;
    const gantry_copy_box one = {.width = box->width, .rows = box->rows, .layers = 1};
    if (box->layers > 1 && (!span_of(&one, box->dest_pitch, 0, &layer) || box->dest_layer_pitch < layer)) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                       "copy box: dest_layer_pitch is %llu, less than its %llu rows take",
                       (unsigned long long)box->dest_layer_pitch, (unsigned long long)box->rows);
    }
    return GANTRY_OK;
}

/* Find one side: the address at which the device sees it, and its memory. */
static gantry_status find_side(struct gy_copier *copier, const char *name, const void *address, uint64_t span,
                               uint64_t *device, struct gy_copy_memory *memory)
{
    if (address == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "copy box: %s is NULL", name);
    }
    gantry_status status = gy_copy_find_side(copier->context, copier->heap, name, address, span, memory);
    if (status != GANTRY_OK) {
        return status;
    }
    if (span > memory->end - (uintptr_t)address) {
        return GY_FAIL(
            GANTRY_ERR_INVALID_ARGUMENT,
            "copy box: %s %p with %llu bytes from the first to the last leaves its memory, which ends "
            "at 0x%llx",
            name, address, (unsigned long long)span, (unsigned long long)memory->end);
    }
    *device = (uintptr_t)address + memory->shift;
    return GANTRY_OK;
}

/* Do rows of the two sides touch?  This finds out for sides that lie apart, and for two parts of the same
 * rows. */
static bool may_touch(const gantry_copy_box *box, uint64_t dest, uint64_t source, uint64_t dest_span,
                      uint64_t source_span)
{
    if (dest + dest_span <= source || source + source_span <= dest) {
        return false;
    }
    const uint64_t pitch = box->dest_pitch;
    const bool same_rows = box->rows > 1 && pitch == box->source_pitch &&
                           (box->layers == 1 || (box->dest_layer_pitch == box->source_layer_pitch &&
                                                 box->dest_layer_pitch % pitch == 0));
    if (!same_rows) {
        return true;
    }
    const uint64_t apart = dest > source ? (dest - source) % pitch : (source - dest) % pitch;
    return apart < box->width || pitch - apart < box->width;
}

/* Rows without gaps on either side are one row, and layers likewise. */
static void join_rows(gantry_copy_box *box)
{
    if (box->rows > 1 && box->dest_pitch == box->width && box->source_pitch == box->width) {
        box->width *= box->rows;
        box->rows = 1;
    }
    if (box->rows == 1 && box->layers > 1) { /* layers of one row are rows */
        box->rows = box->layers;
        box->dest_pitch = box->dest_layer_pitch;
        box->source_pitch = box->source_layer_pitch;
        box->layers = 1;
        if (box->dest_pitch == box->width && box->source_pitch == box->width) {
            box->width *= box->rows;
            box->rows = 1;
        }
    }
}

static gantry_status launch_rows(struct gy_copier *copier, struct gy_copy_way *way,
                                 const gantry_copy_box *box, struct gy_copy_list_view *view, bool is_host)
{
    const uint64_t pieces = (box->width + GY_COPY_TILE - 1) / GY_COPY_TILE;
    uint64_t most;
    if (__builtin_mul_overflow(pieces * box->rows, box->layers, &most) || most > UINT32_MAX ||
        box->rows > UINT32_MAX || pieces > UINT32_MAX) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                       "copy box: %llu rows in each of %llu layers are too many for one launch",
                       (unsigned long long)box->rows, (unsigned long long)box->layers);
    }
    view->most = (uint32_t)most;
    view->box = (struct gy_copy_rows){box->width,
                                      box->dest_pitch,
                                      box->source_pitch,
                                      box->dest_layer_pitch,
                                      box->source_layer_pitch,
                                      (uint32_t)box->rows,
                                      (uint32_t)pieces};
    if (is_host) { /* there are as many threads as a batch has for the link */
        const uint32_t blocks = way->tuning.host_blocks > way->tuning.dtoh_blocks ? way->tuning.host_blocks
                                                                                  : way->tuning.dtoh_blocks;
        way->tuning.device_blocks = blocks * (GY_COPY_BIG_BLOCK / GY_COPY_BLOCK);
    }
    const struct gy_copy_grid grid = {GY_COPY_FORM_ROWS, gy_copier_list_blocks(copier, way, view->most),
                                      GY_COPY_BLOCK};
    void *arguments[3] = {view};
    return gy_copier_launch_kernel(copier, way, &grid, arguments, 1);
}

/* The type of a copy between such memories; a kernel does copies that have none. */
static bool type_of(const struct gy_copy_memory *dest, const struct gy_copy_memory *source,
                    gantry_copy_type *type)
{
    *type = source->is_host ? GANTRY_COPY_HTOD : dest->is_host ? GANTRY_COPY_DTOH : GANTRY_COPY_DTOD;
    return !(source->is_host && dest->is_host);
}

static gantry_status launch_found(struct gy_copier *copier, struct gy_copy_way *way, gantry_copy_box *box)
{
    struct gy_copy_list_view view = {0};
    struct gy_copy_memory dest, source;
    uint64_t dest_span, source_span;
    gantry_status status = check_dest(box);
    if (status != GANTRY_OK) {
        return status;
    }
    if (!span_of(box, box->dest_pitch, box->dest_layer_pitch, &dest_span) ||
        !span_of(box, box->source_pitch, box->source_layer_pitch, &source_span)) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "copy box: it is larger than the address space");
    }
    status = find_side(copier, "dest", box->dest, dest_span, &view.dests, &dest);
    if (status == GANTRY_OK) {
        status = find_side(copier, "source", box->source, source_span, &view.sources, &source);
    }
    if (status != GANTRY_OK) {
        return status;
    }
    if (may_touch(box, view.dests, view.sources, dest_span, source_span)) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "copy box: source %p overlaps dest %p", box->source,
                       box->dest);
    }
    join_rows(box);
    gantry_copy_desc desc = {.dest = box->dest, .source = box->source, .bytes = box->width};
    if (box->rows == 1 && type_of(&dest, &source, &desc.type)) {
        return gy_copier_launch_way(copier, &desc, 1, way);
    }
    if (!dest.is_peer && !source.is_peer) {
        return launch_rows(copier, way, box, &view, dest.is_host || source.is_host);
    }
    struct gy_copy_between between = {.copies = 1, .bytes = box->width * box->rows * box->layers};
    gy_copier_make_between(copier, way, dest.is_peer ? dest.peer : source.peer, !dest.is_peer, &between);
    status = launch_rows(copier, &between.way, box, &view, dest.is_host || source.is_host);
    if (status == GANTRY_OK) {
        gy_copy_note_between(&between, GY_COPY_BY_KERNEL);
    }
    return status;
}

gantry_status gy_copier_launch_box(struct gy_copier *copier, const struct gy_copy_target *target,
                                   const gantry_copy_box *box, const gantry_copy_options *options,
                                   bool *launched)
{
    struct gy_copy_way way;
    gantry_copy_box ours = *box;
    *launched = false;
    gantry_status status = gy_copier_make_way(copier, target, options, &way);
    if (status != GANTRY_OK || ours.width == 0 || ours.rows == 0 || ours.layers == 0) {
        return status;
    }
    status = launch_found(copier, &way, &ours);
    *launched = status == GANTRY_OK;
    return status;
}
