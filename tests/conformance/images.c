/* SPDX-License-Identifier: MIT */
/* Images that another API has exported, as arrays and surfaces.  They come from Vulkan, so on a device only
 * the tests run that need no image; on the emulated driver a memory file is the image. */
#include "tests/conformance/conformance.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { WIDTH = 100, HEIGHT = 7, PITCH = 448, BYTES = 65536, OFFSET = 512 };

static bool available(void)
{
    return cu->cuImportExternalMemory != NULL && cu->cuExternalMemoryGetMappedMipmappedArray != NULL &&
           cu->cuMipmappedArrayGetLevel != NULL && cu->cuMipmappedArrayDestroy != NULL &&
           cu->cuSurfObjectCreate != NULL && cu->cuSurfObjectDestroy != NULL && cu->cuMemcpy2DAsync != NULL;
}

struct scene {
    uint32_t *seen; /* the file, in the other API's mapping */
    CUexternalMemory memory;
    CUmipmappedArray image;
    CUarray array;
    CUsurfObject surface;
};

static CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC image_of(size_t width, size_t height, unsigned channels)
{
    return (CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC){.offset = OFFSET,
                                                       .arrayDesc = {.Width = width,
                                                                     .Height = height,
                                                                     .Format = CU_AD_FORMAT_UNSIGNED_INT8,
                                                                     .NumChannels = channels,
                                                                     .Flags = CUDA_ARRAY3D_SURFACE_LDST},
                                                       .numLevels = 1};
}

static CUDA_RESOURCE_DESC resource_of(CUarray array)
{
    CUDA_RESOURCE_DESC desc;
    memset(&desc, 0, sizeof(desc));
    desc.resType = CU_RESOURCE_TYPE_ARRAY;
    desc.res.array.hArray = array;
    return desc;
}

static bool open_scene(struct scene *s)
{
    memset(s, 0, sizeof(*s));
    if (!available()) {
        cf_skip("no images of another API");
    }
    if (!cu->emulated) { /* there images come from Vulkan: samples/shared_frame */
        return false;
    }
    int fd = memfd_create("image", MFD_CLOEXEC);
    assert_int_equal(ftruncate(fd, BYTES), 0);
    s->seen = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(s->seen != MAP_FAILED);
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = {
        .type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, .handle.fd = fd, .size = BYTES};
    cu_ok(cuImportExternalMemory(&s->memory, &desc));
    CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC image = image_of(WIDTH, HEIGHT, 4);
    cu_ok(cuExternalMemoryGetMappedMipmappedArray(&s->image, s->memory, &image));
    cu_ok(cuMipmappedArrayGetLevel(&s->array, s->image, 0));
    CUDA_RESOURCE_DESC resource = resource_of(s->array);
    cu_ok(cuSurfObjectCreate(&s->surface, &resource));
    return true;
}

static void close_scene(struct scene *s)
{
    cu_ok(cuSurfObjectDestroy(s->surface));
    cu_ok(cuMipmappedArrayDestroy(s->image));
    cu_ok(cuDestroyExternalMemory(s->memory));
    munmap(s->seen, BYTES);
}

static uint32_t *texel(struct scene *s, uint32_t x, uint32_t y)
{
    return &s->seen[(OFFSET + y * PITCH) / 4 + x];
}

static uint32_t value_of(uint32_t x, uint32_t y)
{
    return 1 + y * 1000 + x;
}

static void draw(struct scene *s)
{
    for (uint32_t y = 0; y < HEIGHT; y++) {
        for (uint32_t x = 0; x < WIDTH; x++) {
            *texel(s, x, y) = value_of(x, y);
        }
    }
}

/* A kernel swaps left and right; threads outside of the image read 0 and write nothing. */
static void test_kernels_read_and_write_an_image(void **state)
{
    (void)state;
    struct scene s;
    if (!open_scene(&s)) {
        return;
    }
    draw(&s);
    CUstream stream = cf_stream();
    uint32_t width = WIDTH, *outside = cf_pinned(1);
    CUdeviceptr out = cf_address(outside);
    void *args[] = {&s.surface, &width, &out};
    cu_ok(cuLaunchKernel(cf_mirror, 1, HEIGHT + 1, 1, 128, 1, 1, 0, stream, args, NULL));
    cu_ok(cuStreamSynchronize(stream));
    uint32_t wrong = 0;
    for (uint32_t y = 0; y < HEIGHT; y++) {
        for (uint32_t x = 0; x < WIDTH; x++) {
            wrong += *texel(&s, x, y) != value_of(WIDTH - 1 - x, y);
        }
    }
    assert_int_equal(wrong, 0);
    assert_int_equal(*outside, 0);
    assert_int_equal(*texel(&s, WIDTH, 0), 0); /* between the rows */
    assert_int_equal(*texel(&s, 0, HEIGHT), 0);
    close_scene(&s);
}

static CUDA_MEMCPY2D rows(CUarray array, CUdeviceptr linear, bool to_array)
{
    CUDA_MEMCPY2D copy;
    memset(&copy, 0, sizeof(copy));
    copy.srcMemoryType = to_array ? CU_MEMORYTYPE_UNIFIED : CU_MEMORYTYPE_ARRAY;
    copy.dstMemoryType = to_array ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_UNIFIED;
    copy.srcArray = copy.dstArray = array;
    copy.srcDevice = copy.dstDevice = linear;
    copy.srcPitch = copy.dstPitch = 40;
    copy.WidthInBytes = 40;
    copy.Height = 3;
    return copy;
}

