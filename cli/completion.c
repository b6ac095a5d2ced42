/* SPDX-License-Identifier: MIT */
/* `gantry completion`: what bash, zsh and fish complete behind `gantry`, made from the tables of options. */
#include "cli/command.h"
#include "cli/options.h"
#include "cli/samples.h"
#include "cli/topics.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

enum shell { SHELL_BASH, SHELL_ZSH, SHELL_FISH };
static const char *const shell_names[] = {"bash", "zsh", "fish"};

/* A table of options, and the words behind which it is valid. */
struct place {
    enum shell shell;
    const char *key; /* "", "bench", "run hello_graph": the words before that are no options */
};

typedef int (*main_fn)(int argc, char **argv);
typedef void (*visit_fn)(void *user, const struct cli_option *option);

static bool takes_value(const struct cli_option *option)
{
    return option->help == NULL && option->flag == NULL;
}

/* ---- places ------------------------------------------------------------------------------------- */

/* They are in main.c, which has this subcommand among them. */
static main_fn whole_command;
static const struct cli_command *const *subcommands;

void cli_completion_of(main_fn whole, const struct cli_command *const *commands)
{
    whole_command = whole;
    subcommands = commands;
}

/* Call `each` for every place with a table: the command itself, its subcommands and the samples. */
static void each_place(enum shell shell, void (*each)(const struct place *place, main_fn main))
{
    char key[64];
    struct place place = {.shell = shell, .key = ""};
    each(&place, whole_command);
    for (size_t i = 0; subcommands[i] != NULL; i++) {
        place.key = subcommands[i]->name;
        each(&place, subcommands[i]->main);
    }
    for (size_t i = 0; cli_samples[i] != NULL; i++) {
        snprintf(key, sizeof(key), "run %s", cli_samples[i]->name);
        place.key = key;
        each(&place, cli_samples[i]->main);
    }
}

static void visit(const struct place *place, main_fn main, visit_fn each)
{
    char name[] = "gantry";
    cli_visit_options(main, name, each, (void *)place);
}

/* ---- bash and zsh: the same case statements ------------------------------------------------------ */

static void print_name(void *user, const char *name)
{
    (void)user;
    printf(" %s", name);
}

static void print_option(void *user, const struct cli_option *option)
{
    (void)user;
    printf(" --%s", option->name);
}

static void print_words(const char *key)
{
    if (strcmp(key, "run") == 0) {
        cli_samples_each(print_name, NULL);
    } else if (strcmp(key, "bench") == 0) {
        cli_benches_each(print_name, NULL);
        printf(" all");
    } else if (strcmp(key, "report") == 0) {
        printf(" trace heap");
    } else if (strcmp(key, "completion") == 0) {
        for (size_t i = 0; i < sizeof(shell_names) / sizeof(shell_names[0]); i++) {
            printf(" %s", shell_names[i]);
        }
    } else if (key[0] == '\0') {
        for (size_t i = 0; subcommands[i] != NULL; i++) {
            printf(" %s", subcommands[i]->name);
        }
        printf(" help");
    }
}

static void print_help_words(void)
{
    print_words("");
    cli_samples_each(print_name, NULL);
    cli_benches_each(print_name, NULL);
    cli_topics_each(print_name, NULL);
}

static void print_list(const struct place *place, main_fn main)
{
    printf("    \"%s\") list=\"", place->key);
    print_words(place->key);
    printf("\" options=\"");
    visit(place, main, print_option);
    /* The tables of the command itself and of the samples have it already. */
    bool has_help = place->key[0] == '\0' || strncmp(place->key, "run ", 4) == 0;
    printf("%s\" ;;\n", has_help ? "" : " --help");
}

static void print_value(void *user, const struct cli_option *option)
{
    const struct place *place = user;
    if (!takes_value(option)) {
        return;
    }
    printf("    \"%s --%s\"", place->key, option->name);
    if (option->letter != 0) {
        printf(" | \"%s -%c\"", place->key, option->letter);
    }
    printf(") values=\"");
    for (int i = 0; option->choice != NULL && option->names[i] != NULL; i++) {
        printf(" %s", option->names[i]);
    }
    printf("%s\" ;;\n", option->text != NULL ? "FILE" : option->choice != NULL ? "" : "NONE");
}

static void print_values(const struct place *place, main_fn main)
{
    visit(place, main, print_value);
}

/* " --runs -r ...": the option that the next word belongs to. */
static void print_taker(void *user, const struct cli_option *option)
{
    const struct place *place = user;
    if (takes_value(option)) {
        printf(" --%s", option->name);
        if (option->letter != 0) {
            printf(" -%c", option->letter);
        }
    }
    (void)place;
}

static void print_takers(const struct place *place, main_fn main)
{
    visit(place, main, print_taker);
}

static void print_cases(enum shell shell)
{
    printf("  local takers=\"");
    each_place(shell, print_takers);
    printf(" \"\n");
    /* The words before this one: a command and, of `run`, a sample. */
    printf("  for word in \"${before[@]}\"; do\n"
           "    if [ -n \"$skip\" ]; then skip=; continue; fi\n"
           "    case $takers in *\" $word \"*) skip=yes; continue ;; esac\n"
           "    case $word in\n"
           "    -* | =) ;;\n"
           "    *) if [ -z \"$key\" ]; then key=$word; elif [ \"$key\" = run ]; then key=\"run $word\"; else "
           "name=$word; fi ;;\n"
           "    esac\n"
           "  done\n"
           "  case $key in\n");
    each_place(shell, print_list);
    printf("    help) list=\"");
    print_help_words();
    printf("\" options= ;;\n    *) list= options= ;;\n  esac\n  case \"$key $previous\" in\n");
    each_place(shell, print_values);
    printf("  esac\n"
           "  if [ -n \"$name\" ]; then list=; if [ \"$key\" = report ]; then files=yes; fi; fi\n"
           "  case $values in\n"
           "    FILE) list= options= files=yes ;;\n"
           "    NONE) list= options= ;;\n"
           "    ?*) list=$values options= ;;\n"
           "    *) case $current in -*) list=$options files= ;; esac ;;\n"
           "  esac\n");
}

