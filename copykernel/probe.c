/* SPDX-License-Identifier: MIT */
/* One measurement of a calibration: batches of copies of one size, by the kernel and by the engines.
 *
 * Times are host times from the call to the end of the GPU's work, the best of a few: a caller waits for this
 * long, launches included. */
#include "copykernel/calibrate.h"

#include "base/clock.h"
#include "copykernel/tuning.h"

#include <string.h>

enum { REPEATS = 4, COUNTS = 4 };

static const uint32_t counts[COUNTS] = {1, 4, 16, 64};

static void *place(const struct gy_copy_probe *p, gantry_copy_type type, bool is_dest, uint64_t offset)
{
    bool host = is_dest ? type == GANTRY_COPY_DTOH : type == GANTRY_COPY_HTOD;
    char *base = host ? (char *)p->pinned : (char *)(uintptr_t)p->device[is_dest ? 1 : 0];
    return base + offset;
}

bool gy_copy_probe_batch(struct gy_copy_probe *p, gantry_copy_type type, uint64_t bytes, uint32_t count)
{
    uint64_t stride = count > 1 ? bytes + 4096 : bytes;
    if (stride * count > p->most_bytes) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        p->descs[i] = (gantry_copy_desc){.dest = place(p, type, true, i * stride),
                                         .source = place(p, type, false, i * stride),
                                         .bytes = bytes,
                                         .type = type};
    }
    return true;
}

gantry_status gy_copy_probe_time(struct gy_copy_probe *p, uint32_t count, const gantry_copy_tuning *tuning,
                                 uint64_t *best)
{
    const struct gy_copy_way way = {
        .stream = p->stream, .tuning = *tuning, .multiprocessors = p->context->sms};
    *best = UINT64_MAX;
    for (int i = 0; i <= REPEATS; i++) {
        uint64_t begin = gy_clock_ns();
        gantry_status status = gy_copier_launch_way(p->copier, p->descs, count, &way);
        if (status == GANTRY_OK) {
            status = GY_CALL(p->context, cuStreamSynchronize(p->stream));
        }
        if (status != GANTRY_OK) {
            return status;
        }
        uint64_t ns = gy_clock_ns() - begin;
        *best = i > 0 && ns < *best ? ns : *best; /* the first one warms up */
    }
    return GANTRY_OK;
}

gantry_status gy_copy_probe_class(struct gy_copy_probe *p, gantry_copy_type type, uint32_t size_class,
                                  const gantry_copy_tuning *base, uint32_t *up_to, bool *measured)
{
    gantry_copy_tuning kernel = *base, engine = *base;
    memset(kernel.engine_up_to, 0, sizeof(kernel.engine_up_to));
    memset(engine.engine_up_to, 0xff, sizeof(engine.engine_up_to));
    uint64_t bytes = gy_copy_class_bytes(size_class);
    uint32_t won = 0;
    *measured = false;
    for (int i = 0; i < COUNTS; i++) {
        uint64_t kernel_ns, engine_ns;
        if (!gy_copy_probe_batch(p, type, bytes, counts[i])) {
            break;
        }
        gantry_status status = gy_copy_probe_time(p, counts[i], &kernel, &kernel_ns);
        if (status == GANTRY_OK) {
            status = gy_copy_probe_time(p, counts[i], &engine, &engine_ns);
        }
        if (status != GANTRY_OK) {
            return status;
        }
        *measured = true;
        if (engine_ns > kernel_ns) {
            *up_to = won;
            return GANTRY_OK;
        }
        won = counts[i];
    }
    *up_to = UINT32_MAX; /* as many as were tried, so any number */
    return GANTRY_OK;
}
