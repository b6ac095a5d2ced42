/* SPDX-License-Identifier: MIT */
/* How addresses are resolved: the heap is asked first, which costs no driver call, then the driver.  The last
 * answer serves all following addresses of the same memory, for each field. */
#include "copykernel/address.h"

#include "base/checking.h"
#include "base/hints.h"

#include <stdio.h>

enum needed { NEED_DEVICE, NEED_HOST, NEED_EITHER };

struct resolver {
    struct gy_context *context;
    gantry_heap *heap;
    struct gy_copy_memory dest, source;
    bool any_kind; /* memory of any kind is valid, whatever the types say */
};

#define FAIL_FIELD(index, field, address, what) \
    GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "copy descriptor %zu: %s %p " what, (index), (field), (address))

#define OF_BOX SIZE_MAX /* no descriptor: messages are about a box */

enum heap_answer { FOREIGN, USABLE, PAGEABLE, NOT_LIVE, UNREACHED };

/* Find the live block that holds the address, with as many bytes as were asked for. */
static enum heap_answer ask_heap(struct resolver *r, const void *address, struct gy_copy_memory *out)
{
    struct gy_heap_look look;
    enum gy_heap_place place = gy_heap_look(r->heap, address, &look);
    if (place == GY_HEAP_FOREIGN) {
        return FOREIGN;
    }
    if (look.kind == GANTRY_MEMORY_HOST) {
        return PAGEABLE;
    }
    if (place == GY_HEAP_NOT_LIVE) {
        return NOT_LIVE;
    }
    *out = (struct gy_copy_memory){.begin = look.base,
                                   .end = look.base + look.bytes,
                                   .shift = (uint64_t)look.device - look.base,
                                   .is_host = look.kind != GANTRY_MEMORY_DEVICE};
    return USABLE;
}

static bool reaches(const struct gy_context *context, const struct gy_heap_owner *owner)
{
    const int own = context->info.ordinal;
    return owner->ordinal == own || (own < 64 && (owner->peers >> own & 1) != 0);
}

/* As ask_heap(), among the heaps of other contexts. */
static enum heap_answer ask_others(struct resolver *r, const void *address, struct gy_copy_memory *out,
                                   struct gy_heap_owner *owner)
{
    struct gy_heap_look look;
    enum gy_heap_place place = gy_heaps_look(r->heap, address, &look, owner);
    if (place != GY_HEAP_LIVE) {
        return place == GY_HEAP_FOREIGN ? FOREIGN : look.kind == GANTRY_MEMORY_HOST ? PAGEABLE : NOT_LIVE;
    }
    if (look.kind == GANTRY_MEMORY_HOST) {
        return PAGEABLE;
    }
    const bool is_host = look.kind != GANTRY_MEMORY_DEVICE;
    *out = (struct gy_copy_memory){.begin = look.base,
                                   .end = look.base + look.bytes,
                                   .shift = (uint64_t)look.device - look.base,
                                   .is_host = is_host,
                                   .is_peer = !is_host && owner->ordinal != r->context->info.ordinal,
                                   .peer = (uint8_t)owner->ordinal};
    return is_host || reaches(r->context, owner) ? USABLE : UNREACHED;
}

/* Ask the driver; CUDA_ERROR_INVALID_VALUE for memory that it does not know. */
static CUresult ask_driver(const struct gy_context *context, const void *address, uint64_t bytes,
                           struct gy_copy_memory *out)
{
    const struct gy_driver *driver = context->driver;
    CUdeviceptr at = (uintptr_t)address, start = 0, device = 0;
    unsigned type = 0;
    size_t size = 0;
    CUresult result = driver->cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at);
    if (result == CUDA_SUCCESS && type == CU_MEMORYTYPE_HOST) {
        result = driver->cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, at);
    }
    if (result != CUDA_SUCCESS) {
        return result;
    }
    out->is_host = type == CU_MEMORYTYPE_HOST;
    out->shift = out->is_host ? device - at : 0;
    out->begin = at;
    out->end = at + bytes;
    if (driver->cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, at) == CUDA_SUCCESS &&
        driver->cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, at) == CUDA_SUCCESS &&
        at - start < size) {
        out->begin = start;
        out->end = start + size;
    }
    return CUDA_SUCCESS;
}

