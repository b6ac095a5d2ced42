/* SPDX-License-Identifier: MIT */
/* Every kernel of the image pipeline sample is compared with its reference, through the block engine. */
#include "tests/support/cmocka_c11.h"

#include "samples/image_pipeline/reference.h"
#include "tests/kernels/host_grid.h"

#include <kernels.kernels.h>

#include <stdlib.h>

#define IMAGE (&gantry_image_kernels)

struct size {
    uint32_t width, height;
};

static const struct size sizes[] = {{1, 1},  {1, 77},  {77, 1},   {2, 2},   {31, 5},
                                    {33, 9}, {64, 16}, {129, 67}, {257, 33}};
/* The last two parameters of the kernels: they say that nothing is recorded. */
static void *no_profile;
static uint32_t no_id;
#define PROFILE_OFF &no_profile, &no_id

#define SIZE_COUNT (sizeof(sizes) / sizeof(sizes[0]))

enum content { NOISE, FLAT, STRIPES, RAMP, CONTENT_COUNT };

/* A picture, and two more of the same size: for the kernel's result and for the reference's. */
struct picture {
    uint32_t width, height, pixels;
    uint8_t *src, *got, *expected;
};

static uint32_t random_state = 12345;

static uint32_t random_bits(void)
{
    random_state = random_state * 1664525u + 1013904223u;
    return random_state >> 8;
}

static struct picture new_picture(struct size size, uint32_t channels, enum content content)
{
    struct picture p = {size.width, size.height, size.width * size.height, NULL, NULL, NULL};
    p.src = malloc((size_t)p.pixels * channels);
    p.got = malloc(p.pixels);
    p.expected = malloc(p.pixels);
    assert_true(p.src != NULL && p.got != NULL && p.expected != NULL);
    for (uint32_t i = 0; i < p.pixels * channels; i++) {
        p.src[i] = (uint8_t)(content == NOISE     ? random_bits()
                             : content == FLAT    ? 200
                             : content == STRIPES ? (i / 3 % 2) * 255
                                                  : i * 255 / (p.pixels * channels));
    }
    memset(p.got, 0x55, p.pixels);
    memset(p.expected, 0xaa, p.pixels);
    return p;
}

static void free_picture(struct picture *p)
{
    free(p->src);
    free(p->got);
    free(p->expected);
}

static void assert_close(const uint8_t *got, const uint8_t *expected, uint32_t count, int tolerance,
                         const char *what, struct size size)
{
    for (uint32_t i = 0; i < count; i++) {
        if (abs(got[i] - expected[i]) > tolerance) {
            fail_msg("%s, %u x %u: byte %u is %u, not %u", what, size.width, size.height, i, got[i],
                     expected[i]);
        }
    }
}

static void run(const char *kernel, gantry_dim3 grid, gantry_dim3 block, void *const *args)
{
    if (!host_run(IMAGE, kernel, grid, block, 0, args)) {
        fail_msg("%s: %s", kernel, gy_emu_exec_why());
    }
}

/* Launch one thread per pixel, as the sample does; with `few`, two blocks for everything. */
static void run_line(const char *kernel, uint32_t pixels, bool few, void *const *args)
{
    run(kernel, (gantry_dim3){few ? 2 : (pixels + 255) / 256, 1, 1}, (gantry_dim3){256, 1, 1}, args);
}

static void run_tiles(const char *kernel, const struct picture *p, gantry_dim3 block, void *const *args)
{
    gantry_dim3 grid = {(p->width + block.x - 1) / block.x, (p->height + block.y - 1) / block.y, 1};
    run(kernel, grid, block, args);
}

static void test_luminance_equals_reference(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < SIZE_COUNT * CONTENT_COUNT; i++) {
        struct picture p = new_picture(sizes[i / CONTENT_COUNT], 3, (enum content)(i % CONTENT_COUNT));
        void *args[] = {&p.src, &p.got, &p.pixels, PROFILE_OFF};
        run_line("luminance", p.pixels, i % 2 == 0, args);
        reference_luminance(p.src, p.expected, p.pixels);
        assert_close(p.got, p.expected, p.pixels, 0, "luminance", sizes[i / CONTENT_COUNT]);
        free_picture(&p);
    }
}

static void test_luminance_of_gray_is_the_gray_itself(void **state)
{
    (void)state;
    for (uint32_t level = 0; level < 256; level++) {
        uint8_t rgb[3] = {(uint8_t)level, (uint8_t)level, (uint8_t)level}, luma;
        reference_luminance(rgb, &luma, 1);
        assert_int_equal(luma, level);
    }
}

