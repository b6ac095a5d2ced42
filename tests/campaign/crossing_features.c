/* SPDX-License-Identifier: MIT */
/* The table of features, and the pairs of their values that cannot be together. */
#include "tests/campaign/crossing.h"

#include <string.h>

struct cross_feature cross_features[FEATURES];
struct cross_value cross_values[VALUES];
static bool may_meet[VALUES][VALUES];

struct entry {
    const char *name;
    int value; /* -1: a feature begins here */
    uint32_t weight;
};

static const struct entry entries[] = {
#define CROSS_F(name, text) {text, -1, 0},
#define CROSS_V(name, text, weight) {text, VALUE_##name, weight},
    CROSS_FEATURES(CROSS_F, CROSS_V)
#undef CROSS_F
#undef CROSS_V
};

void cross_features_open(void)
{
    int feature = -1;
    memset(cross_features, 0, sizeof(cross_features));
    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
        const struct entry *e = &entries[i];
        if (e->value < 0) {
            cross_features[++feature] = (struct cross_feature){e->name, -1, 0};
            continue;
        }
        struct cross_feature *f = &cross_features[feature];
        f->first = f->count == 0 ? e->value : f->first;
        f->count++;
        cross_values[e->value] = (struct cross_value){e->name, feature, e->weight};
    }
    for (int a = 0; a < VALUES; a++) {
        for (int b = 0; b < VALUES; b++) {
            may_meet[a][b] = cross_values[a].feature != cross_values[b].feature &&
                             cross_impossible(a, b) == NULL && cross_not_yet(a, b) == NULL &&
                             cross_not_yet(a, a) == NULL && cross_not_yet(b, b) == NULL;
        }
    }
}

bool cross_spins(int value)
{
    return value == VALUE_GPU_SPIN || value == VALUE_CPU_SPIN;
}

bool cross_is_slow(int value)
{
    return cross_spins(value) || value == VALUE_CANCEL_DEBT;
}

bool cross_are_dear(int a, int b)
{
    int other = a == VALUE_CANCEL_DEBT ? b : b == VALUE_CANCEL_DEBT ? a : VALUES;
    return other != VALUES && (cross_spins(other) || other == VALUE_FAULT || other == VALUE_FORCED);
}

int cross_most(int feature)
{
    switch (feature) {
    case FEATURE_FAILURE:
    case FEATURE_CANCEL:
        return TROUBLES_MOST;
    case FEATURE_FOREIGN:
        return 1 + MORE;
    case FEATURE_COMPLETION:
        return 3;
    case FEATURE_COPY:
    case FEATURE_LIGHT:
    case FEATURE_CALLS:
    case FEATURE_HEAP:
    case FEATURE_CONDITION: /* of different managers */
    case FEATURE_BESIDE:
        return 2;
    default:
        return 1;
    }
}

void cross_choice_init(struct cross_choice *choice)
{
    choice->dropped = 0;
    choice->never_spins = false;
    choice->has_stamps = false;
    choice->stamp_off = NOBODY;
    for (int f = 0; f < FEATURES; f++) {
        choice->forced[f] = -1;
        for (int k = 0; k < MORE; k++) {
            choice->more[f][k] = -1;
        }
    }
}

static bool goes(const struct cross_choice *choice, int value)
{
    bool goes = cross_values[value].weight != 0 && !(choice->never_spins && cross_spins(value));
    for (int f = 0; f < FEATURES && goes; f++) {
        int first = choice->forced[f];
        if (f == cross_values[value].feature) {
            continue;
        }
        goes = first < 0 || may_meet[value][first];
        for (int k = 0; k < MORE && choice->more[f][k] >= 0; k++) {
            goes = goes && may_meet[value][choice->more[f][k]];
        }
    }
    return goes;
}

bool cross_goes_with(const struct cross_choice *choice, int value)
{
    return choice->forced[cross_values[value].feature] < 0 && goes(choice, value);
}

/* If several of these end everything, only one takes effect; and if a lack of memory aborts, each does. */
static bool are_alike(int a, int b)
{
    bool ends = (a == VALUE_FORCED || a == VALUE_FAULT || a == VALUE_REFUSED) &&
                (b == VALUE_FORCED || b == VALUE_FAULT || b == VALUE_REFUSED);
    bool lacks = (a == VALUE_ABORT || a == VALUE_MEMORY_OUT) && (b == VALUE_ABORT || b == VALUE_MEMORY_OUT);
    return ends || lacks;
}

