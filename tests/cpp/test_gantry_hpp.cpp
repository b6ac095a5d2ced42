/* SPDX-License-Identifier: MIT */
// gantry.hpp: what it owns is freed once, what its lambdas capture is freed when the task needs it no more,
// and failures come out as exceptions with their cause.
#include "cpp_kernels.kernels.hpp"
#include "tests/cpp/hidden.h"

#include <algorithm>
#include <gantry/gantry.hpp>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>

#include <sys/mman.h>
#include <unistd.h>

namespace
{

std::atomic<int> failures{0};
#define CHECK(condition) check_that((condition), #condition, __LINE__)
void check_that(bool holds, const char *what, int line)
{
    if (!holds) {
        std::fprintf(stderr, "test_gantry_hpp.cpp:%d: not so: %s\n", line, what);
        failures++;
    }
}

/** The error that `call` throws; one of GANTRY_OK when it throws none. */
template <class F> gantry::error error_of(F &&call)
{
    try {
        call();
    } catch (const gantry::error &thrown) {
        return thrown;
    }
    return {GANTRY_OK, "none"};
}

std::atomic<long> allocations{0};

/** Counts how many there are, and is too large for a task's argument. */
struct capture {
    explicit capture(int *counter) : alive(counter)
    {
        ++*alive;
    }
    capture(const capture &other) : alive(other.alive)
    {
        ++*alive;
    }
    capture &operator=(const capture &) = delete;
    ~capture()
    {
        --*alive;
    }
    int *alive;
};

static_assert(!std::is_copy_constructible_v<gantry::context> &&
              std::is_nothrow_move_constructible_v<gantry::context>);
static_assert(!std::is_copy_constructible_v<gantry::manager> &&
              std::is_nothrow_move_constructible_v<gantry::manager>);
static_assert(!std::is_copy_constructible_v<gantry::device_memory<int>>);
static_assert(sizeof(gantry::task) == sizeof(void *) && std::is_trivially_copyable_v<gantry::task>);

void test_a_pipeline(const gantry::context &context)
{
    constexpr std::uint32_t count = 1000;
    const gantry::kernel_module code(context, gantry_image_cpp_kernels);
    const gantry::kernel triple = code.get_kernel("triple");
    const auto typed = code.get<gantry::kernels::cpp_kernels::triple>();
    static_assert(std::is_base_of_v<gantry::kernel, decltype(typed)>);
    CHECK(typed.get() == triple.get());
    CHECK(std::string(triple.name()) == "triple");
    gantry::pinned_memory<std::uint32_t> numbers(context, count), sixteens(context, count);
    gantry::device_memory<std::uint32_t> device(context, count), copy(context, count);
    for (std::uint32_t i = 0; i < count; i++) {
        numbers[i] = i;
    }
    gantry::cpu_dispatcher workers;
    gantry::manager graph(context, workers);
    std::uint32_t right = 0;
    const auto upload =
        graph.htod("upload", [&](gantry::launch l) { l.copy(device.span(), numbers.span()); });
    const auto compute = graph.kernel("triple", [&](gantry::launch l) {
        l.run(triple, gantry::shape_for(count), device.span(), count, 1u);
        l.copy(copy.span(), device.span());
        l.fill(device.span(), 0);
        gantry_launch_options plainly = GANTRY_LAUNCH_OPTIONS_INIT;
        plainly.cooperative = 1; /* four blocks fit any device */
        l.run_with(plainly, triple, gantry::shape_for(count), device.span(), count, 0u);
        l.kernel(typed, gantry::shape_for(count), device.span(), count, 5u); /* the zeros become 5, then 16 */
        l.kernel_with(plainly, typed, gantry::shape_for(count), device.span().data(), count, 1u);
    });
    const auto download_typed =
        graph.dtoh("download typed", [&](gantry::launch l) { l.copy(sixteens.span(), device.span()); });
    const auto download =
        graph.dtoh("download", [&](gantry::launch l) { l.copy(numbers.span(), copy.span()); });
    const auto look = graph.cpu("look", [&] {
        for (std::uint32_t i = 0; i < count; i++) {
            right += numbers[i] == 3 * i + 1 && sixteens[i] == 16;
        }
    });
    compute.after(upload);
    download.after(compute);
    download_typed.after(compute);
    look.after_done(download);
    look.after_done(download_typed);
    graph.run();
    CHECK(right == count);
    CHECK(look.state() == GANTRY_TASK_STATE_DONE && look.result() == GANTRY_OK);
}

/* Without an edge that is made by hand. */
void test_order_from_data(const gantry::context &context)
{
    constexpr std::uint32_t count = 1000;
    const gantry::kernel_module code(context, gantry_image_cpp_kernels);
    const gantry::kernel triple = code.get_kernel("triple");
    gantry::pinned_memory<std::uint32_t> numbers(context, count);
    gantry::device_memory<std::uint32_t> device(context, count);
    gantry::cpu_dispatcher workers;
    gantry::manager graph(context, workers);
    std::uint32_t right = 0;
    graph.cpu("fill", [&] { std::fill_n(&numbers[0], count, 7u); }).writes(numbers.span());
    graph.htod("upload", [&](gantry::launch l) { l.copy(device.span(), numbers.span()); })
        .reads(numbers.span())
        .writes(device.span());
    graph
        .kernel("triple",
                [&](gantry::launch l) { l.run(triple, gantry::shape_for(count), device.span(), count, 1u); })
        .adds_to(device.span());
    graph.dtoh("download", [&](gantry::launch l) { l.copy(numbers.span(), device.span()); })
        .accesses(device.span().data(), count * sizeof(std::uint32_t), GANTRY_ACCESS_READ)
        .writes(numbers.span());
    graph
        .cpu("look",
             [&] { right = static_cast<std::uint32_t>(std::count(&numbers[0], &numbers[0] + count, 22u)); })
        .reads(numbers.span());
    graph.run();
    CHECK(right == count);
}

/* As many pieces as there are twice over: each page is filled, doubled and added up before it is filled again. */
void test_rings(const gantry::context &context)
{
    constexpr std::uint32_t count = 1000, buffers = 3, pieces = 2 * buffers;
    const gantry::pinned_ring<std::uint32_t> pages(context, count, buffers);
    const gantry::device_ring<std::uint32_t> blocks(context, count, buffers);
    gantry::cpu_dispatcher workers;
    gantry::manager graph(context, workers);
    std::uint64_t sum = 0;
    for (std::uint32_t i = 0; i < pieces; i++) {
        const auto page = pages.next();
        const auto block = blocks.next();
        graph.kernel("fill", [=](gantry::launch l) { l.fill(block, i); }).writes(block);
        graph.dtoh("download", [=](gantry::launch l) { l.copy(page, block); }).reads(block).writes(page);
        graph.cpu("add up", [=, &sum] { sum = std::accumulate(page.begin(), page.end(), sum); })
            .reads(page)
            .writes(gantry::span<std::uint64_t>(&sum, 1));
    }
    graph.run();
    CHECK(sum == count * (pieces * (pieces - 1) / 2));
}

void test_moved_owners(const gantry::context &context)
{
    gantry::device_memory<int> first(context, 10);
    int *const block = first.span().data();
    gantry::device_memory<int> second = std::move(first);
    CHECK(first.size() == 0 && second.span().data() == block);
    first = std::move(second);
    CHECK(first.span().data() == block && second.span().data() == nullptr);
    gantry::manager graph(context);
    int runs = 0;
    graph.cpu("count", [&runs] { runs++; });
    gantry::manager moved = std::move(graph);
    moved.run();
    CHECK(runs == 1);
    moved = gantry::manager(context); // destroys the former one, with its tasks
    moved.cpu("count", [&runs] { runs++; });
    moved.run();
    CHECK(runs == 2);
    gantry::owner<gantry_copy_queue, gantry_copy_queue_destroy> none;
    CHECK(!none && none.get() == nullptr);
}

void test_owners_that_were_moved_from()
{
    gantry::manager graph(gantry_taskman_options GANTRY_TASKMAN_OPTIONS_INIT);
    const gantry::manager moved = std::move(graph);
    int alive = 0;
    const auto body = [held = capture(&alive)] {};
    CHECK(error_of([&] { graph.cpu("task", body); }).status() == GANTRY_ERR_INVALID_ARGUMENT);
    CHECK(error_of([&] { graph.cpu("small", [] {}); }).status() == GANTRY_ERR_INVALID_ARGUMENT);
    CHECK(error_of([&] { graph.spawn("task", body); }).status() == GANTRY_ERR_INVALID_ARGUMENT);
    CHECK(error_of([&] { graph.run(); }).status() == GANTRY_ERR_INVALID_ARGUMENT);
    CHECK(error_of([&] { graph.start(); }).status() == GANTRY_ERR_INVALID_ARGUMENT);
    CHECK(error_of([&] { graph.stop(); }).status() == GANTRY_ERR_INVALID_ARGUMENT);
    CHECK(error_of([&] { graph.wait(); }).status() == GANTRY_ERR_INVALID_ARGUMENT);
    CHECK(error_of([&] { graph.freeze(); }).status() == GANTRY_ERR_INVALID_ARGUMENT);
    CHECK(error_of([&] { graph.reset(); }).status() == GANTRY_ERR_INVALID_ARGUMENT);
    CHECK(error_of([&] { graph.cancel(); }).status() == GANTRY_ERR_INVALID_ARGUMENT);
    CHECK(alive == 1 && graph.get() == nullptr && moved.get() != nullptr);
}

void test_captures_live_as_long_as_their_task()
{
    int alive = 0, runs = 0;
    gantry::manager graph(gantry_taskman_options GANTRY_TASKMAN_OPTIONS_INIT);
    const auto body = [held = capture(&alive), &runs] { runs += *held.alive > 0; };
    CHECK(alive == 1);
    graph.cpu("plain", body);
    CHECK(alive == 2);
    graph.run();
    CHECK(alive == 1 && runs == 1); // freed at the release, before the reset
    graph.reset();
    graph.cpu("never started", body);
    graph.reset();
    CHECK(alive == 1 && runs == 1);
    graph.cpu("frozen", body);
    graph.freeze();
    graph.run(3);
    CHECK(alive == 2 && runs == 4);
    graph.start();
    graph.spawn("light", body);
    graph.stop();
    CHECK(alive == 2 && runs == 6);
    graph.start();
    graph.cpu("of this run alone", body).remove_reference();
    graph.stop();
    CHECK(alive == 2 && runs == 8);
    graph.reset();
    CHECK(alive == 1);
    CHECK(error_of([&] { // the description is refused: what it captured goes back
              gantry_task_desc wrong = GANTRY_TASK_DESC_INIT;
              wrong.kind = GANTRY_TASK_KERNEL;
              graph.submit(wrong, body);
          })
              .status() == GANTRY_ERR_UNSUPPORTED);
    CHECK(alive == 1);
    graph.cpu("left behind", body);
}

/* A light task that was cancelled has not run, and what it captured goes with the step all the same. */
void test_captures_of_cancelled_light_tasks()
{
    int alive = 0, runs = 0;
    gantry::manager graph(gantry_taskman_options GANTRY_TASKMAN_OPTIONS_INIT);
    const auto light = [held = capture(&alive), &runs] { runs++; };
    graph.cpu("spawns and cancels", [&] {
        graph.spawn("light", light);
        graph.spawn("light", light);
        graph.cancel();
    });
    CHECK(error_of([&] { graph.run(); }).status() == GANTRY_ERR_CANCELLED);
    CHECK(alive == 1 && runs == 0);
    graph.reset();
    graph.cpu("spawns and cancels", [&] {
        graph.spawn("light", light);
        graph.cancel();
    });
    graph.freeze();
    for (int run = 0; run < 3; run++) {
        CHECK(error_of([&] { graph.run(); }).status() == GANTRY_ERR_CANCELLED);
        CHECK(alive == 1 && runs == 0);
    }
    graph.start();
    CHECK(error_of([&] { graph.stop(); }).status() == GANTRY_ERR_CANCELLED && alive == 1);
}

void test_small_lambdas_allocate_nothing()
{
    int runs = 0;
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    options.expected_tasks = 16;
    gantry::manager graph(options);
    long before = allocations;
    graph.cpu("one reference", [&runs] { runs++; });
    graph.cpu("nothing", [](gantry::task self) {
        return std::string_view(self.label()) == "nothing" ? GANTRY_OK : GANTRY_ERR_STATE;
    });
    CHECK(allocations == before);
    std::array<int *, 4> many = {&runs, &runs, &runs, &runs};
    graph.cpu("four pointers", [many] { ++*many[3]; });
    CHECK(allocations == before + 1);
    before = allocations;
    graph.run();
    CHECK(allocations == before && runs == 2);
    graph.reset();
    graph.cpu("counts its calls", [&runs, calls = 0]() mutable { runs = ++calls; }); // keeps what it changes
    graph.freeze();
    graph.run(3);
    CHECK(runs == 3);
}

void test_failures(const gantry::context &context)
{
    const gantry::error refused = error_of([&] { gantry::device_memory<int> none(context, 0); });
    CHECK(refused.status() == GANTRY_ERR_INVALID_ARGUMENT &&
          std::string(refused.what()) == gantry_last_error());
    gantry::manager graph(context);
    const auto bad = graph.cpu("bad", [] { throw std::runtime_error("the file is empty"); });
    bool ran = false;
    const auto next = graph.cpu("next", [&ran] { ran = true; });
    next.after(bad);
    const gantry::error failed = error_of([&] { graph.run(); });
    CHECK(failed.status() == GANTRY_ERR_TASK_FAILED && !ran);
    CHECK(std::string(failed.what()).find("\"bad\" threw the file is empty") != std::string::npos);
    std::string cause;
    try {
        std::rethrow_exception(failed.cause());
    } catch (const std::runtime_error &thrown) {
        cause = thrown.what();
    }
    CHECK(cause == "the file is empty");

    graph.reset(); // the next step knows nothing of it
    graph.cpu("status", [] { return GANTRY_ERR_IO; });
    const gantry::error status = error_of([&] { graph.run(); });
    CHECK(status.status() == GANTRY_ERR_IO && !status.cause());

    graph.reset();
    gantry::device_memory<int> small(context, 4);
    gantry::pinned_memory<int> large(context, 5);
    graph.htod("upload", [&](gantry::launch l) { l.copy(small.span(), large.span()); });
    const gantry::error launch = error_of([&] { graph.run(); });
    CHECK(launch.status() == GANTRY_ERR_INVALID_ARGUMENT && launch.cause());
    CHECK(std::string(launch.what()).find("5 elements do not fit into 4") != std::string::npos);

    graph.reset();
    graph.cpu("memory", [] { throw std::bad_alloc(); });
    graph.cpu("no exception", [] { throw 7; });
    CHECK(error_of([&] { graph.run(); }).status() == GANTRY_ERR_OUT_OF_HOST_MEMORY);
    graph.reset(); // one that says that nothing is wrong is a failure, too
    graph.cpu("fine", [] { throw gantry::error(GANTRY_OK, "all is well"); });
    CHECK(error_of([&] { graph.run(); }).status() == GANTRY_ERR_TASK_FAILED);
    graph.reset();
    graph.cpu("any",
              [](auto self) { CHECK(self.get() != nullptr); }); // a body, though a launch has get(), too
    graph.run();
    graph.reset();
    graph.cpu("seven", [] { throw 7; });
    CHECK(std::string(error_of([&] { graph.run(); }).what()).find("\"seven\" threw what is no") !=
          std::string::npos);
}

/* Libraries that hide their symbols know of each other's managers and errors. */
void test_failures_in_another_library()
{
    gantry::manager graph(gantry_taskman_options GANTRY_TASKMAN_OPTIONS_INIT);
    hidden_add_task_that_throws(graph);
    const gantry::error failed = error_of([&] { graph.run(); });
    CHECK(failed.cause() && std::string(failed.what()).find("thrown in the library") != std::string::npos);
    CHECK(error_of([] { hidden_throw_error(); }).status() == GANTRY_ERR_IO);
}

static_assert(gantry::shape_for(0).grid.x == 0 && gantry::shape_for(1).grid.x == 1);
static_assert(gantry::shape_for(256).grid.x == 1 && gantry::shape_for(257).grid.x == 2);
static_assert(gantry::shape_for(SIZE_MAX, 1024).block.x == 1024);

/* No part of the elements is left out in silence. */
void test_work_that_ends_later()
{
    int alive = 0;
    gantry::manager graph(gantry_taskman_options GANTRY_TASKMAN_OPTIONS_INIT);
    gantry_detached handle = 0;
    {
        const capture captured(&alive);
        const gantry::task later = graph.cpu("later", [&handle, captured](gantry::task self) {
            handle = self.detach();
            CHECK(error_of([&] { self.detach(); }).status() == GANTRY_ERR_STATE);
            gantry::complete(handle, GANTRY_ERR_IO, "cut short");
        });
        CHECK(error_of([&] { later.detach(); }).status() == GANTRY_ERR_STATE);
    }
    graph.start();
    const gantry::error failed = error_of([&] { graph.stop(); });
    CHECK(failed.status() == GANTRY_ERR_IO && std::string(failed.what()).find("cut short") != std::string::npos);
    CHECK(error_of([&] { gantry::complete(handle); }).status() == GANTRY_ERR_STATE);
    CHECK(alive == 0);
}

void test_shapes_that_are_too_large(const gantry::context &context)
{
    const gantry::kernel_module code(context, gantry_image_cpp_kernels);
    const gantry::kernel triple = code.get_kernel("triple");
    gantry::device_memory<std::uint32_t> device(context, 1);
    for (const gantry::shape &wrong : {gantry::shape_for((std::size_t{1} << 32) + 1, 1),
                                       gantry::shape_for(SIZE_MAX), gantry::shape_for(1, 0)}) {
        gantry::manager graph(context);
        graph.kernel("triple", [&](gantry::launch l) { l.run(triple, wrong, device.span(), 1u, 1u); });
        CHECK(error_of([&] { graph.run(); }).status() != GANTRY_OK);
    }
}

void test_launches_that_come_again(const gantry::context &context)
{
    gantry::manager graph(context);
    gantry::pinned_memory<std::uint32_t> to(context, 3);
    gantry::device_memory<std::uint32_t> from(context, 3);
    const auto fill = graph.kernel("fill", [&](gantry::launch l) {
        l.fill(from.span().subspan(l.index(), 1), static_cast<std::uint32_t>(l.index() + 7));
        CHECK(l.capture_stream() == l.stream());
        return l.index() == 2 ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_AGAIN;
    });
    const auto read = graph.dtoh("read", [&](gantry::launch l) { l.copy(to.span(), from.span()); });
    const auto done = graph.sync_point("done");
    read.after(fill);
    done.after_done(read);
    graph.run();
    CHECK(to[0] == 7 && to[1] == 8 && to[2] == 9);
    CHECK(to.on_device().size() == 3);
}

/* "Its calls say it", also where the callback throws while it is asked. */
void test_calls_say_accesses(const gantry::context &context)
{
    gantry::manager graph(context);
    gantry::pinned_memory<std::uint32_t> to(context, 3);
    gantry::device_memory<std::uint32_t> from(context, 3);
    gantry_task_desc said = GANTRY_TASK_DESC_INIT;
    said.kind = GANTRY_TASK_KERNEL;
    said.label = "says it";
    said.calls_say_accesses = true;
    graph.submit(said, [&](gantry::launch l) { l.fill(from.span(), std::uint32_t{9}); });
    graph.submit(said, [&](gantry::launch l) { l.copy(to.span(), from.span()); });
    const gantry::error refused =
        error_of([&] { graph.submit(said, [](gantry::launch l) { gantry::check(gantry_launch_leave_graph(l.get())); }); });
    CHECK(refused.status() == GANTRY_ERR_UNSUPPORTED &&
          std::string(refused.what()).find("gantry_launch_leave_graph()") != std::string::npos);
    const gantry::error thrown = error_of([&] { graph.submit(said, [](gantry::launch) { throw std::bad_alloc(); }); });
    CHECK(thrown.status() == GANTRY_ERR_OUT_OF_HOST_MEMORY);
    graph.cpu("checks", [&] { CHECK(to[0] == 9 && to[2] == 9); }).reads(to.span());
    graph.run();
}

void test_loops()
{
    const gantry::cpu_dispatcher workers;
    std::atomic<std::size_t> sum{0};
    workers.parallel_for(0, 1000, 10, [&](std::size_t begin, std::size_t end) { sum += end - begin; });
    CHECK(sum == 1000 && workers.worker_count() > 0);
    std::string thrown;
    try {
        workers.parallel_for(0, 1000, 10, [](std::size_t begin, std::size_t) {
            if (begin == 500) {
                throw std::runtime_error("part 50");
            }
        });
    } catch (const std::runtime_error &caught) {
        thrown = caught.what();
    }
    CHECK(thrown == "part 50");
}

void test_partitions()
{
    gantry::partition_plan plan;
    {
        const std::string name = "critical"; // the plan has a copy
        plan.exactly(name.c_str(), 16).rest("other");
        gantry_partition_request third = {};
        third.name = third.overlaps = third.borrows = third.workqueues_of = name.c_str();
        gantry::partition_plan others;
        const gantry_partition_request &copy = others.add(third).get()->requests[0];
        for (const char *text : {copy.name, copy.overlaps, copy.borrows, copy.workqueues_of}) {
            CHECK(text != name.c_str() && text == name);
        }
    }
    gantry::partition_plan moved = std::move(plan);
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.partitions = moved.get();
    options.driver = GANTRY_DRIVER_EMULATED;
    const gantry::context context(&options);
    gantry_partition_info info = {};
    info.struct_size = sizeof info;
    gantry::check(gantry_partition_get_info(context.partition("critical"), &info));
    CHECK(info.planned_sms == 16);
    CHECK(error_of([&] { context.partition("absent"); }).status() == GANTRY_ERR_NOT_FOUND);
}

void test_the_other_owners(const gantry::context &context)
{
    const std::string path = "test_gantry_hpp.pftrace";
    gantry::recording recording(path.c_str());
    gantry::pinned_memory<int> host(context, 2);
    gantry::device_memory<int> device(context, 2);
    gantry::copy_queue queue(8);
    host[0] = 4;
    host[1] = 0;
    gantry_copy_desc there = {}, back = {};
    there.dest = device.span().data();
    there.source = &host[0];
    there.bytes = back.bytes = sizeof(int);
    there.type = GANTRY_COPY_HTOD;
    back.dest = &host[1];
    back.source = device.span().data();
    back.type = GANTRY_COPY_DTOH;
    queue.enqueue(there);
    queue.enqueue(back);
    CHECK(queue.size() == 2);
    gantry::manager graph(context);
    const auto copies = graph.kernel("copies", [&](gantry::launch l) { queue.flush(l); });
    graph.sync_point("done").after_done(copies);
    graph.run();
    CHECK(host[1] == 4 && queue.size() == 0);
    CHECK(recording.stop().spans > 0);
    std::remove(path.c_str());
    const gantry::current_context current(context);
    context.synchronize();
    CHECK(context.info().total_sms > 0);
    CHECK(current.get() == context.get());
}

gantry_context_options emulated()
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.driver = GANTRY_DRIVER_EMULATED;
    return options;
}

