/* SPDX-License-Identifier: MIT */
/* The renderer is another process, and is killed in the middle of it all.
 *
 *     child: Vulkan draws a frame --drawn--> parent: Gantry filters it --filtered--> child: reads and
 * compares
 *
 * The child sends descriptors of its memory and, where its driver exports them, of its timelines.  Elsewhere
 * the two processes tell each other by words in memory that both have, and the exchange is on the host way.
 * After FRAMES frames the child is killed: the next step must fail with the exchange's label and both values,
 * and other work must go on. */
#include "frame_kernels.kernels.h" /* made of frame_kernels.cu by gantry_add_kernels() */
#include "samples/shared_frame/frame.h"
#include "samples/shared_frame/renderer.h"

#include <gantry/gantry.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { FRAMES = 20, THREADS = 256, NO_VULKAN = 77, MOST_FDS = 3 };

/* In memory that both processes have. */
struct words {
    _Atomic(uint64_t) drawn, filtered; /* host way: the timelines */
    _Atomic(uint32_t) compared, wrong;
};

/* What the child tells of itself, with descriptors of the memory and the timelines. */
struct greeting {
    enum renderer_found found;
    uint64_t bytes;
    bool has_timelines;
    uint8_t uuid[16];
    char text[256]; /* its device, or the error */
};

/* What the parent asks for. */
struct request {
    bool any_device;
    uint8_t uuid[16];
};

static struct words *words;

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
}

/* ---- descriptors between processes -------------------------------------------------------------- */

static bool send_all(int socket, struct greeting *greeting, const int *fds, int count)
{
    union {
        char bytes[CMSG_SPACE(MOST_FDS * sizeof(int))];
        struct cmsghdr aligned;
    } control = {.bytes = {0}};
    struct iovec data = {greeting, sizeof(*greeting)};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1};
    if (count > 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE((size_t)count * sizeof(int));
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
        memcpy(CMSG_DATA(head), fds, (size_t)count * sizeof(int));
    }
    return sendmsg(socket, &message, 0) == (ssize_t)sizeof(*greeting);
}

static bool receive_all(int socket, struct greeting *greeting, int fds[MOST_FDS])
{
    union {
        char bytes[CMSG_SPACE(MOST_FDS * sizeof(int))];
        struct cmsghdr aligned;
    } control;
    struct iovec data = {greeting, sizeof(*greeting)};
    struct msghdr message = {.msg_iov = &data,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    if (recvmsg(socket, &message, MSG_WAITALL | MSG_CMSG_CLOEXEC) != (ssize_t)sizeof(*greeting)) {
        return false;
    }
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    if (head != NULL) {
        memcpy(fds, CMSG_DATA(head), head->cmsg_len - CMSG_LEN(0));
    }
    return true;
}

/* ---- the renderer -------------------------------------------------------------------------------- */

/* Host way: tell that the frame is drawn, and pass on that it is filtered. */
static void pass_on(struct renderer_slot *slot, uint64_t value)
{
    VkSemaphoreWaitInfo wait = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                                .semaphoreCount = 1,
                                .pSemaphores = &slot->drawn,
                                .pValues = &value};
    VkSemaphoreSignalInfo signal = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO, .semaphore = slot->filtered, .value = value};
    (void)vkWaitSemaphores(slot->renderer->device, &wait, UINT64_MAX);
    atomic_store(&words->drawn, value);
    while (atomic_load(&words->filtered) < value) {
        nap();
    }
    (void)vkSignalSemaphore(slot->renderer->device, &signal);
}

/* Draw and compare frames until somebody kills it.  Returns when a call has failed. */
static void draw_frames(struct renderer_slot *slot, bool has_timelines)
{
    static uint32_t drawn[FRAME_PIXELS], want[FRAME_PIXELS];
    uint32_t histogram[FRAME_BINS];
    for (uint64_t value = 1;; value++) {
        const uint32_t number = (uint32_t)value;
        while (number > atomic_load(&words->compared) + 1) {
            nap();
        }
        if (!renderer_draw(slot, number, value)) {
            return;
        }
        if (!has_timelines) {
            pass_on(slot, value);
        }
        if (!renderer_read(slot, value, true) || !renderer_wait_read(slot)) {
            return;
        }
        frame_expect(number, drawn, want, histogram);
        atomic_fetch_add(&words->wrong, memcmp(slot->seen, want, FRAME_BYTES) != 0);
        atomic_store(&words->compared, number);
        if (number == FRAMES) {
            for (;;) {
                pause(); /* until it is killed */
            }
        }
    }
}

