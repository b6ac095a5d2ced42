/* SPDX-License-Identifier: MIT */
/**
 * @file gantry.hpp
 * Gantry for C++17, header only: owners that free what they hold, lambdas as the bodies and launch callbacks
 * of tasks, spans of memory, and errors as exceptions.  docs/guides/cpp.md has a whole program.
 *
 * Everything here is a thin layer over the C functions, which may be called beside it: every class gives its
 * C handle with get(), or the address it stands for.  Owners can be moved and not copied; `task`, `launch`,
 * `kernel`, `partition`, `context_ref` and `shared_image` are handles that own nothing and are as good as what
 * they came from.
 *
 * A lambda that captures one pointer or one reference lies in the task itself.  A larger one, and one that is
 * `mutable`, takes one allocation, which is freed when the task is released, or with the graph if it is
 * frozen.
 *
 * An exception that leaves a lambda makes its task fail: with the status of a gantry::error, with
 * GANTRY_ERR_OUT_OF_HOST_MEMORY for std::bad_alloc, else with GANTRY_ERR_TASK_FAILED.  The first one of a
 * step is kept, and the error that manager::run(), stop() or wait() throws has its text and gives it with
 * cause().
 *
 * Threading: as that of the C functions that are called.
 */
#ifndef GANTRY_GANTRY_HPP
#define GANTRY_GANTRY_HPP

#if __cplusplus < 201703L
#error "gantry.hpp needs C++17; gantry.h does with C++11"
#endif

#include <gantry/cpp/graph.hpp>

#include <deque>
#include <vector>

namespace gantry
{

/** Copies that are collected now and launched together later: gantry_copy_queue. */
class copy_queue : public owner<gantry_copy_queue, gantry_copy_queue_destroy>
{
  public:
    /** `reserve`: how many are taken without an allocation. */
    explicit copy_queue(std::size_t reserve) : owner(create(reserve))
    {
    }
    void enqueue(const gantry_copy_desc &copy) const
    {
        check(gantry_copy_queue_enqueue(get(), &copy));
    }
    /** As if each copy had been done when the one before it was finished. */
    void flush(launch where) const
    {
        check(gantry_copy_queue_flush(get(), where.get()));
    }
    std::size_t size() const noexcept
    {
        return gantry_copy_queue_count(get());
    }

  private:
    static gantry_copy_queue *create(std::size_t reserve)
    {
        gantry_copy_queue *made = nullptr;
        check(gantry_copy_queue_create(reserve, &made));
        return made;
    }
};

/** How a device is divided, for gantry_context_options.partitions.  Keeps the names it is given. */
class partition_plan
{
  public:
    partition_plan() = default;
    partition_plan(partition_plan &&) noexcept = default;
    partition_plan &operator=(partition_plan &&) noexcept = default;

    /** A partition as requested; struct_size is filled in; the strings and its share are copied. */
    partition_plan &add(gantry_partition_request request)
    {
        request.struct_size = sizeof request;
        request.name = keep(request.name);
        request.overlaps = keep(request.overlaps);
        request.borrows = keep(request.borrows);
        request.workqueues_of = keep(request.workqueues_of);
        request.share = keep(request.share);
        requests_.push_back(request);
        return *this;
    }
    /** One of exactly so many multiprocessors. */
    partition_plan &exactly(const char *name, std::uint32_t sm_count)
    {
        return add(name, GANTRY_PARTITION_EXACT, sm_count);
    }
    /** One of at least so many. */
    partition_plan &at_least(const char *name, std::uint32_t sm_count)
    {
        return add(name, GANTRY_PARTITION_AT_LEAST, sm_count);
    }
    /** One of what no other takes. */
    partition_plan &rest(const char *name)
    {
        return add(name, GANTRY_PARTITION_REST, 0);
    }
    /** The partition that was added last gets a share of GPU time, see share_of(). */
    partition_plan &share(const gantry_share &bound)
    {
        requests_.back().share = keep(&bound);
        return *this;
    }
    /** What is done without green contexts, and when the driver grants less. */
    partition_plan &tolerate(gantry_partition_fallback fallback, gantry_partition_shortfall shortfall)
    {
        options_.fallback = fallback;
        options_.shortfall = shortfall;
        return *this;
    }
    /** For C; good until the plan changes or goes. */
    const gantry_partition_options *get() noexcept
    {
        options_.requests = requests_.data();
        options_.count = static_cast<std::uint32_t>(requests_.size());
        return &options_;
    }

