/* SPDX-License-Identifier: MIT */
#include "cli/trace_file.h"

#include "cli/interrupt.h"
#include "cli/messages.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#if GANTRY_HAS_ZLIB
#include <zlib.h>
#endif

#define FORGET_BYTES (8u << 20)         /* pages are given back after so many bytes; whole pages */
#define LOOK_BYTES (1u << 20)           /* the progress is shown after so many bytes */
#define MOST_INFLATED_BYTES (64u << 20) /* of one packet */
#define JSON_BYTES 4096u                /* in which a trace in JSON shows what it is */

enum { PACKET = 1, PACKET_COMPRESSED = 50 };

/* ---- fields ------------------------------------------------------------------------------------ */

static inline bool read_varint(struct span *span, uint64_t *out)
{
    if (span->at < span->end && *span->at < 0x80) { /* most numbers have one byte */
        *out = *span->at++;
        return true;
    }
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && span->at < span->end; shift += 7) {
        uint8_t byte = *span->at++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *out = value;
            return true;
        }
    }
    return false;
}

bool cli_next_field(struct span *span, struct field *field)
{
    uint64_t key, length;
    if (span->at == NULL || span->at >= span->end) {
        return false;
    }
    if (!read_varint(span, &key)) {
        span->at = NULL;
        return false;
    }
    field->number = (uint32_t)(key >> 3);
    field->bytes = (struct span){NULL, NULL};
    field->value = 0;
    switch (key & 7) {
    case 0:
        if (read_varint(span, &field->value)) {
            return true;
        }
        break;
    case 1:
        if (span->end - span->at >= 8) {
            for (unsigned i = 0; i < 8; i++) {
                field->value |= (uint64_t)span->at[i] << 8 * i;
            }
            span->at += 8;
            return true;
        }
        break;
    case 2:
        if (read_varint(span, &length) && length <= (uint64_t)(span->end - span->at)) {
            field->bytes = (struct span){span->at, span->at + length};
            span->at += length;
            return true;
        }
        break;
    default:
        break;
    }
    span->at = NULL;
    return false;
}

static bool begins_with(struct span span, const char *text, size_t bytes)
{
    return (size_t)(span.end - span.at) >= bytes && memcmp(span.at, text, bytes) == 0;
}

/* Is it a trace in Chrome's JSON format: an object with "traceEvents", or the array of these events alone? */
static bool is_chrome_json(struct span span)
{
    static const char *const keys[] = {"\"traceEvents\"", "\"ph\""};
    const size_t bytes = (size_t)(span.end - span.at), looked = bytes < JSON_BYTES ? bytes : JSON_BYTES;
    const uint8_t *at = span.at;
    while (at < span.at + looked && strchr(" \t\r\n", *at) != NULL && *at != 0) {
        at++;
    }
    if (at == span.at + looked || (*at != '{' && *at != '[')) {
        return false;
    }
    return memmem(span.at, looked, keys[0], strlen(keys[0])) != NULL ||
           memmem(span.at, looked, keys[1], strlen(keys[1])) != NULL;
}

/* What a file is that does not begin as a recording: with a packet that lies within it, or is cut off by its
 * end.  NULL: it does. */
static const char *no_recording(struct span span)
{
    static const char heap[] = "{\"gantry_heap\"", gzip[] = "\x1f\x8b", zstd[] = "\x28\xb5\x2f\xfd";
    if (begins_with(span, heap, sizeof(heap) - 1)) {
        return "no Gantry recording; this looks like a heap: gantry report heap FILE";
    }
    if (begins_with(span, gzip, sizeof(gzip) - 1)) {
        return "compressed by gzip; unpack it first: gunzip --keep FILE";
    }
    if (begins_with(span, zstd, sizeof(zstd) - 1)) {
        return "compressed by zstd; unpack it first: unzstd FILE";
    }
    if (is_chrome_json(span)) {
        return "no Gantry recording; this looks like a trace in Chrome's JSON format, which "
               "https://ui.perfetto.dev opens";
    }
    return *span.at != (PACKET << 3 | 2) ? "no Gantry recording" : NULL;
}

/* ---- packets ----------------------------------------------------------------------------------- */

struct file {
    bool (*packet)(void *user, struct span span);
    void *user;
    const char *wrong;
    uint64_t cut; /* bytes of a packet whose rest is not in the file */
    bool ended;   /* packet() wants no more, or Ctrl-C came */
    const char *path;
    uint64_t unread; /* bytes, since Ctrl-C came */
};

static void read_packets(struct file *file, struct span span, bool is_inner);

