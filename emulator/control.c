/* SPDX-License-Identifier: MIT */
/* The control interface. */
#include "emulator/control.h"

#include "emulator/clock.h"
#include "emulator/context.h"
#include "emulator/event.h"
#include "emulator/fault.h"
#include "emulator/memory.h"
#include "emulator/proof.h"
#include "emulator/watch.h"
#include "emulator/worker.h"

#define X(result, name, parameters) GY_EMU_EXPORT result gantry_emu_##name parameters;
GANTRY_EMU_CONTROLS(X)
#undef X

int gantry_emu_hides(const char *symbol)
{
    return gy_emu_lacks(symbol);
}

void gantry_emu_watch_begin(void)
{
    gy_emu_watch_begin();
}

uint32_t gantry_emu_watch_end(void *stream, void **other)
{
    CUstream found = NULL;
    struct gy_emu_stream *origin;
    gy_emu_control_enter();
    const bool is_there = gy_emu_stream_find(stream, &origin) == CUDA_SUCCESS;
    uint32_t left = gy_emu_watch_end(is_there ? origin : NULL, &found);
    gy_emu_control_leave();
    *other = found;
    return left;
}

void gantry_emu_prove(const struct gy_proof_device *proof)
{
    uintptr_t from;
    size_t bytes;
    gy_emu_control_enter();
    if (gy_emu_proof == NULL && gy_emu_arena_reserve(&from, &bytes)) {
        proof->watch((const void *)from, bytes); /* NOLINT: an address of the arena */
        gy_emu_proof = proof;
    }
    gy_emu_control_leave();
}

/* ---- faults ---------------------------------------------------------------------------------- */

static int add_fault(enum gy_emu_fn fn, int device, uint64_t nth, int result, int mode)
{
    if (nth == 0 || mode < GANTRY_EMU_ONCE || mode > GANTRY_EMU_HANG) {
        return -1;
    }
    gy_emu_control_enter();
    bool added = gy_emu_fault_add(fn, device, nth, (CUresult)result, mode);
    gy_emu_control_leave();
    return added ? 0 : -1;
}

int gantry_emu_fail(const char *function, uint64_t nth, int result, int mode)
{
    enum gy_emu_fn fn = function != NULL ? gy_emu_fn_find(function) : GY_EMU_FN_COUNT;
    return fn != GY_EMU_FN_COUNT ? add_fault(fn, GY_EMU_CALL_FAULT, nth, result, mode) : -1;
}

int gantry_emu_fail_kernel(uint64_t nth, int result, int mode)
{
    return mode != GANTRY_EMU_HANG ? add_fault(GY_EMU_FN_COUNT, GY_EMU_EVERY_DEVICE, nth, result, mode) : -1;
}

int gantry_emu_fail_kernel_on(int device, uint64_t nth, int result, int mode)
{
    bool known = device >= 0 && device < GY_EMU_MAX_DEVICES && mode != GANTRY_EMU_HANG;
    return known ? add_fault(GY_EMU_FN_COUNT, device, nth, result, mode) : -1;
}

void gantry_emu_hold_spread(int hold)
{
    gy_emu_control_enter();
    gy_emu_spread_hold(hold != 0);
    gy_emu_control_leave();
}

void gantry_emu_unhang(void)
{
    gy_emu_control_enter();
    gy_emu_fault_unhang();
    gy_emu_control_leave();
}

uint32_t gantry_emu_hanging(void)
{
    gy_emu_control_enter();
    uint32_t n = gy_emu_fault_hanging();
    gy_emu_control_leave();
    return n;
}

void gantry_emu_clear_faults(void)
{
    gy_emu_control_enter();
    gy_emu_fault_clear();
    gy_emu_process_begin_anew();
    gy_emu_control_leave();
}

int gantry_emu_break_context(void *handle, int result)
{
    struct gy_emu_context *context;
    gy_emu_control_enter();
    bool found = result != CUDA_SUCCESS && gy_emu_context_find(handle, &context) == CUDA_SUCCESS;
    if (found) {
        gy_emu_context_fail(context, (CUresult)result);
    }
    gy_emu_control_leave();
    return found ? 0 : -1;
}

void gantry_emu_trap(int result)
{
    gy_emu_trap((CUresult)result);
}

size_t gantry_emu_last_failure(char *text, size_t room)
{
    gy_emu_control_enter();
    size_t length = gy_emu_last_failure(text, room);
    gy_emu_control_leave();
    return length;
}

/* ---- counters -------------------------------------------------------------------------------- */

uint64_t gantry_emu_calls(const char *function)
{
    enum gy_emu_fn fn = function != NULL ? gy_emu_fn_find(function) : GY_EMU_FN_COUNT;
    uint64_t calls = 0;
    gy_emu_control_enter();
    if (fn != GY_EMU_FN_COUNT) {
        calls = gy_emu_call_count(fn);
    }
    for (fn = (enum gy_emu_fn)0; function == NULL && fn < GY_EMU_FN_COUNT; fn++) {
        calls += gy_emu_call_count(fn);
    }
    gy_emu_control_leave();
    return calls;
}

static uint64_t executed_at_reset, steals_at_reset;

uint64_t gantry_emu_operations(void)
{
    gy_emu_control_enter();
    uint64_t n = gy_emu_order_executed() - executed_at_reset;
    gy_emu_control_leave();
    return n;
}