static void print_bash(void)
{
    printf("# What bash completes behind gantry; made by `gantry completion bash`.\n"
           "_gantry()\n{\n"
           "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}\n"
           "  local key= name= skip= list= options= values= files= word\n"
           "  local before=(\"${COMP_WORDS[@]:1:COMP_CWORD-1}\")\n"
           "  if [ \"$current\" = = ]; then current=\n" /* bash splits --runs=3 into three words */
           "  elif [ \"$previous\" = = ]; then previous=${COMP_WORDS[COMP_CWORD - 2]}; fi\n");
    print_cases(SHELL_BASH);
    printf("  if [ -n \"$files\" ]; then compopt -o filenames 2>/dev/null\n"
           "    mapfile -t COMPREPLY < <(compgen -f -- \"$current\")\n"
           "  else mapfile -t COMPREPLY < <(compgen -W \"$list\" -- \"$current\"); fi\n"
           "}\n"
           "complete -F _gantry gantry\n");
}

static void print_zsh(void)
{
    printf("#compdef gantry\n"
           "# What zsh completes behind gantry; made by `gantry completion zsh`.\n"
           "_gantry()\n{\n"
           "  local current=$PREFIX previous=${words[CURRENT-1]}\n"
           "  local -a before; before=(\"${(@)words[2,CURRENT-1]}\")\n"
           "  local key= name= skip= options= values= files= word\n"
           "  local list=\n");
    print_cases(SHELL_ZSH);
    printf("  if [ -n \"$files\" ]; then _files; else compadd -- ${=list}; fi\n"
           "}\n"
           "if [ \"$funcstack[1]\" = _gantry ]; then _gantry \"$@\"; else compdef _gantry gantry; fi\n");
}

/* ---- fish ---------------------------------------------------------------------------------------- */

static void print_fish_option(void *user, const struct cli_option *option)
{
    const struct place *place = user;
    printf("complete -c gantry -n '__gantry_is \"%s\" or_later' -l %s", place->key, option->name);
    if (option->letter != 0) {
        printf(" -s %c", option->letter);
    }
    if (takes_value(option)) {
        printf(option->text != NULL ? " -r -F" : " -x");
    }
    if (option->choice != NULL) {
        printf(" -a '");
        for (int i = 0; option->names[i] != NULL; i++) {
            printf("%s%s", i > 0 ? " " : "", option->names[i]);
        }
        printf("'");
    }
    printf("\n");
}

static void print_fish_place(const struct place *place, main_fn main)
{
    visit(place, main, print_fish_option);
    printf("complete -c gantry -n '__gantry_is \"%s\"' -a '", place->key);
    print_words(place->key);
    printf("'\n");
}

static void print_fish(void)
{
    printf("# What fish completes behind gantry; made by `gantry completion fish`.\n"
           "function __gantry_is\n"
           "  set -l key\n  set -l skip\n"
           "  for word in (commandline -opc)[2..-1]\n"
           "    if test -n \"$skip\"\n      set skip\n    else if contains -- $word");
    each_place(SHELL_FISH, print_takers);
    printf("\n      set skip yes\n"
           "    else if not string match -q -- '-*' $word\n"
           "      if test -z \"$key\"\n        set key $word\n"
           "      else if test \"$key\" = run\n        set key \"run $word\"\n"
           "      else\n        set key (string trim -- $key)\" \"\n      end\n"
           "    end\n  end\n"
           "  test \"$key\" = \"$argv[1]\"; or test -n \"$argv[2]\" -a \"$key\" = \"$argv[1] \"\n"
           "end\n"
           "complete -c gantry -f\n");
    each_place(SHELL_FISH, print_fish_place);
    printf("complete -c gantry -n '__gantry_is help' -a '");
    print_help_words();
    printf("'\ncomplete -c gantry -n '__gantry_is \"report \"' -F\n");
}

static int completion_main(int argc, char **argv)
{
    const struct cli_option table[] = {{.name = NULL}};
    int status = cli_read_options(argc, argv, table, 1);
    if (status >= 0) {
        return status;
    }
    static void (*const prints[])(void) = {
        [SHELL_BASH] = print_bash, [SHELL_ZSH] = print_zsh, [SHELL_FISH] = print_fish};
    for (size_t i = 0; optind < argc && i < sizeof(prints) / sizeof(prints[0]); i++) {
        if (strcmp(argv[optind], shell_names[i]) == 0) {
            prints[i]();
            return 0;
        }
    }
    return optind < argc ? cli_usage_error("completion: bash, zsh or fish, not '%s'", argv[optind])
                         : cli_usage_error("completion: of which shell: bash, zsh or fish?");
}

const struct cli_command cli_completion = {
    .name = "completion",
    .arguments = "bash | zsh | fish",
    .summary = "print what a shell completes behind gantry",
    .help = "Packages install it where shells look for it.  Without them, for one session:\n"
            "  source <(gantry completion bash)\n"
            "  source <(gantry completion zsh)\n"
            "  gantry completion fish | source\n",
    .main = completion_main,
};
