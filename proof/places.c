/* SPDX-License-Identifier: MIT */
#include "proof/places.h"

#include "proof/names.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROBES = 16 };

static _Atomic(const void *) places[GY_PLACES]; /* atomic; by hash, from 1 on; a place never moves */

uint32_t gy_place_number(const void *place)
{
    const uint64_t hash = (uint64_t)(uintptr_t)place * UINT64_C(0x9e3779b97f4a7c15) >> 53;
    for (uint32_t i = 0; place != NULL && i < PROBES; i++) {
        const uint32_t at = (uint32_t)((hash + i) % (GY_PLACES - 1)) + 1;
        const void *there = atomic_load_explicit(&places[at], memory_order_relaxed);
        if (there == NULL && atomic_compare_exchange_strong(&places[at], &there, place)) {
            there = place;
        }
        if (there == place) {
            return at;
        }
    }
    return 0;
}

const void *gy_place_at(uint32_t number)
{
    return number != 0 ? atomic_load_explicit(&places[number], memory_order_relaxed) : NULL;
}

/* Start the program, whose output goes to `to`; -1: it cannot be run. */
static pid_t start(char *const argv[], int to)
{
    char *no_variables[] = {NULL}; /* with the program's it would be proven, too */
    posix_spawn_file_actions_t actions;
    pid_t child = -1;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, to, STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    const int error = posix_spawnp(&child, argv[0], &actions, NULL, argv, no_variables);
    posix_spawn_file_actions_destroy(&actions);
    return error == 0 ? child : -1;
}

/* The first line that the program prints, or "". */
static void read_line_of(char *const argv[], char *line, size_t room)
{
    int ends[2];
    size_t used = 0;
    if (pipe2(ends, O_CLOEXEC) == 0) {
        const pid_t child = start(argv, ends[1]);
        (void)close(ends[1]);
        ssize_t got;
        while (used < room - 1 && (got = read(ends[0], line + used, room - 1 - used)) > 0) {
            used += (size_t)got;
        }
        (void)close(ends[0]);
        if (child > 0) {
            (void)waitpid(child, NULL, 0);
        }
    }
    line[used] = '\0';
    line[strcspn(line, " \n")] = '\0'; /* what follows a blank is no line number */
}

/* Returns " at FILE:LINE", or "". */
static const char *find(const void *place)
{
    Dl_info info;
    if (dladdr(place, &info) == 0 || info.dli_fname == NULL) {
        return "";
    }
    Elf64_Ehdr header;
    memcpy(&header, info.dli_fbase, sizeof(header));
    const uintptr_t base = header.e_type == ET_EXEC ? 0 : (uintptr_t)info.dli_fbase;
    const bool is_named = strchr(info.dli_fname, '/') != NULL; /* else it is the program, found in $PATH */
    char address[32], line[512], file[512];
    snprintf(address, sizeof(address), "0x%zx", (size_t)((uintptr_t)place - 1 - base)); /* in the call */
    snprintf(file, sizeof(file), "%s", info.dli_fname);
    if (!is_named) {
        const ssize_t length = readlink("/proc/self/exe", file, sizeof(file) - 1);
        file[length > 0 ? length : 0] = '\0';
    }
    char *const argv[] = {"addr2line", "-e", file, address, NULL};
    read_line_of(argv, line, sizeof(line));
    const char *slash = strrchr(line, '/'), *colon = strrchr(line, ':');
    if (colon != NULL && line[0] != '?' && colon[1] >= '1' && colon[1] <= '9') {
        char text[256];
        snprintf(text, sizeof(text), " at %.200s", slash != NULL ? slash + 1 : line);
        return gy_name_keep(text);
    }
    return "";
}

const char *gy_place_describe(const void *place)
{
    static _Atomic(const char *) known[GY_PLACES]; /* atomic; by number; never freed */
    const uint32_t number = gy_place_number(place);
    const char *text = number != 0 ? atomic_load(&known[number]) : "";
    if (text == NULL) {
        text = find(place);
        atomic_store(&known[number], text);
    }
    return text;
}
