/* SPDX-License-Identifier: MIT */
/**
 * @file graph.hpp
 * Threads for CPU tasks, and graphs of tasks.  Part of gantry.hpp: include that.
 */
#ifndef GANTRY_CPP_GRAPH_HPP
#define GANTRY_CPP_GRAPH_HPP

#include <gantry/cpp/lambda.hpp>

namespace gantry
{

/* ---- the graph ------------------------------------------------------------------------------- */

/** Threads for CPU tasks; outlives the managers that use it. */
class cpu_dispatcher : public owner<gantry_cpu_dispatcher, gantry_cpu_dispatcher_destroy>
{
  public:
    /** `options` null: defaults. */
    explicit cpu_dispatcher(const gantry_cpu_dispatcher_options *options = nullptr) : owner(create(options))
    {
    }
    std::uint32_t worker_count() const noexcept
    {
        return gantry_cpu_dispatcher_worker_count(get());
    }

    /** Call `body(begin, end)` for parts of begin ... end - 1 of `grain` indices (0: chosen), here and on
     * idle workers.  The first exception that leaves a part ends the loop and is thrown here. */
    template <class F>
    void parallel_for(std::size_t begin, std::size_t end, std::size_t grain, F &&body) const
    {
        loop<std::remove_reference_t<F>> all = {body, {}, nullptr};
        const gantry_status status =
            gantry_parallel_for(get(), begin, end, grain, &loop<std::remove_reference_t<F>>::part, &all);
        if (all.thrown) {
            std::rethrow_exception(all.thrown);
        }
        check(status);
    }

  private:
    template <class F> struct loop {
        F &body;
        std::mutex lock; // guards thrown
        std::exception_ptr thrown;
        static gantry_status part(std::size_t begin, std::size_t end, void *arg) noexcept
        {
            loop *all = static_cast<loop *>(arg);
            try {
                all->body(begin, end);
                return GANTRY_OK;
            } catch (...) {
                std::lock_guard<std::mutex> held(all->lock);
                if (!all->thrown) {
                    all->thrown = std::current_exception();
                }
                return GANTRY_ERR_TASK_FAILED;
            }
        }
    };
    static gantry_cpu_dispatcher *create(const gantry_cpu_dispatcher_options *options)
    {
        gantry_cpu_dispatcher *made = nullptr;
        check(gantry_cpu_dispatcher_create(options, &made));
        return made;
    }
};

/** A graph of tasks: gantry_taskman.  Labels are string literals: they are not copied. */
class manager
{
  public:
    explicit manager(const gantry_taskman_options &options) : state_(std::make_unique<detail::graph_state>())
    {
        gantry_taskman *made = nullptr;
        check(gantry_taskman_create(&options, &made));
        handle_ = owner<gantry_taskman, gantry_taskman_destroy>(made);
        detail::graph_table &table = detail::graph_table::get();
        std::lock_guard<std::mutex> held(table.lock);
        table.states.emplace(made, state_.get());
    }
    /** GPU tasks on the context's device; CPU tasks in the thread that waits. */
    explicit manager(context_ref context) : manager(options_for(nullptr, context.dispatcher()))
    {
    }
    /** GPU tasks on the context's device, CPU tasks on the workers. */
    manager(context_ref context, const cpu_dispatcher &workers)
        : manager(options_for(workers.get(), context.dispatcher()))
    {
    }
    /** Likewise, and its GPU tasks have a share of the device's time, see share_of(). */
    manager(context_ref context, const cpu_dispatcher &workers, const gantry_share &share)
        : manager(options_for(workers.get(), context.dispatcher(), &share))
    {
    }
    /** GPU tasks on the devices of the fleet, each on the one of its `place`; CPU tasks on the workers. */
    manager(const fleet &devices, const cpu_dispatcher &workers)
        : manager(options_for(workers.get(), nullptr, nullptr, devices.get()))
    {
    }
    manager(manager &&) noexcept = default;
    manager &operator=(manager &&other) noexcept
    {
        if (this != &other) {
            destroy();
            handle_ = std::move(other.handle_);
            state_ = std::move(other.state_);
        }
        return *this;
    }
    ~manager()
    {
        destroy();
    }
    gantry_taskman *get() const noexcept
    {
        return handle_.get();
    }

