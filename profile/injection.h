/* SPDX-License-Identifier: MIT */
/* The interface by which NVTX programs and tools meet: a tool's library, named by $NVTX_INJECTION64_PATH,
 * puts its functions into tables that it asks for.  The numbers and layouts are those of NVTX version 3. */
#ifndef PROFILE_INJECTION_H
#define PROFILE_INJECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What an event is: nvtxEventAttributes_t. */
struct gy_injection_event {
    uint16_t version, bytes;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type;
    int32_t reserved;
    uint64_t payload;
    int32_t message_type;
    const char *message;
};
enum { GY_INJECTION_VERSION = 2, GY_INJECTION_UINT64 = 1, GY_INJECTION_ASCII = 1 };

/* What a tool has put there; NULL: it does not want to hear of that. */
struct gy_injection {
    void *(*create_domain)(const char *name);
    void (*name_category)(void *domain, uint32_t category, const char *name);
    void (*put_mark)(void *domain, const struct gy_injection_event *event);
    int (*push)(void *domain, const struct gy_injection_event *event);
    int (*pop)(void *domain);
    uint64_t (*start)(void *domain, const struct gy_injection_event *event);
    void (*end)(void *domain, uint64_t number);
    void (*name_device)(int device, const char *name);
    void (*name_stream)(void *stream, const char *name);
};

/* Open the tool's library and let it put its functions.  On failure `why` says the cause.  One thread. */
bool gy_injection_open(const char *file, struct gy_injection *out, char *why, size_t room);

#endif
