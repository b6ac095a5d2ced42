/* SPDX-License-Identifier: MIT */
/* One thing that fails: which kind, the how-manieth, and how. */
#ifndef TESTS_CAMPAIGN_POINT_H
#define TESTS_CAMPAIGN_POINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum point_class {
    POINT_DRIVER, /* a driver call returns an error */
    POINT_HOST,   /* an allocation, a thread or a condition variable is refused */
    POINT_CLOCK,  /* the clock steps */
    POINT_NONE,   /* nothing fails: this shows what a scene does when all is well */
};

struct point {
    enum point_class class;
    uint32_t function; /* POINT_DRIVER: index for point_function() */
    uint64_t nth;      /* from 1 */
    uint32_t variant;
};

/* What a scene does when nothing fails: how many points it has. */
struct point_space {
    uint64_t calls[256]; /* per function */
    uint64_t host;
    uint64_t clock;
};

uint32_t point_functions(void);
const char *point_function(uint32_t index);
uint64_t point_count(const struct point_space *space);
/* In which of so many disjoint parts of all points it is; this depends on the point alone. */
uint32_t point_part(const struct point *point, uint32_t parts);
struct point point_at(const struct point_space *space, uint64_t index);

/* Text like "cuMemAlloc:3:sticky", "host:17", "clock:5:forward"; parse returns false for anything else. */
void point_text(const struct point *point, char *text, size_t room);
bool point_parse(const char *text, struct point *out);

struct gantry_emu_control;
void point_arm(const struct point *point, const struct gantry_emu_control *emu);
/* False: the scene never came to it. */
bool point_fired(const struct point *point, const struct gantry_emu_control *emu);
void point_disarm(const struct gantry_emu_control *emu);
/* Does a message name this cause? */
bool point_is_named(const struct point *point, const char *message);
/* Objects stay that a refused call should have destroyed: nobody can be blamed for that. */
bool point_may_leak(const struct point *point);
/* The same, and the context is lost at that moment: the objects that stay keep a shared one from being
 * renewed. */
bool point_may_lose(const struct point *point);

#endif
