/* SPDX-License-Identifier: MIT */
/* A loop in a graph: a condition is a CPU task that picks which of its dependents start.  Here it picks the
 * task before itself until Newton's iteration for a square root has come to rest. */
#include <gantry/gantry.h>
#include <stdio.h>
#include <stdlib.h>

struct root {
    double square, guess, last;
    int rounds;
};

static void must(gantry_status status)
{
    if (status != GANTRY_OK) {
        fprintf(stderr, "%s\n", gantry_last_error());
        exit(EXIT_FAILURE);
    }
}

static gantry_status begin(gantry_task *task, void *arg)
{
    struct root *root = arg;
    root->guess = root->square;
    return GANTRY_OK;
}

static gantry_status improve(gantry_task *task, void *arg)
{
    struct root *root = arg;
    root->last = root->guess;
    root->guess = (root->guess + root->square / root->guess) / 2;
    root->rounds++;
    return GANTRY_OK;
}

static gantry_status decide(gantry_task *task, void *arg)
{
    struct root *root = arg;
    double change = root->guess - root->last;
    return gantry_task_choose(task, change * change > 1e-18 ? 0 : 1); /* 0: improve, 1: show */
}

static gantry_status show(gantry_task *task, void *arg)
{
    struct root *root = arg;
    printf("the root of %.0f is %.6f, after %d rounds\n", root->square, root->guess, root->rounds);
    return GANTRY_OK;
}

int main(void)
{
    struct root root = {.square = 2};
    gantry_taskman *graph;
    gantry_task *begun, *improved, *decided, *shown;
    must(gantry_taskman_create(&(gantry_taskman_options)GANTRY_TASKMAN_OPTIONS_INIT, &graph));
    gantry_task_desc begin_it = {sizeof(begin_it), .label = "begin", .run = begin, .arg = &root};
    gantry_task_desc improve_it = {sizeof(improve_it), .label = "improve", .run = improve, .arg = &root};
    gantry_task_desc decide_it = {sizeof(decide_it), .label = "decide", .run = decide, .arg = &root,
                                  .is_condition = true};
    gantry_task_desc show_it = {sizeof(show_it), .label = "show", .run = show, .arg = &root};
    must(gantry_taskman_submit(graph, &begin_it, &begun));
    must(gantry_taskman_submit(graph, &improve_it, &improved));
    must(gantry_taskman_submit(graph, &decide_it, &decided));
    must(gantry_taskman_submit(graph, &show_it, &shown));
    must(gantry_task_start_after(improved, begun));
    must(gantry_task_start_after(decided, improved));
    must(gantry_task_start_after(improved, decided)); /* the condition's dependent 0: back */
    must(gantry_task_start_after(shown, decided));    /* its dependent 1: on */

    must(gantry_taskman_freeze(graph)); /* only frozen graphs run conditions */
    must(gantry_taskman_run(graph, 1));
    gantry_taskman_destroy(graph);
    return 0;
}
