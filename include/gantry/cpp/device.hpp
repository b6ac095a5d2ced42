/* SPDX-License-Identifier: MIT */
/**
 * @file device.hpp
 * Contexts, kernels, tasks, launches and memory.  Part of gantry.hpp: include that.
 */
#ifndef GANTRY_CPP_DEVICE_HPP
#define GANTRY_CPP_DEVICE_HPP

#include <gantry/cpp/base.hpp>

#include <cstdint>
#include <cstring>

namespace gantry
{

/* ---- context and kernels ------------------------------------------------------------------- */

/** A partition of a context's device: gantry_partition.  As good as the context. */
class partition
{
  public:
    partition() noexcept = default;
    partition(gantry_partition *handle) noexcept : handle_(handle)
    {
    }
    gantry_partition *get() const noexcept
    {
        return handle_;
    }
    /** For the C functions. */
    operator gantry_partition *() const noexcept
    {
        return handle_;
    }
    gantry_partition_info info() const
    {
        return detail::ask(gantry_partition_get_info, handle_);
    }
    /** What it has used, if it has a share of GPU time. */
    gantry_share_usage usage() const
    {
        return detail::ask(gantry_partition_get_usage, handle_);
    }

  private:
    gantry_partition *handle_ = nullptr;
};

/** What is asked of a context, whoever owns it. */
template <class Self> class context_calls
{
  public:
    gantry_heap *heap() const noexcept
    {
        return gantry_context_heap(handle());
    }
    gantry_dispatcher *dispatcher() const noexcept
    {
        return gantry_context_dispatcher(handle());
    }
    /** Wait until the GPU has done what was submitted so far. */
    void synchronize() const
    {
        check(gantry_context_synchronize(handle()));
    }
    gantry_device_info info() const
    {
        return detail::ask(gantry_context_device_info, handle());
    }
    /** The partition of that name. */
    gantry::partition partition(const char *name) const
    {
        gantry_partition *found = nullptr;
        check(gantry_partition_find(handle(), name, &found));
        return found;
    }

  private:
    gantry_context *handle() const noexcept
    {
        return static_cast<const Self *>(this)->get();
    }
};

/** A device with its heap and its dispatcher: gantry_context. */
class context : public owner<gantry_context, gantry_context_destroy>, public context_calls<context>
{
  public:
    /** `options` null: defaults. */
    explicit context(const gantry_context_options *options = nullptr) : owner(create(options))
    {
    }

  private:
    static gantry_context *create(const gantry_context_options *options)
    {
        gantry_context *made = nullptr;
        check(gantry_context_create(options, &made));
        return made;
    }
};

/** A context that something else owns, as a `context`, a fleet or a program in C does, and as good as that.
 * Whatever needs a context takes one of these, so it takes any of them. */
class context_ref : public context_calls<context_ref>
{
  public:
    context_ref(const context &owned) noexcept : handle_(owned.get())
    {
    }
    context_ref(gantry_context *handle) noexcept : handle_(handle)
    {
    }
    gantry_context *get() const noexcept
    {
        return handle_;
    }

  private:
    gantry_context *handle_;
};

/** Contexts of several devices, for one graph over all of them: gantry_fleet. */
class fleet : public owner<gantry_fleet, gantry_fleet_destroy>
{
  public:
    /** `options` null: all devices, with defaults. */
    explicit fleet(const gantry_fleet_options *options = nullptr) : owner(create(options))
    {
    }
    /** Ordinals and UUIDs with commas between them, as "0,2". */
    explicit fleet(const std::string &devices) : owner(create(devices))
    {
    }
    /** How many devices there are. */
    std::uint32_t size() const noexcept
    {
        return gantry_fleet_device_count(get());
    }
    /** The context of a device, which must be there; it lives as long as the fleet. */
    context_ref operator[](std::uint32_t index) const noexcept
    {
        return gantry_fleet_context(get(), index);
    }

