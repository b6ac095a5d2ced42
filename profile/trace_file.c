/* Deflated, each write becomes one packet that holds the others (TracePacket.compressed_packets), so the file
 * is still whole after every write. */
#include "profile/trace_file.h"

#include "base/alloc.h"
#include "profile/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#if GANTRY_HAS_ZLIB
#include <zlib.h>
#endif

enum { PACKET = 1, PACKET_COMPRESSED = 50 };

/* ---- deflate ----------------------------------------------------------------------------------- */

#if GANTRY_HAS_ZLIB
static bool open_deflate(struct gy_trace_file *file, size_t bytes)
{
    file->deflated_room = compressBound(bytes);
    file->deflated = gy_zalloc(file->deflated_room);
    return file->deflated != NULL;
}

/* Into file->deflated; 0 when it does not work. */
static size_t deflate_packets(struct gy_trace_file *file, const uint8_t *packets, size_t bytes)
{
    uLongf deflated = file->deflated_room;
    return compress2(file->deflated, &deflated, packets, bytes, Z_BEST_SPEED) == Z_OK ? deflated : 0;
}
#else
static bool open_deflate(struct gy_trace_file *file, size_t bytes)
{
    (void)bytes;
    gy_log(GANTRY_LOG_INFO, "profile: %s is not compressed, there is no zlib in this build", file->path);
    return true;
}

static size_t deflate_packets(struct gy_trace_file *file, const uint8_t *packets, size_t bytes)
{
    (void)file;
    (void)packets;
    (void)bytes;
    return 0;
}
#endif

/* ---- the file ---------------------------------------------------------------------------------- */

gantry_status gy_trace_file_open(struct gy_trace_file *file, const char *path, size_t compress)
{
    gantry_status status = GANTRY_OK;
    file->path = gy_strdup(path);
    if (file->path == NULL || (compress != 0 && !open_deflate(file, compress))) {
        status = GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "profile: no memory for a trace writer");
        goto free_all;
    }
    file->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file->fd < 0) {
        status = GY_FAIL(GANTRY_ERR_IO, "profile: cannot create %s: %s", path, strerrordesc_np(errno));
        goto free_all;
    }
    return GANTRY_OK;
free_all:
    gy_free(file->deflated);
    gy_free(file->path);
    return status;
}

static void write_all(struct gy_trace_file *file, const uint8_t *at, size_t left)
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

void gy_trace_file_write(struct gy_trace_file *file, const uint8_t *packets, size_t bytes)
{
    size_t deflated = bytes != 0 && file->deflated != NULL ? deflate_packets(file, packets, bytes) : 0;
    if (deflated == 0) {
        write_all(file, packets, bytes);
        return;
    }
    uint8_t inner[16], outer[16];
    uint8_t *i = gy_wire_varint(inner, PACKET_COMPRESSED << 3 | 2);
    i = gy_wire_varint(i, deflated);
    uint8_t *o = gy_wire_varint(outer, PACKET << 3 | 2);
    o = gy_wire_varint(o, (uint64_t)(i - inner) + deflated);
    write_all(file, outer, (size_t)(o - outer));
    write_all(file, inner, (size_t)(i - inner));
    write_all(file, file->deflated, deflated);
}

gantry_status gy_trace_file_close(struct gy_trace_file *file, uint64_t *bytes)
{
    gantry_status status = GANTRY_OK;
    /* EINTR of close() on Linux: the descriptor is gone, and the data was written before. */
    if (close(file->fd) != 0 && errno != EINTR && file->error.status == GANTRY_OK) {
        status = GY_FAIL(GANTRY_ERR_IO, "profile: cannot close %s: %s", file->path, strerrordesc_np(errno));
    } else if (file->error.status != GANTRY_OK) {
        status = gy_error_adopt(&file->error);
    }
    if (status == GANTRY_OK && bytes != NULL) {
        *bytes = file->bytes;
    }
    gy_free(file->deflated);
    gy_free(file->path);
    return status;
}
