/* SPDX-License-Identifier: MIT */
/* Scripted faults. */
#include "emulator/fault.h"

#include "emulator/context.h"
#include "emulator/control.h"

#include <stdlib.h>
#include <string.h>

#define FAULTS 32
#define NAME_BYTES 64

static struct fault {
    uint64_t countdown; /* calls until the fault strikes; 0: the entry is free */
    enum gy_emu_fn fn;
    int device; /* an execution there, on GY_EMU_EVERY_DEVICE, or GY_EMU_CALL_FAULT: a call */
    CUresult result;
    enum gantry_emu_fault_mode mode;
} faults[FAULTS];

static uint32_t armed; /* entries that are in use */
static uint32_t hanging;
static uint64_t unhangs; /* how often gantry_emu_unhang() was called */

bool gy_emu_fault_armed(void)
{
    return armed > 0;
}

/* Count an event down; returns the fault that strikes, NULL when none does. */
static struct fault *strike(int device, enum gy_emu_fn fn)
{
    struct fault *striking = NULL;
    for (struct fault *f = faults; f < faults + FAULTS; f++) {
        bool of_device = f->device == device || (device >= 0 && f->device == GY_EMU_EVERY_DEVICE);
        if (f->countdown == 0 || !of_device || f->fn != fn) {
            continue;
        }
        if (f->countdown > 1) {
            f->countdown--;
        } else if (striking == NULL) {
            striking = f;
        }
    }
    return striking;
}

static void spend(struct fault *fault)
{
    if (fault->mode != GANTRY_EMU_ALWAYS) {
        fault->countdown = 0;
        armed--;
    }
}

CUresult gy_emu_fault_call(enum gy_emu_fn fn)
{
    struct fault *fault = strike(GY_EMU_CALL_FAULT, fn);
    if (fault == NULL) {
        return CUDA_SUCCESS;
    }
    spend(fault);
    if (fault->mode == GANTRY_EMU_HANG) {
        uint64_t ticket = unhangs;
        hanging++;
        gy_emu_progress();
        while (unhangs == ticket) {
            gy_emu_wait_progress();
        }
        hanging--;
        return CUDA_SUCCESS;
    }
    CUresult result = fault->result;
    struct gy_emu_context *context;
    if (gy_emu_result_is_sticky(result) && gy_emu_context_current(&context) == CUDA_SUCCESS) {
        gy_emu_context_fail(context, result);
    }
    return result;
}

CUresult gy_emu_fault_kernel(int device)
{
    struct fault *fault = armed > 0 ? strike(device, GY_EMU_FN_COUNT) : NULL;
    if (fault == NULL) {
        return CUDA_SUCCESS;
    }
    spend(fault);
    return fault->result;
}

bool gy_emu_fault_add(enum gy_emu_fn fn, int device, uint64_t nth, CUresult result, int mode)
{
    for (struct fault *f = faults; f < faults + FAULTS; f++) {
        if (f->countdown == 0) {
            *f = (struct fault){nth, fn, device, result, (enum gantry_emu_fault_mode)mode};
            armed++;
            return true;
        }
    }
    return false;
}

void gy_emu_fault_unhang(void)
{
    unhangs++;
    gy_emu_progress();
}

uint32_t gy_emu_fault_hanging(void)
{
    return hanging;
}

void gy_emu_fault_clear(void)
{
    memset(faults, 0, sizeof(faults));
    armed = 0;
}

static bool parse_mode(const char *text, size_t length, int *mode)
{
    static const char *const words[] = {
        [GANTRY_EMU_ONCE] = "once", [GANTRY_EMU_ALWAYS] = "always", [GANTRY_EMU_HANG] = "hang"};
    for (int i = 0; i < (int)(sizeof(words) / sizeof(words[0])); i++) {
        if (strlen(words[i]) == length && memcmp(words[i], text, length) == 0) {
            *mode = i;
            return true;
        }
    }
    return false;
}

/* Parse one "function:nth:result[:mode]"; returns its end, NULL when it is malformed. */
static const char *parse_entry(const char *text)
{
    char name[NAME_BYTES];
    size_t length = strcspn(text, ":,");
    if (text[length] != ':' || length == 0 || length >= sizeof(name)) {
        return NULL;
    }
    memcpy(name, text, length);
    name[length] = '\0';
    char *end;
    uint64_t nth = strtoull(text + length + 1, &end, 10);
    if (nth == 0 || *end != ':') {
        return NULL;
    }
    long result = strtol(end + 1, &end, 10);
    int mode = GANTRY_EMU_ONCE;
    if (*end == ':') {
        length = strcspn(end + 1, ",");
        if (!parse_mode(end + 1, length, &mode)) {
            return NULL;
        }
        end += 1 + length;
    }
    bool kernel = strcmp(name, "kernel") == 0;
    enum gy_emu_fn fn = kernel ? GY_EMU_FN_COUNT : gy_emu_fn_find(name);
    if ((!kernel && fn == GY_EMU_FN_COUNT) || (kernel && mode == GANTRY_EMU_HANG) ||
        !gy_emu_fault_add(fn, kernel ? GY_EMU_EVERY_DEVICE : GY_EMU_CALL_FAULT, nth, (CUresult)result,
                          mode)) {
        return NULL;
    }
    return end;
}

bool gy_emu_fault_script(const char *text)
{
    while (*text != '\0') {
        const char *end = parse_entry(text);
        if (end == NULL || (*end != ',' && *end != '\0')) {
            return false;
        }
        text = *end == ',' ? end + 1 : end;
    }
    return true;
}
