/* SPDX-License-Identifier: MIT */
#include "cli/heap_report.h"

#include "cli/command.h"
#include "cli/json_file.h"
#include "cli/text.h"

#ifdef GANTRY_HAVE_CJSON

#include "heap.html.h" /* heap_html: the page, with a line @HEAP@ where the snapshot goes */

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_BYTES ((size_t)1 << 30) /* of a file */
#define COLUMNS 64                   /* of a slab's line */
#define MOST_TAGS 30                 /* the tags that are printed; of the rest only the number is */
#define MOST_NUMBER 9007199254740992.0

/* ---- reading ----------------------------------------------------------------------------------- */

/* A whole number that is not negative; 0 when it is missing or something else. */
static uint64_t whole(const cJSON *item)
{
    const double value = cJSON_IsNumber(item) ? item->valuedouble : 0;
    return value >= 0 && value <= MOST_NUMBER ? (uint64_t)value : 0;
}

static uint64_t count_of(const cJSON *object, const char *key)
{
    return whole(cJSON_GetObjectItemCaseSensitive(object, key));
}

/* The member's text; "" when it is missing or something else. */
static const char *text_of(const cJSON *object, const char *key)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
    return text != NULL ? text : "";
}

static const cJSON *list_of(const cJSON *object, const char *key)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsArray(list) ? list : NULL;
}

static bool check(const char *path, const cJSON *document)
{
    const cJSON *version = cJSON_GetObjectItemCaseSensitive(document, "gantry_heap");
    const cJSON *kind;
    if (!cJSON_IsNumber(version) || list_of(document, "kinds") == NULL) {
        cli_error("%s: no heap that gantry_heap_write_json() wrote", path);
        return false;
    }
    if (whole(version) != 1) {
        cli_error("%s: version %" PRIu64 " of the format; this command reads 1", path, whole(version));
        return false;
    }
    cJSON_ArrayForEach(kind, list_of(document, "kinds"))
    {
        if (list_of(kind, "tags") == NULL || text_of(kind, "kind")[0] == '\0') {
            cli_error("%s: a kind of memory has no name or no tags", path);
            return false;
        }
    }
    return true;
}

/* ---- text -------------------------------------------------------------------------------------- */

/* "12.5 MiB", right-aligned. */
static void print_bytes(uint64_t bytes, int width)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    size_t unit = 0;
    for (; value >= 1024 && unit < 4; unit++) {
        value /= 1024;
    }
    printf("%*.*f %-3s", width, unit == 0 ? 0 : 2, value, units[unit]);
}

static void print_sums(const cJSON *kind)
{
    const uint64_t largest = count_of(kind, "largest_free"), free_bytes = count_of(kind, "free_bytes");
    printf("  in use   ");
    print_bytes(count_of(kind, "used_bytes"), 9);
    printf("  in %" PRIu64 " blocks, at most ", count_of(kind, "block_count"));
    print_bytes(count_of(kind, "peak_bytes"), 0);
    printf("\n  slabs    ");
    print_bytes(count_of(kind, "slab_bytes"), 9);
    printf("  at most ");
    print_bytes(count_of(kind, "peak_slab_bytes"), 0);
    printf("\n  free     ");
    print_bytes(free_bytes, 9);
    printf("  the largest piece ");
    print_bytes(largest, 0);
    printf(" (%.0f %% fragmented)\n", free_bytes != 0 && largest < free_bytes
                                          ? 100.0 * (1 - (double)largest / (double)free_bytes)
                                          : 0.0);
    if (count_of(kind, "waiting_bytes") != 0) {
        printf("  waiting  ");
        print_bytes(count_of(kind, "waiting_bytes"), 9);
        printf("  freed, but a stream or a graph may still use it\n");
    }
}

static char letter_of(const char *state)
{
    static const struct {
        const char *state;
        char letter;
    } letters[] = {{"block", '#'}, {"small", 's'}, {"waiting", 'w'}, {"parked", 'p'}, {"hole", ' '}};
    for (size_t i = 0; i < sizeof(letters) / sizeof(letters[0]); i++) {
        if (strcmp(state, letters[i].state) == 0) {
            return letters[i].letter;
        }
    }
    return '.';
}

