/* SPDX-License-Identifier: MIT */
#include "samples/two_tenants/tenants.h"

#include "cli/messages.h"
#include "cli/samples.h"
#include "tenant_kernels.kernels.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { THREADS = 256, REPLAYED = 4 };

struct tenant {
    const struct tenants_settings *settings;
    enum tenants_way way;
    gantry_taskman *manager;
    gantry_kernel *kernel;
    char *on_device; /* its counter there */
    uint32_t blocks;
    uint64_t begin_ns;       /* of the measurement */
    uint64_t launched;       /* launch calls, all of them */
    gantry_share_usage from; /* at its begin */
    gantry_share_usage to;   /* at its end; struct_size 0: not there yet */
    uint64_t kernels;        /* launched in it */
    bool failed;
};

struct scene {
    const struct tenants_settings *settings;
    gantry_context *context;
    gantry_kernel *kernel;
    uint32_t blocks;
    uint32_t *counts; /* page-locked */
    struct tenant tenants[TENANTS];
};

static bool ok(gantry_status status)
{
    if (status != GANTRY_OK) {
        cli_error("two_tenants: %s", cli_cause(status));
    }
    return status == GANTRY_OK;
}

/* ---- one tenant ----------------------------------------------------------------------------- */

static bool is_over(struct tenant *t)
{
    bool over = t->settings->now_ns() - t->begin_ns >= (uint64_t)(t->settings->seconds * 1e9);
    if (over && t->to.struct_size == 0) {
        t->to.struct_size = sizeof(t->to);
        t->failed = !ok(gantry_taskman_get_usage(t->manager, &t->to));
        t->kernels = t->launched;
    }
    return over;
}

static bool launch_one(gantry_launch *launch, struct tenant *t)
{
    uint64_t ns = t->settings->told_ns;
    void *count = t->on_device, *args[] = {&count, &ns};
    bool good = gantry_launch_kernel(launch, t->kernel, (gantry_dim3){t->blocks, 1, 1},
                                     (gantry_dim3){THREADS, 1, 1}, 0, args) == GANTRY_OK;
    if (good) { /* a call that could not be captured comes once more */
        t->launched = gantry_launch_index(launch) + 1;
    }
    return good;
}

/* A task without an end: one kernel per call, until the time is over. */
static gantry_launch_result launch_on(gantry_launch *launch, void *arg)
{
    struct tenant *t = arg;
    if (is_over(t)) {
        return GANTRY_LAUNCH_DONE;
    }
    return launch_one(launch, t) ? GANTRY_LAUNCH_AGAIN : GANTRY_LAUNCH_FAILED;
}

