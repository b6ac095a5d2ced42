/* SPDX-License-Identifier: MIT */
#include "driver/device.h"

#include "base/environment.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define UUID_DIGITS 32

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Convert "GPU-8a0f…" (or "MIG-…", for a part of one), of which the end may be missing, to digits of four
 * bits; dashes may be anywhere between two bytes.  Returns how many there are; 0: it is no UUID. */
static int parse_uuid(const char *text, unsigned char digits[UUID_DIGITS])
{
    if (strncmp(text, "GPU-", 4) != 0 && strncmp(text, "MIG-", 4) != 0) {
        return 0;
    }
    int count = 0;
    for (text += 4; *text != '\0'; text++) {
        int digit = hex_digit(*text);
        if (*text == '-' && count > 0 && count % 2 == 0) {
            continue;
        }
        if (digit < 0 || count == UUID_DIGITS) {
            return 0;
        }
        digits[count++] = (unsigned char)digit;
    }
    return count;
}

static bool parse_ordinal(const char *text, int *out)
{
    char *end;
    if (text[0] < '0' || text[0] > '9') { /* strtol() would accept signs and blanks */
        return false;
    }
    errno = 0;
    long value = strtol(text, &end, 10);
    if (*end != '\0' || errno != 0 || value > 1 << 20) {
        return false;
    }
    *out = (int)value;
    return true;
}

static bool begins_with(const CUuuid *uuid, const unsigned char *digits, int count)
{
    for (int i = 0; i < count; i++) {
        if ((uuid->bytes[i / 2] >> (i % 2 == 0 ? 4 : 0) & 15) != digits[i]) {
            return false;
        }
    }
    return true;
}

/* The one device whose UUID begins with these digits. */
static gantry_status find_uuid(const struct gy_driver *driver, const char *text, const unsigned char *digits,
                               int digit_count, int count, CUdevice *out)
{
    if (driver->cuDeviceGetUuid == NULL) {
        return GY_FAIL(GANTRY_ERR_UNSUPPORTED, "device \"%s\": this driver does not tell UUIDs", text);
    }
    int found = 0;
    CUdevice found_device = 0;
    for (int ordinal = 0; ordinal < count; ordinal++) {
        CUdevice device;
        CUuuid uuid;
        gantry_status status = GY_DRIVER_CALL(driver, cuDeviceGet(&device, ordinal));
        if (status == GANTRY_OK) {
            status = GY_DRIVER_CALL(driver, cuDeviceGetUuid(&uuid, device));
        }
        if (status != GANTRY_OK) {
            return status;
        }
        if (begins_with(&uuid, digits, digit_count)) {
            found_device = device;
            found++;
        }
    }
    if (found != 1) {
        return GY_FAIL(GANTRY_ERR_NO_DEVICE, "%d devices of %d have the UUID \"%s\", not one", found, count,
                       text);
    }
    *out = found_device;
    return GANTRY_OK;
}

struct wanted {
    CUdevice_attribute attribute;
    int *value;
};

static gantry_status read_wanted(const struct gy_driver *driver, CUdevice device, const struct wanted *wanted,
                                 size_t count)
{
    for (size_t i = 0; i < count; i++) {
        gantry_status status =
            GY_DRIVER_CALL(driver, cuDeviceGetAttribute(wanted[i].value, wanted[i].attribute, device));
        if (status != GANTRY_OK) {
            return status;
        }
    }
    return GANTRY_OK;
}

/* What a device offers; "less" is ordered lexicographically. */
struct worth {
    bool dedicated; /* it has memory of its own, and no display to drive */
    uint64_t speed; /* multiprocessors x clock */
    uint64_t memory;
};

static bool is_worth_less(const struct worth *a, const struct worth *b)
{
    if (a->dedicated != b->dedicated) {
        return b->dedicated;
    }
    return a->speed != b->speed ? a->speed < b->speed : a->memory < b->memory;
}

/* Appraise a device; `usable` false: nobody may create a context there. */
static gantry_status appraise(const struct gy_driver *driver, CUdevice device, struct worth *worth,
                              bool *usable)
{
    enum { PROHIBITED = 2 };
    int mode = 0, timeout = 0, integrated = 0, processors = 0, clock = 0;
    size_t memory = 0;
    const struct wanted wanted[] = {
        {CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, &mode},
        {CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT, &timeout},
        {CU_DEVICE_ATTRIBUTE_INTEGRATED, &integrated},
        {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &processors},
        {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, &clock},
    };
    gantry_status status = read_wanted(driver, device, wanted, sizeof(wanted) / sizeof(wanted[0]));
    if (status == GANTRY_OK) {
        status = GY_DRIVER_CALL(driver, cuDeviceTotalMem(&memory, device));
    }
    *worth = (struct worth){timeout == 0 && integrated == 0, (uint64_t)processors * (uint64_t)clock, memory};
    *usable = mode != PROHIBITED;
    return status;
}

/* Find the device that "best" means among `count`; see gantry_suggest_device(). */
static gantry_status suggest(const struct gy_driver *driver, int count, CUdevice *out, int *out_ordinal)
{
    struct worth best = {false, 0, 0};
    int found = -1;
    CUdevice found_device = 0;
    for (int ordinal = 0; ordinal < count; ordinal++) {
        CUdevice device;
        struct worth worth;
        bool usable = false;
        gantry_status status = GY_DRIVER_CALL(driver, cuDeviceGet(&device, ordinal));
        if (status == GANTRY_OK) {
            status = appraise(driver, device, &worth, &usable);
        }
        if (status != GANTRY_OK) {
            return status;
        }
        if (usable && (found < 0 || is_worth_less(&best, &worth))) {
            best = worth;
            found = ordinal;
            found_device = device;
        }
    }
    if (found < 0) {
        return GY_FAIL(GANTRY_ERR_NO_DEVICE, "none of %d devices may be used", count);
    }
    *out = found_device;
    *out_ordinal = found;
    return GANTRY_OK;
}

