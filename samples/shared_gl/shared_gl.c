/* SPDX-License-Identifier: MIT */
/* OpenGL draws a frame, Gantry blurs it, OpenGL reads the result.
 *
 * The memory is Vulkan's, which allocates and exports it and does nothing else; OpenGL and Gantry import it.
 *
 *     OpenGL: draw, finish --drawn--> Gantry: acquire -> filter -> release --filtered--> OpenGL: read
 *
 * Calls of OpenGL belong to the thread of its context.  So this thread draws, waits until that is finished
 * and says so; the functions of the exchange, which threads of the library call, wait for that word only. */
#include "frame_kernels.kernels.h" /* made of frame_kernels.cu by gantry_add_kernels() */
#include "samples/shared_frame/frame.h"
#include "samples/shared_frame/renderer.h"
#include "samples/shared_gl/gl_part.h"

#include <gantry/gantry.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 256, FRAMES = 60, NO_DRIVER = 77 };

/* A timeline of the host: a value that only rises. */
struct timeline {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t value;
};

static struct timeline drawn = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};
static struct timeline filtered = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};
static gantry_context *context;
static gantry_shared_memory *memory[2];
static gantry_exchange *exchange;
static gantry_taskman *manager;
static gantry_kernel *kernel;
static uint8_t *frame[2]; /* device addresses of the shared memory: what is drawn, what is filtered */
static struct renderer renderer;
static struct renderer_slot slots[2];
static struct gl_part gl;

static void set_value(struct timeline *t, uint64_t value)
{
    pthread_mutex_lock(&t->lock);
    t->value = value;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
}

static gantry_status wait_value(struct timeline *t, uint64_t value, uint64_t timeout_ns)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    uint64_t ns = (uint64_t)until.tv_nsec + timeout_ns;
    until.tv_sec += (time_t)(ns / 1000000000);
    until.tv_nsec = (long)(ns % 1000000000);
    pthread_mutex_lock(&t->lock);
    int failed = 0;
    while (t->value < value && failed == 0 && timeout_ns != 0) {
        failed = pthread_cond_timedwait(&t->changed, &t->lock, &until);
    }
    bool reached = t->value >= value;
    pthread_mutex_unlock(&t->lock);
    return reached ? GANTRY_OK : GANTRY_ERR_TIMED_OUT;
}

static gantry_status wait_drawn(void *arg, uint64_t value, uint64_t timeout_ns)
{
    (void)arg;
    return wait_value(&drawn, value, timeout_ns);
}

static gantry_status signal_filtered(void *arg, uint64_t value)
{
    (void)arg;
    set_value(&filtered, value);
    return GANTRY_OK;
}

