/* SPDX-License-Identifier: MIT */
/* The heap and its reclaimer; batched copies. */
#include "tests/campaign/scene.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static bool open_context(gantry_context **out)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.mode = GANTRY_CONTEXT_OWN;
    return SCENE_MAKE(*out, gantry_context_create(&options, out));
}

/* ---- heap ------------------------------------------------------------------------------------ */

static void count_release(void *arg)
{
    atomic_fetch_add((atomic_uint *)arg, 1);
}

/* These calls only report the present state. */
static bool ask(gantry_heap *heap, gantry_memory_kind kind, void *block, size_t bytes)
{
    gantry_heap_stats stats = {.struct_size = sizeof(stats)};
    gantry_heap_tag_stats tags[4];
    gantry_heap_block found = {.struct_size = sizeof(found)};
    size_t count = 77;
    if (gantry_heap_get_stats(heap, kind, &stats) != GANTRY_OK || stats.used_bytes < bytes) {
        scene_broken("statistics lack a block of %zu bytes", bytes);
    }
    if (gantry_heap_find_block(heap, (char *)block + bytes - 1, &found) != GANTRY_OK || found.base != block) {
        scene_broken("a block is not found");
    }
    gantry_status status = gantry_heap_get_tag_stats(heap, kind, tags, 4, &count);
    if (status != GANTRY_OK && count != 77) {
        scene_broken("gantry_heap_get_tag_stats() failed and wrote its output");
    }
    FILE *sink = fopen("/dev/null", "w");
    bool good = scene_ok(status, "tag statistics");
    good = good && sink != NULL && scene_ok(gantry_heap_dump(heap, kind, sink), "dump") &&
           scene_ok(gantry_heap_write_json(heap, true, sink), "JSON");
    if (sink != NULL) {
        (void)fclose(sink);
    }
    return good;
}

static bool use_kind(gantry_heap *heap, gantry_memory_kind kind)
{
    static const size_t sizes[] = {16, 700, 5000, 20000, 300000, 3u << 20};
    enum { BLOCKS = sizeof(sizes) / sizeof(sizes[0]) };
    void *blocks[BLOCKS] = {NULL};
    bool good = scene_ok(gantry_heap_reserve(heap, kind, 1u << 20), "reserve");
    for (size_t i = 0; i < BLOCKS && good; i++) {
        good = SCENE_MAKE(blocks[i],
                          gantry_heap_alloc(heap, kind, sizes[i], 0, GANTRY_ALLOC_SITE("scene"), &blocks[i]));
        if (good && kind != GANTRY_MEMORY_DEVICE) {
            memset(blocks[i], 1, sizes[i]);
        }
        good = good && ask(heap, kind, blocks[i], sizes[i]);
    }
    if (good && gantry_heap_resize(heap, blocks[4], 200000) != GANTRY_OK) {
        scene_broken("a block cannot shrink: %s", gantry_last_error());
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        if (gantry_heap_free(heap, blocks[i]) != GANTRY_OK) {
            scene_broken("free: %s", gantry_last_error());
        }
    }
    return scene_ok(gantry_heap_trim(heap, kind, 0, NULL), "trim") && good;
}

static bool use_heap(gantry_heap *heap)
{
    atomic_uint released = 0;
    bool good = true;
    for (int kind = 0; kind < GANTRY_MEMORY_KIND_COUNT && good; kind++) {
        good = use_kind(heap, (gantry_memory_kind)kind);
    }
    for (int i = 0; i < 5; i++) {
        if (gantry_heap_reclaim(heap, count_release, &released, 1000) != GANTRY_OK) {
            scene_broken("reclaim: %s", gantry_last_error());
        }
    }
    if (gantry_heap_reclaim_wait(heap) != GANTRY_OK || atomic_load(&released) != 5) {
        scene_broken("%u of 5 releases were called", atomic_load(&released));
    }
    return good;
}

int scene_heap(void)
{
    gantry_context *context = NULL;
    bool good = open_context(&context) && use_heap(gantry_context_heap(context));
    gantry_context_destroy(context);
    return good ? 0 : 1;
}

/* ---- copies ---------------------------------------------------------------------------------- */

enum { WORDS = 512, ROUNDS = 3 };

struct copies {
    gantry_context *context;
    gantry_taskman *manager;
    gantry_copy_queue *queue;
    uint32_t *host, *device;
    gantry_task *end;
};

