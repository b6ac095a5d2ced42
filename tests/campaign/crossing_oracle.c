/* SPDX-License-Identifier: MIT */
/* The rules.  What was noted is compared with what may be: a cancelled run, an aborted or a lost one has
 * several outcomes, so a rule gives sets of statuses and ranges of counts, and the order is a partial one.
 *
 *   once       every task of a step is released once; its body is called once, its callback with 0, 1, 2 ...
 *   fates      a result has a reason, and a failure reaches everything that depends on it
 *   order      a body begins after the bodies before it have ended
 *   words      what kernels saw of each other's counts: those before had ended, those behind had not begun
 * again never      what was not called has left nothing, now that the GPU has ended everything told       who
 * was told by a completion found the work done accounts   statistics, declared memory, tasks that were never
 * started */
#include "tests/campaign/crossing.h"

enum {
    CANCELLED = -GANTRY_ERR_CANCELLED,
    LOST = -GANTRY_ERR_DEVICE_LOST,
    FAILED = -GANTRY_ERR_TASK_FAILED,
    NO_MEMORY = -GANTRY_ERR_OUT_OF_DEVICE_MEMORY,
    DRIVER = -GANTRY_ERR_DRIVER
};

/* How often a node's kernel has run: before each step, and in it. */
struct counts {
    uint32_t low, high;
};

struct oracle {
    struct cross_run *run;
    const struct cross_program *p;
    struct counts before[STEPS_MOST + 1][NODES_MOST]; /* the last entry: in all steps */
    uint32_t bodies[STEPS_MOST + 1][NODES_MOST];      /* CPU nodes: before each step */
};

/* Are there tasks beside the nodes? */
static bool has_others(const struct cross_program *p)
{
    return !cross_has(p, VALUE_NO_CONDITION) || !cross_has(p, VALUE_NO_BRACKET) ||
           cross_has(p, VALUE_OLDER) || cross_has(p, VALUE_STEAL) || cross_has(p, VALUE_CANCEL_DEBT);
}

static bool runs(const struct oracle *o, uint32_t s, uint32_t i)
{
    return (o->p->part[s] >> i & 1) != 0 && o->run->start[s][o->p->nodes[i].manager] == GANTRY_OK;
}

static uint32_t get(atomic_uint *word)
{
    return atomic_load(word);
}

/* ---- what was made to happen ----------------------------------------------------------------- */

bool cross_may_be_lost(const struct cross_run *run)
{
    const struct cross_program *p = run->program;
    return atomic_load(&run->lost) != 0 || cross_has(p, VALUE_FAULT) || cross_has(p, VALUE_REFUSED);
}

static bool may_be_lost(const struct oracle *o, uint32_t s)
{
    const struct cross_trouble *t = cross_loses(o->p);
    return cross_may_be_lost(o->run) && (t == NULL || s >= t->step || cross_has(o->p, VALUE_RUNS));
}

static bool may_be_refused(const struct oracle *o, uint32_t s)
{
    const struct cross_trouble *t = cross_fails(o->p, VALUE_REFUSED);
    return t != NULL && (s >= t->step || cross_has(o->p, VALUE_RUNS));
}

static bool may_be_aborted(const struct oracle *o, uint32_t s)
{
    const struct cross_trouble *t = cross_fails(o->p, VALUE_ABORT);
    return t != NULL && get(&o->run->aborted) != 0 && (s == t->step || cross_has(o->p, VALUE_RUNS));
}

/* ---- fates ----------------------------------------------------------------------------------- */

static bool pred_failed(const struct oracle *o, uint32_t s, uint32_t i)
{
    const struct cross_node *n = &o->p->nodes[i];
    bool failed = get(&o->run->seen[s][i].doomed) != 0;
    for (uint32_t k = 0; k < n->pred_count; k++) {
        failed = failed || (runs(o, s, n->preds[k]) && get(&o->run->seen[s][n->preds[k]].result) != 0);
    }
    return failed;
}

