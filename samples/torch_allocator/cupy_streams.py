# SPDX-License-Identifier: MIT
"""CuPy on Gantry's heap in several streams and threads: results are compared with NumPy's, and allocations are timed.

Usage: cupy_streams.py [STEPS]
"""
import sys
import threading
import time

import cupy
import numpy

STREAMS, SIZES = 4, (1000, 65536, 262144, 1048576)


def work(stream, seed, steps, wrong):
    """Arrays that come and go, in sizes that take turns: each is allocated while the one before is still being used."""
    with stream:
        for step in range(steps):
            size = SIZES[(seed + step) % len(SIZES)] + step
            numbers = cupy.arange(size, dtype=cupy.int64) + seed
            doubled = numbers * 2
            del numbers  # what comes next on this stream may use its memory
            total = int((doubled + step).sum())
            if total != int((numpy.arange(size, dtype=numpy.int64) + seed).sum()) * 2 + step * size:
                wrong.append((seed, step, total))


def hand_over(streams, wrong):
    """An array is made on one stream, used on the next one, and freed when that one is done."""
    for turn in range(64):
        first, second = streams[turn % STREAMS], streams[(turn + 1) % STREAMS]
        with first:
            numbers = cupy.full(300000, turn, dtype=cupy.int64)
            made = first.record()
        with second:
            second.wait_event(made)
            total = numbers.sum()
            first.wait_event(second.record())
            del numbers
            if int(total) != 300000 * turn:
                wrong.append(("hand over", turn, int(total)))


def nanoseconds(allocate, size, times=20000):
    """Of an allocation and its free."""
    allocate(size)
    begin = time.perf_counter_ns()
    for _ in range(times):
        allocate(size)
    return (time.perf_counter_ns() - begin) / times


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    theirs = cupy.cuda.MemoryPool().malloc
    import gantry_cupy  # from now on CuPy allocates on Gantry's heap
    ours = cupy.cuda.get_allocator()
    wrong = []
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(STREAMS)]
    threads = [threading.Thread(target=work, args=(stream, 1 + i, steps, wrong)) for i, stream in enumerate(streams)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    hand_over(streams, wrong)
    try:
        cupy.cuda.alloc(1 << 50)
        wrong.append("2^50 bytes were allocated")
    except cupy.cuda.memory.OutOfMemoryError as error:
        print(error)
    for size in (512, 1 << 20, 16 << 20):
        print(f"{size} bytes: {nanoseconds(ours, size):.0f} ns per allocation and free, CuPy's pool {nanoseconds(theirs, size):.0f} ns")
    used, _, taken, most, count, _ = (gantry_cupy.library.gantry_torch_stat(0, what) for what in range(6))
    print(f"{count} allocations on Gantry's heap, {most >> 20} MiB taken at most, {taken >> 20} MiB now, {used} bytes in use")
    if wrong or used != 0 or count < STREAMS * steps:
        sys.exit(f"wrong: {wrong[:5]}, {used} bytes are still in use, {count} allocations")
    print("every result is right")


if __name__ == "__main__":
    main()
