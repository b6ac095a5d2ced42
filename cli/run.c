/* SPDX-License-Identifier: MIT */
/* `gantry run`: runs one of the samples that the command was linked with. */
#include "cli/samples.h"

#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/suggest.h"
#include "cli/terminal.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#define X(name) extern const struct gantry_sample gantry_sample_##name;
#include "samples.inc"
#undef X

const struct gantry_sample *const cli_samples[] = {
#define X(name) &gantry_sample_##name,
#include "samples.inc"
#undef X
    NULL,
};

static void list_samples(FILE *file)
{
    for (size_t i = 0; cli_samples[i] != NULL; i++) {
        cli_print_entry(file, 20, cli_samples[i]->name, cli_samples[i]->summary);
    }
}

void cli_samples_each(void (*each)(void *user, const char *name), void *user)
{
    for (size_t i = 0; cli_samples[i] != NULL; i++) {
        each(user, cli_samples[i]->name);
    }
}

static const struct gantry_sample *find_sample(const char *name)
{
    for (size_t i = 0; cli_samples[i] != NULL; i++) {
        if (strcmp(cli_samples[i]->name, name) == 0) {
            return cli_samples[i];
        }
    }
    return NULL;
}

bool cli_sample_help(const char *name)
{
    static char word[32], help[] = "--help";
    const struct gantry_sample *sample = find_sample(name);
    if (sample == NULL) {
        return false;
    }
    snprintf(word, sizeof(word), "%s", name);
    char *argv[] = {word, help, NULL};
    return sample->main(2, argv) == 0;
}

static void suggest(void *suggestion, const char *name)
{
    cli_suggest(suggestion, name);
}

static void log_but_errors(void *user, gantry_log_level level, const char *line)
{
    if (level != GANTRY_LOG_ERROR) {
        cli_log_to_stderr(user, level, line);
    }
}

static int run_sample(const struct gantry_sample *sample, int argc, char **argv)
{
    cli_help_is("gantry run %s --help", sample->name);
    if (sample->tells_errors && cli_log_level < GANTRY_LOG_DEBUG) {
        gantry_set_log(log_but_errors, NULL, cli_log_level);
    }
    if (!sample->handles_interrupts) {
        cli_interrupts_end_us();
    }
    return sample->main(argc, argv);
}

static int run_main(int argc, char **argv)
{
    bool list = false;
    const struct cli_option table[] = {{.name = "list", .letter = 'l', .flag = &list}, {.name = NULL}};
    int status = cli_read_options(argc, argv, table, CLI_ANY_WORDS);
    if (status >= 0) {
        return status;
    }
    if (list && optind < argc) {
        return cli_surplus_error(argv, optind);
    }
    if (list) {
        list_samples(stdout);
        return 0;
    }
    if (optind == argc) {
        status = cli_usage_error("run: which sample?");
        list_samples(stderr);
        return status;
    }
    int first = optind;
    const struct gantry_sample *sample = find_sample(argv[first]);
    if (sample != NULL) {
        return run_sample(sample, argc - first, argv + first);
    }
    char meant[CLI_SUGGESTION_BYTES];
    struct cli_suggestion suggestion = {.word = argv[first]};
    cli_samples_each(suggest, &suggestion);
    status = cli_usage_error("run: there is no sample '%s'%s", argv[first],
                             cli_suggestion_text(&suggestion, "", meant));
    list_samples(stderr);
    return status;
}

const struct cli_command cli_run = {
    .name = "run",
    .arguments = "[--list] NAME [ARGUMENT...]",
    .summary = "run a sample",
    .help = "Arguments after NAME belong to the sample; each knows --help.\n"
            "  -l, --list   print the samples and what they do\n",
    .main = run_main,
};
