/* SPDX-License-Identifier: MIT */
/* The graph, and which copies of other devices' tiles it needs.
 *
 * Tasks are submitted in the order of the loops in cholesky.h, which each dependency follows.  So the caches
 * can be planned at the same time: a tile that a device needs of another one is looked for in its cache; if
 * it is not there, the place that was used longest ago is taken, and a task copies the tile there, after all
 * that were to read the place's former tile.  These stand earlier in the order, so whatever the number of
 * places, no task waits for a later one.  A tile is written for the last time before it is copied: copies are
 * never stale.
 *
 * With an order from data a task says which tiles it reads and writes, also in caches; else each edge is made
 * here, and readers of a place are remembered for that. */
#include "samples/tile_cholesky/cholesky.h"

#include <stdlib.h>
#include <string.h>

enum { WORKS = 1024 /* at a time */, NOWHERE = -1 };

struct cholesky_works {
    struct cholesky_works *next;
    uint32_t count;
    struct cholesky_work works[WORKS];
};

/* Room for a tile of another device. */
struct place {
    gantry_task *copy; /* which brings the tile; NULL: none yet */
    size_t tile;       /* its number, row * side + column */
    uint64_t used;     /* when it was looked for, counted */
    gantry_task **readers;
    uint32_t reader_count, reader_room;
};

struct cache {
    struct place *places;
    int32_t *place_of; /* by a tile's number; or NOWHERE */
};

struct plan {
    struct cholesky *cholesky;
    struct cache caches[GANTRY_FLEET_DEVICES_MAX];
    uint64_t now;
};

/* What a task reads. */
struct operand {
    const float *memory;
    gantry_task *after;  /* NULL: nothing */
    struct place *place; /* NULL: it is the device's own */
};

/* ---- tasks -------------------------------------------------------------------------------------- */

static struct cholesky_work *new_work(struct cholesky *c, uint32_t device)
{
    if (c->works == NULL || c->works->count == WORKS) {
        struct cholesky_works *more = malloc(sizeof(*more));
        if (more == NULL) {
            return NULL;
        }
        more->next = c->works;
        more->count = 0;
        c->works = more;
    }
    struct cholesky_work *work = &c->works->works[c->works->count++];
    *work = (struct cholesky_work){.cholesky = c, .device = &c->devices[device]};
    return work;
}

void cholesky_free_works(struct cholesky *c)
{
    while (c->works != NULL) {
        struct cholesky_works *next = c->works->next;
        free(c->works);
        c->works = next;
    }
}

static gantry_status submit(struct cholesky_work *work, const char *label, gantry_launch_fn launch,
                            gantry_task **out)
{
    struct cholesky *c = work->cholesky;
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.kind = GANTRY_TASK_KERNEL;
    desc.label = label;
    desc.launch = launch;
    desc.arg = work;
    desc.context = work->device->context;
    const size_t bytes = (size_t)c->settings.tile * c->settings.tile * sizeof(float);
    const gantry_access accesses[] = {
        {work->to, bytes, 1, 0, GANTRY_ACCESS_READ_WRITE, 0},
        {work->left, work->left != NULL ? bytes : 0, 1, 0, GANTRY_ACCESS_READ, 0},
        {work->right, work->right != NULL && work->right != work->left ? bytes : 0, 1, 0, GANTRY_ACCESS_READ,
         0}};
    desc.accesses = accesses;
    desc.access_count = c->settings.from_data ? 3 : 0;
    c->tasks++;
    return gantry_taskman_submit(c->graph, &desc, out);
}

/* An edge, unless data make it. */
static gantry_status follow(const struct cholesky *c, gantry_task *task, gantry_task *before)
{
    return before != NULL && !c->settings.from_data ? gantry_task_start_after(task, before) : GANTRY_OK;
}

/* ---- caches ------------------------------------------------------------------------------------- */

