/* SPDX-License-Identifier: MIT */
/* The gate that holds back loops which would take memory bandwidth, as the rest of the library uses it;
 * <gantry/bandwidth.h> says what it is. */
#ifndef BASE_BANDWIDTH_H
#define BASE_BANDWIDTH_H

#include <gantry/bandwidth.h>

#include <stdbool.h>

/* How long a thread may still be held back: its debt is the time it was, less what it has run off since.
 * It stays between 0 and the bound, whence the promise of the header: of L ns, h held and L - h run,
 * h - (L - h) * (100 - percent) / percent <= bound, so h <= bound * percent / 100 + L * (100 - percent) /
 * 100. */
struct gy_bandwidth_account {
    uint64_t debt_ns;
    uint64_t since_ns; /* when it was brought up to date */
};

/* Bring the account up to `now_ns`, until when its thread has run.  Returns for how long it may be held
 * then. */
uint64_t gy_bandwidth_allowance(struct gy_bandwidth_account *account, uint64_t now_ns, uint64_t bound_ns,
                                uint32_t run_percent);

/* Between these two calls the calling thread works for one that has raised the gate, and is not held
 * back. */
void gy_bandwidth_exempt(void);
void gy_bandwidth_unexempt(void);
bool gy_bandwidth_is_exempt(void);

/* Threads that are being held back now. */
uint32_t gy_bandwidth_sleepers(void);

#endif
