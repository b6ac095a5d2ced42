/* SPDX-License-Identifier: MIT */
#include "work/maker.h"

#include "base/point.h"

#include <assert.h>
#include <string.h>

static enum gy_maker_state state_of(const struct gy_maker *m)
{
    return (enum gy_maker_state)atomic_load_explicit(&m->state, memory_order_relaxed);
}

/* The only writer of the state.  What was written before is seen by whoever reads the state. */
static void enter(struct gy_maker *m, enum gy_maker_state state) GY_REQUIRES(m->lock)
{
    const enum gy_maker_state from = state_of(m);
    assert((from == GY_MAKER_IDLE && state == GY_MAKER_ASKED) ||
           (from == GY_MAKER_ASKED && state == GY_MAKER_MAKING) ||
           (from == GY_MAKER_MAKING && state == GY_MAKER_DONE) ||
           (from == GY_MAKER_DONE && state == GY_MAKER_IDLE));
    (void)from;
    atomic_store_explicit(&m->state, state, memory_order_release);
    gy_cond_broadcast(&m->changed);
}

gantry_status gy_maker_init(struct gy_maker *m, struct gy_context *context)
{
    *m = (struct gy_maker){.context = context};
    return gy_guard_init(&m->lock, GY_RANK_LEAF, &m->changed);
}

/* ---- the thread -------------------------------------------------------------------------------- */

/* Bring the executable graph to the device, which the first launch would do else; nothing else is on that
 * stream, so the wait ends when that is done.  When it fails the launch does it, or tells why it cannot. */
static void upload(struct gy_maker *m, CUgraphExec exec)
{
    const struct gy_driver *driver = m->context->driver;
    if (driver->cuGraphUpload == NULL ||
        (m->uploads == NULL && gy_context_create_stream(m->context, NULL, 0, &m->uploads) != GANTRY_OK)) {
        return;
    }
    CUresult result = driver->cuGraphUpload(exec, m->uploads);
    result = result == CUDA_SUCCESS ? driver->cuStreamSynchronize(m->uploads) : result;
    if (result == CUDA_SUCCESS) {
        atomic_fetch_add_explicit(&m->uploaded, 1, memory_order_relaxed);
    } else {
        gy_log(GANTRY_LOG_DEBUG, "an executable graph was not uploaded: %d", (int)result);
    }
}

/* The application may capture on any thread: only relaxed mode permits to make an executable graph then. */
static gantry_status make(struct gy_maker *m, uint32_t i)
{
    const struct gy_relaxed relaxed = gy_relaxed_begin(m->context);
    if (relaxed.status != GANTRY_OK) {
        return relaxed.status;
    }
    struct gy_exec *out = &m->execs[i];
    const gantry_status status = gy_exec_make(m->context, out, GY_EXEC_OF_NODES);
    if (status == GANTRY_OK) {
        upload(m, out->native);
    }
    const gantry_status back = gy_relaxed_end(m->context, &relaxed);
    if (back != GANTRY_OK) {
        gy_exec_drop(m->context, out);
    }
    return status == GANTRY_OK ? back : status;
}

/* Make all of them; one that fails says nothing of the others.  The latest failure is the thread's error. */
static bool make_all(struct gy_maker *m)
{
    if (gy_context_push(m->context) != GANTRY_OK) {
        return false;
    }
    bool all = true;
    for (uint32_t i = 0; i < m->count; i++) {
        gy_point(GY_POINT_MAKING, m);
        all &= make(m, i) == GANTRY_OK;
    }
    (void)gy_context_pop(m->context);
    return all;
}

/* Wait for something to make; false: there will be nothing any more. */
static bool await(struct gy_maker *m)
{
    gy_mutex_lock(&m->lock);
    while (state_of(m) != GY_MAKER_ASKED && !m->closing) {
        gy_cond_wait(&m->changed, &m->lock);
    }
    const bool is_asked = state_of(m) == GY_MAKER_ASKED;
    if (is_asked) {
        enter(m, GY_MAKER_MAKING);
    }
    gy_mutex_unlock(&m->lock);
    return is_asked;
}

static void maker_main(void *arg)
{
    struct gy_maker *m = arg;
    while (await(m)) {
        const bool all = make_all(m);
        gy_mutex_lock(&m->lock);
        if (!all) {
            m->cause = *gy_error_last();
        }
        enter(m, GY_MAKER_DONE);
        gy_mutex_unlock(&m->lock);
    }
}

/* ---- the dispatcher's thread ------------------------------------------------------------------- */

bool gy_maker_ask(struct gy_maker *m, const struct gy_exec *execs, uint32_t count)
{
    assert(gy_maker_state(m) == GY_MAKER_IDLE && count != 0 && count <= GY_MAKER_MOST);
    if (!m->is_running) {
        m->is_running = gy_thread_start(&m->thread, "GD maker", maker_main, m) == GANTRY_OK;
    }
    if (!m->is_running) {
        return false;
    }
    m->count = count;
    memcpy(m->execs, execs, count * sizeof(*execs));
    gy_mutex_lock(&m->lock);
    enter(m, GY_MAKER_ASKED);
    gy_mutex_unlock(&m->lock);
    return true;
}

void gy_maker_wait_until(struct gy_maker *m, uint64_t until_ns)
{
    gy_mutex_lock(&m->lock);
    if (state_of(m) != GY_MAKER_DONE) {
        gy_cond_wait_until(&m->changed, &m->lock, until_ns);
    }
    gy_mutex_unlock(&m->lock);
}

void gy_maker_take(struct gy_maker *m, struct gy_exec *out)
{
    assert(gy_maker_state(m) != GY_MAKER_IDLE);
    gy_mutex_lock(&m->lock);
    while (state_of(m) != GY_MAKER_DONE) {
        gy_cond_wait(&m->changed, &m->lock);
    }
    for (uint32_t i = 0; i < m->count; i++) {
        out[i] = m->execs[i];
        m->made += out[i].native != NULL;
    }
    enter(m, GY_MAKER_IDLE);
    gy_mutex_unlock(&m->lock);
}

void gy_maker_move(struct gy_maker *m)
{
    assert(gy_maker_state(m) == GY_MAKER_IDLE);
    gy_context_drop_stream(m->context, &m->uploads);
}

void gy_maker_fini(struct gy_maker *m)
{
    gy_mutex_lock(&m->lock);
    m->closing = true;
    gy_cond_broadcast(&m->changed);
    gy_mutex_unlock(&m->lock);
    if (m->is_running) {
        gy_thread_join(&m->thread);
    }
    for (uint32_t i = 0; i < m->count && state_of(m) != GY_MAKER_IDLE; i++) {
        gy_exec_drop(m->context, &m->execs[i]);
    }
    if (m->uploads != NULL) {
        (void)m->context->driver->cuStreamDestroy(m->uploads);
    }
    gy_guard_fini(&m->lock, &m->changed);
}
