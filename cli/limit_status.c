/* SPDX-License-Identifier: MIT */
/* `gantry limit --status` and `--explain`. */
#include "cli/limit.h"

#include "cli/messages.h"
#include "cli/text.h"
#include "limit/pace.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define JOBS_FOLDER "/dev/shm"
#define LIBRARY "libgantry-limit.so"

/* Beside the command, as in a build folder, or where libraries are installed. */
bool cli_limit_library(char *path, size_t room)
{
    char program[PATH_MAX];
    const ssize_t bytes = readlink("/proc/self/exe", program, sizeof(program) - 1);
    program[bytes > 0 ? bytes : 0] = '\0';
    char *slash = strrchr(program, '/');
    if (slash == NULL) {
        snprintf(path, room, "%s", LIBRARY);
        return false;
    }
    *slash = '\0';
    static const char *const folders[] = {"", "/" GANTRY_LIMIT_LIBRARIES};
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        char tried[2 * PATH_MAX];
        snprintf(tried, sizeof(tried), "%s%s/" LIBRARY, program, folders[i]);
        char *real = realpath(tried, NULL);
        const bool fits = real != NULL && snprintf(path, room, "%s", real) < (int)room;
        free(real);
        if (fits) {
            return true;
        }
    }
    snprintf(path, room, LIBRARY " beside %s or in its folder for libraries", program);
    return false;
}

void cli_limit_each_job(void (*each)(const char *path, void *user), void *user)
{
    char prefix[64], path[GY_REGION_PATH_BYTES];
    snprintf(prefix, sizeof(prefix), "gantry-limit-%u-", (unsigned)geteuid());
    DIR *folder = opendir(JOBS_FOLDER);
    struct dirent *entry;
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0 &&
            snprintf(path, sizeof(path), JOBS_FOLDER "/%s", entry->d_name) < (int)sizeof(path)) {
            each(path, user);
        }
    }
    if (folder != NULL) {
        closedir(folder);
    }
}

/* ---- a job ---------------------------------------------------------------------------------------- */

struct printer {
    bool as_json, is_strict; /* a job that was asked for must be there */
    uint32_t count, failed;
};

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

/* Percents of the device since the job's first use of it, and of its worst 100 ms, 1 s and 10 s lately. */
struct figures {
    double mean, worst[3];
    double seconds, charged_s, held_s;
};

static struct figures read_figures(const struct gy_region_device *d, uint64_t now)
{
    static const uint32_t bins[3] = {1, 10, 100};
    const uint64_t since = atomic_load(&d->since);
    struct figures f = {.seconds = now > since ? (double)(now - since) / 1e9 : 0,
                        .charged_s = (double)atomic_load(&d->charged) / 1e9,
                        .held_s = (double)atomic_load(&d->held) / 1e9};
    f.mean = f.seconds > 0 ? 100 * f.charged_s / f.seconds : 0;
    for (int i = 0; i < 3; i++) {
        f.worst[i] = 100 * gy_pace_worst(d, bins[i], now);
    }
    return f;
}

static void print_device(const struct gy_region_device *d, uint64_t now)
{
    const struct figures f = read_figures(d, now);
    printf("  device %016" PRIx64
           "  charged %.3f s of %.1f s: %.2f %%, worst 100 ms %.1f %%, 1 s %.1f %%, 10 s %.1f %%\n",
           atomic_load(&d->id), f.charged_s, f.seconds, f.mean, f.worst[0], f.worst[1], f.worst[2]);
    printf("  %23s  held %.3f s, let through for another device %" PRIu64 ", on credit %" PRIu64
           ", not measured %" PRIu64 ", overruns %" PRIu64 "\n",
           "", f.held_s, atomic_load(&d->awaited), atomic_load(&d->credits), atomic_load(&d->unmeasured),
           atomic_load(&d->overruns));
}

static void print_device_json(const struct gy_region_device *d, uint64_t now)
{
    const struct figures f = read_figures(d, now);
    printf("{\"id\":\"%016" PRIx64
           "\",\"seconds\":%.6f,\"charged_s\":%.9f,\"charged_percent\":%.4f,\"worst_100ms_percent\":%.4f,"
           "\"worst_1s_percent\":%.4f,\"worst_10s_percent\":%.4f,\"held_s\":%.9f,\"awaited\":%" PRIu64
           ",\"credits\":%" PRIu64 ",\"unmeasured\":%" PRIu64 ",\"overruns\":%" PRIu64
           ",\"in_flight_s\":%.9f}",
           atomic_load(&d->id), f.seconds, f.charged_s, f.mean, f.worst[0], f.worst[1], f.worst[2], f.held_s,
           atomic_load(&d->awaited), atomic_load(&d->credits), atomic_load(&d->unmeasured),
           atomic_load(&d->overruns), (double)atomic_load(&d->in_flight) / 1e9);
}

