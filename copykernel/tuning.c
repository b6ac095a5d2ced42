/* SPDX-License-Identifier: MIT */
/* The choice between kernel and copy engines.
 *
 * A copy engine fills the link better than the kernel can (55 against 51 GB/s from host memory on an H200)
 * and takes no multiprocessor, but every copy costs about 4 us.  So the size of the copies decides first,
 * then their number. */
#include "copykernel/tuning.h"

#include "base/status.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { PEER_BLOCKS = 8 };
enum { FIRST_CLASS_SHIFT = 16 }; /* class 1 begins at 64 KiB */

void gy_copy_tuning_defaults(gantry_copy_tuning *out)
{
    *out = (gantry_copy_tuning){.struct_size = sizeof(*out),
                                .host_blocks = GY_COPY_HOST_BLOCKS,
                                .host_threads = GY_COPY_HOST_THREADS,
                                .dtoh_blocks = GY_COPY_HOST_BLOCKS,
                                .misaligned = GANTRY_COPY_MISALIGNED_KERNEL};
    for (uint32_t c = 1; c < GANTRY_COPY_SIZE_CLASSES; c++) {
        out->engine_up_to[GANTRY_COPY_HTOD][c] = c == 1 ? 2 : UINT32_MAX;
        out->engine_up_to[GANTRY_COPY_DTOH][c] = c == 1 ? 2 : UINT32_MAX;
    }
    out->engine_up_to[GANTRY_COPY_DTOD][GANTRY_COPY_SIZE_CLASSES - 1] = UINT32_MAX;
}

/* Two H200: 8 blocks fill the link; of less than 64 KiB they are quicker than an engine, from 1 MiB on never.
 */
void gy_copy_peer_defaults(gantry_copy_peer_tuning *out)
{
    *out = (gantry_copy_peer_tuning){.struct_size = sizeof(*out), .blocks = PEER_BLOCKS};
    for (uint32_t c = 0; c < GANTRY_COPY_SIZE_CLASSES; c++) {
        out->engine_up_to[0][c] = out->engine_up_to[1][c] = c <= 2 ? c : UINT32_MAX;
    }
}

void gy_copy_tuning_between(gantry_copy_tuning *tuning, const gantry_copy_peer_tuning *peer, bool is_pull,
                            uint32_t multiprocessors)
{
    if (tuning->device_blocks == 0) {
        tuning->device_blocks = multiprocessors < peer->blocks ? multiprocessors : peer->blocks;
    }
    memcpy(tuning->engine_up_to[GANTRY_COPY_DTOD], peer->engine_up_to[is_pull],
           sizeof(peer->engine_up_to[0]));
}

gantry_status gy_copy_tuning_complete(gantry_copy_tuning *tuning)
{
    if (tuning->host_blocks > GY_COPY_MOST_HOST_BLOCKS || tuning->dtoh_blocks > GY_COPY_MOST_HOST_BLOCKS) {
        bool is_host = tuning->host_blocks > GY_COPY_MOST_HOST_BLOCKS;
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "copy tuning: %s_blocks is %u, more than %u",
                       is_host ? "host" : "dtoh", is_host ? tuning->host_blocks : tuning->dtoh_blocks,
                       GY_COPY_MOST_HOST_BLOCKS);
    }
    if (tuning->host_threads % 32 != 0 || tuning->host_threads > GY_COPY_BIG_BLOCK) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                       "copy tuning: host_threads is %u, not a multiple of 32 up to %u", tuning->host_threads,
                       GY_COPY_BIG_BLOCK);
    }
    if (tuning->misaligned > GANTRY_COPY_MISALIGNED_ENGINE) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "copy tuning: misaligned is %u, which is unknown",
                       tuning->misaligned);
    }
    tuning->misaligned =
        tuning->misaligned != 0 ? tuning->misaligned : (uint32_t)GANTRY_COPY_MISALIGNED_KERNEL;
    tuning->host_threads = tuning->host_threads != 0 ? tuning->host_threads : GY_COPY_HOST_THREADS;
    tuning->host_blocks = tuning->host_blocks != 0 ? tuning->host_blocks : GY_COPY_HOST_BLOCKS;
    tuning->dtoh_blocks = tuning->dtoh_blocks != 0 ? tuning->dtoh_blocks : tuning->host_blocks;
    return GANTRY_OK;
}

