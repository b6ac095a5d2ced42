/* SPDX-License-Identifier: MIT */
/* Spans of the host as NVTX ranges of a domain `gantry`, for tools that show those beside their own data.
 * Where a tool is injected ($NVTX_INJECTION64_PATH, or $GANTRY_NVTX), they are told from the first context or
 * recording on. */
#ifndef PROFILE_NVTX_H
#define PROFILE_NVTX_H

/* A context is being made, or a recording begins: from the first on, tell the tool, if there is one.  A
 * warning says that the one that is named cannot be used. */
void gy_nvtx_begin(void);
/* A recording has ended, and its sink is gone: spans go on being told. */
void gy_nvtx_end(void);

#endif
