/* SPDX-License-Identifier: MIT */
/* The parts of `gantry limit`. */
#ifndef CLI_LIMIT_H
#define CLI_LIMIT_H

#include "limit/region.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* What a program's file says about being limited. */
struct cli_limit_program {
    char path[PATH_MAX];      /* the file that is executed */
    char sanitizer[PATH_MAX]; /* its sanitizer's runtime, which must be loaded first; "": none */
    const char
        *fault; /* why a preloaded library does not reach it; NULL: it does, as far as the file tells */
};

/* Find `name` as execvp() does and read its file; false: there is none (errno). */
bool cli_limit_examine(const char *name, struct cli_limit_program *out);

/* The path of libgantry-limit.so; false: it is not where it belongs, `path` says where. */
bool cli_limit_library(char *path, size_t room);

/* `--status` of one job (NULL: of all of this user), and `--explain`; the exit status. */
int cli_limit_status(const char *job, bool as_json, bool watch);
int cli_limit_explain(void);

/* Do this to each file in /dev/shm that has the name of a job of this user. */
void cli_limit_each_job(void (*each)(const char *path, void *user), void *user);

#endif