static bool plan_open(struct plan *plan, struct cholesky *c)
{
    const size_t tiles = (size_t)c->side * c->side;
    memset(plan, 0, sizeof(*plan));
    plan->cholesky = c;
    for (uint32_t i = 0; i < c->count; i++) {
        struct cache *cache = &plan->caches[i];
        cache->places = calloc(c->settings.cache, sizeof(*cache->places));
        cache->place_of = malloc(tiles * sizeof(*cache->place_of));
        if (cache->places == NULL || cache->place_of == NULL) {
            return false;
        }
        for (size_t t = 0; t < tiles; t++) {
            cache->place_of[t] = NOWHERE;
        }
    }
    return true;
}

static void plan_close(struct plan *plan)
{
    for (uint32_t i = 0; i < plan->cholesky->count; i++) {
        struct cache *cache = &plan->caches[i];
        for (uint32_t p = 0; cache->places != NULL && p < plan->cholesky->settings.cache; p++) {
            free(cache->places[p].readers);
        }
        free(cache->places);
        free(cache->place_of);
    }
}

static gantry_status note_reader(struct place *place, gantry_task *task)
{
    if (place->reader_count == place->reader_room) {
        uint32_t room = place->reader_room == 0 ? 16 : 2 * place->reader_room;
        gantry_task **more = realloc(place->readers, room * sizeof(gantry_task *));
        if (more == NULL) {
            return GANTRY_ERR_OUT_OF_HOST_MEMORY;
        }
        place->readers = more;
        place->reader_room = room;
    }
    place->readers[place->reader_count++] = task;
    return GANTRY_OK;
}

/* The place used longest ago gets the tile. */
static gantry_status bring(struct plan *plan, uint32_t device, const struct cholesky_tile *tile,
                           size_t number, struct place **out)
{
    struct cholesky *c = plan->cholesky;
    struct cache *cache = &plan->caches[device];
    struct place *place = &cache->places[0];
    for (uint32_t p = 1; p < c->settings.cache; p++) {
        place = cache->places[p].used < place->used ? &cache->places[p] : place;
    }
    struct cholesky_work *work = new_work(c, device);
    if (work == NULL) {
        return GANTRY_ERR_OUT_OF_HOST_MEMORY;
    }
    const size_t index = (size_t)(place - cache->places);
    work->left = tile->memory;
    work->to = c->devices[device].cache + index * c->settings.tile * c->settings.tile;
    gantry_task *copy;
    gantry_status status = submit(work, "copy", cholesky_launch_copy, &copy);
    status = status == GANTRY_OK ? follow(c, copy, tile->writer) : status;
    for (uint32_t r = 0; r < place->reader_count && status == GANTRY_OK; r++) {
        status = follow(c, copy, place->readers[r]);
    }
    if (place->copy != NULL) {
        cache->place_of[place->tile] = NOWHERE;
    }
    cache->place_of[number] = (int32_t)index;
    place->copy = copy;
    place->tile = number;
    place->reader_count = 0;
    c->copies++;
    *out = place;
    return status;
}

/* Where a task on `device` reads the tile (row, column). */
static gantry_status find_operand(struct plan *plan, uint32_t device, uint32_t row, uint32_t column,
                                  struct operand *out)
{
    struct cholesky *c = plan->cholesky;
    const struct cholesky_tile *tile = cholesky_tile_at(c, row, column);
    struct cache *cache = &plan->caches[device];
    const size_t number = (size_t)row * c->side + column;
    *out = (struct operand){tile->memory, tile->writer, NULL};
    if (tile->device == device) {
        return GANTRY_OK;
    }
    gantry_status status = GANTRY_OK;
    if (cache->place_of[number] == NOWHERE) {
        status = bring(plan, device, tile, number, &out->place);
        if (status != GANTRY_OK) {
            return status;
        }
    }
    const size_t index = (size_t)cache->place_of[number];
    out->place = &cache->places[index];
    out->place->used = ++plan->now;
    out->memory = c->devices[device].cache + index * c->settings.tile * c->settings.tile;
    out->after = out->place->copy;
    return status;
}

/* ---- the loops ---------------------------------------------------------------------------------- */

