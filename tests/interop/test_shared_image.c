/* SPDX-License-Identifier: MIT */
/* Images of another API: memory files, in which the emulated driver has the rows where a software Vulkan
 * driver puts them. */
#include "image_kernels.kernels.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/gpu_fixture.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { WIDTH = 100, HEIGHT = 6, PITCH = 448, OFFSET = 512, BYTES = 65536, TEXELS = WIDTH * HEIGHT };
enum { BOX_X = 3, BOX_Y = 2, BOX_WIDTH = 20, BOX_HEIGHT = 3, BOX_PITCH = 96 };

struct scene {
    struct gpu_fixture gpu;
    gantry_kernel *turn;
    gantry_shared_memory *memory;
    gantry_shared_image *image;
    uint32_t *seen;          /* the memory, in the renderer's mapping */
    uint32_t *linear, *part; /* page-locked: room for the whole image, and for a part of it */
    uint32_t *device;        /* device memory for the whole image */
    uint32_t value;
    gantry_image_box box; /* the status of a copy that is tried */
    size_t pitch;
    void *to;
    gantry_shared_image *tried;
    gantry_status answer;
    char why[256];
};

static uint32_t *texel(const struct scene *s, uint32_t x, uint32_t y)
{
    return &s->seen[(OFFSET + y * PITCH) / 4 + x];
}

static gantry_shared_memory_options memory_of(int fd)
{
    gantry_shared_memory_options options = GANTRY_SHARED_MEMORY_OPTIONS_INIT;
    options.fd = fd;
    options.bytes = BYTES;
    options.label = "frame";
    return options;
}

static gantry_shared_image_options image_of(uint32_t width, uint32_t height)
{
    gantry_shared_image_options options = GANTRY_SHARED_IMAGE_OPTIONS_INIT;
    options.offset = OFFSET;
    options.width = width;
    options.height = height;
    return options;
}

static int file(void)
{
    int fd = memfd_create("image", MFD_CLOEXEC);
    assert_int_equal(ftruncate(fd, BYTES), 0);
    return fd;
}

static void *take(struct scene *s, gantry_memory_kind kind, size_t bytes)
{
    void *block;
    assert_ok(gantry_heap_alloc(gantry_context_heap(s->gpu.context), kind, bytes, 0,
                                GANTRY_ALLOC_SITE("image"), &block));
    return block;
}

static void open_scene(struct scene *s, gantry_submission submission)
{
    memset(s, 0, sizeof(*s));
    gantry_context_options context = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_module *module;
    context.driver = GANTRY_DRIVER_EMULATED;
    context.submission = submission;
    gpu_fixture_open_with(&s->gpu, 2, &context);
    int fd = file();
    s->seen = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(s->seen != MAP_FAILED);
    gantry_shared_memory_options memory = memory_of(fd);
    gantry_shared_image_options image = image_of(WIDTH, HEIGHT);
    assert_ok(gantry_shared_memory_import(s->gpu.context, &memory, &s->memory));
    assert_ok(gantry_shared_memory_map_image(s->memory, &image, &s->image));
    assert_ok(gantry_module_load(s->gpu.context, &gantry_image_image_kernels, &module));
    assert_ok(gantry_module_get_kernel(module, "turn", &s->turn));
    s->linear = take(s, GANTRY_MEMORY_PINNED, TEXELS * 4);
    s->part = take(s, GANTRY_MEMORY_PINNED, BOX_HEIGHT * BOX_PITCH);
    s->device = take(s, GANTRY_MEMORY_DEVICE, TEXELS * 4);
}

static void close_scene(struct scene *s)
{
    gantry_heap *heap = gantry_context_heap(s->gpu.context);
    assert_ok(gantry_heap_free(heap, s->linear));
    assert_ok(gantry_heap_free(heap, s->part));
    assert_ok(gantry_heap_free(heap, s->device));
    gantry_shared_memory_destroy(s->memory);
    gpu_fixture_close(&s->gpu);
    munmap(s->seen, BYTES);
}

static gantry_launch_result result_of(gantry_launch *launch, gantry_status status)
{
    return status == GANTRY_OK ? GANTRY_LAUNCH_DONE : gantry_launch_fail(launch, status);
}

