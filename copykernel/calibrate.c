/* SPDX-License-Identifier: MIT */
/* Measures the kernel against the copy engines.
 *
 * For each direction and size class, a batch of as many copies of that size as fit is done, first by the
 * kernel, then by the engines; the copies lie apart, so that they are not merged.  The engines' share is the
 * largest tried number of copies up to which they were never slower (probe.c). */
#include "copykernel/calibrate.h"

#include "base/alloc.h"
#include "copykernel/tuning.h"

#include <string.h>

/* Decide which way does a large copy within the device whose sides are aligned differently. */
static gantry_status judge_misaligned(struct gy_copy_probe *p, gantry_copy_tuning *tuning)
{
    gantry_copy_tuning kernel = *tuning, engine = *tuning;
    memset(kernel.engine_up_to, 0xff, sizeof(kernel.engine_up_to));
    memset(engine.engine_up_to, 0xff, sizeof(engine.engine_up_to));
    kernel.misaligned = GANTRY_COPY_MISALIGNED_KERNEL;
    engine.misaligned = GANTRY_COPY_MISALIGNED_ENGINE;
    uint64_t kernel_ns, engine_ns;
    if (!gy_copy_probe_batch(p, GANTRY_COPY_DTOD, p->most_bytes, 1)) {
        return GANTRY_OK;
    }
    p->descs[0].source = (const char *)p->descs[0].source + 3;
    p->descs[0].bytes -= 3;
    gantry_status status = gy_copy_probe_time(p, 1, &kernel, &kernel_ns);
    if (status == GANTRY_OK) {
        status = gy_copy_probe_time(p, 1, &engine, &engine_ns);
    }
    if (status == GANTRY_OK) {
        tuning->misaligned =
            engine_ns < kernel_ns ? GANTRY_COPY_MISALIGNED_ENGINE : GANTRY_COPY_MISALIGNED_KERNEL;
    }
    return status;
}

static gantry_status judge_all(struct gy_copy_probe *p, gantry_copy_tuning *tuning)
{
    for (uint32_t type = 0; type < 3; type++) {
        for (uint32_t c = 0; c < GANTRY_COPY_SIZE_CLASSES; c++) {
            bool measured;
            uint32_t *verdict = &tuning->engine_up_to[type][c];
            gantry_status status =
                gy_copy_probe_class(p, (gantry_copy_type)type, c, tuning, verdict, &measured);
            if (status != GANTRY_OK) {
                return status;
            }
            if (!measured && c > 0) {
                *verdict = verdict[-1];
            }
        }
    }
    tuning->measured = 1;
    return judge_misaligned(p, tuning);
}

gantry_status gy_copier_calibrate(struct gy_copier *copier, uint64_t most_bytes)
{
    if (most_bytes < 64 * 1024) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "copy calibration: %llu bytes are too few",
                       (unsigned long long)most_bytes);
    }
    struct gy_context *context = copier->context;
    struct gy_copy_probe *p = gy_zalloc(sizeof(*p));
    if (p == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "out of memory for the copy calibration");
    }
    p->copier = copier;
    p->context = context;
    p->most_bytes = most_bytes;
    gantry_copy_tuning tuning = gy_copier_tuning(copier);
    gantry_status status = GY_CALL(context, cuMemAlloc(&p->device[0], (size_t)most_bytes));
    if (status != GANTRY_OK) {
        goto free_probe;
    }
    status = GY_CALL(context, cuMemAlloc(&p->device[1], (size_t)most_bytes));
    if (status != GANTRY_OK) {
        goto free_first;
    }
    status = GY_CALL(context, cuMemHostAlloc(&p->pinned, (size_t)most_bytes, CU_MEMHOSTALLOC_DEVICEMAP));
    if (status != GANTRY_OK) {
        goto free_second;
    }
    status = gy_context_create_stream(context, NULL, 0, &p->stream);
    if (status != GANTRY_OK) {
        goto free_pinned;
    }
    for (int i = 0; i < 2 && status == GANTRY_OK;
         i++) { /* write all memory first, so that nothing is read that nobody has written */
        status = GY_CALL(context, cuMemsetD8Async(p->device[i], 0, (size_t)most_bytes, p->stream));
    }
    if (status == GANTRY_OK) {
        status = judge_all(p, &tuning);
    }
    if (status == GANTRY_OK) {
        status = gy_copy_probe_peers(p);
    }
    if (status == GANTRY_OK) {
        status = gy_copier_set_tuning(copier, &tuning);
    }
    (void)GY_CALL(context, cuStreamDestroy(p->stream));
free_pinned:
    (void)GY_CALL(context, cuMemFreeHost(p->pinned));
free_second:
    (void)GY_CALL(context, cuMemFree(p->device[1]));
free_first:
    (void)GY_CALL(context, cuMemFree(p->device[0]));
free_probe:
    gy_free(p);
    return status;
}
