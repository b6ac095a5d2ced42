/* SPDX-License-Identifier: MIT */
/* The program as it was: a histogram of each input, by the runtime API. */
#include <cstdint>
#include <cstdio>
#include <vector>
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
    std::vector<uint8_t> data(COUNT);
    std::vector<uint32_t> bins(BINS);
    uint8_t *device_data;
    uint32_t *device_bins;
    if (cudaMalloc(&device_data, COUNT) || cudaMalloc(&device_bins, BINS * sizeof(uint32_t)))
        return 1;
    for (uint32_t input = 0; input < INPUTS; input++) {
        for (uint32_t i = 0; i < COUNT; i++)
            data[i] = static_cast<uint8_t>(i * i % (200 + input));
        cudaMemcpy(device_data, data.data(), COUNT, cudaMemcpyHostToDevice);
        cudaMemset(device_bins, 0, BINS * sizeof(uint32_t));
        histogram<<<BLOCKS, THREADS>>>(device_data, COUNT, device_bins);
        cudaMemcpy(bins.data(), device_bins, BINS * sizeof(uint32_t), cudaMemcpyDeviceToHost);
        std::printf("input %u: %u times 1\n", input, bins[1]);
    }
    return cudaFree(device_data) || cudaFree(device_bins);
}