static void check_calls(const struct oracle *o, uint32_t s, uint32_t i)
{
    const struct cross_node *n = &o->p->nodes[i];
    struct cross_seen *seen = &o->run->seen[s][i];
    uint32_t begins = get(&seen->begins), again = get(&seen->called_again),
             calls = n->idle + (uint32_t)n->calls;
    if (n->kind == KIND_CPU && begins != 1) {
        cross_break(o->run, "step %u, node %u is done, but its body was called %u times", s, i, begins);
    }
    if (!cross_is_gpu(n)) {
        return;
    }
    if (begins == 0) {
        if (!n->stable || cross_has(o->p, VALUE_STREAMS) || cross_has(o->p, VALUE_REBUILT) ||
            cross_has(o->p, VALUE_LATE)) {
            cross_break(o->run, "step %u, node %u is done, but its callback was not called", s, i);
        }
        return;
    }
    if (get(&seen->finished) == 0 || get(&seen->wrong_index) != 0 ||
        (n->poll == NOBODY && begins - again != calls)) {
        cross_break(
            o->run,
            "step %u, node %u is done after %u calls (%u of them repeated) of %u, the last with index %u%s",
            s, i, begins, again, calls, get(&seen->last_index),
            get(&seen->wrong_index) != 0 ? ", out of order" : "");
    }
    if (again != 0 && cross_has(o->p, VALUE_STREAMS)) {
        cross_break(o->run, "step %u, node %u: call %u was repeated though nothing is captured", s, i,
                    get(&seen->last_index));
    }
}

/* A callback gave up by itself, or because the library refused something. */
static bool called_may_fail(const struct oracle *o, uint32_t s, uint32_t i)
{
    struct cross_seen *seen = &o->run->seen[s][i];
    uint32_t result = get(&seen->result), returned = get(&seen->returned), refusal = get(&seen->refusal),
             declined = get(&seen->declined);
    bool lost = may_be_lost(o, s) && result == LOST, aborted = may_be_aborted(o, s) && result == NO_MEMORY;
    if (o->p->nodes[i].kind == KIND_CPU) {
        return returned != 0 && result == returned;
    }
    const struct cross_trouble *t = cross_fails_at(o->p, i, s);
    bool exhausts = get(&o->run->exhausted) != 0 && t != NULL && t->value == VALUE_MEMORY_OUT;
    bool exhausted = exhausts && result == NO_MEMORY;
    bool refused = may_be_refused(o, s) && (result == FAILED || result == DRIVER || result == NO_MEMORY);
    bool alone =
        refusal == 0 && declined == 0 && get(&seen->foreign_code) == 0 && !cross_has(o->p, VALUE_BEYOND);
    if (exhausts && alone && !may_be_lost(o, s) && returned != 0 &&
        result == FAILED) { /* the allocation that failed is the reason */
        return false;
    }
    if (returned != 0) { /* a call that has failed before counts as the cause */
        bool beyond = cross_has(o->p, VALUE_BEYOND) && result == -GANTRY_ERR_INVALID_ARGUMENT;
        bool dropped =
            get(&seen->foreign_code) != 0 && get(&o->run->cancelled[s][o->p->nodes[i].manager]) != 0;
        return result == FAILED || (dropped && result == CANCELLED) || lost || aborted || exhausted ||
               (refusal != 0 && result == refusal) || (declined != 0 && result == declined) || beyond ||
               refused;
    }
    return lost || aborted || refused || ((may_be_lost(o, s) || may_be_aborted(o, s)) && result == FAILED);
}

static bool uncalled_may_fail(const struct oracle *o, uint32_t s, uint32_t i)
{
    uint32_t result = get(&o->run->seen[s][i].result), m = o->p->nodes[i].manager;
    bool trouble = may_be_lost(o, s) || may_be_aborted(o, s) || may_be_refused(o, s);
    switch ((int)result) {
    case CANCELLED:
        return get(&o->run->cancelled[s][m]) != 0;
    case LOST:
        return may_be_lost(o, s);
    case NO_MEMORY:
        return may_be_aborted(o, s) || may_be_refused(o, s);
    case FAILED:
        return pred_failed(o, s, i) || trouble;
    case DRIVER:
        return may_be_refused(o, s);
    case -GANTRY_ERR_IO: /* the cause that was given with a reference */
        return get(&o->run->seen[s][i].failed_by) != 0;
    default:
        return false;
    }
}

