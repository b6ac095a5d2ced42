/* The command `gantry`: finds the subcommand and sends the library's log to stderr.
 *
 * Exit status: 0 done, 1 what was asked for failed, 2 the call was wrong.  Results go to stdout, everything
 * else to stderr. */
#include "cli/command.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct cli_command *const commands[] = {&cli_info, &cli_run, &cli_report, &cli_bench};

static const char *const level_names[] = {"error", "warning", "info", "debug"};

gantry_log_level cli_log_level = GANTRY_LOG_INFO;

void cli_log_to_stderr(void *user, gantry_log_level level, const char *line)
{
    (void)user;
    fprintf(stderr, "gantry: %s: %s\n", level_names[level], line);
}

static const struct cli_command *find_command(const char *name)
{
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strcmp(commands[i]->name, name) == 0) {
            return commands[i];
        }
    }
    return NULL;
}

static void print_overview(FILE *file)
{
    fputs("usage: gantry [--log LEVEL] COMMAND [ARGUMENT...]\n"
          "       gantry --version\n\n"
          "Runs graphs of CPU and GPU tasks.  The commands are:\n",
          file);
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        fprintf(file, "  %-6s %s\n", commands[i]->name, commands[i]->summary);
    }
    fputs("  help   print this, or what a command does: gantry help COMMAND\n\n"
          "  --log LEVEL   error, warning, info (the default) or debug; log lines go to stderr\n",
          file);
}

static int print_help(const struct cli_command *command)
{
    printf("usage: gantry %s %s\n\n%s\n", command->name, command->arguments, command->help);
    return 0;
}

static int help_main(int argc, char **argv)
{
    if (argc < 2 || strcmp(argv[1], "help") == 0) {
        print_overview(stdout);
        return 0;
    }
    const struct cli_command *command = find_command(argv[1]);
    if (command == NULL) {
        return cli_usage_error("help: there is no command '%s'", argv[1]);
    }
    return print_help(command);
}

/* Behind a sample's name it is the sample that is asked. */
static bool asks_for_help(const struct cli_command *command, int argc, char *const *argv)
{
    for (int i = 1; i < argc && (command != &cli_run || i == 1); i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            return true;
        }
    }
    return false;
}

static int set_log(const char *name)
{
    for (size_t i = 0; i < sizeof(level_names) / sizeof(level_names[0]); i++) {
        if (strcmp(level_names[i], name) == 0) {
            cli_log_level = (gantry_log_level)i;
            gantry_set_log(cli_log_to_stderr, NULL, cli_log_level);
            return 0;
        }
    }
    return cli_usage_error("--log: there is no level '%s'", name);
}

static int run_command(int argc, char **argv)
{
    if (strcmp(argv[0], "help") == 0) {
        return help_main(argc, argv);
    }
    const struct cli_command *command = find_command(argv[0]);
    if (command == NULL) {
        return cli_usage_error("there is no command '%s'", argv[0]);
    }
    if (asks_for_help(command, argc, argv)) {
        return print_help(command);
    }
    optind = 0; /* GNU: start over, with the command's own options */
    return command->main(argc, argv);
}

static int run(int argc, char **argv)
{
    static const struct option options[] = {{"help", no_argument, NULL, 'h'},
                                            {"version", no_argument, NULL, 'V'},
                                            {"log", required_argument, NULL, 'L'},
                                            {NULL, 0, NULL, 0}};
    static char self[] = "gantry";
    argv[0] = self;
    gantry_set_log(cli_log_to_stderr, NULL, cli_log_level);
    opterr = 0;
    int result;
    while ((result = getopt_long(argc, argv, "+:hV", options, NULL)) != -1) {
        switch (result) {
        case 'h':
            print_overview(stdout);
            return 0;
        case 'V':
            printf("gantry %s\n", gantry_version());
            return 0;
        case 'L':
            if (set_log(optarg) != 0) {
                return CLI_USAGE;
            }
            break;
        default:
            return cli_option_error(result, argv);
        }
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
    errno = 0;
    bool is_written = fflush(stdout) == 0 && ferror(stdout) == 0;
    if (is_written || status != 0) {
        return status;
    }
    fprintf(stderr, "gantry: standard output: %s\n", errno != 0 ? strerror(errno) : "a write failed");
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
    return end(run(argc, argv));
}
