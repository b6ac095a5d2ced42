/* SPDX-License-Identifier: MIT */
/**
 * @file gantry_emu.h
 * The control interface of the emulated driver, for tests and tools: as <gantry_emu.h> in the package
 * gantry-emu.  The library is loaded with dlopen() like a real driver, so these functions are found by
 * dlsym(); struct gantry_emu_control and the list below make that a loop:
 *
 *     struct gantry_emu_control emu;
 *     #define X(result, name, parameters) *(void **)&emu.name = dlsym(library, "gantry_emu_" #name);
 *     GANTRY_EMU_CONTROLS(X)
 *
 * Threading: every function may be called from any thread, at any time.  None of them counts as a driver
 * call.  "Operation" below is what takes time on a device: a kernel, a copy, a fill, a value write or
 * wait, a host function, also as a node of a graph.
 */
#ifndef EMULATOR_GANTRY_EMU_H
#define EMULATOR_GANTRY_EMU_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The version of this interface and of the variables of the environment: 10000 * major + 100 * minor +
 * patch.  What is appended raises the minor version, what goes or changes the major one. */
#define GANTRY_EMU_VERSION 200

/** How long a scripted fault lasts. */
enum gantry_emu_fault_mode {
    GANTRY_EMU_ONCE = 0,   /* that call alone */
    GANTRY_EMU_ALWAYS = 1, /* from that call on */
    GANTRY_EMU_HANG = 2,   /* that call blocks until gantry_emu_unhang(), then proceeds */
};

/** What gantry_emu_live() counts. */
enum gantry_emu_live_kind {
    GANTRY_EMU_LIVE_CONTEXTS = 0,
    GANTRY_EMU_LIVE_STREAMS = 1, /* created by the application */
    GANTRY_EMU_LIVE_EVENTS = 2,
    GANTRY_EMU_LIVE_MODULES = 3,
    GANTRY_EMU_LIVE_GRAPHS = 4,
    GANTRY_EMU_LIVE_GRAPH_EXECS = 5,
    GANTRY_EMU_LIVE_GREEN_CONTEXTS = 6,
    GANTRY_EMU_LIVE_DEVICE_BLOCKS = 7, /* cuMemAlloc, cuMemAllocAsync, cuMemCreate */
    GANTRY_EMU_LIVE_PINNED_BLOCKS = 8, /* cuMemHostAlloc */
    GANTRY_EMU_LIVE_REGISTRATIONS = 9, /* cuMemHostRegister */
    GANTRY_EMU_LIVE_RESERVATIONS = 10, /* cuMemAddressReserve */
    GANTRY_EMU_LIVE_DEVICE_BYTES = 11, /* of the devices' memory, in their own granules */
    GANTRY_EMU_LIVE_KINDS = 12
};

/** Kinds of operations in the order log. */
enum gantry_emu_operation_kind {
    GANTRY_EMU_KERNEL = 0,
    GANTRY_EMU_COPY = 1,
    GANTRY_EMU_FILL = 2,
    GANTRY_EMU_HOST_FUNCTION = 3,
    GANTRY_EMU_WRITE_VALUE = 4,
    GANTRY_EMU_WAIT_VALUE = 5,
};

struct gy_proof_device;

/** One executed operation.  `begin` and `end` are positions in one sequence of all begins and ends: a
 *  finished before b started exactly when a.end < b.begin. */
struct gantry_emu_operation {
    uint64_t begin, end; /* end 0: not finished */
    uint64_t stream;     /* number of the stream in creation order, 0: a graph's node */
    int kind;            /* enum gantry_emu_operation_kind */
    int device;          /* its ordinal */
    const char *name;    /* of a kernel, static; else NULL */
    uint64_t first_word; /* kernel: up to 8 bytes of the first parameter; others: destination or user data */
};

