/* SPDX-License-Identifier: MIT */
/* Descriptors that another API has exported, of memory or of a semaphore. */
#ifndef INTEROP_DESCRIPTOR_H
#define INTEROP_DESCRIPTOR_H

#include "base/status.h"

#include <sys/stat.h>

/* Refuse what no driver exports, for which drivers do not look; `what` is "memory" or "semaphore". */
GANTRY_MUST_CHECK gantry_status gy_descriptor_check(int fd, const char *label, const char *what,
                                                    struct stat *file);
/* A copy for the driver, which closes a descriptor that it takes: the caller's is closed on success only. */
GANTRY_MUST_CHECK gantry_status gy_descriptor_copy(int fd, const char *label, int *out);
/* Close a copy that the driver was given and has refused.  It closes some that it refuses (/dev/null,
 * driver 580), so the copy is closed here only while it is still the same file as the original. */
void gy_descriptor_close_refused(int given, int original);

#endif
