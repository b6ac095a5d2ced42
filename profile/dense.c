/* SPDX-License-Identifier: MIT */
/* A slice is two packets.  From slice to slice only their times change, so the rest is encoded when the name
 * changes, and copied in whole words.  The length of the rest is known, and the few bytes of a time are
 * spread without a branch.  Packets are short, so a length is one byte. */
#include "profile/dense.h"

#include "profile/packets.h"

#include <string.h>

enum { FIRST_SEQUENCE = 1 };

/* Append a packet. */
static uint8_t *put_packet(uint8_t *at, const uint8_t *packet, const uint8_t *end)
{
    return gy_wire_bytes(at, PACKET, packet, (size_t)(end - packet));
}

static uint8_t *put_descriptor(uint8_t *at, const struct gy_dense_track *track)
{
    uint8_t descriptor[GY_PFTRACE_NAME_BYTES + 64], *d = descriptor;
    d = gy_wire_uint(d, TRACK_UUID, track->track);
    d = gy_wire_uint(d, TRACK_PARENT, track->parent);
    d = gy_wire_bytes(d, TRACK_NAME, track->name, gy_packet_name_bytes(track->name, GY_PFTRACE_NAME_BYTES));
    d = gy_wire_uint(d, TRACK_CHILD_ORDERING, ORDERING_EXPLICIT);
    d = gy_wire_uint(d, TRACK_RANK, track->rank);
    uint8_t packet[sizeof(descriptor) + 32], *p = packet;
    p = gy_wire_uint(p, PACKET_SEQUENCE, FIRST_SEQUENCE);
    p = gy_wire_bytes(p, PACKET_TRACK, descriptor, (size_t)(d - descriptor));
    return put_packet(at, packet, p);
}

/* Put what holds for all packets of the sequence: their track, their clock, the name of a block's number. */
static uint8_t *put_defaults(uint8_t *at, const struct gy_dense_track *track)
{
    uint8_t event[16], *e = gy_wire_uint(event, EVENT_TRACK, track->track);
    uint8_t defaults[64], *d = defaults;
    d = gy_wire_bytes(d, DEFAULTS_TRACK_EVENT, event, (size_t)(e - event));
    d = gy_wire_uint(d, DEFAULTS_CLOCK, CLOCK_OF_SEQUENCE_NR);
    uint8_t interned[64];
    const char *block = gy_argument_names[GY_ARGUMENT_BLOCK];
    uint8_t *i =
        gy_packet_put_entry(interned, INTERNED_ANNOTATION_NAME, GY_ARGUMENT_BLOCK + 1, block, strlen(block));
    uint8_t packet[256], *p = packet;
    p = gy_wire_uint(p, PACKET_SEQUENCE, track->sequence);
    p = gy_wire_uint(p, PACKET_FLAGS, FLAG_CLEARED);
    p = gy_wire_bytes(p, PACKET_DEFAULTS, defaults, (size_t)(d - defaults));
    p = gy_wire_bytes(p, PACKET_INTERNED, interned, (size_t)(i - interned));
    p = gy_wire_uint(p, PACKET_FIRST, 1);
    return put_packet(at, packet, p);
}

static uint8_t *put_clock(uint8_t *at, const struct gy_dense_track *track)
{
    uint8_t clock[32], *c = clock, snapshot[96], *s = snapshot;
    c = gy_wire_uint(c, CLOCK_ID, CLOCK_MONOTONIC_NR);
    c = gy_wire_uint(c, CLOCK_TIMESTAMP, track->begin_ns);
    s = gy_wire_bytes(s, SNAPSHOT_CLOCK, clock, (size_t)(c - clock));
    c = gy_wire_uint(clock, CLOCK_ID, CLOCK_OF_SEQUENCE_NR);
    c = gy_wire_uint(c, CLOCK_TIMESTAMP, 0);
    c = gy_wire_uint(c, CLOCK_INCREMENTAL, 1);
    s = gy_wire_bytes(s, SNAPSHOT_CLOCK, clock, (size_t)(c - clock));
    s = gy_wire_uint(s, SNAPSHOT_PRIMARY, CLOCK_MONOTONIC_NR);
    uint8_t packet[160], *p = packet;
    p = gy_wire_bytes(p, PACKET_CLOCK_SNAPSHOT, snapshot, (size_t)(s - snapshot));
    p = gy_wire_uint(p, PACKET_SEQUENCE, track->sequence);
    return put_packet(at, packet, p);
}

/* Put what every packet of a slice has behind its time. */
static uint8_t *put_sequence(uint8_t *at, const struct gy_dense *dense)
{
    at = gy_wire_uint(at, PACKET_SEQUENCE, dense->sequence);
    return gy_wire_uint(at, PACKET_FLAGS, FLAG_NEEDED);
}

