/* SPDX-License-Identifier: MIT */
/* In a program with libstdc++ a failed allocation is a std::runtime_error, as PyTorch expects of allocators.  Callers
 * through which no exception may pass, as Python's ctypes, get NULL and a text. */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include <dlfcn.h>

int main()
{
    setenv("GANTRY_DRIVER", "emulated", 1);
    void *library = dlopen("./libgantry-torch.so", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        std::fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    auto alloc = reinterpret_cast<void *(*)(std::size_t, int, void *)>(dlsym(library, "gantry_torch_alloc"));
    auto release = reinterpret_cast<void (*)(void *, std::size_t, int, void *)>(dlsym(library, "gantry_torch_free"));
    try {
        void *none = alloc(static_cast<std::size_t>(1) << 50, 0, nullptr);
        if (dlopen("libstdc++.so.6", RTLD_NOW | RTLD_NOLOAD) != nullptr || none != nullptr) {
            std::fprintf(stderr, "nothing was thrown, but %p returned\n", none);
            return 1;
        }
        std::fputs("libstdc++ is in the program itself, where nobody finds it: NULL\n", stderr);
    } catch (const std::runtime_error &error) {
        if (std::strncmp(error.what(), "CUDA out of memory.", 19) != 0 ||
            std::strstr(error.what(), "no room for 1125899906842624 bytes") == nullptr) {
            std::fprintf(stderr, "unexpected text: %s\n", error.what());
            return 1;
        }
    }
    auto try_alloc =
        reinterpret_cast<void *(*)(std::size_t, int, void *)>(dlsym(library, "gantry_torch_try_alloc"));
    auto last_error = reinterpret_cast<const char *(*)()>(dlsym(library, "gantry_torch_last_error"));
    try {
        if (try_alloc(static_cast<std::size_t>(3) << 50, 0, nullptr) != nullptr ||
            std::strstr(last_error(), "no room for 3377699720527872 bytes") == nullptr ||
            try_alloc(0, 0, nullptr) != nullptr || try_alloc(1, 64, nullptr) != nullptr ||
            std::strstr(last_error(), "no device 64") == nullptr) {
            std::fprintf(stderr, "unexpected text: %s\n", last_error());
            return 1;
        }
    } catch (...) {
        std::fputs("an exception where there must be none\n", stderr);
        return 1;
    }
    void *tried = try_alloc(1000, 0, nullptr);
    release(tried, 1000, 0, nullptr);
    void *block = alloc(1000, 0, nullptr); /* and again */
    release(block, 1000, 0, nullptr);
    return block != nullptr && tried != nullptr ? 0 : 1;
}
