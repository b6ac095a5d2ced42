/* SPDX-License-Identifier: MIT */
/* Exchanges with a renderer, as the application sees them. */
#include "interop/exchange.h"

#include "base/alloc.h"
#include "base/handle.h"
#include "base/options.h"
#include "context/context.h"
#include "taskman/cpu/pool.h"
#include "taskman/phase.h"

#include <inttypes.h>

#define DEFAULT_TIMEOUT_NS UINT64_C(1000000000)
#define LONGEST_TIMEOUT_NS UINT64_C(3600000000000)

static gantry_status import_options(const gantry_exchange_options *options, gantry_exchange_options *ours)
{
    *ours = (gantry_exchange_options){.struct_size = sizeof(*ours)};
    gantry_status status = gy_options_import(
        ours, sizeof(*ours), options, offsetof(gantry_exchange_options, user), "gantry_exchange_options");
    if (status != GANTRY_OK) {
        return status;
    }
    if ((unsigned)ours->way > GANTRY_EXCHANGE_AHEAD) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_exchange_options: unknown way %d",
                       (int)ours->way);
    }
    if (ours->way == GANTRY_EXCHANGE_HOST && (ours->wait == NULL || ours->signal == NULL)) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_exchange_options: %s is NULL",
                       ours->wait == NULL ? "wait" : "signal");
    }
    if (ours->timeout_ns > LONGEST_TIMEOUT_NS) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                       "gantry_exchange_options: timeout_ns %" PRIu64 " is above an hour, %" PRIu64,
                       ours->timeout_ns, LONGEST_TIMEOUT_NS);
    }
    ours->timeout_ns = ours->timeout_ns != 0 ? ours->timeout_ns : DEFAULT_TIMEOUT_NS;
    ours->label = ours->label != NULL ? ours->label : "exchange";
    if (strlen(ours->label) >= GY_LABEL_BYTES) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                       "gantry_exchange_options: label has %zu characters, at most %d", strlen(ours->label),
                       GY_LABEL_BYTES - 1);
    }
    return GANTRY_OK;
}

/* A step that waits fails. */
static void end_thread(gantry_exchange *e)
{
    gy_mutex_lock(&e->lock);
    e->closing = true;
    gy_cond_broadcast(&e->changed);
    gy_mutex_unlock(&e->lock);
    gy_thread_join(&e->thread);
}

gantry_status gantry_exchange_create(gantry_context *context, const gantry_exchange_options *options,
                                     gantry_exchange **out)
{
    GY_NEED(CONTEXT, context);
    if (options == NULL || out == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_exchange_create: %s is NULL",
                       options == NULL ? "options" : "out");
    }
    gantry_exchange_options ours;
    gantry_status status = import_options(options, &ours);
    if (status != GANTRY_OK) {
        return status;
    }
    gantry_exchange *e = gy_zalloc(sizeof(*e));
    if (e == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "no memory for an exchange");
    }
    e->wait = ours.wait;
    e->signal = ours.signal;
    e->arg = ours.user;
    e->timeout_ns = ours.timeout_ns;
    e->context = context;
    snprintf(e->label, sizeof(e->label), "%s", ours.label);
    snprintf(e->span, sizeof(e->span), "waits for %s", ours.label);
    e->on_device = ours.way != GANTRY_EXCHANGE_HOST;
    e->may_be_ahead = ours.way == GANTRY_EXCHANGE_AHEAD;
    status = gy_guard_init(&e->lock, GY_RANK_EXCHANGE, &e->changed);
    if (status != GANTRY_OK) {
        goto free_exchange;
    }
    status = gy_thread_start(&e->thread, "gantry-exchange", gy_exchange_serve, e);
    if (status != GANTRY_OK) {
        goto fini_lock;
    }
    if (e->on_device) { /* last, since it takes the descriptors */
        status = gy_exchange_device_open(e, context->cuda, &ours);
    }
    if (status != GANTRY_OK) {
        goto end_thread;
    }
    gy_exchange_register(e);
    gy_mutex_lock(&context->lock);
    context->above.check_replan = gy_exchanges_check_none;
    context->above.abandon = gy_exchanges_abandon;
    gy_mutex_unlock(&context->lock);
    gy_handle_born(GY_HANDLE_EXCHANGE, e, sizeof(*e), sizeof(*e));
    *out = e;
    return GANTRY_OK;
end_thread:
    end_thread(e);
fini_lock:
    gy_guard_fini(&e->lock, &e->changed);
free_exchange:
    gy_free(e);
    return status;
}

static gantry_status check_free(const gantry_exchange *e) GY_REQUIRES(e->lock)
{
    if (e->state == GY_EXCHANGE_LOST) {
        return gy_exchange_refuse(e, "gantry_exchange_tasks");
    }
    return e->step.is_open ? GY_FAIL(GANTRY_ERR_STATE,
                                     "gantry_exchange_tasks: a step of exchange '%s' is under way", e->label)
                           : GANTRY_OK;
}

