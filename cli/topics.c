/* SPDX-License-Identifier: MIT */
#include "cli/topics.h"

#include "cli/terminal.h"

#include <gantry/base.h>

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "environment.txt.h" /* environment_text, of docs/reference/environment.md */

struct topic {
    const char *name, *summary;
    const char *text; /* NULL: the text is made when it is asked for */
    const char *also; /* other words that people ask for it by, with blanks around each */
};

static const char emulator[] =
    "Where there is no GPU, or no driver, Gantry takes an emulated CUDA driver that comes with it.  It runs\n"
    "on the CPU what the library's calls enqueue, and kernels that gantry_add_kernels() has built: their\n"
    "results are right, so programs can be written and tested with it.  The CUDA runtime API, CUDA's\n"
    "libraries and kernels that were compiled otherwise need a GPU.  Times say nothing about a GPU, which "
    "is\n"
    "why the command prints none.\n"
    "\n"
    "  --driver emulated    take it though there is a GPU; in other programs GANTRY_DRIVER=emulated\n"
    "  --driver cuda        fail where there is no GPU, and say why\n"
    "  GANTRY_EMU_PROFILE   which device it pretends to be: h200, b200, mig or small\n"
    "  GANTRY_EMU_DEVICES   how many devices there are, 1 to 16, for programs that use several\n"
    "\n"
    "The command 'gantry doctor' says which driver works on this machine, and what another one lacks.\n";

static const char recording[] = "A recording has what ran when: CPU tasks, launches, copies, kernels, and "
                                "the thread blocks of kernels that\n"
                                "are built for it.  Any program that uses the library makes one:\n"
                                "\n"
                                "  GANTRY_PROFILE=run.pftrace ./program\n"
                                "  gantry report trace run.pftrace\n"
                                "  gantry report trace run.pftrace --format html -o run.html\n"
                                "\n"
                                "The first line records, the second says how busy the GPU was and why it was "
                                "idle, the third writes a page\n"
                                "for a browser.  https://ui.perfetto.dev opens the recording as it is.  Two "
                                "recordings are compared with\n"
                                "'gantry report trace AFTER --diff BEFORE'.\n";

static const char plans[] =
    "A plan divides the multiprocessors (SMs) of a device into partitions.  The command reads it as JSON:\n"
    "\n"
    "  {\"partitions\": [\n"
    "    {\"name\": \"critical\", \"size\": \"at_least\", \"sm_count\": 16, \"priority\": -1},\n"
    "    {\"name\": \"bulk\", \"size\": \"rest\", \"share\": {\"percent\": 50}}\n"
    "  ]}\n"
    "\n"
    "  name               of the partition\n"
    "  size, sms          exactly (the default) or at_least so many SMs, or the rest\n"
    "  priority           of its streams: 0 is normal, negative numbers are more urgent\n"
    "  share              percent of the device's time; work in half of the SMs uses half of it\n"
    "  cluster_size, workqueue_limit, workqueue_scope, workqueues_of   of newer devices and drivers\n"
    "\n"
    "The command 'gantry info --partitions PLAN.json' carries a plan out and shows what was granted.\n";

static const char exits[] =
    "  0     done\n"
    "  1     what was asked for failed; stderr says why\n"
    "  2     the call was wrong; stderr says what, and which help to read\n"
    "  130   Ctrl-C ended it\n"
    "  125   gantry limit: the limit could not be made; 126 and 127 as of env(1), and else\n"
    "        the status of the program\n"
    "\n"
    "Results go to standard output; messages go to standard error, each with one of\n"
    "the prefixes 'gantry: error:', 'gantry: warning:' and 'gantry: note:'.\n";

static const struct topic topics[] = {
    {"emulator", "what runs where there is no GPU", emulator, " emulated emulation gpu "},
    {"environment", "the variables that are read", environment_text, " variables env "},
    {"exit", "what the exit statuses mean", exits, " exits "},
    {"plans", "how partitions of a device are described", plans, " plan partitions shares share "},
    {"recording", "how to record a program and read the recording", recording,
     " recordings record profiling trace timeline "},
    {"statuses", "the statuses of failed calls", NULL, " status errors error "}};
#define TOPICS (sizeof(topics) / sizeof(topics[0]))

/* Where a document lies, as installed beside the command. */
static void print_place_of(const char *document)
{
    char path[PATH_MAX + sizeof(GANTRY_DOCUMENTS) + 64];
    ssize_t bytes = readlink("/proc/self/exe", path, PATH_MAX);
    while (bytes > 0 && path[bytes - 1] != '/') {
        bytes--;
    }
    char *const found = bytes > 0 ? path : NULL;
    if (found != NULL) {
        snprintf(path + bytes, sizeof(path) - (size_t)bytes, "%s/%s", GANTRY_DOCUMENTS, document);
    }
    char *const whole = found != NULL ? realpath(found, NULL) : NULL;
    printf(whole != NULL ? "\nWhat to do about each is in %s.\n"
                         : "\nWhat to do about each is in %s of Gantry's documents.\n",
           whole != NULL ? whole : document);
    free(whole);
}

static void print_statuses(void)
{
    static const gantry_status statuses[] = {
#define STATUS(name, value, text) GANTRY_##name,
        GANTRY_STATUS_MAP(STATUS)
#undef STATUS
    };
    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
        printf("  %4d  %-33s %s\n", (int)statuses[i], gantry_status_name(statuses[i]),
               gantry_status_text(statuses[i]));
    }
    print_place_of("docs/reference/errors.md");
}

void cli_topics_list(FILE *file)
{
    for (size_t i = 0; i < TOPICS; i++) {
        cli_print_entry(file, 12, topics[i].name, topics[i].summary);
    }
}

void cli_topics_each(void (*each)(void *user, const char *name), void *user)
{
    for (size_t i = 0; i < TOPICS; i++) {
        each(user, topics[i].name);
    }
}

/* Is `name` the topic's, or another word for it? */
static bool is_asked_for(const struct topic *topic, const char *name)
{
    const size_t length = strlen(name);
    const char *at = length == 0 || strchr(name, ' ') != NULL ? NULL : strstr(topic->also, name);
    while (at != NULL && (at[-1] != ' ' || at[length] != ' ')) {
        at = strstr(at + 1, name);
    }
    return at != NULL || strcmp(topic->name, name) == 0;
}

bool cli_topic_help(const char *name)
{
    for (size_t i = 0; i < TOPICS; i++) {
        if (!is_asked_for(&topics[i], name)) {
            continue;
        }
        printf("%s: %s\n\n", topics[i].name, topics[i].summary);
        if (topics[i].text != NULL) {
            cli_print_help(stdout, topics[i].text);
        } else {
            print_statuses();
        }
        return true;
    }
    return false;
}
