/* `gantry report trace`: what a recording says about a run, as text, as JSON, as the difference of two runs;
 * and the recording itself in other formats. */
#include "cli/report_export.h"
#include "cli/report_stats.h"

#include "cli/command.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const cause_names[REPORT_CAUSES] = {
    [REPORT_HOST_TASK] = "waiting for a host task",
    [REPORT_DISPATCHER] = "dispatcher busy",
    [REPORT_NOTHING] = "nothing ready",
};
static const char *const cause_keys[REPORT_CAUSES] = {
    [REPORT_HOST_TASK] = "host_task", [REPORT_DISPATCHER] = "dispatcher", [REPORT_NOTHING] = "nothing_ready"};
static const char *const phase_names[3] = {"HtoD", "Kernel", "DtoH"};

static double ms(uint64_t ns)
{
    return (double)ns / 1e6;
}

static double share(uint64_t part, uint64_t whole)
{
    return whole != 0 ? 100.0 * (double)part / (double)whole : 0;
}

/* ---- text -------------------------------------------------------------------------------------- */

static void print_gpu(const struct report *r)
{
    uint64_t gpu_ns = r->gpu_end_ns - r->gpu_begin_ns;
    printf("GPU busy       %10.3f ms of %.3f ms between its first and last task (%.1f %%), %" PRIu64
           " tasks\n",
           ms(r->gpu_busy_ns), ms(gpu_ns), share(r->gpu_busy_ns, gpu_ns), r->gpu_tasks);
    for (size_t i = 0; i < r->stream_count; i++) {
        printf("  %-12s %10.3f ms (%5.1f %%), %" PRIu64 " tasks\n", r->streams[i].name, ms(r->streams[i].ns),
               share(r->streams[i].ns, gpu_ns), r->streams[i].slices);
    }
    if (r->sm_count > 0) {
        uint64_t mean = r->sm_sum_ns / r->sm_count;
        printf("SMs            %zu seen; busy %.1f %% on average, %.1f %% least, %.1f %% most\n", r->sm_count,
               share(mean, gpu_ns), share(r->sm_least_ns, gpu_ns), share(r->sm_most_ns, gpu_ns));
    }
    printf("idle gaps      %" PRIu64 ", %.3f ms together, the largest %.3f ms\n", r->gaps, ms(r->gap_ns),
           ms(r->largest_gap_ns));
}

static void print_causes(const struct trace *trace, const struct report *r)
{
    for (int c = 0; c < REPORT_CAUSES; c++) {
        if (r->cause_count[c] != 0) {
            printf("  %-24s %6" PRIu64 ", %.3f ms", cause_names[c], r->cause_count[c], ms(r->cause_ns[c]));
            if (c == REPORT_HOST_TASK) {
                printf("; the longest for '%s'", trace->names[r->worst_task]);
            }
            printf("\n");
        }
    }
}

static void print_text(const char *path, const struct trace *trace, const struct report *r)
{
    printf("%s: %.3f ms\n\n", path, ms(r->end_ns - r->begin_ns));
    printf("CPU tasks      %10.3f ms in %" PRIu64 "\n", ms(r->task_ns), r->tasks);
    printf("dispatcher     %10.3f ms in %" PRIu64 " batches:",
           ms(r->phase_ns[0] + r->phase_ns[1] + r->phase_ns[2]), r->batches);
    for (int p = 0; p < 3; p++) {
        printf(" %s %.3f ms%s", phase_names[p], ms(r->phase_ns[p]), p < 2 ? "," : "\n");
    }
    printf("launches       %10.3f ms in %" PRIu64 " calls\n", ms(r->launch_ns), r->launches);
    print_gpu(r);
    print_causes(trace, r);
    if (r->ctas != 0 || r->ctas_lost != 0) {
        printf("blocks         %" PRIu64 " recorded, %" PRIu64
               " lost after their launch; times within %" PRIu64 " ns of the host's, clock step %" PRIu64
               " ns\n",
               r->ctas, r->ctas_lost, r->cta_alignment_ns, r->tick_ns);
    }
    printf("\n%-28s %8s %12s %12s %12s %12s %8s\n", r->kernels_are_tasks ? "GPU task" : "kernel", "count",
           "total ms", "mean us", "least us", "most us", "blocks");
    for (size_t i = 0; i < r->kernel_count; i++) {
        const struct report_kernel *k = &r->kernels[i];
        printf("%-28.28s %8" PRIu64 " %12.3f %12.3f %12.3f %12.3f %8" PRIu64 "\n", trace->names[k->name],
               k->count, ms(k->total_ns), (double)k->total_ns / 1e3 / (double)k->count,
               (double)k->least_ns / 1e3, (double)k->most_ns / 1e3, k->ctas);
    }
}

/* ---- JSON -------------------------------------------------------------------------------------- */