static int render(int socket)
{
    static struct renderer renderer;
    static struct renderer_slot slot;
    struct request request;
    struct greeting greeting = {.found = RENDERER_FAILED};
    int fds[MOST_FDS], count = 0;
    if (recv(socket, &request, sizeof(request), MSG_WAITALL) != (ssize_t)sizeof(request)) {
        return 1;
    }
    greeting.found = renderer_open(&renderer, request.any_device ? NULL : request.uuid);
    if (greeting.found == RENDERER_GOOD && !renderer_slot_open(&renderer, &slot)) {
        greeting.found = RENDERER_FAILED;
    }
    snprintf(greeting.text, sizeof(greeting.text), "%.255s",
             greeting.found == RENDERER_GOOD ? renderer.name : renderer.error);
    if (greeting.found == RENDERER_GOOD) {
        greeting.bytes = slot.shared_bytes;
        greeting.has_timelines = renderer.get_semaphore_fd != NULL;
        memcpy(greeting.uuid, renderer.uuid, sizeof(greeting.uuid));
        fds[count++] = renderer_export(&slot);
        if (greeting.has_timelines) {
            fds[count++] = renderer_export_timeline(&slot, slot.drawn);
            fds[count++] = renderer_export_timeline(&slot, slot.filtered);
        }
    }
    if (!send_all(socket, &greeting, fds, count) || greeting.found != RENDERER_GOOD) {
        return 1;
    }
    draw_frames(&slot, greeting.has_timelines);
    return 1;
}

/* ---- the filter ---------------------------------------------------------------------------------- */

static gantry_context *context;
static gantry_kernel *kernel;
static uint8_t *frame; /* device address of the shared memory */

static bool good(gantry_status status)
{
    if (status != GANTRY_OK) {
        fprintf(stderr, "shared_frame_killed: %s\n", gantry_last_error());
    }
    return status == GANTRY_OK;
}

static gantry_status wait_drawn(void *arg, uint64_t value, uint64_t timeout_ns)
{
    (void)arg;
    for (uint64_t waited = 0; atomic_load(&words->drawn) < value; waited += 200000) {
        if (waited >= timeout_ns) {
            return GANTRY_ERR_TIMED_OUT;
        }
        nap();
    }
    return GANTRY_OK;
}

static gantry_status signal_filtered(void *arg, uint64_t value)
{
    (void)arg;
    atomic_store(&words->filtered, value);
    return GANTRY_OK;
}