/* X(result type, name without gantry_emu_, parameters) */
#define GANTRY_EMU_CONTROLS(X)                                                       \
    X(int, fail, (const char *function, uint64_t nth, int result, int mode))         \
    X(int, fail_kernel, (uint64_t nth, int result, int mode))                        \
    X(int, fail_kernel_on, (int device, uint64_t nth, int result, int mode))         \
    X(void, hold_spread, (int hold))                                                 \
    X(void, unhang, (void))                                                          \
    X(uint32_t, hanging, (void))                                                     \
    X(void, clear_faults, (void))                                                    \
    X(int, break_context, (void *context, int result))                               \
    X(void, trap, (int result))                                                      \
    X(size_t, last_failure, (char *text, size_t room))                               \
    X(uint64_t, calls, (const char *function))                                       \
    X(uint64_t, operations, (void))                                                  \
    X(void, refuse_steals, (uint64_t every))                                         \
    X(void, late_events, (int late))                                                 \
    X(uint64_t, steals, (void))                                                      \
    X(void, reset_counters, (void))                                                  \
    X(void, hold, (void))                                                            \
    X(int, hold_device, (int device))                                                \
    X(int, release_device, (int device))                                             \
    X(void, step, (uint64_t operations))                                             \
    X(void, release, (void))                                                         \
    X(void, set_noop, (int noop))                                                    \
    X(void, clock_manual, (int manual))                                              \
    X(void, clock_advance, (uint64_t ns))                                            \
    X(void, clock_kernel_cost, (uint64_t ns))                                        \
    X(uint64_t, clock_ns, (void))                                                    \
    X(int64_t, live, (int kind))                                                     \
    X(int, log_start, (size_t capacity))                                             \
    X(int, hides, (const char *symbol))                                              \
    X(size_t, log_stop, (void))                                                      \
    X(size_t, log_read, (struct gantry_emu_operation * operations, size_t capacity)) \
    X(void, watch_begin, (void))                                                     \
    X(uint32_t, watch_end, (void *stream, void **other))                             \
    X(void, prove, (const struct gy_proof_device *proof))                            \
    X(void, reset, (void))                                                           \
    X(int, version, (void))

struct gantry_emu_control {
#define GANTRY_EMU_MEMBER(result, name, parameters) result(*name) parameters;
    GANTRY_EMU_CONTROLS(GANTRY_EMU_MEMBER)
#undef GANTRY_EMU_MEMBER
};

/** The nth call (1: the next one) of `function`, named as in the CUDA documentation ("cuMemAlloc"), returns
 *  `result` and does nothing.  A result that a real context does not survive (700, 719, ...) also breaks the
 *  calling thread's current context, and no other.  Up to 32 faults are in force at a time.
 *  @return 0; -1: no such function, nth 0, an unknown mode, or too many faults */
int gantry_emu_fail(const char *function, uint64_t nth, int result, int mode);
/** The nth kernel that is executed from now on ends with `result`.  As on a device, a fault (700 to 719) ends
 *  all GPU work of the process: every context of every device returns `result` from then on, and none can be
 *  made until gantry_emu_clear_faults() or gantry_emu_reset(), which stand for a new process.  An error of
 * one device's memory (214, 220, 226) breaks the kernel's context alone.  Mode HANG is refused: see
 *  gantry_emu_hold(). */
int gantry_emu_fail_kernel(uint64_t nth, int result, int mode);
/** As gantry_emu_fail_kernel(), for kernels of one device. */
int gantry_emu_fail_kernel_on(int device, uint64_t nth, int result, int mode);
/** 1: contexts of other devices do not notice a fault until this is called with 0, as it may take a device
 *  some time.  What they have enqueued behind an event of the failed device stays where it is meanwhile. */
void gantry_emu_hold_spread(int hold);
/** Let calls that hang go on. */
void gantry_emu_unhang(void);
/** Calls that hang now. */
uint32_t gantry_emu_hanging(void);
/** Forget all scripted faults, and one that has ended the GPU work of the process: contexts can be made
 * again. */
void gantry_emu_clear_faults(void);
/** Break a context (NULL: the calling thread's) at once: everything queued on it is discarded, every later
 *  call on it returns `result`.
 *  @return 0; -1: no such context */
