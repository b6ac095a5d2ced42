/* SPDX-License-Identifier: MIT */
/* `gantry report trace`: what a recording says about a run, and the recording itself in other formats; and
 * `gantry report heap`: what a heap held. */
#include "cli/heap_report.h"
#include "cli/report_export.h"
#include "cli/report_page.h"
#include "cli/report_print.h"
#include "cli/report_waterfall.h"

#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/output_file.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum format { FORMAT_UNSET = -1, FORMAT_TEXT, FORMAT_CHROME, FORMAT_HTML };
static const char *const format_names[] = {
    [FORMAT_TEXT] = "text", [FORMAT_CHROME] = "json", [FORMAT_HTML] = "html", NULL};

struct arguments {
    bool is_heap; /* `report heap`, of which only file, format and output count */
    bool json, waterfall;
    int format;                                 /* enum format */
    const char *file, *second, *other, *output; /* second: beside the first, on a page */
};

/* A trace with its report. */
struct loaded {
    struct trace trace;
    struct report report;
    struct report_sms *sms;
    struct page_blocks blocks; /* kept for a page only */
    bool wants_page;
};

static void on_block(void *user, const struct trace *trace, const struct trace_slice *block, uint64_t number)
{
    struct loaded *loaded = user;
    cli_report_sms_add(loaded->sms, trace, block, number);
    if (loaded->wants_page) {
        cli_page_block(&loaded->blocks, trace, block, number);
    }
}

static void unload(struct loaded *loaded)
{
    if (loaded != NULL) {
        cli_trace_free(&loaded->trace);
        cli_report_free(&loaded->report);
        cli_report_sms_free(loaded->sms);
        free(loaded->blocks.at);
        free(loaded);
    }
}

/* NULL after a line on stderr. */
static struct loaded *load(const char *path, bool wants_page)
{
    struct loaded *loaded = calloc(1, sizeof(*loaded));
    if (loaded == NULL || (loaded->sms = cli_report_sms_create()) == NULL) {
        cli_error("out of memory");
        free(loaded);
        return NULL;
    }
    loaded->wants_page = wants_page;
    bool good = cli_trace_load(path, on_block, loaded, &loaded->trace);
    cli_interrupts_end_reading(false);
    if (!good) {
        cli_report_sms_free(loaded->sms);
        free(loaded->blocks.at);
        free(loaded);
        return NULL;
    }
    if (!cli_report_compute(&loaded->trace, loaded->sms, &loaded->report)) {
        unload(loaded);
        return NULL;
    }
    return loaded;
}

static int diff(const struct arguments *arguments, const struct loaded *after)
{
    struct loaded *before = load(arguments->other, false);
    if (before == NULL) {
        return 1;
    }
    if (arguments->json) {
        printf("{\"before\":");
        cli_report_json(arguments->other, &before->trace, &before->report);
        printf(",\"after\":");
        cli_report_json(arguments->file, &after->trace, &after->report);
        printf("}\n");
    } else {
        cli_report_diff(&before->trace, &before->report, &after->trace, &after->report);
    }
    unload(before);
    return 0;
}

/* Blocks are written as they are read. */
static bool export_chrome(const char *path, FILE *file)
{
    struct trace trace;
    cli_export_chrome_begin(file);
    if (!cli_trace_load(path, cli_export_chrome_block, file, &trace)) {
        return false;
    }
    bool good = cli_export_chrome_end(&trace, file);
    cli_trace_free(&trace);
    return good;
}

/* The name of a recording on the page. */
static const char *title_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static bool put_recording(const char *path, struct loaded *loaded, FILE *file)
{
    return loaded == NULL ||
           cli_page_recording(title_of(path), &loaded->trace, &loaded->blocks, &loaded->report, file);
}

/* `second` may be NULL. */
static bool export_html(const char *first, const char *second, FILE *file)
{
    struct loaded *one = load(first, true), *other = NULL;
    bool good = one != NULL && (second == NULL || (other = load(second, true)) != NULL);
    if (good) {
        cli_page_begin(file);
        good = put_recording(first, one, file) && put_recording(second, other, file);
        cli_page_end(file);
    }
    unload(one);
    unload(other);
    return good;
}

static int report_on(const struct arguments *arguments)
{
    if (arguments->is_heap) {
        return cli_heap_report(arguments->file, arguments->format == FORMAT_HTML) ? 0 : 1;
    }
    if (arguments->format != FORMAT_TEXT) {
        bool good = arguments->format == FORMAT_CHROME
                        ? export_chrome(arguments->file, stdout)
                        : export_html(arguments->file, arguments->second, stdout);
        return good ? 0 : 1;
    }
    struct loaded *loaded = load(arguments->file, false);
    if (loaded == NULL) {
        return 1;
    }
    int status = 0;
    if (arguments->other != NULL && loaded->trace.unread_bytes == 0) {
        status = diff(arguments, loaded);
    } else if (arguments->waterfall) {
        status = cli_report_waterfall(&loaded->trace, &loaded->report, arguments->json) ? 0 : 1;
    } else if (arguments->json) {
        cli_report_json(arguments->file, &loaded->trace, &loaded->report);
        printf("\n");
    } else {
        cli_report_text(arguments->file, &loaded->trace, &loaded->report);
    }
    status = loaded->trace.unread_bytes != 0 ? CLI_INTERRUPTED : status;
    unload(loaded);
    return status;
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = text != NULL ? strlen(text) : 0, of_end = strlen(end);
    return length > of_end && strcmp(text + length - of_end, end) == 0;
}

/* Without --format the ending of -o says the format.  The report is asked for by the other options; --json
 * with -o x.json is the report, as a heap is JSON already. */
