/* SPDX-License-Identifier: MIT */
/* CUDA C++ that is no kernel of the dialect: templates, printf, lambdas, headers of C++. */
#include <cstdio>

template <typename T> __global__ void add_to_all(T *data, unsigned count)
{
    auto place = [] { return blockIdx.x * blockDim.x + threadIdx.x; };
    if (place() < count) {
        data[place()] += T(ADDED);
    }
    if (data == nullptr) {
        printf("there is no data\n");
    }
}
template __global__ void add_to_all<unsigned>(unsigned *, unsigned);
template __global__ void add_to_all<unsigned long long>(unsigned long long *, unsigned);

extern "C" __global__ void double_all(unsigned *data, unsigned count)
{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        data[i] *= 2;
    }
}