/* What the messages about a field begin with. */
static GY_COLD const char *name_subject(size_t index, char *out, size_t room)
{
    if (index == OF_BOX) {
        return "copy box";
    }
    (void)snprintf(out, room, "copy descriptor %zu", index);
    return out;
}

static GY_COLD gantry_status refuse_memory(const struct resolver *r, enum heap_answer answer, size_t index,
                                           const char *field, const void *address,
                                           const struct gy_heap_owner *owner)
{
    char text[48];
    const char *subject = name_subject(index, text, sizeof(text));
    if (answer == UNREACHED) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                       "%s: %s %p is memory of device %d, which device %d does not reach; "
                       "gantry_launch_copy_dtod() copies it through the host",
                       subject, field, address, owner->ordinal, r->context->info.ordinal);
    }
    return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "%s: %s %p is %s", subject, field, address,
                   answer == NOT_LIVE ? "in no live block of the heap"
                                      : "pageable host memory, or no memory at all");
}

/* Find the memory of one field's address; *out is zeroed. */
static gantry_status find(struct resolver *r, const void *address, uint64_t bytes, size_t index,
                          const char *field, struct gy_copy_memory *out)
{
    struct gy_heap_owner owner;
    enum heap_answer answer = ask_heap(r, address, out);
    if (answer == FOREIGN) {
        answer = ask_others(r, address, out, &owner);
    }
    if (answer == FOREIGN) {
        CUresult result = ask_driver(r->context, address, bytes, out);
        if (result == CUDA_ERROR_INVALID_VALUE) {
            answer = PAGEABLE;
        } else if (result != CUDA_SUCCESS) {
            return gy_context_failed(r->context, result, "cuPointerGetAttribute(address)", __FILE__,
                                     __LINE__);
        }
    }
    return answer == USABLE || answer == FOREIGN ? GANTRY_OK
                                                 : refuse_memory(r, answer, index, field, address, &owner);
}

/* Get the device address of one field. */
static gantry_status resolve(struct resolver *r, const void *address, uint64_t bytes, enum needed needed,
                             size_t index, const char *field, struct gy_copy_memory *known, uint64_t *out)
{
    uint64_t at = (uintptr_t)address;
    if (at < known->begin || at >= known->end) {
        struct gy_copy_memory found = {0};
        gantry_status status = find(r, address, bytes, index, field, &found);
        if (status != GANTRY_OK) {
            return status;
        }
        *known = found;
    }
    if (bytes > known->end - at) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                       "copy descriptor %zu: %s %p with %llu bytes leaves its memory, which ends at 0x%llx",
                       index, field, address, (unsigned long long)bytes, (unsigned long long)known->end);
    }
    if (needed == NEED_DEVICE && known->is_host) {
        return FAIL_FIELD(index, field, address, "is host memory, where the type asks for device memory");
    }
    if (needed == NEED_HOST && !known->is_host) {
        return FAIL_FIELD(index, field, address, "is device memory, where the type asks for host memory");
    }
    *out = at + known->shift;
    return GANTRY_OK;
}

/* By the type of the descriptor. */
static const enum needed dest_needs[] = {NEED_DEVICE, NEED_HOST, NEED_DEVICE, NEED_EITHER};

static enum needed source_needs(const struct resolver *r, const gantry_copy_desc *desc)
{
    return r->any_kind ? NEED_EITHER : desc->type == GANTRY_COPY_HTOD ? NEED_HOST : NEED_DEVICE;
}

/* Resolve one descriptor of at least a byte. */
static gantry_status resolve_item(struct resolver *r, const gantry_copy_desc *desc, size_t index,
                                  struct gy_copy_item *item)
{
    uint64_t dest_memory = r->dest.begin, source_memory = r->source.begin;
    *item = (struct gy_copy_item){
        .bytes = desc->bytes, .index = (uint32_t)index, .is_fill = desc->type == GANTRY_COPY_FILL};
    gantry_status status =
        resolve(r, desc->dest, desc->bytes, r->any_kind ? NEED_EITHER : dest_needs[desc->type], index, "dest",
                &r->dest, &item->dest);
    if (status != GANTRY_OK) {
        return status;
    }
    item->joins = index != 0 && r->dest.begin == dest_memory;
    item->group = r->dest.is_host ? GY_COPY_TO_HOST : GY_COPY_WITHIN;
    item->is_peer = r->dest.is_peer;
    item->peer = r->dest.peer;
    if (item->is_fill) {
        gy_copy_pattern(desc, item->dest, &item->source, &item->high);
        return GANTRY_OK;
    }
    status = resolve(r, desc->source, desc->bytes, source_needs(r, desc), index, "source", &r->source,
                     &item->source);
    item->joins = item->joins && r->source.begin == source_memory;
    item->group = r->source.is_host ? GY_COPY_FROM_HOST : item->group;
    if (!item->is_peer && r->source.is_peer) {
        item->is_peer = item->is_pull = true;
        item->peer = r->source.peer;
    }
    return status;
}

