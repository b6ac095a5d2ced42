/* SPDX-License-Identifier: MIT */
#include "profile/outlet.h"

#include "base/alloc.h"

/* Chunks that are kept back for the ticket whose turn it is. */
#define KEPT_BACK 1u
/* The most chunks that are written at once; threads that wait for chunks are woken up after that. */
#define WRITTEN_AT_ONCE 8u

static struct gy_outlet_chunk *make_chunk(const struct gy_outlet *outlet)
{
    struct gy_outlet_chunk *chunk =
        gy_alloc_aligned(sizeof(*chunk), 64); /* the memory is not touched before it is used */
    if (chunk == NULL) {
        return NULL;
    }
    chunk->packed = NULL;
    if (outlet->file.compresses) {
        chunk->packed = gy_alloc_aligned(gy_trace_file_room(GY_CHUNK_BYTES), 64);
        if (chunk->packed == NULL) {
            gy_free(chunk);
            return NULL;
        }
    }
    return chunk;
}

static void free_chunk(struct gy_outlet_chunk *chunk)
{
    if (chunk != NULL) {
        gy_free(chunk->packed);
        gy_free(chunk);
    }
}

static void free_chunks(struct gy_outlet *outlet)
{
    while (outlet->free != NULL) {
        struct gy_outlet_chunk *next = outlet->free->next;
        free_chunk(outlet->free);
        outlet->free = next;
    }
}

static void add_free(struct gy_outlet *outlet, struct gy_outlet_chunk *chunk) GY_REQUIRES(outlet->lock)
{
    chunk->used = 0;
    chunk->packed_bytes = 0;
    chunk->next = outlet->free;
    outlet->free = chunk;
    outlet->free_count++;
}

/* Make the chunks that are needed at least; more are made when they are needed. */
static bool make_first_chunks(struct gy_outlet *outlet)
{
    bool good = true;
    gy_mutex_lock(&outlet->lock);
    for (; outlet->made < 3 && good; outlet->made += good) {
        struct gy_outlet_chunk *chunk = make_chunk(outlet);
        good = chunk != NULL;
        if (good) {
            add_free(outlet, chunk);
        }
    }
    gy_mutex_unlock(&outlet->lock);
    return good;
}

gantry_status gy_outlet_open(struct gy_outlet *outlet, const char *path, bool compress, uint32_t chunks)
{
    gantry_status status = gy_guard_init(&outlet->lock, GY_RANK_LEAF, &outlet->moved);
    if (status != GANTRY_OK) {
        return status;
    }
    outlet->most = chunks;
    status = gy_trace_file_open(&outlet->file, path, compress);
    if (status != GANTRY_OK) {
        gy_guard_fini(&outlet->lock, &outlet->moved);
        return status;
    }
    if (!make_first_chunks(outlet)) {
        (void)gy_outlet_close(outlet, NULL, NULL);
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "profile: no memory for a trace writer");
    }
    return GANTRY_OK;
}

uint64_t gy_outlet_ticket(struct gy_outlet *outlet)
{
    gy_mutex_lock(&outlet->lock);
    while (outlet->given - outlet->turn == GY_OUTLET_TICKETS) {
        gy_cond_wait(&outlet->moved, &outlet->lock);
    }
    uint64_t ticket = outlet->given++;
    gy_mutex_unlock(&outlet->lock);
    return ticket;
}

/* Make one more chunk, if there may be one more. */
static void make_more(struct gy_outlet *outlet) GY_REQUIRES(outlet->lock)
{
    if (outlet->made == outlet->most) {
        return;
    }
    outlet->made++;
    gy_mutex_unlock(&outlet->lock); /* the allocator may be the application's */
    struct gy_outlet_chunk *chunk = make_chunk(outlet);
    gy_mutex_lock(&outlet->lock);
    if (chunk == NULL) { /* continue with the chunks that exist */
        outlet->most = --outlet->made;
    } else {
        add_free(outlet, chunk);
    }
}