gantry_status gantry_exchange_tasks(gantry_exchange *exchange, gantry_taskman *manager,
                                    gantry_task **out_acquire, gantry_task **out_release)
{
    GY_NEED(EXCHANGE, exchange);
    GY_NEED(TASKMAN, manager);
    if (out_acquire == NULL || out_release == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_exchange_tasks: %s is NULL",
                       out_acquire == NULL ? "out_acquire" : "out_release");
    }
    if (gy_taskman_phase(manager) != GY_BUILDING) {
        return GY_FAIL(GANTRY_ERR_STATE, "gantry_exchange_tasks: the task manager is %s, not being built",
                       gy_taskman_phase_name(gy_taskman_phase(manager)));
    }
    gy_mutex_lock(&exchange->lock);
    gantry_status status = check_free(exchange);
    exchange->step.held = status == GANTRY_OK ? NULL : exchange->step.held;
    gy_mutex_unlock(&exchange->lock);
    struct gy_exchange_tasks tasks = {.begin = NULL};
    if (status == GANTRY_OK) {
        status = gy_exchange_submit(exchange, manager, &tasks);
    }
    if (status != GANTRY_OK) {
        return status;
    }
    gy_mutex_lock(&exchange->lock);
    exchange->step.held = tasks.held;
    exchange->step.is_ahead = tasks.is_ahead;
    gy_mutex_unlock(&exchange->lock);
    *out_acquire = tasks.is_ahead ? tasks.begin : tasks.held;
    *out_release = tasks.release;
    return GANTRY_OK;
}

static gantry_status check_values(const gantry_exchange *e, uint64_t wait_value, uint64_t signal_value)
    GY_REQUIRES(e->lock)
{
    if (e->state == GY_EXCHANGE_LOST) {
        return gy_exchange_refuse(e, "gantry_exchange_next");
    }
    if (e->state != GY_EXCHANGE_IDLE || e->step.is_open) {
        return GY_FAIL(GANTRY_ERR_STATE,
                       "gantry_exchange_next: exchange '%s' has values %" PRIu64 " and %" PRIu64
                       " of a step that has not ended",
                       e->label, e->step.wait_value, e->step.signal_value);
    }
    bool wait_rises = !e->has_values || wait_value > e->step.wait_value;
    if (!wait_rises || (e->has_values && signal_value <= e->step.signal_value)) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                       "gantry_exchange_next: exchange '%s': the value to %s is %" PRIu64
                       ", not above %" PRIu64 " of the step before",
                       e->label, wait_rises ? "signal" : "wait for", wait_rises ? signal_value : wait_value,
                       wait_rises ? e->step.signal_value : e->step.wait_value);
    }
    return GANTRY_OK;
}

gantry_status gantry_exchange_next(gantry_exchange *exchange, uint64_t wait_value, uint64_t signal_value)
{
    GY_NEED(EXCHANGE, exchange);
    gy_mutex_lock(&exchange->lock);
    gantry_status status = check_values(exchange, wait_value, signal_value);
    if (status == GANTRY_OK) {
        exchange->step.wait_value = wait_value;
        exchange->step.signal_value = signal_value;
        exchange->has_values = true;
        gy_exchange_enter(exchange, GY_EXCHANGE_ARMED);
    }
    gy_mutex_unlock(&exchange->lock);
    return status;
}

bool gantry_exchange_is_lost(gantry_exchange *exchange)
{
    GY_ACCEPT_OR(false, EXCHANGE, exchange);
    gy_mutex_lock(&exchange->lock);
    bool lost = exchange->state == GY_EXCHANGE_LOST;
    gy_mutex_unlock(&exchange->lock);
    return lost;
}

gantry_status gantry_exchange_get_stats(gantry_exchange *exchange, gantry_exchange_stats *stats)
{
    GY_NEED(EXCHANGE, exchange);
    gy_mutex_lock(&exchange->lock);
    gantry_exchange_stats now = exchange->stats;
    gy_mutex_unlock(&exchange->lock);
    return gy_stats_export(stats, &now, sizeof(now), "gantry_exchange_get_stats");
}

void gantry_exchange_destroy(gantry_exchange *exchange)
{
    GY_ACCEPT_OR_LEAVE(EXCHANGE, exchange);
    if (exchange == NULL || gy_pool_check_outside("gantry_exchange_destroy") != GANTRY_OK) {
        return;
    }
    end_thread(exchange);
    gy_mutex_lock(&exchange->lock);
    gy_exchange_device_close(exchange);
    gy_mutex_unlock(&exchange->lock);
    gy_exchange_unregister(exchange);
    gy_guard_fini(&exchange->lock, &exchange->changed);
    gy_handle_free(exchange, exchange);
}