static gantry_launch_result turn(gantry_launch *launch, void *arg)
{
    struct scene *s = arg;
    uint64_t surface = gantry_shared_image_surface(s->image);
    uint32_t width = WIDTH;
    void *args[] = {&surface, &width, &s->value};
    gantry_dim3 grid = {HEIGHT, 1, 1}, block = {32, 1, 1};
    return result_of(launch, gantry_launch_kernel(launch, s->turn, grid, block, 0, args));
}

static gantry_launch_result to_device(gantry_launch *launch, void *arg)
{
    struct scene *s = arg;
    return result_of(launch, gantry_launch_copy_from_image(launch, s->device, 0, s->image, NULL));
}

static gantry_launch_result to_host(gantry_launch *launch, void *arg)
{
    struct scene *s = arg;
    const gantry_image_box box = {sizeof(box), BOX_X, BOX_Y, BOX_WIDTH, BOX_HEIGHT};
    gantry_status status = gantry_launch_copy_dtoh(launch, s->linear, s->device, TEXELS * 4);
    if (status == GANTRY_OK) {
        status = gantry_launch_copy_from_image(launch, s->part, BOX_PITCH, s->image, &box);
    }
    return result_of(launch, status);
}

/* The part comes back at the right edge. */
static gantry_launch_result from_host(gantry_launch *launch, void *arg)
{
    struct scene *s = arg;
    const gantry_image_box box = {sizeof(box), WIDTH - BOX_WIDTH, 0, BOX_WIDTH, BOX_HEIGHT};
    return result_of(launch, gantry_launch_copy_to_image(launch, s->image, &box, s->part, BOX_PITCH));
}

static void build(struct scene *s)
{
    static const struct {
        gantry_task_kind kind;
        const char *label;
        gantry_launch_fn launch;
    } steps[] = {{GANTRY_TASK_KERNEL, "turn", turn},
                 {GANTRY_TASK_KERNEL, "to device", to_device},
                 {GANTRY_TASK_DTOH, "to host", to_host},
                 {GANTRY_TASK_KERNEL, "from host", from_host}};
    gantry_task *before = NULL;
    for (int i = 0; i < 4; i++) {
        gantry_task *task = gpu_fixture_gpu(&s->gpu, steps[i].kind, steps[i].label, steps[i].launch, s);
        if (before != NULL) {
            gpu_fixture_after(task, before);
        }
        before = task;
    }
}

static void draw(struct scene *s, uint32_t frame)
{
    for (uint32_t y = 0; y < HEIGHT; y++) {
        for (uint32_t x = 0; x < WIDTH; x++) {
            *texel(s, x, y) = frame * 100000 + y * 1000 + x;
        }
    }
}

static uint32_t turned(const struct scene *s, uint32_t frame, uint32_t x, uint32_t y)
{
    return ~(frame * 100000 + y * 1000 + x) + s->value;
}

static void expect_frame(const struct scene *s, uint32_t frame)
{
    uint32_t wrong = 0;
    for (uint32_t y = 0; y < HEIGHT; y++) {
        for (uint32_t x = 0; x < WIDTH; x++) {
            bool is_part = x >= WIDTH - BOX_WIDTH && y < BOX_HEIGHT;
            uint32_t want = is_part ? turned(s, frame, x - (WIDTH - BOX_WIDTH) + BOX_X, y + BOX_Y)
                                    : turned(s, frame, x, y);
            wrong += *texel(s, x, y) != want;
            wrong += s->linear[y * WIDTH + x] != turned(s, frame, x, y);
        }
    }
    assert_int_equal(wrong, 0);
    assert_int_equal(*texel(s, WIDTH, 0), 0); /* the bytes between the rows belong to nobody */
}

static void run_frames(gantry_submission submission, bool frozen)
{
    struct scene s;
    open_scene(&s, submission);
    for (uint32_t frame = 1; frame <= 6; frame++) {
        draw(&s, frame);
        s.value = frame * 3;
        if (!frozen || frame == 1) {
            build(&s);
        }
        if (frozen && frame == 1) {
            assert_ok(gantry_taskman_freeze(s.gpu.manager));
        }
        assert_ok(gantry_taskman_start(s.gpu.manager));
        assert_ok(gantry_taskman_stop(s.gpu.manager));
        assert_ok(gantry_context_synchronize(s.gpu.context));
        expect_frame(&s, frame);
        if (!frozen) {
            assert_ok(gantry_taskman_reset(s.gpu.manager));
        }
    }
    close_scene(&s);
}

