#include "limit/guard.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>

static _Atomic(char *) guarded; /* NULL: nothing, or no more */
static atomic_size_t guarded_bytes;
static atomic_bool has_replaced;

/* Only calls of the kernel: the signal may come anywhere. */
static void replace(int number, siginfo_t *info, void *unused)
{
    (void)unused;
    char *memory = atomic_load(&guarded);
    const size_t bytes = atomic_load(&guarded_bytes);
    const uintptr_t at = (uintptr_t)info->si_addr, begin = (uintptr_t)memory;
    const bool is_ours = memory != NULL && info->si_code > 0 && at >= begin && at - begin < bytes;
    if (is_ours && mmap(memory, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                        0) == (void *)memory) {
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
    atomic_store(&guarded_bytes, bytes);
    atomic_store(&guarded, memory);
    if (sigaction(SIGBUS, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) == 0 && now.sa_handler == SIG_DFL) {
        (void)sigaction(SIGBUS, &ours, NULL);
    }
}

bool gy_guard_has_replaced(void)
{
    return atomic_load_explicit(&has_replaced, memory_order_relaxed);
}
