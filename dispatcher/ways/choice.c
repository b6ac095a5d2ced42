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
        s->has_gained = false;
        begin_pause(&s->pause);
    }
}

static bool is_spent(const struct gy_choice_credit *credit, uint32_t most)
{
    return credit->spent == most;
}

/* Is the batch of a new shape, in a step of so many tasks, a graph at once? */
static bool may_be_new(struct gy_choice *choice, uint64_t tasks)
{
    if (tasks <= 1) {
        return false;
    }
    if (tasks < GY_CHOICE_SMALL) {
        return !is_spent(&choice->small, GY_CHOICE_SMALL_CREDIT);
    }
    return !is_spent(&choice->large, GY_CHOICE_LARGE_CREDIT) || is_try(&choice->large_pause);
}

/* Is the batch of a shape, of which all so far were on streams, a graph? */
static bool may_begin(struct gy_choice *choice, const struct gy_choice_shape *s, uint64_t tasks)
{
    return s->works == 0 ? may_be_new(choice, tasks)
                         : s->has_equal || !is_spent(&choice->others, GY_CHOICE_OTHERS_CREDIT);
}

bool gy_choice_take(struct gy_choice *choice, uint64_t shape, uint64_t tasks)
{
    struct gy_choice_shape *s = place_of(choice, shape);
    if (s->key != shape) {
        *s = (struct gy_choice_shape){.key = shape, .is_small = tasks < GY_CHOICE_SMALL};
    }
    if (s->state == GY_CHOICE_FIRST && may_begin(choice, s, tasks)) {
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

/* Has the shape come again, but not its work, as far as numbers tell? */
static bool is_other(const struct gy_choice_shape *s, const struct gy_choice_outcome *o)
{
    return is_strange(o) && !s->has_gained && o->works > 1 && s->works != 0 && s->works != o->works;
}

static void take_credit(struct gy_choice_credit *credit, uint32_t most)
{
    credit->known = 0;
    credit->spent += credit->spent < most;
}

/* A graph that was not in vain.  True: it gives credit back. */
static bool give_credit(struct gy_choice_credit *credit)
{
    if (credit->spent == 0 || ++credit->known < GY_CHOICE_GIVES) {
        return false;
    }
    credit->known = 0;
    credit->spent--;
    return true;
}

/* A graph takes credit if it was strange; so many that are not in vain give it back. */
static void settle(struct gy_choice *choice, const struct gy_choice_shape *s,
                   const struct gy_choice_outcome *o, bool vain)
{
    struct gy_choice_credit *credit = s->is_small ? &choice->small : &choice->large;
    const uint32_t most = s->is_small ? GY_CHOICE_SMALL_CREDIT : GY_CHOICE_LARGE_CREDIT;
    if (is_strange(o)) {
        take_credit(credit, most);
        if (is_other(s, o)) {
            take_credit(&choice->others, GY_CHOICE_OTHERS_CREDIT);
        }
        if (!s->is_small && is_spent(credit, most) && choice->large_pause.left == 0) {
            begin_pause(&choice->large_pause);
        }
    } else if (!vain) {
        (void)give_credit(&choice->others);
        if (give_credit(credit) && !s->is_small) {
            choice->large_pause = (struct gy_choice_pause){0};
        }
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

/* On streams: a shape that only lone batches have sent there is a graph again behind a larger one. */
static void look_again(struct gy_choice_shape *s, const struct gy_choice_outcome *o)
{
    if (s->state != GY_CHOICE_STREAMS || !s->is_lone || o->works <= 1) {
        return;
    }
    s->forgiven = GY_CHOICE_FORGIVES * (uint32_t)o->works;
    enter(s, GY_CHOICE_GRAPHS);
}

/* One more graph in vain; `at_once`: it is the last one for now. */
static void count_vain(struct gy_choice_shape *s, bool is_lone, bool at_once)
{
    if (is_lone && s->forgiven != 0) {
        s->forgiven--;
        return;
    }
    s->is_lone = is_lone && (s->vains == 0 || s->is_lone);
    if (s->state == GY_CHOICE_STREAMS || ++s->vains == GY_CHOICE_VAINS || at_once) {
        enter(s, GY_CHOICE_STREAMS);
    }
}

/* What came of a graph. */
static void learn_graph(struct gy_choice *choice, struct gy_choice_shape *s,
                        const struct gy_choice_outcome *o)
{
    const bool vain = is_vain(choice, o);
    settle(choice, s, o, vain);
    if (!vain) {
        s->pause = (struct gy_choice_pause){0};
        s->forgiven = GY_CHOICE_FORGIVES * (uint32_t)o->nodes;
        enter(s, GY_CHOICE_GRAPHS);
        s->has_gained = true;
    } else {
        count_vain(s, o->works <= 1, is_other(s, o) && is_spent(&choice->others, GY_CHOICE_OTHERS_CREDIT));
    }
}

bool gy_choice_learn(struct gy_choice *choice, uint64_t shape, bool as_graph,
                     const struct gy_choice_outcome *outcome)
{
    struct gy_choice_shape *s = place_of(choice, shape);
    bool is_new = false;
    assert(s->key == shape && gy_choice_is_valid(choice));
    if (outcome->calls == 0) {
        return false;
    }
    if (as_graph) {
        learn_graph(choice, s, outcome);
    } else {
        is_new = s->state == GY_CHOICE_FIRST && outcome->works > 1;
        look_again(s, outcome);
    }
    if (outcome->works > 1) {
        s->has_equal = s->works == outcome->works;
        s->works = outcome->works;
    }
    return is_new;
}

static bool is_within(const struct gy_choice_credit *credit, uint32_t most)
{
    return credit->spent <= most && credit->known < GY_CHOICE_GIVES;
}

bool gy_choice_is_valid(const struct gy_choice *choice)
{
    return is_within(&choice->small, GY_CHOICE_SMALL_CREDIT) &&
           is_within(&choice->large, GY_CHOICE_LARGE_CREDIT) &&
           is_within(&choice->others, GY_CHOICE_OTHERS_CREDIT);
}
