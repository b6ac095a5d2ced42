/* SPDX-License-Identifier: MIT */
// Launches of kernels whose parameters the compiler knows: CASE 0 and 1 compile, no other does (refused.sh).
#include "cpp_kernels.kernels.hpp"

#include <gantry/gantry.hpp>

using triple_kernel = gantry::typed_kernel<gantry::kernels::cpp_kernels::triple::signature>;

void launch(gantry::launch l, triple_kernel k, gantry::device_span<std::uint32_t> numbers,
            gantry::device_span<const std::uint32_t> constants, std::uint32_t *pointer);
void launch(gantry::launch l, triple_kernel k, gantry::device_span<std::uint32_t> numbers,
            gantry::device_span<const std::uint32_t> constants, std::uint32_t *pointer)
{
    const gantry::shape one;
    (void)numbers, (void)constants, (void)pointer;
#if CASE == 0
    l.kernel(k, one, numbers, 1u, 2u);
#elif CASE == 1
    const std::uint32_t count = 1;
    l.kernel_with(GANTRY_LAUNCH_OPTIONS_INIT, k, one, pointer, count, std::uint32_t{2});
#elif CASE == 2
    l.kernel(k, one, numbers, 1u); // another number
#elif CASE == 3
    l.kernel(k, one, numbers, 1u, 2u, 3u); // another number
#elif CASE == 4
    l.kernel(k, one, numbers, std::uint64_t{1}, 2u); // another type
#elif CASE == 5
    l.kernel(k, one, numbers, std::uint16_t{1}, 2u); // another type
#elif CASE == 6
    l.kernel(k, one, numbers, 1u, 2.0f); // another type
#elif CASE == 7
    l.kernel(k, one, constants, 1u, 2u); // another type
#elif CASE == 8
    l.kernel(k, one, numbers, 1u, 2); // another type
#elif CASE == 9
    l.kernel(k, one, *pointer, 1u, 2u); // another type
#elif CASE == 10
    l.kernel_with(GANTRY_LAUNCH_OPTIONS_INIT, k, one, 1u, numbers, 2u); // another type
#endif
}