    /** Submit a task as described; its callback is `function`, which takes nothing, or a `task` (a `launch`,
     * for GPU tasks), and returns nothing or what the callback of C returns.  `run`, `launch`, `arg` and
     * `release` of the description are not looked at. */
    template <class F> task submit(const gantry_task_desc &described, F &&function)
    {
        gantry_task_desc filled = described;
        return fill_and_submit<false>(filled, std::forward<F>(function));
    }
    /** A CPU task. */
    template <class F> task cpu(const char *label, F &&function)
    {
        gantry_task_desc described = labelled(GANTRY_TASK_CPU, label);
        return fill_and_submit<true>(described, std::forward<F>(function));
    }
    /** A GPU task that copies to the device. */
    template <class F> task htod(const char *label, F &&function)
    {
        gantry_task_desc described = labelled(GANTRY_TASK_HTOD, label);
        return fill_and_submit<false>(described, std::forward<F>(function));
    }
    /** Likewise, there. */
    template <class F> task htod(const char *label, place where, F &&function)
    {
        gantry_task_desc described = labelled(GANTRY_TASK_HTOD, label);
        where.put_into(described);
        return fill_and_submit<false>(described, std::forward<F>(function));
    }
    /** A GPU task that launches kernels. */
    template <class F> task kernel(const char *label, F &&function)
    {
        gantry_task_desc described = labelled(GANTRY_TASK_KERNEL, label);
        return fill_and_submit<false>(described, std::forward<F>(function));
    }
    /** Likewise, there. */
    template <class F> task kernel(const char *label, place where, F &&function)
    {
        gantry_task_desc described = labelled(GANTRY_TASK_KERNEL, label);
        where.put_into(described);
        return fill_and_submit<false>(described, std::forward<F>(function));
    }
    /** A GPU task that copies to the host. */
    template <class F> task dtoh(const char *label, F &&function)
    {
        gantry_task_desc described = labelled(GANTRY_TASK_DTOH, label);
        return fill_and_submit<false>(described, std::forward<F>(function));
    }
    /** Likewise, there. */
    template <class F> task dtoh(const char *label, place where, F &&function)
    {
        gantry_task_desc described = labelled(GANTRY_TASK_DTOH, label);
        where.put_into(described);
        return fill_and_submit<false>(described, std::forward<F>(function));
    }
    /** A task without work, to hang dependencies on. */
    task sync_point(const char *label)
    {
        const gantry_task_desc described = labelled(GANTRY_TASK_SYNC_POINT, label);
        gantry_task *made = nullptr;
        check(gantry_taskman_submit(get(), &described, &made));
        return made;
    }
    /** A light task that begins at once: the way to divide work while the graph runs.  `continuation` waits
     * for it. */
    template <class F> void spawn(const char *label, F &&function, task continuation = {})
    {
        using callable = std::decay_t<F>;
        detail::argument<callable> argument(state_.get(), std::forward<F>(function), true);
        check(gantry_taskman_spawn(get(), detail::run_light<callable>, argument.get(), label,
                                   continuation.get()));
        argument.taken();
    }

