/* SPDX-License-Identifier: MIT */
#include "work/kept_look.h"

#include "work/kept_find.h"
#include "work/kept_pieces.h"

#include <assert.h>

/* Is the batch, for which there is none, better played than made or updated? */
static bool is_better_played(const struct gy_kept_set *set, struct gy_kept_rule rule,
                             const struct gy_nodes *nodes, const struct gy_kept_found *found, bool is_new)
{
    if (found->is_enough) { /* a child graph would be instantiated to be played */
        return rule.plays != GY_PLAYS_NOTHING && nodes->count <= GY_KEPT_FEW && gy_nodes_are_patchable(nodes);
    }
    return rule.plays == GY_PLAYS_STRANGE && found->is_strange && is_new &&
           set->looked.first == nodes->count && 4 * found->familiar < nodes->count;
}

/* Of steps that repeat a new shape is one that will repeat, too: it is worth a graph of its own.  Parts of a
 * batch differ anyhow. */
static void note_variety(struct gy_kept_set *set, struct gy_kept_rule rule, bool is_new)
{
    if (rule.is_later_part || rule.is_rest || set->seen.varied_in == set->batch) {
        return;
    }
    set->seen.varied_in = set->batch;
    const uint32_t varied = is_new ? set->seen.varied + 2 : set->seen.varied - (set->seen.varied != 0);
    set->seen.varied = varied < GY_KEPT_MOST_VARIED ? varied : GY_KEPT_MOST_VARIED;
}

/* Is the batch launched by pieces, which has come so many times lately?  Auto remembers the pieces of the
 * first batches, too, so that it knows them when batches turn out to vary. */
static bool goes_by_pieces(struct gy_kept_set *set, struct gy_kept_rule rule, const struct gy_nodes *nodes,
                           uint32_t times, bool begins_as_others)
{
    if (times >= GY_KEPT_OFTEN || rule.is_rest) {
        return false;
    }
    if (set->seen.varied >= GY_KEPT_VARIED) {
        return gy_kept_find_pieces(set, rule, nodes, begins_as_others);
    }
    if (rule.plays != GY_PLAYS_NOTHING) {
        gy_kept_note_pieces(set, nodes);
    }
    return false;
}

/* There is none for the batch, all of which can be patched, and nothing is known of it.  Its pieces are
 * looked at, where batches vary; else it may be cut. */
static void look_at_new(struct gy_kept_set *set, struct gy_kept_rule rule, struct gy_nodes *nodes,
                        struct gy_kept_found *found, uint32_t *times)
{
    const uint32_t whole = nodes->count;
    uint32_t familiar = 0;
    const uint32_t first = gy_kept_cut(set, nodes, &familiar, times);
    set->looked.is_by_pieces = goes_by_pieces(set, rule, nodes, *times, familiar != 0);
    if (!set->looked.is_by_pieces && first != whole) {
        set->looked.first = nodes->count = first;
        *found = gy_kept_find(set, nodes);
        nodes->count = whole;
    }
    found->familiar = familiar;
}

void gy_kept_look(struct gy_kept_set *set, struct gy_nodes *nodes, struct gy_kept_rule rule)
{
    assert(set->looked.nodes == 0);
    struct gy_kept_found found = gy_kept_find(set, nodes);
    const bool is_new = found.kept == NULL && !found.is_known && !found.is_enough;
    const bool is_other = found.is_strange && !found.is_enough; /* its calls have come, with other edges */
    uint32_t times = 0; /* so many of the latest batches were like it */
    set->looked.first = nodes->count;
    if (found.kept == NULL && !gy_nodes_are_patchable(nodes)) {
        found.is_enough = true; /* there will be none */
    } else if (is_new || is_other) {
        note_variety(set, rule, true);
        if (is_new) {
            look_at_new(set, rule, nodes, &found, &times);
        } else {
            times = gy_kept_times(set, nodes);
            set->looked.is_by_pieces = goes_by_pieces(set, rule, nodes, times, false);
        }
    } else {
        note_variety(set, rule, false);
    }
    found.is_played = !set->looked.is_by_pieces && found.kept == NULL &&
                      is_better_played(set, rule, nodes, &found, times == 0);
    set->whole.found = found;
    set->looked.nodes = nodes->count;
}