/* Contexts and blocks that C code owns are taken as they are. */
void test_what_c_has_made(const gantry::context &context)
{
    gantry_context *const raw = context.get();
    const gantry::context_ref seen(raw);
    CHECK(seen.get() == raw && seen.heap() == context.heap() && seen.info().total_sms > 0);
    gantry::host_memory<int> block(raw, 3);
    int *const address = block.get();
    CHECK(address == block.span().data() && block.release() == address && block.get() == nullptr &&
          block.size() == 0);
    const gantry::host_memory<int> again(seen, address, 3); // it frees the block
    CHECK(again.get() == address && again.size() == 3);
    gantry::pinned_memory<std::uint32_t> host(raw, 2);
    gantry::device_memory<std::uint32_t> device(raw, 2);
    gantry::manager graph(seen);
    const auto there = graph.htod("raw", [&](gantry::launch l) {
        l.fill(gantry::device_span(device.get(), 2), 7); // of a pointer and a size
        l.copy(gantry::span(host.get(), 2), gantry::device_span(device.get(), 2));
    });
    graph.sync_point("done").after_done(there);
    graph.run();
    CHECK(host[0] == 7 && host[1] == 7);
    const gantry::current_context current(seen);
    seen.synchronize();
    CHECK(current.get() == raw);
}