static void print_job(const char *path, void *user)
{
    struct printer *printer = user;
    struct gy_region_place place;
    char why[GY_REGION_TEXT_BYTES];
    bool absent;
    if (!gy_region_look(path, &place, why, &absent)) {
        if (printer->is_strict) {
            cli_error("limit: %s", why);
            printer->failed++;
        }
        return;
    }
    const struct gy_region *region = place.region;
    const uint64_t now = now_ns();
    const uint32_t alive = gy_region_alive(&place);
    int devices = 0;
    if (printer->as_json) {
        printf("%s{\"job\":", printer->count > 0 ? "," : "");
        cli_json_string(stdout, path);
        printf(",\"share_percent\":%.4f,\"processes\":%" PRIu32 ",\"devices\":[", place.settings.share / 1e4,
               alive);
    } else {
        printf("job ");
        cli_print_text(stdout, path, 0, CLI_ANY_LENGTH);
        printf("  share %g %%, processes %" PRIu32 "\n", place.settings.share / 1e4, alive);
    }
    for (int d = 0; d < GY_REGION_DEVICES; d++) {
        const struct gy_region_device *device = &region->devices[d];
        if (atomic_load(&device->id) != 0 && printer->as_json) {
            printf("%s", devices++ > 0 ? "," : "");
            print_device_json(device, now);
        } else if (atomic_load(&device->id) != 0) {
            print_device(device, now);
        }
    }
    printf("%s", printer->as_json ? "]}" : "");
    printer->count++;
    gy_region_drop(&place);
}

static int print_status(const char *job, bool as_json)
{
    char path[GY_REGION_PATH_BYTES];
    struct printer printer = {.as_json = as_json, .is_strict = job != NULL};
    if (job != NULL && !gy_region_path(job, path, sizeof(path))) {
        cli_error("limit: '%s' is no name of a job", job);
        return 1;
    }
    printf("%s", as_json ? "{\"jobs\":[" : "");
    if (job != NULL) {
        print_job(path, &printer);
    } else {
        cli_limit_each_job(print_job, &printer);
    }
    printf("%s", as_json ? "]}\n" : printer.count == 0 && job == NULL ? "no job runs\n" : "");
    fflush(stdout);
    return printer.failed > 0 ? 1 : 0;
}

int cli_limit_status(const char *job, bool as_json, bool watch)
{
    int status = print_status(job, as_json);
    while (watch && status == 0) {
        const struct timespec second = {1, 0};
        nanosleep(&second, NULL);
        status = print_status(job, as_json);
    }
    return status;
}

/* ---- what bounds what ------------------------------------------------------------------------------- */

int cli_limit_explain(void)
{
    char path[2 * PATH_MAX];
    const bool has_library = cli_limit_library(path, sizeof(path));
    const bool has_folder = access(JOBS_FOLDER, W_OK | X_OK) == 0;
    const bool has_driver = access("/dev/nvidiactl", F_OK) == 0;
    const bool has_mps = access("/tmp/nvidia-mps/control", F_OK) == 0;
    printf("library       %s%s\n", has_library ? "" : "missing: ", path);
    printf("jobs          %s\n",
           has_folder ? JOBS_FOLDER : JOBS_FOLDER " cannot be written to: name a file with --job PATH");
    printf("driver        %s\n",
           has_driver ? "an NVIDIA driver is loaded" : "no NVIDIA driver is loaded on this machine");
    printf("MPS           %s\n",
           has_mps
               ? "its daemon runs: kernels of several processes overlap, and each is charged its own interval"
               : "no daemon at /tmp/nvidia-mps: processes take turns on a device");
    printf(
        "time          bounded here, per job and device: kernels, graphs, fills and copies within a device\n"
        "multiprocessors  not bounded here: MPS and MIG do\n"
        "memory        not bounded here: MIG does, and MPS per client\n"
        "people        not bounded: whoever runs the program can lift the limit; MIG, and MPS by root, hold "
        "against people\n"
        "not reached   static and setuid programs, children that drop LD_PRELOAD, dlmopen(), RTLD_DEEPBIND, "
        "direct ioctl()\n");
    return 0;
}