  private:
    partition_plan &add(const char *name, gantry_partition_size size, std::uint32_t sm_count)
    {
        gantry_partition_request request = {};
        request.name = name;
        request.size = size;
        request.sm_count = sm_count;
        return add(request);
    }
    const char *keep(const char *name)
    {
        return name == nullptr ? nullptr : names_.emplace_back(name).c_str();
    }
    const gantry_share *keep(const gantry_share *bound)
    {
        return bound == nullptr ? nullptr : &shares_.emplace_back(*bound);
    }
    std::deque<std::string> names_;
    std::deque<gantry_share> shares_;
    std::vector<gantry_partition_request> requests_;
    gantry_partition_options options_ = GANTRY_PARTITION_OPTIONS_INIT;
};

/** A recording of what ran when, into a file, until stop() or the end of its life: gantry_profile. */
class recording
{
  public:
    explicit recording(const gantry_profile_options &options)
    {
        check(gantry_profile_start(&options, &profile_));
    }
    explicit recording(const char *path) : recording(options_for(path))
    {
    }
    recording(recording &&other) noexcept : profile_(std::exchange(other.profile_, nullptr))
    {
    }
    recording &operator=(recording &&other) noexcept
    {
        std::swap(profile_, other.profile_);
        return *this;
    }
    ~recording()
    {
        gantry_profile_stop(profile_, nullptr);
    }
    gantry_profile *get() const noexcept
    {
        return profile_;
    }
    /** Write the rest of the file. */
    gantry_profile_stats stop()
    {
        gantry_profile_stats stats = {};
        stats.struct_size = sizeof stats;
        check(gantry_profile_stop(std::exchange(profile_, nullptr), &stats));
        return stats;
    }

  private:
    static gantry_profile_options options_for(const char *path)
    {
        gantry_profile_options options = GANTRY_PROFILE_OPTIONS_INIT;
        options.path = path;
        return options;
    }
    gantry_profile *profile_ = nullptr;
};

/** An image in shared memory, of a renderer: gantry_shared_image.  As good as the memory. */
class shared_image
{
  public:
    explicit shared_image(gantry_shared_image *handle) noexcept : handle_(handle)
    {
    }
    gantry_shared_image *get() const noexcept
    {
        return handle_;
    }
    /** As kernels take it: a gantry_surface. */
    std::uint64_t surface() const noexcept
    {
        return gantry_shared_image_surface(handle_);
    }
    /** The CUarray. */
    void *native() const noexcept
    {
        return gantry_shared_image_native(handle_);
    }

  private:
    gantry_shared_image *handle_;
};

/** Memory that another API has allocated and exported: gantry_shared_memory. */
class shared_memory : public owner<gantry_shared_memory, gantry_shared_memory_destroy>
{
  public:
    shared_memory(context_ref context, const gantry_shared_memory_options &options)
        : owner(take(context.get(), options))
    {
    }
    /** `count` elements from the byte `offset` on. */
    template <class T> device_span<T> map(std::uint64_t offset, std::size_t count) const
    {
        void *address = nullptr;
        check(gantry_shared_memory_map(get(), offset, count * sizeof(T), &address));
        return {static_cast<T *>(address), count};
    }
    /** An image in it, as described. */
    shared_image map_image(const gantry_shared_image_options &options) const
    {
        gantry_shared_image *image = nullptr;
        check(gantry_shared_memory_map_image(get(), &options, &image));
        return shared_image(image);
    }

  private:
    static gantry_shared_memory *take(gantry_context *context, const gantry_shared_memory_options &options)
    {
        gantry_shared_memory *made = nullptr;
        check(gantry_shared_memory_import(context, &options, &made));
        return made;
    }
};

/** Frames that go back and forth between a renderer and a graph: gantry_exchange. */
class exchange : public owner<gantry_exchange, gantry_exchange_destroy>
{
  public:
    exchange(context_ref context, const gantry_exchange_options &options)
        : owner(create(context.get(), options))
    {
    }
    /** Its tasks `acquire` and `release`, in this order. */
    std::pair<task, task> tasks(const manager &graph) const
    {
        gantry_task *acquire = nullptr, *release = nullptr;
        check(gantry_exchange_tasks(get(), graph.get(), &acquire, &release));
        return {acquire, release};
    }
    /** Before each step. */
    void next(std::uint64_t wait_value, std::uint64_t signal_value) const
    {
        check(gantry_exchange_next(get(), wait_value, signal_value));
    }
    /** No more steps: a wait failed or took too long, or the context is gone. */
    bool is_lost() const noexcept
    {
        return gantry_exchange_is_lost(get());
    }
    /** What it has done so far. */
    gantry_exchange_stats stats() const
    {
        return detail::ask(gantry_exchange_get_stats, get());
    }

  private:
    static gantry_exchange *create(gantry_context *context, const gantry_exchange_options &options)
    {
        gantry_exchange *made = nullptr;
        check(gantry_exchange_create(context, &options, &made));
        return made;
    }
};

} // namespace gantry

#endif
