/* SM resources and green contexts.
 *
 * A resource carries its set of SMs, and which split it came from, in the bytes that belong to the driver.
 * Unless co-scheduling is ignored, groups are made of chunks: split_step SMs of one processing cluster.
 * That is why 132 SMs give 15 groups of 8 and not 16. */
#include "driver/emulator/green.h"

#include "base/alloc.h"
#include "driver/emulator/capture.h"
#include "driver/emulator/event.h"

#include <string.h>

#define RESOURCE_MAGIC 0x47594d53u
#define FINE_STEP 2u /* with CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING */
#define ALL_SPLIT_FLAGS \
    (CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING | CU_DEV_SM_RESOURCE_SPLIT_MAX_POTENTIAL_CLUSTER_SIZE)

struct sm_set {
    uint32_t words[GY_EMU_MAX_SMS / 32];
};

/* Kept in CUdevResource.driver_private. */
struct content {
    uint32_t magic;
    int32_t device;
    uint64_t split; /* number of the split it is a part of; 0: it may be split */
    struct sm_set sms;
};
_Static_assert(sizeof(struct content) <= sizeof(((CUdevResource *)0)->driver_private), "room in a resource");

struct descriptor {
    struct gy_emu_object object;
    int device;
    struct sm_set sms;
};

static uint64_t splits_ever;

static bool has(const struct sm_set *set, uint32_t sm)
{
    return (set->words[sm / 32] >> (sm % 32) & 1u) != 0;
}

static void add(struct sm_set *set, uint32_t sm)
{
    set->words[sm / 32] |= 1u << (sm % 32);
}

static uint32_t count(const struct sm_set *set)
{
    uint32_t n = 0;
    for (size_t i = 0; i < GY_EMU_MAX_SMS / 32; i++) {
        n += (uint32_t)__builtin_popcount(set->words[i]);
    }
    return n;
}

static void write_resource(CUdevResource *out, int device, uint64_t split, const struct sm_set *sms)
{
    const struct gy_emu_profile *profile = gy_emu_device_find(device)->profile;
    struct content content = {RESOURCE_MAGIC, device, split, *sms};
    memset(out, 0, sizeof(*out));
    if (count(sms) == 0) {
        return; /* type INVALID */
    }
    memcpy(out->driver_private, &content, sizeof(content));
    out->type = CU_DEV_RESOURCE_TYPE_SM;
    out->sm.smCount = count(sms);
    out->sm.minSmPartitionSize = profile->split_min;
    out->sm.smCoscheduledAlignment = profile->split_step;
}

