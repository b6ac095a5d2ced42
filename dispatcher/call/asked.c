/* SPDX-License-Identifier: MIT */
#include "dispatcher/call/asked.h"

#include "base/handle.h"
#include "copykernel/box.h"
#include "dispatcher/internal.h"
#include "dispatcher/loop/current.h"
#include "taskman/access.h"
#include "taskman/description.h"

/* On the submitter's stack. */
struct asked {
    struct gantry_launch launch; /* first: what the callback is handed */
    const char *label;
    struct gy_access_list *list;
    const char *other; /* the first function called that says nothing of accesses; NULL: none */
    bool lacks;        /* memory for the list */
};

static gantry_status no_memory(const struct asked *asked)
{
    return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "no memory for what the calls of task '%s' access",
                   asked->label);
}

static gantry_status refuse(const struct asked *asked)
{
    return GY_FAIL(GANTRY_ERR_UNSUPPORTED,
                   "task '%s': its calls say what it accesses, and it calls %s(): only single copies, fills, "
                   "batches and boxes say that",
                   asked->label, asked->other);
}

gantry_status gy_asked_refuse(const gantry_launch *launch, const char *call)
{
    struct asked *asked = (struct asked *)(uintptr_t)launch;
    asked->other = asked->other != NULL ? asked->other : call;
    return refuse(asked);
}

void *gy_asked_stream(const gantry_launch *launch, bool plainly)
{
    (void)gy_asked_refuse(launch, plainly ? "gantry_launch_stream" : "gantry_launch_capture_stream");
    return NULL;
}

/* ---- what calls say -------------------------------------------------------------------------------- */

/* A range that would be too long for any memory becomes one that no list may have. */
static size_t multiply_add(size_t count, size_t each, size_t more)
{
    size_t sum;
    return __builtin_mul_overflow(count, each, &sum) || __builtin_add_overflow(sum, more, &sum) ? SIZE_MAX
                                                                                                : sum;
}

static gantry_status note(gantry_launch *launch, const gantry_access *access)
{
    struct asked *asked = (struct asked *)launch;
    if (access->bytes != 0 && !gy_access_list_add(asked->list, access)) {
        asked->lacks = true;
        return no_memory(asked);
    }
    return GANTRY_OK;
}

static gantry_status note_both(gantry_launch *launch, const gantry_access *read, const gantry_access *write)
{
    const gantry_status status = note(launch, read);
    return status == GANTRY_OK ? note(launch, write) : status;
}

gantry_status gy_asked_copy(gantry_launch *launch, const void *to, const void *from, size_t bytes)
{
    return note_both(launch, &(gantry_access)GANTRY_READS(from, bytes),
                     &(gantry_access)GANTRY_WRITES(to, bytes));
}

gantry_status gy_asked_fill(gantry_launch *launch, const void *to, uint32_t pattern_bytes, size_t count)
{
    return note(launch, &(gantry_access)GANTRY_WRITES(to, multiply_add(count, pattern_bytes, 0)));
}

gantry_status gy_asked_batch(gantry_launch *launch, const gantry_copy_desc *descs, size_t count)
{
    gantry_status status = GANTRY_OK;
    for (size_t i = 0; i < count && status == GANTRY_OK; i++) {
        status = descs[i].type == GANTRY_COPY_FILL
                     ? gy_asked_fill(launch, descs[i].dest, 1, descs[i].bytes)
                     : gy_asked_copy(launch, descs[i].dest, descs[i].source, descs[i].bytes);
    }
    return status;
}

/* Rows, where they have gaps; else, and of several layers, all from the first byte to the last. */
static gantry_access side_of(const gantry_copy_box *box, const void *at, uint64_t pitch, uint64_t layer_pitch,
                             gantry_access_mode mode)
{
    const bool has_gaps = box->layers == 1 && pitch >= box->width;
    const size_t layers = multiply_add(box->layers - 1, layer_pitch, box->width);
    return (gantry_access){at,
                           has_gaps ? box->width : multiply_add(box->rows - 1, pitch, layers),
                           has_gaps ? box->rows : 1,
                           has_gaps ? pitch : 0,
                           mode,
                           0};
}

gantry_status gy_asked_box(gantry_launch *launch, const gantry_copy_box *box)
{
    gantry_copy_box b;
    const gantry_status status = gy_copy_box_import(box, &b);
    if (status != GANTRY_OK || b.width == 0 || b.rows == 0 || b.layers == 0) {
        return status;
    }
    const gantry_access read =
        side_of(&b, b.source, b.source_pitch, b.source_layer_pitch, GANTRY_ACCESS_READ);
    const gantry_access write = side_of(&b, b.dest, b.dest_pitch, b.dest_layer_pitch, GANTRY_ACCESS_WRITE);
    return note_both(launch, &read, &write);
}

/* ---- the call -------------------------------------------------------------------------------------- */

static gantry_status failed_by_callback(const struct asked *asked)
{
    const gantry_status status = gy_error_last()->status;
    return status != GANTRY_OK
               ? status
               : GY_FAIL(GANTRY_ERR_TASK_FAILED, "task '%s': its callback fails, asked what it accesses",
                         asked->label);
}

/* This thread is nobody's dispatcher meanwhile: so each function of a launch looks for whom it is called,
 * before it enqueues anything. */
static gantry_launch_result call(struct asked *asked, const gantry_task_desc *desc)
{
    struct gantry_dispatcher *const current = gy_gd_current;
    gantry_launch_result result = GANTRY_LAUNCH_AGAIN;
    gy_error_clear();
    gy_gd_current = NULL;
    for (; result == GANTRY_LAUNCH_AGAIN && asked->other == NULL && !asked->lacks; asked->launch.index++) {
        result = desc->launch(&asked->launch, desc->arg);
    }
    gy_gd_current = current;
    return result;
}

gantry_status gy_asked_call(gantry_dispatcher *d, const gantry_task_desc *desc, struct gy_access_list *out)
{
    struct asked asked = {.launch = {.dispatcher = d}, .label = gy_description_label(desc), .list = out};
    gy_mode_set(&asked.launch, GY_MODE_AHEAD); /* its work is noted: it does not get the stream */
    gy_handle_born(GY_HANDLE_LAUNCH, &asked.launch, sizeof(asked.launch), sizeof(asked.launch));
    const gantry_launch_result result = call(&asked, desc);
    gy_handle_died(&asked.launch);
    return asked.other != NULL            ? refuse(&asked)
           : asked.lacks                  ? no_memory(&asked)
           : result == GANTRY_LAUNCH_DONE ? GANTRY_OK
                                          : failed_by_callback(&asked);
}