gantry_status gy_device_find(const struct gy_driver *driver, const char *text, CUdevice *out)
{
    unsigned char digits[UUID_DIGITS];
    int ordinal, count;
    if (text == NULL) {
        text = gy_environment("GANTRY_DEVICE");
    }
    if (text == NULL || text[0] == '\0') {
        text = "0";
    }
    gantry_status status = GY_DRIVER_CALL(driver, cuDeviceGetCount(&count));
    if (status != GANTRY_OK) {
        return status;
    }
    if (strcmp(text, "best") == 0) {
        return suggest(driver, count, out, &ordinal);
    }
    const int digit_count = parse_uuid(text, digits);
    if (digit_count > 0) {
        return find_uuid(driver, text, digits, digit_count, count, out);
    }
    if (!parse_ordinal(text, &ordinal)) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                       "device \"%s\" is neither an ordinal nor a UUID (GPU-xxxxxxxx-xxxx-…) nor \"best\"",
                       text);
    }
    if (ordinal >= count) {
        return GY_FAIL(GANTRY_ERR_NO_DEVICE, "no device %d: there are %d", ordinal, count);
    }
    return GY_DRIVER_CALL(driver, cuDeviceGet(out, ordinal));
}

/* Find the ordinal of a device that came with an adopted context. */
static gantry_status ordinal_of(const struct gy_driver *driver, CUdevice device, int *out)
{
    int count;
    gantry_status status = GY_DRIVER_CALL(driver, cuDeviceGetCount(&count));
    for (int ordinal = 0; status == GANTRY_OK && ordinal < count; ordinal++) {
        CUdevice candidate;
        status = GY_DRIVER_CALL(driver, cuDeviceGet(&candidate, ordinal));
        if (status == GANTRY_OK && candidate == device) {
            *out = ordinal;
            return GANTRY_OK;
        }
    }
    return status != GANTRY_OK
               ? status
               : GY_FAIL(GANTRY_ERR_NO_DEVICE, "device %d is not among the %d", device, count);
}

static gantry_status read_attributes(const struct gy_driver *driver, CUdevice device,
                                     gantry_device_info *info)
{
    int multiprocessors = 0, clock = 0, engines = 0, threads = 0, shared = 0, integrated = 0, can_map = 0;
    int memory_clock = 0, bus = 0, cache = 0, shared_all = 0, shared_most = 0, threads_all = 0, timeout = 0;
    const struct wanted wanted[] = {
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &info->compute_major},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &info->compute_minor},
        {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &multiprocessors},
        {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, &clock},
        {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, &engines},
        {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &threads},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, &shared},
        {CU_DEVICE_ATTRIBUTE_INTEGRATED, &integrated},
        {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, &can_map},
        {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, &memory_clock},
        {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, &bus},
        {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, &cache},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, &shared_all},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &shared_most},
        {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, &threads_all},
        {CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT, &timeout},
    };
    gantry_status status = read_wanted(driver, device, wanted, sizeof(wanted) / sizeof(wanted[0]));
    if (status != GANTRY_OK) {
        return status;
    }
    info->total_sms = (uint32_t)multiprocessors;
    info->clock_khz = (uint32_t)clock;
    info->copy_engines = (uint32_t)engines;
    info->max_threads_per_block = (uint32_t)threads;
    info->shared_bytes_per_block = (uint32_t)shared;
    info->integrated = integrated != 0;
    info->can_map_host_memory = can_map != 0;
    info->drives_display = timeout != 0;
    info->memory_clock_khz = (uint32_t)memory_clock;
    info->memory_bus_bits = (uint32_t)bus;
    info->l2_bytes = (uint32_t)cache;
    info->shared_bytes_per_sm = (uint32_t)shared_all;
    info->most_shared_bytes_per_block = (uint32_t)shared_most;
    info->threads_per_sm = (uint32_t)threads_all;
    return GANTRY_OK;
}

gantry_status gy_device_read_info(const struct gy_driver *driver, CUdevice device, gantry_device_info *out)
{
    gantry_device_info info = {
        .struct_size = sizeof(info), .driver_version = driver->version, .emulated = driver->emulated};
    CUuuid uuid = {{0}};
    size_t memory_bytes = 0;
    gantry_status status = ordinal_of(driver, device, &info.ordinal);
    if (status == GANTRY_OK) {
        status = GY_DRIVER_CALL(driver, cuDeviceGetName(info.name, (int)sizeof(info.name), device));
    }
    if (status == GANTRY_OK) {
        status = GY_DRIVER_CALL(driver, cuDeviceTotalMem(&memory_bytes, device));
    }
    if (status == GANTRY_OK && driver->cuDeviceGetUuid != NULL) {
        status = GY_DRIVER_CALL(driver, cuDeviceGetUuid(&uuid, device));
    }
    if (status == GANTRY_OK) {
        status = read_attributes(driver, device, &info);
    }
    if (status != GANTRY_OK) {
        return status;
    }
    info.memory_bytes = memory_bytes;
    memcpy(info.uuid, uuid.bytes, sizeof(info.uuid));
    *out = info;
    return GANTRY_OK;
}

gantry_status gy_device_suggested_ordinal(const struct gy_driver *driver, int *out)
{
    const char *text = gy_environment("GANTRY_DEVICE");
    CUdevice device;
    gantry_status status = gy_device_find(driver, text != NULL ? text : "best", &device);
    return status == GANTRY_OK ? ordinal_of(driver, device, out) : status;
}