static const char *name_of(uint32_t number)
{
    return gantry_status_name((gantry_status) - (int)number);
}

static void check_fate(const struct oracle *o, uint32_t s, uint32_t i)
{
    struct cross_seen *seen = &o->run->seen[s][i];
    uint32_t releases = get(&seen->releases), result = get(&seen->result), refusal = get(&seen->refusal);
    bool called = get(&seen->begins) != 0;
    if (releases != (runs(o, s, i) ? 1 : 0)) {
        cross_break(o->run, "step %u, node %u was released %u times", s, i, releases);
        return;
    }
    if (releases == 0) {
        if (called) {
            cross_break(o->run, "step %u, node %u was called though it does not run", s, i);
        }
        return;
    }
    if (refusal != 0 && !may_be_lost(o, s) && !may_be_aborted(o, s) && !may_be_refused(o, s)) {
        cross_break(o->run, "step %u, node %u: a call of the library says %s", s, i, name_of(refusal));
    }
    if (result == 0) {
        if (pred_failed(o, s, i) || get(&seen->failed_by) != 0) {
            cross_break(o->run, "step %u, node %u is done though what it depends on has failed", s, i);
        } else if (get(&seen->returned) != 0) {
            cross_break(o->run, "step %u, node %u is done though its body or callback said %s", s, i,
                        name_of(get(&seen->returned)));
        }
        check_calls(o, s, i);
        return;
    }
    /* then it is not called again */
    bool cancelled = get(&o->run->cancelled[s][o->p->nodes[i].manager]) != 0;
    if (called && get(&seen->foreign_code) != 0 && !may_be_lost(o, s) && !may_be_aborted(o, s) &&
        !cancelled) {
        cross_break(o->run, "step %u, node %u failed with %s after CUDA had said %u and no second call came",
                    s, i, name_of(result), get(&seen->foreign_code));
    }
    if (called ? !called_may_fail(o, s, i) : !uncalled_may_fail(o, s, i)) {
        cross_break(o->run, "step %u, node %u (%scalled) was released with %s, for which there is no reason",
                    s, i, called ? "" : "not ", name_of(result));
    }
}

static bool step_failed(const struct oracle *o, uint32_t s, uint32_t m, bool *only_cancelled)
{
    bool failed = false;
    *only_cancelled = true;
    for (uint32_t i = 0; i < o->p->node_count; i++) {
        uint32_t result = o->p->nodes[i].manager == m && runs(o, s, i) ? get(&o->run->seen[s][i].result) : 0;
        bool doomed = o->p->nodes[i].manager == m && get(&o->run->seen[s][i].doomed) != 0;
        failed = failed || result != 0 || doomed;
        *only_cancelled = *only_cancelled && (result == 0 || result == CANCELLED) && !doomed;
    }
    return failed;
}

/* A callback gave up after its completion came too late: then that is the reason. */
static bool has_declined(const struct oracle *o, uint32_t s, uint32_t m, gantry_status status)
{
    bool has = false;
    for (uint32_t i = 0; i < o->p->node_count; i++) {
        struct cross_seen *seen = &o->run->seen[s][i];
        bool fails = o->p->nodes[i].manager == m && runs(o, s, i) && get(&seen->result) != 0;
        has = has || (fails && get(&seen->result) == get(&seen->declined) &&
                      get(&seen->result) == (uint32_t) - (int)status);
    }
    return has;
}

