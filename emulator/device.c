/* SPDX-License-Identifier: MIT */
/* Devices: which there are, and what they and their driver are like. */
#include "emulator/resource.h"

#include "base/environment.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DRIVER_VERSION 13000 /* unless $GANTRY_EMU_PROFILE says otherwise */
#define GIB ((size_t)1 << 30)

static const struct gy_emu_profile profiles[] = {
    {.key = "h200",
     .name = "Gantry emulated H200",
     .sm_count = 132,
     .major = 9,
     .minor = 0,
     .memory_bytes = 16 * GIB,
     .shared_bytes_per_block = 49152,
     .shared_bytes_optin = 232448,
     .shared_bytes_per_sm = 233472,
     .threads_per_sm = 2048,
     .blocks_per_sm = 32,
     .clock_khz = 1980000,
     .memory_clock_khz = 3201000,
     .bus_bits = 6016,
     .l2_bytes = 62914560,
     .split_min = 8,
     .split_step = 8,
     .gpc_sms = {18, 18, 18, 16, 16, 16, 16, 14}},
    {.key = "b200",
     .name = "Gantry emulated B200",
     .sm_count = 148,
     .major = 10,
     .minor = 0,
     .memory_bytes = 16 * GIB,
     .shared_bytes_per_block = 49152,
     .shared_bytes_optin = 232448,
     .shared_bytes_per_sm = 233472,
     .threads_per_sm = 2048,
     .blocks_per_sm = 32,
     .clock_khz = 1965000,
     .memory_clock_khz = 3996000,
     .bus_bits = 8192,
     .l2_bytes = 132644864,
     .split_min = 8,
     .split_step = 8,
     .gpc_sms = {20, 20, 18, 18, 18, 18, 18, 18}},
    {.key = "mig", /* a part of an H200 */
     .name = "Gantry emulated H200 MIG 1g.18gb",
     .sm_count = 16,
     .major = 9,
     .minor = 0,
     .memory_bytes = 2 * GIB,
     .shared_bytes_per_block = 49152,
     .shared_bytes_optin = 232448,
     .shared_bytes_per_sm = 233472,
     .threads_per_sm = 2048,
     .blocks_per_sm = 32,
     .clock_khz = 1980000,
     .memory_clock_khz = 3201000,
     .bus_bits = 768,
     .l2_bytes = 7864320,
     .split_min = 8,
     .split_step = 8,
     .gpc_sms = {16}},
    {.key = "small",
     .name = "Gantry emulated small device",
     .sm_count = 16,
     .major = 8,
     .minor = 0,
     .memory_bytes = 2 * GIB,
     .shared_bytes_per_block = 49152,
     .shared_bytes_optin = 166912,
     .shared_bytes_per_sm = 167936,
     .threads_per_sm = 2048,
     .blocks_per_sm = 32,
     .clock_khz = 1410000,
     .memory_clock_khz = 1215000,
     .bus_bits = 5120,
     .l2_bytes = 4194304,
     .split_min = 4,
     .split_step = 2,
     .gpc_sms = {16}},
};

static struct gy_emu_device devices[GY_EMU_MAX_DEVICES];
static int device_count; /* 0 before cuInit() */

int gy_emu_device_count(void)
{
    return device_count;
}

struct gy_emu_device *gy_emu_device_find(CUdevice device)
{
    return device >= 0 && device < device_count ? &devices[device] : NULL;
}

struct gy_emu_device *gy_emu_device_numbered(int number)
{
    for (int i = 0; i < device_count; i++) {
        if (devices[i].number == number) {
            return &devices[i];
        }
    }
    return NULL;
}

void gy_emu_devices_begin(const struct gy_emu_profile *profile, const int *numbers, int count)
{
    for (int i = 0; i < count; i++) {
        devices[i] = (struct gy_emu_device){.profile = profile, .ordinal = i, .number = numbers[i]};
    }
    device_count = count;
}

/* Write one line to stderr, since a driver has no log. */
static void complain(const char *variable, const char *text, const char *takes, const char *so)
{
    fprintf(stderr, "gantry-emu: $%s is \"%s\", not %s: %s\n", variable, text, takes, so);
}

bool gy_emu_read_number(const char *variable, uint32_t most, const char *so, uint32_t *number)
{
    const char *text = gy_environment(variable);
    if (text == NULL) {
        return true;
    }
    char *end;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0 && value >= 1 && value <= most) {
        *number = (uint32_t)value;
        return true;
    }
    char takes[64];
    snprintf(takes, sizeof(takes), "a number from 1 to %u", most);
    complain(variable, text, takes, so);
    return false;
}

