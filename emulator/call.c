/* SPDX-License-Identifier: MIT */
/* The way into and out of a call. */
#include "base/environment.h"
#include "emulator/emu.h"

#include "emulator/fault.h"
#include "emulator/logs.h"
#include "emulator/queue.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool cond_works; /* immutable after load */
static bool initialised;
static bool is_forked; /* the process was forked from one that had initialised the driver, and the threads are
                          there */
static uint64_t counts[GY_EMU_FN_COUNT];

static const char *tally_path; /* immutable after load; the file for the counts at exit; NULL: none */
static bool has_launched;      /* guarded by the lock, as the two below; used for the tally */
static uint64_t counts_at_first_launch[GY_EMU_FN_COUNT], counts_at_last_launch[GY_EMU_FN_COUNT];

static _Thread_local CUresult refused_with;

/* As with CUDA, a child cannot use what its parent has initialised.  The thread that held the lock is not in
 * the child either. */
static void note_fork(void)
{
    gy_mutex_init(&gy_emu_lock, GY_RANK_LEAF);
    is_forked = is_forked || initialised;
    initialised = false;
}

/* This runs before anything else, since the control interface may be used before cuInit(). */
__attribute__((constructor)) static void prepare(void)
{
    cond_works = gy_emu_lock_prepare();
    (void)pthread_atfork(NULL, NULL, note_fork);
    const char *script = gy_environment("GANTRY_EMU_FAIL");
    if (script != NULL) {
        gy_emu_fault_script(script);
    }
    tally_path = gy_environment("GANTRY_EMU_CALLS");
}

void gy_emu_tally_launch(void)
{
    if (tally_path == NULL) {
        return;
    }
    if (!has_launched) {
        memcpy(counts_at_first_launch, counts, sizeof(counts));
        has_launched = true;
    }
    memcpy(counts_at_last_launch, counts, sizeof(counts));
}

/* The program is at its end, so nobody else can tell. */
static void tell_no_tally(int why)
{
    (void)dprintf(STDERR_FILENO, "gantry: error: GANTRY_EMU_CALLS: %s: %s\n", tally_path,
                  why != 0 ? strerrordesc_np(why) : "a write failed");
}

/* Write lines like "cuMemAlloc 3 1": all calls, and those between the first launch and the last. */
__attribute__((destructor)) static void write_tally(void)
{
    if (tally_path == NULL) {
        return;
    }
    FILE *file = fopen(tally_path, "we");
    if (file == NULL) {
        tell_no_tally(errno);
        return;
    }
    gy_mutex_lock(&gy_emu_lock);
    errno = 0;
    for (int fn = 0; fn < GY_EMU_FN_COUNT; fn++) {
        fprintf(file, "%s %" PRIu64 " %" PRIu64 "\n", gy_emu_fn_member((enum gy_emu_fn)fn), counts[fn],
                counts_at_last_launch[fn] - counts_at_first_launch[fn]);
    }
    gy_mutex_unlock(&gy_emu_lock);
    bool good = ferror(file) == 0; /* else errno is that of the write */
    if (fclose(file) != 0 || !good) {
        tell_no_tally(errno);
    }
}

void gy_emu_set_initialised(void)
{
    initialised = cond_works;
}

static bool works_uninitialised(enum gy_emu_fn fn)
{
    return (fn == GY_EMU_FN_cuInit && !is_forked) || fn == GY_EMU_FN_cuDriverGetVersion ||
           fn == GY_EMU_FN_cuGetErrorName || fn == GY_EMU_FN_cuGetErrorString;
}

bool gy_emu_enter(enum gy_emu_fn fn) GY_NO_ANALYSIS
{
    gy_mutex_lock(&gy_emu_lock);
    gy_emu_logs_begin(fn);
    counts[fn]++;
    if (__builtin_expect(tally_path != NULL, 0) && fn == GY_EMU_FN_cuLaunchKernel) {
        gy_emu_tally_launch();
    }
    CUresult result = CUDA_SUCCESS;
    if (!initialised && !works_uninitialised(fn)) {
        result = CUDA_ERROR_NOT_INITIALIZED;
    } else if (__builtin_expect(gy_emu_fault_armed(), 0)) {
        result = gy_emu_fault_call(fn);
    }
    if (__builtin_expect(result == CUDA_SUCCESS, 1)) {
        return true;
    }
    refused_with = gy_emu_leave(result);
    return false;
}

CUresult gy_emu_refused(void)
{
    return refused_with;
}

CUresult gy_emu_leave(CUresult result)
{
    bool tells = gy_emu_logs_want(result);
    gy_emu_unlock_and_wake();
    if (__builtin_expect(tells, 0)) {
        gy_emu_logs_tell(result);
    }
    return result;
}

uint64_t gy_emu_call_count(enum gy_emu_fn fn)
{
    return counts[fn];
}

void gy_emu_call_counts_reset(void)
{
    memset(counts, 0, sizeof(counts));
}
