/* SPDX-License-Identifier: MIT */
/* What `gantry doctor` looks at: compilers and tools, and what this build of the command can do. */
#include "cli/doctor.h"

#include "cli/surroundings.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* A program of $PATH; false: there is none. */
static bool find_program(const char *name, char *out, size_t room)
{
    const char *path = secure_getenv("PATH");
    for (const char *at = path != NULL ? path : "/usr/bin:/bin"; *at != '\0';) {
        size_t bytes = strcspn(at, ":");
        snprintf(out, room, "%.*s/%s", (int)bytes, at, name);
        if (bytes > 0 && access(out, X_OK) == 0) {
            return true;
        }
        at += bytes + (at[bytes] == ':');
    }
    return false;
}

enum { VERSION_BYTES = 200 }; /* of a line; what is longer is cut */

/* The line of `PROGRAM --version` that has `mark` in it, or the first one. */
static void ask_version(char *program, const char *mark, char out[VERSION_BYTES])
{
    int ends[2];
    pid_t child;
    char option[] = "--version";
    char *argv[] = {program, option, NULL};
    posix_spawn_file_actions_t actions;
    out[0] = '\0';
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return;
    }
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    bool is_started = posix_spawn(&child, program, &actions, NULL, argv, environ) == 0;
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    FILE *file = fdopen(ends[0], "r");
    char line[VERSION_BYTES];
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        if (out[0] == '\0' || strstr(line, mark) != NULL) {
            line[strcspn(line, "\n")] = '\0';
            memcpy(out, line, strlen(line) + 1);
        }
    }
    if (file != NULL) {
        fclose(file);
    } else {
        close(ends[0]);
    }
    while (is_started && waitpid(child, NULL, 0) < 0 && errno == EINTR) {
    }
}

struct tool {
    const char *name, *program, *other; /* another place or name of the program; NULL: none */
    const char *use, *advice;
};

static const struct tool tools[] = {
    {"C compiler", "cc", "gcc", "builds programs", "sudo apt install gcc"},
    {"C++ compiler", "c++", "g++", "builds kernels for the emulated driver", "sudo apt install g++"},
    {"CMake", "cmake", NULL, "finds Gantry with find_package(gantry)", "sudo apt install cmake ninja-build"},
    {"pkg-config", "pkg-config", NULL, "finds Gantry in a Makefile", "sudo apt install pkg-config"},
};

static bool find_tool(const struct tool *tool, char *path, size_t room)
{
    return find_program(tool->program, path, room) ||
           (tool->other != NULL && find_program(tool->other, path, room));
}

/* The CUDA toolkit's compiler, also where PATH does not lead. */
static bool find_nvcc(char *path, size_t room)
{
    const char *folder = secure_getenv("CUDA_PATH");
    if (find_program("nvcc", path, room)) {
        return true;
    }
    snprintf(path, room, "%s/bin/nvcc", folder != NULL && folder[0] != '\0' ? folder : "/usr/local/cuda");
    return access(path, X_OK) == 0;
}

/* Kernels for a GPU are compiled by nvcc, else by clang. */
static void look_at_kernel_compilers(struct findings *f)
{
    char path[512], clang[512], version[VERSION_BYTES];
    bool has_nvcc = find_nvcc(path, sizeof(path)), has_clang = find_program("clang", clang, sizeof(clang));
    if (has_nvcc) {
        ask_version(path, "release", version);
        cli_doctor_add(f, "CUDA toolkit", FINDING_OK, "", "%.200s: %s", path, version);
    } else {
        cli_doctor_add(f, "CUDA toolkit", FINDING_ABSENT,
                       has_clang ? "" : "sudo apt install nvidia-cuda-toolkit, or clang instead",
                       "no nvcc in PATH, CUDA_PATH or /usr/local/cuda%s",
                       has_clang ? "; clang compiles kernels without it" : "");
    }
    if (has_clang) {
        ask_version(clang, "version", version);
        cli_doctor_add(f, "clang", FINDING_OK, "", "%s", version);
    } else {
        cli_doctor_add(f, "clang", FINDING_ABSENT, has_nvcc ? "" : "sudo apt install clang",
                       "not found; compiles kernels for a GPU without the CUDA toolkit");
    }
}

struct mpi {
    const char *name, *compiler, *launcher, *packages;
};