  private:
    static gantry_fleet *create(const gantry_fleet_options *options)
    {
        gantry_fleet *made = nullptr;
        check(gantry_fleet_create(options, &made));
        return made;
    }
    static gantry_fleet *create(const std::string &devices)
    {
        gantry_fleet_options options = GANTRY_FLEET_OPTIONS_INIT;
        options.devices = devices.c_str();
        return create(&options);
    }
};

/** A bound on GPU time, in percent of the device, of a partition or of a manager. */
constexpr gantry_share share_of(double percent) noexcept
{
    return {sizeof(gantry_share), percent, 0, 0, 0};
}

/** Where a GPU task runs: on a device of its manager's fleet, or in a partition. */
class place
{
  public:
    place(context_ref context) noexcept : context_(context.get())
    {
    }
    place(gantry::partition partition) noexcept : partition_(partition.get())
    {
    }
    /** As the fields of a task's description. */
    void put_into(gantry_task_desc &described) const noexcept
    {
        described.context = context_;
        described.partition = partition_;
    }

  private:
    gantry_context *context_ = nullptr;
    gantry_partition *partition_ = nullptr;
};

/** Makes the CUDA context current on the calling thread as long as it lives. */
class current_context
{
  public:
    explicit current_context(context_ref context) : context_(context.get())
    {
        check(gantry_context_acquire(context_));
    }
    /** The context that is current. */
    gantry_context *get() const noexcept
    {
        return context_;
    }
    current_context(const current_context &) = delete;
    current_context &operator=(const current_context &) = delete;
    ~current_context()
    {
        gantry_context_release(context_);
    }

  private:
    gantry_context *context_;
};

/** A kernel of a module; as good as the module. */
class kernel
{
  public:
    kernel() noexcept = default;
    kernel(gantry_kernel *handle) noexcept : handle_(handle)
    {
    }
    gantry_kernel *get() const noexcept
    {
        return handle_;
    }
    const char *name() const noexcept
    {
        return gantry_kernel_name(handle_);
    }

  private:
    gantry_kernel *handle_ = nullptr;
};

/** A kernel of which the compiler knows the parameters, so that launch::kernel() can look at arguments.
 *  `Signature` is void(...); get one from kernel_module::get(). */
template <class Signature> class typed_kernel : public kernel
{
    static_assert(std::is_function_v<Signature>, "a function type: void(...)");

  public:
    typed_kernel() noexcept = default;
    explicit typed_kernel(gantry_kernel *handle) noexcept : kernel(handle)
    {
    }
};

/** A kernel image that is loaded into a context; goes before the context does. */
class kernel_module : public owner<gantry_module, gantry_module_unload>
{
  public:
    kernel_module() noexcept = default;
    kernel_module(context_ref context, const gantry_module_image &image) : owner(load(context.get(), image))
    {
    }
    /** The kernel of a generated header: get<gantry::kernels::image::blur>(), of image.kernels.hpp. */
    template <class Kernel> typed_kernel<typename Kernel::signature> get() const
    {
        return typed_kernel<typename Kernel::signature>(get_kernel(Kernel::name).get());
    }
    using owner<gantry_module, gantry_module_unload>::get;
    kernel get_kernel(const char *name) const
    {
        gantry_kernel *found = nullptr;
        check(gantry_module_get_kernel(get(), name, &found));
        return found;
    }

  private:
    static gantry_module *load(gantry_context *context, const gantry_module_image &image)
    {
        gantry_module *loaded = nullptr;
        check(gantry_module_load(context, &image, &loaded));
        return loaded;
    }
};

/** How a kernel is launched: blocks, threads of each, and bytes of dynamic shared memory of each. */
struct shape {
    gantry_dim3 grid = {1, 1, 1};
    gantry_dim3 block = {1, 1, 1};
    std::size_t shared_bytes = 0;
};

/** As many blocks of `threads` threads as `count` elements need, in one dimension.  No device launches a
 * shape of more blocks than fit into 31 bits, or one without threads: launch::run() refuses what comes out
 * then. */
constexpr shape shape_for(std::size_t count, std::uint32_t threads = 256) noexcept
{
    const bool is_too_large = threads == 0 || count > std::size_t{threads} * UINT32_MAX;
    return {{is_too_large ? UINT32_MAX : static_cast<std::uint32_t>((count + threads - 1) / threads), 1, 1},
            {threads, 1, 1},
            0};
}

/* ---- tasks ----------------------------------------------------------------------------------- */

/** A task of a manager; good until that is reset or destroyed. */
class task
{
  public:
    task() noexcept = default;
    task(gantry_task *handle) noexcept : handle_(handle)
    {
    }
    gantry_task *get() const noexcept
    {
        return handle_;
    }
    explicit operator bool() const noexcept
    {
        return handle_ != nullptr;
    }