/* A graph over two devices: each task on the one of its place. */
void test_a_fleet()
{
    CHECK(error_of([] { gantry::fleet none("absent"); }).status() == GANTRY_ERR_INVALID_ARGUMENT);
    const gantry_context_options context = emulated();
    gantry_fleet_options options = GANTRY_FLEET_OPTIONS_INIT;
    options.context = &context;
    const gantry::fleet all(&options);
    CHECK(all.get() != nullptr && all.size() == 2 && all[0].get() != all[1].get());
    gantry::cpu_dispatcher workers;
    gantry::manager graph(all, workers);
    gantry::pinned_memory<std::uint32_t> host(all[0], 2);
    gantry::device_memory<std::uint32_t> first(all[0], 1), second(all[1], 1);
    const void *streams[2] = {};
    const auto fill = [&](std::uint32_t index) {
        return [&, index](gantry::launch l) {
            l.fill((index == 0 ? first : second).span(), index + 5);
            streams[index] = l.stream();
        };
    };
    const auto here = graph.kernel("first", all[0], fill(0)), there = graph.kernel("second", all[1], fill(1));
    const auto back = graph.dtoh("back", all[1],
                                 [&](gantry::launch l) { l.copy(host.span().subspan(1, 1), second.span()); });
    const auto up =
        graph.htod("up", all[0], [&](gantry::launch l) { l.copy(host.span().subspan(0, 1), first.span()); });
    back.after(there);
    up.after(here);
    const auto done = graph.sync_point("done");
    done.after_done(back);
    done.after_done(up);
    graph.run();
    CHECK(host[0] == 5 && host[1] == 6);
    CHECK(streams[0] != nullptr && streams[1] != nullptr && streams[0] != streams[1]);
    gantry_task_desc described = GANTRY_TASK_DESC_INIT;
    gantry::place(all[1]).put_into(described);
    CHECK(described.context == all[1].get() && described.partition == nullptr);
}

