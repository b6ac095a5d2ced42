/* SPDX-License-Identifier: MIT */
/* What the stand-in for a tool (fake_tool.c) has heard. */
#ifndef TESTS_PROFILE_FAKE_TOOL_H
#define TESTS_PROFILE_FAKE_TOOL_H

#include <stdatomic.h>
#include <stdint.h>

enum { FAKE_TOOL_MOST = 256, FAKE_TOOL_CATEGORIES = 16 };
enum fake_tool_list { FAKE_TOOL_PUSHES, FAKE_TOOL_STARTS, FAKE_TOOL_MARKS, FAKE_TOOL_LISTS };
struct fake_tool_event {
    char name[64];
    uint32_t category;
    uint64_t payload;     /* 0: none */
    atomic_bool is_whole; /* the rest is written, and stays */
};
struct fake_tool {
    atomic_int count[FAKE_TOOL_LISTS];
    struct fake_tool_event events[FAKE_TOOL_LISTS][FAKE_TOOL_MOST];
    atomic_int popped, ended;
    atomic_int strays; /* ends of what was not open, events that make no sense */
    atomic_bool is_open[FAKE_TOOL_MOST];
    char domain[32], device[64], stream_name[64];
    char categories[FAKE_TOOL_CATEGORIES][32];
    void *stream;
};
extern struct fake_tool fake_tool; /* of the tool's library */

#endif