    /** Start after `predecessor` is released; of two GPU tasks the work is ordered, too. */
    task after(task predecessor) const
    {
        check(gantry_task_start_after(handle_, predecessor.handle_));
        return *this;
    }
    /** Start after the GPU has done the work of `gpu_task`: for a CPU task that reads it. */
    task after_done(task gpu_task) const
    {
        check(gantry_task_start_after_done(handle_, gpu_task.handle_));
        return *this;
    }
    /** The task reads, writes or adds to memory of the host or the device, by which its manager orders it:
     * <gantry/access.h>.  While the graph is built.  `data`: a span, or whatever has data() and size(). */
    template <class Span> task reads(const Span &data) const
    {
        return accesses(data.data(), data.size() * sizeof(*data.data()), GANTRY_ACCESS_READ);
    }
    template <class Span> task writes(const Span &data) const
    {
        return accesses(data.data(), data.size() * sizeof(*data.data()), GANTRY_ACCESS_WRITE);
    }
    template <class Span> task adds_to(const Span &data) const
    {
        return accesses(data.data(), data.size() * sizeof(*data.data()), GANTRY_ACCESS_ADD);
    }
    task accesses(const void *at, std::size_t bytes, gantry_access_mode mode) const
    {
        const gantry_access access = {at, bytes, 1, 0, mode, 0};
        check(gantry_task_access(handle_, &access, 1));
        return *this;
    }
    void add_reference() const
    {
        check(gantry_task_add_reference(handle_));
    }
    void remove_reference() const
    {
        check(gantry_task_remove_reference(handle_));
    }
    /** Give a reference back as failed, with the reason in words, if there is one. */
    void fail_reference(gantry_status cause, const char *text = nullptr) const
    {
        check(gantry_task_fail_reference_with(handle_, cause, text));
    }
    /** From the body of a condition: start its dependent of this index. */
    void choose(std::uint32_t index) const
    {
        check(gantry_task_choose(handle_, index));
    }
    /** From the task's body: it ends with complete(), called for the handle, not when the body returns. */
    gantry_detached detach(const gantry_detach_options *options = nullptr) const
    {
        gantry_detached handle = 0;
        check(gantry_task_detach_with(handle_, options, &handle));
        return handle;
    }
    const char *label() const noexcept
    {
        return gantry_task_label(handle_);
    }
    gantry_task_state state() const noexcept
    {
        return gantry_task_get_state(handle_);
    }
    gantry_status result() const noexcept
    {
        return gantry_task_result(handle_);
    }

  private:
    gantry_task *handle_ = nullptr;
};

/** The work of a detached task has ended, well or with `status`, of which `text` tells more.  Any thread. */
inline void complete(gantry_detached handle, gantry_status status = GANTRY_OK, const char *text = nullptr)
{
    check(gantry_task_complete(handle, status, text));
}

/** What a launch callback is handed: where its task enqueues work.  Good inside the callback only. */
class launch
{
  public:
    launch(gantry_launch *handle) noexcept : handle_(handle)
    {
    }
    gantry_launch *get() const noexcept
    {
        return handle_;
    }
    /** The CUstream of the task. */
    void *stream() const noexcept
    {
        return gantry_launch_stream(handle_);
    }
    /** The same, and all that is enqueued there may be captured: see gantry_launch_capture_stream(). */
    void *capture_stream() const noexcept
    {
        return gantry_launch_capture_stream(handle_);
    }
    /** 0 at the first call of the callback in this run, then 1, 2, ... */
    std::uint64_t index() const noexcept
    {
        return gantry_launch_index(handle_);
    }

