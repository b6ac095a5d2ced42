/* SPDX-License-Identifier: MIT */
/* The same program with C++'s library in it. */
#include <iostream>

static thread_local std::ios_base::Init of_the_thread; // NOLINT: thread data, as C++ programs have
#include "host.c"
