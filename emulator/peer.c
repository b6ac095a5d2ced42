/* SPDX-License-Identifier: MIT */
/* Several devices: their links, and the calls about access between them.
 *
 * A topology is a table of ranks: rank[from][to] is the performance rank of the link (0 is the best one), or
 * NO_LINK.  Copies between memory that cuMemAlloc() made go through the host where no access was enabled, as
 * on a device; memory that cuMemMap() maps is for the devices that cuMemSetAccess() names. */
#include "emulator/peer.h"

#include "base/environment.h"
#include "emulator/capture.h"
#include "emulator/memory.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NO_LINK (-1)
#define LINE_BYTES 256
#define ONLY_SOME_NATIVE_ATOMICS ((CUdevice_P2PAttribute)5) /* since CUDA 13.0 */

static int rank[GY_EMU_MAX_DEVICES][GY_EMU_MAX_DEVICES]; /* by the devices' numbers in the machine */

static int rank_of(int from, int to)
{
    return rank[gy_emu_device_find(from)->number][gy_emu_device_find(to)->number];
}

/* ---- topologies ------------------------------------------------------------------------------ */

static bool read_line(const char *line, uint32_t from, uint32_t devices)
{
    char text[LINE_BYTES];
    snprintf(text, sizeof(text), "%s", line);
    char *rest = NULL;
    char *word = strtok_r(text, " \t\r\n", &rest);
    for (uint32_t to = 0; to < devices; to++) {
        char *end;
        if (word == NULL) {
            return false;
        }
        long value = strcmp(word, "-") == 0 ? NO_LINK : strtol(word, &end, 10);
        if (value != NO_LINK && (*end != '\0' || value < 0 || value > 99)) {
            return false;
        }
        rank[from][to] = (int)value;
        word = strtok_r(NULL, " \t\r\n", &rest);
    }
    return word == NULL;
}

/* A line for each device that reaches, with a word for each one that is reached: the rank, or "-".  What is
 * behind a # is left out. */
