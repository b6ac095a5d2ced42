/* SPDX-License-Identifier: MIT */
#include "tests/campaign/point.h"

#include "base/alloc.h"
#include "driver/funcs.h"
#include "emulator/gantry_emu.h"
#include "tests/campaign/clock_step.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* This is longer than anything that waits: a wait that is charged by the clock. */
#define FORWARD_NS INT64_C(3000000000)

static const char *const functions[] = {
#define F(need, member, symbol, prototype) #member,
    GY_DRIVER_FUNCS(F)
#undef F
};
#define FUNCTIONS (sizeof(functions) / sizeof(functions[0]))
_Static_assert(FUNCTIONS <= sizeof((struct point_space){.host = 0}.calls) / sizeof(uint64_t), "room for all");

static const struct {
    const char *name;
    int result;
    int mode;
    const char *message;
} driver_variants[] = {
    {"once", 2, GANTRY_EMU_ONCE, "CUDA_ERROR_OUT_OF_MEMORY"},
    {"always", 2, GANTRY_EMU_ALWAYS, "CUDA_ERROR_OUT_OF_MEMORY"},
    {"unsupported", 801, GANTRY_EMU_ONCE, "CUDA_ERROR_NOT_SUPPORTED"},
    {"sticky", 700, GANTRY_EMU_ONCE, "CUDA_ERROR_ILLEGAL_ADDRESS"},
    {"fatal", 719, GANTRY_EMU_ALWAYS, "CUDA_ERROR_LAUNCH_FAILED"},
};
#define DRIVER_VARIANTS (sizeof(driver_variants) / sizeof(driver_variants[0]))

static const struct {
    const char *name;
    int64_t step_ns;
} clock_variants[] = {{"forward", FORWARD_NS}, {"back", -INT64_C(500000000)}};
#define CLOCK_VARIANTS (sizeof(clock_variants) / sizeof(clock_variants[0]))

uint32_t point_functions(void)
{
    return FUNCTIONS;
}

const char *point_function(uint32_t index)
{
    return functions[index];
}

uint64_t point_count(const struct point_space *space)
{
    uint64_t count = space->host + CLOCK_VARIANTS * space->clock;
    for (size_t i = 0; i < FUNCTIONS; i++) {
        count += DRIVER_VARIANTS * space->calls[i];
    }
    return count;
}

struct point point_at(const struct point_space *space, uint64_t index)
{
    for (uint32_t i = 0; i < FUNCTIONS; i++) {
        uint64_t here = DRIVER_VARIANTS * space->calls[i];
        if (index < here) {
            return (struct point){POINT_DRIVER, i, 1 + index / DRIVER_VARIANTS,
                                  (uint32_t)(index % DRIVER_VARIANTS)};
        }
        index -= here;
    }
    if (index < space->host) {
        return (struct point){POINT_HOST, 0, 1 + index, 0};
    }
    index -= space->host;
    return (struct point){POINT_CLOCK, 0, 1 + index / CLOCK_VARIANTS, (uint32_t)(index % CLOCK_VARIANTS)};
}

uint32_t point_part(const struct point *point, uint32_t parts)
{
    return (uint32_t)((point->function + point->nth * DRIVER_VARIANTS + point->variant) % parts);
}

void point_text(const struct point *point, char *text, size_t room)
{
    switch (point->class) {
    case POINT_DRIVER:
        (void)snprintf(text, room, "%s:%llu:%s", functions[point->function], (unsigned long long)point->nth,
                       driver_variants[point->variant].name);
        break;
    case POINT_HOST:
        (void)snprintf(text, room, "host:%llu", (unsigned long long)point->nth);
        break;
    case POINT_CLOCK:
        (void)snprintf(text, room, "clock:%llu:%s", (unsigned long long)point->nth,
                       clock_variants[point->variant].name);
        break;
    case POINT_NONE:
        (void)snprintf(text, room, "none");
        break;
    }
}

