/* SPDX-License-Identifier: MIT */
/* The program's own waits by the CUDA driver's functions: the linker turns the calls of a program that is
 * linked with this library to these (CMakeLists.txt), which call the driver's.  The calls of Gantry go by its
 * table of the driver, and do not come here: what they order is how things happened to run. */
#include "proof/order.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

enum { NOT_INITIALIZED = 3 }; /* a result of the driver, as are those below; handles are pointers */

typedef void any_fn(void);

/* The function of that name, kept in `*known`: of the driver that the program is linked with, or of one that
 * was opened; NULL: there is none. */
static any_fn *real(_Atomic(any_fn *) *known, const char *name)
{
    static const char *const drivers[] = {"libgantry-emu.so", "libcuda.so.1"};
    any_fn *function = atomic_load_explicit(known, memory_order_relaxed);
    void *found = function == NULL ? dlsym(RTLD_DEFAULT, name) : NULL;
    for (size_t i = 0; function == NULL && found == NULL && i < sizeof(drivers) / sizeof(drivers[0]); i++) {
        void *driver = dlopen(drivers[i], RTLD_NOW | RTLD_NOLOAD);
        found = driver != NULL ? dlsym(driver, name) : NULL;
    }
    if (found != NULL) {
        memcpy(&function, &found,
               sizeof(function)); /* ISO C has no cast from an object pointer to a function pointer */
        atomic_store_explicit(known, function, memory_order_relaxed);
    }
    return function;
}

#define WAIT(name, parameters, arguments)                                \
    __attribute__((visibility("default"))) int __wrap_##name parameters; \
    int __wrap_##name parameters                                         \
    {                                                                    \
        static _Atomic(any_fn *) known;                                  \
        any_fn *const function = real(&known, #name);                    \
        if (function == NULL) {                                          \
            return NOT_INITIALIZED;                                      \
        }                                                                \
        gy_order_calls_driver(true);                                     \
        const int result = ((int(*) parameters)function)arguments;       \
        gy_order_calls_driver(false);                                    \
        return result;                                                   \
    }

WAIT(cuStreamSynchronize, (void *stream), (stream))
WAIT(cuStreamQuery, (void *stream), (stream))
WAIT(cuStreamWaitEvent, (void *stream, void *event, unsigned int flags), (stream, event, flags))
WAIT(cuEventSynchronize, (void *event), (event))
WAIT(cuEventQuery, (void *event), (event))
WAIT(cuCtxSynchronize, (void), ())