static void test_tasks_read_and_write_an_image(void **state)
{
    (void)state;
    run_frames(GANTRY_SUBMISSION_STREAMS, false);
    run_frames(GANTRY_SUBMISSION_STREAMS, true);
    run_frames(GANTRY_SUBMISSION_GRAPHS, false);
    run_frames(GANTRY_SUBMISSION_GRAPHS, true);
    run_frames(GANTRY_SUBMISSION_AUTO, true);
}

static void expect_refused(struct scene *s, const gantry_shared_image_options *options, const char *word)
{
    gantry_shared_image *image = (void *)8;
    assert_int_equal(gantry_shared_memory_map_image(s->memory, options, &image), GANTRY_ERR_INVALID_ARGUMENT);
    assert_ptr_equal(image, (void *)8); /* outputs are written on success only */
    if (strstr(gantry_last_error(), word) == NULL || strstr(gantry_last_error(), "frame") == NULL) {
        fail_msg("not \"%s\": %s", word, gantry_last_error());
    }
}

static void test_what_is_no_image_is_refused(void **state)
{
    (void)state;
    struct scene s;
    open_scene(&s, GANTRY_SUBMISSION_STREAMS);
    gantry_shared_image_options options = image_of(WIDTH, HEIGHT);
    options.offset = 4;
    expect_refused(&s, &options, "offset 4 ");
    options = image_of(0, HEIGHT);
    expect_refused(&s, &options, "without texels");
    options = image_of(WIDTH, 0);
    expect_refused(&s, &options, "without texels");
    options = image_of(128, 128); /* 65536 bytes, of which OFFSET do not exist */
    expect_refused(&s, &options, "65536 bytes from 512 on");
    options = image_of(UINT32_MAX, UINT32_MAX);
    expect_refused(&s, &options, "4294967295 x 4294967295");
    options = image_of(WIDTH, HEIGHT);
    options.channels = 3;
    expect_refused(&s, &options, "3 channels");
    options = image_of(WIDTH, HEIGHT);
    options.format = (gantry_image_format)8;
    expect_refused(&s, &options, "format 8");
    options = image_of(WIDTH, HEIGHT);
    options.is_attachment = 2;
    expect_refused(&s, &options, "is_attachment");
    close_scene(&s);
}

static gantry_launch_result try_copies(gantry_launch *launch, void *arg)
{
    struct scene *s = arg;
    gantry_status from = gantry_launch_copy_from_image(launch, s->to, s->pitch, s->tried, &s->box);
    gantry_status to = gantry_launch_copy_to_image(launch, s->tried, &s->box, s->to, s->pitch);
    s->answer = from == to ? from : GANTRY_ERR_STATE;
    snprintf(s->why, sizeof(s->why), "%s", gantry_last_error());
    return GANTRY_LAUNCH_DONE;
}

static gantry_status answer_to(struct scene *s, gantry_image_box box, size_t pitch, void *to)
{
    s->box = box;
    s->pitch = pitch;
    s->to = to;
    (void)gpu_fixture_gpu(&s->gpu, GANTRY_TASK_KERNEL, "try", try_copies, s);
    assert_ok(gpu_fixture_step(&s->gpu));
    return s->answer;
}

static void test_copies_stay_within_image_and_memory(void **state)
{
    (void)state;
    struct scene s;
    open_scene(&s, GANTRY_SUBMISSION_STREAMS);
    const gantry_status bad = GANTRY_ERR_INVALID_ARGUMENT;
    const gantry_image_box whole = {sizeof(whole), 0, 0, WIDTH, HEIGHT};
    s.tried = s.image;
    assert_ok(answer_to(&s, whole, 0, s.linear));
    assert_ok(answer_to(&s, whole, 0, s.device));
    assert_int_equal(answer_to(&s, (gantry_image_box){0, 0, 0, 1, 1}, 0, s.linear), bad);
    assert_int_equal(
        answer_to(&s, (gantry_image_box){sizeof(gantry_image_box), 0, 0, 0, HEIGHT}, 0, s.linear), bad);
    assert_int_equal(answer_to(&s, (gantry_image_box){sizeof(gantry_image_box), 0, 0, WIDTH, 0}, 0, s.linear),
                     bad);
    assert_int_equal(answer_to(&s, (gantry_image_box){sizeof(gantry_image_box), 1, 0, WIDTH, 1}, 0, s.linear),
                     bad);
    assert_int_equal(
        answer_to(&s, (gantry_image_box){sizeof(gantry_image_box), UINT32_MAX, 0, 2, 1}, 0, s.linear), bad);
    assert_int_equal(
        answer_to(&s, (gantry_image_box){sizeof(gantry_image_box), 0, HEIGHT, 1, 1}, 0, s.linear), bad);
    assert_int_equal(answer_to(&s, whole, WIDTH * 4 - 1, s.linear), bad);
    assert_int_equal(answer_to(&s, whole, SIZE_MAX / 2, s.linear), bad);
    assert_int_equal(answer_to(&s, whole, WIDTH * 4 + 4, s.linear),
                     bad); /* its last row is not in the block */
    assert_int_equal(answer_to(&s, whole, 0, s.part), bad);
    assert_int_equal(answer_to(&s, whole, 0, NULL), bad);
    s.tried = NULL;
    assert_int_equal(answer_to(&s, whole, 0, s.linear), bad);
    assert_int_equal(gantry_launch_copy_from_image(NULL, s.linear, 0, s.image, NULL), bad);
    assert_int_equal(gantry_shared_image_surface(NULL), 0);
    assert_null(gantry_shared_image_native(NULL));
    assert_non_null(gantry_shared_image_native(s.image));
    close_scene(&s);
}

