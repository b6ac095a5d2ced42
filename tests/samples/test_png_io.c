/* SPDX-License-Identifier: MIT */
/* Reading and writing PNG files: every kind of input, and every way in which one can be broken. */
#include "tests/support/cmocka_c11.h"

#include "samples/image_pipeline/png_io.h"

#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WIDTH 5
#define HEIGHT 3

static char folder[] = "/tmp/gantry-png-XXXXXX";
static char path[sizeof(folder) + 32];

static int make_folder(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    snprintf(path, sizeof(path), "%s/image.png", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    remove(path);
    return rmdir(folder);
}

/* ---- files of every kind, made with libpng directly ---------------------------------------- */

struct kind {
    int depth;
    int colour;
    int interlace;
    const png_color *palette; /* 2 entries */
    const png_byte *alphas;   /* of the palette's entries */
    size_t row_bytes;
    double gamma; /* that the file names; 0: none */
};

/* `rows` holds HEIGHT rows of kind->row_bytes bytes in the file's own format. */
static void make_png(const struct kind *kind, const png_byte *rows)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    assert_non_null(info);
    png_init_io(png, file);
    png_set_IHDR(png, info, WIDTH, HEIGHT, kind->depth, kind->colour, kind->interlace,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    if (kind->palette != NULL) {
        png_set_PLTE(png, info, kind->palette, 2);
    }
    if (kind->alphas != NULL) {
        png_set_tRNS(png, info, kind->alphas, 2, NULL);
    }
    if (kind->gamma != 0) {
        png_set_gAMA(png, info, kind->gamma);
    }
    png_write_info(png, info);
    int passes = png_set_interlace_handling(png);
    for (int pass = 0; pass < passes; pass++) {
        for (size_t y = 0; y < HEIGHT; y++) {
            png_write_row(png, rows + y * kind->row_bytes);
        }
    }
    png_write_end(png, NULL);
    png_destroy_write_struct(&png, &info);
    assert_int_equal(fclose(file), 0);
}

static void read_all(uint8_t rgb[HEIGHT][WIDTH][3])
{
    struct image_reader *reader = NULL;
    char error[IMAGE_ERROR_BYTES] = "";
    if (!image_reader_open(path, &reader, error)) {
        fail_msg("open: %s", error);
    }
    assert_int_equal(image_reader_width(reader), WIDTH);
    assert_int_equal(image_reader_height(reader), HEIGHT);
    if (!image_reader_read(reader, &rgb[0][0][0], error)) {
        fail_msg("read: %s", error);
    }
    image_reader_close(reader);
}

static void assert_pixel(const uint8_t pixel[3], uint8_t r, uint8_t g, uint8_t b)
{
    assert_int_equal(pixel[0], r);
    assert_int_equal(pixel[1], g);
    assert_int_equal(pixel[2], b);
}

static void fill_ramp(png_byte *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        bytes[i] = (png_byte)(i * 37 + 11);
    }
}

/* ---- what is read -------------------------------------------------------------------------- */

static void test_rgb8_is_read_as_it_is(void **state)
{
    (void)state;
    for (int interlace = PNG_INTERLACE_NONE; interlace <= PNG_INTERLACE_ADAM7; interlace++) {
        struct kind kind = {
            .depth = 8, .colour = PNG_COLOR_TYPE_RGB, .interlace = interlace, .row_bytes = 3 * WIDTH};
        png_byte rows[HEIGHT * WIDTH * 3];
        uint8_t rgb[HEIGHT][WIDTH][3];
        fill_ramp(rows, sizeof(rows));
        make_png(&kind, rows);
        read_all(rgb);
        assert_memory_equal(rgb, rows, sizeof(rows));
    }
}

static void test_gray8_is_repeated_in_all_channels(void **state)
{
    (void)state;
    struct kind kind = {.depth = 8, .colour = PNG_COLOR_TYPE_GRAY, .row_bytes = WIDTH};
    png_byte rows[HEIGHT][WIDTH];
    uint8_t rgb[HEIGHT][WIDTH][3];
    fill_ramp(&rows[0][0], sizeof(rows));
    make_png(&kind, &rows[0][0]);
    read_all(rgb);
    for (size_t y = 0; y < HEIGHT; y++) {
        for (size_t x = 0; x < WIDTH; x++) {
            assert_pixel(rgb[y][x], rows[y][x], rows[y][x], rows[y][x]);
        }
    }
}