    /** Launch `what` with these arguments, which have the types of its parameters; a device_span stands for a
     *  pointer to its first element. */
    template <class... Arguments>
    void run(gantry::kernel what, const shape &how, const Arguments &...arguments) const
    {
        static_assert((std::is_trivially_copyable_v<Arguments> && ...), "kernels take plain values");
        launch_sized<Arguments...>(what, how, nullptr, arguments...);
    }

    /** The same with options: clusters, a cooperative grid, an early start, … (launch.h). */
    template <class... Arguments>
    void run_with(const gantry_launch_options &options, gantry::kernel what, const shape &how,
                  const Arguments &...arguments) const
    {
        static_assert((std::is_trivially_copyable_v<Arguments> && ...), "kernels take plain values");
        launch_sized<Arguments...>(what, how, &options, arguments...);
    }

    /** Launch a kernel whose parameters the compiler knows: a wrong number of arguments does not compile, nor
     *  one of another type.  Pointers become what the parameter points to as in an assignment, and a
     *  device_span stands for the pointer to its first element. */
    template <class... Parameters, class... Arguments>
    void kernel(typed_kernel<void(Parameters...)> what, const shape &how, const Arguments &...arguments) const
    {
        launch_typed<Parameters...>(what, how, nullptr, arguments...);
    }
    /** The same with options. */
    template <class... Parameters, class... Arguments>
    void kernel_with(const gantry_launch_options &options, typed_kernel<void(Parameters...)> what,
                     const shape &how, const Arguments &...arguments) const
    {
        launch_typed<Parameters...>(what, how, &options, arguments...);
    }
    /** Copy all of `from` to the begin of `to`; host memory is page-locked. */
    template <class T> void copy(device_span<T> to, detail::exactly_t<span<const T>> from) const
    {
        fits(from.size(), to.size());
        check(gantry_launch_copy_htod(handle_, to.data(), from.data(), from.size_bytes()));
    }
    template <class T> void copy(span<T> to, detail::exactly_t<device_span<const T>> from) const
    {
        fits(from.size(), to.size());
        check(gantry_launch_copy_dtoh(handle_, to.data(), from.data(), from.size_bytes()));
    }
    template <class T> void copy(device_span<T> to, detail::exactly_t<device_span<const T>> from) const
    {
        fits(from.size(), to.size());
        check(gantry_launch_copy_dtod(handle_, to.data(), from.data(), from.size_bytes()));
    }
    /** Set all elements, of 1, 2 or 4 bytes each, to `value`. */
    template <class T> void fill(device_span<T> to, detail::exactly_t<T> value) const
    {
        static_assert(sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4, "elements of 1, 2 or 4 bytes");
        static_assert(std::is_trivially_copyable_v<T>, "plain elements");
        std::uint32_t pattern = 0;
        std::memcpy(&pattern, &value, sizeof value);
        check(gantry_launch_fill(handle_, to.data(), pattern, sizeof(T), to.size()));
    }
    /** Many copies in one launch: gantry_copy_launch(). */
    void copy_all(span<const gantry_copy_desc> copies) const
    {
        check(gantry_copy_launch(handle_, copies.data(), copies.size()));
    }
    /** Release `waiting` only when the GPU has done what was enqueued so far. */
    void add_completion(task waiting) const
    {
        check(gantry_launch_add_completion(handle_, waiting.get()));
    }
    /** What follows cannot be captured into a graph. */
    void leave_graph() const
    {
        check(gantry_launch_leave_graph(handle_));
    }