static void print_kernels_json(const struct trace *trace, const struct report *r)
{
    printf("\"kernels_are_tasks\":%s,\"kernels\":[", r->kernels_are_tasks ? "true" : "false");
    for (size_t i = 0; i < r->kernel_count; i++) {
        const struct report_kernel *k = &r->kernels[i];
        printf("%s{\"name\":", i == 0 ? "" : ",");
        cli_json_string(stdout, trace->names[k->name]);
        printf(",\"count\":%" PRIu64 ",\"total_ns\":%" PRIu64 ",\"least_ns\":%" PRIu64 ",\"most_ns\":%" PRIu64
               ",\"ctas\":%" PRIu64 "}",
               k->count, k->total_ns, k->least_ns, k->most_ns, k->ctas);
    }
    printf("]");
}

static void print_json(const char *path, const struct trace *trace, const struct report *r)
{
    printf("{\"file\":");
    cli_json_string(stdout, path);
    printf(",\"span_ns\":%" PRIu64 ",\"cpu_tasks\":%" PRIu64 ",\"cpu_task_ns\":%" PRIu64
           ",\"batches\":%" PRIu64 ",\"launches\":%" PRIu64 ",\"launch_ns\":%" PRIu64 ",",
           r->end_ns - r->begin_ns, r->tasks, r->task_ns, r->batches, r->launches, r->launch_ns);
    printf("\"phase_ns\":{\"htod\":%" PRIu64 ",\"kernel\":%" PRIu64 ",\"dtoh\":%" PRIu64 "},", r->phase_ns[0],
           r->phase_ns[1], r->phase_ns[2]);
    printf("\"gpu\":{\"tasks\":%" PRIu64 ",\"span_ns\":%" PRIu64 ",\"busy_ns\":%" PRIu64 "},\"streams\":[",
           r->gpu_tasks, r->gpu_end_ns - r->gpu_begin_ns, r->gpu_busy_ns);
    for (size_t i = 0; i < r->stream_count; i++) {
        printf("%s{\"name\":", i == 0 ? "" : ",");
        cli_json_string(stdout, r->streams[i].name);
        printf(",\"busy_ns\":%" PRIu64 ",\"tasks\":%" PRIu64 "}", r->streams[i].ns, r->streams[i].slices);
    }
    printf("],\"sms\":{\"count\":%zu,\"busy_sum_ns\":%" PRIu64 ",\"least_ns\":%" PRIu64
           ",\"most_ns\":%" PRIu64 "},",
           r->sm_count, r->sm_sum_ns, r->sm_least_ns, r->sm_most_ns);
    printf("\"gaps\":{\"count\":%" PRIu64 ",\"total_ns\":%" PRIu64 ",\"largest_ns\":%" PRIu64, r->gaps,
           r->gap_ns, r->largest_gap_ns);
    for (int c = 0; c < REPORT_CAUSES; c++) {
        printf(",\"%s\":{\"count\":%" PRIu64 ",\"ns\":%" PRIu64 "}", cause_keys[c], r->cause_count[c],
               r->cause_ns[c]);
    }
    printf("},\"ctas\":{\"recorded\":%" PRIu64 ",\"lost\":%" PRIu64 ",\"alignment_ns\":%" PRIu64
           ",\"tick_ns\":%" PRIu64 ",\"largest_shift_ns\":%" PRIu64 "},",
           r->ctas, r->ctas_lost, r->cta_alignment_ns, r->tick_ns, r->shift_ns);
    print_kernels_json(trace, r);
    printf("}\n");
}

/* ---- the difference of two runs ---------------------------------------------------------------- */

static void print_change(const char *what, uint64_t before_ns, uint64_t after_ns)
{
    printf("%-28.28s %12.3f %12.3f %+11.1f %%\n", what, ms(before_ns), ms(after_ns),
           before_ns != 0 ? 100.0 * ((double)after_ns - (double)before_ns) / (double)before_ns : 0);
}

static const struct report_kernel *kernel_called(const struct trace *trace, const struct report *r,
                                                 const char *name)
{
    for (size_t i = 0; i < r->kernel_count; i++) {
        if (strcmp(trace->names[r->kernels[i].name], name) == 0) {
            return &r->kernels[i];
        }
    }
    return NULL;
}

static void print_diff(const struct trace *before, const struct report *b, const struct trace *after,
                       const struct report *a)
{
    printf("%-28s %12s %12s %13s\n", "", "before ms", "after ms", "change");
    print_change("whole recording", b->end_ns - b->begin_ns, a->end_ns - a->begin_ns);
    print_change("CPU tasks", b->task_ns, a->task_ns);
    print_change("launches", b->launch_ns, a->launch_ns);
    for (int p = 0; p < 3; p++) {
        char name[32];
        snprintf(name, sizeof(name), "dispatcher, %s", phase_names[p]);
        print_change(name, b->phase_ns[p], a->phase_ns[p]);
    }
    print_change("GPU busy", b->gpu_busy_ns, a->gpu_busy_ns);
    print_change("GPU idle", b->gap_ns, a->gap_ns);
    for (int c = 0; c < REPORT_CAUSES; c++) {
        char name[40];
        snprintf(name, sizeof(name), "  %s", cause_names[c]);
        print_change(name, b->cause_ns[c], a->cause_ns[c]);
    }
    for (size_t i = 0; i < b->kernel_count; i++) {
        const char *name = before->names[b->kernels[i].name];
        const struct report_kernel *same = kernel_called(after, a, name);
        print_change(name, b->kernels[i].total_ns, same != NULL ? same->total_ns : 0);
    }
    for (size_t i = 0; i < a->kernel_count; i++) {
        const char *name = after->names[a->kernels[i].name];
        if (kernel_called(before, b, name) == NULL) {
            print_change(name, 0, a->kernels[i].total_ns);
        }
    }
}