static void test_an_image_of_another_context_is_refused(void **state)
{
    (void)state;
    struct scene s;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_context *other;
    gantry_shared_memory *memory;
    open_scene(&s, GANTRY_SUBMISSION_STREAMS);
    options.driver = GANTRY_DRIVER_EMULATED;
    assert_ok(gantry_context_create(&options, &other));
    gantry_shared_memory_options file_options = memory_of(file());
    gantry_shared_image_options image = image_of(WIDTH, HEIGHT);
    assert_ok(gantry_shared_memory_import(other, &file_options, &memory));
    assert_ok(gantry_shared_memory_map_image(memory, &image, &s.tried));
    assert_int_equal(answer_to(&s, (gantry_image_box){sizeof(gantry_image_box), 0, 0, 1, 1}, 0, s.linear),
                     GANTRY_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(s.why, "another context"));
    gantry_context_destroy(other); /* destroyed with the memory and its image */
    close_scene(&s);
}

/* Whatever call of the driver fails, nothing is left of the image. */
static void test_an_image_that_fails_leaves_nothing(void **state)
{
    (void)state;
    static const char *const calls[] = {"cuExternalMemoryGetMappedMipmappedArray", "cuMipmappedArrayGetLevel",
                                        "cuSurfObjectCreate"};
    struct scene s;
    struct gantry_emu_control emu;
    open_scene(&s, GANTRY_SUBMISSION_STREAMS);
    assert_true(gpu_fixture_controls(&emu));
    int64_t blocks = emu.live(GANTRY_EMU_LIVE_DEVICE_BLOCKS);
    gantry_shared_image_options options = image_of(WIDTH, HEIGHT);
    gantry_shared_image *image;
    for (int i = 0; i < 3; i++) {
        assert_int_equal((emu.fail)(calls[i], 1, 2, GANTRY_EMU_ONCE), 0); /* out of memory */
        assert_int_equal(gantry_shared_memory_map_image(s.memory, &options, &image),
                         GANTRY_ERR_OUT_OF_DEVICE_MEMORY);
        assert_non_null(strstr(gantry_last_error(), calls[i]));
        assert_int_equal(emu.live(GANTRY_EMU_LIVE_DEVICE_BLOCKS), blocks);
        emu.clear_faults();
    }
    assert_ok(gantry_shared_memory_map_image(s.memory, &options, &image));
    assert_int_equal(emu.live(GANTRY_EMU_LIVE_DEVICE_BLOCKS), blocks + 1);
    gantry_shared_memory_destroy(s.memory); /* both images are destroyed with it */
    s.memory = NULL;
    assert_int_equal(emu.live(GANTRY_EMU_LIVE_DEVICE_BLOCKS), blocks - 1);
    close_scene(&s);
}

int main(void)
{
    unsetenv("GANTRY_TEST_DRIVER"); /* the images are files */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tasks_read_and_write_an_image),
        cmocka_unit_test(test_what_is_no_image_is_refused),
        cmocka_unit_test(test_copies_stay_within_image_and_memory),
        cmocka_unit_test(test_an_image_of_another_context_is_refused),
        cmocka_unit_test(test_an_image_that_fails_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
