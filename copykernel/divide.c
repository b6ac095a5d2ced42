/* SPDX-License-Identifier: MIT */
/* The division of a batch among warps.
 *
 * The cost of a piece is its bytes plus PIECE_COST for the time it takes whatever its size, so that many
 * small copies spread over as many warps as one large copy of the same total cost.  Units are filled in
 * order up to the unit cost; a piece that does not fit is cut at a multiple of 128 bytes of its
 * destination, which keeps a memory line with one warp.
 *
 * A group that its warps can do in one round is cut into one unit per warp.  More work than that is cut into
 * units of a fixed cost: the hardware, or a counter, hands them out.
 *
 * On the link to the host there are few warps.  When units are large they end far apart, and the link is not
 * full meanwhile.  So a unit has at most its share of what is left (guided self-scheduling: Polychronopoulos
 * and Kuck, IEEE Transactions on Computers C-36, 1987), and the last ones are small.
 *
 * If a large batch within device memory has large pieces, all warps of a block share a unit and work side by
 * side in the same stretch of memory, since this suits DRAM pages. */
#include "copykernel/plan.h"

#include "base/status.h"

#include <assert.h>

enum {
    PIECE_COST = 256,
    LEAST_UNIT_COST = 2048, /* less work is not worth a warp */
    MOST_UNIT_COST = 16384,
    MOST_HOST_UNIT_COST = 65536, /* large units need fewer trips over the link for descriptors */
    LEAST_TAPERED_COST = 8192,
    WIDE_UNIT_COST = 131072,
    WIDE_PIECE = 16384, /* the bytes of the mean piece from which a batch is wide */
    MOST_UNITS = 1 << 22,
    CUT_ALIGNMENT = 128,
};

/* The batch that is being written; `words` NULL: it is only counted. */
struct packer {
    uint64_t *words, *patterns, *starts;
    struct gy_copy_dealing dealing; /* the dealing of this group */
    uint64_t undealt;               /* the cost of the group that is in no unit yet */
    uint64_t left;                  /* the cost that the open unit may still take; 0: no unit is open */
    uint64_t pieces;
    uint64_t pattern_count;
    uint64_t low, high; /* the last long pattern */
    uint64_t units;
};

static uint64_t next_unit_cost(const struct packer *p)
{
    uint64_t share = p->dealing.taper != 0 ? p->undealt / p->dealing.taper : p->dealing.most;
    if (share >= p->dealing.most) {
        return p->dealing.most;
    }
    return share > LEAST_TAPERED_COST ? share : LEAST_TAPERED_COST;
}

static void open_unit(struct packer *p, uint64_t byte)
{
    if (p->words != NULL) {
        p->starts[p->units] = p->pieces | byte << 32;
    }
    p->units++;
    p->left = next_unit_cost(p);
    p->undealt -= p->undealt < p->left ? p->undealt : p->left;
}

/* The two words of a piece: `source` is the content of its field, `kind` its two highest bits. */
static inline void write_piece(uint64_t *words, uint64_t dest, uint64_t source, uint64_t bytes, uint64_t kind)
{
    words[0] = source | dest << GY_COPY_ADDRESS_BITS;
    words[1] = (dest >> 16) | bytes << 32 | kind << GY_COPY_LONG_BIT;
}

static inline void add_piece(struct packer *p, uint64_t dest, uint64_t source, uint64_t bytes, uint64_t kind)
{
    if (p->left < PIECE_COST + CUT_ALIGNMENT) {
        open_unit(p, 0);
    }
    p->left -= PIECE_COST;
    uint64_t done = 0;
    while (bytes - done > p->left + CUT_ALIGNMENT) { /* a smaller rest is not worth a cut */
        done += p->left;
        done -= (dest + done) % CUT_ALIGNMENT;
        open_unit(p, done);
        p->left -= PIECE_COST;
    }
    p->left -= bytes - done < p->left ? bytes - done : p->left;
    if (p->words != NULL) {
        write_piece(&p->words[2 * p->pieces], dest, source, bytes, kind);
    }
    p->pieces++;
}

static bool is_long(const struct gy_copy_item *item)
{
    uint64_t word = item->source & 0xffffffffu;
    return item->source != (word | word << 32) || item->high != item->source;
}

