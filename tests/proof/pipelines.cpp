/* SPDX-License-Identifier: MIT */
// Three pipelines as others would write them.  Each prints which of its edges order bytes that nothing else
// orders, and which do not, by their numbers in the order of their declaration, from 0 on: tests leave out
// one after the other.
//
// Usage: pipelines double|reuse|locks
#include <gantry/gantry.hpp>

#include "pipeline_kernels.kernels.hpp"

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <iostream>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace
{

constexpr std::uint32_t count = 256, threads = 64, bytes = 4 * count;
using numbers = std::uint32_t *;
using scale_kernel = gantry::typed_kernel<gantry::kernels::pipeline_kernels::pipeline_scale::signature>;

// What all pipelines have.
struct scene {
    gantry::context context;
    gantry::cpu_dispatcher workers;
    gantry::manager graph{context, workers};
    gantry::kernel_module code{context, gantry_image_pipeline_kernels};
    scale_kernel scale = code.get<gantry::kernels::pipeline_kernels::pipeline_scale>();
    std::array<std::vector<int>, 2> edges; // that order nothing, and that order bytes
    int declared = 0;

    // `needed`: nothing else orders the two.
    void edge(const gantry::task &before, const gantry::task &after, bool needed, bool done = false)
    {
        edges[needed].push_back(declared++);
        if (done) {
            after.after_done(before);
        } else {
            after.after(before);
        }
    }
    numbers block(gantry_memory_kind kind, const char *tag) const
    {
        void *out = nullptr;
        gantry::check(gantry_heap_alloc(gantry_context_heap(context.get()), kind, bytes, 0,
                                        GANTRY_ALLOC_SITE(tag), &out));
        return static_cast<numbers>(out);
    }
    void give_back(numbers block) const
    {
        gantry::check(gantry_heap_free(gantry_context_heap(context.get()), block));
    }
    void multiply(gantry::launch launch, numbers to, const std::uint32_t *from, std::uint32_t factor) const
    {
        launch.kernel(scale, gantry::shape_for(count, threads), to, from, count, factor);
    }
    static void upload(gantry::launch launch, numbers to, const std::uint32_t *from)
    {
        gantry::check(gantry_launch_copy_htod(launch.get(), to, from, bytes));
    }
    static void download(gantry::launch launch, numbers to, const std::uint32_t *from)
    {
        gantry::check(gantry_launch_copy_dtoh(launch.get(), to, from, bytes));
    }
};

// Two of each buffer.  A stage waits for the one before, and for who has read its buffer two frames ago.
void double_buffer(scene &s)
{
    constexpr std::uint32_t frames = 5;
    static std::array<std::array<numbers, 4>, 2> sets;
    static std::array<std::uint64_t, frames> sums;
    std::vector<std::array<gantry::task, 5>> made;
    for (auto &set : sets) {
        set = {s.block(GANTRY_MEMORY_PINNED, "in"), s.block(GANTRY_MEMORY_DEVICE, "from"),
               s.block(GANTRY_MEMORY_DEVICE, "to"), s.block(GANTRY_MEMORY_PINNED, "out")};
    }
    for (std::uint32_t i = 0; i < frames; i++) {
        const auto &set = sets[i % 2];
        const auto produce = s.graph.cpu("produce", [&set, i] { std::iota(set[0], set[0] + count, i); });
        const auto upload =
            s.graph.htod("upload", [&set](gantry::launch launch) { scene::upload(launch, set[1], set[0]); });
        const auto work =
            s.graph.kernel("work", [&](gantry::launch launch) { s.multiply(launch, set[2], set[1], 3); });
        const auto download = s.graph.dtoh(
            "download", [&set](gantry::launch launch) { scene::download(launch, set[3], set[2]); });
        const auto consume = s.graph.cpu(
            "consume", [&set, i] { sums[i] = std::accumulate(set[3], set[3] + count, std::uint64_t{0}); });
        s.edge(produce, upload, true);
        s.edge(upload, work, true);
        s.edge(work, download, true);
        s.edge(download, consume, true, true);
        if (i >= 2) { // the buffers are free again
            const auto &old = made[i - 2];
            s.edge(old[1], produce, true, true);
            s.edge(old[2], upload, true);
            s.edge(old[3], work, true);
            s.edge(old[4], download, true);
        }
        made.push_back({produce, upload, work, download, consume});
    }
    s.graph.run();
}

// Memory is taken and given back on the way: by bodies, on streams, and by malloc().  What one line has freed
// another one gets.
void reuse(scene &s)
{
    struct line {
        numbers pinned, device, result;
        std::unique_ptr<std::vector<std::uint32_t>> kept;
        std::uint64_t sum;
    };
    static std::array<line, 4> lines;
    for (auto &one : lines) {
        one.result = s.block(GANTRY_MEMORY_PINNED, "result");
        const auto take = s.graph.cpu("take", [&s, &one] {
            one.pinned = s.block(GANTRY_MEMORY_PINNED, "scratch");
            std::vector<std::uint32_t> own(count, 7);
            std::copy(own.begin(), own.end(), one.pinned);
        });
        const auto send = s.graph.htod("send", [&one](gantry::launch launch) {
            void *device = nullptr;
            gantry::check(gantry_launch_alloc(launch.get(), GANTRY_MEMORY_DEVICE, bytes, 0,
                                              GANTRY_ALLOC_SITE("device"), &device));
            one.device = static_cast<numbers>(device);
            scene::upload(launch, one.device, one.pinned);
        });
        const auto use = s.graph.kernel("use", [&s, &one](gantry::launch launch) {
            s.multiply(launch, one.device, one.device, 2);
            scene::download(launch, one.result, one.device);
            gantry::check(gantry_free_after(one.device, launch.get()));
        });
        const auto keep = s.graph.cpu("keep", [&one] {
            one.kept = std::make_unique<std::vector<std::uint32_t>>(one.result, one.result + count);
        });
        const auto give = s.graph.cpu("give", [&s, &one] {
            one.pinned[0] = 0; // it is over
            s.give_back(one.pinned);
        });
        const auto end = s.graph.cpu("end", [&one] {
            one.sum = std::accumulate(one.kept->begin(), one.kept->end(), std::uint64_t{0});
            one.kept.reset();
        });
        s.edge(take, send, true);
        s.edge(send, use, true);
        s.edge(use, keep, true, true);
        s.edge(send, give, true, true);
        s.edge(keep, end, true);
        s.edge(take, give, false); // 'send' lies between
        s.edge(give, end, false);  // nothing is shared
    }
    s.graph.run();
}

// A queue with a mutex and a condition, a counter of atomics, and a table that helpers fill.
void locks(scene &s)
{
    constexpr std::uint32_t items = 8;
    struct queue {
        std::mutex mutex;
        std::condition_variable filled;
        std::deque<numbers> waiting;
    };
    static queue to_do;
    static std::atomic<std::uint32_t> done;
    static std::mutex table_mutex;
    static numbers pool = s.block(GANTRY_MEMORY_PINNED, "pool"),
                   table = s.block(GANTRY_MEMORY_PINNED, "table");
    static numbers device = s.block(GANTRY_MEMORY_DEVICE, "device"),
                   copy = s.block(GANTRY_MEMORY_PINNED, "copy");
    [[maybe_unused]] static std::uint64_t sum;
    const auto open = s.graph.cpu("open", [] { std::fill(table, table + count, 0u); });
    const auto fill = s.graph.cpu("fill", [] {
        for (std::uint32_t i = 0; i < items; i++) {
            pool[i] = i + 1;
            const std::lock_guard<std::mutex> guard(to_do.mutex);
            to_do.waiting.push_back(&pool[i]);
            to_do.filled.notify_one();
        }
    });
    const auto drain = s.graph.cpu("drain", [] { // beside 'fill': the queue is their order
        for (std::uint32_t i = 0; i < items; i++) {
            std::unique_lock<std::mutex> guard(to_do.mutex);
            to_do.filled.wait(guard, [] { return !to_do.waiting.empty(); });
            const numbers item = to_do.waiting.front();
            to_do.waiting.pop_front();
            const std::uint32_t value = *item;
            guard.unlock();
            const std::lock_guard<std::mutex> own(table_mutex);
            table[0] += value;
        }
    });
    const auto upload =
        s.graph.htod("upload", [](gantry::launch launch) { scene::upload(launch, device, table); });
    const auto download =
        s.graph.dtoh("download", [](gantry::launch launch) { scene::download(launch, copy, device); });
    const auto end = s.graph.cpu("end", [] { sum = copy[0] + done.load() + pool[0]; });
    s.edge(open, drain, true);
    s.edge(fill, drain, false); // the queue orders them
    s.edge(drain, upload, true);
    s.edge(upload, download, true);
    for (std::uint32_t i = 1; i <= 3; i++) {
        const auto help = s.graph.cpu("help", [i] {
            {
                const std::lock_guard<std::mutex> guard(table_mutex);
                table[1] += i; // all of them, and 'drain' beside it
            }
            table[i + 1] = i;
            done.fetch_add(i);
        });
        s.edge(open, help, true);
        s.edge(help, upload, true);
    }
    s.edge(download, end, true, true);
    s.edge(fill, end, false); // by 'drain'
    s.graph.run();
}

void print(const char *name, const std::vector<int> &edges)
{
    std::cout << name;
    for (const int edge : edges) {
        std::cout << " " << edge;
    }
    std::cout << "\n";
}

} // namespace

int main(int argc, char **argv)
try {
    const std::string name = argc > 1 ? argv[1] : "";
    scene s;
    if (name == "double") {
        double_buffer(s);
    } else if (name == "reuse") {
        reuse(s);
    } else if (name == "locks") {
        locks(s);
    } else {
        std::cerr << "usage: pipelines double|reuse|locks\n";
        return 2;
    }
    print("free", s.edges[0]);
    print("needed", s.edges[1]);
    return 0;
} catch (const std::exception &error) {
    std::cerr << error.what() << "\n";
    return 1;
}
