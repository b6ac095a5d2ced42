#include "dispatcher/ways/choice.h"

#include <assert.h>

static struct gy_choice_shape *place_of(struct gy_choice *choice, uint64_t key)
{
    return &choice->shapes[key % GY_CHOICE_SHAPES];
}

static void begin_pause(struct gy_choice_pause *pause)
{
    pause->left = pause->next != 0 ? pause->next : GY_CHOICE_PAUSE;
    pause->next = pause->left < GY_CHOICE_PAUSE_MOST ? 2 * pause->left : pause->left;
}

/* One more batch goes to streams, unless it is the one behind the pause, which is tried. */
static bool is_try(struct gy_choice_pause *pause)
{
    pause->left -= pause->left != 0;
    return pause->left == 0;
}

/* The only writer of the state, but that it begins with FIRST. */
static void enter(struct gy_choice_shape *s, enum gy_choice_state state)
{
    assert(state != GY_CHOICE_FIRST);
    s->state = state;
    s->vains = 0;
    s->is_lone = s->is_lone && state == GY_CHOICE_STREAMS;
    if (state == GY_CHOICE_STREAMS) {
        begin_pause(&s->pause);
    }
}

/* Is the batch of a new shape, in a step of so many tasks, a graph at once? */
static bool may_be_new(struct gy_choice *choice, uint64_t tasks)
{
    if (tasks <= 1) {
        return false;
    }
    if (tasks < GY_CHOICE_SMALL) {
        return choice->small.spent < GY_CHOICE_SMALL_CREDIT;
    }
    return choice->large.spent < GY_CHOICE_LARGE_CREDIT || is_try(&choice->large_pause);
}

bool gy_choice_take(struct gy_choice *choice, uint64_t shape, uint64_t tasks)
{
    struct gy_choice_shape *s = place_of(choice, shape);
    if (s->key != shape) {
        *s = (struct gy_choice_shape){.key = shape, .is_small = tasks < GY_CHOICE_SMALL};
    }
    if (s->state == GY_CHOICE_FIRST && may_be_new(choice, tasks)) {
        enter(s, GY_CHOICE_GRAPHS);
    }
    if (s->state == GY_CHOICE_STREAMS) {
        return is_try(&s->pause);
    }
    return s->state == GY_CHOICE_GRAPHS;
}

/* Was nothing like three quarters of it?  Less is cut off, where the rest is a beginning (see kept.h). */
static bool is_strange(const struct gy_choice_outcome *o)
{
    return 4 * o->strange > 3 * o->nodes;
}

/* A graph takes credit if it was strange; so many that are not in vain give it back. */
static void settle(struct gy_choice *choice, bool is_small, const struct gy_choice_outcome *o, bool vain)
{
    struct gy_choice_credit *credit = is_small ? &choice->small : &choice->large;
    if (is_strange(o)) {
        const uint32_t most = is_small ? GY_CHOICE_SMALL_CREDIT : GY_CHOICE_LARGE_CREDIT;
        credit->known = 0;
        credit->spent += credit->spent < most;
        if (!is_small && credit->spent == most && choice->large_pause.left == 0) {
            begin_pause(&choice->large_pause);
        }
    } else if (!vain && credit->spent != 0 && ++credit->known == GY_CHOICE_GIVES) {
        credit->known = 0;
        credit->spent--;
        choice->large_pause = is_small ? choice->large_pause : (struct gy_choice_pause){0};
    }
}

/* Was it cut into so many graphs that a stream takes their work in the same time? */
static bool is_cut_up(const struct gy_choice_outcome *o)
{
    return o->graphs > 1 && o->nodes < GY_CHOICE_NODES * o->graphs;
}

/* Was it a graph in vain? */
static bool is_vain(const struct gy_choice *choice, const struct gy_choice_outcome *o)
{
    const uint64_t slow_ns = choice->slow_ns != 0 ? choice->slow_ns : GY_CHOICE_SLOW_NS;
    return o->nodes <= 1 || is_strange(o) || is_cut_up(o) || 2 * o->nodes < o->calls ||
           o->ns / o->calls > slow_ns;
}

/* On streams: is the next one of its shape a graph? */
static bool becomes_graph(struct gy_choice_shape *s, const struct gy_choice_outcome *o)
{
    const bool is_due = s->state == GY_CHOICE_FIRST || (s->state == GY_CHOICE_STREAMS && s->is_lone);
    if (!is_due || o->works <= 1) {
        return false;
    }
    s->forgiven = s->state == GY_CHOICE_STREAMS ? GY_CHOICE_FORGIVES * (uint32_t)o->works : 0;
    enter(s, GY_CHOICE_GRAPHS);
    return true;
}

/* One more graph in vain. */
static void count_vain(struct gy_choice_shape *s, bool is_lone)
{
    if (is_lone && s->forgiven != 0) {
        s->forgiven--;
        return;
    }
    s->is_lone = is_lone && (s->vains == 0 || s->is_lone);
    if (s->state == GY_CHOICE_STREAMS || ++s->vains == GY_CHOICE_VAINS) {
        enter(s, GY_CHOICE_STREAMS);
    }
}

bool gy_choice_learn(struct gy_choice *choice, uint64_t shape, bool as_graph,
                     const struct gy_choice_outcome *outcome)
{
    struct gy_choice_shape *s = place_of(choice, shape);
    assert(s->key == shape);
    if (outcome->calls == 0) {
        return false;
    }
    if (!as_graph) {
        const bool is_new = s->state == GY_CHOICE_FIRST;
        return becomes_graph(s, outcome) && is_new;
    }
    const bool vain = is_vain(choice, outcome);
    settle(choice, s->is_small, outcome, vain);
    if (!vain) {
        s->pause = (struct gy_choice_pause){0};
        s->forgiven = GY_CHOICE_FORGIVES * (uint32_t)outcome->nodes;
        enter(s, GY_CHOICE_GRAPHS);
    } else {
        count_vain(s, outcome->works <= 1);
    }
    return false;
}
