/* SPDX-License-Identifier: MIT */
/* Which values of a program took effect: the run's counts decide, not the plan. */
#include "tests/campaign/crossing.h"

struct tally { /* counts of all steps */
    uint32_t called_gpu, called_cpu, failed, cancelled, stable_called, several, idle, polled, named;
    uint32_t of[VALUES]; /* of a feature that may have two values: counts for this one */
    uint32_t steps, parts, independent, failed_by;
    uint32_t refused; /* failed because a call of the driver was refused, and not because of a reference */
    uint32_t partitions, devices; /* sets */
};

/* Each of two failures, or cancels, has a step of its own. */
static void tally_trouble(const struct cross_program *p, uint32_t s, uint32_t i, uint32_t result,
                          uint32_t returned, struct tally *t)
{
    const struct cross_trouble *fails = cross_fails_at(p, i, s);
    bool is_single = cross_value_count(p, FEATURE_CANCEL) == 1;
    for (int k = 0; k < TROUBLES_MOST; k++) {
        const struct cross_trouble *c = &p->cancels[k];
        bool here = is_single || (c->step == s && c->manager == p->nodes[i].manager);
        t->of[c->value] += here && result == (uint32_t)-GANTRY_ERR_CANCELLED;
    }
    if (fails != NULL) {
        t->of[fails->value] += returned != 0 && result != 0;
    }
}

static void tally_node(const struct cross_run *run, uint32_t s, uint32_t i, struct tally *t)
{
    const struct cross_node *n = &run->program->nodes[i];
    const struct cross_seen *seen = &run->seen[s][i];
    uint32_t begins = atomic_load(&seen->begins), result = atomic_load(&seen->result);
    bool done = atomic_load(&seen->finished) != 0;
    t->called_gpu += cross_is_gpu(n) && begins != 0;
    t->called_cpu += n->kind == KIND_CPU && begins != 0;
    t->failed += result != 0 && result != (uint32_t)-GANTRY_ERR_CANCELLED;
    t->cancelled += result == (uint32_t)-GANTRY_ERR_CANCELLED;
    const struct cross_trouble *refused = cross_fails(run->program, VALUE_REFUSED);
    bool since = refused != NULL && (s >= refused->step || cross_has(run->program, VALUE_RUNS));
    t->refused += since && result != 0 && atomic_load(&seen->failed_by) == 0 &&
                  result != (uint32_t)-GANTRY_ERR_CANCELLED;
    tally_trouble(run->program, s, i, result, atomic_load(&seen->returned), t);
    t->stable_called += n->stable && begins != 0 && s != 0;
    t->independent += n->independent && (begins != 0 || (n->stable && result == 0));
    t->several += n->calls > 1 && done;
    t->idle += n->idle != 0 && done;
    t->polled += n->poll != NOBODY && begins > 1;
    t->failed_by += atomic_load(&seen->failed_by);
    t->of[n->tell_value] += n->tells != NOBODY ? atomic_load(&seen->looked) : 0;
    t->of[n->light_value] += n->light != 0 ? atomic_load(&seen->light_run) : 0;
    t->named += n->named && begins != 0;
    t->devices |= cross_is_gpu(n) && begins != 0 ? 1U << n->device : 0;
    t->partitions |= cross_is_gpu(n) && begins != 0 ? 1U << n->partition : 0;
}

static struct tally tally(const struct cross_run *run)
{
    const struct cross_program *p = run->program;
    struct tally t = {0};
    for (uint32_t s = 0; s < p->steps; s++) {
        bool ran = false;
        for (uint32_t i = 0; i < p->node_count; i++) {
            tally_node(run, s, i, &t);
            ran = ran || atomic_load(&run->seen[s][i].begins) != 0;
        }
        t.steps += ran;
        for (uint32_t m = 0; m < p->manager_count; m++) {
            t.parts += p->roots[s][m] != NOBODY && run->start[s][m] == GANTRY_OK;
        }
    }
    return t;
}

enum { ANYTHING = -1 }; /* the value takes effect with any call */

/* Values that the dispatcher's counters show. */
static int64_t by_statistics(const struct cross_run *run, const struct tally *t, int value)
{
    const struct gantry_dispatcher_stats *stats = &run->stats;
    switch (value) {
    case VALUE_STREAMS:
        return t->called_gpu != 0 && stats->graph_launches == 0;
    case VALUE_GRAPHS:
        return (int64_t)(stats->graph_launches + stats->graph_replays);
    case VALUE_REPLAYED:
        return (int64_t)stats->graph_replays;
    case VALUE_MEMORY_FITS:
        return (int64_t)stats->memory_admitted;
    case VALUE_MEMORY_WAITS:
        return (int64_t)stats->memory_waited;
    case VALUE_FAULT:
        return !gantry_context_is_valid(run->context);
    default:
        return ANYTHING;
    }
}

