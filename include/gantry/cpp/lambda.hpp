/* SPDX-License-Identifier: MIT */
/**
 * @file lambda.hpp
 * How lambdas become callbacks of C.  Part of gantry.hpp: include that; nothing here is for applications.
 */
#ifndef GANTRY_CPP_LAMBDA_HPP
#define GANTRY_CPP_LAMBDA_HPP

#include <gantry/cpp/device.hpp>

#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <unordered_map>

namespace gantry
{

/* ---- lambdas --------------------------------------------------------------------------------- */

namespace detail
{
struct graph_state;

/** A callable that does not fit into a task's argument; in the list of its graph until it is destroyed. */
struct box_base {
    virtual ~box_base() = default;
    graph_state *graph = nullptr;
    box_base *next = nullptr, *previous = nullptr;
    bool is_of_one_run = false; // submitted to a frozen graph: destroyed with its task, not with the graph
    bool is_light = false;
    std::uint64_t step = 0; // in which it was added
};
template <class F> struct box final : box_base {
    template <class G> explicit box(G &&callable) : function(std::forward<G>(callable))
    {
    }
    F function;
};

/** What a manager's lambdas need beside the C manager. */
struct graph_state {
    std::mutex lock;            // guards all below
    box_base *boxes = nullptr;  // of tasks with a release callback
    box_base *lights = nullptr; // of light tasks
    std::uint64_t step = 0;     // one more for each attempt to begin one
    bool is_frozen = false;
    std::string failed; // label of the task that `cause` left
    std::exception_ptr cause;

    void add(box_base *added)
    {
        std::lock_guard<std::mutex> held(lock);
        added->graph = this;
        added->is_of_one_run = is_frozen;
        added->step = step;
        box_base *&first = added->is_light ? lights : boxes;
        added->next = first;
        if (first != nullptr) {
            first->previous = added;
        }
        first = added;
    }
    /** Destroy `dropped`, unless the graph keeps it for its next run and `always` is false. */
    void drop(box_base *dropped, bool always)
    {
        {
            std::lock_guard<std::mutex> held(lock);
            if (!always && is_frozen && !dropped->is_of_one_run) {
                return;
            }
            unlink(dropped);
        }
        delete dropped; // captures may do what they like: nothing is locked
    }
    /** Destroy those of light tasks that have ended without having run: the step `ended` and all before are
     * over. */
    void drop_lights(std::uint64_t ended)
    {
        box_base *dropped = nullptr;
        {
            std::lock_guard<std::mutex> held(lock);
            for (box_base *at = lights, *next = nullptr; at != nullptr; at = next) {
                next = at->next;
                if (at->step <= ended) {
                    unlink(at);
                    at->next = std::exchange(dropped, at);
                }
            }
        }
        while (dropped != nullptr) {
            delete std::exchange(dropped, dropped->next);
        }
    }
    std::uint64_t current_step()
    {
        std::lock_guard<std::mutex> held(lock);
        return step;
    }
    bool frozen()
    {
        std::lock_guard<std::mutex> held(lock);
        return is_frozen;
    }
    void freeze(bool frozen)
    {
        std::lock_guard<std::mutex> held(lock);
        is_frozen = frozen;
    }
    /** A new step begins. */
    void forget()
    {
        std::exception_ptr old; // destroyed when nothing is locked
        std::lock_guard<std::mutex> held(lock);
        old.swap(cause);
        step++;
    }
    /** Throw what a step ended with, and the exception that is kept. */
    [[noreturn]] void report(gantry_status status, std::string text, int native)
    {
        std::lock_guard<std::mutex> held(lock);
        if (cause) {
            text += "; \"" + failed + "\" threw ";
            try {
                std::rethrow_exception(cause);
            } catch (const std::exception &thrown) {
                text += thrown.what();
            } catch (...) {
                text += "what is no std::exception";
            }
        }
        throw error(status, text, cause, native);
    }
    void drop_all()
    {
        while (boxes != nullptr) {
            drop(boxes, true);
        }
        while (lights != nullptr) {
            drop(lights, true);
        }
    }

