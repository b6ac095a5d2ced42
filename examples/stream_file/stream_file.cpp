/* SPDX-License-Identifier: MIT */
// A file in chunks through the device, in as much memory as some chunks take.  Nobody writes an edge: the order comes
// from what tasks read and write, so a buffer is used again when its last reader has passed.
#include "stream_file.kernels.h"

#include <gantry/gantry.hpp>
#include <cstdio>
#include <iostream>
#include <unistd.h>

using number = std::uint32_t;
constexpr std::size_t count = 4096, bytes = count * sizeof(number), chunks = 32;

/* The sum of what the kernels make of the numbers in the file. */
static number stream(const gantry::context &context, int file, std::size_t buffers)
{
    const gantry::kernel_module code(context, gantry_image_stream_file);
    const gantry::kernel square = code.get_kernel("square"), add_index = code.get_kernel("add_index");
    const gantry::pinned_ring<number> pages(context, count, buffers);
    const gantry::device_ring<number> blocks(context, count, buffers);
    gantry::cpu_dispatcher workers;
    gantry::manager graph(context, workers);
    number sum = 0;
    for (std::size_t i = 0; i < chunks; i++) {
        const auto page = pages.next();
        const auto block = blocks.next();
        const auto at = static_cast<off_t>(i * bytes);
        const auto read = [=] { return pread(file, page.data(), bytes, at) == bytes ? GANTRY_OK : GANTRY_ERR_IO; };
        const auto run = [=](gantry::launch l, gantry::kernel kernel) {
            l.run(kernel, gantry::shape_for(count), block, static_cast<number>(count));
        };
        const auto add_up = [=, &sum] {
            for (const number value : page) {
                sum += value;
            }
        };
        graph.cpu("read", read).writes(page);
        graph.htod("upload", [=](gantry::launch l) { l.copy(block, page); }).reads(page).writes(block);
        graph.kernel("square", [=](gantry::launch l) { run(l, square); }).writes(block);
        graph.kernel("add index", [=](gantry::launch l) { run(l, add_index); }).writes(block);
        graph.dtoh("download", [=](gantry::launch l) { l.copy(page, block); }).reads(block).writes(page);
        graph.cpu("checksum", add_up).reads(page).writes(gantry::span(&sum, 1));
    }
    graph.run();
    return sum;
}

int main()
{
    const gantry::context context;
    std::FILE *file = std::tmpfile();
    for (number i = 0; i < count * chunks; i++) {
        std::fwrite(&i, sizeof(i), 1, file);
    }
    std::fflush(file);
    for (const std::size_t buffers : {2, 8}) {
        std::cout << buffers << " buffers: the sum is " << stream(context, fileno(file), buffers) << "\n";
    }
    return std::fclose(file);
}
