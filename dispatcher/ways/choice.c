#include "dispatcher/ways/choice.h"

#include <assert.h>

static struct gy_choice_shape *place_of(struct gy_choice *choice, uint64_t key)
{
    return &choice->shapes[key % GY_CHOICE_SHAPES];
}

/* The only writer of the state, but that it begins with FIRST. */
static void enter(struct gy_choice_shape *s, enum gy_choice_state state)
{
    assert(state != GY_CHOICE_FIRST);
    s->state = state;
    s->vains = 0;
    if (state == GY_CHOICE_STREAMS) {
        s->left = s->pause != 0 ? s->pause : GY_CHOICE_PAUSE;
        s->pause = s->left < GY_CHOICE_PAUSE_MOST ? 2 * s->left : s->left;
    }
}

bool gy_choice_take(struct gy_choice *choice, uint64_t shape, uint64_t tasks)
{
    struct gy_choice_shape *s = place_of(choice, shape);
    if (s->key != shape) {
        *s = (struct gy_choice_shape){.key = shape};
    }
    if (s->state == GY_CHOICE_FIRST && tasks >= GY_CHOICE_SMALL) {
        enter(s, GY_CHOICE_GRAPHS);
    }
    if (s->state == GY_CHOICE_STREAMS) {
        s->left -= s->left != 0;
        return s->left == 0;
    }
    return s->state == GY_CHOICE_GRAPHS;
}

/* Was it a graph in vain? */
static bool is_vain(const struct gy_choice *choice, const struct gy_choice_outcome *o)
{
    const uint64_t slow_ns = choice->slow_ns != 0 ? choice->slow_ns : GY_CHOICE_SLOW_NS;
    const bool is_made = 2 * o->strange >= o->nodes && o->nodes < GY_CHOICE_SMALL;
    return o->nodes <= 1 || is_made || 2 * o->nodes < o->calls || o->ns / o->calls > slow_ns;
}

void gy_choice_learn(struct gy_choice *choice, uint64_t shape, bool as_graph,
                     const struct gy_choice_outcome *outcome)
{
    struct gy_choice_shape *s = place_of(choice, shape);
    assert(s->key == shape);
    if (outcome->calls == 0) {
        return;
    }
    if (!as_graph) {
        if (s->state == GY_CHOICE_FIRST && outcome->works > 1) {
            enter(s, GY_CHOICE_GRAPHS);
        }
        return;
    }
    if (!is_vain(choice, outcome)) {
        s->pause = 0;
        enter(s, GY_CHOICE_GRAPHS);
    } else if (++s->vains == GY_CHOICE_VAINS) {
        enter(s, GY_CHOICE_STREAMS);
    }
}