static void check_stop(const struct oracle *o, uint32_t s, uint32_t m)
{
    gantry_status start = o->run->start[s][m], stop = o->run->stop[s][m];
    bool lost = may_be_lost(o, s), aborted = may_be_aborted(o, s),
         cancelled = get(&o->run->cancelled[s][m]) != 0;
    bool only_cancelled, failed = step_failed(o, s, m, &only_cancelled), cycle = cross_has(o->p, VALUE_CYCLE);
    bool others = has_others(o->p);
    if (start != GANTRY_OK) {
        if (!(start == GANTRY_ERR_DEVICE_LOST && lost) &&
            !(start == GANTRY_ERR_OUT_OF_DEVICE_MEMORY && aborted)) {
            cross_break(o->run, "step %u, manager %u: start() says %s", s, m, gantry_status_name(start));
        }
        return;
    }
    bool fine = false;
    switch ((int)stop) {
    case GANTRY_OK:
        fine = !failed && !cycle;
        break;
    case GANTRY_ERR_CANCELLED:
        fine = cancelled && (others || failed || cycle || !cross_has(o->p, VALUE_NO_LIGHT) ||
                             cross_has(o->p, VALUE_LATE_NAME));
        break;
    case GANTRY_ERR_TASK_FAILED:
        fine = (failed && !only_cancelled) || cycle || (others && (lost || aborted || may_be_refused(o, s)));
        break;
    case GANTRY_ERR_DEVICE_LOST:
        fine = lost;
        break;
    case GANTRY_ERR_OUT_OF_DEVICE_MEMORY:
        fine = aborted || may_be_refused(o, s) || (failed && get(&o->run->exhausted) != 0);
        break;
    case GANTRY_ERR_DRIVER:
        fine = may_be_refused(o, s);
        break;
    case GANTRY_ERR_INVALID_ARGUMENT:
        fine = failed && cross_has(o->p, VALUE_BEYOND);
        break;
    case GANTRY_ERR_CYCLE:
        fine = cycle;
        break;
    case GANTRY_ERR_IO:
        fine = failed && (cross_has(o->p, VALUE_BODY) || cross_has(o->p, VALUE_REFERENCE_FAILED));
        break;
    case GANTRY_ERR_LATE_DEPENDENCY:
    case GANTRY_ERR_STATE:
        fine = has_declined(o, s, m, stop);
        break;
    default:
        break;
    }
    if (!fine) {
        cross_break(o->run, "step %u, manager %u: stop() says %s; %s", s, m, gantry_status_name(stop),
                    failed ? only_cancelled ? "tasks were cancelled" : "tasks have failed"
                           : "no task has failed");
    }
}

/* ---- order of bodies and callbacks ----------------------------------------------------------- */

static void check_order(const struct oracle *o, uint32_t s, uint32_t i)
{
    const struct cross_node *n = &o->p->nodes[i];
    struct cross_seen *seen = &o->run->seen[s][i];
    unsigned long long begin = atomic_load(&seen->first_begin);
    for (uint32_t k = 0; k < n->pred_count && begin != 0; k++) {
        struct cross_seen *pred = &o->run->seen[s][n->preds[k]];
        if (runs(o, s, n->preds[k]) && atomic_load(&pred->last_end) > begin) {
            cross_break(o->run, "step %u, node %u was begun before node %u had ended", s, i, n->preds[k]);
        }
    }
    if (n->light != 0) {
        struct cross_seen *next = &o->run->seen[s][n->continuation];
        unsigned long long last = atomic_load(&seen->light_end), continued = atomic_load(&next->first_begin);
        if (continued != 0 && last > continued) {
            cross_break(o->run, "step %u: a task that node %u made ended after node %u had begun", s, i,
                        n->continuation);
        }
        if (get(&seen->light_run) != get(&seen->light_made) && get(&o->run->cancelled[s][n->manager]) == 0) {
            cross_break(o->run, "step %u: of %u tasks that node %u made %u ran", s, get(&seen->light_made), i,
                        get(&seen->light_run));
        }
    }
}

/* ---- counts ---------------------------------------------------------------------------------- */