static enum format format_of(const struct arguments *arguments, bool is_heap)
{
    bool is_report = arguments->json || arguments->waterfall || arguments->other != NULL;
    if (!is_report && ends_with(arguments->output, ".html")) {
        return FORMAT_HTML;
    }
    return !is_report && !is_heap && ends_with(arguments->output, ".json") ? FORMAT_CHROME : FORMAT_TEXT;
}

/* "heap FILE" and its options: -1 when they are in order, else the exit status. */
static int check_heap(int count, char *const *words, struct arguments *arguments)
{
    if (count != 2) {
        return cli_usage_error("report: say 'gantry report heap FILE'");
    }
    if (arguments->json || arguments->waterfall || arguments->other != NULL) {
        return cli_usage_error("report: heap takes neither --json nor --waterfall nor --diff");
    }
    if (arguments->format == FORMAT_CHROME) {
        return cli_usage_error("report: a heap is JSON already; --format is text or html");
    }
    arguments->is_heap = true;
    arguments->file = words[1];
    return -1;
}

/* -1 when the arguments are in order, else the exit status. */
static int parse(int argc, char **argv, struct arguments *arguments)
{
    const struct cli_option table[] = {
        {.name = "json", .flag = &arguments->json},
        {.name = "waterfall", .flag = &arguments->waterfall},
        {.name = "diff", .text = &arguments->other},
        {.name = "format", .choice = &arguments->format, .names = format_names},
        {.name = "output", .letter = 'o', .text = &arguments->output},
        {.name = NULL}};
    int status = cli_read_options(argc, argv, table, 3);
    if (status >= 0) {
        return status;
    }
    bool is_heap = optind < argc && strcmp(argv[optind], "heap") == 0;
    if (arguments->format == FORMAT_UNSET) {
        arguments->format = format_of(arguments, is_heap);
    }
    if (is_heap) {
        return check_heap(argc - optind, argv + optind, arguments);
    }
    if (optind < argc && strcmp(argv[optind], "trace") != 0) {
        bool is_file = access(argv[optind], F_OK) == 0;
        const char *file = is_file ? argv[optind] : "FILE";
        return cli_usage_error(
            "report: there is no report '%s'; say 'gantry report trace %s' of a recording, "
            "or 'gantry report heap %s'",
            argv[optind], file, file);
    }
    if (argc - optind != 2 && argc - optind != 3) {
        return cli_usage_error("report: say 'gantry report trace FILE' or 'gantry report heap FILE'");
    }
    if (argc - optind == 3 && arguments->format != FORMAT_HTML) {
        return cli_usage_error("report: unexpected argument '%s'; a second recording goes with --format "
                               "html, --diff compares two",
                               argv[optind + 2]);
    }
    if (arguments->format != FORMAT_TEXT &&
        (arguments->json || arguments->waterfall || arguments->other != NULL)) {
        return cli_usage_error("report: --format goes with neither --json nor --waterfall nor --diff");
    }
    if (arguments->waterfall && arguments->other != NULL) {
        return cli_usage_error("report: --waterfall and --diff do not go together");
    }
    arguments->file = argv[optind + 1];
    arguments->second = argc - optind == 3 ? argv[optind + 2] : NULL;
    return -1;
}

static bool is_same_file(const char *one, const char *other)
{
    struct stat a, b;
    return one != NULL && other != NULL && stat(one, &a) == 0 && stat(other, &b) == 0 && S_ISREG(a.st_mode) &&
           a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static int report_main(int argc, char **argv)
{
    struct arguments arguments = {.format = FORMAT_UNSET};
    int status = parse(argc, argv, &arguments);
    if (status >= 0) {
        return status;
    }
    if (is_same_file(arguments.output, arguments.file) || is_same_file(arguments.output, arguments.other) ||
        is_same_file(arguments.output, arguments.second)) {
        return cli_usage_error("report: --output %s is a recording to be read; it would be lost",
                               arguments.output);
    }
    cli_interrupts_end_us();
    cli_interrupts_say("what was printed of the report is not complete");
    if (arguments.output == NULL) {
        cli_interrupts_end_reading(arguments.format == FORMAT_TEXT);
        return report_on(&arguments);
    }
    if (!cli_output_begin(arguments.output)) {
        return 1;
    }
    status = report_on(&arguments);
    return cli_output_end(status == 0) ? status : 1;
}

const struct cli_command cli_report = {
    .name = "report",
    .arguments = "trace|heap FILE [SECOND] [--json] [--waterfall | --diff BEFORE] [--format text|json|html] "
                 "[-o OUTPUT]",
    .summary = "say what a recording or a heap shows, or convert it",
    .help =
        "Reads a .pftrace file that Gantry recorded and prints how busy the GPU was and what kept it idle, "
        "then the\n"
        "kernels that took longest, the partitions, streams and SMs, the idle gaps by cause, the CPU's part, "
        "what\n"
        "was lost, and how far the GPU's times may be off.\n"
        "  --json            the report as one JSON object; with --diff an object of two, before and after\n"
        "  --waterfall       when each stage (tasks of one label) ran, on the host and on each partition\n"
        "  --diff BEFORE     compare with another recording\n"
        "  --format json     write the recording in Chrome's JSON format\n"
        "  --format html     write it as a page that needs nothing but a browser; with SECOND both, side by "
        "side\n"
        "  -o, --output F    where to; standard output without it. Without --format the ending of F, .html "
        "or "
        ".json,\n"
        "                    says the format\n"
        "\n"
        "report heap reads what gantry_heap_write_json() wrote, or the library when memory ran out\n"
        "(GANTRY_HEAP_SNAPSHOT=FILE): sums, a line of letters per slab, and who asked for what; --format "
        "html "
        "draws it.\n",
    .main = report_main,
};
