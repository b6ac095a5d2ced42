/* SPDX-License-Identifier: MIT */
/* The tool's library is opened once and stays: a range may be open at any time, and is closed by the code
 * that opened it. */
#include "profile/nvtx.h"

#include "base/environment.h"
#include "base/span.h"
#include "base/status.h"
#include "base/thread.h"
#include "profile/injection.h"

static gy_mutex lock = {PTHREAD_MUTEX_INITIALIZER, GY_RANK_LEAF};
static bool was_tried;           /* guarded by lock: the tool was looked for */
static atomic_bool is_there;     /* atomic: a tool listens; set once */
static struct gy_injection tool; /* guarded by lock; immutable once is_there */
static void *domain;             /* likewise */

static const char *const categories[] = {
    [GY_RANGE_TASK + GANTRY_TASK_CPU] = "CPU task",
    [GY_RANGE_TASK + GANTRY_TASK_SYNC_POINT] = "sync point",
    [GY_RANGE_TASK + GANTRY_TASK_HTOD] = "HtoD",
    [GY_RANGE_TASK + GANTRY_TASK_KERNEL] = "kernel",
    [GY_RANGE_TASK + GANTRY_TASK_DTOH] = "DtoH",
    [GY_RANGE_PHASE] = "phase",
    [GY_RANGE_BATCH] = "batch",
    [GY_RANGE_WAIT] = "wait",
    [GY_RANGE_STEP] = "step",
    [GY_RANGE_COPY] = "copy",
};

static struct gy_injection_event event_of(uint32_t kind, const char *name)
{
    return (struct gy_injection_event){.version = GY_INJECTION_VERSION,
                                       .bytes = sizeof(struct gy_injection_event),
                                       .category = kind,
                                       .message_type = GY_INJECTION_ASCII,
                                       .message = name};
}

static void push(uint32_t kind, const char *name)
{
    const struct gy_injection_event event = event_of(kind, name);
    if (tool.push != NULL) {
        (void)tool.push(domain, &event);
    }
}

static void pop(void)
{
    if (tool.pop != NULL) {
        (void)tool.pop(domain);
    }
}

static uint64_t start(uint32_t kind, const char *name)
{
    const struct gy_injection_event event = event_of(kind, name);
    return tool.start != NULL ? tool.start(domain, &event) : 0;
}

static void end(uint64_t number)
{
    if (tool.end != NULL) {
        tool.end(domain, number);
    }
}

static void mark(uint32_t kind, const char *name, uint64_t bytes)
{
    struct gy_injection_event event = event_of(kind, name);
    event.payload_type = GY_INJECTION_UINT64;
    event.payload = bytes;
    if (tool.put_mark != NULL) {
        tool.put_mark(domain, &event);
    }
}

static void name_device(int device, const char *name)
{
    if (tool.name_device != NULL) {
        tool.name_device(device, name);
    }
}

static void name_stream(void *stream, const char *name)
{
    if (tool.name_stream != NULL) {
        tool.name_stream(stream, name);
    }
}

static const struct gy_span_ranges ranges = {push, pop,         start,      end,
                                             mark, name_device, name_stream}; /* immutable */

/* Spans are emitted to this sink while nothing is recorded: it makes them begin and end. */
static void ignore(struct gy_span_sink *self, enum gy_span_category category, const char *name,
                   uint64_t begin_ns, uint64_t end_ns, uint64_t id)
{
    (void)self;
    (void)category;
    (void)name;
    (void)begin_ns;
    (void)end_ns;
    (void)id;
}
static struct gy_span_sink idle = {.emit = ignore}; /* immutable */

/* A recording that runs has a sink of its own. */
static void tell(void)
{
    struct gy_span_sink *none = NULL;
    if (!atomic_load(&is_there)) {
        return;
    }
    (void)atomic_compare_exchange_strong(&gy_span_current, &none, &idle);
}

static void open_tool(const char *file)
{
    char why[256];
    if (!gy_injection_open(file, &tool, why, sizeof(why))) {
        gy_note("no NVTX ranges: %s", why);
        return;
    }
    domain = tool.create_domain != NULL ? tool.create_domain("gantry") : NULL;
    for (uint32_t i = GY_RANGE_TASK;
         i < sizeof(categories) / sizeof(categories[0]) && tool.name_category != NULL; i++) {
        tool.name_category(domain, i, categories[i]);
    }
    atomic_store(&is_there, true);
    atomic_store_explicit(&gy_span_ranges, &ranges, memory_order_release);
    gy_log(GANTRY_LOG_DEBUG, "profile: spans are told to %.200s as NVTX ranges", file);
}

void gy_nvtx_begin(void)
{
    gy_mutex_lock(&lock);
    if (!was_tried) {
        was_tried = true;
        const char *ours = gy_environment_even_empty("GANTRY_NVTX");
        const char *file = ours != NULL ? ours : gy_environment_even_empty("NVTX_INJECTION64_PATH");
        if (file != NULL && file[0] != '\0') {
            open_tool(file);
        }
    }
    gy_mutex_unlock(&lock);
    tell();
}

void gy_nvtx_end(void)
{
    tell();
}
