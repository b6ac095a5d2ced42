/* SPDX-License-Identifier: MIT */
/* Measures copies between the device and each of those that its heap is let to.
 *
 * The other device's memory is made for it and mapped for both, as a heap's is, so this needs no context
 * there. */
#include "copykernel/calibrate.h"

#include "copykernel/tuning.h"
#include "heap/region.h"

/* Memory of another device. */
struct room {
    size_t bytes;
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at;
};

static gantry_status map_room(struct gy_context *context, struct room *room, int peer)
{
    const CUmemAccessDesc access[] = {
        {{CU_MEM_LOCATION_TYPE_DEVICE, peer}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
        {{CU_MEM_LOCATION_TYPE_DEVICE, (int)context->device}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};
    gantry_status status = GY_CALL(context, cuMemMap(room->at, room->bytes, 0, room->handle, 0));
    if (status == GANTRY_OK) {
        status = GY_CALL(context, cuMemSetAccess(room->at, room->bytes, access, 2));
        if (status != GANTRY_OK) {
            (void)GY_CALL(context, cuMemUnmap(room->at, room->bytes));
        }
    }
    return status;
}

static gantry_status take_room(struct gy_context *context, int peer, uint64_t bytes, struct room *room)
{
    const CUmemAllocationProp property = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                          .location = {CU_MEM_LOCATION_TYPE_DEVICE, peer}};
    room->bytes = (size_t)((bytes + GY_GRANULE_BYTES - 1) / GY_GRANULE_BYTES * GY_GRANULE_BYTES);
    gantry_status status = GY_CALL(context, cuMemCreate(&room->handle, room->bytes, &property, 0));
    if (status != GANTRY_OK) {
        return status;
    }
    status = GY_CALL(context, cuMemAddressReserve(&room->at, room->bytes, GY_GRANULE_BYTES, 0, 0));
    if (status != GANTRY_OK) {
        goto release_handle;
    }
    status = map_room(context, room, peer);
    if (status != GANTRY_OK) {
        goto free_address;
    }
    return GANTRY_OK;
free_address:
    (void)GY_CALL(context, cuMemAddressFree(room->at, room->bytes));
release_handle:
    (void)GY_CALL(context, cuMemRelease(room->handle));
    return status;
}

static void give_room(struct gy_context *context, const struct room *room)
{
    (void)GY_CALL(context, cuMemUnmap(room->at, room->bytes));
    (void)GY_CALL(context, cuMemAddressFree(room->at, room->bytes));
    (void)GY_CALL(context, cuMemRelease(room->handle));
}

/* One direction, of all classes. */
static gantry_status judge_direction(struct gy_copy_probe *p, bool is_pull, gantry_copy_peer_tuning *peer)
{
    gantry_copy_tuning tuning = gy_copier_tuning(p->copier);
    gy_copy_tuning_between(&tuning, peer, is_pull, p->context->sms);
    for (uint32_t c = 0; c < GANTRY_COPY_SIZE_CLASSES; c++) {
        uint32_t *verdict = &peer->engine_up_to[is_pull][c];
        bool measured;
        const gantry_status status = gy_copy_probe_class(p, GANTRY_COPY_DTOD, c, &tuning, verdict, &measured);
        if (status != GANTRY_OK) {
            return status;
        }
        if (!measured && c > 0) {
            *verdict = verdict[-1];
        }
    }
    return GANTRY_OK;
}

/* `p` has the other device's memory as its dest. */
static gantry_status judge_both(struct gy_copy_probe *p, gantry_copy_peer_tuning *peer)
{
    const CUdeviceptr here = p->device[0], there = p->device[1];
    gantry_status status = GY_CALL(p->context, cuMemcpyAsync(there, here, (size_t)p->most_bytes, p->stream));
    if (status == GANTRY_OK) {
        status = judge_direction(p, false, peer);
    }
    if (status == GANTRY_OK) {
        p->device[0] = there;
        p->device[1] = here;
        status = judge_direction(p, true, peer);
    }
    p->device[0] = here;
    peer->measured = 1;
    return status;
}

static gantry_status measure_peer(struct gy_copy_probe *p, uint32_t ordinal)
{
    int can = 0;
    CUdevice device;
    gantry_status status = GY_CALL(p->context, cuDeviceGet(&device, (int)ordinal));
    if (status == GANTRY_OK && p->context->driver->cuDeviceCanAccessPeer != NULL) {
        status = GY_CALL(p->context, cuDeviceCanAccessPeer(&can, p->context->device, device));
    }
    if (status != GANTRY_OK || can == 0) {
        return status;
    }
    struct room room;
    status = take_room(p->context, device, p->most_bytes, &room);
    if (status != GANTRY_OK) {
        return status;
    }
    const CUdeviceptr own = p->device[1];
    gantry_copy_peer_tuning peer = gy_copier_peer_tuning(p->copier, ordinal);
    p->device[1] = room.at;
    status = judge_both(p, &peer);
    if (status == GANTRY_OK) {
        gy_copier_set_peer_tuning(p->copier, ordinal, &peer);
    }
    p->device[1] = own;
    give_room(p->context, &room);
    return status;
}

gantry_status gy_copy_probe_peers(struct gy_copy_probe *p)
{
    gantry_status status = GANTRY_OK;
    for (uint64_t left = gy_heap_peers(p->copier->heap); left != 0 && status == GANTRY_OK; left &= left - 1) {
        status = measure_peer(p, (uint32_t)__builtin_ctzll(left));
    }
    return status;
}