  private:
    template <class T> struct argument_size {
        static constexpr std::uint32_t value = sizeof(T);
    };
    template <class T> struct argument_size<device_span<T>> {
        static constexpr std::uint32_t value = sizeof(T *);
    };
    template <class... Arguments>
    void launch_sized(gantry::kernel what, const shape &how, const gantry_launch_options *options,
                      const Arguments &...arguments) const
    {
        static constexpr std::uint32_t sizes[] = {argument_size<Arguments>::value..., 0};
        void *pointers[] = {address(arguments)..., nullptr};
        check(gantry_launch_kernel_sized(handle_, what.get(), how.grid, how.block, how.shared_bytes, pointers,
                                         sizes, sizeof...(Arguments), options));
    }
    /** Whether an argument of type A may be handed to a parameter of type P. */
    template <class P, class A> struct fits_parameter {
        static constexpr bool value =
            std::is_same_v<P, A> ||
            (std::is_pointer_v<P> &&
             (std::is_pointer_v<A> || std::is_null_pointer_v<A>)&&std::is_convertible_v<A, P>);
    };
    template <class P, class T> struct fits_parameter<P, device_span<T>> {
        static constexpr bool value = std::is_pointer_v<P> && std::is_convertible_v<T *, P>;
    };
    template <class T> static const T &value_of(const T &argument) noexcept
    {
        return argument;
    }
    template <class T> static T *value_of(const device_span<T> &argument) noexcept
    {
        return argument.data();
    }
    template <class... Parameters, class... Arguments>
    void launch_typed(gantry::kernel what, const shape &how, const gantry_launch_options *options,
                      const Arguments &...arguments) const
    {
        static_assert(sizeof...(Parameters) == sizeof...(Arguments),
                      "the kernel has another number of parameters than there are arguments");
        if constexpr (sizeof...(Parameters) == sizeof...(Arguments)) {
            static_assert((fits_parameter<Parameters, Arguments>::value && ...),
                          "an argument has another type than the kernel's parameter");
            if constexpr ((fits_parameter<Parameters, Arguments>::value && ...)) {
                launch_sized<Parameters...>(what, how, options,
                                            static_cast<Parameters>(value_of(arguments))...);
            }
        }
    }
    template <class T> static void *address(const T &argument) noexcept
    {
        return const_cast<void *>(static_cast<const void *>(&argument));
    }
    template <class T> static void *address(const device_span<T> &argument) noexcept
    {
        static_assert(std::is_standard_layout_v<device_span<T>>, "its first member is the pointer");
        return const_cast<void *>(static_cast<const void *>(&argument));
    }
    static void fits(std::size_t wanted, std::size_t there)
    {
        if (wanted > there) {
            detail::too_large(wanted, there);
        }
    }
    gantry_launch *handle_;
};

/* ---- blocks of the heap -------------------------------------------------------------------- */

/** `count` elements of one kind of memory of a context's heap.  They are not initialised, and nothing waits
 * for the GPU when they are freed: see free_after(). */
template <class T, gantry_memory_kind Kind> class memory
{
    static_assert(std::is_trivially_copyable_v<T>, "the GPU copies bytes");

  public:
    /** Span of what the kind of memory is: a device_span for device memory, else a span. */
    using span_type = std::conditional_t<Kind == GANTRY_MEMORY_DEVICE, device_span<T>, gantry::span<T>>;

    memory() noexcept = default;
    /** `tag`, `file` and `line` are what statistics and reports of leaks say; `tag` is a string literal. */
    memory(context_ref context, std::size_t count, const char *tag = nullptr,
           const char *file = __builtin_FILE(), int line = __builtin_LINE())
        : heap_(context.heap()), size_(count)
    {
        if (count > SIZE_MAX / sizeof(T)) {
            detail::too_large(count, SIZE_MAX / sizeof(T));
        }
        const gantry_alloc_site site = {tag, file, line};
        void *block = nullptr;
        check(gantry_heap_alloc(heap_, Kind, count * sizeof(T), alignof(T) > 256 ? alignof(T) : 0, site,
                                &block));
        data_ = static_cast<T *>(block);
    }
    /** Owns a block of the context's heap from now on, `count` elements that a C function has given. */
    memory(context_ref context, T *block, std::size_t count) noexcept
        : heap_(context.heap()), data_(block), size_(count)
    {
    }
    memory(memory &&other) noexcept
        : heap_(other.heap_), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0))
    {
    }
    memory &operator=(memory &&other) noexcept
    {
        if (this != &other) {
            free();
            heap_ = other.heap_;
            data_ = std::exchange(other.data_, nullptr);
            size_ = std::exchange(other.size_, 0);
        }
        return *this;
    }
    memory(const memory &) = delete;
    memory &operator=(const memory &) = delete;
    ~memory()
    {
        free();
    }

    std::size_t size() const noexcept
    {
        return size_;
    }
    /** The address for the C functions; null after a move. */
    T *get() const noexcept
    {
        return data_;
    }
    /** The address of a block that the caller frees from now on, with gantry_heap_free(). */
    T *release() noexcept
    {
        size_ = 0;
        return std::exchange(data_, nullptr);
    }
    span_type span() const noexcept
    {
        return {data_, size_};
    }
    /** The elements as the device has them, of any kind but GANTRY_MEMORY_HOST. */
    device_span<T> on_device() const
    {
        static_assert(Kind != GANTRY_MEMORY_HOST, "the device does not see host memory");
        void *address = data_;
        if constexpr (Kind != GANTRY_MEMORY_DEVICE) {
            check(gantry_heap_device_address(heap_, data_, &address));
        }
        return {static_cast<T *>(address), size_};
    }
    T &operator[](std::size_t index) const noexcept
    {
        static_assert(Kind != GANTRY_MEMORY_DEVICE, "the CPU does not touch device memory");
        return data_[index];
    }
    T *begin() const noexcept
    {
        static_assert(Kind != GANTRY_MEMORY_DEVICE, "the CPU does not touch device memory");
        return data_;
    }
    T *end() const noexcept
    {
        return begin() + size_;
    }
    /** Give it back once the GPU has done what `where` has enqueued so far; this one is empty afterwards. */
    void free_after(launch where)
    {
        check(gantry_free_after(data_, where.get()));
        data_ = nullptr;
        size_ = 0;
    }

  private:
    void free() noexcept
    {
        if (data_ != nullptr) {
            gantry_heap_free(heap_, data_);
        }
    }
    gantry_heap *heap_ = nullptr;
    T *data_ = nullptr;
    std::size_t size_ = 0;
};
template <class T> using device_memory = memory<T, GANTRY_MEMORY_DEVICE>;
template <class T> using pinned_memory = memory<T, GANTRY_MEMORY_PINNED>;
template <class T> using write_combined_memory = memory<T, GANTRY_MEMORY_WRITE_COMBINED>;
template <class T> using host_memory = memory<T, GANTRY_MEMORY_HOST>;

