/* SPDX-License-Identifier: MIT */
/* GANTRY_CHECK=edges on random graphs, against an oracle: what comes before what is a closure over events,
 * and the pairs of tasks that conflict without a path are counted by hand.  Something is found exactly where
 * there is such a pair, and only such pairs are named.
 *
 * Usage: test_proof_random [PROGRAMS [SEED]] */
#include "tests/support/cmocka_c11.h"
#include "tests/support/gpu_fixture.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TASKS = 9, BLOCKS = 3, WORDS = 64, BYTES = WORDS * 4, EVENTS = 2 * TASKS };
enum kind { FILL, COPY, UP, DOWN, READ, WRITE, SYNC, KINDS }; /* the last three are no GPU tasks */

struct node {
    enum kind kind;
    uint32_t from, to; /* blocks: device ones for FILL, COPY, UP's `to` and DOWN's `from`, else page-locked */
    char label[24];
    gantry_task *task;
};

static struct gpu_fixture f;
static uint32_t *device[BLOCKS], *pinned[BLOCKS];
static struct node nodes[TASKS];
static bool before[EVENTS][EVENTS]; /* event 2 i: what task i does on the host; 2 i + 1: on the device */
static bool named[TASKS][TASKS];    /* written by threads that find something */
static atomic_uint lines, strangers;
static volatile uint32_t sink;
static uint32_t programs = 400, seed = 1;

static uint32_t below(uint32_t bound)
{
    seed = seed * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)seed * bound >> 32);
}

static bool is_gpu(enum kind kind)
{
    return kind < READ;
}

static gantry_status run_body(gantry_task *task, void *arg)
{
    (void)task;
    const struct node *node = arg;
    for (uint32_t i = 0; i < WORDS; i++) {
        if (node->kind == WRITE) {
            pinned[node->to][i] = i;
        } else {
            sink = pinned[node->from][i];
        }
    }
    return GANTRY_OK;
}