static gantry_launch_result done_if(gantry_status status)
{
    return status == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static gantry_launch_result calibrate(gantry_launch *launch, void *arg)
{
    (void)arg;
    return done_if(gantry_copy_calibrate(launch, 64u << 10));
}

/* Copy word by word to the device, all of it within the device, and back. */
static gantry_launch_result flush(gantry_launch *launch, void *arg)
{
    struct copies *c = arg;
    gantry_status status = GANTRY_OK;
    for (uint32_t i = 0; i < WORDS && status == GANTRY_OK; i++) {
        uint32_t to = (i * 5) % WORDS; /* neighbours do not continue each other */
        gantry_copy_desc desc = {.dest = c->device + to, .source = c->host + to, .bytes = 4};
        status = gantry_copy_queue_enqueue(c->queue, &desc);
    }
    gantry_copy_desc across = {c->device + WORDS, c->device, WORDS * 4, GANTRY_COPY_DTOD, 0, 0};
    gantry_copy_desc back = {c->host + WORDS, c->device + WORDS, WORDS * 4, GANTRY_COPY_DTOH, 0, 0};
    if (status == GANTRY_OK) {
        status = gantry_copy_queue_enqueue(c->queue, &across);
    }
    if (status == GANTRY_OK) {
        status = gantry_copy_queue_enqueue(c->queue, &back);
    }
    if (status == GANTRY_OK) {
        status = gantry_copy_queue_flush(c->queue, launch);
    }
    gantry_copy_queue_clear(c->queue);
    void *scratch;
    if (status == GANTRY_OK) {
        status = gantry_launch_alloc(launch, GANTRY_MEMORY_DEVICE, 1000, 0, GANTRY_ALLOC_SITE("scratch"),
                                     &scratch);
    }
    if (status == GANTRY_OK) {
        status = gantry_launch_fill(launch, scratch, 1, 1, 1000);
        gantry_status freed = gantry_free_after(scratch, launch);
        status = status == GANTRY_OK ? freed : status;
    }
    return done_if(status == GANTRY_OK ? gantry_launch_add_completion(launch, c->end) : status);
}

static gantry_status look(gantry_task *task, void *arg)
{
    (void)task;
    const struct copies *c = arg;
    if (memcmp(c->host, c->host + WORDS, WORDS * 4) != 0) {
        scene_broken("the copies are wrong");
    }
    return GANTRY_OK;
}

static bool submit(struct copies *c, gantry_task_kind kind, gantry_launch_fn launch, gantry_task *before,
                   gantry_task **out)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.kind = kind;
    desc.launch = launch;
    desc.run = kind == GANTRY_TASK_CPU ? look : NULL;
    desc.arg = c;
    return SCENE_MAKE(*out, gantry_taskman_submit(c->manager, &desc, out)) &&
           (before == NULL || scene_ok(gantry_task_start_after(*out, before), "after"));
}

static bool run_copies(struct copies *c, bool calibrates)
{
    gantry_task *first = NULL, *second = NULL;
    memset(c->host, 0, 2 * WORDS * 4);
    for (uint32_t i = 0; i < WORDS; i++) {
        c->host[i] = i * 3;
    }
    bool good = (!calibrates || submit(c, GANTRY_TASK_KERNEL, calibrate, NULL, &first)) &&
                submit(c, GANTRY_TASK_HTOD, flush, first, &second) &&
                submit(c, GANTRY_TASK_CPU, NULL, second, &c->end);
    good = good && scene_ok(gantry_taskman_start(c->manager), "start") &&
           scene_ok(gantry_taskman_stop(c->manager), "stop");
    if (gantry_taskman_reset(c->manager) != GANTRY_OK) {
        scene_broken("reset: %s", gantry_last_error());
    }
    return good;
}

static bool open_copies(struct copies *c)
{
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_alloc_site site = GANTRY_ALLOC_SITE("scene");
    void *host = NULL, *device = NULL;
    if (!open_context(&c->context)) {
        return false;
    }
    options.gpu_dispatcher = gantry_context_dispatcher(c->context);
    gantry_heap *heap = gantry_context_heap(c->context);
    bool good =
        SCENE_MAKE(c->manager, gantry_taskman_create(&options, &c->manager)) &&
        SCENE_MAKE(c->queue, gantry_copy_queue_create(4, &c->queue)) &&
        SCENE_MAKE(host, gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, 2 * WORDS * 4, 0, site, &host)) &&
        SCENE_MAKE(device, gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, 2 * WORDS * 4, 0, site, &device));
    c->host = host;
    c->device = device;
    return good;
}

int scene_copies(void)
{
    struct copies c = {.context = NULL};
    bool good = open_copies(&c);
    for (int i = 0; i < ROUNDS && good; i++) {
        good = run_copies(&c, i == 0); /* the part that calibrates makes the most calls of all */
    }
    gantry_taskman_destroy(c.manager);
    gantry_copy_queue_destroy(c.queue);
    gantry_context_destroy(c.context); /* with its blocks */
    return good ? 0 : 1;
}