static gantry_launch_result filter(gantry_launch *launch, void *arg)
{
    (void)arg;
    void *from = frame[GL_DRAWN], *to = frame[GL_FILTERED], *histogram = frame[GL_FILTERED] + FRAME_BYTES;
    void *args[] = {&from, &to, &histogram};
    gantry_dim3 grid = {(FRAME_PIXELS + THREADS - 1) / THREADS, 1, 1}, block = {THREADS, 1, 1};
    gantry_status status = gantry_launch_fill(launch, histogram, 0, 4, FRAME_BINS);
    if (status == GANTRY_OK) {
        status = gantry_launch_kernel(launch, kernel, grid, block, 0, args);
    }
    return status == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static bool good(gantry_status status)
{
    if (status != GANTRY_OK) {
        fprintf(stderr, "shared_gl: %s\n", gantry_last_error());
    }
    return status == GANTRY_OK;
}

static bool told(bool is_good, const char *error)
{
    if (!is_good) {
        fprintf(stderr, "shared_gl: %s\n", error);
    }
    return is_good;
}

/* One descriptor for each of the two that import it. */
static bool share_memory(enum gl_texture which)
{
    struct renderer_slot *slot = &slots[which];
    gantry_shared_memory_options options = GANTRY_SHARED_MEMORY_OPTIONS_INIT;
    if (!told(renderer_slot_open(&renderer, slot), renderer.error)) {
        return false;
    }
    int for_gl = renderer_export(slot);
    options.fd = renderer_export(slot);
    if (!told(for_gl >= 0 && options.fd >= 0, renderer.error)) {
        return false;
    }
    options.bytes = slot->shared_bytes;
    options.dedicated = 1;
    options.label = which == GL_DRAWN ? "drawn" : "filtered";
    memcpy(options.device_uuid, renderer.uuid, sizeof(options.device_uuid));
    if (!told(gl_import(&gl, which, for_gl, slot->shared_bytes), gl.error)) {
        close(for_gl);
        close(options.fd);
        return false;
    }
    if (!good(gantry_shared_memory_import(context, &options, &memory[which]))) {
        close(options.fd); /* still ours */
        return false;
    }
    return good(gantry_shared_memory_map(memory[which], 0, FRAME_MEMORY, (void **)&frame[which]));
}

static bool build(void)
{
    gantry_taskman_options options = {sizeof(options), .gpu_dispatcher = gantry_context_dispatcher(context)};
    gantry_exchange_options way = GANTRY_EXCHANGE_OPTIONS_INIT;
    gantry_task_desc work = {
        .struct_size = sizeof(work), .kind = GANTRY_TASK_KERNEL, .label = "filter", .launch = filter};
    gantry_module *module;
    gantry_task *acquire, *release, *task;
    way.wait = wait_drawn;
    way.signal = signal_filtered;
    way.label = "frame";
    return good(gantry_module_load(context, &gantry_image_frame_kernels, &module)) &&
           good(gantry_module_get_kernel(module, "filter_frame", &kernel)) &&
           good(gantry_taskman_create(&options, &manager)) &&
           good(gantry_exchange_create(context, &way, &exchange)) &&
           good(gantry_exchange_tasks(exchange, manager, &acquire, &release)) &&
           good(gantry_taskman_submit(manager, &work, &task)) &&
           good(gantry_task_start_after(task, acquire)) && good(gantry_task_start_after(release, task)) &&
           good(gantry_taskman_freeze(manager));
}

static bool run_frame(uint32_t number, uint32_t *wrong)
{
    static uint32_t before[FRAME_PIXELS], want[FRAME_PIXELS], seen[FRAME_PIXELS];
    uint32_t histogram[FRAME_BINS];
    uint64_t value = number + 1;
    if (!good(gantry_exchange_next(exchange, value, value)) || !good(gantry_taskman_start(manager))) {
        return false;
    }
    bool is_drawn = told(gl_draw(&gl, number), gl.error);
    if (is_drawn) {
        set_value(&drawn, value);
    }
    if (!good(gantry_taskman_stop(manager)) || !is_drawn ||
        !good(wait_value(&filtered, value, UINT64_C(1000000000))) || !told(gl_read(&gl, seen), gl.error)) {
        return false;
    }
    frame_expect(number, before, want, histogram);
    *wrong += memcmp(seen, want, FRAME_BYTES) != 0;
    return true;
}

static int run(void)
{
    gantry_device_info info = {.struct_size = sizeof(info)};
    uint32_t wrong = 0;
    if (!good(gantry_context_device_info(context, &info))) {
        return 1;
    }
    enum renderer_found vulkan = renderer_open(&renderer, info.emulated ? NULL : info.uuid);
    if (!told(vulkan == RENDERER_GOOD, renderer.error)) {
        return vulkan == RENDERER_NONE ? NO_DRIVER : 1;
    }
    enum gl_found found = gl_open(&gl, renderer.uuid);
    if (!told(found == GL_GOOD, gl.error)) {
        return found == GL_NONE ? NO_DRIVER : 1;
    }
    bool is_good = share_memory(GL_DRAWN) && share_memory(GL_FILTERED) && build();
    for (uint32_t number = 0; is_good && number < FRAMES; number++) {
        is_good = run_frame(number, &wrong);
    }
    if (is_good) {
        printf("%d frames of %d x %d, drawn by %s, filtered by %s: %u are wrong\n", FRAMES, FRAME_WIDTH,
               FRAME_HEIGHT, gl.name, info.name, wrong);
    }
    return is_good && wrong == 0 ? 0 : 1;
}

int main(void)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    if (!good(gantry_context_create(&options, &context))) {
        return 1;
    }
    int status = run();
    gantry_taskman_destroy(manager);
    gantry_exchange_destroy(exchange);
    gl_close(&gl);
    for (int i = 0; i < 2; i++) {
        gantry_shared_memory_destroy(memory[i]);
        renderer_slot_close(&slots[i]);
    }
    gantry_context_destroy(context);
    renderer_close(&renderer);
    return status;
}