/* The next element of $GANTRY_EMU_PROFILE, from `text` on; its length comes out.  NULL: there is none. */
static const char *next_element(const char *text, size_t *length)
{
    text += text != NULL ? strspn(text, ",") : 0;
    *length = text != NULL ? strcspn(text, ",") : 0;
    return *length != 0 ? text : NULL;
}

/* Before a setting was one of the list it was a variable, which is still read. */
static const char *find_older(const char *name)
{
    static const char *const variables[][2] = {{"cuda", "GANTRY_EMU_CUDA"},
                                               {"fabric", "GANTRY_EMU_FABRIC"},
                                               {"grant-less", "GANTRY_EMU_GRANT_LESS"},
                                               {"links", "GANTRY_EMU_LINKS"},
                                               {"mps", "GANTRY_EMU_MPS"}};
    const char *text = NULL;
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        text = strcmp(name, variables[i][0]) == 0 ? gy_environment(variables[i][1]) : text;
    }
    return text != NULL && strcmp(text, "0") != 0 ? text : NULL;
}

bool gy_emu_setting(const char *name, char *value, size_t bytes)
{
    size_t length;
    const size_t own = strlen(name);
    for (const char *at = next_element(gy_environment("GANTRY_EMU_PROFILE"), &length); at != NULL;
         at = next_element(at + length, &length)) {
        if (length >= own && strncmp(at, name, own) == 0 && (length == own || at[own] == '=')) {
            snprintf(value, bytes, "%.*s", length > own ? (int)(length - own - 1) : 0,
                     at + own + (length > own));
            return true;
        }
    }
    const char *older = find_older(name);
    if (older != NULL) {
        snprintf(value, bytes, "%s", older);
    }
    return older != NULL;
}

static bool is_setting(const char *text, size_t length)
{
    static const char *const settings[] = {"cuda=", "fabric", "grant-less=", "links=", "mps"};
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        const size_t own = strlen(settings[i]);
        if (strncmp(text, settings[i], own) == 0 && (length == own) == (settings[i][own - 1] != '=')) {
            return true;
        }
    }
    return false;
}

const struct gy_emu_profile *gy_emu_profile_choose(void)
{
    const struct gy_emu_profile *chosen = &profiles[0];
    const char *text = gy_environment("GANTRY_EMU_PROFILE");
    size_t length;
    for (const char *at = next_element(text, &length); at != NULL; at = next_element(at + length, &length)) {
        const struct gy_emu_profile *named = NULL;
        for (size_t i = 0; i < sizeof(profiles) / sizeof(profiles[0]); i++) {
            const char *key = profiles[i].key;
            named = strlen(key) == length && strncmp(key, at, length) == 0 ? &profiles[i] : named;
        }
        if (named == NULL && !is_setting(at, length)) {
            complain("GANTRY_EMU_PROFILE", text, "h200, b200, mig or small, with settings behind commas",
                     "there is no device");
            return NULL;
        }
        chosen = named != NULL ? named : chosen;
    }
    return chosen;
}

int gy_emu_driver_version(void)
{
    char text[16];
    return gy_emu_setting("cuda", text, sizeof(text)) ? (int)strtol(text, NULL, 10) : DRIVER_VERSION;
}

/* The versions since which drivers have the functions that CUDA 12.0 lacks. */
static const struct {
    const char *begins; /* all functions with these first letters are meant */
    int version;
} since[] = {
    {"cuStreamBeginCaptureToGraph", 12030},
    {"cuGraphConditionalHandleCreate", 12030},
    {"cuGraphAddNode_v2", 12030},
    {"cuFuncGetParamInfo", 12040},
    {"cuDeviceGetDevResource", 12040},
    {"cuDevSmResourceSplitByCount", 12040},
    {"cuDevResourceGenerateDesc", 12040},
    {"cuGreenCtxStreamCreate", 12050},
    {"cuGreenCtx", 12040},
    {"cuCtxFromGreenCtx", 12040},
    {"cuStreamGetGreenCtx", 12040},
    {"cuCtxGetDevResource", 12040},
    {"cuCtxRecordEvent", 12050},
    {"cuCtxWaitEvent", 12050},
    {"cuMemcpyBatchAsync", 12080},
    {"cuLogs", 12090},
    {"cuDevSmResourceSplit", 13010},
    {"cuStreamGetDevResource", 13010},
};

bool gy_emu_lacks(const char *symbol)
{
    for (size_t i = 0; i < sizeof(since) / sizeof(since[0]); i++) {
        if (strncmp(symbol, since[i].begins, strlen(since[i].begins)) == 0) {
            return gy_emu_driver_version() < since[i].version;
        }
    }
    return false;
}

bool gy_emu_has_workqueues(void)
{
    return gy_emu_driver_version() >= 13010;
}