/* Values that the results of tasks show. */
static int64_t by_tasks(const struct tally *t, int value)
{
    switch (value) {
    case VALUE_PARTS:
        return t->parts;
    case VALUE_REFERENCE_FAILED:
        return t->failed_by;
    case VALUE_STABLE:
        return t->stable_called;
    case VALUE_CALLS:
        return t->several;
    case VALUE_AGAIN:
        return t->idle;
    case VALUE_POLL:
        return t->polled;
    case VALUE_NO_FAILURE:
        return t->failed == 0 || t->failed_by != 0;
    case VALUE_CALLBACK:
    case VALUE_BODY:
        return t->of[value];
    case VALUE_REFUSED:
        return t->refused;
    case VALUE_NO_CANCEL:
        return t->cancelled == 0;
    case VALUE_TWO_PARTITIONS:
    case VALUE_BORROWING:
        return t->partitions & 2;
    case VALUE_PARTITION_SHARE:
        return t->partitions & 1;
    case VALUE_TWO_DEVICES:
        return t->devices & 2;
    case VALUE_NAMED:
    case VALUE_FORWARD:
        return t->named;
    case VALUE_STEPS:
        return t->steps > 1;
    case VALUE_FREE_TASKS:
        return t->steps > 1 ? (int64_t)t->independent : 0;
    case VALUE_FREE_STEPS:
        return t->steps > 1;
    default:
        return ANYTHING;
    }
}

/* Values that the program itself has counted. */
static int64_t by_counters(const struct cross_run *run, int value)
{
    switch (value) {
    case VALUE_MEMORY_OUT:
        return atomic_load(&run->exhausted);
    case VALUE_ABORT:
        return atomic_load(&run->aborted);
    case VALUE_FORCED:
        return atomic_load(&run->lost);
    case VALUE_CANCEL_STOPPED:
        return atomic_load(&run->cancel_refused);
    case VALUE_CANCEL_DEBT:
        return atomic_load(&run->beside.owes);
    case VALUE_OLDER:
        return atomic_load(&run->beside.told);
    case VALUE_STEAL:
        return atomic_load(&run->beside.thieves);
    case VALUE_LIMIT:
        return atomic_load(&run->beside.limits);
    case VALUE_GREEN:
        return atomic_load(&run->beside.greens);
    case VALUE_WAIT:
    case VALUE_WAITERS:
        return atomic_load(&run->waits_done);
    case VALUE_LATE_NAME:
        return atomic_load(&run->late_names);
    case VALUE_CYCLE:
        return atomic_load(&run->cycle_released);
    case VALUE_BRANCH:
    case VALUE_LOOP:
        return atomic_load(&run->done[value]);
    case VALUE_BRACKET:
        return atomic_load(&run->finished_checks);
    case VALUE_TOGETHER:
        return atomic_load(&run->together);
    case VALUE_BEYOND:
        return atomic_load(&run->beyond);
    case VALUE_SYNC_POINT:
        return atomic_load(&run->sync_points);
    default:
        return ANYTHING;
    }
}

/* Of a feature that is not left out. */
static int64_t by_feature(const struct cross_run *run, const struct tally *t, int value)
{
    int feature = cross_values[value].feature;
    bool is_plain = value == cross_features[feature].first;
    switch (feature) {
    case FEATURE_CPU_WAIT:
    case FEATURE_WORKERS:
    case FEATURE_PRIORITY:
        return t->called_cpu;
    case FEATURE_CANCEL:
        return is_plain ? ANYTHING : (int64_t)t->of[value];
    case FEATURE_COMPLETION:
        return is_plain ? ANYTHING : (int64_t)t->of[value];
    case FEATURE_LIGHT:
        return is_plain ? ANYTHING : (int64_t)t->of[value];
    case FEATURE_FOREIGN:
        return is_plain ? ANYTHING : (int64_t)atomic_load(&run->done[value]);
    case FEATURE_COPY:
        return is_plain ? ANYTHING : (int64_t)atomic_load(&run->done[value]);
    case FEATURE_HEAP:
        return is_plain ? ANYTHING : (int64_t)atomic_load(&run->done[value]);
    case FEATURE_REFERENCE:
        return is_plain ? ANYTHING : (int64_t)atomic_load(&run->references_given);
    case FEATURE_CHANGE:
        return is_plain ? ANYTHING : (int64_t)atomic_load(&run->changed);
    default:
        return ANYTHING;
    }
}

static bool took_effect(const struct cross_run *run, const struct tally *t, int value)
{
    int64_t count = by_statistics(run, t, value);
    count = count == ANYTHING ? by_tasks(t, value) : count;
    count = count == ANYTHING ? by_counters(run, value) : count;
    count = count == ANYTHING ? by_feature(run, t, value) : count;
    return count == ANYTHING ? t->called_gpu + t->called_cpu != 0 : count != 0;
}

void cross_effects(const struct cross_run *run, struct cross_effects *effects)
{
    struct tally t = tally(run);
    *effects = (struct cross_effects){{0}};
    for (int v = 0; v < VALUES; v++) {
        int f = cross_values[v].feature, value = v;
        if (!cross_has(run->program, v)) {
            continue;
        }
        /* the run decides which of the two took effect */
        if (f == FEATURE_STABLE && value != VALUE_UNSTABLE) {
            value = run->stats.graph_replays != 0 ? VALUE_REPLAYED : VALUE_STABLE;
        }
        if (took_effect(run, &t, value)) {
            effects->words[value / 64] |= UINT64_C(1) << value % 64;
        }
    }
}
