/* SPDX-License-Identifier: MIT */
/* The device way of an exchange: timeline semaphores that the GPU waits for and signals.
 *
 * A wait that is enqueued cannot be taken back.  So nothing is enqueued behind it but a mark: the number of
 * the wait, which the GPU writes to page-locked memory.  The exchange's thread sees the mark there without a
 * call of the driver, and lets the tasks behind `acquire` start.  When the renderer does not come, the only
 * thing that has to end is that one stream: the library signals the awaited value itself, and no work runs
 * for it.  Ahead, the wait and the mark are on a stream of the step's manager, which no other manager gets,
 * and the step's work is behind them; only `release` starts when the mark is seen.
 *
 *   waits:    wait 1, mark 1, wait 2, mark 2 ...      no stream of the pool, and of no green context
 *   rescue:   signal of the awaited value, when the exchange is lost while the GPU waits
 *   a stream of the pool: ... the step's work, signal n
 *   signals:  event behind the step's work, signal n  where the pool's streams belong to green contexts, on
 *             which a sequence of wait, kernel and signal hung for good (driver 580) */
#include "interop/exchange.h"

#include "base/clock.h"
#include "base/waiter.h"
#include "interop/descriptor.h"

#include <inttypes.h>
#include <unistd.h>

#define SPIN_NS \
    UINT64_C(1000000) /* as long as that a mark is looked for without a nap: a hand-over takes \
                       * some hundred microseconds */
#define EMULATED_SPIN_NS UINT64_C(20000) /* the emulated device needs the CPUs itself */
#define NAP_NS 50000                     /* afterwards a look per so much */
#define RESCUE_NS UINT64_C(2000000000)   /* after that a wait that was signalled is taken for stuck */

/* ---- open and close ---------------------------------------------------------------------------- */

static gantry_status check_driver(const struct gy_context *cuda, const char *label)
{
    const struct gy_driver *driver = cuda->driver;
    int has_timelines = 0;
    bool is_there =
        driver->cuImportExternalSemaphore != NULL && driver->cuDestroyExternalSemaphore != NULL &&
        driver->cuSignalExternalSemaphoresAsync != NULL && driver->cuWaitExternalSemaphoresAsync != NULL &&
        driver->cuDeviceGetAttribute(&has_timelines, CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED,
                                     cuda->device) == CUDA_SUCCESS;
    if (!is_there || has_timelines == 0) {
        return GY_FAIL(GANTRY_ERR_UNSUPPORTED, "exchange '%s': the driver imports no timeline semaphores",
                       label);
    }
    if (cuda->mode == GANTRY_CONTEXT_ADOPT && cuda->sms < cuda->info.total_sms) {
        return GY_FAIL(GANTRY_ERR_UNSUPPORTED,
                       "exchange '%s': the adopted context is a green one, on whose streams a wait may hang",
                       label);
    }
    return GANTRY_OK;
}

/* The context is current. */
static gantry_status import_one(struct gy_context *cuda, const char *label, int fd, CUexternalSemaphore *out)
{
    int given;
    gantry_status status = gy_descriptor_copy(fd, label, &given);
    if (status != GANTRY_OK) {
        return status;
    }
    CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC desc = {
        .type = CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD, .handle.fd = given};
    CUresult result = cuda->driver->cuImportExternalSemaphore(out, &desc);
    if (result == CUDA_SUCCESS) {
        return GANTRY_OK;
    }
    gy_descriptor_close_refused(given, fd);
    if (result == CUDA_ERROR_UNKNOWN) { /* this is no failure of the device */
        return GY_FAIL_NATIVE(GANTRY_ERR_DRIVER, (int)result,
                              "%s: the driver does not take descriptor %d as a timeline semaphore", label,
                              fd);
    }
    return gy_context_check(cuda, result, "cuImportExternalSemaphore", __FILE__, __LINE__);
}

/* Not gy_context_create_stream(): that makes a stream of a green context where there is a plan. */
static gantry_status create_stream(struct gy_context *cuda, CUstream *out)
{
    return GY_CALL(cuda, cuStreamCreate(out, CU_STREAM_NON_BLOCKING));
}

