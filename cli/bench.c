/* SPDX-License-Identifier: MIT */
/* `gantry bench`: runs the benches that the command was linked with, and prints what they measure. */
#include "bench/harness.h"

#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/links.h"
#include "cli/options.h"
#include "cli/suggest.h"
#include "cli/terminal.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#define X(name) extern const struct gantry_bench gantry_bench_##name;
#include "benches.inc"
#undef X

static const struct gantry_bench *const benches[] = {
#define X(name) &gantry_bench_##name,
#include "benches.inc"
#undef X
    NULL,
};

static void list_benches(FILE *file)
{
    for (size_t i = 0; benches[i] != NULL; i++) {
        cli_print_entry(file, 20, benches[i]->name, benches[i]->summary);
    }
}

static const struct gantry_bench *find_bench(const char *name)
{
    for (size_t i = 0; benches[i] != NULL; i++) {
        if (strcmp(benches[i]->name, name) == 0) {
            return benches[i];
        }
    }
    return NULL;
}

void cli_benches_each(void (*each)(void *user, const char *name), void *user)
{
    for (size_t i = 0; benches[i] != NULL; i++) {
        each(user, benches[i]->name);
    }
}

bool cli_bench_help(const char *name)
{
    const struct gantry_bench *bench = find_bench(name);
    if (bench != NULL) {
        printf("usage: gantry bench [OPTION...] %s\n\n", bench->name);
        cli_print_help(stdout, bench->help);
        printf("\nThe options are in 'gantry help bench'.\n");
    }
    return bench != NULL;
}

static void suggest(void *suggestion, const char *name)
{
    cli_suggest(suggestion, name);
}

static int unknown_bench(const char *name)
{
    char meant[CLI_SUGGESTION_BYTES];
    struct cli_suggestion suggestion = {.word = name};
    cli_benches_each(suggest, &suggestion);
    cli_suggest(&suggestion, "all");
    int status =
        cli_usage_error("bench: there is no bench '%s'%s", name, cli_suggestion_text(&suggestion, "", meant));
    list_benches(stderr);
    return status;
}

/* Is the device that benches are going to open an emulated one?  False when there is none, too: they say why.
 */
static bool is_emulated(gantry_driver_choice driver)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_context *context = NULL;
    gantry_device_info device = {.struct_size = sizeof(device)};
    options.driver = driver;
    const char *recording =
        secure_getenv("GANTRY_PROFILE"); /* what is recorded begins with the bench's context */
    char *kept = recording != NULL ? strdup(recording) : NULL;
    (void)unsetenv("GANTRY_PROFILE");
    bool is_open = gantry_context_create(&options, &context) == GANTRY_OK &&
                   gantry_context_device_info(context, &device) == GANTRY_OK;
    gantry_context_destroy(context);
    if (kept != NULL) {
        (void)setenv("GANTRY_PROFILE", kept, 1);
        free(kept);
    }
    return is_open && device.emulated;
}

static bool run_bench(const struct gantry_bench *bench, const struct bench_options *options, bool emulated)
{
    struct bench_options its = *options;
    its.emulated = emulated && !bench->needs_no_device;
    return bench->main(&its);
}

/* Before the emulated driver is loaded, which reads it once. */
static void want_devices(const struct gantry_bench *one)
{
    uint32_t most = 1;
    for (size_t i = 0; benches[i] != NULL; i++) {
        if ((one == NULL || benches[i] == one) && benches[i]->least_devices > most) {
            most = benches[i]->least_devices;
        }
    }
    if (most > 1) {
        char number[16];
        snprintf(number, sizeof(number), "%u", most);
        (void)setenv("GANTRY_EMU_DEVICES", number, 0);
    }
}

/* Are there as many devices as the bench needs?  When not, that is told: beside others it is left out. */
static bool has_devices(const struct gantry_bench *bench, gantry_driver_choice driver, bool beside_others)
{
    int count = bench->least_devices > 1 ? cli_count_devices(driver) : 1;
    if (bench->least_devices <= (uint32_t)count) {
        return true;
    }
    cli_message(beside_others ? CLI_NOTE : CLI_ERROR, "bench %s: %s: it needs %u devices, and there %s %d",
                bench->name, beside_others ? "left out" : "cannot run", bench->least_devices,
                count == 1 ? "is" : "are", count);
    return false;
}

/* One or, for "all", every bench; false when any result was not verified. */
static bool run_benches(const struct gantry_bench *one, const struct bench_options *options)
{
    want_devices(one);
    bool emulated = (one == NULL || !one->needs_no_device) && is_emulated(options->driver), verified = true;
    if (emulated && !options->json) {
        cli_note(
            "the device is emulated: results are checked, and no times printed (--json has them, marked)");
    }
    for (size_t i = 0; benches[i] != NULL; i++) {
        if (one != NULL && benches[i] != one) {
            continue;
        }
        if (has_devices(benches[i], options->driver, one == NULL)) {
            verified = run_bench(benches[i], options, emulated) && verified;
        } else {
            verified = one == NULL && verified;
        }
    }
    return verified;
}

/* -1 when the options are in order, else the exit status. */
static int read_options(int argc, char **argv, struct bench_options *bench, bool *list)
{
    int driver = (int)bench->driver;
    const struct cli_option table[] = {{.name = "json", .flag = &bench->json},
                                       {.name = "runs", .number = &bench->runs, .low = 1, .high = 100000},
                                       {.name = "seconds", .number = &bench->seconds, .low = 1, .high = 3600},
                                       {.name = "driver", .choice = &driver, .names = cli_driver_names},
                                       {.name = "list", .letter = 'l', .flag = list},
                                       {.name = NULL}};
    int status = cli_read_options(argc, argv, table, 1);
    bench->driver = (gantry_driver_choice)driver;
    if (status < 0 && *list && optind < argc) {
        return cli_surplus_error(argv, optind);
    }
    return status;
}

static int bench_main(int argc, char **argv)
{
    struct bench_options options = {.out = stdout, .runs = 15};
    bool list = false;
    int status = read_options(argc, argv, &options, &list);
    if (status >= 0) {
        return status;
    }
    if (list) {
        list_benches(stdout);
        return 0;
    }
    const char *name = optind < argc ? argv[optind] : NULL;
    const struct gantry_bench *bench = name != NULL ? find_bench(name) : NULL;
    if (bench == NULL && (name == NULL || strcmp(name, "all") != 0)) {
        if (name != NULL) {
            return unknown_bench(name);
        }
        status = cli_usage_error("bench: which bench?");
        list_benches(stderr);
        return status;
    }
    cli_interrupts_end_us();
    return run_benches(bench, &options) ? 0 : 1;
}

const struct cli_command cli_bench = {
    .name = "bench",
    .arguments = "[--json] [--runs N] [--seconds S] [--driver DRIVER] NAME | all | --list",
    .summary = "measure against yardsticks",
    .help = "Runs Gantry and a yardstick in turn, checks every result and prints the fastest and the median\n"
            "run.  ratio is ours divided by the yardstick's: below 1 is better.\n"
            "  --json            one JSON object per line, with \"emulated\": true where times say nothing "
            "about a GPU\n"
            "  --runs N          timed runs of each side (15)\n"
            "  --seconds S       length of a row of benches that measure for a time (quota: 5, submit: 8)\n"
            "  --driver DRIVER   auto (the default), cuda or emulated\n"
            "  -l, --list        print the benches and what they measure\n",
    .main = bench_main,
};
