/* SPDX-License-Identifier: MIT */
/* A workload's memory and tasks. */
#include "tests/campaign/workload.h"

#include <stdio.h>
#include <string.h>

enum { BYTES = MIX_WORDS * 4, SPLIT = 28, NAME_EVERY = 7 };

/* ---- what tasks do --------------------------------------------------------------------------- */

static struct mix mix_of(const struct node *node, bool on_device, uint32_t call)
{
    const struct workload *w = node->load;
    struct mix mix;
    memset(&mix, 0, sizeof(mix));
    for (uint32_t i = 0; i < node->outs; i++) {
        const struct cell *cell = &w->cells[node->out[i]];
        mix.out[i] = on_device ? cell->device_address : cell->memory;
    }
    for (uint32_t i = 0; i < node->ins; i++) {
        const struct cell *cell = &w->cells[node->in[i]];
        mix.in[i] = on_device ? cell->device_address : cell->memory;
    }
    mix.inputs = node->ins;
    mix.code = node->code + call;
    mix.step = on_device ? w->step_device : w->step_host;
    return mix;
}

static gantry_status run_light(gantry_task *task, void *arg)
{
    struct workload *w = arg;
    (void)task;
    atomic_fetch_add(&w->spawned, 1);
    return GANTRY_OK;
}

struct mixing {
    struct mix mix;
    uint32_t words[MIX_OUTPUTS][MIX_WORDS];
};

static gantry_status mix_range(size_t begin, size_t end, void *arg)
{
    struct mixing *mixing = arg;
    for (size_t word = begin; word < end; word++) {
        for (uint32_t i = 0; i < MIX_OUTPUTS && mixing->mix.out[i] != NULL; i++) {
            mixing->words[i][word] = mix_word(&mixing->mix, i, (uint32_t)word);
        }
    }
    return GANTRY_OK;
}

static gantry_status run_node(gantry_task *task, void *arg)
{
    const struct node *node = arg;
    struct workload *w = node->load;
    struct mixing mixing = {.mix = mix_of(node, false, 0)};
    gantry_cpu_dispatcher *cpus = w->round->cpus;
    for (uint32_t i = 0; i < SPAWNED && (node->flags & NODE_SPAWNS) != 0; i++) {
        workload_must(
            w, gantry_taskman_spawn(gantry_task_manager(task), run_light, w, "light", w->nodes[w->end].task),
            "spawn");
    }
    if ((node->flags & NODE_PARALLEL) != 0 && cpus != NULL) {
        uint32_t grain = 1 + node->code % 5;
        workload_must(w, gantry_parallel_for(cpus, 0, MIX_WORDS, grain, mix_range, &mixing), "parallel for");
    } else {
        (void)mix_range(0, MIX_WORDS, &mixing);
    }
    for (uint32_t i = 0; i < node->outs; i++) {
        memcpy(mixing.mix.out[i], mixing.words[i], BYTES);
    }
    return GANTRY_OK;
}

static void launch_mix(gantry_launch *launch, const struct node *node)
{
    const struct workload *w = node->load;
    gantry_dim3 grid = {1, 1, 1}, block = {MIX_WORDS, 1, 1};
    struct mix mix = mix_of(node, true, (uint32_t)gantry_launch_index(launch));
    uint32_t id = w->round->kernel_id, pause_ns = node->pause_ns;
    void *scratch = NULL, *profile = gantry_launch_profile(launch, id, grid);
    void *args[] = {&mix, &pause_ns, &profile, &id};
    if ((node->flags & NODE_SCRATCH) != 0 && mix.inputs < MIX_INPUTS) {
        gantry_alloc_site site = GANTRY_ALLOC_SITE("scratch");
        workload_must(w, gantry_launch_alloc(launch, GANTRY_MEMORY_DEVICE, BYTES, 0, site, &scratch),
                      "allocation in a launch");
        workload_must(w, gantry_launch_copy_dtod(launch, scratch, mix.out[0], BYTES), "copy to scratch");
        mix.in[mix.inputs++] = scratch;
    }
    workload_must(w, gantry_launch_kernel(launch, w->round->kernel, grid, block, 0, args), "kernel");
    if (scratch != NULL) {
        workload_must(w, gantry_free_after(scratch, launch), "free after");
    }
}