static bool read_file(const char *path, uint32_t devices)
{
    FILE *file = fopen(path, "re");
    uint32_t from = 0;
    bool good = file != NULL;
    char line[LINE_BYTES];
    while (good && fgets(line, sizeof(line), file) != NULL) {
        line[strcspn(line, "#\n")] = '\0';
        if (line[strspn(line, " \t\r")] != '\0') {
            good = from < devices && read_line(line, from, devices);
            from++;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return good && from == devices;
}

bool gy_emu_links_read(uint32_t devices)
{
    char text[PATH_MAX] = "all";
    (void)gy_emu_setting("links", text, sizeof(text));
    bool pairs = strcmp(text, "pairs") == 0;
    bool none = strcmp(text, "none") == 0;
    bool known = strcmp(text, "all") == 0 || pairs || none;
    for (uint32_t i = 0; i < devices; i++) {
        for (uint32_t j = 0; j < devices; j++) {
            rank[i][j] = !none && (!pairs || i / 2 == j / 2) ? 0 : NO_LINK;
        }
    }
    if (known || read_file(text, devices)) {
        return true;
    }
    fprintf(stderr,
            "gantry-emu: links of $GANTRY_EMU_PROFILE is \"%s\", neither all, pairs or none nor a file with "
            "%u lines of %u "
            "ranks: there is no device\n",
            text, devices, devices);
    return false;
}

bool gy_emu_link_reaches(int from, int to)
{
    return from == to || rank_of(from, to) != NO_LINK;
}

/* ---- what is asked about a pair -------------------------------------------------------------- */

static CUresult can_access(int *out, CUdevice from, CUdevice to)
{
    if (out == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (gy_emu_device_find(from) == NULL || gy_emu_device_find(to) == NULL) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    *out = from != to && gy_emu_link_reaches(from, to);
    return CUDA_SUCCESS;
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    return GY_EMU_CALL(cuDeviceCanAccessPeer, can_access(can, device, peer));
}

static CUresult get_attribute(int *out, CUdevice_P2PAttribute attribute, CUdevice from, CUdevice to)
{
    if (out == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (gy_emu_device_find(from) == NULL || gy_emu_device_find(to) == NULL || from == to) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    bool known =
        attribute >= CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK && attribute <= ONLY_SOME_NATIVE_ATOMICS;
    if (!known) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    bool reaches = gy_emu_link_reaches(from, to) && attribute != ONLY_SOME_NATIVE_ATOMICS;
    *out =
        attribute == CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK ? (reaches ? rank_of(from, to) : 0) : reaches;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute, CUdevice from, CUdevice to)
{
    return GY_EMU_CALL(cuDeviceGetP2PAttribute, get_attribute(value, attribute, from, to));
}

/* ---- access of whole contexts ---------------------------------------------------------------- */

/* Forget contexts that are gone. */
static void forget_gone(struct gy_emu_context *root)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < root->peer_count; i++) {
        if (gy_emu_handle_find(GY_EMU_CONTEXT, (const void *)root->peers[i]) != NULL) {
            root->peers[kept++] = root->peers[i];
        }
    }
    root->peer_count = kept;
}

/* Find the current root and the one that `handle` means. */
static CUresult find_both(CUcontext handle, struct gy_emu_context **own, struct gy_emu_context **peer)
{
    CUresult result = gy_emu_context_current(own);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (handle == NULL || gy_emu_context_find(handle, peer) != CUDA_SUCCESS) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    *own = (*own)->root;
    *peer = (*peer)->root;
    return CUDA_SUCCESS;
}

static CUresult enable(CUcontext handle, unsigned int flags)
{
    struct gy_emu_context *own, *peer;
    CUresult result = find_both(handle, &own, &peer);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (flags != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (own->device == peer->device || !gy_emu_link_reaches(own->device->ordinal, peer->device->ordinal)) {
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    }
    result = gy_emu_capture_forbids_unsafe();
    if (result != CUDA_SUCCESS) {
        return result;
    }
    forget_gone(own);
    if (gy_emu_peer_find(own, peer->object.handle) < own->peer_count) {
        return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    }
    if (own->peer_count == GY_EMU_MAX_PEERS) {
        return CUDA_ERROR_TOO_MANY_PEERS;
    }
    own->peers[own->peer_count++] = peer->object.handle;
    return CUDA_SUCCESS;
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
    return GY_EMU_CALL(cuCtxEnablePeerAccess, enable(peer, flags));
}

static CUresult disable(CUcontext handle)
{
    struct gy_emu_context *own, *peer;
    CUresult result = find_both(handle, &own, &peer);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    result = gy_emu_capture_forbids_unsafe();
    if (result != CUDA_SUCCESS) {
        return result;
    }
    uint32_t place = gy_emu_peer_find(own, peer->object.handle);
    if (place == own->peer_count) {
        return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    }
    own->peers[place] = own->peers[--own->peer_count];
    return CUDA_SUCCESS;
}

CUresult cuCtxDisablePeerAccess(CUcontext peer)
{
    return GY_EMU_CALL(cuCtxDisablePeerAccess, disable(peer));
}

/* ---- what a kernel is given ------------------------------------------------------------------ */

bool gy_emu_params_may_be_touched(const struct gy_emu_context *context,
                                  const struct gantry_host_kernel *kernel, const struct gy_emu_args *args,
                                  char *text, size_t room)
{
    if (gy_emu_device_count() == 1) {
        return true;
    }
    for (uint32_t i = 0; i < args->count; i++) {
        for (size_t at = 0; at + sizeof(uint64_t) <= args->sizes[i]; at += sizeof(uint64_t)) {
            uint64_t word;
            memcpy(&word, (const char *)args->pointers[i] + at, sizeof(word));
            int owner = gy_emu_memory_is_foreign(context, (uintptr_t)word);
            if (owner >= 0) {
                snprintf(text, room,
                         "kernel %s: parameter %u is an address of device %d's memory (0x%llx), to which "
                         "device %d "
                         "has no access",
                         kernel->name, i, owner, (unsigned long long)word, context->device->ordinal);
                return false;
            }
        }
    }
    return true;
}
