/* SPDX-License-Identifier: MIT */
/* The options of the command, its subcommands and the samples, as tables. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

/* One option; a table ends with one that has no name.  One of the pointers says what the option takes, and is
 * where that goes. */
struct cli_option {
    const char *name; /* without the dashes */
    char letter;      /* its short form; 0: none */
    const char *help; /* takes nothing; this is printed, and nothing else happens */
    bool *flag;       /* takes nothing */
    const char **text;
    uint32_t *number; /* whole, from `low` to `high` */
    uint32_t low, high;
    int *choice; /* the number of one of `names`, which end with NULL */
    const char *const *names;
    bool (*read)(const char *text, void *into); /* anything else; false: that is not what it `takes` */
    void *into;
    const char *takes;
};

/* Names of a gantry_driver_choice, and of false and true. */
extern const char *const cli_driver_names[];
extern const char *const cli_switch_names[];

#define CLI_ANY_WORDS (-1)

/* Read the options of argv[0]; at most `words` words that are none may be there, and are at argv[optind]
 * then. CLI_ANY_WORDS: the first of them ends the options.  -1, or the exit status when nothing is left to
 * do: help was asked for and printed, or what is wrong was told on stderr. */
int cli_read_options(int argc, char **argv, const struct cli_option *table, int words);

/* Show the table of options of a command or a sample to `visit`, one by one: `main` is called with its name
 * alone, and the first cli_read_options() in it hands the table over instead of reading options, and returns
 * 0. So nothing is done that stands behind it. */
void cli_visit_options(int (*main)(int argc, char **argv), char *name,
                       void (*visit)(void *user, const struct cli_option *option), void *user);

/* Name the word that nothing takes, on stderr; returns the exit status. */
int cli_surplus_error(char *const *argv, int word);

/* A whole unsigned decimal number in [low, high]; false otherwise. */
bool cli_parse_number(const char *text, uint32_t low, uint32_t high, uint32_t *out);

#endif
