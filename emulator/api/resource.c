/* SPDX-License-Identifier: MIT */
/* SM resources and their splits.
 *
 * Unless co-scheduling is ignored, groups are made of chunks: split_step SMs of one processing cluster.
 * That is why 132 SMs give 15 groups of 8 and not 16. */
#include "emulator/resource.h"

#include "base/environment.h"

#include <string.h>

#define RESOURCE_MAGIC 0x47594d53u
#define QUEUES_MAGIC 0x47595751u
#define FINE_STEP 2u /* with CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING */
#define MAX_CLUSTER 32u
#define WORKQUEUES 8u /* unless $CUDA_DEVICE_MAX_CONNECTIONS says otherwise */
#define MOST_WORKQUEUES 32
#define UNKNOWN_FLAG 4u /* a driver of CUDA 13.0 takes it, and does nothing about it */
#define ALL_SPLIT_FLAGS                                                                                      \
    (CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING | CU_DEV_SM_RESOURCE_SPLIT_MAX_POTENTIAL_CLUSTER_SIZE | \
     UNKNOWN_FLAG)

static uint32_t splits_ever;

uint32_t gy_emu_sm_count(const struct gy_emu_sm_set *set)
{
    uint32_t n = 0;
    for (size_t i = 0; i < GY_EMU_MAX_SMS / 32; i++) {
        n += (uint32_t)__builtin_popcount(set->words[i]);
    }
    return n;
}

void gy_emu_resource_write(CUdevResource *out, int device, uint32_t split, uint32_t cluster,
                           const struct gy_emu_sm_set *sms)
{
    const struct gy_emu_profile *profile = gy_emu_device_find(device)->profile;
    struct gy_emu_resource content = {RESOURCE_MAGIC, device, cluster, split, *sms};
    memset(out, 0, sizeof(*out));
    if (gy_emu_sm_count(sms) == 0) {
        return; /* type INVALID */
    }
    memcpy(out->driver_private, &content, sizeof(content));
    out->type = CU_DEV_RESOURCE_TYPE_SM;
    out->sm.smCount = gy_emu_sm_count(sms);
    out->sm.minSmPartitionSize = profile->split_min;
    out->sm.smCoscheduledAlignment = profile->split_step;
}