static void test_blur_is_within_a_level_of_reference(void **state)
{
    (void)state;
    static const uint32_t radii[] = {0, 1, 4, 40};
    /* with a radius of 40 the second kernel's columns and the third one's rows do not fit in a tile */
    static const gantry_dim3 blocks[] = {{32, 8, 1}, {256, 1, 1}, {4, 100, 1}};
    for (uint32_t i = 0; i < SIZE_COUNT * 12; i++) {
        struct size size = sizes[i / 12];
        struct picture p = new_picture(size, 1, i % 2 == 0 ? NOISE : STRIPES);
        gantry_dim3 block = blocks[i % 3];
        uint32_t radius = radii[i % 4];
        float weights[81], *w = weights;
        reference_gaussian((float)radius / 2 + 0.1f, radius, weights);
        void *args[] = {&p.src, &p.got, &p.width, &p.height, &w, &radius, PROFILE_OFF};
        run_tiles("blur_rows", &p, block, args);
        reference_blur_rows(p.src, p.expected, p.width, p.height, weights, radius);
        assert_close(p.got, p.expected, p.pixels, 1, "blur_rows", size);
        run_tiles("blur_columns", &p, block, args);
        reference_blur_columns(p.src, p.expected, p.width, p.height, weights, radius);
        assert_close(p.got, p.expected, p.pixels, 1, "blur_columns", size);
        free_picture(&p);
    }
}

static void test_blur_keeps_a_flat_picture(void **state)
{
    (void)state;
    struct picture p = new_picture((struct size){50, 20}, 1, FLAT);
    float weights[9], *w = weights;
    uint32_t radius = 4;
    reference_gaussian(2.0f, radius, weights);
    void *args[] = {&p.src, &p.got, &p.width, &p.height, &w, &radius, PROFILE_OFF};
    run_tiles("blur_rows", &p, (gantry_dim3){32, 8, 1}, args);
    assert_memory_equal(p.got, p.src, p.pixels);
    free_picture(&p);
}

static void test_sobel_equals_reference(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < SIZE_COUNT * CONTENT_COUNT; i++) {
        struct picture p = new_picture(sizes[i / CONTENT_COUNT], 1, (enum content)(i % CONTENT_COUNT));
        void *args[] = {&p.src, &p.got, &p.width, &p.height, PROFILE_OFF};
        run_tiles("sobel", &p, (gantry_dim3){32, 8, 1}, args);
        reference_sobel(p.src, p.expected, p.width, p.height);
        assert_close(p.got, p.expected, p.pixels, 0, "sobel", sizes[i / CONTENT_COUNT]);
        free_picture(&p);
    }
}

static void test_sobel_of_a_step_is_its_gradient(void **state)
{
    (void)state;
    static uint8_t src[6] = {10, 10, 30, 10, 10, 30}, got[6];
    uint8_t *s = src, *g = got;
    uint32_t width = 3, height = 2;
    void *args[] = {&s, &g, &width, &height, PROFILE_OFF};
    run("sobel", (gantry_dim3){1, 1, 1}, (gantry_dim3){32, 8, 1}, args);
    static const uint8_t expected[6] = {0, 80, 80, 0, 80, 80};
    assert_memory_equal(got, expected, 6);
}

static void test_equalisation_equals_reference(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < SIZE_COUNT * CONTENT_COUNT; i++) {
        struct size size = sizes[i / CONTENT_COUNT];
        struct picture p = new_picture(size, 1, (enum content)(i % CONTENT_COUNT));
        uint32_t bins[256] = {0}, expected_bins[256] = {0}, *b = bins;
        uint8_t lut[256], expected_lut[256], *l = lut;
        void *histogram[] = {&p.src, &p.pixels, &b, PROFILE_OFF};
        run_line("histogram", p.pixels, i % 2 == 0, histogram);
        reference_histogram(p.src, p.pixels, expected_bins);
        assert_memory_equal(bins, expected_bins, sizeof(bins));
        void *equalise[] = {&b, &p.pixels, &l, PROFILE_OFF};
        run("equalise_lut", (gantry_dim3){1, 1, 1}, (gantry_dim3){256, 1, 1}, equalise);
        reference_equalise_lut(bins, p.pixels, expected_lut);
        assert_close(lut, expected_lut, 256, 0, "equalise_lut", size);
        void *apply[] = {&p.src, &p.got, &p.pixels, &l, PROFILE_OFF};
        run_line("apply_lut", p.pixels, i % 3 == 0, apply);
        reference_apply_lut(p.src, p.expected, p.pixels, lut);
        assert_close(p.got, p.expected, p.pixels, 0, "apply_lut", size);
        free_picture(&p);
    }
}

