/* SPDX-License-Identifier: MIT */
/* What `gantry doctor` found: one finding for each thing it looks at. */
#ifndef CLI_DOCTOR_H
#define CLI_DOCTOR_H

#include <gantry/base.h>

#include <stdbool.h>

enum finding_state {
    FINDING_OK,
    FINDING_ABSENT, /* something optional that is not there */
    FINDING_FAULT   /* programs do not run as they could */
};

struct finding {
    const char *name; /* a constant */
    enum finding_state state;
    char found[320];  /* the thing that was found, or the problem */
    char advice[240]; /* what to do about it; "": nothing */
};

#define MOST_FINDINGS 32

struct findings {
    const char *root; /* where /dev, /proc and /sys are: "" */
    struct finding at[MOST_FINDINGS];
    int count;
    bool has_device;             /* among the PCI devices, or as /dev/nvidia0 */
    bool has_cuda, has_emulator; /* such a driver works */
};

/* One more finding; `advice` is what to do about it. */
void cli_doctor_add(struct findings *findings, const char *name, enum finding_state state, const char *advice,
                    const char *format, ...) GANTRY_PRINTF(5, 6);

/* What each part of the command looks at. */
void cli_doctor_devices(struct findings *findings);
void cli_doctor_drivers(struct findings *findings);
void cli_doctor_tools(struct findings *findings);

#endif
