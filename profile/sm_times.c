#include "profile/sm_times.h"

#include "base/alloc.h"

#include <stdio.h>

#define RANK_CLOCKS 1500u /* after the streams and the records, before the SMs */

struct gy_sm_times {
    gy_pftrace_track track;     /* 0: nothing was written yet */
    uint64_t error_ns[GY_SMS];  /* of the latest batch */
    uint64_t stated_ns[GY_SMS]; /* the largest error that was written */
    bool known[GY_SMS];         /* of the latest batch */
    bool stated[GY_SMS];
    struct gy_sm_anchor before[GY_SMS]; /* see gy_sm_lines() */
    struct gy_sm_line lines[GY_SMS];    /* of the latest batch */
};

struct gy_sm_times *gy_sm_times_create(void)
{
    return gy_zalloc(sizeof(struct gy_sm_times));
}

void gy_sm_times_destroy(struct gy_sm_times *times)
{
    gy_free(times);
}

static void convert(const struct gy_sm_line *lines, uint32_t count, gantry_cta_record *record)
{
    uint32_t sm = record->origin & (GY_SMS - 1);
    if ((record->start_ns & GANTRY_CTA_OWN_CLOCK) == 0) { /* no record, or of the common clock */
        return;
    }
    record->start_ns &= ~GANTRY_CTA_OWN_CLOCK;
    if (sm >= count || lines[sm].ns_per_clock == 0) {
        record->start_ns = 0;
        return;
    }
    uint64_t start = gy_sm_line_at(&lines[sm], record->start_ns);
    uint64_t stop = gy_sm_line_at(&lines[sm], record->start_ns + record->duration_ns);
    record->duration_ns = stop - start < UINT32_MAX ? (uint32_t)(stop - start) : UINT32_MAX;
    record->start_ns = start;
}

void gy_sm_times_convert(struct gy_sm_times *times, const struct gy_cta_batch *batch)
{
    for (uint32_t sm = 0; sm < GY_SMS; sm++) {
        times->known[sm] = false;
    }
    for (uint32_t i = 0; i < batch->offset_count; i++) {
        times->known[batch->offsets[i].sm] = true;
        times->error_ns[batch->offsets[i].sm] = gy_sm_offset_error(&batch->offsets[i]);
    }
    if (batch->anchor_count == 0) {
        return;
    }
    gy_sm_lines(batch->anchors[0], batch->anchors[1], batch->anchor_count, times->before, times->lines);
    for (uint32_t sm = 0; sm < batch->anchor_count; sm++) {
        if (times->lines[sm].ns_per_clock != 0) {
            times->error_ns[sm] = (times->known[sm] ? times->error_ns[sm] : 0) + times->lines[sm].error_ns;
            times->known[sm] = true;
        }
    }
    for (uint32_t i = 0; i < batch->used; i++) {
        convert(times->lines, batch->anchor_count, &batch->records[i]);
    }
}

uint64_t gy_sm_times_error(const struct gy_sm_times *times)
{
    uint64_t most = 0;
    for (uint32_t sm = 0; sm < GY_SMS; sm++) {
        most = times->known[sm] && times->error_ns[sm] > most ? times->error_ns[sm] : most;
    }
    return most;
}

uint64_t gy_sm_times_p99(const struct gy_sm_times *times)
{
    uint64_t errors[GY_SMS];
    uint32_t known = 0;
    for (uint32_t sm = 0; sm < GY_SMS; sm++) {
        if (times->known[sm]) {
            errors[known++] = times->error_ns[sm];
        }
    }
    return gy_sm_p99(errors, known);
}

void gy_sm_times_state(struct gy_sm_times *times, struct gy_pftrace *trace, gy_pftrace_track gpu,
                       uint64_t time_ns)
{
    for (uint32_t sm = 0; sm < GY_SMS; sm++, time_ns++) { /* marks of the same time would nest */
        if (!times->known[sm] || (times->stated[sm] && times->error_ns[sm] <= times->stated_ns[sm])) {
            continue;
        }
        if (times->track == 0) {
            times->track = gy_pftrace_add_track(trace, gpu, "SM clocks", RANK_CLOCKS);
        }
        char name[16];
        snprintf(name, sizeof(name), "SM %03u", sm);
        struct gy_pftrace_slice mark = {.track = times->track,
                                        .category = GY_PFTRACE_CTAS,
                                        .instant = true,
                                        .name = name,
                                        .begin_ns = time_ns,
                                        .end_ns = time_ns,
                                        .argument_count = 1,
                                        .arguments = {{GY_ARGUMENT_SM_ALIGNMENT_NS, times->error_ns[sm]}}};
        gy_pftrace_add_slice(trace, &mark);
        times->stated[sm] = true;
        times->stated_ns[sm] = times->error_ns[sm];
    }
}
