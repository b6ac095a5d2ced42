/* Spans of the host as NVTX ranges, for tools that collect NVTX ranges beside their own data.  They are
 * forwarded while something is recorded, and where $GANTRY_NVTX says "always" from the first context on. */
#ifndef PROFILE_NVTX_H
#define PROFILE_NVTX_H

/* A recording begins: forward spans if the library is there. */
void gy_nvtx_begin(void);
/* The recording ends; ranges that are open are closed all the same. */
void gy_nvtx_end(void);

/* A context is being made: where $GANTRY_NVTX says "always", forward spans from now on, also while nothing is
 * recorded.  A warning says that there is no library. */
void gy_nvtx_enter(void);

#endif
