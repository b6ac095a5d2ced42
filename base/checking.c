/* SPDX-License-Identifier: MIT */
#include "base/checking.h"

#include "base/environment.h"
#include "base/status.h"

#include <stdio.h>

_Atomic(unsigned) gy_checks = GY_CHECKS_UNREAD;

/* Returns the part of that name; 0: there is none. */
static unsigned part_of(const char *name, size_t length)
{
    static const struct {
        const char *name;
        unsigned part;
    } parts[] = {
#define PART(upper, text) {text, GY_CHECK_##upper},
        GY_CHECKS(PART)
#undef PART
    };
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        if (strlen(parts[i].name) == length && memcmp(parts[i].name, name, length) == 0) {
            return parts[i].part;
        }
    }
    return 0;
}

/* The variable is read again with each context and each heap; the same mistake is told once. */
static bool was_told(const char *name, size_t length)
{
    uintptr_t hash = 0;
    for (size_t i = 0; i < length; i++) {
        hash = hash * 31 + (unsigned char)name[i];
    }
    return !gy_check_is_first(hash, length);
}

static void tell_unknown(const char *name, size_t length)
{
    if (was_told(name, length)) {
        return;
    }
    char names[128] = "";
    size_t used = 0;
#define NAME(upper, text) used += (size_t)snprintf(names + used, sizeof(names) - used, ", %s", text);
    GY_CHECKS(NAME)
#undef NAME
    gy_log(GANTRY_LOG_WARNING, "$GANTRY_CHECK has \"%.*s\", which is none of: 1%s", (int)length, name, names);
}

/* What "1" means: all parts but those that make programs many times slower. */
static const unsigned USUAL = ~0u & ~GY_CHECKS_UNREAD & ~GY_CHECKS_OF_PROOF;

/* A list of names, or of 1. */
static unsigned read_names(const char *text)
{
    unsigned parts = 0;
    while (*text != '\0') {
        size_t length = strcspn(text, ",");
        unsigned part = length == 1 && *text == '1' ? USUAL : part_of(text, length);
        if (part == 0 && length != 0 && !(length == 1 && *text == '0')) {
            tell_unknown(text, length);
        }
        parts |= part;
        text += length + (text[length] == ',');
    }
    return (parts & GY_CHECKS_OF_PROOF) != 0 ? parts | GY_CHECK_EDGES : parts;
}

unsigned gy_checks_read(void)
{
    const char *text = gy_environment("GANTRY_CHECK");
    const unsigned parts = text != NULL ? read_names(text) : 0;
    atomic_store_explicit(&gy_checks, parts, memory_order_relaxed);
    return parts;
}

bool gy_check_is_first(uintptr_t a, uintptr_t b)
{
    static _Atomic(uint64_t) told[64]; /* atomic; bit h: something that hashes to h was told */
    const uint64_t hash = ((uint64_t)a * 31 + b) * UINT64_C(0x9e3779b97f4a7c15) >> 52;
    const uint64_t bit = UINT64_C(1) << (hash % 64);
    return (atomic_fetch_or_explicit(&told[hash / 64], bit, memory_order_relaxed) & bit) == 0;
}