static bool is_slow(const struct cross_choice *choice)
{
    bool slow = cross_is_slow(choice->forced[FEATURE_GPU_WAIT]) ||
                cross_is_slow(choice->forced[FEATURE_CPU_WAIT]) ||
                cross_is_slow(choice->forced[FEATURE_CANCEL]);
    for (int k = 0; k < MORE; k++) {
        slow = slow || cross_is_slow(choice->more[FEATURE_CANCEL][k]);
    }
    return slow;
}

static bool has_room(const struct cross_choice *choice, int value)
{
    int feature = cross_values[value].feature, count = 1, first = choice->forced[feature];
    bool room = first > cross_features[feature].first && value != first && !are_alike(first, value);
    for (int k = 0; k < MORE && choice->more[feature][k] >= 0; k++) {
        int other = choice->more[feature][k];
        room = room && value != other && !are_alike(other, value);
        count++;
    }
    bool trouble = feature == FEATURE_FAILURE || feature == FEATURE_CANCEL;
    int managers = choice->forced[FEATURE_MANAGERS];
    room = room && (feature != FEATURE_CONDITION || managers == VALUE_TWO_MANAGERS ||
                    managers == VALUE_THREE_MANAGERS);
    bool slow = trouble && (is_slow(choice) || cross_is_slow(value));
    return room && count < (slow ? 2 : cross_most(feature));
}

/* Two failures, or two cancels, need steps of their own. */
bool cross_goes_beside(const struct cross_choice *choice, int value)
{
    int feature = cross_values[value].feature;
    int graph = choice->forced[FEATURE_GRAPH], steps = choice->forced[FEATURE_STEPS];
    bool trouble = feature == FEATURE_FAILURE || feature == FEATURE_CANCEL;
    return value != cross_features[feature].first && has_room(choice, value) && goes(choice, value) &&
           (!trouble || (graph >= 0 && graph != VALUE_RUNS && steps == VALUE_STEPS));
}

bool cross_may_meet(int a, int b)
{
    return may_meet[a][b];
}

int cross_value_find(const char *text, size_t length)
{
    for (int v = 0; v < VALUES; v++) {
        const char *feature = cross_features[cross_values[v].feature].name, *value = cross_values[v].name;
        size_t head = strlen(feature), tail = strlen(value);
        if (length == head + 1 + tail && memcmp(text, feature, head) == 0 && text[head] == '=' &&
            memcmp(text + head + 1, value, tail) == 0) {
            return v;
        }
    }
    return -1;
}

/* ---- what cannot be together ----------------------------------------------------------------- */

struct rule {
    int a, b; /* values; b -1: a with any value */
    const char *reason;
};

static const char *look_up(const struct rule *rules, size_t count, int a, int b)
{
    for (size_t i = 0; i < count; i++) {
        if ((rules[i].a == a && (rules[i].b == b || rules[i].b == -1)) ||
            (rules[i].a == b && (rules[i].b == a || rules[i].b == -1))) {
            return rules[i].reason;
        }
    }
    return NULL;
}

static const char frozen_only[] = "stable tasks mean something in frozen graphs alone";
static const char frozen_change[] = "a frozen graph is changed, and this takes one that is not frozen";
static const char graphs_only[] = "only captured work is replayed";
static const char own_thread[] =
    "a graph that run() starts may not be running when another manager's task ends";
static const char second_run[] = "it takes a second run";
static const char frozen_conditions[] = "only frozen graphs run conditions";
static const char no_memory[] = "a graph with conditions declares no memory";
static const char no_references[] = "a graph with conditions is frozen without references";
static const char running_only[] = "it is declared while a graph that is not frozen runs";
static const char not_again[] =
    "what a graph with conditions runs is not the same each time, so it is not launched again";
static const char done_together[] = "what is in one graph, or waits for all of the GPU, is done together";
static const char whose_turn[] = "nobody knows which of three contexts a fault of the driver meets";
static const char few_streams[] = "on one stream it comes after older work";
static const char held_by_share[] = "older work is charged to its share, which holds back what is newer";
static const char primary_only[] = "only a primary context has partitions";

static const char of_all_devices[] = "a thread that waits does not do the work of several dispatchers";