static void test_gray1_becomes_black_and_white(void **state)
{
    (void)state;
    struct kind kind = {.depth = 1, .colour = PNG_COLOR_TYPE_GRAY, .row_bytes = 1};
    const png_byte rows[HEIGHT] = {0x50, 0xa8, 0x00}; /* 01010 10101 00000 */
    uint8_t rgb[HEIGHT][WIDTH][3];
    make_png(&kind, rows);
    read_all(rgb);
    assert_pixel(rgb[0][0], 0, 0, 0);
    assert_pixel(rgb[0][1], 255, 255, 255);
    assert_pixel(rgb[1][4], 255, 255, 255);
    assert_pixel(rgb[2][1], 0, 0, 0);
}

static void test_rgb16_is_scaled_to_8_bits(void **state)
{
    (void)state;
    struct kind kind = {.depth = 16, .colour = PNG_COLOR_TYPE_RGB, .row_bytes = 6 * WIDTH};
    png_byte rows[HEIGHT * WIDTH * 6] = {0xff, 0xff, 0x80, 0x00, 0x00, 0x00, /* */ 0x7f, 0xff, 0x00, 0xff};
    uint8_t rgb[HEIGHT][WIDTH][3];
    make_png(&kind, rows);
    read_all(rgb);
    assert_pixel(rgb[0][0], 255, 128, 0);
    assert_pixel(rgb[0][1], 127, 1, 0); /* 255 of 65535 is nearest to 1 of 255: it is scaled, not cut off */
}

static void test_palette_is_looked_up(void **state)
{
    (void)state;
    const png_color palette[2] = {{10, 20, 30}, {200, 100, 50}};
    struct kind kind = {.depth = 1, .colour = PNG_COLOR_TYPE_PALETTE, .palette = palette, .row_bytes = 1};
    const png_byte rows[HEIGHT] = {0x40, 0x40, 0x40};
    uint8_t rgb[HEIGHT][WIDTH][3];
    make_png(&kind, rows);
    read_all(rgb);
    assert_pixel(rgb[2][0], 10, 20, 30);
    assert_pixel(rgb[2][1], 200, 100, 50);
}

static void test_transparent_palette_entry_becomes_white(void **state)
{
    (void)state;
    const png_color palette[2] = {{10, 20, 30}, {200, 100, 50}};
    const png_byte alphas[2] = {255, 0};
    struct kind kind = {
        .depth = 1, .colour = PNG_COLOR_TYPE_PALETTE, .palette = palette, .alphas = alphas, .row_bytes = 1};
    const png_byte rows[HEIGHT] = {0x40, 0x40, 0x40};
    uint8_t rgb[HEIGHT][WIDTH][3];
    make_png(&kind, rows);
    read_all(rgb);
    assert_pixel(rgb[0][0], 10, 20, 30);
    assert_pixel(rgb[0][1], 255, 255, 255);
}

static void test_rgba8_is_blended_with_white(void **state)
{
    (void)state;
    struct kind kind = {.depth = 8, .colour = PNG_COLOR_TYPE_RGB_ALPHA, .row_bytes = 4 * WIDTH};
    png_byte rows[HEIGHT * WIDTH * 4] = {9, 8, 7, 255, /* */ 9, 8, 7, 0, /* */ 0, 255, 100, 128};
    uint8_t rgb[HEIGHT][WIDTH][3];
    make_png(&kind, rows);
    read_all(rgb);
    assert_pixel(rgb[0][0], 9, 8, 7);
    assert_pixel(rgb[0][1], 255, 255, 255);
    assert_in_range(rgb[0][2][0], 126, 128);
    assert_int_equal(rgb[0][2][1], 255);
    assert_in_range(rgb[0][2][2], 176, 178);
}

static void test_gray_alpha16_is_blended_with_white(void **state)
{
    (void)state;
    struct kind kind = {.depth = 16, .colour = PNG_COLOR_TYPE_GRAY_ALPHA, .row_bytes = 4 * WIDTH};
    png_byte rows[HEIGHT * WIDTH * 4] = {0x40, 0x00, 0xff, 0xff, /* */ 0x40, 0x00, 0x00, 0x00};
    uint8_t rgb[HEIGHT][WIDTH][3];
    make_png(&kind, rows);
    read_all(rgb);
    assert_pixel(rgb[0][0], 64, 64, 64);
    assert_in_range(rgb[0][1][0], 254, 255); /* libpng blends before it scales, so a level may get lost */
    assert_int_equal(rgb[0][1][0], rgb[0][1][1]);
    assert_int_equal(rgb[0][1][0], rgb[0][1][2]);
}

