/* SPDX-License-Identifier: MIT */
/* Every public function with every kind of wrong argument: a status and a message, the outputs as they were.
 * The rows are the table "Wrong arguments" of docs/reference/errors.md:
 *
 *   test_campaign_bad_input            fails when the document says something else, or lacks a function
 *   test_campaign_bad_input --update   writes it */
#include "tests/campaign/bad_input.h"

#include "base/status.h"
#include "tests/support/cmocka_c11.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 1000, ROW_BYTES = 640, DOCUMENT_BYTES = 512 * 1024 };

static const char begin_mark[] = "<!-- wrong arguments: written by test_campaign_bad_input -->\n";
static const char end_mark[] = "<!-- end of wrong arguments -->\n";

static char rows[MOST_ROWS][ROW_BYTES]; /* the rows run one at a time, whichever thread runs them */
static size_t row_count;
static char untouched, broken[512];

static void add_row(const char *function, const char *wrong, const char *status, const char *message)
{
    if (row_count == MOST_ROWS) {
        (void)snprintf(broken, sizeof(broken), "more than %d rows", MOST_ROWS);
        return;
    }
    (void)snprintf(rows[row_count++], ROW_BYTES, "| `%s` | %s | %s | %s |", function, wrong, status, message);
}

void *bad_untouched(void)
{
    return &untouched;
}

gantry_status bad_body(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    return GANTRY_OK;
}

gantry_status bad_range(size_t begin, size_t end, void *arg)
{
    (void)begin;
    (void)end;
    (void)arg;
    return GANTRY_OK;
}

void bad_begin(void)
{
    gy_error_clear();
}

void bad_note(const char *function, const char *wrong, const char *what)
{
    add_row(function, wrong, what, "");
}

/* The text behind these words differs from run to run, or with each change of a source: it is left out. */
static size_t skipped(const char *text)
{
    static const char *const words[] = {"0x", "byte ", ", from "};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        size_t length = strlen(words[i]);
        if (strncmp(text, words[i], length) == 0) {
            size_t rest = i == 0   ? strspn(text + length, "0123456789abcdef")
                          : i == 1 ? strspn(text + length, "0123456789")
                                   : strcspn(text + length, ")");
            return length + rest;
        }
    }
    return 0;
}

static void clean(const char *text, char *out, size_t room)
{
    size_t used = 0;
    const char *end = strrchr(text, '[');
    size_t length = end != NULL ? (size_t)(end - text) : strlen(text);
    for (size_t i = 0; i < length && used + 8 < room; i++) {
        size_t skip = skipped(text + i);
        if (skip > 0) {
            used += (size_t)snprintf(out + used, room - used, "…");
            i += skip - 1;
            continue;
        }
        if (text[i] == '|') {
            out[used++] = '\\';
        }
        out[used++] = text[i];
    }
    while (used > 0 && out[used - 1] == ' ') {
        used--;
    }
    out[used] = '\0';
}

void bad_end(const char *call, const char *wrong, gantry_status status)
{
    char function[64], message[400], code[64];
    (void)snprintf(function, sizeof(function), "%.*s", (int)strcspn(call, "("), call);
    clean(gantry_last_error(), message, sizeof(message));
    (void)snprintf(code, sizeof(code), "`%s`", gantry_status_name(status) + strlen("GANTRY_"));
    if (status == GANTRY_OK) {
        (void)snprintf(broken, sizeof(broken), "%s succeeds with: %s", call, wrong);
    } else if (message[0] == '\0') {
        (void)snprintf(broken, sizeof(broken), "%s fails without a message: %s", call, wrong);
    }
    add_row(function, wrong, code, message);
}

void bad_given(const char *call, const char *wrong, const char *what, bool is_given)
{
    char function[64], message[400];
    (void)snprintf(function, sizeof(function), "%.*s", (int)strcspn(call, "("), call);
    clean(gantry_last_error(), message, sizeof(message));
    if (!is_given || message[0] == '\0') {
        (void)snprintf(broken, sizeof(broken), "%s: %s: not what is %s, or no message", call, wrong, what);
    }
    add_row(function, wrong, what, message);
}

void bad_check_untouched(const char *call, const void *variable)
{
    if (variable != &untouched) {
        (void)snprintf(broken, sizeof(broken), "%s wrote its output", call);
    }
}

/* ---- the document ---------------------------------------------------------------------------- */

static int compare_rows(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Returns the text of a document, NUL-terminated; the test fails when it cannot be read. */
static char *read_all(const char *path)
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    char *text = calloc(1, DOCUMENT_BYTES);
    assert_non_null(text);
    size_t length = fread(text, 1, DOCUMENT_BYTES - 1, file);
    assert_in_range(length, 1, DOCUMENT_BYTES - 2);
    (void)fclose(file);
    return text;
}