/** Buffers of `count` elements that are used in turn: gantry_ring.  Goes before the context does. */
template <class T, gantry_memory_kind Kind> class ring : public owner<gantry_ring, gantry_ring_destroy>
{
  public:
    using span_type = typename memory<T, Kind>::span_type;
    ring(context_ref context, std::size_t count, std::size_t buffers, const char *tag = "gantry::ring",
         const char *file = __builtin_FILE(), int line = __builtin_LINE())
        : owner(create(context, count, buffers, {tag, file, line})), count_(count)
    {
    }
    /** The next buffer; what its tasks do with it is declared before the ring comes to it again. */
    span_type next() const
    {
        return {static_cast<T *>(gantry_ring_next(get())), count_};
    }

  private:
    static gantry_ring *create(context_ref context, std::size_t count, std::size_t buffers,
                               gantry_alloc_site site)
    {
        if (count > SIZE_MAX / sizeof(T)) {
            detail::too_large(count, SIZE_MAX / sizeof(T));
        }
        gantry_ring *made = nullptr;
        check(gantry_ring_create(context.heap(), Kind, count * sizeof(T), buffers, site, &made));
        return made;
    }
    std::size_t count_;
};
template <class T> using device_ring = ring<T, GANTRY_MEMORY_DEVICE>;
template <class T> using pinned_ring = ring<T, GANTRY_MEMORY_PINNED>;

} // namespace gantry

#endif
