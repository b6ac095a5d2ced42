/* SPDX-License-Identifier: MIT */
#include "cli/options.h"

#include "cli/command.h"
#include "cli/suggest.h"
#include "cli/terminal.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#define MOST_OPTIONS 32
#define FIRST_VALUE 256 /* getopt_long() returns these for long options; they are greater than any letter */

const char *const cli_driver_names[] = {[GANTRY_DRIVER_AUTO] = "auto",
                                        [GANTRY_DRIVER_CUDA] = "cuda",
                                        [GANTRY_DRIVER_EMULATED] = "emulated",
                                        NULL};
const char *const cli_switch_names[] = {"off", "on", NULL};

bool cli_parse_number(const char *text, uint32_t low, uint32_t high, uint32_t *out)
{
    if (text[0] < '0' || text[0] > '9') {
        return false;
    }
    char *end;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (errno != 0 || *end != '\0' || value < low || value > high) {
        return false;
    }
    *out = (uint32_t)value;
    return true;
}

static bool parse_choice(const char *text, const char *const *names, int *out)
{
    for (int i = 0; names[i] != NULL; i++) {
        if (strcmp(text, names[i]) == 0) {
            *out = i;
            return true;
        }
    }
    return false;
}

/* "info: ", and nothing for the command itself. */
static const char *prefix(char *const *argv, char *out, size_t room)
{
    out[0] = '\0';
    if (strcmp(argv[0], "gantry") != 0) {
        snprintf(out, room, "%s: ", argv[0]);
    }
    return out;
}

/* "--repeat, --reclaim": the options that begin with what was typed; their number. */
static int join_begun(const struct cli_option *table, const char *typed, size_t bytes, char *out, size_t room)
{
    int count = 0;
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; table[i].name != NULL; i++) {
        if (strncmp(table[i].name, typed, bytes) == 0 && used < room) {
            used +=
                (size_t)snprintf(out + used, room - used, "%s--%s", count > 0 ? " or " : "", table[i].name);
            count++;
        }
    }
    return count;
}

/* An option "--name" or "--name=value" that getopt_long() does not know, or knows several of. */
static int unknown_option(const struct cli_option *table, const char *where, const char *shown)
{
    char word[64], begun[256], meant[CLI_SUGGESTION_BYTES];
    snprintf(word, sizeof(word), "%.*s", (int)strcspn(shown + 2, "="), shown + 2);
    if (join_begun(table, word, strlen(word), begun, sizeof(begun)) > 1) {
        return cli_usage_error("%soption %s is short for more than one: %s", where, shown, begun);
    }
    struct cli_suggestion suggestion = {.word = word};
    for (int i = 0; table[i].name != NULL; i++) {
        cli_suggest(&suggestion, table[i].name);
    }
    return cli_usage_error("%sunknown option %s%s", where, shown,
                           cli_suggestion_text(&suggestion, "--", meant));
}

/* What getopt_long() returned was ':' or '?'. */
static int option_error(const struct cli_option *table, int result, char *const *argv)
{
    const char *shown = argv[optind - 1];
    char where[32];
    prefix(argv, where, sizeof(where));
    if (result == ':') {
        return cli_usage_error("%soption %s needs an argument", where, shown);
    }
    /* getopt_long() leaves optopt at 0 for an unknown long option, at the letter for an unknown short one,
     * and at the option's own value for an argument it does not take. */
    if (optopt == 0) {
        return unknown_option(table, where, shown);
    }
    if (shown[0] == '-' && shown[1] == '-') {
        return cli_usage_error("%soption %s takes no argument", where, shown);
    }
    return cli_usage_error("%sunknown option -%c", where, optopt);
}

/* "auto, cuda or emulated" */
static void join_names(const char *const *names, char *out, size_t room)
{
    size_t used = 0;
    for (int i = 0; names[i] != NULL && used < room; i++) {
        const char *before = i == 0 ? "" : names[i + 1] == NULL ? " or " : ", ";
        used += (size_t)snprintf(out + used, room - used, "%s%s", before, names[i]);
    }
}

