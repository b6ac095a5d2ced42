/* SPDX-License-Identifier: MIT */
/* How an exported function is made. */
#ifndef LIMIT_WRAP_H
#define LIMIT_WRAP_H

#include "limit/doors.h"
#include "limit/meter.h"

#define GY_WRAP_PLAIN(stream) (stream)

/* One form: `stream` and `key` are expressions of the parameters, `form` says what no stream means. */
#define GY_WRAP_FORM(name, parameters, arguments, charges, form, stream, key)              \
    CUresult name parameters;                                                              \
    CUresult name parameters                                                               \
    {                                                                                      \
        CUresult(*real) parameters = (CUresult(*) parameters)gy_door_real(GY_NAME_##name); \
        struct gy_meter_ticket ticket;                                                     \
        if (real == NULL) {                                                                \
            return CUDA_ERROR_NOT_INITIALIZED;                                             \
        }                                                                                  \
        const bool is_charged = (charges);                                                 \
        if (!is_charged) { /* its time is not the group's */                               \
            gy_meter_puts(form(stream));                                                   \
        }                                                                                  \
        if (!is_charged || !gy_meter_enter(&ticket, form(stream), key)) {                  \
            return real arguments;                                                         \
        }                                                                                  \
        const CUresult result = real arguments;                                            \
        gy_meter_leave(&ticket, result);                                                   \
        return result;                                                                     \
    }

#define GY_WRAP_IF(name, suffix, parameters, arguments, charges, stream, key)      \
    GY_WRAP_FORM(name, parameters, arguments, charges, GY_WRAP_PLAIN, stream, key) \
    GY_WRAP_FORM(name##suffix, parameters, arguments, charges, GY_METER_PER_THREAD, stream, key)

/* Both forms of what is always charged. */
#define GY_WRAP_LAUNCH(name, suffix, parameters, arguments, stream, key) \
    GY_WRAP_IF(name, suffix, parameters, arguments, true, stream, key)

/* What runs before the driver's function, and with `result` after it. */
#define GY_WRAP_WAIT(name, parameters, arguments, before, after)                           \
    CUresult name parameters;                                                              \
    CUresult name parameters                                                               \
    {                                                                                      \
        CUresult(*real) parameters = (CUresult(*) parameters)gy_door_real(GY_NAME_##name); \
        if (real == NULL) {                                                                \
            return CUDA_ERROR_NOT_INITIALIZED;                                             \
        }                                                                                  \
        before;                                                                            \
        const CUresult result = real arguments;                                            \
        after;                                                                             \
        return result;                                                                     \
    }

#define GY_WRAP_NOTHING (void)0

#endif