/* The place of the item's long pattern, in words; the pattern that was used last is used again. */
static uint64_t add_pattern(struct packer *p, const struct gy_copy_item *item)
{
    if (p->pattern_count == 0 || p->low != item->source || p->high != item->high) {
        if (p->words != NULL) {
            p->patterns[2 * p->pattern_count] = item->source;
            p->patterns[2 * p->pattern_count + 1] = item->high;
        }
        p->low = item->source;
        p->high = item->high;
        p->pattern_count++;
    }
    return (p->words != NULL ? (uint64_t)(p->patterns - p->words) : 0) + 2 * (p->pattern_count - 1);
}

static void add_item(struct packer *p, const struct gy_copy_item *item)
{
    uint64_t source = item->source, kind = 0;
    if (item->is_fill) {
        kind = is_long(item) ? 3 : 2;
        source = kind == 3 ? add_pattern(p, item) : item->source & 0xffffffffu;
    }
    for (uint64_t done = 0; done < item->bytes; done += GY_COPY_PIECE_MAX) {
        uint64_t left = item->bytes - done;
        add_piece(p, item->dest + done, kind != 0 ? source : source + done,
                  left < GY_COPY_PIECE_MAX ? left : GY_COPY_PIECE_MAX, kind);
    }
}

/* Add the items of one group, in units of their own. */
static void add_items(struct packer *p, const struct gy_copy_item *items, size_t count, uint32_t group,
                      const struct gy_copy_dealing *dealing)
{
    p->dealing = *dealing;
    p->undealt = dealing->cost;
    p->left = 0;
    for (size_t i = 0; dealing->cost != 0 && i < count; i++) {
        if (items[i].group == group) {
            add_item(p, &items[i]);
        }
    }
}

/* Add up the cost and the pieces of each group. */
static void add_costs(const struct gy_copy_item *items, size_t count, uint64_t *cost, uint64_t *piece_count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t pieces = (items[i].bytes + GY_COPY_PIECE_MAX - 1) / GY_COPY_PIECE_MAX;
        cost[items[i].group] += items[i].bytes + pieces * PIECE_COST;
        piece_count[items[i].group] += pieces;
    }
}

static struct gy_copy_dealing deal(uint64_t cost, uint32_t warps, bool is_host)
{
    struct gy_copy_dealing dealing = {cost, (cost + warps - 1) / warps + PIECE_COST + CUT_ALIGNMENT, 0};
    uint64_t most = is_host ? MOST_HOST_UNIT_COST : MOST_UNIT_COST; /* a cut costs one more piece */
    if (dealing.most > most) {
        dealing.most = cost / MOST_UNITS > most ? cost / MOST_UNITS : most;
        dealing.taper = is_host ? warps : 0;
    }
    dealing.most = dealing.most > LEAST_UNIT_COST ? dealing.most : LEAST_UNIT_COST;
    return dealing;
}

/* Decide how all groups are dealt, by their costs. */
static void deal_all(const uint64_t *cost, const uint64_t *pieces, const struct gy_copy_budget *budget,
                     struct gy_copy_plan *plan)
{
    for (uint32_t g = 0; g < GY_COPY_GROUPS; g++) {
        plan->dealing[g] = deal(cost[g], budget->warps[g], g != GY_COPY_WITHIN);
    }
    struct gy_copy_dealing *within = &plan->dealing[GY_COPY_WITHIN];
    plan->wide = !budget->limited && cost[GY_COPY_FROM_HOST] == 0 && cost[GY_COPY_TO_HOST] == 0 &&
                 within->most >= MOST_UNIT_COST &&
                 cost[GY_COPY_WITHIN] / pieces[GY_COPY_WITHIN] >= WIDE_PIECE;
    within->most = plan->wide && within->most < WIDE_UNIT_COST ? WIDE_UNIT_COST : within->most;
}

static gantry_status check_numbers(uint64_t pieces, uint64_t units)
{
    if (pieces > UINT32_MAX / 8 || units > UINT32_MAX / 8) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "copies: %llu pieces are too many for one launch",
                       (unsigned long long)pieces);
    }
    return GANTRY_OK;
}