/* Shares of GPU time, of a partition and of a manager. */
void test_shares()
{
    gantry::partition_plan plan;
    plan.exactly("half", 64).share(gantry::share_of(40)).rest("other");
    gantry_context_options options = emulated();
    options.partitions = plan.get();
    const gantry::context context(&options);
    const gantry::partition half = context.partition("half"), other = context.partition("other");
    CHECK(half.get() != nullptr && half.info().planned_sms == 64);
    CHECK(half.usage().target == 0.4);
    CHECK(error_of([&] { other.usage(); }).status() == GANTRY_ERR_NOT_FOUND);
    gantry::cpu_dispatcher workers;
    gantry::manager graph(context, workers, gantry::share_of(25)), free(context, workers);
    gantry::device_memory<std::uint32_t> device(context, 1);
    void *stream = nullptr, *of_half = nullptr;
    const auto work = graph.kernel("work", half, [&](gantry::launch l) {
        l.fill(device.span(), 1);
        of_half = l.stream();
    });
    const auto elsewhere = graph.kernel("elsewhere", other, [&](gantry::launch l) {
        l.fill(device.span(), 2);
        stream = l.stream();
    });
    elsewhere.after(work);
    graph.sync_point("done").after_done(elsewhere);
    graph.run();
    CHECK(graph.usage().target == 0.25 && stream != of_half);
    CHECK(error_of([&] { free.usage(); }).status() == GANTRY_ERR_NOT_FOUND);
}