/* Take a chunk for the ticket; NULL: it has to wait. */
static struct gy_outlet_chunk *take_free(struct gy_outlet *outlet, uint64_t ticket) GY_REQUIRES(outlet->lock)
{
    if (outlet->free_count <= (ticket == outlet->turn ? 0 : KEPT_BACK)) {
        make_more(outlet);
    }
    struct gy_outlet_chunk *chunk = NULL;
    if (outlet->free_count > (ticket == outlet->turn ? 0 : KEPT_BACK)) { /* the turn may have changed */
        chunk = outlet->free;
        outlet->free = chunk->next;
        outlet->free_count--;
    }
    return chunk;
}

struct gy_outlet_chunk *gy_outlet_take(struct gy_outlet *outlet, uint64_t ticket)
{
    struct gy_outlet_chunk *chunk;
    gy_mutex_lock(&outlet->lock);
    while ((chunk = take_free(outlet, ticket)) == NULL) {
        gy_cond_wait(&outlet->moved, &outlet->lock);
    }
    gy_mutex_unlock(&outlet->lock);
    return chunk;
}

/* Take the chunks that come next, at most some, from the places where they wait. */
static struct gy_outlet_chunk *take_next(struct gy_outlet *outlet) GY_REQUIRES(outlet->lock)
{
    struct gy_outlet_chunk *first = NULL, **last = &first;
    for (uint32_t count = 0; count < WRITTEN_AT_ONCE;) {
        struct gy_outlet_place *place = &outlet->waiting[outlet->turn % GY_OUTLET_TICKETS];
        if (place->first != NULL) {
            *last = place->first;
            place->first = (*last)->next;
            last = &(*last)->next;
            count++;
        } else if (place->complete) {
            place->complete = false;
            outlet->turn++;
        } else {
            break;
        }
    }
    *last = NULL;
    return first;
}

/* Write the chunks that come next, and those that wait behind them, unless another thread does. */
static void write_waiting(struct gy_outlet *outlet) GY_REQUIRES(outlet->lock)
{
    struct gy_outlet_chunk *first;
    while (!outlet->writing && (first = take_next(outlet)) != NULL) {
        outlet->writing = true;
        gy_mutex_unlock(&outlet->lock);
        for (struct gy_outlet_chunk *chunk = first; chunk != NULL; chunk = chunk->next) {
            gy_trace_file_write(&outlet->file, chunk->packed_bytes != 0 ? chunk->packed : chunk->bytes,
                                chunk->packed_bytes != 0 ? chunk->packed_bytes : chunk->used);
        }
        gy_mutex_lock(&outlet->lock);
        outlet->writing = false;
        while (first != NULL) {
            struct gy_outlet_chunk *next = first->next;
            add_free(outlet, first);
            first = next;
        }
        gy_cond_broadcast(&outlet->moved);
    }
}

void gy_outlet_put(struct gy_outlet *outlet, uint64_t ticket, struct gy_outlet_chunk *chunk, bool last)
{
    uint32_t at = ticket % GY_OUTLET_TICKETS;
    if (outlet->file.compresses) {
        chunk->packed_bytes = gy_trace_file_pack(chunk->bytes, chunk->used, chunk->packed);
    }
    gy_mutex_lock(&outlet->lock);
    chunk->next = NULL;
    if (outlet->waiting[at].first == NULL) {
        outlet->waiting[at].first = chunk;
    } else {
        outlet->waiting[at].last->next = chunk;
    }
    outlet->waiting[at].last = chunk;
    outlet->waiting[at].complete = last;
    write_waiting(outlet);
    gy_mutex_unlock(&outlet->lock);
}

gantry_status gy_outlet_close(struct gy_outlet *outlet, struct gy_outlet_chunk *left, uint64_t *bytes)
{
    gantry_status status = gy_trace_file_close(&outlet->file, bytes);
    free_chunk(left);
    free_chunks(outlet);
    gy_guard_fini(&outlet->lock, &outlet->moved);
    return status;
}