static void test_a_gamma_changes_nothing(void **state)
{
    (void)state;
    const png_color palette[2] = {{10, 20, 30}, {200, 100, 50}};
    const png_byte alphas[2] = {255, 100};
    struct kind kinds[] = {
        {.depth = 8, .colour = PNG_COLOR_TYPE_RGB, .row_bytes = 3 * WIDTH},
        {.depth = 8, .colour = PNG_COLOR_TYPE_RGB_ALPHA, .row_bytes = 4 * WIDTH},
        {.depth = 16, .colour = PNG_COLOR_TYPE_GRAY_ALPHA, .row_bytes = 4 * WIDTH},
        {.depth = 1, .colour = PNG_COLOR_TYPE_PALETTE, .palette = palette, .alphas = alphas, .row_bytes = 1}};
    png_byte rows[HEIGHT * WIDTH * 4];
    fill_ramp(rows, sizeof(rows));
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        const double gammas[] = {0, 0.45455, 1, 2.2};
        uint8_t without[HEIGHT][WIDTH][3], with[HEIGHT][WIDTH][3];
        for (size_t g = 0; g < sizeof(gammas) / sizeof(gammas[0]); g++) {
            kinds[i].gamma = gammas[g];
            make_png(&kinds[i], rows);
            read_all(g == 0 ? without : with);
            if (g != 0) {
                assert_memory_equal(with, without, sizeof(with));
            }
        }
    }
}

static void test_written_gray_comes_back(void **state)
{
    (void)state;
    uint8_t gray[HEIGHT * WIDTH];
    uint8_t rgb[HEIGHT][WIDTH][3];
    char error[IMAGE_ERROR_BYTES] = "";
    fill_ramp(gray, sizeof(gray));
    assert_true(image_write_gray(path, gray, WIDTH, HEIGHT, error));
    read_all(rgb);
    for (size_t i = 0; i < sizeof(gray); i++) {
        assert_pixel(rgb[i / WIDTH][i % WIDTH], gray[i], gray[i], gray[i]);
    }
}

/* ---- what is refused ----------------------------------------------------------------------- */

static void make_good_file(void)
{
    struct kind kind = {.depth = 8, .colour = PNG_COLOR_TYPE_RGB, .row_bytes = 3 * WIDTH};
    png_byte rows[HEIGHT * WIDTH * 3];
    fill_ramp(rows, sizeof(rows));
    make_png(&kind, rows);
}

static size_t file_bytes(void)
{
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    return (size_t)info.st_size;
}

static void overwrite(long offset, const void *bytes, size_t count)
{
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, offset, SEEK_SET), 0);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

/* Open a file and read it; either call may fail, and must give the reason. */
static bool read_fails(char error[IMAGE_ERROR_BYTES])
{
    struct image_reader *reader = NULL;
    uint8_t rgb[HEIGHT * WIDTH * 3];
    error[0] = '\0';
    if (!image_reader_open(path, &reader, error)) {
        assert_null(reader);
        assert_true(error[0] != '\0');
        return true;
    }
    bool failed = !image_reader_read(reader, rgb, error);
    assert_int_equal(failed, error[0] != '\0');
    image_reader_close(reader);
    return failed;
}

static void test_file_cut_off_anywhere_is_refused(void **state)
{
    (void)state;
    char error[IMAGE_ERROR_BYTES];
    make_good_file();
    for (size_t bytes = file_bytes(); bytes-- > 0;) {
        assert_int_equal(truncate(path, (off_t)bytes), 0);
        if (!read_fails(error)) {
            fail_msg("a file cut off after %zu bytes was read", bytes);
        }
    }
}

static void test_wrong_signature_is_named(void **state)
{
    (void)state;
    char error[IMAGE_ERROR_BYTES];
    make_good_file();
    overwrite(0, "GIF89a", 6);
    assert_true(read_fails(error));
    assert_non_null(strstr(error, "not a PNG file"));
}

static void test_missing_file_is_refused_with_the_reason(void **state)
{
    (void)state;
    char error[IMAGE_ERROR_BYTES];
    remove(path);
    assert_true(read_fails(error));
    assert_non_null(strstr(error, "No such file"));
}

/* The signature has 8 bytes, IHDR 25: the length of the data chunk is at 33, its type at 37, its bytes begin
 * at 41. */