/* A renderer's frame and image, and the exchange of them. */
struct renderer {
    std::uint64_t ready = 0, told = 0;
    static gantry_status wait(void *self, std::uint64_t value, std::uint64_t)
    {
        return static_cast<renderer *>(self)->ready >= value ? GANTRY_OK : GANTRY_ERR_TIMED_OUT;
    }
    static gantry_status signal(void *self, std::uint64_t value)
    {
        static_cast<renderer *>(self)->told = value;
        return GANTRY_OK;
    }
};

void test_frames()
{
    const gantry_context_options options = emulated();
    const gantry::context context(&options);
    gantry_shared_memory_options exported = GANTRY_SHARED_MEMORY_OPTIONS_INIT;
    exported.bytes = 8192;
    exported.fd = memfd_create("frame", MFD_CLOEXEC);
    CHECK(exported.fd >= 0 && ftruncate(exported.fd, 8192) == 0);
    const void *const seen = mmap(nullptr, 8192, PROT_READ, MAP_SHARED, exported.fd, 0);
    const gantry::shared_memory frame(context, exported);
    const auto pixels = frame.map<std::uint32_t>(4096, 16);
    gantry_shared_image_options described = GANTRY_SHARED_IMAGE_OPTIONS_INIT;
    described.width = described.height = 8;
    const gantry::shared_image image = frame.map_image(described);
    CHECK(image.get() != nullptr && image.surface() != 0 && image.native() != nullptr);

    renderer renderer;
    gantry_exchange_options how = GANTRY_EXCHANGE_OPTIONS_INIT;
    how.wait = renderer::wait;
    how.signal = renderer::signal;
    how.user = &renderer;
    const gantry::exchange exchange(context, how);
    gantry::manager graph(context);
    const auto [acquire, release] = exchange.tasks(graph);
    const auto draw = graph.kernel("draw", [&](gantry::launch l) { l.fill(pixels, 9); });
    draw.after(acquire);
    release.after(draw);
    renderer.ready = 3;
    exchange.next(3, 4);
    graph.run();
    CHECK(renderer.told == 4 && static_cast<const std::uint32_t *>(seen)[1024 + 15] == 9);
    CHECK(exchange.get() != nullptr && !exchange.is_lost() && exchange.stats().signalled == 1);
}

} // namespace

