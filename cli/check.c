/* SPDX-License-Identifier: MIT */
/* `gantry check`: runs a program on the emulated driver with every check on, and says what the proof of its
 * edges has found.  The program's library writes that into a file, as lines of a key and a text
 * (proof/report.c). */
#include "cli/command.h"
#include "cli/options.h"

#include <errno.h>
#include <getopt.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

struct lines {
    char **list;
    size_t count;
};

/* What the summary says. */
struct proven {
    uint64_t parts, works; /* that the program had */
    uint64_t processes;    /* that had some */
    const char *lacks;     /* what there was no room for; NULL: there was */
    struct lines found, unseen, needless, unwritten, unread, undeclared;
    struct lines watched; /* kinds of memory that were looked at */
};

static void add(struct lines *lines, const char *text)
{
    char **larger = realloc(lines->list, (lines->count + 1) * sizeof(*larger));
    if (larger != NULL) {
        lines->list = larger;
        larger[lines->count] = strdup(text);
        lines->count += larger[lines->count] != NULL;
    }
}

/* The lines that come under a key; NULL: the key is another. */
static struct lines *lines_of(struct proven *proven, const char *key)
{
    return strcmp(key, "found") == 0        ? &proven->found
           : strcmp(key, "undeclared") == 0 ? &proven->undeclared
           : strcmp(key, "unseen") == 0     ? &proven->unseen
           : strcmp(key, "needless") == 0   ? &proven->needless
           : strcmp(key, "unwritten") == 0  ? &proven->unwritten
           : strcmp(key, "unread") == 0     ? &proven->unread
           : strcmp(key, "watched") == 0    ? &proven->watched
                                            : NULL;
}

static void read_line(struct proven *proven, char *line)
{
    char *text = strchr(line, '\t');
    if (text == NULL) {
        return;
    }
    *text++ = '\0';
    text[strcspn(text, "\n")] = '\0';
    if (strcmp(line, "parts") == 0) {
        proven->processes++;
        proven->parts += strtoull(text, NULL, 10);
    } else if (strcmp(line, "works") == 0) {
        proven->works += strtoull(text, NULL, 10);
    } else if (strcmp(line, "lacks") == 0) {
        proven->lacks = strdup(text);
    } else if (lines_of(proven, line) != NULL) {
        add(lines_of(proven, line), text);
    }
}

static void read_summary(struct proven *proven, FILE *file)
{
    char *line = NULL;
    size_t room = 0;
    rewind(file);
    while (getline(&line, &room, file) >= 0) {
        read_line(proven, line);
    }
    free(line);
}

/* ---- the result ------------------------------------------------------------------------------- */

static void print_list(const char *title, const struct lines *lines)
{
    for (size_t i = 0; i < lines->count; i++) {
        printf(i == 0 ? "%s\n  " : "  ", title);
        cli_print_text(stdout, lines->list[i], 0, CLI_ANY_LENGTH);
        putchar('\n');
    }
}

static void print_text(const struct proven *proven, int status)
{
    print_list("edges that are missing:", &proven->found);
    print_list("accesses that tasks have not declared, or of freed memory:", &proven->undeclared);
    print_list("memory that is read before anybody has written it:", &proven->unwritten);
    print_list("blocks that nobody reads:", &proven->unread);
    print_list("edges that no bytes need:", &proven->needless);
    print_list(
        "kernels that do not tell what they touch (gantry_add_kernels() with GANTRY_KERNEL_CHECKS=ON):",
        &proven->unseen);
    if (proven->processes != 0 && proven->watched.count == 0) {
        puts("no memory was looked at: the program has made no context; --malloc looks at that of malloc()");
    }
    if (proven->lacks != NULL) {
        printf("not everything was looked at: there was no room for more %s\n", proven->lacks);
    }
    if (status != 0 || proven->processes == 0) {
        printf("the program has ended with status %d\n", status);
    }
    if (proven->processes == 0) {
        printf("%zu edges missing until then\n", proven->found.count);
        return;
    }
    printf("%zu edges missing", proven->found.count);
    if (proven->undeclared.count != 0) {
        printf(", %zu accesses not declared or of freed memory", proven->undeclared.count);
    }
    printf("; %llu parts of tasks did %llu bodies, kernels, copies and fills\n",
           (unsigned long long)proven->parts, (unsigned long long)proven->works);
}

static void print_json_list(const char *name, const struct lines *lines)
{
    printf(", \"%s\": [", name);
    for (size_t i = 0; i < lines->count; i++) {
        fputs(i == 0 ? "" : ", ", stdout);
        cli_json_string(stdout, lines->list[i]);
    }
    putchar(']');
}