static struct counts kernels_of(const struct oracle *o, uint32_t s, uint32_t i)
{
    const struct cross_node *n = &o->p->nodes[i];
    struct cross_seen *seen = &o->run->seen[s][i];
    uint32_t accepted = 0;
    if (!runs(o, s, i) || !cross_is_gpu(n)) {
        return (struct counts){0, 0};
    }
    for (uint32_t c = 0; c < CALLS_MOST; c++) {
        accepted += get(&seen->enqueued[c]);
    }
    if (get(&seen->result) == 0) {
        accepted = get(&seen->begins) == 0 ? n->calls : accepted;
        return (struct counts){accepted, accepted};
    }
    bool replayed = n->stable && (may_be_refused(o, s) || may_be_lost(o, s)) &&
                    get(&seen->begins) == 0; /* and refused only after that */
    return (struct counts){0, replayed && get(&seen->result) != CANCELLED ? n->calls : accepted};
}

static void count(struct oracle *o)
{
    for (uint32_t i = 0; i < o->p->node_count; i++) {
        for (uint32_t s = 0; s < o->p->steps; s++) {
            struct counts in = kernels_of(o, s, i), *before = &o->before[s][i];
            o->before[s + 1][i] = (struct counts){before->low + in.low, before->high + in.high};
            o->bodies[s + 1][i] =
                o->bodies[s][i] + (o->p->nodes[i].kind == KIND_CPU ? get(&o->run->seen[s][i].ends) : 0);
        }
    }
}

static void check_totals(const struct oracle *o, uint32_t i)
{
    uint32_t begun = __atomic_load_n(&o->run->cells[i].begun, __ATOMIC_ACQUIRE);
    uint32_t ended = __atomic_load_n(&o->run->cells[i].ended, __ATOMIC_ACQUIRE);
    struct counts all = o->before[o->p->steps][i];
    bool lost = cross_may_be_lost(o->run);
    uint32_t host_low = 0, host_high = 0, hosts = get(&o->run->hosts[i]);
    if (!cross_is_gpu(&o->p->nodes[i])) {
        return;
    }
    if ((begun != ended && !lost) || begun > all.high || (ended < all.low && !lost)) {
        cross_break(o->run,
                    "node %u: its kernel has begun %u times and ended %u times; %u to %u were launched", i,
                    begun, ended, all.low, all.high);
    }
    for (uint32_t s = 0; s < o->p->steps; s++) {
        uint32_t calls = (uint32_t)__builtin_popcount(get(&o->run->hosts_expected[i][s]));
        struct cross_seen *seen = &o->run->seen[s][i];
        int foreign = o->p->nodes[i].foreign;
        bool counts = foreign == VALUE_HOST_FUNCTION || foreign == VALUE_UNJOINED;
        bool launched_again = counts && runs(o, s, i) && get(&seen->begins) == 0;
        if (launched_again && get(&seen->result) == 0) {
            calls = o->p->nodes[i].calls;
        }
        host_high += launched_again && get(&seen->result) != 0 ? kernels_of(o, s, i).high : calls;
        host_low += get(&seen->result) == 0 ? calls : 0;
    }
    if (hosts > host_high || (hosts < host_low && !lost)) {
        cross_break(o->run, "node %u: its host function has run %u times; %u to %u were launched", i, hosts,
                    host_low, host_high);
    }
}

/* ---- words ----------------------------------------------------------------------------------- */

static bool within(uint32_t is, struct counts may)
{
    return is >= may.low && is <= may.high;
}

static bool copies_word(const struct oracle *o, uint32_t i)
{
    const struct cross_node *n = &o->p->nodes[i];
    return n->copies != VALUE_NO_COPY || n->foreign == VALUE_RAW_COPY || n->foreign == VALUE_JOINED ||
           n->foreign == VALUE_RAW_BATCH || n->foreign == VALUE_OWN_GRAPH;
}