static gantry_launch_result launch(gantry_launch *launch, void *arg)
{
    const struct node *node = arg;
    gantry_status status = GANTRY_OK;
    switch (node->kind) {
    case FILL:
        status = gantry_launch_fill(launch, device[node->to], 1, 4, WORDS);
        break;
    case COPY:
        status = gantry_launch_copy_dtod(launch, device[node->to], device[node->from], BYTES);
        break;
    case UP:
        status = gantry_launch_copy_htod(launch, device[node->to], pinned[node->from], BYTES);
        break;
    default:
        status = gantry_launch_copy_dtoh(launch, pinned[node->to], device[node->from], BYTES);
    }
    return status == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

/* ---- the oracle ------------------------------------------------------------------------------- */

/* Blocks by number: those of the device, then the page-locked ones; -1: none. */
static int read_of(const struct node *node)
{
    switch (node->kind) {
    case COPY:
    case DOWN:
        return (int)node->from;
    case UP:
    case READ:
        return BLOCKS + (int)node->from;
    default:
        return -1;
    }
}

static int written_of(const struct node *node)
{
    switch (node->kind) {
    case FILL:
    case COPY:
    case UP:
        return (int)node->to;
    case DOWN:
    case WRITE:
        return BLOCKS + (int)node->to;
    default:
        return -1;
    }
}

static bool conflict(const struct node *a, const struct node *b)
{
    const int ra = read_of(a), wa = written_of(a), rb = read_of(b), wb = written_of(b);
    return (wa >= 0 && (wa == wb || wa == rb)) || (wb >= 0 && wb == ra);
}

static void close_order(void)
{
    for (int k = 0; k < EVENTS; k++) {
        for (int i = 0; i < EVENTS; i++) {
            for (int j = 0; j < EVENTS; j++) {
                before[i][j] |= before[i][k] && before[k][j];
            }
        }
    }
}

static bool is_racy(int a, int b)
{
    const int ea = 2 * a + is_gpu(nodes[a].kind), eb = 2 * b + is_gpu(nodes[b].kind);
    return a != b && conflict(&nodes[a], &nodes[b]) && !before[ea][eb] && !before[eb][ea];
}

/* ---- programs ---------------------------------------------------------------------------------- */

static int task_in(const char *line, const char *word)
{
    const char *at = strstr(line, word);
    for (int i = 0; at != NULL && i < TASKS; i++) {
        const size_t length = strlen(nodes[i].label);
        if (strncmp(at + strlen(word), nodes[i].label, length) == 0 && at[strlen(word) + length] == '\'') {
            return i;
        }
    }
    return -1;
}

static void hear(void *user, gantry_log_level level, const char *line)
{
    (void)user;
    (void)level;
    if (strstr(line, "no edge leads from task '") != NULL) {
        const int first = task_in(line, "from task '"), second = task_in(line, "to task '");
        if (first < 0 || second < 0) {
            atomic_fetch_add(&strangers, 1);
        } else {
            named[first][second] = named[second][first] = true;
        }
        atomic_fetch_add(&lines, 1);
    }
}

static void add_edge(int from, int to, bool waits)
{
    before[2 * from][2 * to] = before[2 * from + 1][2 * to + 1] = true;
    before[2 * from + 1][2 * to] |=
        waits && !is_gpu(nodes[to].kind); /* a launch callback waits for no GPU work */
    assert_int_equal(waits ? gantry_task_start_after_done(nodes[to].task, nodes[from].task)
                           : gantry_task_start_after(nodes[to].task, nodes[from].task),
                     GANTRY_OK);
}

/* A graph that lacks edges more often than not. */
static void make_program(int number)
{
    memset(before, 0, sizeof(before));
    memset(named, 0, sizeof(named));
    const uint32_t density = 20 + below(80);
    for (int i = 0; i < TASKS; i++) {
        struct node *node = &nodes[i];
        node->kind = (enum kind)below(KINDS);
        node->from = below(BLOCKS);
        node->to = node->kind == COPY ? (node->from + 1 + below(BLOCKS - 1)) % BLOCKS : below(BLOCKS);
        snprintf(node->label, sizeof(node->label), "t%d-%d", number, i);
        node->task = is_gpu(node->kind)
                         ? gpu_fixture_gpu(&f, (gantry_task_kind)(GANTRY_TASK_HTOD + (int)below(3)),
                                           node->label, launch, node)
                         : gpu_fixture_cpu(&f, node->label, node->kind == SYNC ? NULL : run_body, node);
        before[2 * i][2 * i + 1] = true;
        for (int from = 0; from < i; from++) {
            if (below(100) < density) {
                add_edge(from, i, is_gpu(nodes[from].kind) && below(4) != 0);
            }
        }
    }
    close_order();
}

static void test_random_graphs(void **state)
{
    (void)state;
    uint32_t racy_programs = 0;
    for (int number = 0; number < (int)programs; number++) {
        make_program(number);
        atomic_store(&lines, 0);
        gantry_set_log(hear, NULL, GANTRY_LOG_ERROR);
        assert_int_equal(gpu_fixture_step(&f), GANTRY_OK);
        gantry_set_log(NULL, NULL, GANTRY_LOG_INFO);
        assert_int_equal(gantry_context_synchronize(f.context), GANTRY_OK);
        bool has_race = false;
        for (int a = 0; a < TASKS; a++) {
            for (int b = 0; b < TASKS; b++) {
                has_race |= is_racy(a, b);
                if (named[a][b] && !is_racy(a, b)) {
                    fail_msg("program %d: %s and %s were named, and are ordered or touch nothing in common",
                             number, nodes[a].label, nodes[b].label);
                }
            }
        }
        if (has_race != (atomic_load(&lines) != 0)) {
            fail_msg("program %d: %u lines, and %s", number, atomic_load(&lines),
                     has_race ? "there are races" : "there is no race");
        }
        racy_programs += has_race;
    }
    assert_int_equal(atomic_load(&strangers), 0);
    assert_true(racy_programs > programs / 4 && racy_programs < programs - programs / 10);
}

static uint32_t *block(gantry_memory_kind kind)
{
    void *out;
    assert_int_equal(
        gantry_heap_alloc(gantry_context_heap(f.context), kind, BYTES, 0, GANTRY_ALLOC_SITE("block"), &out),
        GANTRY_OK);
    return out;
}

static int setup(void **state)
{
    (void)state;
    setenv("GANTRY_CHECK", "edges", 1);
    gpu_fixture_open(&f, 2, 0);
    for (int i = 0; i < BLOCKS; i++) {
        device[i] = block(GANTRY_MEMORY_DEVICE);
        pinned[i] = block(GANTRY_MEMORY_PINNED);
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (int i = 0; i < BLOCKS; i++) {
        assert_int_equal(gantry_heap_free(gantry_context_heap(f.context), device[i]), GANTRY_OK);
        assert_int_equal(gantry_heap_free(gantry_context_heap(f.context), pinned[i]), GANTRY_OK);
    }
    gpu_fixture_close(&f);
    return 0;
}

int main(int argc, char **argv)
{
    programs = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : programs;
    seed = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : seed;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_graphs)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