/* By the names that Debian gives them; `mpicc` alone may be of any. */
static const struct mpi mpis[] = {
    {"MPICH", "mpicc.mpich", "mpiexec.mpich", "sudo apt install mpich libmpich-dev"},
    {"Open MPI", "mpicc.openmpi", "mpiexec.openmpi", "sudo apt install openmpi-bin libopenmpi-dev"},
    {"MPI", "mpicc", "mpiexec", "sudo apt install mpich libmpich-dev"},
};

static void look_at_mpis(struct findings *f)
{
    char compiler[512], launcher[512], version[VERSION_BYTES];
    int found = 0;
    for (size_t i = 0; i < sizeof(mpis) / sizeof(mpis[0]); i++) {
        const bool has_compiler = find_program(mpis[i].compiler, compiler, sizeof(compiler));
        const bool has_launcher = find_program(mpis[i].launcher, launcher, sizeof(launcher));
        const bool is_last = i + 1 == sizeof(mpis) / sizeof(mpis[0]);
        if ((is_last && found > 0) || (!is_last && !has_compiler && !has_launcher)) {
            continue;
        }
        found++;
        if (has_compiler && has_launcher) {
            ask_version(launcher, "Version:", version);
            const char *after = strstr(version, "Version:"); /* of Hydra, on a line of its own */
            after = after != NULL ? after + strlen("Version:") : version;
            cli_doctor_add(f, mpis[i].name, FINDING_OK, "", "%s: %s", launcher, after + strspn(after, " "));
        } else if (!has_compiler && !has_launcher) {
            cli_doctor_add(f, mpis[i].name, FINDING_ABSENT, mpis[i].packages,
                           "not found; sends messages between processes");
        } else {
            cli_doctor_add(f, mpis[i].name, FINDING_ABSENT, mpis[i].packages, "%s is found, %s is not",
                           has_compiler ? compiler : launcher,
                           has_compiler ? mpis[i].launcher : mpis[i].compiler);
        }
    }
}

static void look_at_nccl(struct findings *f)
{
    int version = 0;
    void *nccl = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    int (*get)(int *) = NULL;
    if (nccl != NULL) {
        void *symbol = dlsym(nccl, "ncclGetVersion");
        memcpy(&get, &symbol, sizeof(get));
    }
    if (get != NULL && get(&version) == 0) {
        cli_doctor_add(f, "NCCL", FINDING_OK, "", "libnccl.so.2 is found, version %d.%d.%d", version / 10000,
                       version / 100 % 100, version % 100);
    } else if (nccl != NULL || f->has_device) {
        cli_doctor_add(f, "NCCL", FINDING_ABSENT, "pip install nvidia-nccl-cu13",
                       "%s; programs may use it for collectives of devices",
                       nccl != NULL ? "libnccl.so.2 tells no version" : "libnccl.so.2 is not found");
    }
    if (nccl != NULL) {
        dlclose(nccl);
    }
}

void cli_doctor_tools(struct findings *f)
{
    char path[512], version[VERSION_BYTES];
    for (size_t i = 0; i < sizeof(tools) / sizeof(tools[0]); i++) {
        if (find_tool(&tools[i], path, sizeof(path))) {
            ask_version(path, "version", version);
            cli_doctor_add(f, tools[i].name, FINDING_OK, "", "%s", version[0] != '\0' ? version : path);
        } else {
            cli_doctor_add(f, tools[i].name, FINDING_ABSENT, tools[i].advice, "not found; %s", tools[i].use);
        }
    }
    look_at_kernel_compilers(f);
    look_at_mpis(f);
    look_at_nccl(f);
#ifdef GANTRY_HAVE_CJSON
    cli_doctor_add(f, "plans", FINDING_OK, "", "this build reads plans of partitions");
#else
    cli_doctor_add(f, "plans", FINDING_ABSENT, "sudo apt install libcjson-dev, and build Gantry again",
                   "this build reads no plans of partitions");
#endif
    const char *small = cli_small_allocator();
    cli_doctor_add(f, "small blocks", strcmp(small, "jemalloc") == 0 ? FINDING_OK : FINDING_ABSENT,
                   strcmp(small, "installed") == 0 ? "build Gantry again with -DGANTRY_JEMALLOC=SOURCE" : "",
                   "%s", cli_small_allocator_text());
    void *nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (nvml != NULL) {
        cli_doctor_add(f, "NVML", FINDING_OK, "", "libnvidia-ml.so.1 is found");
        dlclose(nvml);
    } else if (f->has_device) {
        cli_doctor_add(f, "NVML", FINDING_ABSENT, "sudo apt install libnvidia-ml1",
                       "libnvidia-ml.so.1 is not found; it tells how much of a GPU MPS hides");
    }
}
