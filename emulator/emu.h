/* SPDX-License-Identifier: MIT */
/* The things that every part of the emulated driver shares: the one lock, the way into and out of a call,
 * handles.
 *
 * One lock guards all of the emulator's state.  A call takes it in gy_emu_enter() and gives it back in
 * gy_emu_leave(); the emulator's threads take it between operations, and never hold it while a kernel, a copy
 * or a host function runs.  Fields without a note are guarded by this lock. */
#ifndef EMULATOR_EMU_H
#define EMULATOR_EMU_H

#include "base/thread.h"
#include "driver/cuda_abi.h"
#include "driver/funcs.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GY_EMU_EXPORT __attribute__((visibility("default")))

/* The prototypes of everything the emulator exports as a CUDA driver. */
#define F(need, member, symbol, prototype) GY_EMU_EXPORT CUresult symbol prototype;
GY_DRIVER_FUNCS(F)
#undef F

enum gy_emu_fn {
#define F(need, member, symbol, prototype) GY_EMU_FN_##member,
    GY_DRIVER_FUNCS(F)
#undef F
        GY_EMU_FN_COUNT
};

/* ---- the lock: lock.c, wake.c --------------------------------------------------------------- */

extern gy_mutex gy_emu_lock; /* rank LEAF */
/* Before anything else; false: host threads cannot wait. */
bool gy_emu_lock_prepare(void);
/* Give the lock back, sleep until gy_emu_progress(), take it again.  May return for no reason. */
void gy_emu_sleep(void);
/* Something has happened that host threads may wait for. */
void gy_emu_progress(void);
/* Start what became runnable, give the lock back, wake threads. */
void gy_emu_unlock_and_wake(void);
/* As gy_emu_sleep(), and start and wake as well. */
void gy_emu_wait_progress(void);

/* For the control interface: these work as enter and leave, without counting and faults. */
void gy_emu_control_enter(void);
void gy_emu_control_leave(void);

/* ---- calls: call.c -------------------------------------------------------------------------- */

/* Begin an exported call: take the lock, count the call, apply scripted faults.  False: the call is
 * refused with gy_emu_refused() and the lock is not held. */
bool gy_emu_enter(enum gy_emu_fn fn);
/* For the counts at exit: work is launched, events alone are none.  Calls between the first launch and the
 * last are neither start-up nor the end.  The lock is held. */
void gy_emu_tally_launch(void);
CUresult gy_emu_refused(void);
/* End the call: start what became runnable, give the lock back, wake threads. */
CUresult gy_emu_leave(CUresult result);

/* return GY_EMU_CALL(cuStreamQuery, query(stream)); `expression` runs under the lock. */
#define GY_EMU_CALL(member, expression) \
    (gy_emu_enter(GY_EMU_FN_##member) ? gy_emu_leave(expression) : gy_emu_refused())

/* cuInit() was called. */
void gy_emu_set_initialised(void);

uint64_t gy_emu_call_count(enum gy_emu_fn fn);
void gy_emu_call_counts_reset(void);

/* ---- names: names.c ------------------------------------------------------------------------- */

/* Find a function by its member or symbol name; GY_EMU_FN_COUNT: there is none. */
enum gy_emu_fn gy_emu_fn_find(const char *name);
/* "cuMemAlloc_v2"; static. */
const char *gy_emu_fn_symbol(enum gy_emu_fn fn);
/* "cuMemAlloc"; static. */
const char *gy_emu_fn_member(enum gy_emu_fn fn);
/* "CUDA_ERROR_…"; static. */
const char *gy_emu_result_name(CUresult result);
/* Its name and what it means, each unless NULL; INVALID_VALUE: both are NULL, or there is no such result. */
CUresult gy_emu_result_describe(CUresult result, const char **name, const char **text);

/* Do drivers of the version that this one pretends to be lack this function? */
bool gy_emu_lacks(const char *symbol);

/* ---- handles: handle.c ---------------------------------------------------------------------- */

enum gy_emu_kind {
    GY_EMU_CONTEXT = 1,
    GY_EMU_STREAM,
    GY_EMU_EVENT,
    GY_EMU_MODULE,
    GY_EMU_FUNCTION,
    GY_EMU_GRAPH,
    GY_EMU_NODE,
    GY_EMU_GRAPH_EXEC,
    GY_EMU_GREEN,
    GY_EMU_DESC,
    GY_EMU_ALLOCATION,
    GY_EMU_EXTERNAL_MEMORY,
    GY_EMU_EXTERNAL_SEMAPHORE,
    GY_EMU_MIPMAPPED_ARRAY,
    GY_EMU_ARRAY,
    GY_EMU_CONDITION,
    GY_EMU_KIND_COUNT
};

struct gy_emu_context;

/* The first member of everything that has a handle. */
struct gy_emu_object {
    uintptr_t handle;
    struct gy_emu_context *context; /* the context it belongs to; NULL: none */
};

/* Give `object` a handle of `kind`.  Handles are numbers, not addresses, so a stale or invented one is
 * detected without touching memory. */
CUresult gy_emu_handle_open(enum gy_emu_kind kind, struct gy_emu_object *object);
void gy_emu_handle_close(struct gy_emu_object *object);
/* Find the object; NULL: the handle is not one of `kind`, or no longer. */
void *gy_emu_handle_find(enum gy_emu_kind kind, const void *handle);
/* Was the handle one of `kind` once? */
bool gy_emu_handle_is_stale(enum gy_emu_kind kind, const void *handle);
long gy_emu_handle_live(enum gy_emu_kind kind);
/* The next live object of `kind` with a slot at or above *cursor (start at 0); NULL at the end. */
struct gy_emu_object *gy_emu_handle_next(enum gy_emu_kind kind, uint32_t *cursor);

#endif
