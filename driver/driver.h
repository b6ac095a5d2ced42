/* SPDX-License-Identifier: MIT */
/* The only door to CUDA: the function table of one loaded driver library, and the functions that every
 * CUresult goes through. */
#ifndef DRIVER_DRIVER_H
#define DRIVER_DRIVER_H

#include "base/status.h"
#include "driver/cuda_abi.h"
#include "driver/funcs.h"

#include <gantry/context.h>

#include <stdbool.h>

/* One loaded driver library.  Immutable after gy_driver_open(); shared by all contexts of a process.
 * An optional function the library lacks is NULL. */
struct gy_driver {
    void *library;    /* dlopen handle */
    const char *name; /* "cuda" or "emulated" */
    bool emulated;
    int version;               /* cuDriverGetVersion: 13000 for 13.0 */
    CUlogsCallbackHandle log;  /* as in told.h; NULL: the driver does not say why calls fail */
    void (*watch_begin)(void); /* of the emulated driver, see gantry_emu.h; NULL: there is no such function */
    uint32_t (*watch_end)(void *stream, void **other);
#define F(need, member, symbol, prototype) CUresult(*member) prototype;
    GY_DRIVER_FUNCS(F)
#undef F
};

/* Load (or share) the driver `choice` asks for and initialise it.  AUTO: $GANTRY_DRIVER ("cuda", "emulated")
 * if set; else libcuda.so.1 when it loads and has a device; else the emulator, with one info log line saying
 * why.  The emulator is looked for at $GANTRY_EMULATOR, beside the library or program that contains this
 * code, then by the system's search.
 * @retval GANTRY_ERR_NO_DRIVER  the library is missing or too old, or lacks a required function (which is
 * named)
 * @retval GANTRY_ERR_NO_DEVICE  it has no device */
GANTRY_MUST_CHECK gantry_status gy_driver_open(gantry_driver_choice choice, const struct gy_driver **out);
/* Give a reference back.  A real driver stays loaded until the process ends; NULL is ignored. */
void gy_driver_close(const struct gy_driver *driver);

/* Is another copy of its library loaded, a file of the same name?  Its path comes out: each copy has contexts
 * of its own. */
bool gy_driver_has_copy(const struct gy_driver *driver, char *path, size_t room);

/* "CUDA_ERROR_INVALID_VALUE"; static. */
const char *gy_driver_result_name(const struct gy_driver *driver, CUresult result);

/* True for results after which the context can never work again (illegal address, assert, hardware error, …).
 */
bool gy_driver_result_is_sticky(CUresult result);
/* A capture, which may be the application's, is in the way of the call: 900 to 908.  Nothing is lost. */
static inline bool gy_driver_result_is_of_capture(CUresult result)
{
    return result >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
           result <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
}

/* The slow half of gy_driver_check(): it maps a failure to a status, keeps it and logs it. */
gantry_status gy_driver_failed(const struct gy_driver *driver, CUresult result, const char *call,
                               const char *file, int line);

/* Every CUresult passes through this function or gy_context_check() of driver/context.h. */
static inline gantry_status gy_driver_check(const struct gy_driver *driver, CUresult result, const char *call,
                                            const char *file, int line)
{
    if (__builtin_expect(result == CUDA_SUCCESS, 1)) {
        return GANTRY_OK;
    }
    return gy_driver_failed(driver, result, call, file, line);
}

/* status = GY_DRIVER_CALL(driver, cuStreamCreate(&s, CU_STREAM_NON_BLOCKING)); */
#define GY_DRIVER_CALL(drv, call) gy_driver_check((drv), (drv)->call, #call, __FILE__, __LINE__)

#endif
