# SPDX-License-Identifier: MIT
"""RMM on Gantry's heap in several streams: buffers are compared byte for byte, and allocations are timed.

Usage: rmm_streams.py [STEPS]
"""
import sys
import time

import numpy
import rmm
from rmm.pylibrmm.stream import DEFAULT_STREAM, Stream

import gantry_rmm

STREAMS, SIZES = 4, (1000, 65536, 1000003, 8 << 20)


def work(streams, steps, wrong):
    """Each stream copies what it was given to a second buffer, frees the first one, and writes zeros where that may have been."""
    zeros = numpy.zeros(max(SIZES) + steps, dtype=numpy.uint8)
    for step in range(steps):
        size = SIZES[step % len(SIZES)] + step
        sent = [numpy.full(size, (step + i) % 251, dtype=numpy.uint8) for i in range(STREAMS)]
        buffers = []
        for stream, data in zip(streams, sent):
            first = rmm.DeviceBuffer.to_device(data, stream=stream)
            second = rmm.DeviceBuffer(size=size, stream=stream)
            second.copy_from_device(first, stream=stream)
            del first  # its memory may be used again on this stream while the copy is still on its way
            other = rmm.DeviceBuffer(size=size, stream=stream)
            other.copy_from_host(zeros[:size], stream=stream)
            buffers.append(second)
        for i, (stream, buffer) in enumerate(zip(streams, buffers)):
            if buffer.tobytes(stream=stream) != sent[i].tobytes():
                wrong.append((step, i))


def nanoseconds(resource, size, times=20000):
    """Of an allocation and its free."""
    resource.deallocate(resource.allocate(size, DEFAULT_STREAM), size, DEFAULT_STREAM)
    begin = time.perf_counter_ns()
    for _ in range(times):
        resource.deallocate(resource.allocate(size, DEFAULT_STREAM), size, DEFAULT_STREAM)
    return (time.perf_counter_ns() - begin) / times


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    theirs = rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource(), initial_pool_size=64 << 20)
    ours = gantry_rmm.resource()
    rmm.mr.set_current_device_resource(ours)
    wrong = []
    work([Stream() for _ in range(STREAMS)], steps, wrong)
    try:
        ours.allocate(1 << 50, DEFAULT_STREAM)
        wrong.append("2^50 bytes were allocated")
    except MemoryError as error:
        print(error)
    for size in (512, 1 << 20, 16 << 20):
        print(f"{size} bytes: {nanoseconds(ours, size):.0f} ns per allocation and free, RMM's pool {nanoseconds(theirs, size):.0f} ns")
    used, _, taken, most, count, _ = (gantry_rmm.library.gantry_torch_stat(0, what) for what in range(6))
    print(f"{count} allocations on Gantry's heap, {most >> 20} MiB taken at most, {taken >> 20} MiB now, {used} bytes in use")
    if wrong or used != 0 or count < 3 * STREAMS * steps:
        sys.exit(f"wrong: {wrong[:5]}, {used} bytes are still in use, {count} allocations")
    print("every result is right")


if __name__ == "__main__":
    main()