/* ---- the command ------------------------------------------------------------------------------- */

enum format { FORMAT_TEXT, FORMAT_CHROME, FORMAT_HTML };

struct arguments {
    bool json;
    enum format format;
    const char *file, *other, *output;
};

static int diff(const struct arguments *arguments, const struct trace *trace, const struct report *report)
{
    struct trace other;
    if (!cli_trace_load(arguments->other, &other)) {
        return 1;
    }
    static struct report before; /* large */
    bool good = cli_report_compute(&other, &before);
    if (good && arguments->json) {
        print_json(arguments->other, &other, &before);
        print_json(arguments->file, trace, report);
    } else if (good) {
        print_diff(&other, &before, trace, report);
    }
    cli_trace_free(&other);
    return good ? 0 : 1;
}

static int export(const struct arguments *arguments, const struct trace *trace)
{
    FILE *file = arguments->output != NULL ? fopen(arguments->output, "w") : stdout;
    if (file == NULL) {
        fprintf(stderr, "gantry: %s: cannot be created\n", arguments->output);
        return 1;
    }
    if (arguments->format == FORMAT_CHROME) {
        cli_export_chrome(trace, file);
    } else {
        cli_export_html(trace, file);
    }
    bool good = fflush(file) == 0 && ferror(file) == 0;
    if (file != stdout) {
        good = fclose(file) == 0 && good;
    }
    if (!good) {
        fprintf(stderr, "gantry: %s: cannot be written\n",
                arguments->output != NULL ? arguments->output : "standard output");
    }
    return good ? 0 : 1;
}

static int report_on(const struct arguments *arguments)
{
    struct trace trace;
    static struct report report; /* large */
    if (!cli_trace_load(arguments->file, &trace)) {
        return 1;
    }
    int status = 0;
    if (arguments->format != FORMAT_TEXT) {
        status = export(arguments, &trace);
    } else if (!cli_report_compute(&trace, &report)) {
        status = 1;
    } else if (arguments->other != NULL) {
        status = diff(arguments, &trace, &report);
    } else if (arguments->json) {
        print_json(arguments->file, &trace, &report);
    } else {
        print_text(arguments->file, &trace, &report);
    }
    cli_trace_free(&trace);
    return status;
}

static int parse(int argc, char **argv, struct arguments *arguments)
{
    static const struct option options[] = {{"json", no_argument, NULL, 'j'},
                                            {"diff", required_argument, NULL, 'd'},
                                            {"format", required_argument, NULL, 'f'},
                                            {"output", required_argument, NULL, 'o'},
                                            {NULL, 0, NULL, 0}};
    int result;
    while ((result = getopt_long(argc, argv, ":o:", options, NULL)) != -1) {
        if (result == 'j') {
            arguments->json = true;
        } else if (result == 'd') {
            arguments->other = optarg;
        } else if (result == 'o') {
            arguments->output = optarg;
        } else if (result == 'f' && strcmp(optarg, "json") == 0) {
            arguments->format = FORMAT_CHROME;
        } else if (result == 'f' && strcmp(optarg, "html") == 0) {
            arguments->format = FORMAT_HTML;
        } else if (result == 'f' && strcmp(optarg, "text") != 0) {
            return cli_usage_error("report: there is no format '%s'", optarg);
        } else if (result != 'f') {
            return cli_option_error(result, argv);
        }
    }
    if (argc - optind != 2 || strcmp(argv[optind], "trace") != 0) {
        return cli_usage_error("report: say `report trace FILE`");
    }
    arguments->file = argv[optind + 1];
    return 0;
}

static int report_main(int argc, char **argv)
{
    struct arguments arguments = {.format = FORMAT_TEXT};
    int status = parse(argc, argv, &arguments);
    return status != 0 ? status : report_on(&arguments);
}

const struct cli_command cli_report = {
    .name = "report",
    .arguments = "trace FILE [--json] [--diff BEFORE] [--format text|json|html] [-o OUTPUT]",
    .summary = "say what a recording shows, or convert it",
    .help =
        "Reads a .pftrace file that Gantry recorded and prints how busy the dispatcher, the streams and the\n"
        "SMs were, where the GPU was idle and why, the kernels that took longest, what was lost, and how "
        "far\n"
        "the GPU's times may be off.\n"
        "  --json            the report as one JSON object\n"
        "  --diff BEFORE     compare with another recording\n"
        "  --format json     write the recording in Chrome's JSON format\n"
        "  --format html     write it as a page that needs nothing but a browser\n"
        "  -o, --output F    where to; standard output without it\n",
    .main = report_main,
};