static void print_json(const struct proven *proven, int status)
{
    printf("{\"status\": %d, \"parts\": %llu, \"works\": %llu, \"lacks\": ", status,
           (unsigned long long)proven->parts, (unsigned long long)proven->works);
    cli_json_string(stdout, proven->lacks != NULL ? proven->lacks : "");
    print_json_list("missing", &proven->found);
    print_json_list("undeclared", &proven->undeclared);
    print_json_list("unseen", &proven->unseen);
    print_json_list("watched", &proven->watched);
    print_json_list("unwritten", &proven->unwritten);
    print_json_list("unread", &proven->unread);
    print_json_list("needless", &proven->needless);
    puts("}");
}

/* ---- the program ------------------------------------------------------------------------------- */

/* Runs it.  Returns its exit status, 128 and the number of a signal that has ended it, or -1 after a line on
 * stderr. */
static int run_program(char **argv)
{
    pid_t child;
    int status = 0;
    const int error = posix_spawnp(&child, argv[0], NULL, NULL, argv, environ);
    if (error != 0) {
        cli_error("check: %s: %s", argv[0], strerrordesc_np(error));
        return -1;
    }
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) {
            cli_error("check: waiting for %s: %s", argv[0], strerrordesc_np(errno));
            return -1;
        }
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Run the program, which writes the summary into `file`; `checks`: of $GANTRY_CHECK.  Returns the exit status
 * of the command. */
static int check(char **argv, FILE *file, const char *checks, bool json)
{
    struct proven proven = {0};
    char path[64];
    snprintf(path, sizeof(path), "/proc/%ld/fd/%d", (long)getpid(), fileno(file));
    if (setenv("GANTRY_DRIVER", "emulated", 1) != 0 || setenv("GANTRY_CHECK", checks, 1) != 0 ||
        setenv("GANTRY_CHECK_REPORT", path, 1) != 0) {
        cli_error("check: %s", strerrordesc_np(errno));
        return 1;
    }
    const int status = run_program(argv);
    if (status < 0) {
        return 1;
    }
    read_summary(&proven, file);
    if (proven.processes == 0 && proven.found.count == 0) {
        cli_error(
            "check: %s has ended with status %d and said nothing: it does not use Gantry, or has made no "
            "context and is not linked with gantry::checked, or a signal or _exit() has ended it",
            argv[0], status);
        return 1;
    }
    if (json) {
        print_json(&proven, status);
    } else {
        print_text(&proven, status);
    }
    const bool is_wrong = proven.found.count != 0 || proven.undeclared.count != 0 ||
                          proven.unwritten.count != 0 || proven.lacks != NULL;
    return status != 0 || is_wrong;
}

static int check_main(int argc, char **argv)
{
    bool json = false, memory = false, needless = false, unwritten = false, unread = false;
    const struct cli_option table[] = {
        {.name = "json", .flag = &json},         {.name = "malloc", .flag = &memory},
        {.name = "needless", .flag = &needless}, {.name = "unwritten", .flag = &unwritten},
        {.name = "unread", .flag = &unread},     {.name = NULL}};
    int status = cli_read_options(argc, argv, table, CLI_ANY_WORDS);
    if (status >= 0) {
        return status;
    }
    if (optind == argc) {
        return cli_usage_error("check: which program?");
    }
    const int fd = memfd_create("gantry-check", MFD_CLOEXEC); /* the program finds it in /proc */
    FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;
    if (file == NULL) {
        cli_error("check: memfd_create(): %s", strerrordesc_np(errno));
        return 1;
    }
    char checks[64];
    snprintf(checks, sizeof(checks), "1,edges%s%s%s%s", memory ? ",malloc" : "", needless ? ",needless" : "",
             unwritten ? ",unwritten" : "", unread ? ",unread" : "");
    status = check(argv + optind, file, checks, json);
    (void)fclose(file);
    return status;
}

const struct cli_command cli_check = {
    .name = "check",
    .arguments = "[--json] [--malloc] [--needless] [--unread] [--unwritten] [--] PROGRAM [ARGUMENT...]",
    .summary = "find edges that a program's graphs lack",
    .help =
        "Runs PROGRAM on the emulated driver with every check on.  Two tasks that touch the same bytes, one "
        "of\n"
        "them writing, need a path of edges between them: each pair of labels that has none is told, with "
        "the\n"
        "line to add.  What other checks find is on standard error.  The exit status is 0 when the program "
        "ends\n"
        "with 0, no edge is missing and all accesses of tasks that declare some are declared, else 1.  Only "
        "what\n"
        "the program does in this run is looked at.\n"
        "\n"
        "Copies and fills are always seen.  Kernels are seen where gantry_add_kernels() has built them with\n"
        "GANTRY_KERNEL_CHECKS=ON, and CPU bodies and host functions where they are linked with "
        "gantry::checked.\n"
        "\n"
        "  --json       one JSON object\n"
        "  --malloc     look at malloc(), new and global variables, too, where linked with gantry::checked\n"
        "  --needless   tell edges that no bytes need, and what they cost in overlap\n"
        "  --unread     tell blocks of the device that nobody reads\n"
        "  --unwritten  tell memory of the device that is read before anybody has written it; the exit "
        "status is\n"
        "               1 then\n",
    .main = check_main,
};
