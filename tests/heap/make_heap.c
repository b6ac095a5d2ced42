/* SPDX-License-Identifier: MIT */
/* make_heap OUT BLOCKS: allocate random blocks of all kinds, print each block that lives at the end as
 * "kind<TAB>address<TAB>bytes<TAB>tag", and write the heap into OUT; BLOCKS is "blocks" or "sums".
 * make_heap full: allocate device memory until there is no more.
 * make_heap short: the same, and when there is none, host memory ends, too. */
#include <gantry/gantry.h>

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 3000u

static const char *const tags[] = {"weights", "say \"hi\" \\ <b>", "t\303\244g"};

struct block {
    gantry_memory_kind kind;
    void *at;
    size_t bytes;
    const char *tag;
};

static bool take(gantry_heap *heap, struct block *block)
{
    const uint32_t chance = (uint32_t)rand();
    block->kind = (gantry_memory_kind)(chance % GANTRY_MEMORY_KIND_COUNT);
    block->bytes = 1 + (chance % 7 == 0 ? (size_t)rand() % (3u << 20) : (size_t)rand() % 20000);
    block->tag = tags[chance / 8 % 3];
    const gantry_alloc_site sites[] = {GANTRY_ALLOC_SITE(block->tag), {block->tag, NULL, 0}};
    return gantry_heap_alloc(heap, block->kind, block->bytes, 0, sites[chance / 64 % 2], &block->at) ==
           GANTRY_OK;
}

/* ---- host memory that ends ------------------------------------------------------------------- */

static atomic_bool has_ended;

static void *allocate(void *user, size_t bytes, size_t alignment)
{
    (void)user;
    void *block = NULL;
    return !has_ended && posix_memalign(&block, alignment, bytes) == 0 ? block : NULL;
}

static void release(void *user, void *pointer, size_t bytes)
{
    (void)user;
    (void)bytes;
    free(pointer);
}

static bool end_host_memory(void *user, gantry_heap *heap, gantry_memory_kind kind, size_t bytes)
{
    (void)user;
    (void)heap;
    (void)kind;
    (void)bytes;
    has_ended = true;
    return false;
}

static int fill(gantry_heap *heap)
{
    gantry_heap_settings settings = {.struct_size = sizeof(settings), .limit_bytes = (size_t)16 << 20};
    gantry_status status = gantry_heap_configure(heap, GANTRY_MEMORY_DEVICE, &settings);
    void *at;
    while (status == GANTRY_OK) {
        status =
            gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, 1 << 20, 0, GANTRY_ALLOC_SITE("too much"), &at);
    }
    return status == GANTRY_ERR_OUT_OF_DEVICE_MEMORY ? 0 : 1;
}

static int make(gantry_heap *heap, const char *path, bool with_blocks)
{
    static struct block blocks[MOST];
    bool good = true;
    for (uint32_t i = 0; good && i < MOST; i++) {
        good = take(heap, &blocks[i]);
        if (good && i % 3 == 1) {
            good = gantry_heap_free(heap, blocks[i / 2].at) == GANTRY_OK;
            blocks[i / 2].at = NULL;
            good = good && (i / 2 == 0 || blocks[i / 2 - 1].at == NULL || take(heap, &blocks[i / 2]));
        }
    }
    for (uint32_t i = 0; i < MOST; i++) {
        if (blocks[i].at != NULL) {
            printf("%d\t%" PRIuPTR "\t%zu\t%s\n", (int)blocks[i].kind, (uintptr_t)blocks[i].at,
                   blocks[i].bytes, blocks[i].tag);
        }
    }
    FILE *out = good ? fopen(path, "w") : NULL;
    good = out != NULL && gantry_heap_write_json(heap, with_blocks, out) == GANTRY_OK;
    return out != NULL && fclose(out) == 0 && good ? 0 : 1;
}

int main(int argc, char **argv)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_heap_options heaps = GANTRY_HEAP_OPTIONS_INIT;
    const gantry_allocator allocator = {sizeof(allocator), allocate, release, NULL};
    gantry_context *context;
    options.driver = GANTRY_DRIVER_EMULATED;
    srand(7);
    if (argc == 2 && strcmp(argv[1], "short") == 0) {
        heaps.out_of_memory = end_host_memory;
        options.heap = &heaps;
        if (gantry_set_allocator(&allocator) != GANTRY_OK) {
            return 2;
        }
    }
    if (argc < 2 || gantry_context_create(&options, &context) != GANTRY_OK) {
        return 2;
    }
    gantry_heap *heap = gantry_context_heap(context);
    const int status = argc == 2 ? fill(heap) : make(heap, argv[1], strcmp(argv[2], "blocks") == 0);
    if (status != 0) {
        fprintf(stderr, "%s\n", gantry_last_error());
    }
    has_ended = false;
    gantry_set_log(NULL, NULL, GANTRY_LOG_ERROR); /* the blocks are not freed */
    gantry_context_destroy(context);
    return status;
}