static void launch_copy(gantry_launch *launch, const struct node *node)
{
    const struct workload *w = node->load;
    gantry_copy_type type = node->kind == NODE_HTOD   ? GANTRY_COPY_HTOD
                            : node->kind == NODE_DTOH ? GANTRY_COPY_DTOH
                                                      : GANTRY_COPY_DTOD;
    uint8_t *to = w->cells[node->out[0]].memory, *from = w->cells[node->in[0]].memory;
    if ((node->flags & NODE_BATCHED) != 0) {
        gantry_copy_desc halves[2] = {
            {.dest = to, .source = from, .bytes = SPLIT, .type = type},
            {.dest = to + SPLIT, .source = from + SPLIT, .bytes = BYTES - SPLIT, .type = type}};
        workload_must(w, gantry_copy_launch(launch, halves, 2), "batched copy");
    } else if (node->kind == NODE_HTOD) {
        workload_must(w, gantry_launch_copy_htod(launch, to, from, BYTES), "copy to the device");
    } else if (node->kind == NODE_DTOH) {
        workload_must(w, gantry_launch_copy_dtoh(launch, to, from, BYTES), "copy to the host");
    } else {
        workload_must(w, gantry_launch_copy_dtod(launch, to, from, BYTES), "copy on the device");
    }
}

static gantry_launch_result launch_node(gantry_launch *launch, void *arg)
{
    const struct node *node = arg;
    const struct workload *w = node->load;
    if ((node->flags & NODE_ASKS) != 0) {
        workload_must(w, gantry_launch_request_sync_point(launch), "request for a sync point");
    }
    if ((node->flags & NODE_LEAVES_GRAPH) != 0) {
        workload_must(w, gantry_launch_leave_graph(launch), "leaving the graph");
    }
    if (node->kind == NODE_KERNEL) {
        launch_mix(launch, node);
    } else {
        launch_copy(launch, node);
    }
    if (gantry_launch_index(launch) + 1 < node->calls) {
        return GANTRY_LAUNCH_AGAIN;
    }
    for (uint32_t i = 0; i < w->node_count; i++) {
        if (node_set_has(&node->tells, i)) {
            workload_must(w, gantry_launch_add_completion(launch, w->nodes[i].task), "completion");
        }
    }
    return GANTRY_LAUNCH_DONE;
}

static void node_released(gantry_task *task, void *arg, gantry_status result)
{
    struct node *node = arg;
    (void)task;
    workload_must(node->load, result, "a task");
    atomic_fetch_add(&node->released, 1);
}

/* ---- the graph ------------------------------------------------------------------------------- */

static void submit_node(struct workload *w, uint32_t index, bool named)
{
    static const gantry_task_kind kinds[] = {
        [NODE_CPU] = GANTRY_TASK_CPU,     [NODE_KERNEL] = GANTRY_TASK_KERNEL,
        [NODE_HTOD] = GANTRY_TASK_HTOD,   [NODE_DTOH] = GANTRY_TASK_DTOH,
        [NODE_DTOD] = GANTRY_TASK_KERNEL, [NODE_END] = GANTRY_TASK_SYNC_POINT};
    struct node *node = &w->nodes[index];
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    char name[32];
    desc.kind = kinds[node->kind];
    desc.arg = node;
    desc.release = node_released;
    desc.label = "node";
    if (named) {
        (void)snprintf(name, sizeof(name), "node %u", index);
        desc.name = name;
    }
    if (node->kind == NODE_CPU) {
        desc.run = run_node;
        desc.priority = (gantry_task_priority)((int)draw(&w->rng, 3) - 1);
        desc.cpu_class = w->round->cpus != NULL && draw(&w->rng, 4) == 0 ? 1 : 0;
    } else if (node->kind != NODE_END) {
        bool differs = (node->flags & (NODE_SCRATCH | NODE_ASKS | NODE_LEAVES_GRAPH)) != 0;
        desc.launch = launch_node;
        desc.is_stable = w->stable && !differs && draw(&w->rng, 8) != 0;
        if (node->partition >= 0) {
            desc.partition = gantry_partition_at(w->round->context, (uint32_t)node->partition);
        }
    }
    workload_must(w, gantry_taskman_submit(w->manager, &desc, &node->task), "submit");
}

static void order(struct workload *w, gantry_task *before, gantry_task *after, bool from_before)
{
    workload_must(
        w, from_before ? gantry_task_finish_before(before, after) : gantry_task_start_after(after, before),
        "edge");
}

static void submit_edges(struct workload *w, uint32_t index)
{
    struct node *node = &w->nodes[index];
    bool in_bracket = w->launch_tasks && node->kind != NODE_CPU && node->kind != NODE_END;
    gantry_task *task = w->launch_tasks && index == w->end ? w->bracket.post_launch : node->task;
    uint32_t edges = 0;
    for (uint32_t i = 0; i < w->node_count; i++) {
        if (node_set_has(&node->before, i)) {
            order(w, w->nodes[i].task, task, edges++ % 2 != 0);
        }
    }
    if (task != node->task) {
        order(w, w->bracket.finished, node->task, false);
    } else if (in_bracket && edges == 0) {
        order(w, w->bracket.pre_launch, task, false);
    }
}