static const struct rule impossible[] = {
    {VALUE_TWO_DEVICES, VALUE_ADOPTED, "a fleet makes its contexts itself"},
    {VALUE_TWO_DEVICES, VALUE_GUESTS, of_all_devices},
    {VALUE_REPLAYED, VALUE_STREAMS, graphs_only},
    {VALUE_REPLAYED, VALUE_SYNCHRONOUS, graphs_only},
    {VALUE_REPLAYED, VALUE_RECORDED, graphs_only},
    {VALUE_REPLAYED, VALUE_SINGLE_STREAM, graphs_only},
    {VALUE_REPLAYED, VALUE_ONE_STEP, second_run},
    {VALUE_REPLAYED, VALUE_REBUILT, frozen_only},
    {VALUE_REPLAYED, VALUE_LATE, frozen_only},
    {VALUE_REPLAYED, VALUE_BRANCH, not_again},
    {VALUE_REPLAYED, VALUE_LOOP, not_again},
    {VALUE_REPLAYED, VALUE_CYCLE, frozen_only},
    {VALUE_REPLAYED, VALUE_LATE_NAME, frozen_only},
    {VALUE_STABLE, VALUE_REBUILT, frozen_only},
    {VALUE_STABLE, VALUE_CYCLE, frozen_only},
    {VALUE_STABLE, VALUE_LATE_NAME, frozen_only},
    {VALUE_STABLE, VALUE_ONE_STEP, "it is called though it might have been launched again in a second run"},
    {VALUE_SET_ARG, VALUE_CYCLE, frozen_change},
    {VALUE_SET_ARG, VALUE_LATE_NAME, frozen_change},
    {VALUE_INVALIDATE, VALUE_CYCLE, frozen_change},
    {VALUE_INVALIDATE, VALUE_LATE_NAME, frozen_change},
    {VALUE_STABLE, VALUE_LATE, frozen_only},
    {VALUE_GRAPHS, VALUE_SYNCHRONOUS, "synchronous mode uses streams"},
    {VALUE_INVALIDATE, VALUE_UNSTABLE, "only what is stable is launched again"},
    {VALUE_SET_ARG, VALUE_ONE_STEP, second_run},
    {VALUE_INVALIDATE, VALUE_ONE_STEP, second_run},
    {VALUE_SET_ARG, VALUE_REBUILT, "tasks that are submitted anew have their argument anew"},
    {VALUE_SET_ARG, VALUE_LATE, "tasks that are submitted anew have their argument anew"},
    {VALUE_INVALIDATE, VALUE_REBUILT, frozen_only},
    {VALUE_INVALIDATE, VALUE_LATE, frozen_only},
    {VALUE_PARTS, VALUE_ONE_STEP, "a part is run after or before the whole"},
    {VALUE_CYCLE, VALUE_FROZEN, running_only},
    {VALUE_CYCLE, VALUE_PARTS, running_only},
    {VALUE_CYCLE, VALUE_RUNS, running_only},
    {VALUE_LATE_NAME, VALUE_FROZEN, "a frozen graph takes no names while it runs"},
    {VALUE_LATE_NAME, VALUE_PARTS, "a frozen graph takes no names while it runs"},
    {VALUE_LATE_NAME, VALUE_RUNS, "a frozen graph takes no names while it runs"},
    {VALUE_BRANCH, VALUE_REBUILT, frozen_conditions},
    {VALUE_BRANCH, VALUE_LATE, frozen_conditions},
    {VALUE_LOOP, VALUE_REBUILT, frozen_conditions},
    {VALUE_LOOP, VALUE_LATE, frozen_conditions},
    {VALUE_BRANCH, VALUE_MEMORY_FITS, no_memory},
    {VALUE_BRANCH, VALUE_MEMORY_WAITS, no_memory},
    {VALUE_LOOP, VALUE_MEMORY_FITS, no_memory},
    {VALUE_LOOP, VALUE_MEMORY_WAITS, no_memory},
    {VALUE_BRANCH, VALUE_REFERENCE_RELEASE, no_references},
    {VALUE_BRANCH, VALUE_REFERENCE_THREAD, no_references},
    {VALUE_LOOP, VALUE_REFERENCE_RELEASE, no_references},
    {VALUE_LOOP, VALUE_REFERENCE_THREAD, no_references},
    {VALUE_BRANCH, VALUE_WITNESS, no_references},
    {VALUE_BRANCH, VALUE_ACROSS, no_references},
    {VALUE_LOOP, VALUE_WITNESS, no_references},
    {VALUE_LOOP, VALUE_ACROSS, no_references},
    {VALUE_BRANCH, VALUE_CYCLE, running_only},
    {VALUE_LOOP, VALUE_CYCLE, running_only},
    {VALUE_BRANCH, VALUE_LATE_NAME, "a frozen graph takes no names while it runs"},
    {VALUE_LOOP, VALUE_LATE_NAME, "a frozen graph takes no names while it runs"},
    {VALUE_FREE_TASKS, VALUE_ONE_STEP, second_run},
    {VALUE_FREE_STEPS, VALUE_ONE_STEP, second_run},
    {VALUE_RUNS, VALUE_TOGETHER, "run() starts by itself"},
    {VALUE_RUNS, VALUE_REFERENCE_FAILED, "run() starts by itself, so nobody knows when to give it back"},
    {VALUE_BRANCH, VALUE_REFERENCE_FAILED, no_references},
    {VALUE_LOOP, VALUE_REFERENCE_FAILED, no_references},
    {VALUE_RUNS, VALUE_WAIT, "run() waits by itself"},
    {VALUE_RUNS, VALUE_WAITERS, "run() starts by itself, so nobody knows when to wait"},
    {VALUE_RUNS, VALUE_CANCEL_START, "run() does not return before the end"},
    {VALUE_RUNS, VALUE_ACROSS, own_thread},
    {VALUE_RUNS, VALUE_GROUP, "run() does not return before the end"},
    {VALUE_RUNS, VALUE_REFERENCE_THREAD, "run() starts by itself, so nobody knows when to give it back"},
    {VALUE_ACROSS, VALUE_ALONE, "it takes two managers"},
    {VALUE_TWO_PARTITIONS, VALUE_OWN, primary_only},
    {VALUE_BORROWING, VALUE_OWN, primary_only},
    {VALUE_TWO_PARTITIONS, VALUE_ADOPTED, primary_only},
    {VALUE_BORROWING, VALUE_ADOPTED, primary_only},
    {VALUE_PARTITION_SHARE, VALUE_WHOLE, "a partition's share needs a partition"},
    {VALUE_PARTITION_SHARE, VALUE_OWN, primary_only},
    {VALUE_PARTITION_SHARE, VALUE_ADOPTED, primary_only},
    {VALUE_LIMIT, VALUE_FAULT, whose_turn},
    {VALUE_LIMIT, VALUE_REFUSED, whose_turn},
    {VALUE_OLDER, VALUE_GRAPHS, done_together},
    {VALUE_OLDER, VALUE_AUTO, done_together},
    {VALUE_OLDER, VALUE_REPLAYED, done_together},
    {VALUE_OLDER, VALUE_SYNCHRONOUS, done_together},
    {VALUE_OLDER, VALUE_WIDE, done_together},
    {VALUE_OLDER, VALUE_SYNC_POINT, done_together},
    {VALUE_OLDER, VALUE_RAW_ALLOC, done_together},
    {VALUE_OLDER, VALUE_LEAVE, done_together},
    {VALUE_OLDER, VALUE_TWO_STREAMS, few_streams},
    {VALUE_OLDER, VALUE_ONE_STREAM, few_streams},
    {VALUE_OLDER, VALUE_SINGLE_STREAM, few_streams},
    {VALUE_OLDER, VALUE_PARTITION_SHARE, held_by_share},
    {VALUE_OLDER, VALUE_MANAGER_SHARE, held_by_share},
    {VALUE_OLDER, VALUE_CANCEL_DEBT, held_by_share},
    {VALUE_OLDER, VALUE_BRANCH, no_references},
    {VALUE_OLDER, VALUE_LOOP, no_references},
    {VALUE_CANCEL_DEBT, VALUE_RUNS, "run() does not say which step it is in"},
    {VALUE_CANCEL_DEBT, VALUE_MANAGER_SHARE, "the manager that is cancelled has a smaller share"},
    {VALUE_CLASSES, VALUE_NO_POOL, "classes belong to a pool"},
};

const char *cross_impossible(int a, int b)
{
    return look_up(impossible, sizeof(impossible) / sizeof(impossible[0]), a, b);
}

bool cross_three_may_meet(int a, int b, int c)
{
    return may_meet[a][b] && may_meet[a][c] && may_meet[b][c];
}

/* ---- what the library is known to do wrong --------------------------------------------------- */

static const struct rule not_yet[] = {
    {VALUES, VALUES, NULL}, /* there is nothing at present */
};

bool cross_everything;

const char *cross_not_yet(int a, int b)
{
    if ((a == VALUE_TWO_DEVICES || b == VALUE_TWO_DEVICES) && !cross_two_devices()) {
        return "this machine has one device";
    }
    return cross_everything ? NULL : look_up(not_yet, sizeof(not_yet) / sizeof(not_yet[0]), a, b);
}

bool cross_expects(enum cross_promise promise)
{
    static const bool expected[] = {[PROMISE_ORDER] = true, [PROMISE_NEVER_STARTED] = true};
    return cross_everything || expected[promise];
}
