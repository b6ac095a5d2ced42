/* SPDX-License-Identifier: MIT */
/* A stand-in for a tool that listens by NVTX's injection interface: it counts what it hears and keeps the
 * names.  Ranges are checked to be open when they end.  Its layouts are its own, not the library's. */
#include "tests/profile/fake_tool.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

struct attributes { /* nvtxEventAttributes_t */
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    uint64_t payload;
    int32_t message_type;
    const char *message;
};

struct fake_tool fake_tool;
static _Thread_local int depth;
static int domain_of_gantry;

static int keep(enum fake_tool_list list, void *domain, const struct attributes *a)
{
    const int number = atomic_fetch_add(&fake_tool.count[list], 1);
    const bool is_right =
        domain == &domain_of_gantry && a->version == 2 && a->size == sizeof(*a) && a->message_type == 1;
    if (!is_right) {
        atomic_fetch_add(&fake_tool.strays, 1);
    } else if (number < FAKE_TOOL_MOST) {
        struct fake_tool_event *event = &fake_tool.events[list][number];
        snprintf(event->name, sizeof(event->name), "%s", a->message);
        event->category = a->category;
        event->payload = a->payload_type == 1 ? a->payload : 0;
        atomic_store(&event->is_whole, true);
    }
    return number;
}

static void mark(void *domain, const struct attributes *a)
{
    (void)keep(FAKE_TOOL_MARKS, domain, a);
}

static int push(void *domain, const struct attributes *a)
{
    (void)keep(FAKE_TOOL_PUSHES, domain, a);
    return depth++;
}

static int pop(void *domain)
{
    atomic_fetch_add(&fake_tool.popped, 1);
    if (depth == 0 || domain != &domain_of_gantry) {
        atomic_fetch_add(&fake_tool.strays, 1);
        return -1;
    }
    return --depth;
}

static uint64_t start(void *domain, const struct attributes *a)
{
    const int number = keep(FAKE_TOOL_STARTS, domain, a);
    if (number < FAKE_TOOL_MOST) {
        atomic_store(&fake_tool.is_open[number], true);
    }
    return (uint64_t)number + 1;
}

static void end(void *domain, uint64_t number)
{
    atomic_fetch_add(&fake_tool.ended, 1);
    const uint64_t at = number - 1;
    if (domain != &domain_of_gantry || at >= FAKE_TOOL_MOST ||
        !atomic_exchange(&fake_tool.is_open[at], false)) {
        atomic_fetch_add(&fake_tool.strays, 1);
    }
}

static void *create_domain(const char *name)
{
    snprintf(fake_tool.domain, sizeof(fake_tool.domain), "%s", name);
    return &domain_of_gantry;
}

static void name_category(void *domain, uint32_t category, const char *name)
{
    if (domain == &domain_of_gantry && category < FAKE_TOOL_CATEGORIES) {
        snprintf(fake_tool.categories[category], sizeof(fake_tool.categories[0]), "%s", name);
    }
}

static void name_device(int device, const char *name)
{
    (void)device;
    snprintf(fake_tool.device, sizeof(fake_tool.device), "%s", name);
}

static void name_stream(void *stream, const char *name)
{
    fake_tool.stream = stream;
    snprintf(fake_tool.stream_name, sizeof(fake_tool.stream_name), "%s", name);
}

typedef void (*function)(void);
static bool put(function **table, unsigned count, unsigned number, function what)
{
    if (number >= count || table[number] == NULL) {
        return false;
    }
    *table[number] = what;
    return true;
}

int InitializeInjectionNvtx2(const void *(*export_table)(uint32_t));
int InitializeInjectionNvtx2(const void *(*export_table)(uint32_t))
{
    const struct {
        size_t bytes;
        int (*module_table)(int, function ***, unsigned *);
    } *callbacks = export_table(1);
    const struct {
        size_t bytes;
        uint32_t version, reserved;
        void (*hear)(uint32_t);
    } *versions = export_table(3);
    function **domains, **cuda, **other;
    unsigned domain_count, cuda_count, count;
    if (callbacks == NULL || versions == NULL || versions->version != 3 || export_table(9) != NULL ||
        callbacks->module_table(5, &domains, &domain_count) != 1 ||
        callbacks->module_table(2, &cuda, &cuda_count) != 1) {
        return 0;
    }
    versions->hear(3);
    for (int module = 1; module <= 6; module++) { /* a tool may fill all there are */
        if (callbacks->module_table(module, &other, &count) != 1 || count < 7) {
            return 0;
        }
    }
    return callbacks->module_table(7, &other, &count) == 0 && put(domains, domain_count, 1, (function)mark) &&
           put(domains, domain_count, 2, (function)start) && put(domains, domain_count, 3, (function)end) &&
           put(domains, domain_count, 4, (function)push) && put(domains, domain_count, 5, (function)pop) &&
           put(domains, domain_count, 8, (function)name_category) &&
           put(domains, domain_count, 12, (function)create_domain) &&
           put(cuda, cuda_count, 1, (function)name_device) && put(cuda, cuda_count, 5, (function)name_stream);
}
