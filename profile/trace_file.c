/* SPDX-License-Identifier: MIT */
/* A file is locked as long as something is recorded into it (flock(2), which the system gives back when a
 * process ends): a second process, which may have the same $GANTRY_PROFILE, destroys nothing.
 *
 * With deflation, each write becomes one packet that holds the others (TracePacket.compressed_packets), so
 * the file is still whole after every write. */
#include "profile/trace_file.h"

#include "base/alloc.h"
#include "profile/packets.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#if GANTRY_HAS_ZLIB
#include <zlib.h>
#endif

/* ---- deflate ----------------------------------------------------------------------------------- */

/* The bytes for the heads of the packet and of the field in it: two lengths. */
#define HEADS_BYTES 32

#if GANTRY_HAS_ZLIB
size_t gy_trace_file_room(size_t bytes)
{
    return compressBound(bytes) + HEADS_BYTES;
}

size_t gy_trace_file_pack(const uint8_t *packets, size_t bytes, uint8_t *out)
{
    uLongf deflated = compressBound(bytes);
    if (bytes == 0 || compress2(out + HEADS_BYTES, &deflated, packets, bytes, Z_BEST_SPEED) != Z_OK) {
        return 0;
    }
    uint8_t inner[16], *i = gy_wire_varint(inner, PACKET_COMPRESSED << 3 | 2);
    i = gy_wire_varint(i, deflated);
    uint8_t *o = gy_wire_varint(out, PACKET << 3 | 2);
    o = gy_wire_varint(o, (uint64_t)(i - inner) + deflated);
    memcpy(o, inner, (size_t)(i - inner));
    o += i - inner;
    memmove(o, out + HEADS_BYTES, deflated);
    return (size_t)(o - out) + deflated;
}
#else
size_t gy_trace_file_room(size_t bytes)
{
    return bytes;
}

size_t gy_trace_file_pack(const uint8_t *packets, size_t bytes, uint8_t *out)
{
    (void)packets;
    (void)bytes;
    (void)out;
    return 0;
}
#endif

/* ---- the file ---------------------------------------------------------------------------------- */

static _Thread_local int claimed; /* a descriptor + 1; 0: none */

/* Lock the file for this process.  A pipe or a device needs no lock, and some file systems know none. */
static bool lock_file(int fd)
{
    struct stat info;
    return fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || flock(fd, LOCK_EX | LOCK_NB) == 0 ||
           errno != EWOULDBLOCK;
}

/* Open and lock the file, and leave it as it is; -1: errno says why this failed, EWOULDBLOCK that another
 * process records into it. */
static int open_for_writing(const char *path)
{
    /* A pipe that nobody reads is refused (ENXIO) instead of waited for. */
    int fd = open(path, O_WRONLY | O_CREAT | O_NONBLOCK | O_CLOEXEC, 0666);
    int flags = fd >= 0 ? fcntl(fd, F_GETFL) : -1;
    if (fd >= 0 && (flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) != 0 || !lock_file(fd))) {
        int why = errno;
        close(fd);
        errno = why;
        return -1;
    }
    return fd;
}

bool gy_trace_file_claim(const char *path)
{
    int fd = open_for_writing(path);
    claimed = fd + 1;
    return fd >= 0 || errno != EWOULDBLOCK;
}

void gy_trace_file_unclaim(void)
{
    if (claimed != 0) {
        close(claimed - 1);
    }
    claimed = 0;
}

/* Open the file, or take the one that was claimed, and empty it; -1: errno says why this failed. */
static int open_empty(const char *path)
{
    struct stat info;
    int fd = claimed != 0 ? claimed - 1 : open_for_writing(path);
    claimed = 0;
    if (fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && ftruncate(fd, 0) != 0) {
        int why = errno;
        close(fd);
        errno = why;
        return -1;
    }
    return fd;
}

static const char *why_not_created(int why)
{
    return why == ENXIO         ? "a pipe that nobody reads"
           : why == EWOULDBLOCK ? "another process records into it"
                                : strerrordesc_np(why);
}

gantry_status gy_trace_file_open(struct gy_trace_file *file, const char *path, bool compress)
{
    file->path = gy_strdup(path);
    if (file->path == NULL) {
        gy_trace_file_unclaim();
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "profile: no memory for a trace writer");
    }
    file->fd = open_empty(path);
    if (file->fd < 0) {
        gantry_status status =
            GY_FAIL(GANTRY_ERR_IO, "profile: cannot create %s: %s", path, why_not_created(errno));
        gy_free(file->path);
        return status;
    }
    file->compresses = compress && GANTRY_HAS_ZLIB;
    if (compress && !file->compresses) {
        gy_log(GANTRY_LOG_INFO, "profile: %s is not compressed, there is no zlib in this build", path);
    }
    return GANTRY_OK;
}

void gy_trace_file_write(struct gy_trace_file *file, const uint8_t *at, size_t left)
{
    while (left > 0 && file->error.status == GANTRY_OK) {
        ssize_t done = write(file->fd, at, left);
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done <= 0) {
            GY_FAIL(GANTRY_ERR_IO, "profile: cannot write %s: %s", file->path,
                    done == 0 ? "no progress" : strerrordesc_np(errno));
            file->error = *gy_error_last();
            return;
        }
        at += done;
        left -= (size_t)done;
        file->bytes += (uint64_t)done;
    }
}

gantry_status gy_trace_file_close(struct gy_trace_file *file, uint64_t *bytes)
{
    gantry_status status = GANTRY_OK;
    (void)flock(file->fd, LOCK_UN); /* a forked child may have the descriptor still */
    /* After EINTR from close() on Linux, the descriptor is gone, and the data was written before. */
    if (close(file->fd) != 0 && errno != EINTR && file->error.status == GANTRY_OK) {
        status = GY_FAIL(GANTRY_ERR_IO, "profile: cannot close %s: %s", file->path, strerrordesc_np(errno));
    } else if (file->error.status != GANTRY_OK) {
        status = gy_error_adopt(&file->error);
    }
    if (status == GANTRY_OK && bytes != NULL) {
        *bytes = file->bytes;
    }
    gy_free(file->path);
    return status;
}
