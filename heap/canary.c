/* SPDX-License-Identifier: MIT */
/* Finds out whether the small tier's allocator leaves the blocks alone.
 *
 * It must never read or write the blocks that it hands out, since they may be device memory.  A build that
 * fills blocks with junk or zeros, guards against use after free, or such options in the environment would
 * break that, and not all of this can be asked for.  So the allocator is tried out once per process: a
 * throwaway tier works over ordinary memory filled with a pattern, and the pattern must be whole afterwards.
 */
#include "base/alloc.h"
#include "base/status.h"
#include "heap/small.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#define PATTERN 0xc7
#define BLOCKS 160

enum verdict {
    NOT_TRIED,
    CLEAN,
    WRITES,
};

static atomic_int verdict = NOT_TRIED; /* atomic; written once; all threads that are first write the same */

static size_t block_bytes(unsigned i)
{
    return 1 + (size_t)i * (GY_SMALL_MAX - 1) / (BLOCKS - 1);
}

/* Allocate, free in another order, purge, allocate again.  False: it ran out of its memory. */
static bool exercise(struct gy_small *small)
{
    uintptr_t blocks[BLOCKS];
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < BLOCKS; i++) {
            if (gy_small_alloc(small, block_bytes(i), GY_UNIT_BYTES, 0, &blocks[i]) != GY_SMALL_OK) {
                return false; /* blocks that are still allocated go with the arena */
            }
            if (gy_small_capacity(blocks[i]) < block_bytes(i)) {
                return false;
            }
        }
        for (unsigned i = 0; i < BLOCKS; i++) {
            unsigned k = i * 7 % BLOCKS;
            gy_small_free(small, blocks[k], block_bytes(k), 0);
        }
        gy_small_purge(small);
    }
    return true;
}

static bool is_whole(const unsigned char *memory)
{
    for (size_t i = 0; i < GY_GRANULE_BYTES; i++) {
        if (memory[i] != PATTERN) {
            return false;
        }
    }
    return true;
}

/* OK and UNSUPPORTED are the verdict; OUT_OF_HOST_MEMORY: there is none. */
static gantry_status try_out(struct gy_granules *map, struct gy_chunk *chunk, unsigned char *memory)
{
    struct gy_usage usage = {0};
    struct gy_small *small;
    chunk->region =
        (struct gy_heap_region){true, GANTRY_MEMORY_HOST, (uintptr_t)memory, GY_GRANULE_BYTES, NULL};
    if (!gy_granules_add(map, (uintptr_t)memory, GY_GRANULE_BYTES, &chunk->region)) {
        return GANTRY_ERR_OUT_OF_HOST_MEMORY;
    }
    gantry_status status =
        gy_usage_make_site(&usage, 0) ? gy_small_create(map, &usage, &small) : GANTRY_ERR_OUT_OF_HOST_MEMORY;
    if (status != GANTRY_OK) {
        gy_usage_fini(&usage);
        return status;
    }
    gy_small_add_chunk(small, chunk);
    memset(memory, PATTERN, GY_GRANULE_BYTES);
    bool worked = exercise(small);
    (void)gy_small_destroy(small);
    gy_usage_fini(&usage);
    return worked && is_whole(memory) ? GANTRY_OK : GANTRY_ERR_UNSUPPORTED;
}

/* Run try_out() with what it needs. */
static gantry_status run(void)
{
    gantry_status status = GANTRY_ERR_OUT_OF_HOST_MEMORY;
    struct gy_granules *map = gy_zalloc(sizeof(*map));
    struct gy_chunk *chunk = gy_zalloc(sizeof(*chunk));
    if (map != NULL && chunk != NULL) {
        char *mapped = mmap(NULL, 2 * GY_GRANULE_BYTES, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (mapped != MAP_FAILED) {
            status =
                try_out(map, chunk, (unsigned char *)mapped + (-(uintptr_t)mapped & (GY_GRANULE_BYTES - 1)));
            munmap(mapped, 2 * GY_GRANULE_BYTES);
        }
        gy_granules_fini(map);
    }
    gy_free(chunk);
    gy_free(map);
    return status;
}

gantry_status gy_small_probe(void)
{
    int known = atomic_load_explicit(&verdict, memory_order_acquire);
    if (known == NOT_TRIED) {
        gantry_status status = run();
        if (status == GANTRY_ERR_OUT_OF_HOST_MEMORY) {
            return GY_FAIL(status, "heap: no memory to try jemalloc out");
        }
        known = status == GANTRY_OK ? CLEAN : WRITES;
        if (atomic_exchange(&verdict, known) == NOT_TRIED && known == WRITES) {
            gy_log(GANTRY_LOG_WARNING,
                   "heap: this jemalloc (or MALLOC_CONF) touches the blocks it manages and "
                   "is not used; small blocks take whole 4 KiB pages");
        }
    }
    return known == CLEAN ? GANTRY_OK : GANTRY_ERR_UNSUPPORTED;
}