CUresult gy_emu_resource_read(const CUdevResource *resource, struct gy_emu_resource *out)
{
    if (resource == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (resource->type != CU_DEV_RESOURCE_TYPE_SM) {
        return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    }
    memcpy(out, resource->driver_private, sizeof(*out));
    if (out->magic != RESOURCE_MAGIC || gy_emu_device_find(out->device) == NULL ||
        resource->sm.smCount != gy_emu_sm_count(&out->sms)) {
        return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    }
    return CUDA_SUCCESS;
}

/* ---- work queues ----------------------------------------------------------------------------- */

struct gy_emu_queues gy_emu_shared_queues(int device)
{
    const char *text = gy_environment("CUDA_DEVICE_MAX_CONNECTIONS");
    const long asked = text != NULL ? strtol(text, NULL, 10) : 0;
    const uint32_t limit = asked > MOST_WORKQUEUES ? MOST_WORKQUEUES
                           : asked > 0             ? (uint32_t)asked
                                                   : WORKQUEUES;
    return (struct gy_emu_queues){QUEUES_MAGIC, device, 0, limit, CU_WORKQUEUE_SCOPE_DEVICE_CTX};
}

bool gy_emu_queues_write(const struct gy_emu_queues *queues, CUdevResourceType type, CUdevResource *out)
{
    if (!gy_emu_has_workqueues() ||
        (type != CU_DEV_RESOURCE_TYPE_WORKQUEUE_CONFIG && type != CU_DEV_RESOURCE_TYPE_WORKQUEUE)) {
        return false;
    }
    memset(out, 0, sizeof(*out));
    out->type = type;
    if (type == CU_DEV_RESOURCE_TYPE_WORKQUEUE) {
        memcpy(&out->wq, queues, sizeof(*queues));
    } else {
        out->wqConfig = (CUdevWorkqueueConfigResource){queues->device, queues->limit,
                                                       (CUdevWorkqueueConfigScope)queues->scope};
    }
    return true;
}

CUresult gy_emu_queues_read(const CUdevResource *resource, struct gy_emu_queues *out)
{
    static uint32_t sets_ever;
    if (!gy_emu_has_workqueues()) {
        return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    }
    if (resource->type == CU_DEV_RESOURCE_TYPE_WORKQUEUE) {
        memcpy(out, &resource->wq, sizeof(*out));
        return out->magic == QUEUES_MAGIC ? CUDA_SUCCESS : CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    }
    const CUdevWorkqueueConfigResource *wish = &resource->wqConfig;
    *out = (struct gy_emu_queues){QUEUES_MAGIC, wish->device, ++sets_ever, wish->wqConcurrencyLimit,
                                  (uint32_t)wish->sharingScope};
    return wish->wqConcurrencyLimit != 0 &&
                   (unsigned)wish->sharingScope <= CU_WORKQUEUE_SCOPE_GREEN_CTX_BALANCED
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
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
    const struct gy_emu_queues shared = gy_emu_shared_queues(device);
    if (gy_emu_queues_write(&shared, type, out)) {
        return CUDA_SUCCESS;
    }
    if (type != CU_DEV_RESOURCE_TYPE_SM) {
        return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    }
    struct gy_emu_sm_set all = {{0}};
    for (uint32_t i = 0; i < d->profile->sm_count; i++) {
        gy_emu_sm_add(&all, i);
    }
    gy_emu_resource_write(out, device, 0, 0, &all);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource *resource, CUdevResourceType type)
{
    return GY_EMU_CALL(cuDeviceGetDevResource, get_device_resource(device, resource, type));
}

/* ---- splitting ------------------------------------------------------------------------------- */

/* Arrange the SMs of `from` in the order in which groups take them: whole chunks first.  Returns the number
 * of SMs in whole chunks. */
static uint32_t arrange(const struct gy_emu_profile *profile, const struct gy_emu_sm_set *from, uint32_t step,
                        uint16_t order[GY_EMU_MAX_SMS])
{
    uint32_t n = 0, first = 0;
    for (int g = 0; g < GY_EMU_MAX_GPCS && profile->gpc_sms[g] != 0; g++) {
        uint32_t begin = n;
        for (uint32_t sm = first; sm < first + profile->gpc_sms[g]; sm++) {
            if (gy_emu_sm_in(from, sm)) {
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
    CUdevResource *result; /* NULL: only count them */
    unsigned int *groups;
    CUdevResource *remaining; /* may be NULL */
    unsigned int flags, min_count;
    uint32_t cluster; /* the cluster size that is promised */
};

static void write_groups(const struct split *split, const struct gy_emu_resource *input,
                         const uint16_t *order, uint32_t groups, uint32_t size)
{
    uint32_t number = ++splits_ever;
    struct gy_emu_sm_set rest = input->sms;
    for (uint32_t g = 0; g < groups; g++) {
        struct gy_emu_sm_set set = {{0}};
        for (uint32_t i = 0; i < size; i++) {
            uint32_t sm = order[g * size + i];
            gy_emu_sm_add(&set, sm);
            rest.words[sm / 32] &= ~(1u << (sm % 32));
        }
        gy_emu_resource_write(&split->result[g], input->device, number, split->cluster, &set);
    }
    if (split->remaining != NULL) {
        gy_emu_resource_write(split->remaining, input->device, number, 0, &rest);
    }
}

static CUresult split_by_count(const CUdevResource *resource, struct split *split)
{
    struct gy_emu_resource input;
    CUresult result = gy_emu_resource_read(resource, &input);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (split->groups == NULL || (split->flags & ~(unsigned int)ALL_SPLIT_FLAGS) != 0 ||
        (split->result != NULL && *split->groups == 0)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (input.split != 0 || split->min_count > gy_emu_sm_count(&input.sms)) {
        return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    }
    const struct gy_emu_profile *profile = gy_emu_device_find(input.device)->profile;
    bool fine = (split->flags & CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING) != 0;
    uint32_t step = fine ? FINE_STEP : profile->split_step;
    split->cluster = step;
    uint32_t least = fine ? FINE_STEP : profile->split_min;
    uint32_t size = round_up(split->min_count > least ? split->min_count : least, step);
    uint16_t order[GY_EMU_MAX_SMS];
    const uint32_t all = gy_emu_sm_count(&input.sms);
    size = size > all ? all : size; /* which `min_count` is not above */
    /* A group of several chunks is of whatever SMs there are: 132 make 8 groups of 16, as on an H200. */
    uint32_t most = arrange(profile, &input.sms, size > step ? 1 : step, order) / size;
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
    struct split split = {result, groups, remaining, flags, min_count, 0};
    return GY_EMU_CALL(cuDevSmResourceSplitByCount, split_by_count(input, &split));
}

/* ---- the structured split -------------------------------------------------------------------- */

/* Fill one group: chunks of co-scheduled SMs, each within one processing cluster, then other SMs. */
static uint32_t fill_group(const struct gy_emu_profile *profile, struct gy_emu_sm_set *rest, uint32_t chunk,
                           uint32_t wanted, struct gy_emu_sm_set *out)
{
    uint32_t got = 0, first = 0;
    for (int g = 0; g < GY_EMU_MAX_GPCS && profile->gpc_sms[g] != 0; g++) {
        uint32_t end = first + profile->gpc_sms[g], here = 0;
        for (uint32_t sm = first; sm < end; sm++) {
            here += gy_emu_sm_in(rest, sm);
        }
        uint32_t take = here / chunk * chunk;
        take = take < wanted - got ? take : (wanted - got) / chunk * chunk;
        got += take;
        for (uint32_t sm = first; sm < end && take > 0; sm++) {
            if (gy_emu_sm_in(rest, sm)) {
                gy_emu_sm_add(out, sm);
                rest->words[sm / 32] &= ~(1u << (sm % 32));
                take--;
            }
        }
        first = end;
    }
    return got;
}

/* Complete the wishes of one group: CUDA's documentation of the structured split has the rules. */
static bool complete_params(const struct gy_emu_profile *profile, CU_DEV_SM_RESOURCE_GROUP_PARAMS *p)
{
    if (p->coscheduledSmCount == 0) {
        p->coscheduledSmCount = profile->split_step;
    }
    if (p->preferredCoscheduledSmCount == 0) {
        p->preferredCoscheduledSmCount = p->coscheduledSmCount;
    }
    uint32_t step = p->flags == 0 ? p->coscheduledSmCount : 2;
    bool reserved = false;
    for (size_t i = 0; i < sizeof(p->reserved) / sizeof(p->reserved[0]); i++) {
        reserved = reserved || p->reserved[i] != 0;
    }
    return p->coscheduledSmCount % 2 == 0 && p->coscheduledSmCount <= MAX_CLUSTER && !reserved &&
           p->preferredCoscheduledSmCount % p->coscheduledSmCount == 0 &&
           p->flags <= CU_DEV_SM_RESOURCE_GROUP_BACKFILL && p->smCount % step == 0 &&
           (p->smCount == 0 || p->smCount >= p->coscheduledSmCount);
}

static CUresult split_structured(CUdevResource *result, unsigned int groups, const CUdevResource *resource,
                                 CUdevResource *remainder, CU_DEV_SM_RESOURCE_GROUP_PARAMS *params)
{
    struct gy_emu_resource input;
    CUresult read = gy_emu_resource_read(resource, &input);
    if (read != CUDA_SUCCESS || groups == 0 || params == NULL) {
        return read != CUDA_SUCCESS ? read : CUDA_ERROR_INVALID_VALUE;
    }
    if (input.split != 0) {
        return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    }
    const struct gy_emu_profile *profile = gy_emu_device_find(input.device)->profile;
    uint32_t number = ++splits_ever;
    for (unsigned int g = 0; g < groups; g++) {
        CU_DEV_SM_RESOURCE_GROUP_PARAMS *p = &params[g];
        struct gy_emu_sm_set set = {{0}};
        if (!complete_params(profile, p)) {
            return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
        }
        uint32_t wanted = p->smCount != 0 ? p->smCount : GY_EMU_MAX_SMS;
        uint32_t whole = p->flags == 0 || p->smCount == 0 ? wanted : p->coscheduledSmCount;
        uint32_t got = fill_group(profile, &input.sms, p->coscheduledSmCount, whole, &set);
        if (p->flags != 0 && got != 0) {
            got += fill_group(profile, &input.sms, 1, wanted - got, &set);
        }
        if ((p->smCount != 0 && got != p->smCount) || (got == 0 && result != NULL)) {
            return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
        }
        p->smCount = got;
        if (result != NULL) {
            gy_emu_resource_write(&result[g], input.device, number, p->coscheduledSmCount, &set);
        }
    }
    if (remainder != NULL) {
        gy_emu_resource_write(remainder, input.device, number, 0, &input.sms);
    }
    return CUDA_SUCCESS;
}

CUresult cuDevSmResourceSplit(CUdevResource *result, unsigned int groups, const CUdevResource *input,
                              CUdevResource *remainder, unsigned int flags,
                              CU_DEV_SM_RESOURCE_GROUP_PARAMS *params)
{
    return GY_EMU_CALL(cuDevSmResourceSplit,
                       flags != 0 ? CUDA_ERROR_INVALID_VALUE
                       : !gy_emu_has_workqueues()
                           ? CUDA_ERROR_NOT_SUPPORTED
                           : split_structured(result, groups, input, remainder, params));
}