/* Ten columns of three rows from (2, 1) on are copied to linear memory and from there to (50, 4). */
static void copy_window(struct scene *s, CUstream stream, CUdeviceptr linear)
{
    CUDA_MEMCPY2D copy = rows(s->array, linear, false);
    copy.srcXInBytes = 8;
    copy.srcY = 1;
    cu_ok(cuMemcpy2DAsync(&copy, stream));
    copy = rows(s->array, linear, true);
    copy.dstXInBytes = 200;
    copy.dstY = 4;
    cu_ok(cuMemcpy2DAsync(&copy, stream));
}

static void expect_window(struct scene *s)
{
    uint32_t wrong = 0;
    for (uint32_t y = 0; y < HEIGHT; y++) {
        for (uint32_t x = 0; x < WIDTH; x++) {
            bool is_copy = x >= 50 && x < 60 && y >= 4 && y < 7;
            wrong += *texel(s, x, y) != (is_copy ? value_of(x - 48, y - 3) : value_of(x, y));
        }
    }
    assert_int_equal(wrong, 0);
}

static void test_rows_are_copied_from_and_to_an_image(void **state)
{
    (void)state;
    struct scene s;
    if (!open_scene(&s)) {
        return;
    }
    CUstream stream = cf_stream();
    uint32_t *host = cf_pinned(30);
    draw(&s);
    copy_window(&s, stream, cf_device(120));
    cu_ok(cuStreamSynchronize(stream));
    expect_window(&s);
    draw(&s);
    copy_window(&s, stream, cf_address(host));
    cu_ok(cuStreamSynchronize(stream));
    expect_window(&s);
    assert_int_equal(host[0], value_of(2, 1));
    assert_int_equal(host[29], value_of(11, 3));
    uint32_t pageable[30]; /* the call waits */
    CUDA_MEMCPY2D copy = rows(s.array, 0, false);
    copy.dstMemoryType = CU_MEMORYTYPE_HOST;
    copy.dstHost = pageable;
    cu_ok(cuMemcpy2DAsync(&copy, stream));
    assert_int_equal(pageable[29], value_of(9, 2));
    close_scene(&s);
}

static void test_copies_of_rows_are_captured(void **state)
{
    (void)state;
    struct scene s;
    if (!open_scene(&s)) {
        return;
    }
    CUstream stream = cf_stream();
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode nodes[2];
    CUDA_MEMCPY3D copy;
    size_t count = 2;
    CUdeviceptr linear = cf_device(120);
    cu_ok(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    copy_window(&s, stream, linear);
    cu_ok(cuStreamEndCapture(stream, &graph));
    cu_ok(cuGraphGetNodes(graph, nodes, &count));
    assert_int_equal(count, 2);
    cu_ok(cuGraphMemcpyNodeGetParams(nodes[0], &copy));
    assert_int_equal(copy.srcMemoryType, CU_MEMORYTYPE_ARRAY);
    assert_ptr_equal(copy.srcArray, s.array);
    assert_int_equal(copy.srcXInBytes, 8);
    assert_int_equal(copy.srcY, 1);
    assert_int_equal(copy.dstDevice, linear);
    assert_int_equal(copy.WidthInBytes, 40);
    assert_int_equal(copy.Height, 3);
    cu_ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
    draw(&s);
    cu_ok(cuGraphLaunch(exec, stream));
    cu_ok(cuStreamSynchronize(stream));
    expect_window(&s);
    cu_ok(cuGraphExecDestroy(exec));
    cu_ok(cuGraphDestroy(graph));
    close_scene(&s);
}

static void test_wrong_images_are_refused(void **state)
{
    (void)state;
    struct scene s;
    if (!open_scene(&s)) {
        return;
    }
    CUmipmappedArray image = NULL;
    CUarray array = NULL;
    const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC wrong[] = {
        image_of(0, 4, 4),
        image_of(4, 0, 4),
        image_of(4, 4, 3),
        image_of(16384, 2, 4),
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        cu_is(CUDA_ERROR_INVALID_VALUE, cuExternalMemoryGetMappedMipmappedArray(&image, s.memory, &wrong[i]));
    }
    cu_is(CUDA_ERROR_INVALID_VALUE, cuMipmappedArrayGetLevel(&array, s.image, 1));
    CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC desc = image_of(4, 4, 1);
    desc.arrayDesc.Flags = 0;
    cu_ok(cuExternalMemoryGetMappedMipmappedArray(&image, s.memory, &desc));
    cu_ok(cuMipmappedArrayGetLevel(&array, image, 0));
    CUDA_RESOURCE_DESC resource = resource_of(array);
    CUsurfObject surface = 0;
    cu_is(CUDA_ERROR_INVALID_VALUE, cuSurfObjectCreate(&surface, &resource)); /* without the flag */
    cu_ok(cuMipmappedArrayDestroy(image));
    CUDA_MEMCPY2D copy = rows(s.array, cf_device(120), false);
    copy.srcY = HEIGHT - 2;
    cu_is(CUDA_ERROR_INVALID_VALUE, cuMemcpy2DAsync(&copy, cf_stream()));
    close_scene(&s);
}

static const struct CMUnitTest images[] = {
    CF_TEST(test_kernels_read_and_write_an_image),
    CF_TEST(test_rows_are_copied_from_and_to_an_image),
    CF_TEST(test_copies_of_rows_are_captured),
    CF_TEST(test_wrong_images_are_refused),
};
CF_GROUP(images)
