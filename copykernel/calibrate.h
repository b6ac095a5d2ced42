/* SPDX-License-Identifier: MIT */
/* What the parts of the calibration share. */
#ifndef COPYKERNEL_CALIBRATE_H
#define COPYKERNEL_CALIBRATE_H

#include "copykernel/internal.h"

struct gy_copy_probe {
    struct gy_copier *copier;
    struct gy_context *context;
    CUstream stream;
    CUdeviceptr device[2]; /* most_bytes of each, of which all was written: the source, and the dest */
    void *pinned;          /* most_bytes */
    uint64_t most_bytes;
    gantry_copy_desc descs[64];
};

/* Put a batch into probe->descs.  False: this many copies do not fit. */
bool gy_copy_probe_batch(struct gy_copy_probe *probe, gantry_copy_type type, uint64_t bytes, uint32_t count);
/* The best time of the batch that is there, in ns. */
GANTRY_MUST_CHECK gantry_status gy_copy_probe_time(struct gy_copy_probe *probe, uint32_t count,
                                                   const gantry_copy_tuning *tuning, uint64_t *best);
/* Find the largest number of copies of this class up to which the engines are never slower than the kernel,
 * all else as in `base`.  *measured is false when not even one copy fits. */
GANTRY_MUST_CHECK gantry_status gy_copy_probe_class(struct gy_copy_probe *probe, gantry_copy_type type,
                                                    uint32_t size_class, const gantry_copy_tuning *base,
                                                    uint32_t *up_to, bool *measured);

/* calibrate_peers.c: the same for copies to and from each device that the copier's heap is let to.  The
 * probe's source is used. */
GANTRY_MUST_CHECK gantry_status gy_copy_probe_peers(struct gy_copy_probe *probe);

#endif
