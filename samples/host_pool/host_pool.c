/* SPDX-License-Identifier: MIT */
/* A host application that has a thread pool already: Gantry's tasks run on it, among the host's own jobs.
 *
 * The pool is what many programs have, a queue of (function, argument) under a mutex.  All it takes is a
 * function that queues "execute this task" as one more job. */
#include <gantry/gantry.h>

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- the host's pool, which knows nothing of Gantry -------------------------------------------
 * Its threads sleep on a semaphore: a condition of glibc 2.27 to 2.40 can lose a wake-up where several wait
 * (sourceware bug 25847). */

enum { THREADS = 2, MOST_JOBS = 256 };

struct job {
    void (*run)(void *a, void *b);
    void *a, *b;
};

struct pool {
    pthread_mutex_t lock;
    sem_t tokens;               /* one for each job, and in the end one for each thread */
    struct job jobs[MOST_JOBS]; /* guarded by lock; a ring */
    unsigned first, last;       /* guarded by lock */
    pthread_t threads[THREADS];
    unsigned started;
};

static void pool_add(struct pool *pool, struct job job)
{
    pthread_mutex_lock(&pool->lock);
    pool->jobs[pool->last++ % MOST_JOBS] = job;
    pthread_mutex_unlock(&pool->lock);
    sem_post(&pool->tokens);
}

static void *pool_main(void *arg)
{
    struct pool *pool = arg;
    for (;;) {
        while (sem_wait(&pool->tokens) != 0) {
        } /* a signal came */
        pthread_mutex_lock(&pool->lock);
        bool ends = pool->first == pool->last;
        struct job job = pool->jobs[pool->first % MOST_JOBS];
        pool->first += ends ? 0 : 1;
        pthread_mutex_unlock(&pool->lock);
        if (ends) {
            return NULL;
        }
        job.run(job.a, job.b);
    }
}

static bool pool_open(struct pool *pool)
{
    pthread_mutex_init(&pool->lock, NULL);
    sem_init(&pool->tokens, 0, 0);
    for (; pool->started < THREADS; pool->started++) {
        if (pthread_create(&pool->threads[pool->started], NULL, pool_main, pool) != 0) {
            return false;
        }
    }
    return true;
}

static void pool_close(struct pool *pool)
{
    for (unsigned i = 0; i < pool->started; i++) {
        sem_post(&pool->tokens);
    }
    for (unsigned i = 0; i < pool->started; i++) {
        pthread_join(pool->threads[i], NULL);
    }
    sem_destroy(&pool->tokens);
    pthread_mutex_destroy(&pool->lock);
}

/* ---- where the two meet ----------------------------------------------------------------------- */

static void execute(void *dispatcher, void *task)
{
    gantry_cpu_dispatcher_execute(dispatcher, task);
}

static void submit(void *user, gantry_cpu_dispatcher *dispatcher, gantry_task *task)
{
    pool_add(user, (struct job){execute, dispatcher, task});
}

/* ---- the application's graph: squares in parallel, then their sum ------------------------------ */

enum { SQUARES = 90, RUNS = 10 };

static uint64_t squares[SQUARES], sum;

static gantry_status square(gantry_task *task, void *arg)
{
    (void)task;
    uint64_t *out = arg;
    uint64_t i = (uint64_t)(out - squares);
    *out = i * i;
    return GANTRY_OK;
}

static gantry_status add_up(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    sum = 0;
    for (int i = 0; i < SQUARES; i++) {
        sum += squares[i];
        squares[i] = 0;
    }
    return GANTRY_OK;
}

static gantry_status build(gantry_taskman *manager)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_task *last, *task;
    desc.run = add_up;
    gantry_status status = gantry_taskman_submit(manager, &desc, &last);
    desc.run = square;
    for (int i = 0; i < SQUARES && status == GANTRY_OK; i++) {
        desc.arg = &squares[i];
        status = gantry_taskman_submit(manager, &desc, &task);
        if (status == GANTRY_OK) {
            status = gantry_task_start_after(last, task);
        }
    }
    return status == GANTRY_OK ? gantry_taskman_freeze(manager) : status;
}

static gantry_status run_on(struct pool *pool)
{
    gantry_cpu_pool_ops ops = {
        .struct_size = sizeof(ops), .submit = submit, .user = pool, .worker_count = THREADS};
    gantry_cpu_dispatcher_options options = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    options.host_pool = &ops;
    gantry_cpu_dispatcher *dispatcher = NULL;
    gantry_status status = gantry_cpu_dispatcher_create(&options, &dispatcher);
    if (status != GANTRY_OK) {
        return status;
    }
    gantry_taskman_options manager_options = GANTRY_TASKMAN_OPTIONS_INIT;
    manager_options.cpu_dispatcher = dispatcher;
    gantry_taskman *manager = NULL;
    status = gantry_taskman_create(&manager_options, &manager);
    if (status == GANTRY_OK) {
        status = build(manager);
    }
    if (status == GANTRY_OK) {
        status = gantry_taskman_run(manager, RUNS);
    }
    gantry_taskman_destroy(manager);
    gantry_cpu_dispatcher_destroy(dispatcher);
    return status;
}

int main(void)
{
    static struct pool pool;
    gantry_status status = GANTRY_ERR_OUT_OF_HOST_MEMORY;
    if (pool_open(&pool)) {
        status = run_on(&pool);
    }
    pool_close(&pool);
    if (status != GANTRY_OK) {
        fprintf(stderr, "host_pool: %s: %s\n", gantry_status_name(status), gantry_last_error());
        return 1;
    }
    bool is_right = sum == (uint64_t)(SQUARES - 1) * SQUARES * (2 * SQUARES - 1) / 6;
    printf("%s: %d squares, %d runs on %d threads of the host\n", is_right ? "right" : "WRONG", SQUARES, RUNS,
           THREADS);
    return is_right ? 0 : 1;
}
