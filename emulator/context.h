/* SPDX-License-Identifier: MIT */
/* Devices and contexts of the emulated driver. */
#ifndef EMULATOR_CONTEXT_H
#define EMULATOR_CONTEXT_H

#include "emulator/queue.h"

#define GY_EMU_MAX_DEVICES 16
#define GY_EMU_MAX_PEERS 32 /* contexts whose memory a context may touch */
#define GY_EMU_MAX_SMS 256
#define GY_EMU_MAX_GPCS 12

/* A device profile; immutable. */
struct gy_emu_profile {
    const char *key;  /* its value of $GANTRY_EMU_PROFILE */
    const char *name; /* its cuDeviceGetName() */
    uint32_t sm_count;
    int major, minor;
    size_t memory_bytes;
    uint32_t shared_bytes_per_block, shared_bytes_optin, shared_bytes_per_sm;
    uint32_t threads_per_sm, blocks_per_sm;
    uint32_t clock_khz, memory_clock_khz, bus_bits, l2_bytes;
    uint32_t split_min, split_step;   /* the least and the step of a split of SM resources */
    uint8_t gpc_sms[GY_EMU_MAX_GPCS]; /* SMs of each processing cluster, 0 ends the list */
};

struct gy_emu_device {
    const struct gy_emu_profile *profile;
    int ordinal;                    /* as the application counts them: see visible.h */
    int number;                     /* in the emulated machine */
    size_t used_bytes;              /* used out of memory_bytes */
    struct gy_emu_context *primary; /* NULL: it is not active */
    uint32_t primary_refs;
    unsigned int primary_flags;
};

struct gy_emu_context {
    struct gy_emu_object object; /* its context is itself */
    struct gy_emu_device *device;
    struct gy_emu_context *root; /* itself; for the context of a green context, the primary context */
    struct gy_emu_green *green;  /* the green context whose context this is, or NULL */
    unsigned int flags;
    CUresult sticky; /* of a root: every call returns this from now on; SUCCESS: the context is healthy */
    bool discarding; /* of a root: queued operations end without being executed */
    bool destroyed;  /* of a green context's: it was destroyed, while streams of it still exist */
    struct gy_emu_context *graveyard; /* of a root: its destroyed green contexts, linked by this field */
    struct gy_emu_stream *streams;    /* of a root: all streams, also those of its green contexts */
    struct gy_emu_stream *null_stream;
    uintptr_t peers[GY_EMU_MAX_PEERS]; /* of a root: handles of the contexts cuCtxEnablePeerAccess() named */
    uint32_t peer_count;
    uint32_t places_used, places_room; /* of a root: see places.h */
    uint32_t capturing; /* streams of this context that are being captured and order with the null stream */
    uint32_t next_sm;
    uint32_t sm_count;
    uint16_t sms[GY_EMU_MAX_SMS]; /* ids of the virtual SMs that kernels run on */
};

int gy_emu_device_count(void); /* 0 before cuInit() */
/* The profile that $GANTRY_EMU_PROFILE names; NULL: it names none, or has what is no setting, and a line on
 * stderr has said so. */
const struct gy_emu_profile *gy_emu_profile_choose(void);
/* From now on there are so many devices. */
void gy_emu_devices_begin(const struct gy_emu_profile *profile, const int *numbers, int count);
/* Does $GANTRY_EMU_PROFILE have the setting NAME or NAME=VALUE?  Then its value comes out, "" if it has none.
 */
bool gy_emu_setting(const char *name, char *value, size_t bytes);
/* As cuDriverGetVersion() tells it. */
int gy_emu_driver_version(void);
/* Read a number from 1 to `most` from the environment; if the variable is not set or empty, `number` stays.
 * False: a line on stderr has said what is wrong with it and what follows (`so`). */
bool gy_emu_read_number(const char *variable, uint32_t most, const char *so, uint32_t *number);
struct gy_emu_device *gy_emu_device_find(CUdevice device); /* NULL: there is no such device */
/* By its number in the machine; NULL: there is none, or it is not visible. */
struct gy_emu_device *gy_emu_device_numbered(int number);