static gantry_status open_current(struct gy_exchange_device *d, const gantry_exchange_options *options)
{
    struct gy_context *cuda = d->cuda;
    void *passed = NULL;
    gantry_status status = create_stream(cuda, &d->waits);
    status = status == GANTRY_OK ? create_stream(cuda, &d->signals) : status;
    status = status == GANTRY_OK ? create_stream(cuda, &d->rescue) : status;
    status =
        status == GANTRY_OK ? GY_CALL(cuda, cuEventCreate(&d->released, CU_EVENT_DISABLE_TIMING)) : status;
    if (status == GANTRY_OK) {
        status = GY_CALL(cuda, cuMemHostAlloc(&passed, sizeof(*d->passed), CU_MEMHOSTALLOC_DEVICEMAP));
    }
    if (status == GANTRY_OK) {
        d->passed = passed;
        *d->passed = 0;
        status = GY_CALL(cuda, cuMemHostGetDevicePointer(&d->passed_at, passed, 0));
    }
    /* a driver makes some things at a stream's first use; they are not left to the first step */
    if (status == GANTRY_OK) {
        status = GY_CALL(cuda, cuStreamWriteValue32(d->waits, d->passed_at, 0, 0));
    }
    status = status == GANTRY_OK ? GY_CALL(cuda, cuStreamSynchronize(d->waits)) : status;
    if (status == GANTRY_OK) {
        status = import_one(cuda, options->label, options->wait_fd, &d->awaited);
    }
    return status == GANTRY_OK ? import_one(cuda, options->label, options->signal_fd, &d->told) : status;
}

/* The context is current, or lost. */
static void close_current(struct gy_exchange_device *d)
{
    struct gy_context *cuda = d->cuda;
    const CUstream streams[] = {d->waits, d->signals, d->rescue};
    for (int i = 0; i < 3; i++) {
        if (streams[i] != NULL) { /* signals that wait for a step's work are done all the same */
            (void)GY_CALL(cuda, cuStreamDestroy(streams[i]));
        }
    }
    if (d->released != NULL) {
        (void)GY_CALL(cuda, cuEventDestroy(d->released));
    }
    if (d->awaited != NULL) {
        (void)GY_CALL(cuda, cuDestroyExternalSemaphore(d->awaited));
    }
    if (d->told != NULL) {
        (void)GY_CALL(cuda, cuDestroyExternalSemaphore(d->told));
    }
    if (d->passed != NULL) {
        (void)GY_CALL(cuda, cuMemFreeHost(d->passed));
    }
    *d = (struct gy_exchange_device){.cuda = NULL};
}

gantry_status gy_exchange_device_open(gantry_exchange *e, struct gy_context *cuda,
                                      const gantry_exchange_options *options)
{
    struct stat file;
    gantry_status status = check_driver(cuda, options->label);
    for (int i = 0; i < 2 && status == GANTRY_OK; i++) {
        int fd = i == 0 ? options->wait_fd : options->signal_fd;
        status = gy_descriptor_check(fd, options->label, "semaphore", &file);
        if (status == GANTRY_OK && S_ISREG(file.st_mode) && !cuda->info.emulated) {
            status = GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                             "%s: descriptor %d is a file, which no CUDA device has for a semaphore",
                             options->label, fd);
        }
    }
    status = status == GANTRY_OK ? gy_context_enter(cuda) : status;
    if (status != GANTRY_OK) {
        return status;
    }
    struct gy_exchange_device device = {.cuda = cuda};
    const struct gy_relaxed relaxed = gy_relaxed_begin(cuda);
    status = relaxed.status == GANTRY_OK ? open_current(&device, options) : relaxed.status;
    if (status != GANTRY_OK) {
        struct gy_error why = *gy_error_last();
        close_current(&device);
        (void)gy_error_adopt(&why);
    }
    (void)gy_relaxed_end(cuda, &relaxed);
    (void)gy_context_pop(cuda);
    if (status == GANTRY_OK) {
        close(options->wait_fd);
        close(options->signal_fd);
        gy_mutex_lock(&e->lock);
        e->device = device;
        gy_mutex_unlock(&e->lock);
    }
    return status;
}

void gy_exchange_device_close(gantry_exchange *e) GY_REQUIRES(e->lock)
{
    struct gy_context *cuda = e->device.cuda;
    if (cuda == NULL) {
        return;
    }
    bool pushed = gy_context_push(cuda) == GANTRY_OK;
    const struct gy_relaxed relaxed = gy_relaxed_begin(cuda);
    close_current(&e->device);
    (void)gy_relaxed_end(cuda, &relaxed);
    if (pushed) {
        (void)gy_context_pop(cuda);
    }
}

/* ---- waits ------------------------------------------------------------------------------------- */

static gantry_status fail_closed(const gantry_exchange *e)
{
    return GY_FAIL(GANTRY_ERR_DEVICE_LOST, "exchange '%s': its context is gone", e->label);
}

static gantry_status signal_on(struct gy_context *cuda, CUexternalSemaphore semaphore, uint64_t value,
                               CUstream stream)
{
    const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS params = {.params.fence.value = value};
    return GY_CALL(cuda, cuSignalExternalSemaphoresAsync(&semaphore, &params, 1, stream));
}

