/* SPDX-License-Identifier: MIT */
/* The kernels that compare clocks: the host's with the device's, and the SMs' among each other. */
#include "profile/sm_anchor.h"

#include <gantry/kernel.h>

#if !GANTRY_KERNEL_FORM_DEVICE
#include <sched.h>
#endif

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

static __device__ inline uint64_t read_time(const uint64_t *address)
{
#if GANTRY_KERNEL_FORM_DEVICE
    return *(const volatile uint64_t *)address;
#else
    return __atomic_load_n(address, __ATOMIC_RELAXED);
#endif
}

/* While a device is emulated, the host's thread that is waited for may have no core. */
static __device__ inline void let_host_run(uint32_t looks)
{
#if GANTRY_KERNEL_FORM_DEVICE
    (void)looks;
#else
    if (looks % 256 == 0) {
        sched_yield();
    }
#endif
}

/* One thread.  *host shows the host's clock, written again and again; each time it is seen to have changed, what it
 * showed goes to heard[round], the GPU's time before to asked[round] and the time after to answers[round], all in host
 * memory and 0 at first.  The time after is read behind a branch on what was heard, so never earlier; the time before
 * is, by its sign bit, part of the address that is read, so never later.  answers[rounds] is the smallest step that the
 * GPU's clock was seen to take, written when all else has arrived.  Ends early when *host is ~0, or after `patience`
 * looks at it in one round. */
GANTRY_KERNEL(exchange_times, (const uint64_t *host, uint64_t *asked, uint64_t *heard, uint64_t *answers, uint32_t rounds,
                               uint32_t patience))
{
    uint64_t step = 1u << 30, before = gantry_global_timer();
    for (uint32_t i = 0; i < 4096 && (i < 64 || step == 1u << 30); i++) {
        uint64_t now = gantry_global_timer();
        step = now != before && now - before < step ? now - before : step;
        before = now;
    }
    uint64_t latest = 0;
    for (uint32_t round = 0; round < rounds; round++) {
        uint32_t looks = 0;
        uint64_t shown = latest;
        while (shown == latest) {
            if (looks++ == patience) {
                return;
            }
            let_host_run(looks);
            before = gantry_global_timer();
            shown = read_time(host + (before >> 63));
        }
        if (shown == ~(uint64_t)0) {
            return;
        }
        write_word(&answers[round], gantry_global_timer());
        write_word(&heard[round], shown);
        write_word(&asked[round], before);
        latest = shown;
    }
    __threadfence_system();
    write_word(&answers[rounds], step);
}

/* One thread.  steps[i] is the least time of a read of host[i * words], in host memory, in steps of the SM's
 * clock. */
GANTRY_KERNEL(time_reads, (const uint64_t *host, uint32_t lines, uint32_t words, uint32_t *steps))
{
    for (uint32_t line = 0; line < lines; line++) {
        uint64_t least = 0xffffffffu;
        for (uint32_t i = 0; i < 4; i++) {
            uint64_t before = gantry_sm_clock(), shown = read_time(host + line * words);
            if (shown == ~(uint64_t)0) { /* this never happens; it makes the clock's second reading wait */
                return;
            }
            uint64_t took = gantry_sm_clock() - before;
            least = took < least ? took : least;
        }
        steps[line] = (uint32_t)least;
    }
}

/* Blocks of one thread, as many as there are SMs or more.  Each takes `rounds` steps of *counter, which all
 * share, and leaves the readings of its clock around each step at the place that the step was given.  No
 * block waits. */
GANTRY_KERNEL(compare_sms, (uint32_t *counter, gy_sm_sample *samples, uint32_t rounds, uint32_t room))
{
    uint32_t sm = gantry_smid();
    for (uint32_t round = 0; round < rounds; round++) {
        uint64_t before = gantry_global_timer();
        uint32_t step = atomicAdd(counter, 1u);
        if (step >= room) { /* this also makes the clock's second reading wait for the step */
            return;
        }
        uint64_t after = gantry_global_timer();
        samples[step] = gy_sm_sample{before, after, sm, 0};
    }
}

/* Blocks of one thread, more than there are SMs.  The first one on each SM leaves that SM's two clocks, read at a step
 * of the common one, which lies in the `width_ns` before `timer_ns`; then it stays for a while, so that others go elsewhere.
 * The last of `room` + 1 anchors counts how many have come. */
GANTRY_KERNEL(saturate, (gy_sm_anchor *anchors, uint32_t sms, uint32_t room))
{
    uint32_t sm = gantry_smid();
    if (sm < room && atomicExch(&anchors[sm].claimed, 1u) == 0) {
        gy_sm_anchor best = {0, 0, 1, 0xffffffffu};
        uint64_t before = gantry_global_timer();
        for (uint32_t i = 0; i < 4096 && best.width_ns > 2048; i++) {
            /* Against the reading of the round before: a loop that runs in step with the timer would never see
             * it change within a round. */
            uint64_t clock = gantry_sm_clock(), after = gantry_global_timer();
            if (after != before && after - before < best.width_ns) {
                best.clock = clock;
                best.timer_ns = after;
                best.width_ns = (uint32_t)(after - before);
            }
            before = after;
        }
        anchors[sm].clock = best.clock;
        anchors[sm].timer_ns = best.timer_ns;
        anchors[sm].width_ns = best.width_ns;
        atomicAdd(&anchors[room].claimed, 1u);
    }
#if GANTRY_KERNEL_FORM_DEVICE
    for (uint32_t i = 0; i < 256 && read_word(&anchors[room].claimed) < sms; i++) {
    }
#else
    (void)sms;
#endif
}