/* A task that writes the tile (row, column), and reads up to two others. */
static gantry_status submit_writer(struct plan *plan, uint32_t row, uint32_t column, const char *label,
                                   gantry_launch_fn launch, const uint32_t (*reads)[2], uint32_t read_count)
{
    struct cholesky_tile *tile = cholesky_tile_at(plan->cholesky, row, column);
    struct operand operands[2] = {{.memory = NULL}, {.memory = NULL}};
    gantry_status status = GANTRY_OK;
    for (uint32_t i = 0; i < read_count && status == GANTRY_OK; i++) {
        status = find_operand(plan, tile->device, reads[i][0], reads[i][1], &operands[i]);
    }
    struct cholesky_work *work = status == GANTRY_OK ? new_work(plan->cholesky, tile->device) : NULL;
    if (work == NULL) {
        return status != GANTRY_OK ? status : GANTRY_ERR_OUT_OF_HOST_MEMORY;
    }
    work->left = operands[0].memory;
    work->right = operands[read_count > 1 ? 1 : 0].memory;
    work->to = tile->memory;
    work->is_diagonal = row == column;
    gantry_task *task;
    status = submit(work, label, launch, &task);
    status = status == GANTRY_OK ? follow(plan->cholesky, task, tile->writer) : status;
    for (uint32_t i = 0; i < read_count && status == GANTRY_OK; i++) {
        status = i > 0 && operands[i].after == operands[0].after
                     ? GANTRY_OK
                     : follow(plan->cholesky, task, operands[i].after);
        if (status == GANTRY_OK && operands[i].place != NULL) {
            status = note_reader(operands[i].place, task);
        }
    }
    tile->writer = task;
    return status;
}

static gantry_status submit_column(struct plan *plan, uint32_t k)
{
    const uint32_t side = plan->cholesky->side;
    gantry_status status = submit_writer(plan, k, k, "factor", cholesky_launch_factor, NULL, 0);
    for (uint32_t i = k + 1; i < side && status == GANTRY_OK; i++) {
        const uint32_t reads[1][2] = {{k, k}};
        status = submit_writer(plan, i, k, "solve", cholesky_launch_solve, reads, 1);
    }
    for (uint32_t j = k + 1; j < side && status == GANTRY_OK; j++) {
        for (uint32_t i = j; i < side && status == GANTRY_OK; i++) {
            const uint32_t reads[2][2] = {{i, k}, {j, k}};
            status = submit_writer(plan, i, j, "update", cholesky_launch_update, reads, i == j ? 1 : 2);
        }
    }
    return status;
}

/* A run ends when all devices have done all: the tiles' last writers come after everything else. */
static gantry_status submit_end(struct cholesky *c)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_task *end;
    desc.kind = GANTRY_TASK_SYNC_POINT;
    gantry_status status = gantry_taskman_submit(c->graph, &desc, &end);
    for (uint32_t k = 0; k < c->side && status == GANTRY_OK; k++) {
        for (uint32_t i = k; i < c->side && status == GANTRY_OK; i++) {
            status = gantry_task_start_after_done(end, cholesky_tile_at(c, i, k)->writer);
        }
    }
    return status;
}

bool cholesky_submit(struct cholesky *c)
{
    struct plan plan;
    c->tasks = c->copies = 0;
    gantry_status status = plan_open(&plan, c) ? GANTRY_OK : GANTRY_ERR_OUT_OF_HOST_MEMORY;
    for (uint32_t k = 0; k < c->side && status == GANTRY_OK; k++) {
        status = submit_column(&plan, k);
    }
    plan_close(&plan);
    status = status == GANTRY_OK ? submit_end(c) : status;
    gantry_taskman_stats stats = {.struct_size = sizeof(stats)};
    status = status == GANTRY_OK ? gantry_taskman_get_stats(c->graph, &stats) : status;
    c->edges = stats.edges;
    return cholesky_ok(status == GANTRY_OK ? gantry_taskman_freeze(c->graph) : status, "the graph");
}
