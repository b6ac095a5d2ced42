/* SPDX-License-Identifier: MIT */
/* The C library's memory, on request (GANTRY_CHECK=malloc): what malloc() and its kin give out is watched
 * like blocks of the heap, and is another's from then on.  So are the program's global variables, which lie
 * just before it.
 *
 * In a program that is linked with this library these functions come before those of the C library, which
 * they call.  All of that memory shall lie in one piece, so the C library is told to keep to the program
 * break. */
#include "base/alloc.h"
#include "base/checking.h"
#include "proof/order.h"
#include "proof/shadow.h"

#include <errno.h>
#include <link.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

/* A function that the C library has, too, and that is declared. */
#define IN_PLACE_OF(type, name, parameters, ...)                \
    __attribute__((visibility("default"))) type name parameters \
    {                                                           \
        __VA_ARGS__;                                            \
    }
#define WATCHED_BYTES ((size_t)64 << 30)

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void *memory);

/* The lowest address that was given out until memory is watched; 0: the program calls another malloc(). */
static _Atomic(uintptr_t) lowest; /* atomic; written by one thread: no other runs yet */

static bool has_begun; /* written once, before other threads run */

static void *given(void *memory, size_t bytes)
{
    const uintptr_t at = (uintptr_t)memory;
    const bool is_watched =
        atomic_load_explicit(&gy_watched[GY_WATCHED_MALLOC].bytes, memory_order_relaxed) != 0;
    if (is_watched && memory != NULL && !gy_proof_is_inside) {
        gy_shadow_forget(at, bytes);
    } else if (!has_begun && memory != NULL && (atomic_load(&lowest) == 0 || at < atomic_load(&lowest))) {
        atomic_store(&lowest, at);
    }
    return memory;
}

IN_PLACE_OF(void *, malloc, (size_t bytes), return given(__libc_malloc(bytes), bytes))

IN_PLACE_OF(void *, calloc, (size_t count, size_t bytes),
            return given(__libc_calloc(count, bytes), count *bytes))

IN_PLACE_OF(void, free, (void *memory), __libc_free(memory))

/* Of what grows in place, the end is new. */
static void *resize(void *memory, size_t bytes)
{
    const uintptr_t before = (uintptr_t)memory;
    const size_t had = malloc_usable_size(memory);
    char *moved = __libc_realloc(memory, bytes);
    if ((uintptr_t)moved != before) {
        return given(moved, bytes);
    }
    if (moved != NULL && bytes > had) {
        (void)given(moved + had, bytes - had);
    }
    return moved;
}

IN_PLACE_OF(void *, realloc, (void *memory, size_t bytes), return resize(memory, bytes))

static void *resize_array(void *memory, size_t count, size_t bytes)
{
    size_t all;
    if (__builtin_mul_overflow(count, bytes, &all)) {
        errno = ENOMEM;
        return NULL;
    }
    return resize(memory, all);
}

IN_PLACE_OF(void *, reallocarray, (void *memory, size_t count, size_t bytes),
            return resize_array(memory, count, bytes))

IN_PLACE_OF(void *, memalign, (size_t alignment, size_t bytes),
            return given(__libc_memalign(alignment, bytes), bytes))

IN_PLACE_OF(void *, aligned_alloc, (size_t alignment, size_t bytes),
            return given(__libc_memalign(alignment, bytes), bytes))

static int get_aligned(void **out, size_t alignment, size_t bytes)
{
    if (alignment < sizeof(void *) || (alignment & (alignment - 1)) != 0) {
        return EINVAL;
    }
    void *memory = given(__libc_memalign(alignment, bytes), bytes);
    if (memory != NULL) {
        *out = memory;
    }
    return memory != NULL ? 0 : ENOMEM;
}

IN_PLACE_OF(int, posix_memalign, (void **out, size_t alignment, size_t bytes),
            return get_aligned(out, alignment, bytes))

/* The program comes first; `from` moves to its variables, if they lie before. */
static int find_variables(struct dl_phdr_info *program, size_t bytes, void *from)
{
    enum { FARTHEST = 1 << 30 };
    uintptr_t *begin = from;
    (void)bytes;
    for (int i = 0; i < program->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &program->dlpi_phdr[i];
        const uintptr_t at = program->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_LOAD && (segment->p_flags & PF_W) != 0 && at < *begin &&
            *begin - at < FARTHEST) {
            *begin = at;
        }
    }
    return 1;
}

/* Before the program's own code runs. */
__attribute__((constructor)) static void watch_malloc(void)
{
    gy_free(gy_zalloc(1)); /* by whatever functions this process has for it */
    has_begun = true;
    if (atomic_load(&lowest) == 0 || (gy_checks_read() & GY_CHECK_MALLOC) == 0) {
        return;
    }
    uintptr_t from = atomic_load(&lowest);
    (void)dl_iterate_phdr(find_variables, &from);
    from &= ~(uintptr_t)4095;
    (void)mallopt(M_ARENA_MAX, 1);
    (void)mallopt(M_MMAP_MAX, 0);
    if (!gy_shadow_watch(GY_WATCHED_MALLOC, from, WATCHED_BYTES)) {
        gy_order_lack("addresses for the shadow of malloc()");
    }
}