static char *make_table(void)
{
    char *text = calloc(1, DOCUMENT_BYTES);
    assert_non_null(text);
    size_t used = (size_t)snprintf(text, DOCUMENT_BYTES,
                                   "| function | wrong | status | message |\n|---|---|---|---|\n");
    for (size_t i = 0; i < row_count; i++) {
        used += (size_t)snprintf(text + used, DOCUMENT_BYTES - used, "%s\n", rows[i]);
    }
    return text;
}

static void gather_rows(void)
{
    static bool gathered;
    if (!gathered) {
        bad_base();
        bad_tasks();
        bad_handles();
        bad_heap();
        bad_partition();
        bad_context();
        bad_interop();
        qsort(rows, row_count, sizeof(rows[0]), compare_rows);
        gathered = true;
    }
    assert_string_equal(broken, "");
    assert_true(row_count > 200);
}

static void update(const char *document, const char *begin, const char *end, const char *table)
{
    FILE *file = fopen(DOCS_ERRORS, "w");
    assert_non_null(file);
    (void)fprintf(file, "%.*s%s%s", (int)(begin - document), document, table, end);
    assert_int_equal(fclose(file), 0);
}

static void test_the_document_says_what_happens(void **state)
{
    gather_rows();
    char *document = read_all(DOCS_ERRORS), *table = make_table();
    char *begin = strstr(document, begin_mark), *end = strstr(document, end_mark);
    assert_non_null(begin);
    assert_non_null(end);
    begin += strlen(begin_mark);
    if (*(const bool *)*state) {
        update(document, begin, end, table);
    }
    for (char *line = table; *line != '\0' && !*(const bool *)*state; line += strcspn(line, "\n") + 1) {
        size_t length = strcspn(line, "\n");
        if ((size_t)(end - begin) <= length || memcmp(begin, line, length + 1) != 0) {
            fail_msg("docs/reference/errors.md differs (run %s --update): this is so:\n%.*s\nit says:\n%.*s",
                     "build/dev/tests/test_campaign_bad_input", (int)length, line, (int)strcspn(begin, "\n"),
                     begin);
        }
        begin += length + 1;
    }
    if (!*(const bool *)*state && begin != end) {
        fail_msg("docs/reference/errors.md has a row too much: %.*s", (int)strcspn(begin, "\n"), begin);
    }
    free(table);
    free(document);
}

static bool has_row(const char *name, const char *wrong)
{
    char head[160];
    (void)snprintf(head, sizeof(head), "| `%s` | %s", name, wrong);
    for (size_t i = 0; i < row_count; i++) {
        if (strncmp(rows[i], head, strlen(head)) == 0) {
            return true;
        }
    }
    return false;
}

static bool takes_a_handle(const char *name)
{
    static const char *const others[] = {"gantry_bandwidth_",
                                         "gantry_copy_tuning_text",
                                         "gantry_cpu_cache_domain",
                                         "gantry_fail",
                                         "gantry_last_",
                                         "gantry_link_",
                                         "gantry_partition_plan",
                                         "gantry_profile_name_ranges",
                                         "gantry_profile_now",
                                         "gantry_profile_register_kernels",
                                         "gantry_profile_span",
                                         "gantry_profile_start",
                                         "gantry_set_",
                                         "gantry_status_",
                                         "gantry_suggest_device",
                                         "gantry_version"};
    const char *end = strstr(name, "_create");
    bool takes = end == NULL || strcmp(end, "_create") != 0;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        takes = takes && strncmp(name, others[i], strlen(others[i])) != 0;
    }
    return takes;
}

static void test_no_function_is_missing(void **state)
{
    (void)state;
    gather_rows();
    char *exports = read_all(EXPORTS);
    for (char *name = strtok(exports, "\n"); name != NULL; name = strtok(NULL, "\n")) {
        if (!has_row(name, "")) {
            fail_msg("%s() has no row: add one for each thing that can be wrong to tests/campaign/bad_*.c",
                     name);
        }
        if (takes_a_handle(name) && !has_row(name, "destroyed handle |")) {
            fail_msg("%s() has no row for a destroyed handle: add one to tests/campaign/bad_handles.c", name);
        }
    }
    free(exports);
}

int main(int argc, char **argv)
{
    static bool updates;
    updates = argc == 2 && strcmp(argv[1], "--update") == 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_the_document_says_what_happens, &updates),
        cmocka_unit_test(test_no_function_is_missing),
    };
    unsetenv("GANTRY_DRIVER");
    setenv("GANTRY_CHECK", "handles", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
