/* SPDX-License-Identifier: MIT */
/* Step 2: the loop's work is a GPU task; kernel and calls are as they were, but for the stream. */
#include <cstdint>
#include <cstdio>
#include <gantry/gantry.hpp>
constexpr uint32_t COUNT = 100000, BINS = 256, INPUTS = 4, THREADS = 256, BLOCKS = 64;

__global__ void histogram(const uint8_t *data, uint32_t count, uint32_t *bins)
{
    __shared__ uint32_t local[BINS];
    local[threadIdx.x] = 0;
    __syncthreads();
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        atomicAdd(&local[data[i]], 1u);
    __syncthreads();
    atomicAdd(&bins[threadIdx.x], local[threadIdx.x]);
}

int main()
{
    const gantry::context context; /* the device's primary context, which the runtime API uses, too */
    gantry::pinned_memory<uint8_t> data(context, COUNT);
    gantry::pinned_memory<uint32_t> bins(context, BINS);
    gantry::device_memory<uint8_t> device_data(context, COUNT);
    gantry::device_memory<uint32_t> device_bins(context, BINS);
    for (uint32_t input = 0; input < INPUTS; input++) {
        for (uint32_t i = 0; i < COUNT; i++)
            data[i] = static_cast<uint8_t>(i * i % (200 + input));
        gantry::manager graph(context);
        const auto compute = graph.kernel("histogram", [&](gantry::launch on) {
            const auto stream = static_cast<cudaStream_t>(on.capture_stream());
            cudaMemcpyAsync(device_data.span().data(), data.span().data(), COUNT, cudaMemcpyHostToDevice,
                            stream);
            cudaMemsetAsync(device_bins.span().data(), 0, BINS * sizeof(uint32_t), stream);
            histogram<<<BLOCKS, THREADS, 0, stream>>>(device_data.span().data(), COUNT,
                                                      device_bins.span().data());
            cudaMemcpyAsync(bins.span().data(), device_bins.span().data(), BINS * sizeof(uint32_t),
                            cudaMemcpyDeviceToHost, stream);
            return cudaGetLastError() == cudaSuccess ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
        });
        graph.cpu("show", [&] { std::printf("input %u: %u times 1\n", input, bins[1]); }).after_done(compute);
        graph.run();
    }
}