static gantry_launch_result launch_stable(gantry_launch *launch, void *arg)
{
    return launch_one(launch, arg) ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static bool submit(struct tenant *t)
{
    bool replay = t->way == TENANTS_REPLAY;
    gantry_task *before = NULL, *task;
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.kind = GANTRY_TASK_KERNEL;
    desc.launch = replay ? launch_stable : launch_on;
    desc.is_stable = replay;
    desc.arg = t;
    for (int i = 0; i < (replay ? REPLAYED : 1); i++) {
        if (!ok(gantry_taskman_submit(t->manager, &desc, &task)) ||
            (before != NULL && !ok(gantry_task_start_after(task, before)))) {
            return false;
        }
        before = task;
    }
    return !replay || ok(gantry_taskman_freeze(t->manager));
}

/* The thread of a tenant that replays: run after run, and what callbacks do not see is counted. */
static void *replay(void *arg)
{
    struct tenant *t = arg;
    uint64_t runs = 0;
    while (!t->failed && !is_over(t)) {
        t->failed = !ok(gantry_taskman_run(t->manager, 1));
        runs++;
        t->launched = runs * REPLAYED;
    }
    return NULL;
}

/* ---- both ----------------------------------------------------------------------------------- */

static bool run_replays(struct scene *s)
{
    pthread_t threads[TENANTS];
    int started = 0;
    while (started < TENANTS && pthread_create(&threads[started], NULL, replay, &s->tenants[started]) == 0) {
        started++;
    }
    for (int i = 0; i < started; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    if (started < TENANTS) {
        cli_error("two_tenants: no thread for a tenant");
    }
    return started == TENANTS;
}

/* Both begin at once. */
static bool run_endless(struct scene *s)
{
    gantry_dispatcher *dispatcher = gantry_context_dispatcher(s->context);
    bool good = true;
    int started = 0;
    gantry_dispatcher_start_group(dispatcher);
    while (good && started < TENANTS) {
        good = ok(gantry_taskman_start(s->tenants[started].manager));
        started += good;
    }
    gantry_dispatcher_finish_group(dispatcher);
    for (int i = 0; i < started; i++) {
        good = ok(gantry_taskman_stop(s->tenants[i].manager)) && good;
    }
    return good;
}

static bool begin(struct scene *s)
{
    uint64_t now = s->settings->now_ns();
    bool good = true;
    for (int i = 0; i < TENANTS && good; i++) {
        struct tenant *t = &s->tenants[i];
        t->begin_ns = now;
        t->from.struct_size = sizeof(t->from);
        good = submit(t) && ok(gantry_taskman_get_usage(t->manager, &t->from));
    }
    return good;
}

/* The end of the device's work: all kernels have counted themselves.  Of a tenant that has failed, which has
 * said so, nobody knows how many there are. */
static bool verify(struct scene *s)
{
    bool good = true;
    for (int i = 0; i < TENANTS; i++) {
        struct tenant *t = &s->tenants[i];
        uint32_t count = 0;
        while (!t->failed && gantry_context_is_valid(s->context) &&
               (count = __atomic_load_n(&s->counts[16 * i], __ATOMIC_ACQUIRE)) < (uint32_t)t->launched) {
            (void)sched_yield();
        }
        if (!gantry_context_is_valid(s->context)) {
            (void)!ok(gantry_context_acquire(s->context)); /* is refused, and says what has happened to it */
            return false;
        }
        if (!t->failed && count != (uint32_t)t->launched) {
            cli_error("two_tenants: %u kernels have run, not %llu", count, (unsigned long long)t->launched);
        }
        good = good && !t->failed && count == (uint32_t)t->launched;
    }
    return good;
}

static uint64_t graphs_of(const struct scene *s)
{
    gantry_dispatcher_stats stats = {.struct_size = sizeof(stats)};
    (void)ok(gantry_dispatcher_get_stats(gantry_context_dispatcher(s->context), &stats));
    return stats.graph_launches + stats.graph_replays;
}

static void summarise(const struct scene *s, struct tenant_result *out)
{
    for (int i = 0; i < TENANTS; i++) {
        const struct tenant *t = &s->tenants[i];
        double time = (double)(t->to.since_ns - t->from.since_ns);
        out[i].target = t->to.target;
        out[i].charged = (double)(t->to.used_ns - t->from.used_ns) / time;
        out[i].by_kernels = (double)(t->kernels * s->settings->kernel_ns) / time;
        out[i].throttled = (double)(t->to.throttled_ns - t->from.throttled_ns) / time;
        out[i].kernels = t->kernels;
        out[i].usage = t->to;
    }
}

/* ---- set-up --------------------------------------------------------------------------------- */

static bool open_tenant(struct scene *s, int i, enum tenants_way way)
{
    struct tenant *t = &s->tenants[i];
    const gantry_share share = {sizeof(share), .percent = s->settings->percent[i]};
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    void *on_device;
    options.gpu_dispatcher = gantry_context_dispatcher(s->context);
    options.share = &share;
    *t = (struct tenant){.settings = s->settings, .way = way, .kernel = s->kernel, .blocks = s->blocks};
    __atomic_store_n(&s->counts[16 * i], 0, __ATOMIC_RELAXED); /* kernels have added to it */
    if (!ok(gantry_heap_device_address(gantry_context_heap(s->context), s->counts + 16 * i, &on_device))) {
        return false;
    }
    t->on_device = on_device;
    return ok(gantry_taskman_create(&options, &t->manager));
}

/* One way, with tenants of its own. */
static bool run_way(struct scene *s, enum tenants_way way, struct tenants_result *out)
{
    gantry_submission submission =
        way == TENANTS_STREAMS ? GANTRY_SUBMISSION_STREAMS : GANTRY_SUBMISSION_GRAPHS;
    bool good = ok(gantry_dispatcher_set_submission(gantry_context_dispatcher(s->context), submission));
    uint64_t before = graphs_of(s);
    for (int i = 0; i < TENANTS && good; i++) {
        good = open_tenant(s, i, way);
    }
    good = good && begin(s) && (way == TENANTS_REPLAY ? run_replays(s) : run_endless(s)) && verify(s);
    if (good) {
        summarise(s, out->ways[way].tenants);
        out->ways[way].graphs = graphs_of(s) - before;
    }
    for (int i = 0; i < TENANTS; i++) {
        gantry_taskman_destroy(s->tenants[i].manager);
        s->tenants[i].manager = NULL;
    }
    return good;
}

static bool open_context(struct scene *s, struct tenants_result *out)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_device_info info = {.struct_size = sizeof(info)};
    gantry_module *module;
    void *counts;
    options.driver = s->settings->driver;
    if (!ok(gantry_context_create(&options, &s->context)) ||
        !ok(gantry_context_device_info(s->context, &info)) ||
        !ok(gantry_module_load(s->context, &gantry_image_tenant_kernels, &module)) ||
        !ok(gantry_module_get_kernel(module, "tenant_busy", &s->kernel)) ||
        !ok(gantry_heap_alloc(gantry_context_heap(s->context), GANTRY_MEMORY_PINNED, 64 * TENANTS, 0,
                              GANTRY_ALLOC_SITE("counts"), &counts))) {
        return false;
    }
    s->counts = counts;
    s->blocks = info.emulated ? 1 : info.total_sms * 2;
    memcpy(out->device, info.name, sizeof(out->device));
    out->emulated = info.emulated;
    return true;
}

bool gantry_sample_tenants_run(const struct tenants_settings *settings, struct tenants_result *out)
{
    struct scene s = {.settings = settings};
    memset(out, 0, sizeof(*out));
    bool good = open_context(&s, out);
    for (int way = 0; way < TENANTS_WAYS && good; way++) {
        if ((settings->ways >> way & 1) == 0) {
            continue;
        }
        if (settings->begins != NULL) {
            settings->begins((enum tenants_way)way, settings->seconds);
        }
        good = run_way(&s, (enum tenants_way)way, out);
    }
    if (s.counts != NULL) {
        (void)gantry_heap_free(gantry_context_heap(s.context), s.counts);
    }
    gantry_context_destroy(s.context);
    return good;
}