int gantry_emu_break_context(void *context, int result);
/** For a running kernel: its launch ends with `result`. */
void gantry_emu_trap(int result);

/** Copy what is known about the latest kernel launch that failed: the kernel's name, and whether it trapped,
 *  ran out of host memory, or can never end because its threads wait for each other.
 *  @return the length of the whole text, which may exceed `room` */
size_t gantry_emu_last_failure(char *text, size_t room);

/** Calls of `function` (NULL: of all) since the last reset; the refused ones too. */
uint64_t gantry_emu_calls(const char *function);
/** Operations executed since the last reset. */
uint64_t gantry_emu_operations(void);
void gantry_emu_reset_counters(void);

/** Cluster Launch Control: refuse each `every`th request of a thread block for another one, counted over all
 *  launches from now on, although blocks are left, as devices may at any time.  0, which is how it begins:
 * only when none is left, or a more urgent kernel waits. */
void gantry_emu_refuse_steals(uint64_t every);
/** 1: an event that a graph records says what it said before until the device comes to its node.  0: from the
 *  launch on it has not passed. */
void gantry_emu_late_events(int late);
/** Blocks that were taken over by another one since the last reset. */
uint64_t gantry_emu_steals(void);

/** Start no operation and complete no event until released; what runs goes on to its end.  Calls that
 *  wait for the device block. */
void gantry_emu_hold(void);
/** As hold and release, for one device.
 *  @return 0; -1: no such device */
int gantry_emu_hold_device(int device);
int gantry_emu_release_device(int device);
/** While on hold: let this many more operations start, on any device. */
void gantry_emu_step(uint64_t operations);
void gantry_emu_release(void);

/** Accept kernels, copies, fills, values and graphs without executing them. */
void gantry_emu_set_noop(int noop);

/** Stop the device's clock (events, %globaltimer) at its present value, or let it follow host time. */
void gantry_emu_clock_manual(int manual);
void gantry_emu_clock_advance(uint64_t ns);
/** While the clock is manual each kernel advances it by this much when it ends. */
void gantry_emu_clock_kernel_cost(uint64_t ns);
uint64_t gantry_emu_clock_ns(void);

/** Objects alive now, see enum gantry_emu_live_kind; -1: no such kind. */
int64_t gantry_emu_live(int kind);

/** Record operations, the first `capacity` of them.
 *  @return 0; -1: out of memory */
int gantry_emu_log_start(size_t capacity);
/** @return operations that began while recording, which may exceed the capacity */
size_t gantry_emu_log_stop(void);
/** Copy what was recorded, in order of begin.
 *  @return the number of entries copied */
size_t gantry_emu_log_read(struct gantry_emu_operation *operations, size_t capacity);

/** Whether a driver of the version that this one pretends to be (cuda= of $GANTRY_EMU_PROFILE) lacks the
 * function `symbol`, which is exported all the same: 1 or 0.  Before cuInit(), too. */
int gantry_emu_hides(const char *symbol);

/** Watch what the calling thread enqueues on which stream, until watch_end(). */
void gantry_emu_watch_begin(void);
/** @return how many kernels, copies, fills, host functions and graphs the thread has enqueued since on other
 *          streams than the CUstream `stream`, that neither `stream` nor the host comes after by now;
 * `*other` is then the CUstream of some of them.  0 also when they cannot be told: more than 15 streams or 64
 *          events, or streams that are ordered by values in memory.  What is captured does not count. */
uint32_t gantry_emu_watch_end(void *stream, void **other);

/** Tell `proof` (base/proof.h) of all work from now on, until the process ends.  Before there is any. */
void gantry_emu_prove(const struct gy_proof_device *proof);

/** Everything above back to its beginning: no faults, counters 0, no refusals of steals, no late events, not
 * on hold, not no-op, host clock, no log.  Objects stay. */
void gantry_emu_reset(void);

/** @return the GANTRY_EMU_VERSION that the library was built with; never fails, before cuInit(), too */
int gantry_emu_version(void);

#ifdef __cplusplus
}
#endif

#endif