gantry_status gy_copy_resolve(struct gy_context *context, gantry_heap *heap, const gantry_copy_desc *descs,
                              size_t count, bool any_kind, struct gy_copy_item *items, size_t *out_count)
{
    struct resolver r = {.context = context, .heap = heap, .any_kind = any_kind};
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        if (descs[i].bytes == 0) {
            continue;
        }
        gantry_status status = resolve_item(&r, &descs[i], i, &items[used]);
        if (status != GANTRY_OK) {
            return status;
        }
        used++;
    }
    *out_count = used;
    return GANTRY_OK;
}

gantry_status gy_copy_resolve_one(struct gy_context *context, gantry_heap *heap, const gantry_copy_desc *desc,
                                  size_t index, bool any_kind, struct gy_copy_memory known[2])
{
    struct resolver r = {.context = context, .heap = heap, .any_kind = any_kind};
    uint64_t ignored;
    gantry_status status = GANTRY_OK;
    if (desc->bytes != 0) {
        status = resolve(&r, desc->dest, desc->bytes, any_kind ? NEED_EITHER : dest_needs[desc->type], index,
                         "dest", &r.dest, &ignored);
    }
    if (desc->bytes != 0 && desc->type != GANTRY_COPY_FILL && status == GANTRY_OK) {
        status = resolve(&r, desc->source, desc->bytes, source_needs(&r, desc), index, "source", &r.source,
                         &ignored);
    }
    known[0] = r.dest;
    known[1] = r.source;
    return status;
}

bool gy_copy_find_memory(struct gy_context *context, gantry_heap *heap, const void *address, uint64_t bytes,
                         struct gy_copy_memory *out)
{
    struct resolver r = {.context = context, .heap = heap};
    struct gy_copy_memory elsewhere = {0};
    struct gy_heap_owner owner;
    enum heap_answer answer = ask_heap(&r, address, out);
    if (answer == FOREIGN &&
        (ask_others(&r, address, &elsewhere, &owner) == UNREACHED || elsewhere.is_peer)) {
        return false;
    }
    return answer == USABLE ||
           (answer == FOREIGN && ask_driver(context, address, bytes, out) == CUDA_SUCCESS);
}

gantry_status gy_copy_find_side(struct gy_context *context, gantry_heap *heap, const char *name,
                                const void *address, uint64_t bytes, struct gy_copy_memory *out)
{
    struct resolver r = {.context = context, .heap = heap};
    *out = (struct gy_copy_memory){0};
    return find(&r, address, bytes, OF_BOX, name, out);
}

/* ---- lists that the device reads -------------------------------------------------------------- */

gantry_status gy_copy_find_list(struct gy_context *context, gantry_heap *heap, const char *name,
                                const void *address, uint64_t bytes, struct gy_copy_memory *memory,
                                uint64_t *out)
{
    struct resolver r = {.context = context, .heap = heap};
    struct gy_copy_memory found = {0};
    enum heap_answer answer = ask_heap(&r, address, &found);
    CUresult result = answer == FOREIGN ? ask_driver(context, address, bytes, &found) : CUDA_SUCCESS;
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_INVALID_VALUE) {
        return gy_context_failed(context, result, "cuPointerGetAttribute(address)", __FILE__, __LINE__);
    }
    if (answer == NOT_LIVE || answer == PAGEABLE || result != CUDA_SUCCESS) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "copy list: %s %p is %s", name, address,
                       answer == NOT_LIVE ? "in no live block of the heap"
                                          : "pageable host memory, or no memory at all");
    }
    uint64_t at = (uintptr_t)address;
    if (bytes > found.end - at) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                       "copy list: %s %p with %llu bytes leaves its memory, which ends at 0x%llx", name,
                       address, (unsigned long long)bytes, (unsigned long long)found.end);
    }
    if (memory != NULL) {
        *memory = found;
    }
    *out = at + found.shift;
    return GANTRY_OK;
}