/* A column shows taken memory rather than free memory in it, so that taken memory never looks free. */
static void print_slab(const cJSON *slab)
{
    char line[COLUMNS + 1];
    const uint64_t bytes = count_of(slab, "bytes");
    const cJSON *range;
    memset(line, '.', COLUMNS);
    line[COLUMNS] = '\0';
    cJSON_ArrayForEach(range, list_of(slab, "ranges"))
    {
        const uint64_t offset = whole(cJSON_GetArrayItem(range, 0)),
                       size = whole(cJSON_GetArrayItem(range, 1));
        const char *state = cJSON_GetStringValue(cJSON_GetArrayItem(range, 2));
        const char letter = letter_of(state != NULL ? state : "");
        if (letter == '.' || size == 0 || offset >= bytes || size > bytes - offset) {
            continue;
        }
        const size_t first = (size_t)((double)offset * COLUMNS / (double)bytes);
        const size_t last = (size_t)((double)(offset + size - 1) * COLUMNS / (double)bytes);
        for (size_t i = first; i <= last && i < COLUMNS; i++) {
            line[i] = line[i] == '.' || line[i] == letter ? letter : '+';
        }
    }
    printf("  ");
    cli_print_text(stdout, text_of(slab, "base"), 18, 18);
    print_bytes(bytes, 8);
    printf(" |%s|\n", line);
}

static int by_use(const void *a, const void *b)
{
    const cJSON *left = *(const cJSON *const *)a, *right = *(const cJSON *const *)b;
    const uint64_t x = count_of(left, "used_bytes"), y = count_of(right, "used_bytes");
    const uint64_t p = count_of(left, "peak_bytes"), q = count_of(right, "peak_bytes");
    return x != y ? (x < y ? 1 : -1) : p != q ? (p < q ? 1 : -1) : 0;
}

static void print_tag(const cJSON *tag)
{
    const char *file = text_of(tag, "file");
    printf("  ");
    print_bytes(count_of(tag, "used_bytes"), 8);
    printf(" %10" PRIu64 "  ", count_of(tag, "block_count"));
    print_bytes(count_of(tag, "peak_bytes"), 8);
    printf("  ");
    cli_print_text(stdout, text_of(tag, "tag"), 24, CLI_ANY_LENGTH);
    printf("  ");
    cli_print_text(stdout, file[0] != '\0' ? file : "unknown place", 0, CLI_ANY_LENGTH);
    if (file[0] != '\0') {
        printf(":%" PRIu64, count_of(tag, "line"));
    }
    printf("\n");
}

/* False: out of memory. */
static bool print_tags(const cJSON *tags)
{
    const size_t count = (size_t)cJSON_GetArraySize(tags);
    const cJSON **sorted = calloc(count + 1, sizeof(*sorted));
    const cJSON *tag;
    size_t filled = 0;
    if (sorted == NULL) {
        cli_error("out of memory");
        return false;
    }
    cJSON_ArrayForEach(tag, tags)
    {
        sorted[filled++] = tag;
    }
    qsort(sorted, filled, sizeof(*sorted), by_use);
    if (filled != 0) {
        printf("      in use     blocks       at most  tag                       allocated at\n");
    }
    for (size_t i = 0; i < filled && i < MOST_TAGS; i++) {
        print_tag(sorted[i]);
    }
    if (filled > MOST_TAGS) {
        printf("  and %zu more\n", filled - MOST_TAGS);
    }
    free(sorted);
    return true;
}

static bool print_text(const cJSON *document)
{
    const cJSON *kind, *slab;
    bool good = true;
    cJSON_ArrayForEach(kind, list_of(document, "kinds"))
    {
        if (count_of(kind, "alloc_count") == 0 && count_of(kind, "peak_slab_bytes") == 0) {
            continue;
        }
        cli_print_text(stdout, text_of(kind, "kind"), 0, CLI_ANY_LENGTH);
        printf(" memory\n");
        print_sums(kind);
        if (cJSON_GetArraySize(list_of(kind, "slabs")) > 0) {
            printf("  # blocks  s small blocks  + both  w waiting  p parked  . free  (blank) given back\n");
        }
        cJSON_ArrayForEach(slab, list_of(kind, "slabs"))
        {
            print_slab(slab);
        }
        good = good && print_tags(list_of(kind, "tags"));
    }
    return good;
}

/* ---- page -------------------------------------------------------------------------------------- */

/* The text stands in a script of the page, which "</script>" would end. */
static void print_page(const char *text)
{
    static const char mark[] = "@HEAP@";
    const char *at = strstr(heap_html, mark);
    fwrite(heap_html, 1, (size_t)(at - heap_html), stdout);
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '<') {
            fputs("\\u003c", stdout);
        } else {
            fputc(*c, stdout);
        }
    }
    fputs(at + strlen(mark), stdout);
}

bool cli_heap_report(const char *path, bool is_page)
{
    char *text = NULL;
    cJSON *document = cli_json_read(path, MOST_BYTES, &text);
    bool good = document != NULL && check(path, document);
    if (good && is_page) {
        print_page(text);
    } else if (good) {
        good = print_text(document);
    }
    cJSON_Delete(document);
    free(text);
    return good;
}

#else

bool cli_heap_report(const char *path, bool is_page)
{
    (void)is_page;
    cli_error("%s: this build reads no heaps: cJSON (package libcjson-dev) was missing", path);
    return false;
}

#endif
