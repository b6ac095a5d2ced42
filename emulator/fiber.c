/* SPDX-License-Identifier: MIT */
/* Fibers: a hand-written switch for x86-64, ucontext elsewhere (or with GY_EMU_UCONTEXT, for tests).  Both
 * sanitizers are informed of every switch; each stack has a guard page below it. */
#include "emulator/fiber.h"

#include "base/alloc.h"
#include "base/sanitizers.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if GY_WITH_ASAN
#include <sanitizer/common_interface_defs.h>
#endif
#if GY_WITH_TSAN
#include <sanitizer/tsan_interface.h>
#endif

/* Pages that are not touched cost nothing; instrumented code has larger frames. */
enum { STACK_BYTES = GY_WITH_ASAN || GY_WITH_TSAN ? 256 * 1024 : 128 * 1024 };

#if GY_WITH_ASAN
/* The fiber that is being entered, for gy_fiber_entered(). */
static _Thread_local struct gy_fiber *entering;
#endif

#if !GY_FIBER_UCONTEXT
/* void gy_emu_switch_stack(void **save, void *load): push the registers that a called function must keep
 * (System V ABI), store the stack pointer at *save, continue with the stack pointer `load`, where the same
 * registers and a return address lie.  The floating-point control words are not saved: kernels do not
 * change them. */
void gy_emu_switch_stack(void **save, void *load) __attribute__((visibility("hidden")));
__asm__(".pushsection .text\n"
        ".p2align 4\n"
        ".globl gy_emu_switch_stack\n"
        ".hidden gy_emu_switch_stack\n"
        ".type gy_emu_switch_stack, @function\n"
        "gy_emu_switch_stack:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n" /* the old fiber is complete: from here on it may be continued */
        "    movq %rsi, %rsp\n"   /* on the new fiber's stack */
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n" /* into the new fiber: to where it called this, or to its entry the first time */
        ".size gy_emu_switch_stack, . - gy_emu_switch_stack\n"
        ".popsection\n");
#endif

void gy_fiber_switch(struct gy_fiber *from, struct gy_fiber *to)
{
#if GY_WITH_ASAN
    entering = to;
    __sanitizer_start_switch_fiber(&from->fake_stack, to->stack, to->stack_bytes);
#endif
#if GY_WITH_TSAN
    __tsan_switch_to_fiber(to->tsan, 0);
#endif
#if GY_FIBER_UCONTEXT
    swapcontext(&from->context, &to->context);
#else
    gy_emu_switch_stack(&from->stack_pointer, to->stack_pointer);
#endif
    gy_fiber_entered();
}

void gy_fiber_entered(void)
{
#if GY_WITH_ASAN
    __sanitizer_finish_switch_fiber(entering->fake_stack, NULL, NULL);
#endif
}

void gy_fiber_rewind(struct gy_fiber *fiber)
{
#if GY_WITH_ASAN
    /* Abandoned frames leave their red zones behind. */
    __asan_unpoison_memory_region(fiber->stack, fiber->stack_bytes);
    fiber->fake_stack = NULL;
#endif
#if GY_WITH_TSAN
    if (fiber->tsan != NULL) {
        __tsan_destroy_fiber(fiber->tsan);
    }
    fiber->tsan = __tsan_create_fiber(0);
#endif
#if GY_FIBER_UCONTEXT
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = fiber->stack;
    fiber->context.uc_stack.ss_size = fiber->stack_bytes;
    fiber->context.uc_link = NULL;
    makecontext(&fiber->context, fiber->entry, 0);
#else
    /* What gy_emu_switch_stack() pops: six registers and the address to return to.  The zero above it,
     * where a caller's address would be, ends back traces and aligns the stack as a call does. */
    void **top = (void **)(void *)((char *)fiber->stack + fiber->stack_bytes);
    *--top = NULL;
    memcpy(--top, &fiber->entry, sizeof(fiber->entry));
    for (int i = 0; i < 6; i++) {
        *--top = NULL;
    }
    fiber->stack_pointer = top;
#endif
}

struct gy_fiber *gy_fiber_create(size_t bytes, void (*entry)(void))
{
    if (gy_fault_should_fail()) {
        return NULL;
    }
    size_t guard = (size_t)sysconf(_SC_PAGESIZE);
    size_t own = (bytes + 15) & ~(size_t)15;
    size_t total = guard + STACK_BYTES;
    char *mapping = mmap(NULL, total, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED) {
        return NULL;
    }
    if (mprotect(mapping + guard, STACK_BYTES, PROT_READ | PROT_WRITE) != 0) {
        munmap(mapping, total);
        return NULL;
    }
    struct gy_fiber *fiber = (void *)(mapping + total - own);
    fiber->entry = entry;
    fiber->mapping = mapping;
    fiber->mapping_bytes = total;
    fiber->stack = mapping + guard;
    fiber->stack_bytes = STACK_BYTES - own;
    gy_fiber_rewind(fiber);
    return fiber;
}

void gy_fiber_destroy(struct gy_fiber *fiber)
{
#if GY_WITH_ASAN
    /* Somebody else may map the addresses again. */
    __asan_unpoison_memory_region(fiber->stack, fiber->stack_bytes);
#endif
#if GY_WITH_TSAN
    __tsan_destroy_fiber(fiber->tsan);
#endif
    munmap(fiber->mapping, fiber->mapping_bytes);
}

void gy_fiber_adopt_thread(struct gy_fiber *fiber)
{
#if GY_WITH_TSAN
    fiber->tsan = __tsan_get_current_fiber();
#endif
#if GY_WITH_ASAN
    pthread_attr_t attributes;
    if (fiber->stack == NULL && pthread_getattr_np(pthread_self(), &attributes) == 0) {
        pthread_attr_getstack(&attributes, &fiber->stack, &fiber->stack_bytes);
        pthread_attr_destroy(&attributes);
    }
#else
    (void)fiber;
#endif
}
