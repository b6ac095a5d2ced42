/* SPDX-License-Identifier: MIT */
#include "emulator/places.h"

#include "base/alloc.h"

/* Measured: a lattice of 8 rows of 8 nodes, with 56 edges that lead from branch to branch, takes 19.5. */
#define CROSSINGS_PER_PLACE 5u
#define NODES_PER_PLACE 96u

CUresult gy_emu_places_take(struct gy_emu_context *root, uint32_t count)
{
    void *const handle = (void *)root->object.handle;
    root->places_used += count;
    if (root->places_used <= root->places_room) {
        return CUDA_SUCCESS;
    }
    const CUresult result = gy_emu_root_drain(root, NULL);
    root = gy_emu_handle_find(GY_EMU_CONTEXT, handle);
    if (root == NULL) {
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
    if (result != CUDA_SUCCESS) {
        root->places_used -= count;
        return result;
    }
    while (root->places_room < root->places_used) {
        root->places_room += GY_EMU_PLACES_MORE;
    }
    return CUDA_SUCCESS;
}

void gy_emu_places_give(uintptr_t handle, uint32_t count)
{
    struct gy_emu_context *root = gy_emu_handle_find(GY_EMU_CONTEXT, (void *)handle);
    if (root != NULL) {
        root->places_used -= count;
    }
}

/* Follow each branch as far as it has nodes that are nobody else's: a node goes on with the first node before
 * it that nobody has gone on with. */
uint32_t gy_emu_places_of_graph(const struct gy_emu_graph *graph)
{
    bool *has_next = gy_zalloc_array((size_t)graph->count + 1, sizeof(*has_next));
    uint32_t branches = 0, edges = 0;
    for (uint32_t i = 0; i < graph->count; i++) {
        const struct gy_emu_node *node = graph->nodes[i];
        bool is_new = node->work.kind != GY_EMU_WORK_EMPTY;
        edges += node->dependency_count;
        for (uint32_t d = 0; d < node->dependency_count && has_next != NULL && is_new; d++) {
            is_new = has_next[node->dependencies[d]->index];
            has_next[node->dependencies[d]->index] = true;
        }
        branches += is_new;
    }
    gy_free(has_next);
    const uint32_t along = graph->count - branches;
    return branches + (edges > along ? (edges - along) / CROSSINGS_PER_PLACE : 0) +
           graph->count / NODES_PER_PLACE;
}
