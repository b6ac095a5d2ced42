/* SPDX-License-Identifier: MIT */
// Small programs as anybody would write them, for `gantry check --malloc`: each is right as it is, and with a
// second argument it has one race.
//
// Usage: strangers SCENE [race]
#include <gantry/gantry.hpp>

#include <atomic>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

namespace
{

constexpr std::size_t count = 256, frames = 6;
using numbers = std::vector<std::uint32_t>;

// Two buffers between two stages; a frame's producer waits for who has read its buffer before.
void double_buffer(gantry::manager &graph, bool race)
{
    static numbers buffers[2] = {numbers(count), numbers(count)};
    static std::uint64_t sums[frames];
    std::vector<gantry::task> consumers;
    for (std::uint32_t i = 0; i < frames; i++) {
        auto produce =
            graph.cpu("produce", [i] { std::iota(buffers[i % 2].begin(), buffers[i % 2].end(), i); });
        auto consume = graph.cpu("consume", [i] {
            sums[i] = std::accumulate(buffers[i % 2].begin(), buffers[i % 2].end(), std::uint64_t{0});
        });
        consume.after(produce);
        if (i >= 2 && !(race && i == 4)) {
            produce.after(consumers[i - 2]);
        }
        consumers.push_back(consume);
    }
    graph.run();
}

// Vectors that come and go: the allocator hands the memory of one task to the next.
void reuse(gantry::manager &graph, bool race)
{
    static std::shared_ptr<numbers> kept = std::make_shared<numbers>(count);
    for (std::uint32_t i = 0; i < 40; i++) {
        (void)graph.cpu("scratch", [i] {
            numbers scratch(count, i);
            scratch.resize(2 * count, i + 1);
            return std::accumulate(scratch.begin(), scratch.end(), std::uint64_t{0}) != 0
                       ? GANTRY_OK
                       : GANTRY_ERR_TASK_FAILED;
        });
    }
    auto first = graph.cpu("first", [] { (*kept)[7] = 1; });
    auto second = graph.cpu("second", [] { (*kept)[7] += 1; });
    if (!race) {
        second.after(first);
    }
    graph.run();
}

void atomics(gantry::manager &graph, bool race)
{
    static auto total = std::make_unique<std::atomic<std::uint64_t>>(0);
    for (std::uint32_t i = 0; i < 8; i++) {
        (void)graph.cpu("add", [i] { total->fetch_add(i); });
    }
    if (race) { // the counter is set back by hand
        (void)graph.cpu("clear", [] { std::memset(static_cast<void *>(total.get()), 0, sizeof(*total)); });
    }
    graph.run();
}

void under_a_mutex(gantry::manager &graph, bool race)
{
    static std::mutex mutex;
    static auto table = std::make_unique<std::map<std::uint32_t, std::uint32_t>>();
    for (std::uint32_t i = 0; i < 8; i++) {
        (void)graph.cpu("insert", [i] {
            const std::lock_guard<std::mutex> guard(mutex);
            (*table)[i] = i;
        });
    }
    (void)graph.cpu("look", [race] {
        std::unique_lock<std::mutex> guard(mutex, std::defer_lock);
        if (!race) {
            guard.lock();
        }
        return table->size() <= 8 ? GANTRY_OK : GANTRY_ERR_TASK_FAILED;
    });
    graph.run();
}

// All count under a mutex; one way to look at the sum is beside it.
void half_guarded(gantry::manager &graph, bool race)
{
    static std::mutex mutex;
    static auto sum = std::make_unique<std::uint64_t>(0);
    static std::uint64_t seen[8];
    for (std::uint32_t i = 0; i < 8; i++) {
        (void)graph.cpu("sum up", [i, race] {
            std::unique_lock<std::mutex> guard(mutex);
            *sum += i;
            if (race) {
                guard.unlock();
            }
            seen[i] = *sum;
        });
    }
    graph.run();
}

// One task frees page-locked memory, another one gets it.
void handed_over(gantry::manager &graph, const gantry::context &context, bool race)
{
    static gantry_heap *heap = gantry_context_heap(context.get());
    static std::uint32_t *shared;
    const auto get = [] {
        void *out = nullptr;
        gantry::check(
            gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, 4 * count, 0, GANTRY_ALLOC_SITE("scratch"), &out));
        return static_cast<std::uint32_t *>(out);
    };
    shared = get();
    for (std::uint32_t i = 0; i < 16; i++) {
        (void)graph.cpu("user", [get, i] {
            std::uint32_t *own = get();
            std::fill(own, own + count, i);
            gantry::check(gantry_heap_free(heap, own));
        });
    }
    auto last = graph.cpu("last", [] { shared[0] = 1; });
    auto free = graph.cpu("give back", [] {
        shared[1] = shared[0];
        gantry::check(gantry_heap_free(heap, shared));
    });
    if (!race) {
        free.after(last);
    }
    graph.run();
}

// A frozen graph that runs again and again; its first task reads what its last one has written.
void frozen(gantry::manager &graph, bool race)
{
    static numbers data(count), halves(count);
    auto begin = graph.cpu("begin", [] { std::fill(data.begin(), data.end(), 2); });
    auto left = graph.cpu("left", [] { std::copy(data.begin(), data.begin() + count / 2, halves.begin()); });
    auto right = graph.cpu("right", [race] { // one too many
        std::copy(data.begin() + count / 2 - race, data.end(), halves.begin() + count / 2 - race);
    });
    auto end = graph.cpu("end", [] { data[0] = std::accumulate(halves.begin(), halves.end(), 0u); });
    left.after(begin);
    right.after(begin);
    end.after(left);
    end.after(right);
    graph.freeze();
    for (int i = 0; i < 3; i++) {
        graph.run();
    }
}

// A table that whoever comes first makes, and a counter, which are variables of the program.
void variables(gantry::manager &graph, bool race)
{
    [[maybe_unused]] static std::uint32_t calls;
    static std::once_flag once;
    static numbers squares;
    std::vector<gantry::task> made;
    for (std::uint32_t i = 0; i < 6; i++) {
        made.push_back(graph.cpu("count", [i] {
            static const numbers table = [] {
                numbers out(count);
                std::iota(out.begin(), out.end(), 0u);
                return out;
            }();
            std::call_once(once, [] { squares.assign(count, 4); });
            calls += table[i] + squares[i];
        }));
        if (i > 0 && !(race && i == 3)) {
            made[i].after(made[i - 1]);
        }
    }
    graph.run();
}

} // namespace

int main(int argc, char **argv)
try {
    const std::string scene = argc > 1 ? argv[1] : "";
    const bool race = argc > 2;
    const gantry::context context;
    gantry::cpu_dispatcher workers;
    gantry::manager graph(context, workers);
    if (scene == "double_buffer") {
        double_buffer(graph, race);
    } else if (scene == "reuse") {
        reuse(graph, race);
    } else if (scene == "atomics") {
        atomics(graph, race);
    } else if (scene == "under_a_mutex") {
        under_a_mutex(graph, race);
    } else if (scene == "half_guarded") {
        half_guarded(graph, race);
    } else if (scene == "handed_over") {
        handed_over(graph, context, race);
    } else if (scene == "frozen") {
        frozen(graph, race);
    } else if (scene == "variables") {
        variables(graph, race);
    } else {
        std::cerr << "usage: strangers SCENE [race]\n";
        return 2;
    }
    return 0;
} catch (const std::exception &error) {
    std::cerr << error.what() << "\n";
    return 1;
}
