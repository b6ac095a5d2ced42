/* SPDX-License-Identifier: MIT */
#include "limit/guard.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>

static struct {
    _Atomic(char *) memory; /* NULL: nothing */
    atomic_size_t bytes;
} guarded[GY_GUARD_MOST];
static atomic_bool has_replaced;

static int place_of(const siginfo_t *info)
{
    const uintptr_t at = (uintptr_t)info->si_addr;
    int i = 0;
    while (i < GY_GUARD_MOST &&
           (at < (uintptr_t)atomic_load(&guarded[i].memory) ||
            at - (uintptr_t)atomic_load(&guarded[i].memory) >= atomic_load(&guarded[i].bytes))) {
        i++;
    }
    return info->si_code > 0 ? i : GY_GUARD_MOST;
}

/* Only calls of the kernel: the signal may come anywhere. */
static void replace(int number, siginfo_t *info, void *unused)
{
    (void)unused;
    const int i = place_of(info);
    char *memory = i < GY_GUARD_MOST ? atomic_load(&guarded[i].memory) : NULL;
    if (memory != NULL && mmap(memory, atomic_load(&guarded[i].bytes), PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == (void *)memory) {
        atomic_store(&has_replaced, true);
        return;
    }
    const struct sigaction usual = {.sa_handler = SIG_DFL};
    (void)sigaction(number, &usual, NULL);
    if (info->si_code <= 0) { /* it was sent, and does not come again by itself */
        (void)raise(number);
    }
}

void gy_guard_begin(void *memory, size_t bytes)
{
    struct sigaction now, ours = {.sa_sigaction = replace, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK};
    int i = 0;
    while (i < GY_GUARD_MOST && atomic_load(&guarded[i].memory) != NULL) {
        i++;
    }
    if (i == GY_GUARD_MOST) {
        return;
    }
    atomic_store(&guarded[i].bytes, bytes);
    atomic_store(&guarded[i].memory, memory);
    if (sigaction(SIGBUS, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) == 0 && now.sa_handler == SIG_DFL) {
        (void)sigaction(SIGBUS, &ours, NULL);
    }
}

void gy_guard_forget(void)
{
    for (int i = 0; i < GY_GUARD_MOST; i++) {
        atomic_store(&guarded[i].memory, NULL);
    }
}

bool gy_guard_has_replaced(void)
{
    return atomic_load_explicit(&has_replaced, memory_order_relaxed);
}