static void check_read(const struct oracle *o, uint32_t s, uint32_t i, uint32_t turn, uint32_t k)
{
    const struct cross_node *n = &o->p->nodes[i];
    const struct cross_record *r = &o->run->records[i * (uint32_t)CROSS_RECORDS + turn];
    uint32_t q = n->reads[k];
    bool before = n->relations[k] == READ_BEFORE, took_part = runs(o, s, q);
    if (o->p->nodes[q].kind == KIND_CPU) {
        uint32_t bodies = o->bodies[s + 1][q];
        if (before && took_part && r->first[k].ended < bodies) {
            cross_break(o->run, "step %u: node %u's kernel saw %u bodies of node %u before it, not %u", s, i,
                        r->first[k].ended, q, bodies);
        }
        return;
    }
    if (n->independent || o->p->nodes[q].independent) {
        uint32_t least = before && !n->independent ? o->before[s + 1][q].low : 0;
        if (r->first[k].ended < least) {
            cross_break(o->run,
                        "step %u: when node %u's kernel began, %u of node %u's before it had ended, not %u",
                        s, i, r->first[k].ended, q, least);
        }
        return;
    }
    struct counts may = o->before[before ? s + 1 : s][q];
    if (!within(r->first[k].ended, may) || r->first[k].begun != r->first[k].ended) {
        cross_break(
            o->run,
            "step %u: when node %u's kernel began, %u of node %u's (%s it) had begun and %u ended, not %u", s,
            i, r->first[k].begun, q, before ? "before" : "behind", r->first[k].ended, may.low);
    } else if (r->last[k].begun != r->first[k].begun || r->last[k].ended != r->first[k].ended) {
        cross_break(o->run, "step %u: while node %u's kernel ran, node %u's (%s it) began its turn %u", s, i,
                    q, before ? "before" : "behind", r->last[k].begun);
    } else if (before && took_part && copies_word(o, q) && r->first[k].copied != r->first[k].ended) {
        cross_break(o->run, "step %u: node %u's kernel saw a copy that node %u made: %u, not %u", s, i, q,
                    r->first[k].copied, r->first[k].ended);
    }
}

static void check_words(const struct oracle *o, uint32_t i)
{
    for (uint32_t s = 0; s < o->p->steps && cross_is_gpu(&o->p->nodes[i]) && !o->run->unsettled; s++) {
        struct counts from = o->before[s][i], to = o->before[s + 1][i];
        if (from.low != from.high || to.low != to.high) {
            return; /* from here on it is not known which turn was in which step */
        }
        for (uint32_t turn = from.low + 1; turn <= to.low && turn < CROSS_RECORDS; turn++) {
            uint32_t executions = o->run->records[i * (uint32_t)CROSS_RECORDS + turn].executions;
            if (executions == 0 && cross_may_be_lost(o->run)) {
                return;
            }
            if (executions != 1) {
                cross_break(o->run,
                            "step %u: %u executions of node %u's kernel took themselves for number %u", s,
                            executions, i, turn);
            }
            uint32_t own = o->run->records[i * (uint32_t)CROSS_RECORDS + turn].ended_before;
            if (own != turn - 1 && !o->p->nodes[i].independent) {
                cross_break(o->run, "step %u: node %u's kernel began its turn %u when it had ended %u", s, i,
                            turn, own);
            }
            for (uint32_t k = 0; k < o->p->nodes[i].read_count; k++) {
                check_read(o, s, i, turn, k);
            }
        }
    }
}

/* ---- completions and memory ------------------------------------------------------------------ */

static void check_told(const struct oracle *o, uint32_t s, uint32_t i)
{
    const struct cross_node *n = &o->p->nodes[i];
    struct cross_seen *seen = &o->run->seen[s][i];
    uint32_t least = o->before[s][i].low + get(&seen->told_version);
    bool told = get(&seen->told) != 0;
    if (n->tells != NOBODY &&
        n->tell_value == VALUE_DONE) { /* all of its work, whether it was called or launched again */
        told = runs(o, s, i) && get(&seen->result) == 0;
        least = o->before[s + 1][i].low;
    }
    least = n->independent ? 0 : least; /* the counts of two steps cannot be told apart */
    if (get(&seen->result) != 0 &&
        !cross_has(o->p, VALUE_STREAMS)) { /* captured work may have been dropped */
        uint32_t ended = __atomic_load_n(&o->run->cells[i].ended, __ATOMIC_ACQUIRE);
        bool is_last = o->before[s + 1][i].high == o->before[o->p->steps][i].high;
        least = !is_last ? 0 : least < ended ? least : ended;
    }
    if (n->tells == NOBODY || !told || !runs(o, s, n->tells) || get(&o->run->seen[s][n->tells].begins) == 0) {
        return;
    }
    if (get(&seen->looked) == 0) {
        cross_break(o->run, "step %u: node %u began before node %u, which completes it, was called", s,
                    n->tells, i);
    } else if (get(&seen->looked_version) < least) {
        cross_break(o->run,
                    "step %u: node %u was told that node %u's work was done when %u of %u kernels had ended",
                    s, n->tells, i, get(&seen->looked_version), least);
    }
}

