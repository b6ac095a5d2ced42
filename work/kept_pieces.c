/* SPDX-License-Identifier: MIT */
#include "work/kept_pieces.h"

#include "work/kept_find.h"

/* Streams of a partition or a priority of their own are not the side streams. */
static bool has_special_lanes(const struct gy_nodes *nodes)
{
    for (uint32_t i = 0; i < nodes->count; i++) {
        if (nodes->list[i].form >= GY_FORM_LANE(0)) {
            return true;
        }
    }
    return false;
}

/* Have pieces of the same shape before this one, for which there is none either, asked for as many as there
 * may be? */
static bool is_enough(const struct gy_kept_set *set, uint32_t piece)
{
    uint32_t wanted = 0;
    for (uint32_t i = 0; i < piece; i++) {
        wanted += set->of_pieces[i].found.kept == NULL && !set->of_pieces[i].found.is_enough &&
                  gy_nodes_are_alike(&set->pieces.of[i], &set->pieces.of[piece]);
    }
    return wanted >= GY_KEPT_ALIKE;
}

/* The nodes of those pieces for which there is one, and of those that are no strangers: there are some like
 * them, in flight or not, or such pieces have come before. */
struct pieces_seen {
    uint32_t there, known;
};

/* Find what there is for each. */
static struct pieces_seen find_each(struct gy_kept_set *set)
{
    struct pieces_seen seen = {0, 0};
    for (uint32_t i = 0; i < set->pieces.count; i++) {
        const struct gy_nodes *piece = &set->pieces.of[i];
        struct gy_kept_found found = gy_kept_find(set, piece);
        if (found.kept != NULL) {
            found.kept->is_claimed = true;
            seen.there += piece->count;
        } else {
            found.is_enough |= is_enough(set, i);
        }
        seen.known += !found.is_strange || gy_kept_count(set, piece) != 0 ? piece->count : 0;
        set->of_pieces[i] = (struct gy_kept_want){.found = found};
    }
    return seen;
}

static bool is_most(uint32_t some, const struct gy_nodes *nodes)
{
    return 3 * (uint64_t)some >= 2 * (uint64_t)nodes->count;
}

/* They are known when they come again. */
static void note_shapes(struct gy_kept_set *set)
{
    for (uint32_t i = 0; i < set->pieces.count; i++) {
        if (gy_kept_count(set, &set->pieces.of[i]) == 0) {
            (void)gy_kept_times(set, &set->pieces.of[i]);
        }
    }
}

static void claim_nothing(struct gy_kept_set *set)
{
    for (uint32_t i = 0; i < set->pieces.count; i++) {
        struct gy_kept *kept = set->of_pieces[i].found.kept;
        if (kept != NULL) {
            kept->is_claimed = false;
        }
    }
}

/* Find a side stream for each but the first.  The thread may have a capture open, the batch's guard or one of
 * the application's. */
static bool find_sides(struct gy_kept_set *set)
{
    uint32_t next = 0, found = 1;
    const struct gy_relaxed relaxed = gy_relaxed_begin(set->context);
    while (relaxed.status == GANTRY_OK && found < set->pieces.count &&
           (set->side_of[found] = gy_side_streams_next(set->sides, &next)) != NULL) {
        found++;
    }
    return gy_relaxed_end(set->context, &relaxed) == GANTRY_OK && found == set->pieces.count;
}

static bool has_pieces(struct gy_kept_set *set, const struct gy_nodes *nodes)
{
    return !has_special_lanes(nodes) && gy_pieces_find(&set->pieces, nodes, set->piece_nodes) != 0;
}

void gy_kept_note_pieces(struct gy_kept_set *set, const struct gy_nodes *nodes)
{
    if (has_pieces(set, nodes)) {
        note_shapes(set);
    }
}

bool gy_kept_find_pieces(struct gy_kept_set *set, struct gy_kept_rule rule, const struct gy_nodes *nodes,
                         bool begins_as_others)
{
    if (!has_pieces(set, nodes)) {
        return false;
    }
    const struct pieces_seen seen = find_each(set);
    const bool may_be_made =
        !begins_as_others && (rule.plays != GY_PLAYS_STRANGE || is_most(seen.known, nodes));
    const bool are = (may_be_made || is_most(seen.there, nodes)) && find_sides(set);
    if (!are) {
        claim_nothing(set);
        note_shapes(set);
    }
    return are;
}