static void test_corrupt_data_chunk_is_refused(void **state)
{
    (void)state;
    char error[IMAGE_ERROR_BYTES];
    make_good_file();
    overwrite(45, "\xff\x00\xff", 3);
    assert_true(read_fails(error));
}

static void test_corrupt_header_checksum_is_refused(void **state)
{
    (void)state;
    char error[IMAGE_ERROR_BYTES];
    make_good_file();
    overwrite(29, "\x01\x02\x03\x04", 4);
    assert_true(read_fails(error));
    assert_non_null(strstr(error, "CRC"));
}

/* A header alone can promise any size: it must be refused before the pixels are asked for. */
static void test_huge_image_is_refused_by_its_header(void **state)
{
    (void)state;
    char error[IMAGE_ERROR_BYTES];
    const png_byte sizes[2][8] = {{0, 0, 0x80, 1, 0, 0, 0, 1}, {0, 0, 0x60, 0, 0, 0, 0x60, 0}};
    for (size_t i = 0; i < 2; i++) {
        make_good_file();
        png_byte header[17] = {'I', 'H', 'D', 'R', 0, 0, 0, 0, 0, 0, 0, 0, 8, PNG_COLOR_TYPE_RGB};
        memcpy(header + 4, sizes[i], 8);
        unsigned long crc = 0xffffffffu;
        for (size_t b = 0; b < sizeof(header); b++) {
            crc ^= header[b];
            for (int bit = 0; bit < 8; bit++) {
                crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320u : 0);
            }
        }
        crc = ~crc & 0xffffffffu;
        const png_byte sum[4] = {(png_byte)(crc >> 24), (png_byte)(crc >> 16), (png_byte)(crc >> 8),
                                 (png_byte)crc};
        overwrite(12, header, sizeof(header));
        overwrite(29, sum, sizeof(sum));
        assert_true(read_fails(error));
        assert_non_null(strstr(error, "too many"));
    }
}

static void test_failed_write_leaves_no_file(void **state)
{
    (void)state;
    const uint8_t gray[1] = {1};
    char missing[sizeof(path) + 32];
    char error[IMAGE_ERROR_BYTES] = "";
    snprintf(missing, sizeof(missing), "%s/no/such.png", folder);
    assert_false(image_write_gray(missing, gray, 1, 1, error));
    assert_non_null(strstr(error, "No such file"));
    assert_int_equal(access(missing, F_OK), -1);
}

static void test_write_to_a_full_device_fails(void **state)
{
    (void)state;
    uint8_t gray[HEIGHT * WIDTH];
    char part[sizeof(path) + 8];
    char error[IMAGE_ERROR_BYTES] = "";
    fill_ramp(gray, sizeof(gray));
    make_good_file();
    size_t before = file_bytes();
    snprintf(part, sizeof(part), "%s.part", path);
    assert_int_equal(symlink("/dev/full", part), 0);
    assert_false(image_write_gray(path, gray, WIDTH, HEIGHT, error));
    assert_non_null(strstr(error, "No space left"));
    assert_int_equal(access(part, F_OK), -1);
    assert_int_equal(file_bytes(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rgb8_is_read_as_it_is),
        cmocka_unit_test(test_gray8_is_repeated_in_all_channels),
        cmocka_unit_test(test_gray1_becomes_black_and_white),
        cmocka_unit_test(test_rgb16_is_scaled_to_8_bits),
        cmocka_unit_test(test_palette_is_looked_up),
        cmocka_unit_test(test_transparent_palette_entry_becomes_white),
        cmocka_unit_test(test_rgba8_is_blended_with_white),
        cmocka_unit_test(test_gray_alpha16_is_blended_with_white),
        cmocka_unit_test(test_a_gamma_changes_nothing),
        cmocka_unit_test(test_written_gray_comes_back),
        cmocka_unit_test(test_file_cut_off_anywhere_is_refused),
        cmocka_unit_test(test_wrong_signature_is_named),
        cmocka_unit_test(test_missing_file_is_refused_with_the_reason),
        cmocka_unit_test(test_corrupt_data_chunk_is_refused),
        cmocka_unit_test(test_corrupt_header_checksum_is_refused),
        cmocka_unit_test(test_huge_image_is_refused_by_its_header),
        cmocka_unit_test(test_failed_write_leaves_no_file),
        cmocka_unit_test(test_write_to_a_full_device_fails),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
