/* SPDX-License-Identifier: MIT */
/* Copies and fills. */
#include "tests/conformance/differential/ops.h"

#include <string.h>

static CUresult fill(uint32_t kind, CUdeviceptr address, unsigned value, size_t count, CUstream stream)
{
    return kind == 0   ? ask(cuMemsetD8Async, address, (unsigned char)value, count, stream)
           : kind == 1 ? ask(cuMemsetD16Async, address, (unsigned short)value, count, stream)
                       : ask(cuMemsetD32Async, address, value, count, stream);
}

static void op_fill(void)
{
    size_t room, size;
    CUstream stream = df_stream();
    CUdeviceptr address = df_place_or_wild(&room);
    uint32_t kind = df_below(3);
    size = (size_t)1 << kind;
    size_t count = df_count(room, size);
    unsigned value = (unsigned)DF_PICK("v", 0, 1, 0xab, 0x1234, 0xdeadbeef, 0xffffffff);
    if (!df_stream_is_there()) {
        df_skip(DF_cuMemsetD8Async);
        return;
    }
    const bool is_foreign = df_is_foreign(df_home(), address);
    if (is_foreign) {
        df_shape("foreign");
        df_mark_as("foreign");
    }
    if (fill(kind, address, value, count, stream) == CUDA_SUCCESS) {
        w.has_foreign_fill |= is_foreign && df_is_capturing(stream);
    }
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Ranges that overlap are undefined: both ends of a copy lie in different arenas. */
static bool overlap(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    const bool is_refused = bytes > 64u * DF_ARENA;
    return bytes != 0 && !is_refused && to < from + bytes && from < to + bytes;
}

static void op_copy(void)
{
    size_t room, other;
    CUstream stream = df_stream();
    CUdeviceptr to = df_place_or_wild(&room);
    bool is_wild = df_is_wild();
    CUdeviceptr from = df_place_or_wild(&other);
    is_wild |= df_is_wild();
    size_t bytes = df_count(least(room, other), 1);
    CUcontext one = df_context(), two = df_context();
    uint32_t what = df_below(4);
    if (!df_stream_is_there() || overlap(to, from, bytes) ||
        (is_wild && what == 2)) { /* it may be the host's */
        df_skip(what < 2 ? DF_cuMemcpyDtoDAsync : what == 2 ? DF_cuMemcpyAsync : DF_cuMemcpyPeerAsync);
    } else if (what < 2) {
        ask(cuMemcpyDtoDAsync, to, from, bytes, stream);
    } else if (what == 2) {
        ask(cuMemcpyAsync, to, from, bytes, stream);
    } else {
        ask(cuMemcpyPeerAsync, to, one, from, two, bytes, stream);
    }
}

static void op_copy_host(void)
{
    size_t room, other;
    CUstream stream = df_stream();
    CUdeviceptr address = df_place_or_wild(&room);
    void *host = df_host(&other);
    size_t bytes = df_count(least(room, other), 1);
    bool is_to_device = df_choice("dir", 2) == 0;
    host = df_or_null(host);
    df_settle(); /* pageable memory may be read by the call, before what was enqueued writes it */
    if (!df_stream_is_there() || bytes > 2 * DF_ARENA ||
        overlap(address, (CUdeviceptr)(uintptr_t)host, bytes)) {
        df_skip(is_to_device ? DF_cuMemcpyHtoDAsync : DF_cuMemcpyDtoHAsync);
    } else if (is_to_device) {
        ask(cuMemcpyHtoDAsync, address, host, bytes, stream);
    } else {
        ask(cuMemcpyDtoHAsync, host, address, bytes, stream);
    }
}

static void op_copy_now(void)
{
    size_t room, other;
    w.picks_stream = false;
    CUdeviceptr address = df_place_or_wild(&room);
    void *host = df_host(&other);
    size_t bytes = df_count(least(room, other), 1);
    bool is_to_device = df_choice("dir", 2) == 0;
    if (bytes > 2 * DF_ARENA || overlap(address, (CUdeviceptr)(uintptr_t)host, bytes)) {
        df_skip(is_to_device ? DF_cuMemcpyHtoD : DF_cuMemcpyDtoH);
    } else if (is_to_device) {
        if (ask(cuMemcpyHtoD, address, host, bytes) == CUDA_SUCCESS) {
            df_wait_for(
                NULL); /* it may end before the device has the bytes, and no other stream would wait */
        }
    } else if (ask(cuMemcpyDtoH, host, address, bytes) == CUDA_SUCCESS) {
        df_look();
    }
}

static void op_batch(void)
{
    CUdeviceptr to[4], from[4];
    size_t bytes[4], starts[2] = {0, 0}, failed = 77, room, other;
    CUmemcpyAttributes attributes[2];
    CUstream stream = df_stream();
    size_t count = df_below(5), attribute_count = DF_PICK("attributes", 1, 1, 1, 1, 2, 0);
    df_shape("count%zu", count);
    memset(attributes, 0, sizeof(attributes));
    bool is_wrong = false;
    for (size_t i = 0; i < 4; i++) { /* each has a part of its own */
        size_t part = DF_ARENA / 8;
        to[i] = w.arena[df_below(DF_ARENAS)] + i * part;
        from[i] = w.arena[df_below(DF_ARENAS)] + (4 + i) * part;
        bytes[i] = i < count ? DF_PICK("bytes", 1, 4, 100, 256, 200, 16, 3, 0) : 1;
    }
    if (df_one_in(12)) {
        to[0] = df_place_or_wild(&room);
        other = DF_ARENA / 8;
        bytes[0] = df_count(least(room, other), 1);
        is_wrong = overlap(to[0], from[0], bytes[0]) ||
                   overlap(to[0], w.arena[0] + DF_ARENA / 2, bytes[0] + DF_ARENA / 2) ||
                   bytes[0] > DF_ARENA || df_is_wild();
        count = count != 0 ? 1 : 0;
    }
    attributes[0].srcAccessOrder =
        (CUmemcpySrcAccessOrder)DF_PICK("order", 1, 1, 1, 1, 2, 3, 0, 4, 0x7fffffff);
    attributes[0].flags = (unsigned)DF_PICK("flags", 0, 0, 0, 0, 1, 2);
    attributes[1] = attributes[0];
    starts[1] = DF_PICK("start", 1, 1, 0, 9);
    starts[0] = df_one_in(16) ? 1 : 0;
    df_shape("first%zu", starts[0]);
    if (!df_stream_is_there() || is_wrong) {
        df_skip(DF_cuMemcpyBatchAsync);
        return;
    }
    ask(cuMemcpyBatchAsync, to, from, bytes, count, attributes, starts, attribute_count, &failed, stream);
}

static void op_rows(void)
{
    CUstream stream = df_stream();
    CUDA_MEMCPY2D copy = {.srcMemoryType = (CUmemorytype)DF_PICK("from", 2, 2, 2, 1, 4, 0, 3, 5),
                          .dstMemoryType = (CUmemorytype)DF_PICK("to", 2, 2, 2, 1, 4, 0, 3, 5)};
    uint32_t one = df_below(2), two = 2;
    size_t half = DF_ARENA / 2;
    df_settle(); /* as above */
    copy.srcDevice = w.arena[one];
    copy.srcHost = w.pageable + half;
    copy.dstDevice = w.arena[two];
    copy.dstHost = w.pageable;
    copy.srcPitch = DF_PICK("spitch", 64, 32, 100, 8, 0, 64);
    copy.dstPitch = DF_PICK("dpitch", 64, 32, 100, 8, 0, 64);
    copy.WidthInBytes = DF_PICK("w", 8, 32, 16, 1, 0, 33, 64);
    copy.Height = DF_PICK("h", 1, 2, 4, 8, 0);
    copy.srcXInBytes = DF_PICK("sx", 0, 0, 0, 4);
    copy.dstY = DF_PICK("dy", 0, 0, 0, 1);
    if (!df_stream_is_there()) {
        df_skip(DF_cuMemcpy2DAsync);
        return;
    }
    ask(cuMemcpy2DAsync, df_or_null(&copy), stream);
}

const struct df_op df_ops_copy[] = {{12, op_fill}, {10, op_copy}, {8, op_copy_host}, {3, op_copy_now},
                                    {3, op_batch}, {3, op_rows},  {0, NULL}};