gantry_status gy_exchange_device_wait(gantry_exchange *e, CUstream stream, uint64_t value)
    GY_REQUIRES(e->lock)
{
    struct gy_exchange_device *d = &e->device;
    struct gy_context *cuda = d->cuda;
    if (cuda == NULL) {
        return fail_closed(e);
    }
    gantry_status status = gy_context_enter(cuda);
    if (status != GANTRY_OK) {
        return status;
    }
    const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS params = {.params.fence.value = value};
    d->waiting = stream != NULL ? stream : d->waits;
    status = GY_CALL(cuda, cuWaitExternalSemaphoresAsync(&d->awaited, &params, 1, d->waiting));
    if (status == GANTRY_OK) {
        d->number++;
        status = GY_CALL(cuda, cuStreamWriteValue32(d->waiting, d->passed_at, d->number, 0));
        if (status != GANTRY_OK) { /* nobody would see that it is over */
            struct gy_error why = *gy_error_last();
            (void)signal_on(cuda, d->awaited, value, d->rescue);
            (void)gy_error_adopt(&why);
        }
    }
    (void)gy_context_pop(cuda);
    return status;
}

static bool is_over(const struct gy_exchange_device *d)
{
    return (int32_t)(__atomic_load_n(d->passed, __ATOMIC_ACQUIRE) - d->number) >= 0;
}

static void nap(gantry_exchange *e, uint64_t until_ns)
{
    gy_mutex_lock(&e->lock);
    gy_cond_wait_until(&e->changed, &e->lock, until_ns);
    gy_mutex_unlock(&e->lock);
}

/* Look for the mark until `deadline`, and until `spin_until` without naps. */
static bool see_mark(gantry_exchange *e, uint64_t now, uint64_t spin_until, uint64_t deadline)
{
    struct gy_waiter waiter =
        gy_waiter_begin(GANTRY_WAIT_HYBRID, spin_until > now ? spin_until - now : 0, deadline);
    while (!is_over(&e->device)) {
        enum gy_waiter_next next = gy_waiter_pause(&waiter);
        if (next == GY_WAITER_GIVE_UP) {
            return false;
        }
        if (next == GY_WAITER_SLEEP) {
            nap(e, gy_clock_ns() + NAP_NS);
        }
    }
    return true;
}

gantry_status gy_exchange_device_look(gantry_exchange *e, uint64_t since, uint64_t timeout_ns)
{
    const struct gy_exchange_device *d = &e->device;
    struct gy_context *cuda = d->cuda;
    uint64_t now = gy_clock_ns();
    uint64_t spin = cuda->info.emulated ? EMULATED_SPIN_NS : SPIN_NS;
    if (see_mark(e, now, since + spin, now + timeout_ns)) {
        return GANTRY_OK;
    }
    /* A device that is lost writes no mark.  The application may be capturing on a thread of its own, which
     * such a question must not spoil. */
    gantry_status status = gy_context_enter(cuda);
    if (status != GANTRY_OK) {
        return status;
    }
    const struct gy_relaxed relaxed = gy_relaxed_begin(cuda);
    status = relaxed.status;
    CUresult result = status == GANTRY_OK ? cuda->driver->cuStreamQuery(d->waiting) : CUDA_ERROR_NOT_READY;
    if (result != CUDA_ERROR_NOT_READY) {
        status = gy_context_check(cuda, result, "cuStreamQuery", __FILE__, __LINE__);
    }
    (void)gy_relaxed_end(cuda, &relaxed);
    (void)gy_context_pop(cuda);
    return status != GANTRY_OK ? status : is_over(d) ? GANTRY_OK : GANTRY_ERR_TIMED_OUT;
}

void gy_exchange_device_rescue(gantry_exchange *e, uint64_t value)
{
    struct gy_exchange_device *d = &e->device;
    struct gy_context *cuda = d->cuda;
    struct gy_error why = *gy_error_last();
    if (gy_context_enter(cuda) == GANTRY_OK) {
        uint64_t now = gy_clock_ns();
        gantry_status status = is_over(d) ? GANTRY_OK : signal_on(cuda, d->awaited, value, d->rescue);
        if (status == GANTRY_OK && !see_mark(e, now, now + EMULATED_SPIN_NS, now + RESCUE_NS)) {
            gy_log(GANTRY_LOG_ERROR,
                   "exchange '%s': the GPU still waits for value %" PRIu64
                   " of the renderer, which was signalled in its place",
                   e->label, value);
        }
        (void)gy_context_pop(cuda);
    }
    (void)gy_error_adopt(&why);
}

/* ---- signals ----------------------------------------------------------------------------------- */

gantry_status gy_exchange_device_signal(gantry_exchange *e, CUstream stream, uint64_t value)
    GY_REQUIRES(e->lock)
{
    struct gy_exchange_device *d = &e->device;
    struct gy_context *cuda = d->cuda;
    if (cuda == NULL) {
        return fail_closed(e);
    }
    if (cuda->home == NULL) {
        return signal_on(cuda, d->told, value, stream);
    }
    gantry_status status = GY_CALL(cuda, cuEventRecord(d->released, stream));
    status = status == GANTRY_OK ? GY_CALL(cuda, cuStreamWaitEvent(d->signals, d->released, 0)) : status;
    return status == GANTRY_OK ? signal_on(cuda, d->told, value, d->signals) : status;
}
