/* SPDX-License-Identifier: MIT */
#include "work/kept_find.h"

/* The thread may have a capture of the application's open, which such a question must not spoil. */
bool gy_kept_is_done(const struct gy_kept_set *set, CUevent event)
{
    struct gy_context *context = set->context;
    const struct gy_relaxed relaxed = gy_relaxed_begin(context);
    const CUresult result =
        relaxed.status == GANTRY_OK ? context->driver->cuEventQuery(event) : CUDA_ERROR_NOT_READY;
    (void)gy_relaxed_end(context, &relaxed); /* a failure is in the context */
    return result == CUDA_SUCCESS;
}

/* Is its latest launch not seen done, or will it have work of another piece? */
static bool is_in_use(const struct gy_kept_set *set, const struct gy_kept *kept)
{
    return kept->is_claimed || (!gy_few_points_are_passed(&kept->ends) && !gy_kept_is_done(set, kept->done));
}

/* ---- finding ----------------------------------------------------------------------------------- */

static bool has_same_ends(const struct gy_kept *kept, const struct gy_nodes *nodes)
{
    const uint32_t last = nodes->count - 1;
    return kept->nodes.list[0].id == nodes->list[0].id && kept->nodes.list[last].id == nodes->list[last].id;
}

/* One that is alike in the order of the nodes and idle.  `same`: of the same calls, else of others.  *copies:
 * adds the number of those that are alike, until it is found.  *is_equal: its nodes are equal, too. */
static struct gy_kept *find_alike(struct gy_kept_set *set, const struct gy_nodes *nodes, bool same,
                                  uint32_t *copies, bool *is_equal)
{
    for (uint32_t i = 0; i < GY_KEPT_MOST; i++) {
        struct gy_kept *kept = &set->of[i];
        if (kept->exec.native == NULL || kept->nodes.count != nodes->count ||
            has_same_ends(kept, nodes) != same) {
            continue;
        }
        *is_equal = gy_nodes_are_equal(&kept->nodes, nodes);
        if (!*is_equal && !gy_nodes_are_alike(&kept->nodes, nodes)) {
            continue;
        }
        ++*copies;
        if (!is_in_use(set, kept)) {
            return kept;
        }
    }
    return NULL;
}

/* One of the same calls, in whatever order, that is idle; the pairs are in set->pairing then. */
static struct gy_kept *find_paired(struct gy_kept_set *set, const struct gy_nodes *nodes, uint64_t names,
                                   uint32_t *copies)
{
    for (uint32_t i = 0; i < GY_KEPT_MOST; i++) {
        struct gy_kept *kept = &set->of[i];
        if (kept->exec.native == NULL || kept->names != names || kept->nodes.count != nodes->count ||
            !gy_nodes_pair(&set->pairing, &kept->nodes, nodes)) {
            continue;
        }
        ++*copies;
        if (!is_in_use(set, kept)) {
            return kept;
        }
    }
    return NULL;
}

enum { OFTEN = 2 /* a batch that was seen so often lately comes again, we guess */ };

/* How often is it among the latest? */
static uint32_t count_in(const uint64_t *latest, uint64_t what)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < GY_KEPT_LATEST; i++) {
        found += latest[i] == what;
    }
    return found;
}

/* The same, and it is one of them now. */
static uint32_t count_latest(uint64_t *latest, uint32_t *next, uint64_t what)
{
    const uint32_t found = count_in(latest, what);
    latest[(*next)++ % GY_KEPT_LATEST] = what;
    return found;
}

struct gy_kept_found gy_kept_find(struct gy_kept_set *set, const struct gy_nodes *nodes)
{
    uint32_t copies = 0, alike = 0;
    struct gy_kept_found found = {0};
    found.kept = find_alike(set, nodes, true, &copies, &found.is_equal);
    if (found.kept != NULL) {
        return found;
    }
    found.names = gy_nodes_names(nodes);
    if (copies == 0) {
        found.kept = find_paired(set, nodes, found.names, &copies);
        found.is_paired = found.kept != NULL;
        found.is_equal = false;
    }
    if (found.kept != NULL) {
        return found;
    }
    /* One of other calls costs more patches.  A batch that comes again gets one of its own. */
    found.kept = find_alike(set, nodes, false, &alike, &found.is_equal);
    found.is_enough = copies >= GY_KEPT_COPIES || alike >= GY_KEPT_ALIKE;
    const bool comes_again =
        count_latest(set->seen.latest_names, &set->seen.next_names, found.names) >= OFTEN;
    if (found.kept != NULL && comes_again && !found.is_enough && set->seen.patches_due == 0) {
        found.kept = NULL;
        set->seen.patches_due = (uint64_t)GY_KEPT_PATCHES * nodes->count;
    }
    found.is_known = copies != 0 || comes_again;
    found.is_strange = copies == 0 && alike == 0;
    return found;
}

/* ---- cutting ----------------------------------------------------------------------------------- */

uint32_t gy_kept_cut(struct gy_kept_set *set, const struct gy_nodes *nodes, uint32_t *familiar,
                     uint32_t *times)
{
    uint64_t shapes[GY_MOST_SIZES];
    const uint32_t sizes = gy_nodes_shapes(nodes, shapes);
    uint32_t found = 0;
    *times = count_latest(set->seen.latest, &set->seen.next_latest, shapes[sizes - 1]);
    if (*times >= OFTEN) {
        return nodes->count;
    }
    for (uint32_t i = 0; i < sizes - 1; i++) {
        uint64_t *seen = &set->seen.beginnings[shapes[i] % GY_KEPT_SEEN];
        const uint32_t size = 1u << (GY_FIRST_SIZE + i);
        if (*seen == shapes[i] && size >= nodes->count / 4) {
            found = size;
        }
        *seen = shapes[i];
    }
    set->seen.strangers++;
    *familiar = found != 0 && gy_nodes_may_drop(&set->pairing, nodes) ? found : 0;
    return *familiar != 0 && set->seen.strangers > GY_KEPT_STRANGERS ? found : nodes->count;
}

/* A number for the shape of all nodes. */
static uint64_t shape_of(const struct gy_nodes *nodes)
{
    uint64_t shapes[GY_MOST_SIZES];
    return shapes[gy_nodes_shapes(nodes, shapes) - 1];
}

uint32_t gy_kept_times(struct gy_kept_set *set, const struct gy_nodes *nodes)
{
    return count_latest(set->seen.latest, &set->seen.next_latest, shape_of(nodes));
}

uint32_t gy_kept_count(const struct gy_kept_set *set, const struct gy_nodes *nodes)
{
    return count_in(set->seen.latest, shape_of(nodes));
}
