#include "dispatcher/ways/choice.h"

#include <assert.h>

static struct gy_choice_shape *shape_of(struct gy_choice *choice, uint64_t key)
{
    struct gy_choice_shape *s = &choice->shapes[key % GY_CHOICE_SHAPES];
    if (s->key != key) {
        *s = (struct gy_choice_shape){.key = key};
    }
    return s;
}

/* The only writer of the state. */
static void enter(struct gy_choice_shape *s, enum gy_choice_state state)
{
    assert(state != GY_CHOICE_NEW && (state != GY_CHOICE_SEEN || s->state == GY_CHOICE_NEW));
    s->state = state;
    if (state == GY_CHOICE_GRAPHS) {
        s->pause = s->nones = 0;
    } else if (state == GY_CHOICE_STREAMS) {
        s->left = s->pause != 0 ? s->pause : GY_CHOICE_PAUSE;
        s->pause = s->left < GY_CHOICE_PAUSE_MOST ? 2 * s->left : s->left;
        s->nones = 0;
    }
}

bool gy_choice_take(struct gy_choice *choice, uint64_t shape)
{
    struct gy_choice_shape *s = shape_of(choice, shape);
    switch (s->state) {
    case GY_CHOICE_NEW:
        return choice->debt < GY_CHOICE_CREDIT;
    case GY_CHOICE_STREAMS:
        s->left -= s->left != 0;
        return s->left == 0;
    case GY_CHOICE_SEEN:
    case GY_CHOICE_TRIED:
    case GY_CHOICE_GRAPHS:
        break;
    }
    return true;
}

/* Was it a graph in vain? */
static bool is_none(const struct gy_choice *choice, const struct gy_choice_outcome *o)
{
    const uint64_t slow_ns = choice->slow_ns != 0 ? choice->slow_ns : GY_CHOICE_SLOW_NS;
    return 2 * o->strange >= o->nodes || 2 * o->nodes < o->calls || o->ns / o->calls > slow_ns;
}

void gy_choice_learn(struct gy_choice *choice, uint64_t shape, bool as_graph,
                     const struct gy_choice_outcome *outcome)
{
    struct gy_choice_shape *s = shape_of(choice, shape);
    if (outcome->calls == 0) {
        return;
    }
    if (!as_graph) {
        if (s->state == GY_CHOICE_NEW) {
            enter(s, GY_CHOICE_SEEN);
        }
        return;
    }
    const bool is_few = outcome->nodes < GY_CHOICE_FEW, none = is_few || is_none(choice, outcome);
    choice->debt -= !none && choice->debt != 0;
    choice->debt += outcome->strange != 0 && choice->debt < GY_CHOICE_CREDIT;
    if (!none) {
        enter(s, GY_CHOICE_GRAPHS);
    } else {
        const bool is_enough = ++s->nones == GY_CHOICE_NONES || is_few;
        enter(s, is_enough ? GY_CHOICE_STREAMS : GY_CHOICE_TRIED);
    }
}