void gantry_emu_refuse_steals(uint64_t every)
{
    gy_emu_steals_refuse(every);
}

void gantry_emu_late_events(int late)
{
    gy_emu_control_enter();
    gy_emu_set_late_events(late != 0);
    gy_emu_control_leave();
}

uint64_t gantry_emu_steals(void)
{
    gy_emu_control_enter();
    uint64_t n = gy_emu_steals() - steals_at_reset;
    gy_emu_control_leave();
    return n;
}

static void reset_counters(void)
{
    gy_emu_call_counts_reset();
    executed_at_reset = gy_emu_order_executed();
    steals_at_reset = gy_emu_steals();
}

void gantry_emu_reset_counters(void)
{
    gy_emu_control_enter();
    reset_counters();
    gy_emu_control_leave();
}

int64_t gantry_emu_live(int kind)
{
    static const enum gy_emu_kind kinds[] = {
        [GANTRY_EMU_LIVE_CONTEXTS] = GY_EMU_CONTEXT,    [GANTRY_EMU_LIVE_STREAMS] = GY_EMU_STREAM,
        [GANTRY_EMU_LIVE_EVENTS] = GY_EMU_EVENT,        [GANTRY_EMU_LIVE_MODULES] = GY_EMU_MODULE,
        [GANTRY_EMU_LIVE_GRAPHS] = GY_EMU_GRAPH,        [GANTRY_EMU_LIVE_GRAPH_EXECS] = GY_EMU_GRAPH_EXEC,
        [GANTRY_EMU_LIVE_GREEN_CONTEXTS] = GY_EMU_GREEN};
    if (kind < 0 || kind >= GANTRY_EMU_LIVE_KINDS) {
        return -1;
    }
    gy_emu_control_enter();
    int64_t live = kind < GANTRY_EMU_LIVE_DEVICE_BLOCKS ? gy_emu_handle_live(kinds[kind])
                                                        : gy_emu_memory_live((enum gantry_emu_live_kind)kind);
    gy_emu_control_leave();
    return live;
}

#define EVERY_DEVICE ((UINT32_C(1) << GY_EMU_MAX_DEVICES) - 1)

/* ---- modes ----------------------------------------------------------------------------------- */

void gantry_emu_hold(void)
{
    gy_emu_control_enter();
    gy_emu_hold(EVERY_DEVICE);
    gy_emu_control_leave();
}

void gantry_emu_step(uint64_t operations)
{
    gy_emu_control_enter();
    gy_emu_step(operations);
    gy_emu_control_leave();
}

void gantry_emu_release(void)
{
    gy_emu_control_enter();
    gy_emu_hold(0);
    gy_emu_control_leave();
}

static int set_hold(int device, bool holds)
{
    if (device < 0 || device >= GY_EMU_MAX_DEVICES) {
        return -1;
    }
    gy_emu_control_enter();
    uint32_t bit = UINT32_C(1) << device;
    gy_emu_hold(holds ? gy_emu_held() | bit : gy_emu_held() & ~bit);
    gy_emu_control_leave();
    return 0;
}

int gantry_emu_hold_device(int device)
{
    return set_hold(device, true);
}

int gantry_emu_release_device(int device)
{
    return set_hold(device, false);
}

void gantry_emu_set_noop(int noop)
{
    gy_emu_control_enter();
    gy_emu_set_noop(noop != 0);
    gy_emu_control_leave();
}

void gantry_emu_clock_manual(int manual)
{
    gy_emu_clock_set_manual(manual != 0);
}

void gantry_emu_clock_advance(uint64_t ns)
{
    gy_emu_clock_advance(ns);
}

void gantry_emu_clock_kernel_cost(uint64_t ns)
{
    gy_emu_clock_set_kernel_cost(ns);
}

uint64_t gantry_emu_clock_ns(void)
{
    return gy_emu_clock_ns();
}

/* ---- the order log --------------------------------------------------------------------------- */

int gantry_emu_log_start(size_t capacity)
{
    gy_emu_control_enter();
    bool started = gy_emu_order_start(capacity);
    gy_emu_control_leave();
    return started ? 0 : -1;
}

size_t gantry_emu_log_stop(void)
{
    gy_emu_control_enter();
    size_t n = gy_emu_order_stop();
    gy_emu_control_leave();
    return n;
}

size_t gantry_emu_log_read(struct gantry_emu_operation *operations, size_t capacity)
{
    gy_emu_control_enter();
    size_t n = operations != NULL ? gy_emu_order_read(operations, capacity) : 0;
    gy_emu_control_leave();
    return n;
}

void gantry_emu_reset(void)
{
    gy_emu_control_enter();
    gy_emu_fault_clear();
    gy_emu_fault_unhang();
    gy_emu_steals_refuse(0);
    gy_emu_failure_set(CUDA_SUCCESS);
    gy_emu_set_late_events(false);
    reset_counters();
    gy_emu_hold(0);
    gy_emu_spread_hold(false);
    gy_emu_process_begin_anew();
    gy_emu_set_noop(false);
    gy_emu_clock_set_kernel_cost(0);
    gy_emu_clock_set_manual(false);
    gy_emu_order_forget();
    gy_emu_control_leave();
}

int gantry_emu_version(void)
{
    return GANTRY_EMU_VERSION;
}