    void start()
    {
        state().forget();
        check(gantry_taskman_start(get()));
    }
    /** Wait until every task submitted so far is released. */
    void wait()
    {
        detail::graph_state &own = state();
        const gantry_status status = gantry_taskman_wait(get());
        if (status != GANTRY_OK) {
            own.report(status, gantry_last_error(), gantry_last_native_error());
        }
    }
    /** Wait for all tasks and end the step. */
    void stop()
    {
        const std::uint64_t step = state().current_step();
        finish(gantry_taskman_stop(get()), step);
    }
    /** Start and stop: a frozen graph so many times, any other once. */
    void run(std::uint64_t times = 1)
    {
        if (!state().frozen() && times == 1) {
            start();
            stop();
        } else {
            state().forget();
            const std::uint64_t step = state().current_step();
            finish(gantry_taskman_run(get(), times), step);
        }
    }
    /** Make it a graph that runs again and again.  What the lambdas have captured stays until reset(). */
    void freeze()
    {
        check(gantry_taskman_freeze(get()));
        state().freeze(true);
    }
    /** Forget every task. */
    void reset()
    {
        check(gantry_taskman_reset(get()));
        state().freeze(false);
        state().drop_all();
    }
    /** What its GPU tasks have used, if it has a share of GPU time. */
    gantry_share_usage usage() const
    {
        return detail::ask(gantry_taskman_get_usage, get());
    }
    /** End the run early; stop() then throws an error of GANTRY_ERR_CANCELLED. */
    void cancel()
    {
        check(gantry_taskman_cancel(get()));
    }

  private:
    static gantry_taskman_options options_for(gantry_cpu_dispatcher *workers, gantry_dispatcher *gpu,
                                              const gantry_share *share = nullptr,
                                              gantry_fleet *devices = nullptr)
    {
        gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
        options.cpu_dispatcher = workers;
        options.gpu_dispatcher = gpu;
        options.share = share;
        options.fleet = devices;
        return options;
    }
    static gantry_task_desc labelled(gantry_task_kind kind, const char *label)
    {
        gantry_task_desc described = GANTRY_TASK_DESC_INIT;
        described.kind = kind;
        described.label = label;
        return described;
    }
    /** `IsBody`: of a CPU task in any case. */
    template <bool IsBody, class F> task fill_and_submit(gantry_task_desc &described, F &&function)
    {
        using callable = std::decay_t<F>;
        detail::argument<callable> argument(state_.get(), std::forward<F>(function));
        described.run = nullptr;
        described.launch = nullptr;
        if constexpr (IsBody) {
            described.run = detail::run_body<callable>;
        } else if constexpr (detail::is_for_launch<callable>) {
            described.launch = detail::run_launch<callable>;
        } else if constexpr (detail::is_for_body<callable>) {
            described.run = detail::run_body<callable>;
        } else if (described.kind == GANTRY_TASK_CPU) {
            described.run = detail::run_body<callable>;
        } else {
            described.launch = detail::run_launch<callable>;
        }
        described.arg = argument.get();
        described.release = detail::is_small<callable> ? nullptr : detail::release_box;
        gantry_task *made = nullptr;
        check(gantry_taskman_submit(get(), &described, &made));
        argument.taken();
        return made;
    }
    /** What a light task that was cancelled has captured goes with the step; GANTRY_ERR_STATE may mean that
     * this is not over, and then it goes with a later one. */
    void finish(gantry_status status, std::uint64_t step)
    {
        if (status == GANTRY_OK) {
            state_->drop_lights(step);
            return;
        }
        const std::string text = gantry_last_error(); // before a destructor makes another one
        const int native = gantry_last_native_error();
        if (status != GANTRY_ERR_STATE) {
            state_->drop_lights(step);
        }
        state_->report(status, text, native);
    }
    detail::graph_state &state() const
    {
        if (state_ == nullptr) {
            detail::moved_from();
        }
        return *state_;
    }
    void destroy() noexcept
    {
        if (!handle_) {
            return;
        }
        {
            detail::graph_table &table = detail::graph_table::get();
            std::lock_guard<std::mutex> held(table.lock);
            table.states.erase(get());
        }
        handle_ = {}; // waits for what runs
        state_->drop_all();
    }
    std::unique_ptr<detail::graph_state> state_;
    owner<gantry_taskman, gantry_taskman_destroy> handle_;
};

} // namespace gantry

#endif
