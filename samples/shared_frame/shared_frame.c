/* SPDX-License-Identifier: MIT */
/* Vulkan draws a frame, Gantry blurs it and counts its brightness, Vulkan reads the result back.
 *
 * Two frames are in flight; each has its memory, which Vulkan has allocated, its task manager and its
 * exchange.
 *
 *     Vulkan: draw --drawn--> Gantry: acquire -> filter -> release --filtered--> Vulkan: read back
 *
 * Every frame is compared with the CPU's, the last one becomes a PNG file.  --without-waits leaves both waits
 * out, and frames are wrong then: without such a run nobody knows that the comparison notices anything. */
#include "frame_kernels.kernels.h" /* made of frame_kernels.cu by gantry_add_kernels() */
#include "samples/shared_frame/frame.h"
#include "samples/shared_frame/renderer.h"
#include "samples/shared_frame/window.h"

#include "samples/image_pipeline/png_io.h"

#include <gantry/gantry.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SLOTS = 2, THREADS = 256, NO_VULKAN = 77 };

enum way { WAY_AUTO, WAY_HOST, WAY_DEVICE, WAY_AHEAD, WAYS };
static const char *const way_names[] = {"auto", "host", "device", "ahead"};

struct settings {
    uint32_t frames;
    gantry_driver_choice driver;
    enum way way;
    uint32_t in_flight;    /* frames under way at once, at most SLOTS */
    uint32_t check_every;  /* compare one frame of so many */
    uint32_t stop_drawing; /* the renderer draws only so many frames; 0: all */
    bool without_waits, graphs, gantry_first, window, image;
    const char *output; /* NULL: no file */
};

struct slot {
    struct renderer_slot vulkan;
    const struct settings *settings;
    gantry_kernel *filter, *fetch;
    gantry_shared_memory *memory, *image_memory;
    gantry_shared_image *image; /* NULL: Vulkan copies what it has drawn into the memory */
    gantry_exchange *exchange;
    gantry_taskman *manager;
    uint8_t *frame;      /* device address of the shared memory */
    uint32_t number;     /* of the frame in it */
    uint64_t value;      /* of its timelines; 0: none yet */
    bool is_busy;        /* a frame is under way */
    uint64_t acquire_ns; /* of all its frames, host time of the calls */
    uint64_t release_ns;
    uint32_t *drawn, *want; /* for the comparison */
};

static gantry_context *context;
static struct renderer renderer;
static struct slot slots[SLOTS];
static struct window *window;       /* NULL: none was asked for */
static gantry_cpu_dispatcher *pool; /* NULL: who waits for a step does its work */
static uint32_t wrong, checked;
static uint64_t *acquire_ns, *release_ns; /* host time of the calls, per frame */
static bool on_device;                    /* the GPU waits and signals */
static bool has_stopped;                  /* a step has failed, since the renderer has stopped drawing */

static bool gantry_good(gantry_status status)
{
    if (status != GANTRY_OK) {
        fprintf(stderr, "shared_frame: %s\n", gantry_last_error());
    }
    return status == GANTRY_OK;
}

static bool vulkan_good(bool good)
{
    if (!good) {
        fprintf(stderr, "shared_frame: %s\n", renderer.error);
    }
    return good;
}

/* ---- the exchange ------------------------------------------------------------------------------ */

static gantry_status wait_drawn(void *arg, uint64_t value, uint64_t timeout_ns)
{
    struct slot *s = arg;
    if (s->settings->without_waits) {
        return GANTRY_OK;
    }
    VkSemaphoreWaitInfo wait = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                                .semaphoreCount = 1,
                                .pSemaphores = &s->vulkan.drawn,
                                .pValues = &value};
    VkResult result = vkWaitSemaphores(renderer.device, &wait, timeout_ns);
    return result == VK_SUCCESS   ? GANTRY_OK
           : result == VK_TIMEOUT ? GANTRY_ERR_TIMED_OUT
                                  : GANTRY_ERR_DEVICE_LOST;
}

static gantry_status signal_filtered(void *arg, uint64_t value)
{
    struct slot *s = arg;
    VkSemaphoreSignalInfo signal = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO, .semaphore = s->vulkan.filtered, .value = value};
    return vkSignalSemaphore(renderer.device, &signal) == VK_SUCCESS ? GANTRY_OK : GANTRY_ERR_DEVICE_LOST;
}

