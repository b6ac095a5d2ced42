/* SPDX-License-Identifier: MIT */
/* Step 3: the kernel is built by gantry_add_kernels(), and launched by Gantry: this runs without a GPU, too.
 */
#include "histogram.kernels.hpp"
#include <cstdio>
#include <gantry/gantry.hpp>
constexpr std::uint32_t COUNT = 100000, BINS = 256, INPUTS = 4, THREADS = 256, BLOCKS = 64;

int main()
{
    const gantry::context context;
    const gantry::kernel_module code(context, gantry_image_histogram);
    const auto histogram = code.get<gantry::kernels::histogram::histogram>();
    gantry::pinned_memory<std::uint8_t> data(context, COUNT);
    gantry::pinned_memory<std::uint32_t> bins(context, BINS);
    gantry::device_memory<std::uint8_t> device_data(context, COUNT);
    gantry::device_memory<std::uint32_t> device_bins(context, BINS);
    for (std::uint32_t input = 0; input < INPUTS; input++) {
        for (std::uint32_t i = 0; i < COUNT; i++)
            data[i] = static_cast<std::uint8_t>(i * i % (200 + input));
        gantry::manager graph(context);
        const auto compute = graph.kernel("histogram", [&](gantry::launch on) {
            on.copy(device_data.span(), data.span());
            on.fill(device_bins.span(), 0u);
            on.kernel(histogram, gantry::shape_for(BLOCKS * THREADS, THREADS), device_data.span(), COUNT,
                      device_bins.span());
            on.copy(bins.span(), device_bins.span());
        });
        graph.cpu("show", [&] { std::printf("input %u: %u times 1\n", input, bins[1]); }).after_done(compute);
        graph.run();
    }
}