#if GANTRY_HAS_ZLIB
/* The length is unknown: try again with twice the room until it fits. */
static void read_deflated(struct file *file, struct span span)
{
    int result = Z_BUF_ERROR;
    for (size_t room = 1u << 18; result == Z_BUF_ERROR && room <= MOST_INFLATED_BYTES; room *= 2) {
        uint8_t *inflated = malloc(room);
        if (inflated == NULL) {
            file->wrong = "out of memory";
            return;
        }
        uLongf bytes = room;
        result = uncompress(inflated, &bytes, span.at, (uLong)(span.end - span.at));
        if (result == Z_OK) {
            read_packets(file, (struct span){inflated, inflated + bytes}, true);
        }
        free(inflated);
    }
    if (result != Z_OK) {
        file->wrong = "a compressed packet that cannot be inflated";
    }
}
#else
static void read_deflated(struct file *file, struct span span)
{
    (void)span;
    file->wrong = "the file is compressed, and this build has no zlib";
}
#endif

/* Does the packet contain other packets?  Then it contains nothing else. */
static bool is_compressed(struct span packet, struct span *inner)
{
    struct field field;
    if (packet.at == packet.end || *packet.at != (uint8_t)((PACKET_COMPRESSED << 3 | 2) | 0x80)) {
        return false;
    }
    bool found =
        cli_next_field(&packet, &field) && field.number == PACKET_COMPRESSED && field.bytes.at != NULL;
    *inner = field.bytes;
    return found;
}

/* Now and then: show how far it is, and look whether to go on. */
static void pause_reading(struct file *file, size_t done, size_t left)
{
    cli_progress("%s: read %.0f of %.0f MB, Ctrl-C ends this", file->path, (double)done / 1e6,
                 (double)(done + left) / 1e6);
    if (cli_interrupts_reading_ends()) {
        file->ended = true;
        file->unread = left;
    }
}

static void read_packets(struct file *file, struct span span, bool is_inner)
{
    const uint8_t *first = span.at, *kept = first, *last = first, *looked = first;
    struct field field;
    while (file->wrong == NULL && !file->ended && cli_next_field(&span, &field)) {
        struct span inner;
        last = span.at;
        if (field.number != PACKET || field.bytes.at == NULL) {
            file->wrong = "no Gantry recording: not a Perfetto trace";
        } else if (!is_inner && is_compressed(field.bytes, &inner)) {
            read_deflated(file, inner);
        } else {
            file->ended = !file->packet(file->user, field.bytes);
        }
        if (!is_inner && span.at != NULL && (size_t)(span.at - kept) >= 2 * FORGET_BYTES) {
            (void)madvise((void *)(uintptr_t)kept, FORGET_BYTES, MADV_DONTNEED);
            kept += FORGET_BYTES;
        }
        if (!is_inner && span.at != NULL && (size_t)(span.at - looked) >= LOOK_BYTES && !file->ended) {
            pause_reading(file, (size_t)(span.at - first), (size_t)(span.end - span.at));
            looked = span.at;
        }
    }
    if (span.at == NULL && file->wrong == NULL && !is_inner && last != first) {
        file->cut = (uint64_t)(span.end - last); /* the program that wrote it was killed meanwhile */
    } else if (span.at == NULL && file->wrong == NULL) {
        file->wrong = "the file ends within a packet";
    }
}

const char *cli_trace_file_read(const char *path, bool (*packet)(void *user, struct span span), void *user,
                                struct trace_rest *rest)
{
    struct file file = {.packet = packet, .user = user, .path = path};
    /* O_NONBLOCK: opening a pipe does not wait for its writer. */
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    struct stat info;
    bool is_file = fd >= 0 && fstat(fd, &info) == 0;
    int why = errno;
    if (!is_file || !S_ISREG(info.st_mode)) {
        if (fd >= 0) {
            close(fd);
        }
        return is_file ? "no regular file" : strerrordesc_np(why);
    }
    size_t bytes = (size_t)info.st_size;
    uint8_t *data = bytes != 0 ? mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    why = errno;
    close(fd);
    if (data == MAP_FAILED) {
        return bytes == 0 ? "empty, nothing was recorded" : strerrordesc_np(why);
    }
    (void)madvise(data, bytes, MADV_SEQUENTIAL);
    file.wrong = no_recording((struct span){data, data + bytes});
    read_packets(&file, (struct span){data, data + bytes}, false);
    cli_progress_end();
    munmap(data, bytes);
    *rest = (struct trace_rest){file.cut, file.unread};
    return file.wrong;
}
