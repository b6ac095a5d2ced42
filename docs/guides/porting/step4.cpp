/* SPDX-License-Identifier: MIT */
/* Step 4: one graph for all inputs.  Each has memory and tasks of its own, so that filling, copying and
 * computing of different inputs overlap. */
#include "histogram.kernels.hpp"
#include <cstdio>
#include <gantry/gantry.hpp>
#include <memory>
#include <vector>
constexpr std::uint32_t COUNT = 100000, BINS = 256, INPUTS = 4, THREADS = 256, BLOCKS = 64;

struct input {
    input(const gantry::context &context, std::uint32_t its_number)
        : number(its_number), data(context, COUNT), bins(context, BINS), device_data(context, COUNT),
          device_bins(context, BINS)
    {
    }
    std::uint32_t number;
    gantry::pinned_memory<std::uint8_t> data;
    gantry::pinned_memory<std::uint32_t> bins;
    gantry::device_memory<std::uint8_t> device_data;
    gantry::device_memory<std::uint32_t> device_bins;
};

int main()
{
    const gantry::context context;
    const gantry::kernel_module code(context, gantry_image_histogram);
    const auto histogram = code.get<gantry::kernels::histogram::histogram>();
    std::vector<std::unique_ptr<input>> inputs;
    gantry::cpu_dispatcher workers;
    gantry::manager graph(context, workers);
    for (std::uint32_t i = 0; i < INPUTS; i++) {
        inputs.push_back(std::make_unique<input>(context, i));
        input &in = *inputs.back();
        const auto fill = graph.cpu("fill", [&in] {
            for (std::uint32_t j = 0; j < COUNT; j++)
                in.data[j] = static_cast<std::uint8_t>(j * j % (200 + in.number));
        });
        const auto upload = graph.htod(
            "upload", [&in](gantry::launch on) { on.copy(in.device_data.span(), in.data.span()); });
        const auto compute = graph.kernel("histogram", [&in, histogram](gantry::launch on) {
            on.fill(in.device_bins.span(), 0u);
            on.kernel(histogram, gantry::shape_for(BLOCKS * THREADS, THREADS), in.device_data.span(), COUNT,
                      in.device_bins.span());
        });
        const auto download = graph.dtoh(
            "download", [&in](gantry::launch on) { on.copy(in.bins.span(), in.device_bins.span()); });
        upload.after(fill);
        compute.after(upload);
        download.after(compute);
        graph.cpu("look", [] {}).after_done(download); // the GPU is done when the step ends
    }
    graph.run();
    for (const auto &in : inputs)
        std::printf("input %u: %u times 1\n", in->number, in->bins[1]);
}
