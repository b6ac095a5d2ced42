/* SPDX-License-Identifier: MIT */
#include "cli/output_file.h"

#include "cli/messages.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *shown; /* as the user named it */
static char *final; /* the file that the name leads to through symbolic links; NULL: it is written directly */
static char *part;  /* the new file beside it, which is written */
static atomic_bool is_abandoned; /* atomic: Ctrl-C has told what becomes of the file */

static bool complain(void)
{
    if (atomic_load(&is_abandoned)) {
        return false;
    }
    cli_error("%s: %s", shown, strerrordesc_np(errno));
    return false;
}

/* A signal that ends the command must not leave half a file behind. */
static void on_signal(int signal)
{
    (void)unlink(part);
    (void)raise(signal); /* SA_RESETHAND: it ends the process now */
}

static void remove_at_signals(void)
{
    static const int signals[] = {SIGHUP, SIGINT, SIGTERM};
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        struct sigaction old, action = {.sa_flags = (int)SA_RESETHAND};
        action.sa_handler = on_signal;
        if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN) {
            (void)sigaction(signals[i], &action, NULL);
        }
    }
}

static mode_t usual_mode(void)
{
    mode_t mask = umask(0);
    (void)umask(mask);
    return 0666 & ~mask;
}

/* A new file beside `final`, as its standard output. */
static bool begin_beside(mode_t mode)
{
    if (asprintf(&part, "%s.XXXXXX", final) < 0) {
        part = NULL;
        errno = ENOMEM;
        return complain();
    }
    int fd = mkstemp(part);
    if (fd < 0) {
        free(part);
        part = NULL;
        return complain();
    }
    remove_at_signals();
    if (fchmod(fd, mode) != 0 || fflush(stdout) != 0 || dup2(fd, STDOUT_FILENO) < 0) {
        (void)complain();
        (void)unlink(part);
        close(fd);
        return false;
    }
    close(fd);
    return true;
}

bool cli_output_begin(const char *path)
{
    struct stat info;
    shown = path;
    bool is_there = stat(path, &info) == 0;
    if (!is_there && errno != ENOENT) {
        return complain();
    }
    if (is_there && !S_ISREG(info.st_mode)) {
        return freopen(path, "w", stdout) != NULL || complain();
    }
    if (is_there && access(path, W_OK) != 0) {
        return complain();
    }
    final = is_there ? realpath(path, NULL) : strdup(path);
    return final != NULL ? begin_beside(is_there ? info.st_mode & 07777 : usual_mode()) : complain();
}

const char *cli_output_flush(void)
{
    errno = 0;
    if (fflush(stdout) == 0 && ferror(stdout) == 0) {
        return NULL;
    }
    if (errno == 0) { /* stdio keeps no cause of an earlier failure: try again */
        clearerr(stdout);
        (void)fputc('\n', stdout);
        (void)fflush(stdout);
    }
    return errno != 0 ? strerrordesc_np(errno) : "a write failed";
}

bool cli_output_end(bool keep)
{
    const char *why = cli_output_flush();
    bool good = why == NULL;
    if (!good && !atomic_load(&is_abandoned)) {
        cli_error("%s: %s", shown, why);
    }
    if (part != NULL && good && keep && rename(part, final) != 0) {
        good = complain();
    }
    if (part != NULL && !(good && keep)) {
        (void)unlink(part);
    }
    return good;
}

/* The kernel decides who was first, this unlink() or the rename() of cli_output_end(). */
enum cli_output_fate cli_output_abandon(const char **name)
{
    *name = shown;
    if (part == NULL) {
        return CLI_OUTPUT_NONE;
    }
    atomic_store(&is_abandoned, true);
    return unlink(part) == 0 ? CLI_OUTPUT_ABANDONED : CLI_OUTPUT_COMPLETE;
}
