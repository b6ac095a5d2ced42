/* SPDX-License-Identifier: MIT */
/* The functions that the library of hidden.cpp exports. */
#ifndef TESTS_CPP_HIDDEN_H
#define TESTS_CPP_HIDDEN_H

#include <gantry/gantry.hpp>

[[gnu::visibility("default")]] void hidden_add_task_that_throws(gantry::manager &graph);
[[gnu::visibility("default")]] void hidden_throw_error();

#endif
