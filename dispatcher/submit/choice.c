/* SPDX-License-Identifier: MIT */
#include "dispatcher/submit/choice.h"

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
    s->vains = s->plays = 0;
    if (state == GY_CHOICE_STREAMS) {
        begin_pause(&s->pause);
    }
}

/* The credit of the shape's size. */
static struct gy_choice_credit *credit_of(struct gy_choice *choice, const struct gy_choice_shape *s)
{
    return s->is_small ? &choice->small : &choice->large;
}

static bool is_spent(const struct gy_choice_credit *credit)
{
    return credit->spent == GY_CHOICE_CREDIT;
}

/* A new large shape on spent credit. */
static enum gy_choice_way look_at_some(struct gy_choice *choice)
{
    const bool is_curious = choice->looked_at < GY_CHOICE_CURIOUS;
    if (!is_curious && !is_try(&choice->large_pause)) {
        return GY_WAY_STREAMS;
    }
    choice->looked_at += is_curious;
    if (choice->looked_at == GY_CHOICE_CURIOUS) {
        begin_pause(&choice->large_pause);
    }
    return GY_WAY_IF_KNOWN;
}

/* Is the batch of a shape, of which all so far were on streams, a graph? */
static enum gy_choice_way way_of_first(struct gy_choice *choice, const struct gy_choice_shape *s,
                                       uint64_t tasks)
{
    if (s->has_several || s->lone == GY_CHOICE_LONE || (tasks > 1 && !is_spent(credit_of(choice, s)))) {
        return GY_WAY_GRAPH;
    }
    return s->is_small ? GY_WAY_STREAMS : look_at_some(choice);
}

enum gy_choice_way gy_choice_take(struct gy_choice *choice, uint64_t shape, uint64_t tasks)
{
    struct gy_choice_shape *s = place_of(choice, shape);
    if (s->key != shape) {
        *s = (struct gy_choice_shape){.key = shape, .is_small = tasks < GY_CHOICE_SMALL};
    }
    enum gy_choice_way way = GY_WAY_STREAMS;
    switch (s->state) {
    case GY_CHOICE_FIRST:
        way = way_of_first(choice, s, tasks);
        if (way != GY_WAY_STREAMS) {
            enter(s, GY_CHOICE_GRAPHS);
        }
        return way;
    case GY_CHOICE_GRAPHS:
        return is_spent(credit_of(choice, s)) ? GY_WAY_IF_KNOWN : GY_WAY_GRAPH;
    case GY_CHOICE_STREAMS:
        return is_try(&s->pause) ? GY_WAY_GRAPH : GY_WAY_STREAMS;
    }
    return way;
}

/* Was nothing like three quarters of it?  Less is cut off, where the rest is a beginning (see kept.h). */
static bool is_strange(const struct gy_choice_outcome *o)
{
    return 4 * o->strange > 3 * o->nodes;
}

/* A graph takes credit if it was strange; so many that are not in vain give it back. */
static void settle(struct gy_choice_credit *credit, bool strange, bool vain)
{
    if (strange) {
        credit->known = 0;
        credit->spent += credit->spent < GY_CHOICE_CREDIT;
    } else if (!vain && credit->spent != 0 && ++credit->known == GY_CHOICE_GIVES) {
        credit->known = 0;
        credit->spent--;
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
    const uint64_t works = o->works > o->calls ? o->works : o->calls; /* a call may have many */
    return o->nodes == 0 || is_strange(o) || is_cut_up(o) || 2 * o->nodes < o->calls ||
           o->ns / works > slow_ns;
}

/* What came of a graph. */
static void learn_graph(struct gy_choice *choice, struct gy_choice_shape *s,
                        const struct gy_choice_outcome *o)
{
    const bool vain = is_vain(choice, o);
    settle(credit_of(choice, s), is_strange(o), vain);
    if (!vain) {
        s->pause = (struct gy_choice_pause){0};
        choice->looked_at = 0;
        choice->large_pause = (struct gy_choice_pause){0};
        enter(s, GY_CHOICE_GRAPHS);
        return;
    }
    const bool is_played = o->plays != 0 && o->graphs == 0;
    s->plays += is_played;
    s->vains += !is_played;
    if (s->state == GY_CHOICE_STREAMS || s->vains == GY_CHOICE_VAINS || s->plays == GY_CHOICE_PLAYS) {
        enter(s, GY_CHOICE_STREAMS);
    }
}

bool gy_choice_learn(struct gy_choice *choice, uint64_t shape, bool as_graph,
                     const struct gy_choice_outcome *outcome)
{
    struct gy_choice_shape *s = place_of(choice, shape);
    assert(s->key == shape && gy_choice_is_valid(choice));
    if (outcome->calls == 0) {
        return false;
    }
    if (as_graph) {
        learn_graph(choice, s, outcome);
        return false;
    }
    if (s->state != GY_CHOICE_FIRST) {
        return false;
    }
    s->has_several |= outcome->works > 1;
    s->lone = outcome->works > 1 ? 0 : s->lone + (s->lone < GY_CHOICE_LONE);
    return outcome->works > 1;
}

static bool is_within(const struct gy_choice_credit *credit)
{
    return credit->spent <= GY_CHOICE_CREDIT && credit->known < GY_CHOICE_GIVES;
}

bool gy_choice_is_valid(const struct gy_choice *choice)
{
    return choice->looked_at <= GY_CHOICE_CURIOUS && is_within(&choice->small) && is_within(&choice->large);
}