/* Not inlined: a compiler that sees malloc() behind one and free() behind the other warns of a mismatch. */
[[gnu::noinline]] void *operator new(std::size_t bytes)
{
    allocations++;
    void *memory = std::malloc(bytes);
    if (memory == nullptr) {
        throw std::bad_alloc();
    }
    return memory;
}
[[gnu::noinline]] void operator delete(void *memory) noexcept
{
    std::free(memory);
}
[[gnu::noinline]] void operator delete(void *memory, std::size_t) noexcept
{
    std::free(memory);
}

int main()
{
    setenv("GANTRY_EMU_DEVICES", "2", 1); // a fleet takes both
    {
        const gantry::context context;
        test_a_pipeline(context);
        test_order_from_data(context);
        test_rings(context);
        test_moved_owners(context);
        test_owners_that_were_moved_from();
        test_captures_live_as_long_as_their_task();
        test_captures_of_cancelled_light_tasks();
        test_small_lambdas_allocate_nothing();
        test_failures(context);
        test_failures_in_another_library();
        test_work_that_ends_later();
        test_shapes_that_are_too_large(context);
        test_launches_that_come_again(context);
        test_calls_say_accesses(context);
    test_calls_say_accesses(context);
        test_loops();
        test_the_other_owners(context);
        test_what_c_has_made(context);
    }
    test_partitions();
    test_a_fleet();
    test_shares();
    test_frames();
    return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