static void drop_references(struct workload *w)
{
    uint32_t first = draw(&w->rng, w->node_count);
    if (w->launch_tasks) {
        workload_must(w, gantry_task_remove_reference(w->bracket.pre_launch), "reference");
        workload_must(w, gantry_task_remove_reference(w->bracket.post_launch), "reference");
        workload_must(w, gantry_task_remove_reference(w->bracket.finished), "reference");
    }
    for (uint32_t i = 0; i < w->node_count; i++) {
        workload_must(w, gantry_task_remove_reference(w->nodes[(first + i) % w->node_count].task),
                      "reference");
    }
}

void workload_build(struct workload *load, bool late)
{
    for (uint32_t i = 0; i < load->node_count; i++) {
        submit_node(load, i, i % NAME_EVERY == 0 && !late);
    }
    if (load->launch_tasks) {
        load->bracket.struct_size = sizeof(load->bracket);
        workload_must(load, gantry_taskman_submit_launch_tasks(load->manager, &load->bracket),
                      "launch tasks");
    }
    for (uint32_t i = 0; i < load->node_count; i++) {
        submit_edges(load, i);
    }
    if (late) {
        drop_references(load);
    }
}

uint32_t workload_gpu_tasks(const struct workload *load)
{
    uint32_t count = load->launch_tasks ? 1 : 0; /* post_launch */
    for (uint32_t i = 0; i < load->end; i++) {
        count += load->nodes[i].kind != NODE_CPU ? 1 : 0;
    }
    return count;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void *alloc(struct workload *w, gantry_memory_kind kind, size_t bytes)
{
    void *memory = NULL;
    workload_must(w,
                  gantry_heap_alloc(gantry_context_heap(w->round->context), kind, bytes, 0,
                                    GANTRY_ALLOC_SITE("workload"), &memory),
                  "allocation");
    return memory;
}

static void *device_address(struct workload *w, void *memory)
{
    void *address = NULL;
    workload_must(w, gantry_heap_device_address(gantry_context_heap(w->round->context), memory, &address),
                  "device address");
    return address;
}

static gantry_launch_result launch_fill(gantry_launch *launch, void *arg)
{
    const struct workload *w = arg;
    for (uint32_t i = 0; i < w->cell_count; i++) {
        const struct cell *cell = &w->cells[i];
        gantry_copy_desc fill = {.dest = cell->memory,
                                 .bytes = BYTES,
                                 .type = GANTRY_COPY_FILL,
                                 .pattern_bytes = 4,
                                 .pattern = cell->expected[0]};
        if (cell->on_device && i % 2 == 0) {
            workload_must(w, gantry_copy_launch(launch, &fill, 1), "fill as a batch");
        } else if (cell->on_device) {
            workload_must(w, gantry_launch_fill(launch, cell->memory, cell->expected[0], 4, MIX_WORDS),
                          "fill");
        }
    }
    workload_must(w, gantry_launch_add_completion(launch, w->nodes[w->end].task), "completion");
    return GANTRY_LAUNCH_DONE;
}

/* The task is a step of its own. */
static void fill_device(struct workload *w)
{
    gantry_task_desc descs[2] = {GANTRY_TASK_DESC_INIT, GANTRY_TASK_DESC_INIT};
    gantry_task *tasks[2];
    descs[0].kind = GANTRY_TASK_KERNEL;
    descs[0].launch = launch_fill;
    descs[0].arg = w;
    descs[1].kind = GANTRY_TASK_SYNC_POINT;
    workload_must(w, gantry_taskman_submit_chain(w->manager, descs, 2, tasks), "chain");
    w->nodes[w->end].task = tasks[1];
    workload_must(w, gantry_taskman_start(w->manager), "start");
    workload_must(w, gantry_taskman_stop(w->manager), "stop");
    workload_must(w, gantry_taskman_reset(w->manager), "reset");
}

void workload_open_memory(struct workload *load)
{
    load->step_host = alloc(load, GANTRY_MEMORY_PINNED, sizeof(*load->step_host));
    load->step_device = device_address(load, load->step_host);
    for (uint32_t i = 0; i < load->cell_count; i++) {
        struct cell *cell = &load->cells[i];
        cell->memory = alloc(load, cell->on_device ? GANTRY_MEMORY_DEVICE : GANTRY_MEMORY_PINNED, BYTES);
        cell->device_address = cell->on_device ? cell->memory : device_address(load, cell->memory);
        if (!cell->on_device) {
            memcpy(cell->memory, cell->expected, BYTES);
        }
    }
    fill_device(load);
}

void workload_close_memory(struct workload *load)
{
    gantry_heap *heap = gantry_context_heap(load->round->context);
    for (uint32_t i = 0; i < load->cell_count; i++) {
        workload_must(load, gantry_heap_free(heap, load->cells[i].memory), "free");
    }
    workload_must(load, gantry_heap_free(heap, load->step_host), "free");
}