/* ---- single copies ---------------------------------------------------------------------------- */

static GY_COLD gantry_status refuse_bounds(const gantry_alloc_site *where, const struct gy_copy_side *side,
                                           enum gy_heap_place place, const struct gy_heap_look *look)
{
    if (place == GY_HEAP_NOT_LIVE) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                       "%s: %zu bytes, but %s %p is in no live block of the heap's %s memory", side->call,
                       side->bytes, side->name, side->address, gy_kind_name(look->kind));
    }
    size_t offset = (uintptr_t)side->address - look->base;
    return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                   "%s: %zu bytes, but %s %p has %zu left: it lies %zu bytes into a %s block of %zu bytes "
                   "(%s, from %s:%d)",
                   side->call, side->bytes, side->name, side->address, look->bytes - offset, offset,
                   gy_kind_name(look->kind), look->bytes, where->tag != NULL ? where->tag : "untagged",
                   where->file != NULL ? where->file : "unknown place", where->line);
}

/* Check memory that is not the heap's: the driver knows allocations of its own, and page-locked memory. */
static GY_COLD gantry_status check_foreign(const struct gy_context *context, const struct gy_copy_side *side)
{
    struct gy_copy_memory memory = {0};
    uint64_t at = (uintptr_t)side->address;
    if (ask_driver(context, side->address, side->bytes, &memory) != CUDA_SUCCESS ||
        side->bytes <= memory.end - at) {
        return GANTRY_OK;
    }
    return GY_FAIL(
        GANTRY_ERR_INVALID_ARGUMENT,
        "%s: %zu bytes, but %s %p has %llu left: it lies %llu bytes into an allocation of %llu bytes "
        "that is none of the heap's",
        side->call, side->bytes, side->name, side->address, (unsigned long long)(memory.end - at),
        (unsigned long long)(at - memory.begin), (unsigned long long)(memory.end - memory.begin));
}

static bool fits(const struct gy_copy_side *side, enum gy_heap_place place, const struct gy_heap_look *look)
{
    return place == GY_HEAP_LIVE &&
           side->bytes <= look->bytes - (size_t)((uintptr_t)side->address - look->base);
}

/* Check memory that is not in the context's own heap. */
static gantry_status check_elsewhere(struct gy_context *context, gantry_heap *heap,
                                     const struct gy_copy_side *side, struct gy_copy_end *end)
{
    struct gy_heap_look look;
    struct gy_heap_owner owner;
    enum gy_heap_place place = gy_heaps_look(heap, side->address, &look, &owner);
    if (place == GY_HEAP_FOREIGN) {
        return gy_check_is_on(GY_CHECK_BOUNDS) ? check_foreign(context, side) : GANTRY_OK;
    }
    if (!fits(side, place, &look)) {
        return refuse_bounds(&owner.site, side, place, &look);
    }
    if (look.kind == GANTRY_MEMORY_DEVICE) {
        end->is_peer = owner.ordinal != context->info.ordinal;
        end->peer = (uint8_t)owner.ordinal;
        end->unreached = reaches(context, &owner) ? NULL : owner.native;
    }
    return GANTRY_OK;
}

gantry_status gy_copy_check_side(struct gy_context *context, gantry_heap *heap,
                                 const struct gy_copy_side *side, struct gy_copy_end *end)
{
    struct gy_heap_look look;
    enum gy_heap_place place = gy_heap_look(heap, side->address, &look);
    *end = (struct gy_copy_end){.unreached = NULL};
    if (place == GY_HEAP_FOREIGN) {
        return check_elsewhere(context, heap, side, end);
    }
    if (__builtin_expect(fits(side, place, &look), 1)) {
        return GANTRY_OK;
    }
    gantry_alloc_site where =
        place == GY_HEAP_LIVE ? gy_heap_site(heap, look.site) : (gantry_alloc_site){NULL, NULL, 0};
    return refuse_bounds(&where, side, place, &look);
}