static bool parse_variant(const char *word, struct point *point)
{
    if (point->class == POINT_HOST) {
        return *word == '\0';
    }
    size_t count = point->class == POINT_DRIVER ? DRIVER_VARIANTS : CLOCK_VARIANTS;
    for (uint32_t i = 0; i < count; i++) {
        const char *name = point->class == POINT_DRIVER ? driver_variants[i].name : clock_variants[i].name;
        if (*word == ':' && strcmp(word + 1, name) == 0) {
            point->variant = i;
            return true;
        }
    }
    return false;
}

bool point_parse(const char *text, struct point *out)
{
    struct point point = {POINT_NONE, 0, 0, 0};
    size_t length = strcspn(text, ":");
    if (strcmp(text, "none") == 0) {
        *out = point;
        return true;
    }
    point.class = strncmp(text, "host", length) == 0    ? POINT_HOST
                  : strncmp(text, "clock", length) == 0 ? POINT_CLOCK
                                                        : POINT_DRIVER;
    while (point.class == POINT_DRIVER && point.function < FUNCTIONS &&
           (strlen(functions[point.function]) != length ||
            memcmp(functions[point.function], text, length) != 0)) {
        point.function++;
    }
    char *end = NULL;
    point.nth = text[length] == ':' ? strtoull(text + length + 1, &end, 10) : 0;
    if (point.function == FUNCTIONS || point.nth == 0 || !parse_variant(end, &point)) {
        return false;
    }
    *out = point;
    return true;
}

void point_arm(const struct point *point, const struct gantry_emu_control *emu)
{
    emu->reset();
    gy_fault_arm(point->class == POINT_HOST ? (long)point->nth - 1 : -1);
    clock_step_arm(point->class == POINT_CLOCK ? point->nth : 0, clock_variants[point->variant % 2].step_ns);
    if (point->class == POINT_DRIVER) {
        (void)(emu->fail)(functions[point->function], point->nth, driver_variants[point->variant].result,
                          driver_variants[point->variant].mode);
    }
}

bool point_fired(const struct point *point, const struct gantry_emu_control *emu)
{
    switch (point->class) {
    case POINT_DRIVER:
        return (emu->calls)(functions[point->function]) >= point->nth;
    case POINT_HOST:
        return gy_fault_fired();
    case POINT_CLOCK:
        return clock_step_readings() >= point->nth;
    case POINT_NONE:
        break;
    }
    return false;
}

void point_disarm(const struct gantry_emu_control *emu)
{
    emu->reset();
    gy_fault_arm(-1);
    clock_step_arm(0, 0);
}

bool point_is_named(const struct point *point, const char *message)
{
    if (point->class == POINT_HOST) {
        return strstr(message, "OUT_OF_HOST_MEMORY") != NULL || strstr(message, "memory") != NULL ||
               strstr(message, "cannot start") != NULL || strstr(message, "cannot create") != NULL;
    }
    if (point->class != POINT_DRIVER) {
        return false;
    }
    char number[32]; /* samples that call the driver themselves print it so */
    (void)snprintf(number, sizeof(number), "CUresult %d", driver_variants[point->variant].result);
    return strstr(message, driver_variants[point->variant].message) != NULL ||
           strstr(message, number) != NULL;
}

bool point_may_lose(const struct point *point)
{
    return point_may_leak(point) && driver_variants[point->variant].result >= 700 &&
           driver_variants[point->variant].result < 800;
}

bool point_may_leak(const struct point *point)
{
    static const char *const takers[] = {"Destroy", "Free", "Release", "Unmap", "Unload", "Unregister"};
    bool takes = false;
    for (size_t i = 0; i < sizeof(takers) / sizeof(takers[0]) && point->class == POINT_DRIVER; i++) {
        takes = takes || strstr(functions[point->function], takers[i]) != NULL;
    }
    return takes;
}
