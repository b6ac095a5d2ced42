/* SPDX-License-Identifier: MIT */
#include "profile/sm_times.h"

#include "base/alloc.h"
#include "profile/ranges.h"

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

/* Convert a time on SM `sm` and the duration behind it; the time becomes 0 where this is impossible. */
static void convert(const struct gy_sm_line *lines, uint32_t count, uint32_t sm, uint64_t *start_ns,
                    uint32_t *duration_ns)
{
    if ((*start_ns & GANTRY_CTA_OWN_CLOCK) == 0) { /* no record, or of the common clock */
        return;
    }
    *start_ns &= ~GANTRY_CTA_OWN_CLOCK;
    if (sm >= count || lines[sm].ns_per_clock == 0) {
        *start_ns = 0;
        return;
    }
    uint64_t start = gy_sm_line_at(&lines[sm], *start_ns);
    uint64_t stop = gy_sm_line_at(&lines[sm], *start_ns + *duration_ns);
    *duration_ns = stop - start < UINT32_MAX ? (uint32_t)(stop - start) : UINT32_MAX;
    *start_ns = start;
}

static void convert_launch(const struct gy_sm_times *times, const struct gy_cta_batch *batch,
                           const struct gy_cta_launch *launch)
{
    for (uint32_t b = 0; b < launch->count; b++) {
        gantry_cta_record *record = &batch->records[launch->first + b];
        gantry_range_record *ranges = gy_ranges_of_block(batch, launch, b);
        uint32_t sm = record->origin & (GY_SMS - 1);
        convert(times->lines, batch->anchor_count, sm, &record->start_ns, &record->duration_ns);
        for (uint32_t r = 0; r < launch->ranges; r++) {
            if ((ranges[r].what & GANTRY_RANGE_IS_ONE) != 0) {
                convert(times->lines, batch->anchor_count, sm, &ranges[r].start_ns, &ranges[r].duration_ns);
            }
        }
    }
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
    for (uint32_t l = 0; l < batch->launch_count; l++) {
        convert_launch(times, batch, &batch->launches[l]);
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
