/* SPDX-License-Identifier: MIT */
#include "profile/encoders.h"

#include "base/cpus.h"
#include "base/status.h"

uint32_t gy_encoders_default(void)
{
    const uint32_t half = gy_cpus_usable_at_once() / 2;
    return half < 1 ? 1 : half > 8 ? 8 : half;
}

gantry_status gy_encoders_init(struct gy_encoders *encoders, uint32_t threads)
{
    gantry_status status = gy_guard_init(&encoders->lock, GY_RANK_LEAF, &encoders->work);
    if (status != GANTRY_OK) {
        return status;
    }
    status = gy_cond_init(&encoders->done);
    if (status != GANTRY_OK) {
        gy_guard_fini(&encoders->lock, &encoders->work);
        return status;
    }
    encoders->wanted = threads < GY_ENCODERS_MOST ? threads : GY_ENCODERS_MOST;
    return GANTRY_OK;
}

static bool can_begin(const struct gy_encoders *encoders) GY_REQUIRES(encoders->lock)
{
    const struct gy_job *job = encoders->first;
    return job != NULL && job->turn == job->turns->done;
}

/* Begin the first job and do it. */
static void do_first(struct gy_encoders *encoders) GY_REQUIRES(encoders->lock)
{
    struct gy_job *job = encoders->first;
    encoders->first = job->next;
    if (can_begin(encoders)) {
        gy_cond_signal(&encoders->work);
    }
    gy_mutex_unlock(&encoders->lock);
    job->run(job);
    gy_mutex_lock(&encoders->lock);
    job->turns->done++;
    --*job->left; /* from now on `job` may be another one */
    gy_cond_signal(&encoders->done);
    if (can_begin(encoders)) { /* a job may have waited for this one */
        gy_cond_signal(&encoders->work);
    }
}

static void thread_main(void *arg)
{
    struct gy_encoders *encoders = arg;
    gy_thread_be_background();
    gy_mutex_lock(&encoders->lock);
    while (!encoders->stopping) {
        if (can_begin(encoders)) {
            do_first(encoders);
        } else {
            gy_cond_wait(&encoders->work, &encoders->lock);
        }
    }
    gy_mutex_unlock(&encoders->lock);
}

static void start_threads(struct gy_encoders *encoders)
{
    uint32_t wanted = encoders->wanted;
    encoders->wanted = 0;
    while (encoders->count < wanted && gy_thread_start(&encoders->threads[encoders->count], "gantry encoder",
                                                       thread_main, encoders) == GANTRY_OK) {
        encoders->count++;
    }
    if (encoders->count < wanted) {
        gy_log(GANTRY_LOG_WARNING, "profile: %u threads encode blocks instead of %u", encoders->count + 1,
               wanted + 1);
    }
}

void gy_encoders_add(struct gy_encoders *encoders, struct gy_job *job)
{
    if (encoders->wanted != 0) {
        start_threads(encoders);
    }
    job->next = NULL;
    gy_mutex_lock(&encoders->lock);
    job->turn = job->turns->given++;
    ++*job->left;
    if (encoders->first == NULL) {
        encoders->first = job;
    } else {
        encoders->last->next = job;
    }
    encoders->last = job;
    if (can_begin(encoders)) {
        gy_cond_signal(&encoders->work);
    }
    gy_mutex_unlock(&encoders->lock);
}

void gy_encoders_wait(struct gy_encoders *encoders, const uint32_t *left)
{
    gy_mutex_lock(&encoders->lock);
    while (*left != 0) {
        if (can_begin(encoders)) {
            do_first(encoders);
        } else {
            gy_cond_wait(&encoders->done, &encoders->lock);
        }
    }
    gy_mutex_unlock(&encoders->lock);
}

bool gy_encoders_have_threads(const struct gy_encoders *encoders)
{
    return encoders->count != 0;
}

void gy_encoders_fini(struct gy_encoders *encoders)
{
    gy_mutex_lock(&encoders->lock);
    encoders->stopping = true;
    gy_cond_broadcast(&encoders->work);
    gy_mutex_unlock(&encoders->lock);
    for (uint32_t i = 0; i < encoders->count; i++) {
        gy_thread_join(&encoders->threads[i]);
    }
    gy_cond_fini(&encoders->done);
    gy_guard_fini(&encoders->lock, &encoders->work);
}