static gantry_launch_result filter(gantry_launch *launch, void *arg)
{
    struct slot *s = arg;
    void *from = s->frame, *to = s->frame + FRAME_OUT, *histogram = s->frame + FRAME_HISTOGRAM;
    void *args[] = {&from, &to, &histogram};
    gantry_dim3 grid = {(FRAME_PIXELS + THREADS - 1) / THREADS, 1, 1}, block = {THREADS, 1, 1};
    gantry_status status = gantry_launch_fill(launch, histogram, 0, 4, FRAME_BINS);
    if (status == GANTRY_OK && s->image != NULL) {
        uint64_t image = gantry_shared_image_surface(s->image);
        void *fetched[] = {&image, &from};
        gantry_dim3 rows = {FRAME_HEIGHT, 1, 1};
        status = gantry_launch_kernel(launch, s->fetch, rows, block, 0, fetched);
    }
    if (status == GANTRY_OK) {
        status = gantry_launch_kernel(launch, s->filter, grid, block, 0, args);
    }
    return status == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

/* ---- a frame in flight ------------------------------------------------------------------------- */

static bool import_one(int fd, uint64_t bytes, const char *label, gantry_shared_memory **out)
{
    gantry_shared_memory_options options = GANTRY_SHARED_MEMORY_OPTIONS_INIT;
    options.fd = fd;
    options.bytes = bytes;
    options.dedicated = 1;
    options.label = label;
    memcpy(options.device_uuid, renderer.uuid, sizeof(options.device_uuid));
    if (!vulkan_good(fd >= 0)) {
        return false;
    }
    if (!gantry_good(gantry_shared_memory_import(context, &options, out))) {
        close(fd); /* still ours */
        return false;
    }
    return true;
}

static bool import_image(struct slot *s)
{
    gantry_shared_image_options options = GANTRY_SHARED_IMAGE_OPTIONS_INIT;
    options.width = FRAME_WIDTH;
    options.height = FRAME_HEIGHT;
    options.is_attachment = 1;
    return import_one(renderer_export_image(&s->vulkan), s->vulkan.image_bytes, "image", &s->image_memory) &&
           gantry_good(gantry_shared_memory_map_image(s->image_memory, &options, &s->image));
}

static bool import(struct slot *s)
{
    return import_one(renderer_export(&s->vulkan), s->vulkan.shared_bytes, "frame", &s->memory) &&
           gantry_good(gantry_shared_memory_map(s->memory, 0, FRAME_MEMORY, (void **)&s->frame)) &&
           (!s->settings->image || import_image(s));
}

/* On the device way if both drivers can, unless the settings say otherwise. */
static bool create_exchange(struct slot *s, gantry_exchange_options *options)
{
    if (s->settings->way != WAY_HOST && renderer.get_semaphore_fd != NULL) {
        gantry_exchange_options device = *options;
        device.way = s->settings->way == WAY_DEVICE ? GANTRY_EXCHANGE_DEVICE : GANTRY_EXCHANGE_AHEAD;
        device.wait_fd = renderer_export_timeline(&s->vulkan, s->vulkan.drawn);
        device.signal_fd = renderer_export_timeline(&s->vulkan, s->vulkan.filtered);
        if (!vulkan_good(device.wait_fd >= 0 && device.signal_fd >= 0)) {
            return false;
        }
        gantry_status status = gantry_exchange_create(context, &device, &s->exchange);
        on_device = status == GANTRY_OK;
        if (status == GANTRY_OK) {
            return true;
        }
        close(device.wait_fd); /* still ours */
        close(device.signal_fd);
        if (status != GANTRY_ERR_UNSUPPORTED || s->settings->way != WAY_AUTO) {
            return gantry_good(status);
        }
    }
    if (s->settings->way >= WAY_DEVICE) {
        fprintf(stderr, "shared_frame: %s exports no timelines, as --way %s needs\n", renderer.name,
                way_names[s->settings->way]);
        return false;
    }
    return gantry_good(gantry_exchange_create(context, options, &s->exchange));
}

/* acquire -> filter -> release, frozen: run for every frame */
static bool build(struct slot *s)
{
    gantry_taskman_options manager = {sizeof(manager), .gpu_dispatcher = gantry_context_dispatcher(context)};
    manager.cpu_dispatcher = pool;
    gantry_exchange_options exchange = GANTRY_EXCHANGE_OPTIONS_INIT;
    gantry_task_desc work = {.struct_size = sizeof(work),
                             .kind = GANTRY_TASK_KERNEL,
                             .label = "filter",
                             .launch = filter,
                             .arg = s,
                             .is_stable = true};
    gantry_task *acquire, *release, *task;
    exchange.wait = wait_drawn;
    exchange.signal = signal_filtered;
    exchange.user = s;
    exchange.label = "frame";
    exchange.timeout_ns = s->settings->stop_drawing != 0 ? UINT64_C(3000000000) : UINT64_C(10000000000);
    return gantry_good(gantry_taskman_create(&manager, &s->manager)) && create_exchange(s, &exchange) &&
           gantry_good(gantry_exchange_tasks(s->exchange, s->manager, &acquire, &release)) &&
           gantry_good(gantry_taskman_submit(s->manager, &work, &task)) &&
           gantry_good(gantry_task_start_after(task, acquire)) &&
           gantry_good(gantry_task_start_after(release, task)) &&
           gantry_good(gantry_taskman_freeze(s->manager));
}

static bool open_slot(struct slot *s, const struct settings *settings, gantry_module *module)
{
    s->settings = settings;
    if (!gantry_good(gantry_module_get_kernel(module, "filter_frame", &s->filter)) ||
        !gantry_good(gantry_module_get_kernel(module, "fetch_frame", &s->fetch))) {
        return false;
    }
    s->drawn = malloc(FRAME_BYTES);
    s->want = malloc(FRAME_BYTES);
    if (s->drawn == NULL || s->want == NULL) {
        fprintf(stderr, "shared_frame: out of memory\n");
        return false;
    }
    return vulkan_good(renderer_slot_open(&renderer, &s->vulkan)) && import(s) && build(s);
}

static void close_slot(struct slot *s)
{
    gantry_taskman_destroy(s->manager);
    gantry_exchange_destroy(s->exchange);
    gantry_shared_memory_destroy(s->image_memory);
    gantry_shared_memory_destroy(s->memory);
    renderer_slot_close(&s->vulkan);
    free(s->drawn);
    free(s->want);
}

/* Vulkan draws the frame; in a recording this is a slice. */
static bool draw(struct slot *s)
{
    uint64_t begin = gantry_profile_now();
    bool good = vulkan_good(renderer_draw(&s->vulkan, s->number, s->value));
    (void)gantry_profile_span("Vulkan draws", begin, gantry_profile_now(), s->number);
    return good;
}

/* The renderer is gone: nothing is drawn, and nothing reads what is filtered. */
static bool is_missing(const struct settings *settings, uint32_t number)
{
    return settings->stop_drawing != 0 && number >= settings->stop_drawing;
}

static bool begin_frame(struct slot *s, uint32_t number)
{
    s->number = number;
    s->value++;
    bool is_drawn = !is_missing(s->settings, number), vulkan_first = is_drawn && !s->settings->gantry_first;
    if ((vulkan_first && !draw(s)) || !gantry_good(gantry_exchange_next(s->exchange, s->value, s->value)) ||
        !gantry_good(gantry_taskman_start(s->manager))) {
        return false;
    }
    s->is_busy = true;
    if (!is_drawn) {
        return true;
    }
    if (!vulkan_first && !draw(s)) {
        return false;
    }
    return vulkan_good(renderer_read(&s->vulkan, s->value, !s->settings->without_waits));
}

static bool end_frame(struct slot *s)
{
    uint32_t histogram[FRAME_BINS];
    if (!s->is_busy) {
        return true;
    }
    s->is_busy = false;
    gantry_status status = gantry_taskman_stop(s->manager);
    if (is_missing(s->settings, s->number)) {
        has_stopped = has_stopped || status == GANTRY_ERR_TIMED_OUT;
        printf("frame %u, which was not drawn: %s\n", s->number,
               status == GANTRY_OK ? "its step has not failed" : gantry_last_error());
        return status == GANTRY_ERR_TIMED_OUT;
    }
    if (!gantry_good(status)) {
        (void)signal_filtered(s,
                              s->value); /* nobody else will: what Vulkan has queued must not wait for ever */
        return false;
    }
    if (!vulkan_good(renderer_wait_read(&s->vulkan))) {
        return false;
    }
    gantry_exchange_stats stats = {.struct_size = sizeof(stats)};
    if (!gantry_good(gantry_exchange_get_stats(s->exchange, &stats))) {
        return false;
    }
    acquire_ns[s->number] = stats.acquire_ns - s->acquire_ns;
    release_ns[s->number] = stats.release_ns - s->release_ns;
    s->acquire_ns = stats.acquire_ns;
    s->release_ns = stats.release_ns;
    if (s->number % s->settings->check_every != 0) {
        return true;
    }
    checked++;
    frame_expect(s->number, s->drawn, s->want, histogram);
    wrong += memcmp(s->vulkan.seen, s->want, FRAME_BYTES) != 0 ||
             memcmp(s->vulkan.seen + FRAME_PIXELS, histogram, sizeof(histogram)) != 0;
    return true;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Show the frame that was read back last; once a second the title says how many there are in one. */
static bool show(const struct slot *s)
{
    static double since;
    static uint32_t count;
    if (window == NULL) {
        return true;
    }
    uint64_t begin = gantry_profile_now();
    bool good = vulkan_good(window_show(window, &s->vulkan));
    (void)gantry_profile_span("present", begin, gantry_profile_now(), s->number);
    double time = now();
    since = since > 0 ? since : time;
    count++;
    if (time - since >= 1) {
        char title[64];
        snprintf(title, sizeof(title), "shared_frame: %.0f frames per second", count / (time - since));
        window_set_title(window, title);
        since = time;
        count = 0;
    }
    return good;
}

static bool write_picture(const struct slot *s)
{
    static uint8_t gray[FRAME_PIXELS];
    char error[IMAGE_ERROR_BYTES];
    for (uint32_t i = 0; i < FRAME_PIXELS; i++) {
        uint32_t p = s->vulkan.seen[i];
        gray[i] = (uint8_t)(((p & 255) + 2 * (p >> 8 & 255) + (p >> 16 & 255)) / 4);
    }
    if (!image_write_gray(s->settings->output, gray, FRAME_WIDTH, FRAME_HEIGHT, error)) {
        fprintf(stderr, "shared_frame: %s %s\n", s->settings->output, error);
        return false;
    }
    return true;
}

/* ---- the program -------------------------------------------------------------------------------- */

/* *out_frames: as many as there were, fewer than wanted where the user has closed the window. */
static bool run_frames(const struct settings *settings, uint32_t *out_frames)
{
    bool good = true;
    uint32_t number = 0;
    while (good && !has_stopped && number < settings->frames &&
           (window == NULL || !window_is_closed(window))) {
        struct slot *s = &slots[number % settings->in_flight];
        bool was_busy = s->is_busy;
        good = end_frame(s) && (has_stopped || ((!was_busy || show(s)) && begin_frame(s, number)));
        number += !has_stopped;
    }
    *out_frames = number;
    for (uint32_t i = 0; i < settings->in_flight; i++) {
        struct slot *s = &slots[(number + i) % settings->in_flight];
        bool was_busy = s->is_busy;
        good = end_frame(s) && (!was_busy || has_stopped || show(s)) && good;
    }
    return good;
}

static int compare(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

/* In microseconds. */
static double median(uint64_t *ns, uint32_t count)
{
    qsort(ns, count, sizeof(*ns), compare);
    return (double)ns[count / 2] / 1e3;
}

static void tell(const struct settings *settings, uint32_t frames, const gantry_device_info *info,
                 double seconds)
{
    gantry_exchange_stats sum = {.struct_size = sizeof(sum)};
    for (int i = 0; i < SLOTS; i++) {
        gantry_exchange_stats stats = {.struct_size = sizeof(stats)};
        if (gantry_exchange_get_stats(slots[i].exchange, &stats) == GANTRY_OK) {
            sum.steps += stats.steps;
            sum.at_once += stats.at_once;
            sum.waited_ns += stats.waited_ns;
        }
    }
    printf("%u frames of %d x %d, drawn by %s, filtered by %s; handed over by the %s\n", frames, FRAME_WIDTH,
           FRAME_HEIGHT, renderer.name, info->name, on_device ? "GPU" : "host");
    if (info->emulated) {
        printf("%llu of %llu steps found their frame drawn already; emulated, so times mean nothing\n",
               (unsigned long long)sum.at_once, (unsigned long long)sum.steps);
    }
    if ((!info->emulated || window != NULL) && frames > 0) {
        uint64_t waited = sum.steps > sum.at_once ? sum.steps - sum.at_once : 1;
        printf("%.0f frames per second, %.0f us each; %llu of %llu steps found their frame drawn already, "
               "the others "
               "waited %.0f us\n",
               frames / seconds, seconds * 1e6 / frames, (unsigned long long)sum.at_once,
               (unsigned long long)sum.steps, (double)sum.waited_ns / 1e3 / (double)waited);
        printf("host time per frame: acquire %.2f us, release %.2f us (medians)\n",
               median(acquire_ns, frames), median(release_ns, frames));
    }
    if (wrong == 0 && has_stopped) {
        printf("the %u frames that were drawn and compared are right\n", checked);
    } else if (wrong == 0 && checked == frames) {
        printf("all frames are right\n");
    } else if (wrong == 0) {
        printf("the %u frames that were compared are right\n", checked);
    } else {
        printf("%u of %u frames are wrong%s\n", wrong, checked,
               settings->without_waits ? ", as they should be without waits" : "");
    }
}

/* While this thread waits for Vulkan to show one frame, behind the other one in its queue, another thread is
 * needed for that one's step. */
static bool open_pool(void)
{
    gantry_cpu_dispatcher_options options = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    options.worker_count = 1;
    return gantry_good(gantry_cpu_dispatcher_create(&options, &pool));
}

static int run(const struct settings *settings)
{
    gantry_device_info info = {.struct_size = sizeof(info)};
    gantry_module *module;
    if (!gantry_good(gantry_context_device_info(context, &info))) {
        return 1;
    }
    struct renderer_window needs;
    char why[256];
    if (settings->window && !window_prepare(&needs, why)) {
        fprintf(stderr, "shared_frame: %s\n", why);
        return 1;
    }
    enum renderer_found found = renderer_open_for_window(&renderer, info.emulated ? NULL : info.uuid,
                                                         settings->window ? &needs : NULL);
    if (found != RENDERER_GOOD) {
        fprintf(stderr, "shared_frame: %s\n", renderer.error);
        return found == RENDERER_NONE ? NO_VULKAN : 1;
    }
    acquire_ns = calloc(settings->frames, sizeof(*acquire_ns));
    release_ns = calloc(settings->frames, sizeof(*release_ns));
    if (acquire_ns == NULL || release_ns == NULL) {
        fprintf(stderr, "shared_frame: out of memory\n");
        return 1;
    }
    renderer.shares_images = settings->image;
    bool good = (!settings->window || open_pool()) &&
                gantry_good(gantry_module_load(context, &gantry_image_frame_kernels, &module));
    for (int i = 0; good && i < SLOTS; i++) {
        good = open_slot(&slots[i], settings, module);
    }
    if (good && settings->window) {
        window = window_open(&renderer);
        good = vulkan_good(window != NULL);
    }
    double since = now();
    uint32_t frames = 0;
    if (good) {
        good = run_frames(settings, &frames);
        tell(settings, frames, &info, now() - since);
    }
    if (good && settings->output != NULL && frames > 0) {
        good = write_picture(&slots[(frames - 1) % settings->in_flight]);
    }
    window_close(window);
    for (int i = 0; i < SLOTS; i++) {
        close_slot(&slots[i]);
    }
    gantry_cpu_dispatcher_destroy(pool);
    free(acquire_ns);
    free(release_ns);
    return good && wrong == 0 ? 0 : 1;
}

static const char usage[] =
    "usage: shared_frame [--frames N] [--driver DRIVER] [--way WAY] [--graphs] [--gantry-first] "
    "[--check-every N]\n"
    "                    [--in-flight N] [--stop-drawing N] [--output FILE] [--without-waits] [--image] "
    "[--window]\n\n"
    "Vulkan draws frames, Gantry filters them in the same memory, Vulkan reads them back; each is compared "
    "with "
    "what\nthe CPU computes.  Exit status 0: all are right; 1: some are wrong, or a call failed; 77: there "
    "is no "
    "Vulkan driver\nthat can share memory with the device.\n\n"
    "  --frames N        how many (60)\n"
    "  --driver DRIVER   auto (the default), cuda or emulated\n"
    "  --way WAY         who waits and signals: host, device, ahead (the device, with its work behind the "
    "wait), or\n"
    "                    auto (the default): ahead where both drivers can, else host\n"
    "  --graphs          launch GPU work as graphs\n"
    "  --gantry-first    start each step before its frame is drawn\n"
    "  --in-flight N     frames under way at once: 1 or 2 (the default)\n"
    "  --stop-drawing N  the renderer draws N frames and is gone then: the next step fails, and its error "
    "says "
    "so\n"
    "  --check-every N   compare one frame of N only, to measure the others\n"
    "  --output FILE     write the last frame as a PNG file\n"
    "  --without-waits   leave the waits out (on the host way): frames are wrong then\n"
    "  --image           share the image that Vulkan draws, in its tiling, in place of a copy of it\n"
    "  --window          show the filtered frames in a window until they are over or it is closed\n";

static bool read_way(const char *name, enum way *out)
{
    for (int i = 0; i < WAYS; i++) {
        if (strcmp(name, way_names[i]) == 0) {
            *out = (enum way)i;
            return true;
        }
    }
    fprintf(stderr, "shared_frame: --way is \"%s\", not auto, host, device or ahead\n", name);
    return false;
}

static bool read_driver(const char *name, gantry_driver_choice *out)
{
    static const char *const names[] = {"auto", "cuda", "emulated"};
    for (int i = 0; i < 3; i++) {
        if (strcmp(name, names[i]) == 0) {
            *out = (gantry_driver_choice)i;
            return true;
        }
    }
    fprintf(stderr, "shared_frame: --driver is \"%s\", not auto, cuda or emulated\n", name);
    return false;
}

static bool read_count(const char *option, const char *text, uint32_t most, uint32_t *out)
{
    char *end;
    unsigned long number = strtoul(text, &end, 10);
    if (end == text || *end != '\0' || number < 1 || number > most) {
        fprintf(stderr, "shared_frame: %s is \"%s\", not a number from 1 to %u\n", option, text, most);
        return false;
    }
    *out = (uint32_t)number;
    return true;
}

/* -1: go on; else the exit status. */
static int read_options(int argc, char **argv, struct settings *out)
{
    static const struct option table[] = {
        {"frames", required_argument, NULL, 'n'},    {"driver", required_argument, NULL, 'd'},
        {"way", required_argument, NULL, 'y'},       {"graphs", no_argument, NULL, 'g'},
        {"gantry-first", no_argument, NULL, 'f'},    {"check-every", required_argument, NULL, 'c'},
        {"in-flight", required_argument, NULL, 'i'}, {"stop-drawing", required_argument, NULL, 's'},
        {"output", required_argument, NULL, 'o'},    {"help", no_argument, NULL, 'h'},
        {"without-waits", no_argument, NULL, 'w'},   {"image", no_argument, NULL, 'm'},
        {"window", no_argument, NULL, 'x'},          {NULL, 0, NULL, 0}};
    int option;
    bool good = true;
    while ((option = getopt_long(argc, argv, "h", table, NULL)) != -1) {
        switch (option) {
        case 'n':
            good = read_count("--frames", optarg, 1000000, &out->frames) && good;
            break;
        case 'd':
            good = read_driver(optarg, &out->driver) && good;
            break;
        case 'y':
            good = read_way(optarg, &out->way) && good;
            break;
        case 'g':
            out->graphs = true;
            break;
        case 'f':
            out->gantry_first = true;
            break;
        case 'c':
            good = read_count("--check-every", optarg, 1000000, &out->check_every) && good;
            break;
        case 'i':
            good = read_count("--in-flight", optarg, SLOTS, &out->in_flight) && good;
            break;
        case 's':
            good = read_count("--stop-drawing", optarg, 1000000, &out->stop_drawing) && good;
            break;
        case 'o':
            out->output = optarg;
            break;
        case 'w':
            out->without_waits = true;
            out->way = WAY_HOST;
            break;
        case 'm':
            out->image = true;
            break;
        case 'x':
            out->window = true;
            break;
        case 'h':
            fputs(usage, stdout);
            return 0;
        default:
            return 2;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "shared_frame: nothing takes \"%s\"\n", argv[optind]);
        good = false;
    }
    return good ? -1 : 2;
}

int main(int argc, char **argv)
{
    struct settings settings = {.frames = 60, .in_flight = SLOTS, .check_every = 1};
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    int status = read_options(argc, argv, &settings);
    if (status >= 0) {
        return status;
    }
    options.driver = settings.driver;
    options.submission = settings.graphs ? GANTRY_SUBMISSION_GRAPHS : GANTRY_SUBMISSION_STREAMS;
    if (!gantry_good(gantry_context_create(&options, &context))) {
        return 1;
    }
    status = run(&settings);
    gantry_context_destroy(context);
    renderer_close(&renderer);
    return status;
}