  private:
    void unlink(box_base *box)
    {
        box_base *&first = box->is_light ? lights : boxes;
        (box->previous != nullptr ? box->previous->next : first) = box->next;
        if (box->next != nullptr) {
            box->next->previous = box->previous;
        }
    }
};

/** Which manager has which state: looked at only when an exception has left a lambda.  One table for all
 * libraries of the program, also those that hide their symbols. */
struct [[gnu::visibility("default")]] graph_table
{
    std::mutex lock; // guards states
    std::unordered_map<gantry_taskman *, graph_state *> states;
    [[gnu::visibility("default")]] static graph_table &get()
    {
        static graph_table table;
        return table;
    }
};

/** In a handler: keep the exception for who waits for the step.  @return what the task fails with */
inline gantry_status caught(gantry_task *task) noexcept
{
    gantry_status status = GANTRY_ERR_TASK_FAILED;
    try {
        throw;
    } catch (const error &failure) {
        status = failure.status() != GANTRY_OK ? failure.status() : status;
    } catch (const std::bad_alloc &) {
        status = GANTRY_ERR_OUT_OF_HOST_MEMORY;
    } catch (...) {
    }
    try {
        graph_table &table = graph_table::get();
        std::lock_guard<std::mutex> held(table.lock);
        const auto found = task == nullptr // it is asked what it accesses, and the submitter is told
                               ? table.states.end()
                               : table.states.find(gantry_task_manager(task));
        if (found != table.states.end()) {
            std::lock_guard<std::mutex> state_held(found->second->lock);
            if (!found->second->cause) {
                found->second->cause = std::current_exception();
                found->second->failed = gantry_task_label(task);
            }
        }
    } catch (...) { // no memory for the text: the status still tells
    }
    return status;
}

/** May be called through a constant; a generic body is not asked whether it takes a launch. */
template <class F>
constexpr bool is_callable =
    std::disjunction_v<std::is_invocable<const F &>, std::is_invocable<const F &, task>,
                       std::is_invocable<const F &, launch>>;

/** Fits into the `arg` of a task, and may be called through a copy of it. */
template <class F>
constexpr bool is_small =
    sizeof(F) <= sizeof(void *) && alignof(F) <= alignof(void *) &&
    std::is_trivially_copyable_v<F> &&std::is_trivially_destructible_v<F> &&is_callable<F>;

/** What the callable is made for, by what it takes and returns; one that takes and returns nothing is for any
 * task. */
template <class F, class R> constexpr bool is_plain_returning()
{
    if constexpr (std::is_invocable_v<F &>) {
        return std::is_same_v<std::invoke_result_t<F &>, R>;
    } else {
        return false;
    }
}
template <class F>
constexpr bool is_for_launch = std::is_invocable_v<F &, launch> ||
                               is_plain_returning<F, gantry_launch_result>();
template <class F>
constexpr bool is_for_body = std::is_invocable_v<F &, task> || is_plain_returning<F, gantry_status>();

/** Calls the callable behind a task's `arg`. */
template <class F, class Handle> auto call(void *arg, Handle handle)
{
    const auto with = [&](auto &function) {
        if constexpr (std::is_invocable_v<decltype(function), Handle>) {
            return function(handle);
        } else {
            return function();
        }
    };
    if constexpr (is_small<F>) {
        alignas(F) unsigned char bytes[sizeof(F)];
        std::memcpy(bytes, &arg, sizeof(F));
        return with(*std::launder(reinterpret_cast<const F *>(bytes)));
    } else {
        return with(static_cast<box<F> *>(static_cast<box_base *>(arg))->function);
    }
}
template <class F> gantry_status run_body(gantry_task *handle, void *arg) noexcept
{
    try {
        if constexpr (std::is_void_v<decltype(call<F>(arg, task(handle)))>) {
            call<F>(arg, task(handle));
            return GANTRY_OK;
        } else {
            return call<F>(arg, task(handle));
        }
    } catch (...) {
        return caught(handle);
    }
}
template <class F> gantry_launch_result run_launch(gantry_launch *handle, void *arg) noexcept
{
    try {
        if constexpr (std::is_void_v<decltype(call<F>(arg, launch(handle)))>) {
            call<F>(arg, launch(handle));
            return GANTRY_LAUNCH_DONE;
        } else {
            return call<F>(arg, launch(handle));
        }
    } catch (...) {
        return gantry_launch_fail(handle, caught(gantry_launch_task(handle)));
    }
}
inline void release_box(gantry_task *, void *arg, gantry_status) noexcept
{
    box_base *boxed = static_cast<box_base *>(arg);
    boxed->graph->drop(boxed, false);
}
/** A light task has no release callback: what it ran goes right behind it. */
template <class F> gantry_status run_light(gantry_task *handle, void *arg) noexcept
{
    const gantry_status status = run_body<F>(handle, arg);
    if constexpr (!is_small<F>) {
        box_base *boxed = static_cast<box_base *>(arg);
        boxed->graph->drop(boxed, true);
    }
    return status;
}

/** The `arg` of a task for a callable; what the task does not take goes back with this object. */
template <class F> class argument
{
  public:
    template <class G>
    argument([[maybe_unused]] graph_state *graph, G &&callable, [[maybe_unused]] bool is_light = false)
    {
        if constexpr (is_small<F>) {
            const F copy(std::forward<G>(callable));
            std::memcpy(&arg_, static_cast<const void *>(&copy), sizeof copy);
        } else {
            if (graph == nullptr) {
                moved_from();
            }
            auto made = std::make_unique<box<F>>(std::forward<G>(callable));
            made->is_light = is_light;
            graph->add(made.get());
            arg_ = static_cast<box_base *>(made.release());
        }
    }
    argument(const argument &) = delete;
    argument &operator=(const argument &) = delete;
    ~argument()
    {
        if constexpr (!is_small<F>) {
            if (!is_taken_) {
                box_base *boxed = static_cast<box_base *>(arg_);
                boxed->graph->drop(boxed, true);
            }
        }
    }
    void *get() const noexcept
    {
        return arg_;
    }
    void taken() noexcept
    {
        is_taken_ = true;
    }

  private:
    void *arg_ = nullptr;
    bool is_taken_ = false;
};
} // namespace detail

} // namespace gantry

#endif
