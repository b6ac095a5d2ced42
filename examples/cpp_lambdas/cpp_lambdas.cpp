/* SPDX-License-Identifier: MIT */
// The same ideas in C++17: owners free what they hold, lambdas are the tasks, and an exception in a task comes out of
// run() with its text.
#include <gantry/gantry.hpp>
#include <iostream>

int main()
try {
    constexpr std::size_t count = 1000;
    const gantry::context context;
    gantry::pinned_memory<std::uint32_t> numbers(context, count);
    gantry::device_memory<std::uint32_t> device(context, count);
    gantry::cpu_dispatcher workers;
    gantry::manager graph(context, workers);

    const auto fill = graph.kernel("fill", [&](gantry::launch launch) { launch.fill(device.span(), 3); });
    const auto download =
        graph.dtoh("download", [&](gantry::launch launch) { launch.copy(numbers.span(), device.span()); });
    const auto check = graph.cpu("check", [&] {
        std::uint32_t sum = 0;
        for (const std::uint32_t number : numbers) {
            sum += number;
        }
        std::cout << "the sum is " << sum << "\n";
        if (sum != 4000) {
            throw std::runtime_error("this is not the sum of 1000 fours");
        }
    });
    download.after(fill);
    check.after_done(download);

    try {
        graph.run();
    } catch (const gantry::error &failed) {
        std::cout << gantry_status_name(failed.status()) << "\n";
        std::rethrow_exception(failed.cause());
    }
    return 1; // it must not come here
} catch (const std::runtime_error &cause) {
    std::cout << "since " << cause.what() << "\n";
    return 0;
}
