/* Mutexes of the program: accesses under one mutex are no race.  In a program that is linked with this
 * library these functions come before those of the C library, which they call. */
#include "proof/order.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#define HOOK __attribute__((visibility("default")))

typedef int mutex_fn(pthread_mutex_t *mutex);

/* The C library's function of that name, kept in `*known`. */
static mutex_fn *real(_Atomic(mutex_fn *) *known, const char *name)
{
    mutex_fn *function = atomic_load_explicit(known, memory_order_relaxed);
    if (function == NULL) {
        void *found = dlsym(RTLD_NEXT, name);
        memcpy(&function, &found,
               sizeof(function)); /* ISO C has no cast from an object pointer to a function pointer */
        atomic_store_explicit(known, function, memory_order_relaxed);
    }
    return function;
}

/* What has become of a lock that was asked for. */
static int taken(pthread_mutex_t *mutex, int result)
{
    if (result == 0 && gy_access_now != NULL && !gy_proof_is_inside) {
        gy_order_locked(mutex);
    }
    return result;
}

HOOK int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    static _Atomic(mutex_fn *) known;
    return taken(mutex, real(&known, "pthread_mutex_lock")(mutex));
}

HOOK int pthread_mutex_trylock(pthread_mutex_t *mutex)
{
    static _Atomic(mutex_fn *) known;
    return taken(mutex, real(&known, "pthread_mutex_trylock")(mutex));
}

HOOK int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    static _Atomic(mutex_fn *) known;
    if (gy_access_now != NULL && !gy_proof_is_inside) {
        gy_order_unlocking();
    }
    return real(&known, "pthread_mutex_unlock")(mutex);
}