static int value_error(char *const *argv, const struct cli_option *option)
{
    char where[32], takes[128], meant[CLI_SUGGESTION_BYTES] = "";
    if (option->number != NULL) {
        snprintf(takes, sizeof(takes), "a number from %u to %u", option->low, option->high);
    } else if (option->choice != NULL) {
        join_names(option->names, takes, sizeof(takes));
        struct cli_suggestion suggestion = {.word = optarg};
        for (int i = 0; option->names[i] != NULL; i++) {
            cli_suggest(&suggestion, option->names[i]);
        }
        cli_suggestion_text(&suggestion, "", meant);
    } else {
        snprintf(takes, sizeof(takes), "%s", option->takes);
    }
    return cli_usage_error("%s--%s takes %s, not '%s'%s", prefix(argv, where, sizeof(where)), option->name,
                           takes, optarg, meant);
}

static bool take(const struct cli_option *option)
{
    if (option->flag != NULL) {
        *option->flag = true;
        return true;
    }
    if (option->text != NULL) {
        *option->text = optarg;
        return true;
    }
    if (option->number != NULL) {
        return cli_parse_number(optarg, option->low, option->high, option->number);
    }
    if (option->choice != NULL) {
        return parse_choice(optarg, option->names, option->choice);
    }
    return option->read(optarg, option->into);
}

int cli_surplus_error(char *const *argv, int word)
{
    char where[32];
    return cli_usage_error("%sunexpected argument '%s'", prefix(argv, where, sizeof(where)), argv[word]);
}

/* The table as getopt_long() wants it.  An option's value is its place in the table. */
static void translate(const struct cli_option *table, int words, struct option *options, char *letters)
{
    if (words == CLI_ANY_WORDS) {
        *letters++ = '+';
    }
    *letters++ = ':';
    for (int i = 0; table[i].name != NULL; i++) {
        bool takes = table[i].help == NULL && table[i].flag == NULL;
        options[i] =
            (struct option){table[i].name, takes ? required_argument : no_argument, NULL, FIRST_VALUE + i};
        if (table[i].letter != 0) {
            *letters++ = table[i].letter;
            if (takes) {
                *letters++ = ':';
            }
        }
    }
}

/* NULL when the value is of no option of the table. */
static const struct cli_option *find(const struct cli_option *table, int result)
{
    for (int i = 0; table[i].name != NULL; i++) {
        if (result == FIRST_VALUE + i || (table[i].letter != 0 && result == table[i].letter)) {
            return &table[i];
        }
    }
    return NULL;
}

static void (*visitor)(void *user, const struct cli_option *option); /* NULL: options are read */
static void *visitor_user;

void cli_visit_options(int (*main)(int argc, char **argv), char *name,
                       void (*visit)(void *user, const struct cli_option *option), void *user)
{
    char *argv[] = {name, NULL};
    visitor = visit;
    visitor_user = user;
    (void)main(1, argv);
    visitor = NULL;
}

int cli_read_options(int argc, char **argv, const struct cli_option *table, int words)
{
    if (visitor != NULL) {
        for (int i = 0; table[i].name != NULL; i++) {
            visitor(visitor_user, &table[i]);
        }
        return 0;
    }
    struct option options[MOST_OPTIONS + 1] = {{NULL, 0, NULL, 0}};
    char letters[2 * MOST_OPTIONS + 3] = "";
    translate(table, words, options, letters);
    optind = 0; /* GNU: start over */
    opterr = 0;
    int result;
    while ((result = getopt_long(argc, argv, letters, options, NULL)) != -1) {
        const struct cli_option *option = find(table, result);
        if (option == NULL) {
            return option_error(table, result, argv);
        }
        if (option->help != NULL) {
            cli_print_help(stdout, option->help);
            return 0;
        }
        if (!take(option)) {
            return value_error(argv, option);
        }
    }
    if (words != CLI_ANY_WORDS && argc - optind > words) {
        return cli_surplus_error(argv, optind + words);
    }
    return -1;
}