static void test_equalisation_spreads_levels(void **state)
{
    (void)state;
    uint32_t bins[256] = {[100] = 1, [101] = 1, [102] = 1}, *b = bins, pixels = 3;
    uint8_t lut[256], *l = lut;
    void *args[] = {&b, &pixels, &l, PROFILE_OFF};
    run("equalise_lut", (gantry_dim3){1, 1, 1}, (gantry_dim3){256, 1, 1}, args);
    assert_int_equal(lut[99], 0);
    assert_int_equal(lut[100], 0);
    assert_int_equal(lut[101], 128);
    assert_int_equal(lut[102], 255);
    bins[101] = bins[102] = 0;
    pixels = 1;
    run("equalise_lut", (gantry_dim3){1, 1, 1}, (gantry_dim3){256, 1, 1}, args);
    assert_int_equal(lut[100], 100);
}

static void test_combine_equals_reference_for_all_levels(void **state)
{
    (void)state;
    enum { PIXELS = 65536 };
    static uint8_t equalised[PIXELS], edges[PIXELS], got[PIXELS], expected[PIXELS];
    for (uint32_t i = 0; i < PIXELS; i++) {
        equalised[i] = (uint8_t)i;
        edges[i] = (uint8_t)(i >> 8);
    }
    uint8_t *q = equalised, *e = edges, *g = got;
    uint32_t pixels = PIXELS;
    void *args[] = {&q, &e, &g, &pixels, PROFILE_OFF};
    run_line("combine", PIXELS, false, args);
    reference_combine(equalised, edges, expected, PIXELS);
    assert_memory_equal(got, expected, PIXELS);
    for (uint32_t i = 0; i < 256; i++) {
        assert_int_equal(got[i], i);              /* without an edge the result is the picture */
        assert_int_equal(got[PIXELS - 1 - i], 0); /* a full edge is black */
    }
}

static void test_pipeline_is_within_a_level_of_reference(void **state)
{
    (void)state;
    struct size size = {131, 61};
    struct picture p = new_picture(size, 3, NOISE);
    uint8_t *luma = malloc(p.pixels), *edges = malloc(p.pixels), *rows = malloc(p.pixels);
    uint8_t *blurred = malloc(p.pixels), *expected_edges = malloc(p.pixels);
    assert_true(luma != NULL && edges != NULL && rows != NULL && blurred != NULL && expected_edges != NULL);
    uint32_t bins[256] = {0}, *b = bins, radius = REFERENCE_BLUR_RADIUS;
    uint8_t lut[256], *l = lut;
    float weights[2 * REFERENCE_BLUR_RADIUS + 1], *w = weights;
    reference_gaussian(REFERENCE_BLUR_SIGMA, radius, weights);

    run_line("luminance", p.pixels, false, (void *[]){&p.src, &luma, &p.pixels, PROFILE_OFF});
    run_tiles("sobel", &p, (gantry_dim3){32, 8, 1},
              (void *[]){&luma, &edges, &p.width, &p.height, PROFILE_OFF});
    run_tiles("blur_rows", &p, (gantry_dim3){32, 8, 1},
              (void *[]){&luma, &rows, &p.width, &p.height, &w, &radius, PROFILE_OFF});
    run_tiles("blur_columns", &p, (gantry_dim3){32, 8, 1},
              (void *[]){&rows, &blurred, &p.width, &p.height, &w, &radius, PROFILE_OFF});
    run_line("histogram", p.pixels, false, (void *[]){&blurred, &p.pixels, &b, PROFILE_OFF});
    run("equalise_lut", (gantry_dim3){1, 1, 1}, (gantry_dim3){256, 1, 1},
        (void *[]){&b, &p.pixels, &l, PROFILE_OFF});
    run_line("apply_lut", p.pixels, false, (void *[]){&blurred, &rows, &p.pixels, &l, PROFILE_OFF});
    run_line("combine", p.pixels, false, (void *[]){&rows, &edges, &p.got, &p.pixels, PROFILE_OFF});

    assert_true(reference_pipeline(p.src, p.width, p.height, expected_edges, p.expected));
    assert_close(edges, expected_edges, p.pixels, 0, "pipeline, edges", size);
    assert_close(p.got, p.expected, p.pixels, 1, "pipeline", size);
    uint8_t *all[] = {luma, edges, rows, blurred, expected_edges};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        free(all[i]);
    }
    free_picture(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_luminance_equals_reference),
        cmocka_unit_test(test_luminance_of_gray_is_the_gray_itself),
        cmocka_unit_test(test_blur_is_within_a_level_of_reference),
        cmocka_unit_test(test_blur_keeps_a_flat_picture),
        cmocka_unit_test(test_sobel_equals_reference),
        cmocka_unit_test(test_sobel_of_a_step_is_its_gradient),
        cmocka_unit_test(test_equalisation_equals_reference),
        cmocka_unit_test(test_equalisation_spreads_levels),
        cmocka_unit_test(test_combine_equals_reference_for_all_levels),
        cmocka_unit_test(test_pipeline_is_within_a_level_of_reference),
    };
    return cmocka_run_group_tests(tests, NULL, host_end_thread);
}