uint32_t gy_copy_size_class(uint64_t bytes)
{
    uint32_t size_class = 0;
    while (size_class < GANTRY_COPY_SIZE_CLASSES - 1 && bytes >> (FIRST_CLASS_SHIFT + 2 * size_class) != 0) {
        size_class++;
    }
    return size_class;
}

uint64_t gy_copy_class_bytes(uint32_t size_class)
{
    return (uint64_t)1 << (FIRST_CLASS_SHIFT - 2 + 2 * size_class);
}

bool gy_copy_engines_take(const gantry_copy_tuning *tuning, uint64_t count, uint64_t smallest, int direction)
{
    return count <= tuning->engine_up_to[direction][gy_copy_size_class(smallest)];
}

bool gy_copy_prefers_engine(const gantry_copy_tuning *tuning, const struct gy_copy_item *items, size_t count,
                            int direction)
{
    if (direction < 0) {
        return false;
    }
    uint64_t smallest = items[0].bytes;
    for (size_t i = 1; i < count; i++) {
        smallest = items[i].bytes < smallest ? items[i].bytes : smallest;
    }
    return gy_copy_engines_take(tuning, count, smallest, direction);
}

/* ---- text ---------------------------------------------------------------------------------------- */

struct text {
    char *at;
    size_t room, length; /* `length` also counts what had no room */
};

static void GANTRY_PRINTF(2, 3) add(struct text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    size_t used = text->length < text->room ? text->length : text->room;
    int written = vsnprintf(text->room > used ? text->at + used : NULL, text->room - used, format, args);
    va_end(args);
    text->length += written > 0 ? (size_t)written : 0;
}

size_t gantry_copy_tuning_text(const gantry_copy_tuning *tuning, char *text, size_t room)
{
    static const char *const directions[] = {"HtoD", "DtoH", "DtoD"};
    static const char *const sizes[GANTRY_COPY_SIZE_CLASSES] = {"< 64 KiB", "64 KiB", "256 KiB", "1 MiB",
                                                                "4 MiB",    "16 MiB", "64 MiB",  "256 MiB"};
    struct text out = {text, room, 0};
    if (room > 0) {
        text[0] = '\0';
    }
    if (tuning == NULL) {
        return 0;
    }
    add(&out, "blocks: HtoD %" PRIu32 " and DtoH %" PRIu32 " of %" PRIu32 " threads, device ",
        tuning->host_blocks, tuning->dtoh_blocks, tuning->host_threads);
    if (tuning->device_blocks == 0) {
        add(&out, "all\n");
    } else {
        add(&out, "%" PRIu32 "\n", tuning->device_blocks);
    }
    add(&out, "copies per batch that go to the copy engines at most (%s):\n        ",
        tuning->measured != 0 ? "measured" : "preset");
    for (uint32_t c = 0; c < GANTRY_COPY_SIZE_CLASSES; c++) {
        add(&out, " %9s", sizes[c]);
    }
    for (uint32_t d = 0; d < 3; d++) {
        add(&out, "\n%-8s", directions[d]);
        for (uint32_t c = 0; c < GANTRY_COPY_SIZE_CLASSES; c++) {
            if (tuning->engine_up_to[d][c] == UINT32_MAX) {
                add(&out, " %9s", "all");
            } else {
                add(&out, " %9" PRIu32, tuning->engine_up_to[d][c]);
            }
        }
    }
    add(&out, "\nof these, DtoD whose sides are aligned differently: %s\n",
        tuning->misaligned == GANTRY_COPY_MISALIGNED_ENGINE ? "the copy engines" : "the kernel");
    return out.length;
}
