/* SPDX-License-Identifier: MIT */
/* The bytes are a recording for `gantry report`.  The first byte chooses the form of the report. */
#include "tests/fuzz/fuzz.h"

#include "cli/command.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The report itself is not looked at here, and the messages on stderr about the file would be too many. */
static void silence(void)
{
    static int silenced;
    if (!silenced) {
        int sink = open("/dev/null", O_WRONLY);
        if (sink < 0 || dup2(sink, STDOUT_FILENO) < 0) {
            abort();
        }
        silenced = 1;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int file = memfd_create("fuzz", 0);
    char path[64], words[5][80];
    char *argv[8];
    int argc = 0;
    if (size == 0) {
        (void)close(file);
        return 0;
    }
    silence();
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
    if (file < 0 || write(file, data + 1, size - 1) != (ssize_t)(size - 1)) {
        abort();
    }
    const char *const forms[][5] = {{"report"},
                                    {"report", "--format", "html", "-o", "/dev/null"},
                                    {"report", "--format", "json", "-o", "/dev/null"},
                                    {"report", "--json"},
                                    {"report", "--diff", path}};
    for (const char *const *word = forms[data[0] % 5]; argc < 5 && word[argc] != NULL; argc++) {
        (void)snprintf(words[argc], sizeof(words[argc]), "%s", word[argc]);
        argv[argc] = words[argc];
    }
    static char trace[] = "trace";
    argv[argc++] = trace;
    argv[argc++] = path;
    argv[argc] = NULL;
    int status = cli_report.main(argc, argv);
    if (status < 0 || status > 2) {
        abort();
    }
    (void)close(file);
    return 0;
}
