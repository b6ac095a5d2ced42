/* SPDX-License-Identifier: MIT */
#include "cli/interrupt.h"

#include "cli/messages.h"
#include "cli/output_file.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#define MOST_SECONDS 3 /* for ending a recording, and for writing what has been printed */

static atomic_bool is_for_reading;     /* atomic: the first Ctrl-C ends the reading alone */
static atomic_bool has_come;           /* atomic: the reading shall end */
enum { WORKING, ENDING, INTERRUPTED }; /* INTERRUPTED: Ctrl-C ends the process, else the command does */
static atomic_int progress = WORKING;  /* atomic; left once, by whoever ends the process */
static const char *_Atomic said = "the results so far are complete, the others were left out"; /* atomic */

void cli_interrupts_end_reading(bool is_so)
{
    atomic_store(&is_for_reading, is_so);
}

bool cli_interrupts_reading_ends(void)
{
    return atomic_load(&has_come);
}

void cli_interrupts_say(const char *what)
{
    atomic_store(&said, what);
}

static bool is_ours_to_end(int how)
{
    int working = WORKING;
    return atomic_compare_exchange_strong(&progress, &working, how);
}

void cli_interrupts_are_over(void)
{
    (void)is_ours_to_end(ENDING);
    while (atomic_load(&progress) == INTERRUPTED) {
        (void)pause(); /* the thread that waits for Ctrl-C ends the process, with its status */
    }
}

static void give_up(int signal)
{
    (void)signal;
    _exit(CLI_INTERRUPTED);
}

static void *watch(void *set)
{
    int signal;
    do {
        if (sigwait(set, &signal) != 0) {
            return NULL;
        }
    } while (atomic_load(&is_for_reading) && !atomic_exchange(&has_come, true));
    if (!is_ours_to_end(INTERRUPTED)) {
        return NULL;
    }
    struct sigaction action = {.sa_handler = give_up};
    (void)sigaction(SIGALRM, &action, NULL);
    (void)alarm(MOST_SECONDS);
    const char *file = NULL;
    switch (cli_output_abandon(&file)) {
    case CLI_OUTPUT_NONE:
        cli_note("interrupted; %s", atomic_load(&said));
        break;
    case CLI_OUTPUT_ABANDONED:
        cli_note("interrupted; nothing was written to %s", file);
        break;
    case CLI_OUTPUT_COMPLETE:
        cli_note("interrupted; %s was written before, and is complete", file);
        break;
    }
    exit(CLI_INTERRUPTED); /* writes what has been printed, and ends a recording */
}

static void start_watching(void)
{
    static sigset_t set; /* immutable after this: of the thread */
    struct sigaction old;
    pthread_t thread;
    if (sigaction(SIGINT, NULL, &old) != 0 || old.sa_handler == SIG_IGN) {
        return;
    }
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    if (pthread_sigmask(SIG_BLOCK, &set, NULL) != 0) {
        return;
    }
    if (pthread_create(&thread, NULL, watch, &set) != 0) {
        (void)pthread_sigmask(SIG_UNBLOCK, &set, NULL); /* Ctrl-C ends the process as it does without us */
        return;
    }
    (void)pthread_detach(thread);
}

void cli_interrupts_end_us(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT; /* a process may run several commands: fuzzers do */
    (void)pthread_once(&once, start_watching);
}
