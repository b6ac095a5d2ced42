/* SPDX-License-Identifier: MIT */
/* Two task managers with shares on one device, both with more work than they may do. */
#ifndef TWO_TENANTS_TENANTS_H
#define TWO_TENANTS_TENANTS_H

#include <gantry/gantry.h>

enum { TENANTS = 2 };

enum tenants_way {
    TENANTS_STREAMS, /* one launch after another */
    TENANTS_GRAPHS,  /* captured and launched as graphs */
    TENANTS_REPLAY,  /* a frozen graph of stable tasks, launched again and again */
    TENANTS_WAYS
};

struct tenants_settings {
    gantry_driver_choice driver;
    uint32_t ways; /* bit w: in way w */
    double percent[TENANTS];
    double seconds;
    uint64_t kernel_ns;       /* how long a kernel runs on the device */
    uint64_t told_ns;         /* what the kernel is told: 0 where the device's clock is moved by hand */
    uint64_t (*now_ns)(void); /* the host's clock, which shares are kept by */
    void (*begins)(enum tenants_way way, double seconds); /* a way; NULL: nobody wants to know */
};

struct tenant_result {
    double target;     /* all of the device's time, 1: all of it */
    double charged;    /* as the library has measured it */
    double by_kernels; /* kernels times their length */
    double throttled;  /* of the time, tasks were held back for want of GPU time */
    uint64_t kernels;
    gantry_share_usage usage; /* since the tenant was made */
};

struct tenants_result {
    char device[128];
    bool emulated;
    struct {
        struct tenant_result tenants[TENANTS];
        uint64_t graphs; /* launched, replays included */
    } ways[TENANTS_WAYS];
};

/* All the ways in one context.  False, told on stderr, when something failed or kernels were lost. */
bool gantry_sample_tenants_run(const struct tenants_settings *settings, struct tenants_result *out);

#endif
