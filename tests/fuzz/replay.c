/* SPDX-License-Identifier: MIT */
/* main() of a fuzz target where there is no fuzzer: runs it on each file of the folders and files named.
 *
 * usage: test_fuzz_NAME PATH... */
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static int replay_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        return -1;
    }
    static uint8_t bytes[1 << 20];
    size_t size = fread(bytes, 1, sizeof(bytes), file);
    (void)fclose(file);
    fprintf(stderr, "%s: %zu bytes\n", path, size);
    LLVMFuzzerTestOneInput(bytes, size);
    return 1;
}

/* Returns how many files were run; -1: one could not be read. */
static int replay(const char *path)
{
    struct stat what;
    if (stat(path, &what) == 0 && !S_ISDIR(what.st_mode)) {
        return replay_file(path);
    }
    DIR *folder = opendir(path);
    if (folder == NULL) {
        perror(path);
        return -1;
    }
    int count = 0;
    for (struct dirent *entry; count >= 0 && (entry = readdir(folder)) != NULL;) {
        char name[1024];
        if (entry->d_name[0] != '.') {
            (void)snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
            count = replay_file(name) < 0 ? -1 : count + 1;
        }
    }
    (void)closedir(folder);
    return count;
}

int main(int argc, char **argv)
{
    int count = 0;
    for (int i = 1; i < argc && count >= 0; i++) {
        int more = replay(argv[i]);
        count = more < 0 ? -1 : count + more;
    }
    printf("%d inputs\n", count);
    return count > 0 ? 0 : 1;
}