/* Open a context with its null stream; `sms` NULL: it has all SMs of the device. */
CUresult gy_emu_context_open(struct gy_emu_device *device, struct gy_emu_context *root, const uint16_t *sms,
                             uint32_t sm_count, struct gy_emu_context **out);
/* Let the context's work end (work on hold is discarded), and free everything that belongs to it. */
void gy_emu_context_close(struct gy_emu_context *context);

/* Get the calling thread's current context; INVALID_CONTEXT, CONTEXT_IS_DESTROYED or its sticky error. */
CUresult gy_emu_context_current(struct gy_emu_context **out);
/* Find a context by its handle, where NULL means the current one; same errors. */
CUresult gy_emu_context_find(CUcontext handle, struct gy_emu_context **out);
/* As find, also a context that has failed; NULL is none. */
CUresult gy_emu_context_look(CUcontext handle, struct gy_emu_context **out);
CUresult gy_emu_context_look_current(struct gy_emu_context **out);
/* The calling thread's stack of current contexts. */
CUresult gy_emu_current_push(CUcontext handle);
CUresult gy_emu_current_pop(CUcontext *out); /* `out` may be NULL */
/* Replace the top of the stack; NULL pops it. */
CUresult gy_emu_current_set(CUcontext handle);
CUcontext gy_emu_current_top(void); /* NULL: the stack is empty */
bool gy_emu_current_is_full(void);
/* CUDA_SUCCESS, or the result that any call on the context returns now. */
CUresult gy_emu_context_health(const struct gy_emu_context *context);
/* Has cuCtxEnablePeerAccess() let work of `context` touch what `owner`, a root, has allocated? */
bool gy_emu_peer_is_enabled(const struct gy_emu_context *context, const struct gy_emu_context *owner);
/* The place of the context with this handle among those that it has named; peer_count: it is none of them. */
uint32_t gy_emu_peer_find(const struct gy_emu_context *root, uintptr_t handle);
/* The context can never work again: release everything queued. */
void gy_emu_context_fail(struct gy_emu_context *context, CUresult result);
/* An operation of the context failed while it was executed.  As on a device, a fault ends all GPU work of the
 * process: every context has failed, and no new one can be made. */
void gy_emu_execution_fail(struct gy_emu_context *context, CUresult result);
/* The error that has ended all GPU work of the process; CUDA_SUCCESS: there is none. */
CUresult gy_emu_process_failure(void);
/* The latest launch that failed; its result CUDA_SUCCESS: none has. */
extern struct gy_emu_failure {
    CUresult result;
    char text[384];
    bool is_told; /* a call was given the text */
} gy_emu_failure;
/* Why it failed; the text's whole length. */
size_t gy_emu_last_failure(char *text, size_t room);
/* The same, if it failed with `result`; else NULL.  Good while the lock is held.  *is_new: nobody has asked
 * for it before. */
const char *gy_emu_failure_of(CUresult result, bool *is_new);
/* A launch has failed with the text that is written; CUDA_SUCCESS: what failed is forgotten. */
void gy_emu_failure_set(CUresult result);
/* Forget such a failure, as a new process would; contexts that have failed stay so. */
void gy_emu_process_begin_anew(void);
/* Other devices do not notice a fault until this is called with false. */
void gy_emu_spread_hold(bool hold);
bool gy_emu_spread_is_held(void);
/* A real device stops the kernels of a failed context, but ours run to their end.  Wait for that before
 * memory that they may touch is freed.  The lock is given up meanwhile. */
void gy_emu_failed_work_end(void);
bool gy_emu_result_is_sticky(CUresult result);
/* Retain the primary context of a device; it is made if need be. */
CUresult gy_emu_primary_retain(struct gy_emu_device *device, struct gy_emu_context **out);
void gy_emu_primary_release(struct gy_emu_device *device);

#endif