static void check_accounts(const struct oracle *o)
{
    uint64_t released = 0;
    for (uint32_t s = 0; s < o->p->steps; s++) {
        for (uint32_t i = 0; i < o->p->node_count; i++) {
            struct cross_seen *seen = &o->run->seen[s][i];
            released += cross_is_gpu(&o->p->nodes[i]) && get(&seen->releases) != 0 ? 1 : 0;
            if (get(&seen->group_overlap) != 0 && o->run->stats.memory_forced == 0) {
                cross_break(o->run,
                            "step %u: node %u, with memory, was called while that of declaration %u was held",
                            s, i, get(&seen->group_overlap) - 1);
            }
        }
    }
    bool others = has_others(o->p);
    if (others ? o->run->stats.tasks < released : o->run->stats.tasks != released) {
        cross_break(o->run, "the dispatcher counts %llu tasks, but %llu were released",
                    (unsigned long long)o->run->stats.tasks, (unsigned long long)released);
    }
    if (o->run->stats.memory_tasks_waiting != 0) {
        cross_break(o->run, "%llu tasks wait for memory in the end",
                    (unsigned long long)o->run->stats.memory_tasks_waiting);
    }
    if (get(&o->run->cycle_released) != get(&o->run->cycles)) {
        cross_break(o->run, "%u of %u tasks on cycles were released", get(&o->run->cycle_released),
                    get(&o->run->cycles));
    }
    if (!gantry_context_is_valid(o->run->context) && !cross_may_be_lost(o->run)) {
        cross_break(o->run, "the context is lost");
    }
}

void cross_check(struct cross_run *run)
{
    struct oracle o = {.run = run, .p = run->program};
    count(&o);
    for (uint32_t s = 0; s < o.p->steps; s++) {
        for (uint32_t i = 0; i < o.p->node_count; i++) {
            check_fate(&o, s, i);
            check_order(&o, s, i);
            check_told(&o, s, i);
        }
        for (uint32_t m = 0; m < o.p->manager_count; m++) {
            check_stop(&o, s, m);
        }
    }
    for (uint32_t i = 0; i < o.p->node_count; i++) {
        check_totals(&o, i);
        check_words(&o, i);
    }
    check_accounts(&o);
}

/* When everything is gone: a task that was never started was reported as such in the end. */
void cross_check_end(struct cross_run *run)
{
    const struct cross_program *p = run->program;
    bool frozen = cross_has(p, VALUE_FROZEN) || cross_has(p, VALUE_PARTS) || cross_has(p, VALUE_RUNS);
    for (uint32_t i = 0; i < p->node_count; i++) {
        uint32_t ran = 0, refused = 0, told = get(&run->reset_releases[i]);
        for (uint32_t s = 0; s < p->steps; s++) {
            ran += get(&run->seen[s][i].releases);
            refused += run->start[s][p->nodes[i].manager] != GANTRY_OK && cross_has(p, VALUE_REBUILT) ? 1 : 0;
        }
        uint32_t expected = p->nodes[i].dropped ? 0 : frozen ? ran == 0 : refused;
        bool expects = !frozen || cross_expects(PROMISE_NEVER_STARTED);
        if (told != expected && expects) {
            cross_break(run,
                        "node %u, released in %u steps, was released %u times by reset() or the end, not %u",
                        i, ran, told, expected);
        }
    }
}