gantry_status gy_copy_measure(const struct gy_copy_item *items, size_t count,
                              const struct gy_copy_budget *budget, struct gy_copy_plan *out)
{
    uint64_t cost[GY_COPY_GROUPS] = {0}, pieces[GY_COPY_GROUPS] = {0};
    struct gy_copy_plan plan = {.pieces = 0};
    add_costs(items, count, cost, pieces);
    deal_all(cost, pieces, budget, &plan);
    struct packer p = {.words = NULL};
    for (uint32_t g = 0; g < GY_COPY_GROUPS; g++) {
        add_items(&p, items, count, g, &plan.dealing[g]);
        plan.ends[g] = (uint32_t)p.units;
    }
    gantry_status status = check_numbers(p.pieces, p.units);
    if (status != GANTRY_OK) {
        return status;
    }
    plan.pieces = (uint32_t)p.pieces;
    plan.patterns = (uint32_t)p.pattern_count;
    plan.words = (size_t)(2 * (p.pieces + p.pattern_count) + p.units + 1);
    *out = plan;
    return GANTRY_OK;
}

void gy_copy_pack(const struct gy_copy_item *items, size_t count, const struct gy_copy_plan *plan,
                  uint64_t *words)
{
    struct packer p = {.words = words, .patterns = words + 2 * (size_t)plan->pieces};
    p.starts = p.patterns + 2 * (size_t)plan->patterns;
    for (uint32_t g = 0; g < GY_COPY_GROUPS; g++) {
        add_items(&p, items, count, g, &plan->dealing[g]);
    }
    p.starts[p.units] = p.pieces;
}

/* ---- usual batches -------------------------------------------------------------------------------- */

gantry_status gy_copy_measure_scan(const struct gy_copy_scan *scan, const struct gy_copy_budget *budget,
                                   struct gy_copy_plan *out)
{
    uint64_t cost[GY_COPY_GROUPS] = {0}, pieces[GY_COPY_GROUPS] = {0};
    struct gy_copy_plan plan = {.pieces = (uint32_t)scan->pieces};
    cost[scan->group] = scan->bytes + scan->pieces * PIECE_COST;
    pieces[scan->group] = scan->pieces;
    deal_all(cost, pieces, budget, &plan);
    /* A unit is at most a piece's cost and two cuts short of its limit, and each cut costs a piece. */
    uint64_t least = plan.dealing[scan->group].most;
    least = plan.dealing[scan->group].taper != 0 && least > LEAST_TAPERED_COST ? LEAST_TAPERED_COST : least;
    uint64_t units = cost[scan->group] / (least - 2 * PIECE_COST - 2 * CUT_ALIGNMENT) + 4;
    gantry_status status = check_numbers(scan->pieces, units);
    plan.words = (size_t)(2 * scan->pieces + units + 1);
    *out = plan;
    return status;
}

/* Add copies while the open unit has room for each as a whole, as add_piece() does.  Returns how many. */
static size_t fill_unit(struct packer *p, const gantry_copy_desc *descs, size_t count)
{
    uint64_t *words = p->words + 2 * p->pieces;
    uint64_t left = p->left,
             pieces = 0; /* not in *p, which the words might be, for all that the compiler knows */
    size_t i = 0;
    for (; i < count && left >= descs[i].bytes + PIECE_COST + CUT_ALIGNMENT; i++) {
        const uint64_t bytes = descs[i].bytes;
        if (__builtin_expect(bytes != 0, 1)) {
            write_piece(words + 2 * pieces, (uintptr_t)descs[i].dest, (uintptr_t)descs[i].source, bytes, 0);
            left -= PIECE_COST + bytes;
            pieces++;
        }
    }
    p->left = left;
    p->pieces += pieces;
    return i;
}

void gy_copy_pack_scan(const gantry_copy_desc *descs, size_t count, const struct gy_copy_scan *scan,
                       struct gy_copy_plan *plan, uint64_t *words)
{
    struct packer p = {.words = words, .starts = words + 2 * (size_t)plan->pieces};
    p.dealing = plan->dealing[scan->group];
    p.undealt = p.dealing.cost;
    for (size_t i = 0; (i += fill_unit(&p, descs + i, count - i)) < count; i++) {
        if (descs[i].bytes != 0) {
            add_piece(&p, (uintptr_t)descs[i].dest, (uintptr_t)descs[i].source, descs[i].bytes, 0);
        }
    }
    assert(p.pieces == plan->pieces && 2 * p.pieces + p.units + 1 <= plan->words);
    p.starts[p.units] = p.pieces;
    for (uint32_t g = 0; g < GY_COPY_GROUPS; g++) {
        plan->ends[g] = g >= scan->group ? (uint32_t)p.units : 0;
    }
}
