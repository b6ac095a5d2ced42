/* The kernel that lets host and device compare their clocks. */
#include <gantry/kernel.h>

static __device__ inline uint32_t read_word(const uint32_t *address)
{
#if GANTRY_KERNEL_FORM_DEVICE
    return *(const volatile uint32_t *)address;
#else
    return __atomic_load_n(address, __ATOMIC_RELAXED);
#endif
}

static __device__ inline void write_word(uint64_t *address, uint64_t value)
{
#if GANTRY_KERNEL_FORM_DEVICE
    *(volatile uint64_t *)address = value;
#else
    __atomic_store_n(address, value, __ATOMIC_RELEASE);
#endif
}

/* One thread.  Wait until *ask is 1, answer with the time, wait until it is 2, …, `rounds` times; `ask` and
 * `answers` (rounds + 1 of them, 0 at first) are in host memory.  The last answer is the smallest step that
 * the clock was seen to take.  Ends early when *ask is ~0, or after `patience` looks at it in one round. */
GANTRY_KERNEL(exchange_times, (const uint32_t *ask, uint64_t *answers, uint32_t rounds, uint32_t patience))
{
    uint64_t step = 1u << 30, before = gantry_global_timer();
    for (uint32_t i = 0; i < 4096 && (i < 64 || step == 1u << 30); i++) {
        uint64_t now = gantry_global_timer();
        step = now != before && now - before < step ? now - before : step;
        before = now;
    }
    for (uint32_t round = 1; round <= rounds; round++) {
        uint32_t looks = 0, asked = read_word(ask);
        while (asked != round) {
            if (asked == 0xffffffffu || ++looks == patience) {
                return;
            }
            asked = read_word(ask);
        }
        write_word(&answers[round - 1], gantry_global_timer());
    }
    write_word(&answers[rounds], step);
}
