/* SPDX-License-Identifier: MIT */
/* What the system says in errors, in a program that has chosen another language.  The test translates two
 * texts of the C library itself, so that no language need be installed. */
#include "tests/support/cmocka_c11.h"

#include "base/library.h"

#include <gantry/context.h>

#include <dlfcn.h>
#include <errno.h>
#include <libintl.h>
#include <locale.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/gantry-locale-XXXXXX";

/* In the order of the originals. */
static const char *const texts[][2] = {
    {"No such file or directory", "Kein solches Verzeichnis"},
    {"cannot open shared object file", "kann die Bibliothek nicht lesen"},
};
enum { TEXTS = sizeof(texts) / sizeof(texts[0]) };

/* The catalogue of the C library in the language "xx": heads, tables of lengths and places, texts. */
static void write_catalogue(void)
{
    char path[128];
    uint32_t head[7 + 4 * TEXTS] = {0x950412de, 0, TEXTS, 28, 28 + 8 * TEXTS, 0, 28 + 16 * TEXTS};
    uint32_t at = sizeof(head);
    for (size_t side = 0; side < 2; side++) {
        for (size_t i = 0; i < TEXTS; i++) {
            head[7 + 2 * (side * TEXTS + i)] = (uint32_t)strlen(texts[i][side]);
            head[7 + 2 * (side * TEXTS + i) + 1] = at;
            at += (uint32_t)strlen(texts[i][side]) + 1;
        }
    }
    assert_non_null(mkdtemp(folder));
    for (int part = 0; part < 2; part++) {
        snprintf(path, sizeof(path), "%s/xx%s", folder, part == 0 ? "" : "/LC_MESSAGES");
        assert_int_equal(mkdir(path, 0700), 0);
    }
    snprintf(path, sizeof(path), "%s/xx/LC_MESSAGES/libc.mo", folder);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(head, sizeof(head), 1, file), 1);
    for (size_t side = 0; side < 2; side++) {
        for (size_t i = 0; i < TEXTS; i++) {
            assert_int_equal(fwrite(texts[i][side], strlen(texts[i][side]) + 1, 1, file), 1);
        }
    }
    assert_int_equal(fclose(file), 0);
}

/* True: the C library speaks this language now. */
static bool choose_language(void)
{
    return setlocale(LC_ALL, "C.UTF-8") != NULL && bindtextdomain("libc", folder) != NULL &&
           setenv("LANGUAGE", "xx", 1) == 0 && strcmp(strerror(ENOENT), texts[0][1]) == 0;
}

static int remove_catalogue(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof(command), "rm -r %s", folder);
    return system(command);
}

static void test_what_the_loader_says_is_english(void **state)
{
    (void)state;
    char why[256];
    assert_null(dlopen("libnone.so.9", RTLD_NOW));
    assert_string_equal(gy_library_error(why, sizeof(why)),
                        "libnone.so.9: cannot open shared object file: No such file or directory");
    assert_string_equal(gy_library_error(why, sizeof(why)), "");
    assert_string_equal(strerror(ENOENT), texts[0][1]); /* the thread's language is as it was */
}

static gantry_status create(gantry_driver_choice driver, const char *variable)
{
    gantry_context *context = NULL;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.driver = driver;
    if (variable != NULL) {
        assert_int_equal(setenv(variable, "/nowhere/x", 1), 0);
    }
    gantry_status status = gantry_context_create(&options, &context);
    if (variable != NULL) {
        assert_int_equal(unsetenv(variable), 0);
    }
    gantry_context_destroy(context);
    return status;
}

static void test_errors_are_english(void **state)
{
    (void)state;
    assert_int_equal(create(GANTRY_DRIVER_EMULATED, "GANTRY_CONFIG"), GANTRY_ERR_IO);
    assert_non_null(strstr(gantry_last_error(), "/nowhere/x: No such file or directory"));
}

static void test_a_machine_without_a_driver_is_known(void **state)
{
    (void)state;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (driver != NULL) {
        dlclose(driver);
        return; /* there is one */
    }
    assert_int_equal(create(GANTRY_DRIVER_CUDA, NULL), GANTRY_ERR_NO_DRIVER);
    assert_non_null(strstr(gantry_last_error(), "no NVIDIA driver is installed: libcuda.so.1 was not found"));
}

int main(void)
{
    write_catalogue();
    if (!choose_language()) {
        (void)remove_catalogue(NULL);
        fprintf(stderr, "skipped: this C library translates nothing in the locale C.UTF-8\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_the_loader_says_is_english),
        cmocka_unit_test(test_errors_are_english),
        cmocka_unit_test(test_a_machine_without_a_driver_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, remove_catalogue);
}
