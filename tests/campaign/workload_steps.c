/* SPDX-License-Identifier: MIT */
/* A workload's steps: the contents that every cell must have, and the comparison. */
#include "tests/campaign/workload.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const patterns[] = {
    [PATTERN_TRIVIAL] = "trivial",
    [PATTERN_STENCIL] = "stencil",
    [PATTERN_FFT] = "fft",
    [PATTERN_TREE] = "tree",
    [PATTERN_RANDOM_ROWS] = "random rows",
    [PATTERN_DOM] = "dom",
    [PATTERN_ALL_TO_ALL] = "all to all",
    [PATTERN_CHOLESKY] = "cholesky",
    [PATTERN_LU] = "lu",
    [PATTERN_QR] = "qr",
    [PATTERN_WAVEFRONT] = "wavefront",
    [PATTERN_MAP_REDUCE] = "map reduce",
    [PATTERN_PING_PONG] = "ping pong",
    [PATTERN_RANDOM_GRAPH] = "random graph",
};

void workload_broken(const struct workload *load, const char *format, ...)
{
    static const char *const modes[] = {"fresh", "late", "frozen", "run"};
    va_list args;
    va_start(args, format);
    flockfile(stderr);
    fprintf(stderr, "seed %llu (%s)", (unsigned long long)load->round->seed, load->round->options);
    if (load->node_count != 0) {
        fprintf(stderr, ", pattern %s, mode %s%s%s%s, step %u", patterns[load->pattern], modes[load->mode],
                load->mixed ? ", mixed" : "", load->stable ? ", stable" : "",
                load->launch_tasks ? ", launch tasks" : "", load->step);
    }
    fprintf(stderr, ": ");
    (void)vfprintf(stderr, format, args);
    fprintf(stderr, "\nrepeat with --first %llu --seeds 1 --steps %u\n",
            (unsigned long long)load->round->seed, load->round->steps);
    va_end(args);
    _exit(1);
}

void workload_must(const struct workload *load, gantry_status status, const char *what)
{
    if (status != GANTRY_OK) {
        workload_broken(load, "%s: %s: %s", what, gantry_status_name(status), gantry_last_error());
    }
}

/* ---- the sequential run ---------------------------------------------------------------------- */

static void expect_mix(struct workload *w, const struct node *node, uint32_t call)
{
    uint32_t words[MIX_OUTPUTS][MIX_WORDS];
    struct mix mix;
    memset(&mix, 0, sizeof(mix));
    for (uint32_t i = 0; i < node->outs; i++) {
        mix.out[i] = w->cells[node->out[i]].expected;
    }
    for (uint32_t i = 0; i < node->ins; i++) {
        mix.in[i] = w->cells[node->in[i]].expected;
    }
    mix.inputs = node->ins;
    mix.code = node->code + call;
    mix.step = &w->step;
    if (node->kind == NODE_KERNEL && (node->flags & NODE_SCRATCH) != 0 && mix.inputs < MIX_INPUTS) {
        mix.in[mix.inputs++] = mix.out[0];
    }
    for (uint32_t i = 0; i < node->outs; i++) {
        for (uint32_t word = 0; word < MIX_WORDS; word++) {
            words[i][word] = mix_word(&mix, i, word);
        }
    }
    for (uint32_t i = 0; i < node->outs; i++) {
        memcpy(mix.out[i], words[i], sizeof(words[i]));
    }
}

static void expect_step(struct workload *w)
{
    for (uint32_t i = 0; i < w->end; i++) {
        const struct node *node = &w->nodes[i];
        if (node->kind == NODE_CPU || node->kind == NODE_KERNEL) {
            for (uint32_t call = 0; call < node->calls; call++) {
                expect_mix(w, node, call);
            }
        } else {
            memcpy(w->cells[node->out[0]].expected, w->cells[node->in[0]].expected, MIX_WORDS * 4);
        }
        w->spawned_expected += node->kind == NODE_CPU && (node->flags & NODE_SPAWNS) != 0 ? SPAWNED : 0;
    }
}

static void check_step(struct workload *w)
{
    for (uint32_t i = 0; i < w->node_count; i++) {
        uint32_t released = atomic_load(&w->nodes[i].released);
        if (released != w->step + 1) {
            workload_broken(w, "node %u was released %u times in all", i, released);
        }
    }
    for (uint32_t i = 0; i < w->cell_count; i++) {
        const struct cell *cell = &w->cells[i];
        for (uint32_t word = 0; word < MIX_WORDS && !cell->on_device; word++) {
            uint32_t is = ((const uint32_t *)cell->memory)[word];
            if (is != cell->expected[word]) {
                workload_broken(w, "cell %u, word %u is %x, not %x", i, word, is, cell->expected[word]);
            }
        }
    }
    if (atomic_load(&w->spawned) != w->spawned_expected) {
        workload_broken(w, "%u light tasks ran, not %u", atomic_load(&w->spawned), w->spawned_expected);
    }
}

/* ---- steps ----------------------------------------------------------------------------------- */

void workload_begin(struct workload *load, uint32_t step)
{
    load->step = step;
    *load->step_host = step;
    expect_step(load);
    if (load->mode == MODE_LATE) {
        workload_must(load, gantry_taskman_start(load->manager), "start");
        workload_build(load, true);
        return;
    }
    if (load->mode == MODE_FRESH || step == 0) {
        workload_build(load, false);
    }
    if (load->mode != MODE_FRESH && step == 0) {
        workload_must(load, gantry_taskman_freeze(load->manager), "freeze");
    }
    if (load->mode != MODE_RUN) {
        workload_must(load, gantry_taskman_start(load->manager), "start");
    }
}

/* The work that a frozen graph replays must change with the task. */
static void change_one_node(struct workload *w)
{
    struct node *node = &w->nodes[draw(&w->rng, w->end)];
    if (node->kind != NODE_CPU && node->kind != NODE_KERNEL) {
        return;
    }
    node->code = node->code * 5 + 1;
    workload_must(
        w, draw(&w->rng, 2) == 0 ? gantry_task_invalidate(node->task) : gantry_task_set_arg(node->task, node),
        "change");
}

void workload_finish(struct workload *load)
{
    if (load->mode == MODE_RUN) {
        workload_must(load, gantry_taskman_run(load->manager, 1), "run");
    } else {
        if (draw(&load->rng, 3) == 0) {
            workload_must(load, gantry_taskman_wait(load->manager), "wait");
        }
        workload_must(load, gantry_taskman_stop(load->manager), "stop");
    }
    check_step(load);
    if (load->mode == MODE_FRESH || load->mode == MODE_LATE) {
        workload_must(load, gantry_taskman_reset(load->manager), "reset");
    } else if (draw(&load->rng, 4) == 0) {
        change_one_node(load);
    }
}

void workload_run(struct workload *load)
{
    for (uint32_t step = 0; step < load->round->steps; step++) {
        workload_begin(load, step);
        workload_finish(load);
    }
}
