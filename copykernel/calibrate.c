/* Measures the kernel against the copy engines.
 *
 * For each direction and size class, a batch of as many copies of that size as fit is done, first by the
 * kernel, then by the engines; the copies lie apart, so that they are not merged.  The engines' share is the
 * largest tried number of copies up to which they were never slower.  Times are host times from the call to
 * the end of the GPU's work, the best of a few: a caller waits for this long, launches included. */
#include "copykernel/calibrate.h"

#include "base/alloc.h"
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

/* False: this many copies do not fit. */
static bool make_batch(struct gy_copy_probe *p, gantry_copy_type type, uint64_t bytes, uint32_t count)
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

static gantry_status time_batch(struct gy_copy_probe *p, uint32_t count, const gantry_copy_tuning *tuning,
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
        if (!make_batch(p, type, bytes, counts[i])) {
            break;
        }
        gantry_status status = time_batch(p, counts[i], &kernel, &kernel_ns);
        if (status == GANTRY_OK) {
            status = time_batch(p, counts[i], &engine, &engine_ns);
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

/* Decide which way does a large copy within the device whose sides are aligned differently. */
static gantry_status judge_misaligned(struct gy_copy_probe *p, gantry_copy_tuning *tuning)
{
    gantry_copy_tuning kernel = *tuning, engine = *tuning;
    memset(kernel.engine_up_to, 0xff, sizeof(kernel.engine_up_to));
    memset(engine.engine_up_to, 0xff, sizeof(engine.engine_up_to));
    kernel.misaligned = GANTRY_COPY_MISALIGNED_KERNEL;
    engine.misaligned = GANTRY_COPY_MISALIGNED_ENGINE;
    uint64_t kernel_ns, engine_ns;
    if (!make_batch(p, GANTRY_COPY_DTOD, p->most_bytes, 1)) {
        return GANTRY_OK;
    }
    p->descs[0].source = (const char *)p->descs[0].source + 3;
    p->descs[0].bytes -= 3;
    gantry_status status = time_batch(p, 1, &kernel, &kernel_ns);
    if (status == GANTRY_OK) {
        status = time_batch(p, 1, &engine, &engine_ns);
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
