/* SPDX-License-Identifier: MIT */
/* A loop that is divided among the workers, inside of a task: each part is a range of indices. */
#include <gantry/gantry.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { LIMIT = 100000 };
static gantry_cpu_dispatcher *workers;
static atomic_uint primes;

static void must(gantry_status status)
{
    if (status != GANTRY_OK) {
        fprintf(stderr, "%s\n", gantry_last_error());
        exit(EXIT_FAILURE);
    }
}

static gantry_status count_primes(size_t begin, size_t end, void *arg)
{
    for (size_t number = begin; number < end; number++) {
        size_t divisor = 2;
        while (divisor * divisor <= number && number % divisor != 0) {
            divisor++;
        }
        if (divisor * divisor > number) {
            atomic_fetch_add(&primes, 1);
        }
    }
    return GANTRY_OK;
}

static gantry_status count_all(gantry_task *task, void *arg)
{
    return gantry_parallel_for(workers, 2, LIMIT, 1000, count_primes, NULL); /* this worker takes part, too */
}

int main(void)
{
    gantry_taskman *graph;
    must(gantry_cpu_dispatcher_create(NULL, &workers)); /* a worker for each CPU */
    gantry_taskman_options options = {sizeof(options), .cpu_dispatcher = workers};
    must(gantry_taskman_create(&options, &graph));
    gantry_task_desc count_it = {sizeof(count_it), GANTRY_TASK_CPU, .label = "count", .run = count_all};
    must(gantry_taskman_submit(graph, &count_it, NULL));
    must(gantry_taskman_start(graph));
    must(gantry_taskman_stop(graph));
    printf("there are %u primes below %d\n", atomic_load(&primes), LIMIT);
    gantry_taskman_destroy(graph);
    gantry_cpu_dispatcher_destroy(workers);
    return 0;
}
