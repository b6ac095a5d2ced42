/* SPDX-License-Identifier: MIT */
/* The file of a trace, which takes whole packets and may deflate them.
 *
 * Threading: one thread at a time; any thread may pack. */
#ifndef PROFILE_TRACE_FILE_H
#define PROFILE_TRACE_FILE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gy_trace_file {
    int fd;
    bool compresses; /* immutable once open */
    char *path;
    struct gy_error error; /* the error of the first failed write; status GANTRY_OK before */
    uint64_t bytes;        /* bytes in the file */
};

/* Open the file for the gy_trace_file_open() that follows on this thread; false: another process records into
 * it.  Where it cannot be opened this is true, and gy_trace_file_open() says why. */
bool gy_trace_file_claim(const char *path);
/* Give the file back that was claimed and not opened; does nothing when there is none. */
void gy_trace_file_unclaim(void);

/* Create the file; an existing one is emptied, unless another process records into it.  With `compress`,
 * packets are to be packed, if the library was built with zlib.  `file` is all zero before.
 * @retval GANTRY_ERR_IO, GANTRY_ERR_OUT_OF_HOST_MEMORY  there is nothing to close; nor is a claim left */
GANTRY_MUST_CHECK gantry_status gy_trace_file_open(struct gy_trace_file *file, const char *path,
                                                   bool compress);

/* The room that gy_trace_file_pack() needs for this many bytes. */
size_t gy_trace_file_room(size_t bytes);
/* Deflate whole packets into one packet; 0: it does not work or gains nothing.  Any thread. */
size_t gy_trace_file_pack(const uint8_t *packets, size_t bytes, uint8_t *out);

/* Write whole packets.  The first failure is logged and kept, and nothing is written after it. */
void gy_trace_file_write(struct gy_trace_file *file, const uint8_t *packets, size_t bytes);

/* Close and free.  `bytes` (may be NULL) gets the size of the file, on success.
 * @retval GANTRY_ERR_IO  now or at an earlier write */
gantry_status gy_trace_file_close(struct gy_trace_file *file, uint64_t *bytes);

#endif
