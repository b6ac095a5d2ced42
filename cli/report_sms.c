/* SPDX-License-Identifier: MIT */
/* What a recording says about blocks and their SMs.  Blocks come in their millions, so none is kept: each SM
 * has the union of its blocks' times so far. */
#include "cli/report_stats.h"

#include <stdlib.h>

struct sm {
    uint32_t parent; /* track */
    int32_t rank;
    struct growing_union busy;
};

struct report_sms {
    struct sm **all;
    size_t count, room;
    struct sm **of_track; /* by track */
    size_t track_room;
    bool failed; /* out of memory: nothing is counted any more */
};

struct report_sms *cli_report_sms_create(void)
{
    return calloc(1, sizeof(struct report_sms));
}

void cli_report_sms_free(struct report_sms *sms)
{
    if (sms == NULL) {
        return;
    }
    for (size_t i = 0; i < sms->count; i++) {
        free(sms->all[i]);
    }
    free(sms->all);
    free(sms->of_track);
    free(sms);
}

/* Room for index `count`, new places NULL. */
static struct sm **more_places(struct sm **places, size_t count, size_t *room)
{
    size_t more = *room == 0 ? 256 : *room;
    while (more <= count) {
        more *= 2;
    }
    struct sm **bigger = realloc(places, more * sizeof(struct sm *));
    for (size_t i = *room; bigger != NULL && i < more; i++) {
        bigger[i] = NULL;
    }
    *room = bigger != NULL ? more : *room;
    return bigger;
}

/* Several tracks (lanes) may show one SM; they have the same place under the same parent. */
static struct sm *sm_of(struct report_sms *sms, const struct trace_track *track)
{
    for (size_t i = 0; i < sms->count; i++) {
        if (sms->all[i]->parent == track->parent && sms->all[i]->rank == track->rank) {
            return sms->all[i];
        }
    }
    struct sm **all = sms->count == sms->room ? more_places(sms->all, sms->count, &sms->room) : sms->all;
    if (all == NULL) {
        return NULL;
    }
    sms->all = all;
    struct sm *sm = calloc(1, sizeof(*sm));
    if (sm != NULL) {
        sm->parent = track->parent;
        sm->rank = track->rank;
        sms->all[sms->count++] = sm;
    }
    return sm;
}

void cli_report_sms_add(void *user, const struct trace *trace, const struct trace_slice *block,
                        uint64_t number)
{
    (void)number;
    struct report_sms *sms = user;
    if (block->track >= sms->track_room) {
        struct sm **more = more_places(sms->of_track, block->track, &sms->track_room);
        sms->failed = more == NULL;
        sms->of_track = more != NULL ? more : sms->of_track;
    }
    if (!sms->failed && sms->of_track[block->track] == NULL) {
        sms->of_track[block->track] = sm_of(sms, &trace->tracks[block->track]);
        sms->failed = sms->of_track[block->track] == NULL;
    }
    if (!sms->failed) {
        cli_growing_add(&sms->of_track[block->track]->busy, block->begin_ns, block->end_ns);
    }
}

static int by_place(const void *a, const void *b)
{
    const struct report_sm *x = a, *y = b;
    return x->ordinal != y->ordinal ? (x->ordinal < y->ordinal ? -1 : 1)
           : x->gpu != y->gpu       ? (x->gpu < y->gpu ? -1 : 1)
           : x->number < y->number  ? -1
                                    : x->number > y->number;
}

bool cli_report_sms_take(const struct report_sms *sms, const struct trace *trace, struct report *report)
{
    report->sms.list = calloc(sms->count + 1, sizeof(*report->sms.list));
    if (sms->failed || report->sms.list == NULL) {
        return false;
    }
    report->sms.count = sms->count;
    for (size_t i = 0; i < sms->count; i++) {
        uint64_t ns = cli_growing_ns(&sms->all[i]->busy);
        const uint32_t above = sms->all[i]->parent;
        report->sms.list[i] = (struct report_sm){above, sms->all[i]->rank, ns, UINT64_MAX,
                                                 cli_report_ordinal(trace, trace->tracks[above].parent)};
        report->sms.least_ns = i == 0 || ns < report->sms.least_ns ? ns : report->sms.least_ns;
        report->sms.most_ns = ns > report->sms.most_ns ? ns : report->sms.most_ns;
        report->sms.sum_ns += ns;
    }
    qsort(report->sms.list, report->sms.count, sizeof(*report->sms.list), by_place);
    return true;
}
