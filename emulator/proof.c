/* SPDX-License-Identifier: MIT */
#include "emulator/proof.h"

#include "emulator/context.h"
#include "emulator/program.h"

const struct gy_proof_device *gy_emu_proof;

/* A graph's node belongs to whoever has launched the graph. */
static uint32_t number_of(const struct gy_emu_op *op)
{
    while (op->program != NULL) {
        op = op->program->launch;
    }
    return op->work.proof;
}

static const char *name_of(const struct gy_emu_work *work)
{
    switch (work->kind) {
    case GY_EMU_WORK_KERNEL:
        return work->kernel.code->name;
    case GY_EMU_WORK_FILL:
        return "a fill";
    case GY_EMU_WORK_HOST:
        return "a host function";
    default:
        return "a copy";
    }
}

/* Rows are told one by one: what lies between them is not touched. */
static void touch_rows(const struct gy_emu_work *work)
{
    for (size_t row = 0; row < work->copy_rows.height; row++) {
        gy_emu_proof->touch(work->copy_rows.from + row * work->copy_rows.from_pitch, work->copy_rows.width,
                            GY_PROOF_READ);
        gy_emu_proof->touch(work->copy_rows.to + row * work->copy_rows.to_pitch, work->copy_rows.width,
                            GY_PROOF_WRITE);
    }
}

void gy_emu_proof_enter_any(const struct gy_emu_op *op, uint64_t block)
{
    const struct gy_emu_work *work = &op->work;
    gy_emu_proof->enter(number_of(op), name_of(work), block, work->kind == GY_EMU_WORK_KERNEL);
    switch (work->kind) {
    case GY_EMU_WORK_COPY:
        gy_emu_proof->touch(work->copy.from, work->copy.bytes, GY_PROOF_READ);
        gy_emu_proof->touch(work->copy.to, work->copy.bytes, GY_PROOF_WRITE);
        break;
    case GY_EMU_WORK_COPY_ROWS:
        touch_rows(work);
        break;
    case GY_EMU_WORK_FILL:
        gy_emu_proof->touch(work->fill.to, work->fill.count * work->fill.width, GY_PROOF_WRITE);
        break;
    default:
        break;
    }
}

void gy_emu_proof_record(const void *event, const struct gy_emu_stream *stream)
{
    if (gy_emu_proof == NULL) {
        return;
    }
    gy_emu_proof->gone(event);
    for (const struct gy_emu_stream *s = stream->root->streams; s != NULL; s = s->next_in_root) {
        if (gy_emu_stream_stands_for(stream, s)) {
            gy_emu_proof->follow(event, s);
        }
    }
}

void gy_emu_proof_stream_done(const struct gy_emu_stream *stream)
{
    if (gy_emu_proof == NULL) {
        return;
    }
    for (const struct gy_emu_stream *s = stream->root->streams; s != NULL; s = s->next_in_root) {
        if (gy_emu_stream_stands_for(stream, s)) {
            gy_emu_proof->done(s);
        }
    }
}

void gy_emu_proof_context_done(const struct gy_emu_context *root, const struct gy_emu_context *only)
{
    if (gy_emu_proof == NULL) {
        return;
    }
    for (const struct gy_emu_stream *s = root->streams; s != NULL; s = s->next_in_root) {
        if (only == NULL || s->object.context == only) {
            gy_emu_proof->done(s);
        }
    }
    if (only == NULL) {
        gy_emu_proof->done(&root->streams); /* what streams had that were destroyed */
    }
}