uint8_t *gy_dense_open(uint8_t *at, const struct gy_dense_track *track, struct gy_dense *out)
{
    *out = (struct gy_dense){.sequence = track->sequence,
                             .named = UINT32_MAX,
                             .now_ns = track->begin_ns,
                             .numbered = track->numbered};
    uint8_t event[8], *e = gy_wire_uint(event, EVENT_TYPE, TYPE_SLICE_END);
    uint8_t *end = put_sequence(out->end, out);
    end = gy_wire_bytes(end, PACKET_TRACK_EVENT, event, (size_t)(e - event));
    out->end_bytes = (uint8_t)(end - out->end);
    at = put_descriptor(at, track);
    at = put_defaults(at, track);
    return put_clock(at, track);
}

static uint8_t *declare(uint8_t *at, const struct gy_dense *dense, uint32_t number, const char *name)
{
    uint8_t interned[GY_PFTRACE_NAME_BYTES + 64];
    uint8_t *i = gy_packet_put_entry(interned, INTERNED_NAME, (uint64_t)number + 1, name,
                                     gy_packet_name_bytes(name, GY_PFTRACE_NAME_BYTES));
    uint8_t packet[sizeof(interned) + 32], *p = put_sequence(packet, dense);
    p = gy_wire_bytes(p, PACKET_INTERNED, interned, (size_t)(i - interned));
    return put_packet(at, packet, p);
}

uint8_t *gy_dense_name(uint8_t *at, struct gy_dense *dense, uint32_t number, const char *name)
{
    if (number >= 256 || (dense->known[number / 32] >> number % 32 & 1) == 0) {
        at = declare(at, dense, number, name);
        dense->known[number % 256 / 32] |= number < 256 ? 1u << number % 32 : 0;
    }
    uint8_t event[32], *e = event;
    e = gy_wire_uint(e, EVENT_TYPE, TYPE_SLICE_BEGIN);
    e = gy_wire_uint(e, EVENT_NAME, (uint64_t)number + 1);
    if (dense->numbered) { /* the number itself comes later, and changes the two lengths */
        e = gy_packet_put_argument(e, GY_ARGUMENT_BLOCK, 0) - 1;
    }
    uint8_t *begin = put_sequence(dense->begin, dense);
    dense->event_at = (uint8_t)(begin - dense->begin + 1);
    begin = gy_wire_bytes(begin, PACKET_TRACK_EVENT, event, (size_t)(e - event));
    dense->begin_bytes = (uint8_t)(begin - dense->begin);
    dense->named = number;
    return at;
}

/* Put a time at `at`: the seven-bit groups of the number, each in a byte of its own, all but the last marked.
 * Their number cannot be predicted. */
static inline uint8_t *put_time(uint8_t *at, uint64_t ns)
{
    if (__builtin_expect(ns >> 28 != 0, 0)) {
        return gy_wire_varint(at, ns);
    }
    uint32_t n = (uint32_t)ns;
    uint32_t groups = (n & 0x7f) | (n & 0x3f80) << 1 | (n & 0x1fc000) << 2 | (n & 0xfe00000) << 3;
    uint32_t more = (31 - (uint32_t)__builtin_clz(n | 1)) * 37 >>
                    8; /* the bytes behind the first: the bits divided by 7 */
    groups |= 0x80808080u & ((1u << 8 * more) - 1);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    groups = __builtin_bswap32(groups);
#endif
    memcpy(at, &groups, sizeof(groups));
    return at + more + 1;
}

/* Put a time that most often has two bytes. */
static inline uint8_t *put_duration(uint8_t *at, uint64_t ns)
{
    if (__builtin_expect(ns - 0x80 < 0x4000 - 0x80, 1)) {
        at[0] = (uint8_t)(ns | 0x80);
        at[1] = (uint8_t)(ns >> 7);
        return at + 2;
    }
    return put_time(at, ns);
}

uint8_t *gy_dense_add(uint8_t *at, struct gy_dense *dense, uint64_t begin_ns, uint64_t end_ns, uint64_t block)
{
    uint8_t *head = at;
    head[0] = PACKET << 3 | 2;
    head[2] = PACKET_TIMESTAMP << 3;
    at = put_time(head + 3, begin_ns - dense->now_ns);
    memcpy(at, dense->begin, sizeof(dense->begin));
    if (dense->numbered) {
        uint8_t *event = at + dense->event_at;
        at += dense->begin_bytes;
        uint8_t *behind = gy_wire_varint(at, block);
        uint8_t more = (uint8_t)(behind - at);
        *event = (uint8_t)(*event + more);
        at[-4] = (uint8_t)(at[-4] + more - 1); /* the argument was encoded with one byte */
        at = behind;
    } else {
        at += dense->begin_bytes;
    }
    head[1] = (uint8_t)(at - head - 2);
    head = at;
    head[0] = PACKET << 3 | 2;
    head[2] = PACKET_TIMESTAMP << 3;
    at = put_duration(head + 3, end_ns - begin_ns);
    memcpy(at, dense->end, sizeof(dense->end));
    at += dense->end_bytes;
    head[1] = (uint8_t)(at - head - 2);
    dense->now_ns = end_ns;
    return at;
}
