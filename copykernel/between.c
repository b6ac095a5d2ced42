/* SPDX-License-Identifier: MIT */
/* Copies between devices: how they go, and the count of those that went. */
#include "copykernel/between.h"

#include "base/options.h"
#include "copykernel/tuning.h"

gantry_copy_peer_tuning gy_copier_peer_tuning(struct gy_copier *copier, uint32_t peer)
{
    gantry_copy_peer_tuning tuning;
    gy_mutex_lock(&copier->lock);
    tuning = copier->peers[peer];
    gy_mutex_unlock(&copier->lock);
    if (tuning.struct_size == 0) {
        gy_copy_peer_defaults(&tuning);
    }
    return tuning;
}

void gy_copier_set_peer_tuning(struct gy_copier *copier, uint32_t peer, const gantry_copy_peer_tuning *tuning)
{
    gantry_copy_peer_tuning defaults;
    uint32_t takes_one = 0;
    gy_copy_peer_defaults(&defaults);
    for (uint32_t c = 0; c < GANTRY_COPY_SIZE_CLASSES; c++) {
        takes_one |= (uint32_t)(tuning->engine_up_to[0][c] == 0) << c;
        takes_one |= (uint32_t)(tuning->engine_up_to[1][c] == 0) << (GANTRY_COPY_SIZE_CLASSES + c);
    }
    gy_mutex_lock(&copier->lock);
    copier->peers[peer] = *tuning;
    copier->peers[peer].struct_size = sizeof(*tuning);
    copier->peers[peer].blocks = tuning->blocks != 0 ? tuning->blocks : defaults.blocks;
    atomic_store_explicit(&copier->takes_one[peer], takes_one, memory_order_relaxed);
    gy_mutex_unlock(&copier->lock);
}

bool gy_copier_takes_one(const struct gy_copier *copier, uint32_t peer, bool is_pull, uint64_t bytes)
{
    const uint32_t bit = gy_copy_size_class(bytes) + (is_pull ? GANTRY_COPY_SIZE_CLASSES : 0);
    return (atomic_load_explicit(&copier->takes_one[peer], memory_order_relaxed) >> bit & 1) != 0;
}

void gy_copier_make_between(struct gy_copier *copier, const struct gy_copy_way *way, uint32_t peer,
                            bool is_pull, struct gy_copy_between *out)
{
    const gantry_copy_peer_tuning tuning = gy_copier_peer_tuning(copier, peer);
    out->way = *way;
    gy_copy_tuning_between(&out->way.tuning, &tuning, is_pull, way->multiprocessors);
}

bool gy_copier_find_between(struct gy_copier *copier, size_t count, const struct gy_copy_way *way,
                            struct gy_copy_between *out)
{
    const struct gy_copy_item *first = NULL;
    out->copies = out->bytes = 0;
    for (size_t i = 0; i < count; i++) {
        const struct gy_copy_item *item = &copier->items[i];
        if (item->is_peer) {
            first = first != NULL ? first : item;
            out->copies++;
            out->bytes += item->bytes;
        }
    }
    if (first == NULL) {
        return false;
    }
    gy_copier_make_between(copier, way, first->peer, first->is_pull, out);
    return true;
}

void gy_copy_note_between(const struct gy_copy_between *between, enum gy_copy_by by)
{
    if (between->way.went != NULL) {
        between->way.went->copies[by] += between->copies;
        between->way.went->bytes[by] += between->bytes;
    }
}
