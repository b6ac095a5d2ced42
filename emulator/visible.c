/* SPDX-License-Identifier: MIT */
#include "emulator/visible.h"

#include "base/environment.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UUID_TEXT 48 /* "GPU-" and 36 characters */

/* How the first entry names its device; entries of another kind end the list. */
enum kind { KIND_INDEX, KIND_GPU, KIND_MIG };

void gy_emu_uuid(int number, CUuuid *uuid)
{
    memcpy(uuid->bytes, "gantry-emulated\0", sizeof(uuid->bytes));
    uuid->bytes[0] = (char)(uuid->bytes[0] ^ number); /* so that short forms differ */
    uuid->bytes[15] = (char)number;
}

static enum kind kind_of(const char *entry)
{
    return strncmp(entry, "GPU-", 4) == 0 ? KIND_GPU : strncmp(entry, "MIG-", 4) == 0 ? KIND_MIG : KIND_INDEX;
}

/* "67616e74-7279-2d65-6d75-6c6174656400" */
static void write_uuid(int number, char text[UUID_TEXT])
{
    CUuuid uuid;
    gy_emu_uuid(number, &uuid);
    int used = 0;
    for (int i = 0; i < (int)sizeof(uuid.bytes); i++) {
        const char *dash = i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "";
        used +=
            snprintf(text + used, (size_t)(UUID_TEXT - used), "%s%02x", dash, (unsigned char)uuid.bytes[i]);
    }
}

/* The one device whose UUID begins with these characters; -1: there is none, or more than one. */
static int find_uuid(const char *begins, size_t length, uint32_t devices)
{
    int found = -1;
    char text[UUID_TEXT];
    for (uint32_t i = 0; i < devices && length > 0; i++) {
        write_uuid((int)i, text);
        if (strncasecmp(text, begins, length) == 0) {
            if (found >= 0) {
                return -1;
            }
            found = (int)i;
        }
    }
    return found;
}

/* An index is what the entry begins with, as strtol() reads it: "2nd" is 2, as it is to the driver. */
static int find_index(const char *entry, uint32_t devices)
{
    char *end;
    errno = 0;
    long value = strtol(entry, &end, 10);
    return end != entry && errno == 0 && value >= 0 && value < (long)devices ? (int)value : -1;
}

static int find(const char *entry, size_t length, enum kind kind, uint32_t devices)
{
    if (kind_of(entry) != kind) {
        return -1;
    }
    return kind == KIND_INDEX ? find_index(entry, devices) : find_uuid(entry + 4, length - 4, devices);
}

uint32_t gy_emu_visible_read(uint32_t devices, int *numbers)
{
    const char *text = gy_environment_even_empty("CUDA_VISIBLE_DEVICES");
    uint32_t count = 0;
    if (text == NULL) {
        for (; count < devices; count++) {
            numbers[count] = (int)count;
        }
        return count;
    }
    enum kind kind = kind_of(text + strspn(text, " \t"));
    uint32_t seen = 0; /* a bit for each device */
    while (true) {
        text += strspn(text, " \t");
        size_t length = strcspn(text, ",");
        size_t rest = length;
        while (length > 0 && isspace((unsigned char)text[length - 1])) {
            length--;
        }
        int number = find(text, length, kind, devices);
        if (number < 0) {
            return count; /* a bad entry ends the list */
        }
        if ((seen >> number & 1) != 0) {
            return 0; /* with a device named twice there is none, as on a device */
        }
        seen |= UINT32_C(1) << number;
        numbers[count++] = number;
        if (text[rest] == '\0') {
            return count;
        }
        text += rest + 1;
    }
}
