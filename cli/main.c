/* SPDX-License-Identifier: MIT */
/* The command `gantry`: finds the subcommand and sends the library's log to stderr.
 *
 * Exit status: 0 done, 1 what was asked for failed, 2 the call was wrong.  Results go to stdout, everything
 * else to stderr. */
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/output_file.h"
#include "cli/samples.h"
#include "cli/suggest.h"
#include "cli/terminal.h"
#include "cli/topics.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct cli_command *const commands[] = {
    &cli_doctor, &cli_info, &cli_run, &cli_check, &cli_report, &cli_bench, &cli_limit, &cli_completion, NULL};

static const char *const level_names[] = {"error", "warning", "info", "debug", NULL};

static const struct cli_command *find_command(const char *name)
{
    for (size_t i = 0; commands[i] != NULL; i++) {
        if (strcmp(commands[i]->name, name) == 0) {
            return commands[i];
        }
    }
    return NULL;
}

static const char overview[] =
    "  help          print this, or about a command, sample, bench or topic: gantry help WHAT\n"
    "\n"
    "  --log LEVEL     error, warning, info (the default) or debug; log lines go to stderr\n"
    "  -v, --verbose   the same as --log debug: also what the library does, and places in its source\n";

static void print_overview(FILE *file)
{
    cli_print_help(file, "usage: gantry [--log LEVEL | --verbose] COMMAND [ARGUMENT...]\n"
                         "       gantry --version\n\n"
                         "Runs graphs of CPU and GPU tasks.  The commands are:\n");
    for (size_t i = 0; commands[i] != NULL; i++) {
        cli_print_entry(file, 12, commands[i]->name, commands[i]->summary);
    }
    cli_print_help(file, overview);
    cli_print_help(file, "\nTopics of 'gantry help':\n");
    cli_topics_list(file);
}

static int print_help(const struct cli_command *command)
{
    char usage[512];
    snprintf(usage, sizeof(usage), "usage: gantry %s %s\n", command->name, command->arguments);
    cli_print_help(stdout, usage);
    fputc('\n', stdout);
    cli_print_help(stdout, command->help);
    return 0;
}

static void suggest(void *suggestion, const char *name)
{
    cli_suggest(suggestion, name);
}

static void suggest_commands(struct cli_suggestion *suggestion)
{
    for (size_t i = 0; commands[i] != NULL; i++) {
        cli_suggest(suggestion, commands[i]->name);
    }
    cli_suggest(suggestion, "help");
}

static int unknown_topic(const char *name)
{
    char meant[CLI_SUGGESTION_BYTES];
    struct cli_suggestion suggestion = {.word = name};
    suggest_commands(&suggestion);
    cli_topics_each(suggest, &suggestion);
    cli_samples_each(suggest, &suggestion);
    cli_benches_each(suggest, &suggestion);
    return cli_usage_error("help: there is no command, sample, bench or topic '%s'%s", name,
                           cli_suggestion_text(&suggestion, "", meant));
}

static int help_main(int argc, char **argv)
{
    if (argc > 2) {
        return cli_surplus_error(argv, 2);
    }
    if (argc < 2 || strcmp(argv[1], "help") == 0) {
        print_overview(stdout);
        return 0;
    }
    const struct cli_command *command = find_command(argv[1]);
    if (command != NULL) {
        return print_help(command);
    }
    if (cli_topic_help(argv[1]) || cli_sample_help(argv[1]) || cli_bench_help(argv[1])) {
        return 0;
    }
    return unknown_topic(argv[1]);
}

/* An option behind a sample's name belongs to the sample, and one behind a program's to the program. */
static bool asks_for_help(const struct cli_command *command, int argc, char *const *argv)
{
    const bool is_of_another = command == &cli_run || command == &cli_check || command == &cli_limit;
    for (int i = 1; i < argc && (!is_of_another || i == 1); i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            return true;
        }
    }
    return false;
}

static int run_command(int argc, char **argv)
{
    if (strcmp(argv[0], "help") == 0) {
        return help_main(argc, argv);
    }
    const struct cli_command *command = find_command(argv[0]);
    if (command == NULL && strcmp(argv[0], "version") == 0) {
        cli_help_is("gantry --version");
    }
    if (command == NULL) {
        char meant[CLI_SUGGESTION_BYTES];
        struct cli_suggestion suggestion = {.word = argv[0]};
        suggest_commands(&suggestion);
        return cli_usage_error("there is no command '%s'%s", argv[0],
                               cli_suggestion_text(&suggestion, "", meant));
    }
    cli_help_is("gantry help %s", command->name);
    if (asks_for_help(command, argc, argv)) {
        return print_help(command);
    }
    return command->main(argc, argv);
}

static int print_version(void)
{
    printf("gantry %s\n", gantry_version());
    return 0;
}

/* The command as a whole: its options, and the subcommand behind them. */
static int run_whole(int argc, char **argv)
{
    static char self[] = "gantry", help[] = "help";
    bool wants_help = false, wants_version = false, is_verbose = false;
    int level = (int)cli_log_level;
    const struct cli_option table[] = {{.name = "help", .letter = 'h', .flag = &wants_help},
                                       {.name = "version", .letter = 'V', .flag = &wants_version},
                                       {.name = "log", .choice = &level, .names = level_names},
                                       {.name = "verbose", .letter = 'v', .flag = &is_verbose},
                                       {.name = NULL}};
    argv[0] = self;
    int status = cli_read_options(argc, argv, table, CLI_ANY_WORDS);
    if (status >= 0) {
        return status;
    }
    cli_log_level = is_verbose ? GANTRY_LOG_DEBUG : (gantry_log_level)level;
    gantry_set_log(cli_log_to_stderr, NULL, cli_log_level);
    cli_log_shows_errors = true;
    if (wants_help) { /* --help NAME is help NAME */
        argv[optind - 1] = help;
        return help_main(argc - optind + 1, argv + optind - 1);
    }
    if (wants_version) {
        return optind == argc ? print_version() : cli_surplus_error(argv, optind);
    }
    if (optind == argc) {
        print_overview(stderr);
        return CLI_USAGE;
    }
    return run_command(argc - optind, argv + optind);
}

/* What was printed may not have been written yet: to a full disk, or into a closed descriptor. */
static int end(int status)
{
    const char *why = cli_output_flush();
    cli_interrupts_are_over();
    if (why == NULL || status != 0) {
        return status;
    }
    cli_error("standard output: %s", why);
    return 1;
}

/* Who is started without standard files must not open others in their place and print into them.  What takes
 * their place here cannot be read, or written, either. */
static void keep_standard_files(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) == -1 && errno == EBADF) {
            (void)open("/dev/null",
                       fd == STDIN_FILENO ? O_WRONLY : O_RDONLY); /* the lowest that is free: fd */
        }
    }
}

int main(int argc, char **argv)
{
    keep_standard_files();
    cli_completion_of(run_whole, commands);
    return end(run_whole(argc, argv));
}
