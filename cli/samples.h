/* What a sample gives to `gantry run`.  Samples are registered with gantry_sample() in CMake. */
#ifndef CLI_SAMPLES_H
#define CLI_SAMPLES_H

#include <stdbool.h>

struct gantry_sample {
    const char *name;    /* as registered */
    const char *summary; /* one line */
    /* argv[0] is the sample's name; returns the command's exit status: 0, 1 for a failure, 2 for wrong
     * arguments (both told on stderr).  cli/options.h reads options. */
    int (*main)(int argc, char **argv);
    bool tells_errors; /* prints gantry_last_error() itself, so that the log need not have it as well */
};

#endif
