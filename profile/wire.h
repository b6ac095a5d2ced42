/* SPDX-License-Identifier: MIT */
/* The wire format of protocol buffers, as far as a writer needs it: varints and length-delimited fields.
 * Each function writes at `at` and returns the position behind what it wrote; the caller provides the room.
 */
#ifndef PROFILE_WIRE_H
#define PROFILE_WIRE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint8_t *gy_wire_varint(uint8_t *at, uint64_t value)
{
    while (value >= 0x80) {
        *at++ = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    *at++ = (uint8_t)value;
    return at;
}

static inline uint8_t *gy_wire_uint(uint8_t *at, uint32_t field, uint64_t value)
{
    at = gy_wire_varint(at, (uint64_t)field << 3); /* wire type 0 */
    return gy_wire_varint(at, value);
}

static inline uint8_t *gy_wire_fixed64(uint8_t *at, uint32_t field, uint64_t value)
{
    at = gy_wire_varint(at, (uint64_t)field << 3 | 1); /* wire type 1 */
    for (unsigned i = 0; i < 8; i++) {
        *at++ = (uint8_t)(value >> 8 * i);
    }
    return at;
}

static inline uint8_t *gy_wire_bytes(uint8_t *at, uint32_t field, const void *data, size_t bytes)
{
    at = gy_wire_varint(at, (uint64_t)field << 3 | 2); /* wire type 2 */
    at = gy_wire_varint(at, bytes);
    memcpy(at, data, bytes);
    return at + bytes;
}

static inline uint8_t *gy_wire_string(uint8_t *at, uint32_t field, const char *text)
{
    return gy_wire_bytes(at, field, text, strlen(text));
}

#endif
