/* SPDX-License-Identifier: MIT */
/**
 * @file base.hpp
 * Errors as exceptions, owners of C handles, spans.  Part of gantry.hpp: include that.
 */
#ifndef GANTRY_CPP_BASE_HPP
#define GANTRY_CPP_BASE_HPP

#ifndef __cpp_exceptions
#error "gantry.hpp reports errors as exceptions, which are switched off; gantry.h does without them"
#endif

#include <gantry/gantry.h>

#include <cstddef>
#include <exception>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace gantry
{

/* ---- errors ---------------------------------------------------------------------------------- */

/** A call that failed, or a step in which a task did.  what() is the text of gantry_last_error(). */
class [[gnu::visibility("default")]] error : public std::runtime_error
{
  public:
    /** The calling thread's last error. */
    explicit error(gantry_status status)
        : error(status, gantry_last_error(), nullptr, gantry_last_native_error())
    {
    }
    error(gantry_status status, const std::string &text, std::exception_ptr cause = nullptr, int native = 0)
        : std::runtime_error(text.empty() ? gantry_status_text(status) : text), status_(status),
          native_(native), cause_(std::move(cause))
    {
    }
    /** Never GANTRY_OK. */
    gantry_status status() const noexcept
    {
        return status_;
    }
    /** The CUresult behind it; 0 when the cause was not a call of the driver. */
    int native() const noexcept
    {
        return native_;
    }
    /** The first exception that left a lambda in the step that failed; null when there was none. */
    const std::exception_ptr &cause() const noexcept
    {
        return cause_;
    }

  private:
    gantry_status status_;
    int native_;
    std::exception_ptr cause_;
};

namespace detail
{
[[noreturn]] inline void fail(gantry_status status)
{
    throw error(status);
}
[[noreturn, gnu::cold, gnu::noinline]] inline void moved_from()
{
    throw error(GANTRY_ERR_INVALID_ARGUMENT, "the gantry::manager was moved from");
}
[[noreturn]] inline void too_large(std::size_t wanted, std::size_t there)
{
    throw error(GANTRY_ERR_INVALID_ARGUMENT,
                std::to_string(wanted) + " elements do not fit into " + std::to_string(there));
}
} // namespace detail

/** Throw an error unless `status` is GANTRY_OK: for calls of the C functions. */
inline void check(gantry_status status)
{
    if (status != GANTRY_OK) {
        detail::fail(status);
    }
}

namespace detail
{
/** What a function of C that fills a struct says of `handle`. */
template <class Answer, class Handle, class Given>
Answer ask(gantry_status (*function)(Handle, Answer *), Given handle)
{
    Answer answer = {};
    answer.struct_size = sizeof answer;
    check(function(handle, &answer));
    return answer;
}
} // namespace detail

/* ---- owners ---------------------------------------------------------------------------------- */

/** Holds a C handle and destroys it; can be moved and not copied. */
template <class Handle, void (*Destroy)(Handle *)> class owner
{
  public:
    owner() noexcept = default;
    explicit owner(Handle *handle) noexcept : handle_(handle)
    {
    }
    owner(owner &&other) noexcept : handle_(other.release())
    {
    }
    owner &operator=(owner &&other) noexcept
    {
        if (this != &other) {
            destroy();
            handle_ = other.release();
        }
        return *this;
    }
    owner(const owner &) = delete;
    owner &operator=(const owner &) = delete;
    ~owner()
    {
        destroy();
    }

    /** The handle for the C functions; null after a move. */
    Handle *get() const noexcept
    {
        return handle_;
    }
    /** The handle, which the caller destroys from now on. */
    Handle *release() noexcept
    {
        return std::exchange(handle_, nullptr);
    }
    explicit operator bool() const noexcept
    {
        return handle_ != nullptr;
    }

  private:
    void destroy() noexcept
    {
        if (handle_ != nullptr) {
            Destroy(release());
        }
    }
    Handle *handle_ = nullptr;
};

/* ---- memory ---------------------------------------------------------------------------------- */

/** Elements in memory that the CPU reads and writes. */
template <class T> class span
{
  public:
    constexpr span() noexcept = default;
    constexpr span(T *data, std::size_t size) noexcept : data_(data), size_(size)
    {
    }
    /** As one of constant elements. */
    template <class U = T, class = std::enable_if_t<std::is_const_v<U>>>
    constexpr span(span<std::remove_const_t<U>> other) noexcept : span(other.data(), other.size())
    {
    }
    constexpr T *data() const noexcept
    {
        return data_;
    }
    constexpr std::size_t size() const noexcept
    {
        return size_;
    }
    constexpr std::size_t size_bytes() const noexcept
    {
        return size_ * sizeof(T);
    }
    constexpr T *begin() const noexcept
    {
        return data_;
    }
    constexpr T *end() const noexcept
    {
        return data_ + size_;
    }
    constexpr T &operator[](std::size_t index) const noexcept
    {
        return data_[index];
    }
    /** `count` elements from `offset` on, which must be there. */
    constexpr span subspan(std::size_t offset, std::size_t count) const noexcept
    {
        return {data_ + offset, count};
    }

  private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};

/** Elements at device addresses: for copies, fills and kernels, and not to be read by the CPU. */
template <class T> class device_span
{
  public:
    constexpr device_span() noexcept = default;
    constexpr device_span(T *data, std::size_t size) noexcept : data_(data), size_(size)
    {
    }
    /** As one of constant elements. */
    template <class U = T, class = std::enable_if_t<std::is_const_v<U>>>
    constexpr device_span(device_span<std::remove_const_t<U>> other) noexcept
        : device_span(other.data(), other.size())
    {
    }
    constexpr T *data() const noexcept
    {
        return data_;
    }
    constexpr std::size_t size() const noexcept
    {
        return size_;
    }
    constexpr std::size_t size_bytes() const noexcept
    {
        return size_ * sizeof(T);
    }
    /** `count` elements from `offset` on, which must be there. */
    constexpr device_span subspan(std::size_t offset, std::size_t count) const noexcept
    {
        return {data_ + offset, count};
    }

  private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};

namespace detail
{
template <class T> struct exactly { // a parameter of this type takes no part in deducing T
    using type = T;
};
template <class T> using exactly_t = typename exactly<T>::type;
} // namespace detail

} // namespace gantry

#endif