/* Only what this driver wrote, and nobody changed, is a resource. */
static CUresult read_resource(const CUdevResource *resource, struct content *out)
{
    if (resource == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (resource->type != CU_DEV_RESOURCE_TYPE_SM) {
        return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    }
    memcpy(out, resource->driver_private, sizeof(*out));
    if (out->magic != RESOURCE_MAGIC || gy_emu_device_find(out->device) == NULL ||
        resource->sm.smCount != count(&out->sms)) {
        return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    }
    return CUDA_SUCCESS;
}

static CUresult get_device_resource(CUdevice device, CUdevResource *out, CUdevResourceType type)
{
    const struct gy_emu_device *d = gy_emu_device_find(device);
    if (d == NULL) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    if (out == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (type != CU_DEV_RESOURCE_TYPE_SM) {
        return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    }
    struct sm_set all = {{0}};
    for (uint32_t i = 0; i < d->profile->sm_count; i++) {
        add(&all, i);
    }
    write_resource(out, device, 0, &all);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource *resource, CUdevResourceType type)
{
    return GY_EMU_CALL(cuDeviceGetDevResource, get_device_resource(device, resource, type));
}

/* ---- splitting ------------------------------------------------------------------------------- */

/* The SMs of `from` in the order groups take them: whole chunks first.  Returns how many those are. */
static uint32_t arrange(const struct gy_emu_profile *profile, const struct sm_set *from, uint32_t step,
                        uint16_t order[GY_EMU_MAX_SMS])
{
    uint32_t n = 0, first = 0;
    for (int g = 0; g < GY_EMU_MAX_GPCS && profile->gpc_sms[g] != 0; g++) {
        uint32_t begin = n;
        for (uint32_t sm = first; sm < first + profile->gpc_sms[g]; sm++) {
            if (has(from, sm)) {
                order[n++] = (uint16_t)sm;
            }
        }
        n = begin + (n - begin) / step * step; /* the rest of the cluster makes no chunk */
        first += profile->gpc_sms[g];
    }
    return n;
}

static uint32_t round_up(uint32_t n, uint32_t step)
{
    return (n + step - 1) / step * step;
}

struct split {
    CUdevResource *result; /* NULL: only count */
    unsigned int *groups;
    CUdevResource *remaining; /* may be NULL */
    unsigned int flags, min_count;
};

static void write_groups(const struct split *split, const struct content *input, const uint16_t *order,
                         uint32_t groups, uint32_t size)
{
    uint64_t number = ++splits_ever;
    struct sm_set rest = input->sms;
    for (uint32_t g = 0; g < groups; g++) {
        struct sm_set set = {{0}};
        for (uint32_t i = 0; i < size; i++) {
            uint32_t sm = order[g * size + i];
            add(&set, sm);
            rest.words[sm / 32] &= ~(1u << (sm % 32));
        }
        write_resource(&split->result[g], input->device, number, &set);
    }
    if (split->remaining != NULL) {
        write_resource(split->remaining, input->device, number, &rest);
    }
}

static CUresult split_by_count(const CUdevResource *resource, const struct split *split)
{
    struct content input;
    CUresult result = read_resource(resource, &input);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (split->groups == NULL || (split->flags & ~(unsigned int)ALL_SPLIT_FLAGS) != 0 ||
        (split->result != NULL && *split->groups == 0)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (input.split != 0 || split->min_count > count(&input.sms)) {
        return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    }
    const struct gy_emu_profile *profile = gy_emu_device_find(input.device)->profile;
    bool fine = (split->flags & CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING) != 0;
    uint32_t step = fine ? FINE_STEP : profile->split_step;
    uint32_t least = fine ? FINE_STEP : profile->split_min;
    uint32_t size = round_up(split->min_count > least ? split->min_count : least, step);
    uint16_t order[GY_EMU_MAX_SMS];
    uint32_t most = arrange(profile, &input.sms, step, order) / size;
    if (most == 0) {
        return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    }
    uint32_t groups = split->result == NULL || *split->groups > most ? most : *split->groups;
    if (split->result != NULL) {
        write_groups(split, &input, order, groups, size);
    }
    *split->groups = groups;
    return CUDA_SUCCESS;
}

CUresult cuDevSmResourceSplitByCount(CUdevResource *result, unsigned int *groups, const CUdevResource *input,
                                     CUdevResource *remaining, unsigned int flags, unsigned int min_count)
{
    const struct split split = {result, groups, remaining, flags, min_count};
    return GY_EMU_CALL(cuDevSmResourceSplitByCount, split_by_count(input, &split));
}

/* Several resources go together only when they are disjoint parts of one split. */
static CUresult collect(const CUdevResource *resources, unsigned int n, struct content *out)
{
    CUresult result = read_resource(&resources[0], out);
    for (unsigned int i = 1; i < n && result == CUDA_SUCCESS; i++) {
        struct content part;
        result = read_resource(&resources[i], &part);
        if (result != CUDA_SUCCESS) {
            break;
        }
        if (part.device != out->device || part.split != out->split || part.split == 0) {
            return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
        }
        for (size_t w = 0; w < GY_EMU_MAX_SMS / 32; w++) {
            if ((out->sms.words[w] & part.sms.words[w]) != 0) {
                return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
            }
            out->sms.words[w] |= part.sms.words[w];
        }
    }
    return result;
}

/* There is no call that frees a descriptor; it stays until the process ends, as with the real driver. */
static CUresult generate(CUdevResourceDesc *out, const CUdevResource *resources, unsigned int n)
{
    if (out == NULL || resources == NULL || n == 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct content content;
    CUresult result = collect(resources, n, &content);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    struct descriptor *descriptor = gy_zalloc(sizeof(*descriptor));
    if (descriptor == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    descriptor->device = content.device;
    descriptor->sms = content.sms;
    result = gy_emu_handle_open(GY_EMU_DESC, &descriptor->object);
    if (result != CUDA_SUCCESS) {
        gy_free(descriptor);
        return result;
    }
    *out = (CUdevResourceDesc)descriptor->object.handle;
    return CUDA_SUCCESS;
}

CUresult cuDevResourceGenerateDesc(CUdevResourceDesc *desc, CUdevResource *resources, unsigned int n)
{
    return GY_EMU_CALL(cuDevResourceGenerateDesc, generate(desc, resources, n));
}

/* ---- green contexts -------------------------------------------------------------------------- */

static CUresult open_green(struct gy_emu_device *device, struct gy_emu_context *primary,
                           const struct descriptor *descriptor, CUgreenCtx *out)
{
    uint16_t sms[GY_EMU_MAX_SMS];
    uint32_t n = 0;
    for (uint32_t sm = 0; sm < device->profile->sm_count; sm++) {
        if (has(&descriptor->sms, sm)) {
            sms[n++] = (uint16_t)sm;
        }
    }
    struct gy_emu_green *green = gy_zalloc(sizeof(*green));
    if (green == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    green->object.context = primary;
    CUresult result = gy_emu_handle_open(GY_EMU_GREEN, &green->object);
    if (result != CUDA_SUCCESS) {
        goto free_green;
    }
    result = gy_emu_context_open(device, primary, sms, n, &green->context);
    if (result != CUDA_SUCCESS) {
        goto close_handle;
    }
    green->context->green = green;
    *out = (CUgreenCtx)green->object.handle;
    return CUDA_SUCCESS;
close_handle:
    gy_emu_handle_close(&green->object);
free_green:
    gy_free(green);
    return result;
}

static CUresult create(CUgreenCtx *out, CUdevResourceDesc desc, CUdevice ordinal, unsigned int flags)
{
    struct gy_emu_device *device = gy_emu_device_find(ordinal);
    if (device == NULL) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    if (out == NULL || flags != CU_GREEN_CTX_DEFAULT_STREAM) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    const struct descriptor *descriptor = gy_emu_handle_find(GY_EMU_DESC, desc);
    if (descriptor == NULL || descriptor->device != ordinal) {
        return descriptor == NULL ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_DEVICE;
    }
    struct gy_emu_context *primary;
    CUresult result = gy_emu_primary_retain(device, &primary);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    result = gy_emu_context_health(primary);
    if (result == CUDA_SUCCESS) {
        result = open_green(device, primary, descriptor, out);
    }
    if (result != CUDA_SUCCESS) {
        gy_emu_primary_release(device);
    }
    return result;
}

CUresult cuGreenCtxCreate(CUgreenCtx *green, CUdevResourceDesc desc, CUdevice device, unsigned int flags)
{
    return GY_EMU_CALL(cuGreenCtxCreate, create(green, desc, device, flags));
}

static void close_handles(struct gy_emu_green *green)
{
    gy_emu_handle_close(&green->context->object);
    gy_emu_handle_close(&green->object);
}

void gy_emu_green_close(struct gy_emu_green *green)
{
    close_handles(green);
    gy_free(green->context);
    gy_free(green);
}

/* Its work ends first.  Streams of it that still exist can do nothing any more, not even be destroyed. */
static CUresult destroy(CUgreenCtx handle)
{
    struct gy_emu_green *green = gy_emu_handle_find(GY_EMU_GREEN, handle);
    if (green == NULL) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    struct gy_emu_context *context = green->context;
    struct gy_emu_context *root = context->root;
    close_handles(green);
    context->green = NULL;
    context->destroyed = true;
    context->graveyard = root->graveyard;
    root->graveyard = context;
    gy_free(green);
    gy_emu_root_drain(root, context);
    gy_emu_primary_release(root->device);
    return CUDA_SUCCESS;
}

CUresult cuGreenCtxDestroy(CUgreenCtx green)
{
    return GY_EMU_CALL(cuGreenCtxDestroy, destroy(green));
}

static CUresult find(CUgreenCtx handle, struct gy_emu_green **out)
{
    struct gy_emu_green *green = gy_emu_handle_find(GY_EMU_GREEN, handle);
    if (green == NULL) {
        return gy_emu_handle_is_stale(GY_EMU_GREEN, handle) ? CUDA_ERROR_CONTEXT_IS_DESTROYED
                                                            : CUDA_ERROR_INVALID_HANDLE;
    }
    *out = green;
    return gy_emu_context_health(green->context);
}

static CUresult create_stream(CUstream *out, CUgreenCtx handle, unsigned int flags, int priority)
{
    struct gy_emu_green *green;
    CUresult result = find(handle, &green);
    if (result == CUDA_SUCCESS && (out == NULL || flags != CU_STREAM_NON_BLOCKING)) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    struct gy_emu_stream *stream;
    if (result == CUDA_SUCCESS) {
        result = gy_emu_stream_open(green->context, flags, priority, &stream);
    }
    if (result == CUDA_SUCCESS) {
        *out = (CUstream)stream->object.handle;
    }
    return result;
}

CUresult cuGreenCtxStreamCreate(CUstream *stream, CUgreenCtx green, unsigned int flags, int priority)
{
    return GY_EMU_CALL(cuGreenCtxStreamCreate, create_stream(stream, green, flags, priority));
}

static CUresult get_context(CUcontext *out, CUgreenCtx handle)
{
    struct gy_emu_green *green;
    CUresult result = find(handle, &green);
    if (result == CUDA_SUCCESS && out == NULL) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (result == CUDA_SUCCESS) {
        *out = (CUcontext)green->context->object.handle;
    }
    return result;
}

CUresult cuCtxFromGreenCtx(CUcontext *context, CUgreenCtx green)
{
    return GY_EMU_CALL(cuCtxFromGreenCtx, get_context(context, green));
}

static CUresult get_resource(CUgreenCtx handle, CUdevResource *out, CUdevResourceType type)
{
    struct gy_emu_green *green;
    CUresult result = find(handle, &green);
    if (result == CUDA_SUCCESS && out == NULL) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (result == CUDA_SUCCESS && type != CU_DEV_RESOURCE_TYPE_SM) {
        result = CUDA_ERROR_INVALID_RESOURCE_TYPE;
    }
    if (result != CUDA_SUCCESS) {
        return result;
    }
    struct sm_set set = {{0}};
    for (uint32_t i = 0; i < green->context->sm_count; i++) {
        add(&set, green->context->sms[i]);
    }
    write_resource(out, green->context->device->ordinal, 0, &set);
    return CUDA_SUCCESS;
}

CUresult cuGreenCtxGetDevResource(CUgreenCtx green, CUdevResource *resource, CUdevResourceType type)
{
    return GY_EMU_CALL(cuGreenCtxGetDevResource, get_resource(green, resource, type));
}

/* Find the pair for a call on the whole green context. */
static CUresult find_with_event(CUgreenCtx green_handle, CUevent event_handle, struct gy_emu_green **green,
                                struct gy_emu_event **event)
{
    CUresult result = find(green_handle, green);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    *event = gy_emu_handle_find(GY_EMU_EVENT, event_handle);
    if (*event == NULL || (*event)->object.context != (*green)->context->root) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    return gy_emu_capture_forbids_context((*green)->context);
}

/* Collected on the green context's null stream: it waits for every stream, then completes the marker. */
static CUresult record(CUgreenCtx green_handle, CUevent event_handle)
{
    struct gy_emu_green *green;
    struct gy_emu_event *event;
    CUresult result = find_with_event(green_handle, event_handle, &green, &event);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    struct gy_emu_context *context = green->context;
    for (struct gy_emu_stream *s = context->root->streams; s != NULL && result == CUDA_SUCCESS;
         s = s->next_in_root) {
        if (s->object.context == context && s != context->null_stream) {
            result = gy_emu_stream_join(context->null_stream, s);
        }
    }
    struct gy_emu_marker *marker =
        result == CUDA_SUCCESS ? gy_emu_marker_create(gy_emu_event_keeps_time(event)) : NULL;
    if (marker == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    struct gy_emu_work work = {.kind = GY_EMU_WORK_MARK, .context = context, .marker = marker};
    marker->refs++;
    result = gy_emu_stream_push(context->null_stream, &work);
    if (result == CUDA_SUCCESS) {
        gy_emu_event_attach(event, marker);
    }
    gy_emu_marker_unref(marker);
    return result;
}

CUresult cuGreenCtxRecordEvent(CUgreenCtx green, CUevent event)
{
    return GY_EMU_CALL(cuGreenCtxRecordEvent, record(green, event));
}

static CUresult wait(CUgreenCtx green_handle, CUevent event_handle)
{
    struct gy_emu_green *green;
    struct gy_emu_event *event;
    CUresult result = find_with_event(green_handle, event_handle, &green, &event);
    if (result != CUDA_SUCCESS || event->marker == NULL) {
        return result;
    }
    const struct gy_emu_context *context = green->context;
    for (struct gy_emu_stream *s = context->root->streams; s != NULL && result == CUDA_SUCCESS;
         s = s->next_in_root) {
        if (s->object.context == context) {
            struct gy_emu_work work = {
                .kind = GY_EMU_WORK_WAIT, .context = s->object.context, .marker = event->marker};
            event->marker->refs++;
            result = gy_emu_stream_push(s, &work);
        }
    }
    return result;
}

CUresult cuGreenCtxWaitEvent(CUgreenCtx green, CUevent event)
{
    return GY_EMU_CALL(cuGreenCtxWaitEvent, wait(green, event));
}

static CUresult get_green(CUstream handle, CUgreenCtx *out)
{
    struct gy_emu_stream *stream;
    CUresult result = gy_emu_stream_find(handle, &stream);
    if (result == CUDA_SUCCESS && out == NULL) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (result == CUDA_SUCCESS) {
        const struct gy_emu_green *green = stream->object.context->green;
        *out = green != NULL ? (CUgreenCtx)green->object.handle : NULL;
    }
    return result;
}

CUresult cuStreamGetGreenCtx(CUstream stream, CUgreenCtx *green)
{
    return GY_EMU_CALL(cuStreamGetGreenCtx, get_green(stream, green));
}
