/* SPDX-License-Identifier: MIT */
// A library that hides its symbols: it submits tasks to the manager of the program.
#include "tests/cpp/hidden.h"

#include <stdexcept>

void hidden_add_task_that_throws(gantry::manager &graph)
{
    graph.cpu("hidden", [] { throw std::runtime_error("thrown in the library"); });
}

void hidden_throw_error()
{
    throw gantry::error(GANTRY_ERR_IO, "thrown in the library");
}
