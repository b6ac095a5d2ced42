/* SPDX-License-Identifier: MIT */
#include "limit/doors.h"

#include "limit/job.h"

#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

/* Our functions' addresses, under names of their own, since here their types do not matter. */
#define N(name) extern const char gy_address_of_##name[] __asm__(#name);
#define V(name, suffix) N(name) N(name##suffix)
GY_LIMIT_NAMES(N, V)
#undef N
#undef V

static const char *const ours[GY_NAME_COUNT] = {
#define N(name) gy_address_of_##name,
#define V(name, suffix) gy_address_of_##name, gy_address_of_##name##suffix,
    GY_LIMIT_NAMES(N, V)
#undef N
#undef V
};

void *gy_door_wrap(void *function)
{
    if (function == NULL || !gy_job_is_limited() || (!gy_real_is_known() && !gy_real_is_driver(function))) {
        return function;
    }
    for (int i = 0; i < GY_NAME_COUNT; i++) {
        if (gy_real[i] == function) {
            return (void *)(uintptr_t)ours[i];
        }
    }
    return function;
}

gy_door_function gy_door_real(enum gy_limit_name name)
{
    gy_door_function function = NULL;
    if (gy_real_is_known() || gy_real_find_driver()) { /* all tables, which another thread may be filling */
        memcpy(&function, &gy_real[name], sizeof(function));
    }
    return function;
}

/* ---- dlsym() and dlvsym() ----------------------------------------------------------------------- */

/* What the next object after the caller's has under that name. */
static void *find_next(const char *name, const void *caller)
{
    struct link_map *map = gy_real_object_of(caller);
    return map != NULL ? gy_real_after(map->l_next, name) : NULL;
}

/* What dlsym() does: return `value`, or jump to the real one, so that for it the caller is the program. */
struct answer {
    void *value;
    uint64_t is_given;
};

static const struct answer jump = {NULL, 0};

static struct answer given(void *value)
{
    return (struct answer){value, 1};
}

__attribute__((used, visibility("hidden"))) struct answer gy_door_dlsym(void *handle, const char *name,
                                                                        const void *caller);
__attribute__((used, visibility("hidden"))) struct answer gy_door_dlvsym(void *handle, const char *name,
                                                                         const char *version);

/* Called before each dlsym().  Until the real one is known nothing is called that others may have replaced.
 */
struct answer gy_door_dlsym(void *handle, const char *name, const void *caller)
{
    if (gy_real_dlsym == NULL) {
        gy_real_find_dlsym();
    }
    const enum gy_limit_name number = name != NULL ? gy_real_name(name) : GY_NAME_COUNT;
    if (number == GY_NAME_COUNT || gy_real_dlsym == NULL || !gy_job_is_limited()) {
        return jump;
    }
    if (handle == RTLD_NEXT) {
        void *found = find_next(name, caller);
        return found != NULL && gy_real_is_driver(found) ? given(gy_door_wrap(found)) : jump;
    }
    void *found = gy_real_dlsym(handle, name);
    if (found == (void *)(uintptr_t)ours[number] && !gy_real_find_driver()) {
        return given(gy_real_dlsym(RTLD_NEXT, name)); /* only we have the name: there is no driver */
    }
    return given(gy_door_wrap(found));
}

struct answer gy_door_dlvsym(void *handle, const char *name, const char *version)
{
    if (gy_real_dlsym == NULL) {
        gy_real_find_dlsym();
    }
    if (name == NULL || gy_real_name(name) == GY_NAME_COUNT || gy_real_dlvsym == NULL ||
        !gy_job_is_limited()) {
        return jump;
    }
    return given(gy_door_wrap(gy_real_dlvsym(handle, name, version)));
}

/* The arguments are kept over the question, and the jump leaves the caller's return address where it was. */
/* clang-format off */
#define DOOR(name, ask, real)                                               \
    __asm__(".pushsection .text\n.globl " #name "\n.type " #name ", @function\n" #name ":\n" \
            "    .cfi_startproc\n    endbr64\n"                              \
            "    pushq %rdi\n    pushq %rsi\n    pushq %rdx\n"               \
            "    .cfi_adjust_cfa_offset 24\n"                               \
            "    movq 24(%rsp), %rcx\n"                                     \
            ask                                                             \
            "    movq %rdx, %rcx\n"                                         \
            "    popq %rdx\n    popq %rsi\n    popq %rdi\n"                 \
            "    .cfi_adjust_cfa_offset -24\n"                              \
            "    testq %rcx, %rcx\n    jne 1f\n"                            \
            "    movq " #real "(%rip), %rax\n    jmp *%rax\n"               \
            "1:  ret\n    .cfi_endproc\n.size " #name ", . - " #name "\n.popsection\n")
/* clang-format on */

DOOR(dlsym, "    movq %rcx, %rdx\n    call gy_door_dlsym\n", gy_real_dlsym);
DOOR(dlvsym, "    call gy_door_dlvsym\n", gy_real_dlvsym);

/* ---- cuGetProcAddress() -------------------------------------------------------------------------- */

CUresult cuGetProcAddress(const char *symbol, void **function, int version, cuuint64_t flags);
CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, cuuint64_t flags, int *found);

CUresult cuGetProcAddress(const char *symbol, void **function, int version, cuuint64_t flags)
{
    CUresult (*real)(const char *, void **, int, cuuint64_t) =
        (CUresult(*)(const char *, void **, int, cuuint64_t))gy_door_real(GY_NAME_cuGetProcAddress);
    const CUresult result =
        real != NULL ? real(symbol, function, version, flags) : CUDA_ERROR_NOT_INITIALIZED;
    if (result == CUDA_SUCCESS && function != NULL) {
        *function = gy_door_wrap(*function);
    }
    return result;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, cuuint64_t flags, int *found)
{
    CUresult (*real)(const char *, void **, int, cuuint64_t, int *) =
        (CUresult(*)(const char *, void **, int, cuuint64_t, int *))gy_door_real(GY_NAME_cuGetProcAddress_v2);
    const CUresult result =
        real != NULL ? real(symbol, function, version, flags, found) : CUDA_ERROR_NOT_INITIALIZED;
    if (result == CUDA_SUCCESS && function != NULL) {
        *function = gy_door_wrap(*function);
    }
    return result;
}
