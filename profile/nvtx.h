/* Spans of the host as NVTX ranges, for tools that collect NVTX ranges beside their own data. */
#ifndef PROFILE_NVTX_H
#define PROFILE_NVTX_H

/* A recording begins: forward spans if the library is there. */
void gy_nvtx_begin(void);
/* The recording ends; ranges that are open are closed all the same. */
void gy_nvtx_end(void);

#endif