static gantry_launch_result filter(gantry_launch *launch, void *arg)
{
    (void)arg;
    void *from = frame, *to = frame + FRAME_OUT, *histogram = frame + FRAME_HISTOGRAM;
    void *args[] = {&from, &to, &histogram};
    gantry_dim3 grid = {(FRAME_PIXELS + THREADS - 1) / THREADS, 1, 1}, block = {THREADS, 1, 1};
    gantry_status status = gantry_launch_fill(launch, histogram, 0, 4, FRAME_BINS);
    status = status == GANTRY_OK ? gantry_launch_kernel(launch, kernel, grid, block, 0, args) : status;
    return status == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static bool import(const struct greeting *greeting, int fd, gantry_shared_memory **memory)
{
    gantry_shared_memory_options options = GANTRY_SHARED_MEMORY_OPTIONS_INIT;
    options.fd = fd;
    options.bytes = greeting->bytes;
    options.dedicated = 1;
    memcpy(options.device_uuid, greeting->uuid, sizeof(options.device_uuid));
    return good(gantry_shared_memory_import(context, &options, memory)) &&
           good(gantry_shared_memory_map(*memory, 0, FRAME_MEMORY, (void **)&frame));
}

static bool build(gantry_taskman *manager, gantry_exchange *exchange)
{
    gantry_task_desc work = {.struct_size = sizeof(work),
                             .kind = GANTRY_TASK_KERNEL,
                             .label = "filter",
                             .launch = filter,
                             .is_stable = true};
    gantry_module *module;
    gantry_task *acquire, *release, *task;
    return good(gantry_module_load(context, &gantry_image_frame_kernels, &module)) &&
           good(gantry_module_get_kernel(module, "filter_frame", &kernel)) &&
           good(gantry_exchange_tasks(exchange, manager, &acquire, &release)) &&
           good(gantry_taskman_submit(manager, &work, &task)) &&
           good(gantry_task_start_after(task, acquire)) && good(gantry_task_start_after(release, task)) &&
           good(gantry_taskman_freeze(manager));
}

static gantry_status step(gantry_taskman *manager, gantry_exchange *exchange, uint64_t value)
{
    gantry_status status = gantry_exchange_next(exchange, value, value);
    status = status == GANTRY_OK ? gantry_taskman_start(manager) : status;
    return status == GANTRY_OK ? gantry_taskman_stop(manager) : status;
}

/* Another manager's work is not held up by what is left of the step. */
static bool others_go_on(void)
{
    gantry_taskman_options options = {sizeof(options), .gpu_dispatcher = gantry_context_dispatcher(context)};
    gantry_task_desc work = {
        .struct_size = sizeof(work), .kind = GANTRY_TASK_KERNEL, .label = "filter", .launch = filter};
    gantry_taskman *manager;
    bool is_good = good(gantry_taskman_create(&options, &manager)) &&
                   good(gantry_taskman_submit(manager, &work, NULL)) && good(gantry_taskman_start(manager)) &&
                   good(gantry_taskman_stop(manager)) && good(gantry_context_synchronize(context));
    gantry_taskman_destroy(manager);
    return is_good;
}

/* Frames go back and forth, then the renderer is killed. */
static bool run_frames(gantry_taskman *manager, gantry_exchange *exchange, pid_t child)
{
    for (uint64_t value = 1; value <= FRAMES; value++) {
        if (!good(step(manager, exchange, value))) {
            return false;
        }
    }
    for (int i = 0; i < 100000 && atomic_load(&words->compared) < FRAMES; i++) {
        nap();
    }
    kill(child, SIGKILL);
    (void)waitpid(child, NULL, 0);
    gantry_status status = step(manager, exchange, FRAMES + 1);
    printf("%u frames were compared, %u are wrong; the step behind the renderer's end: %s\n",
           (unsigned)atomic_load(&words->compared), (unsigned)atomic_load(&words->wrong),
           status == GANTRY_OK ? "it has not failed" : gantry_last_error());
    return atomic_load(&words->compared) == FRAMES && atomic_load(&words->wrong) == 0 &&
           status == GANTRY_ERR_TIMED_OUT && gantry_exchange_is_lost(exchange) && others_go_on();
}

static int use(const struct greeting *greeting, const int fds[MOST_FDS], gantry_exchange_way way, pid_t child)
{
    gantry_taskman_options on = {sizeof(on), .gpu_dispatcher = gantry_context_dispatcher(context)};
    gantry_exchange_options options = GANTRY_EXCHANGE_OPTIONS_INIT;
    gantry_shared_memory *memory = NULL;
    gantry_exchange *exchange = NULL;
    gantry_taskman *manager = NULL;
    options.way = greeting->has_timelines ? way : GANTRY_EXCHANGE_HOST;
    options.wait = wait_drawn;
    options.signal = signal_filtered;
    options.wait_fd = fds[1];
    options.signal_fd = fds[2];
    options.timeout_ns = UINT64_C(5000000000);
    options.label = "frame";
    bool is_good = import(greeting, fds[0], &memory) && good(gantry_taskman_create(&on, &manager)) &&
                   good(gantry_exchange_create(context, &options, &exchange)) && build(manager, exchange);
    if (is_good) {
        printf("drawn by %s in another process, handed over by the %s\n", greeting->text,
               options.way == GANTRY_EXCHANGE_HOST ? "host" : "GPU");
    }
    is_good = is_good && run_frames(manager, exchange, child);
    gantry_taskman_destroy(manager);
    gantry_exchange_destroy(exchange);
    gantry_shared_memory_destroy(memory);
    return is_good ? 0 : 1;
}

static int run(int socket, gantry_exchange_way way, pid_t child)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_device_info info = {.struct_size = sizeof(info)};
    struct greeting greeting = {.found = RENDERER_FAILED};
    struct request request;
    int fds[MOST_FDS] = {-1, -1, -1}, status = 1;
    memset(&request, 0, sizeof(request));
    if (!good(gantry_context_create(&options, &context))) {
        return 1;
    }
    if (good(gantry_context_device_info(context, &info))) {
        request.any_device = info.emulated != 0;
        memcpy(request.uuid, info.uuid, sizeof(request.uuid));
        if (send(socket, &request, sizeof(request), 0) != (ssize_t)sizeof(request) ||
            !receive_all(socket, &greeting, fds)) {
            fprintf(stderr, "shared_frame_killed: the renderer does not answer\n");
        } else if (greeting.found != RENDERER_GOOD) {
            fprintf(stderr, "shared_frame_killed: %s\n", greeting.text);
            status = greeting.found == RENDERER_NONE ? NO_VULKAN : 1;
        } else {
            status = use(&greeting, fds, way, child);
        }
    }
    gantry_context_destroy(context);
    return status;
}

int main(int argc, char **argv)
{
    gantry_exchange_way way =
        argc > 1 && strcmp(argv[1], "device") == 0 ? GANTRY_EXCHANGE_DEVICE : GANTRY_EXCHANGE_AHEAD;
    int sockets[2];
    if (argc > 2 || (argc > 1 && strcmp(argv[1], "device") != 0 && strcmp(argv[1], "ahead") != 0)) {
        fprintf(stderr,
                "usage: shared_frame_killed [device|ahead]\n\nThe renderer is another process and is "
                "killed: the next step must fail.\nExit status 77: there is no Vulkan driver that can "
                "share memory with the device.\n");
        return 2;
    }
    words = mmap(NULL, sizeof(*words), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (words == MAP_FAILED || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
        fprintf(stderr, "shared_frame_killed: no memory\n");
        return 1;
    }
    pid_t child = fork(); /* before anything has threads */
    if (child == 0) {
        close(sockets[0]);
        _exit(render(sockets[1]));
    }
    close(sockets[1]);
    int status = child > 0 ? run(sockets[0], way, child) : 1;
    if (child > 0) {
        kill(child, SIGKILL); /* where it was not done */
        (void)waitpid(child, NULL, 0);
    }
    return status;
}
