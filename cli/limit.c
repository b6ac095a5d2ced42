/* SPDX-License-Identifier: MIT */
/* `gantry limit`: prepares a job with a limit of GPU time and becomes the program.  What limits it is a
 * library that is loaded with the program (limit/). */
#include "cli/limit.h"

#include "cli/command.h"
#include "cli/options.h"
#include "limit/job.h"

#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define OURS 125 /* exit statuses, as of env(1): ours; found but not executed; not found */
#define NOT_EXECUTED 126
#define NOT_FOUND 127
#define EVERY_DEVICE UINT32_MAX

static const char *const overrun_names[] = {"warn", "kill", NULL};

struct wishes {
    uint32_t share; /* millionths; 0: not said */
    uint32_t devices, overrun_ms;
    int overrun;
    const char *job, *join;
    bool copies, strict, verbose, status, json, watch, explain;
};

/* ---- reading options ---------------------------------------------------------------------------- */

/* "30", "12.5" or "30%": from 0.1 to 100. */
static bool read_share(const char *text, void *into)
{
    char *end;
    if (text[0] < '0' || text[0] > '9') {
        return false;
    }
    const double percent = strtod(text, &end);
    end += *end == '%' ? 1 : 0;
    if (*end != '\0' || strpbrk(text, "xXeEnNpP") != NULL || percent < 0.1 || percent > 100) {
        return false;
    }
    *(uint32_t *)into = (uint32_t)(percent * 10000 + 0.5);
    return true;
}

/* "0,2": ordinals as the program sees them. */
static bool read_devices(const char *text, void *into)
{
    uint32_t devices = 0;
    while (*text >= '0' && *text <= '9') {
        char *end;
        const unsigned long ordinal = strtoul(text, &end, 10);
        if (ordinal > 31 || (*end != ',' && *end != '\0')) {
            return false;
        }
        devices |= UINT32_C(1) << ordinal;
        if (*end == '\0') {
            *(uint32_t *)into = devices;
            return true;
        }
        text = end + 1;
    }
    return false;
}

/* "30s", "500ms". */
static bool read_time(const char *text, void *into)
{
    char *end;
    if (text[0] < '0' || text[0] > '9') {
        return false;
    }
    const unsigned long value = strtoul(text, &end, 10);
    const bool is_ms = strcmp(end, "ms") == 0;
    if ((!is_ms && strcmp(end, "s") != 0) || value < 1 || value > (is_ms ? 3600000UL : 3600UL)) {
        return false;
    }
    *(uint32_t *)into = (uint32_t)(is_ms ? value : value * 1000);
    return true;
}

/* ---- the job -------------------------------------------------------------------------------------- */

static int fail(const char *format, const char *a, const char *b)
{
    cli_error(format, a, b);
    return OURS;
}

/* A name for a job that has none: nobody else's. */
static void invent_name(char *name, size_t room)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(name, room, "%d-%llx", (int)getpid(),
             (unsigned long long)now.tv_sec * 1000000000 + (unsigned long long)now.tv_nsec);
}

/* Children may run in other folders. */
static bool make_absolute(char *path)
{
    char folder[PATH_MAX], whole[2 * PATH_MAX];
    if (path[0] == '/') {
        return true;
    }
    if (getcwd(folder, sizeof(folder)) == NULL) {
        return false;
    }
    const int used = snprintf(whole, sizeof(whole), "%s/%s", folder, path);
    return used < GY_REGION_PATH_BYTES && snprintf(path, GY_REGION_PATH_BYTES, "%s", whole) == used;
}

/* Settle the path and the settings; -1, or the exit status. */
static int prepare(const struct wishes *w, char *path, struct gy_region_settings *settings)
{
    char own[64], why[GY_REGION_TEXT_BYTES];
    struct gy_region_place place;
    bool absent;
    const char *name = w->join != NULL ? w->join : w->job != NULL ? w->job : own;
    invent_name(own, sizeof(own));
    if (!gy_region_path(name, path, GY_REGION_PATH_BYTES) || !make_absolute(path)) {
        return fail("limit: '%s' is no name of a job%s", name,
                    ": letters, digits, '-', '_' and '.', or a path");
    }
    *settings = (struct gy_region_settings){.share = w->share != 0 ? w->share : GY_REGION_WHOLE,
                                            .devices = w->devices,
                                            .overrun = (uint32_t)w->overrun,
                                            .overrun_ms = w->overrun_ms,
                                            .credit_ms = 1000,
                                            .copies = w->copies,
                                            .strict = w->strict,
                                            .verbose = w->verbose};
    (void)gy_region_sweep(path); /* it may be a file anywhere, left by a process that was killed */
    if (gy_region_look(path, &place, why, &absent)) {
        const uint32_t share = place.settings.share;
        const bool is_other = w->share != 0 && w->share != share;
        *settings = place.settings;
        gy_region_drop(&place);
        if (is_other) {
            cli_error("limit: the job %s has a share of %g %%, not %g %%", name, share / 1e4, w->share / 1e4);
            return OURS;
        }
        return -1;
    }
    if (!absent) {
        if (w->strict) {
            return fail("limit: %s%s", why, "");
        }
        cli_warning("limit: the program runs without a limit: %s", why);
        return -1;
    }
    return w->join != NULL ? fail("limit: there is no job '%s' to join: %s", w->join, why) : -1;
}

/* Put our library before what is preloaded already, and behind a sanitizer's runtime. */
static int preload(const struct cli_limit_program *program)
{
    char library[PATH_MAX], list[4 * PATH_MAX];
    const char *others = secure_getenv("LD_PRELOAD");
    if (!cli_limit_library(library, sizeof(library))) {
        return fail("limit: there is no %s%s", library, "");
    }
    if (strpbrk(library, " :") != NULL) {
        return fail("limit: %s%s", library, ": a path with a blank or a colon cannot be preloaded");
    }
    const int used = snprintf(list, sizeof(list), "%s%s%s%s%s", program->sanitizer,
                              program->sanitizer[0] != '\0' ? ":" : "", library,
                              others != NULL && others[0] != '\0' ? ":" : "", others != NULL ? others : "");
    if (used >= (int)sizeof(list) || setenv("LD_PRELOAD", list, 1) != 0) {
        return fail("limit: LD_PRELOAD is too long%s%s", "", "");
    }
    return -1;
}

/* In a strict job the driver itself asks whether the library is there (limit/check.c), unless a tool is injected. */
static int inject_check(void)
{
    static const char *const variable = "CUDA_INJECTION64_PATH";
    char library[PATH_MAX], check[PATH_MAX + 16];
    if (secure_getenv(variable) != NULL) {
        return -1;
    }
    (void)cli_limit_library(library, sizeof(library)); /* it is there: it was preloaded */
    snprintf(check, sizeof(check), "%.*s-check.so", (int)(strlen(library) - strlen(".so")), library);
    if (access(check, R_OK) != 0 || setenv(variable, check, 1) != 0) {
        return fail("limit: there is no %s%s", check, "");
    }
    return -1;
}

static void sweep(const char *path, void *user)
{
    (void)user;
    (void)gy_region_sweep(path);
}

/* Become the program; returns the exit status where that fails. */
static int become(const struct wishes *w, char **argv)
{
    char path[GY_REGION_PATH_BYTES], text[GY_REGION_TEXT_BYTES];
    struct gy_region_settings settings;
    struct cli_limit_program program;
    if (!cli_limit_examine(argv[0], &program)) {
        const int error = errno;
        cli_error("limit: %s: %s", argv[0], strerrordesc_np(error));
        return error == ENOENT ? NOT_FOUND : NOT_EXECUTED;
    }
    if (program.fault != NULL && w->strict) {
        return fail("limit: %s cannot be limited: %s", argv[0], program.fault);
    }
    if (program.fault != NULL) {
        cli_warning("limit: %s runs without a limit: %s", argv[0], program.fault);
    }
    char common[GY_REGION_PATH_BYTES];
    cli_limit_each_job(sweep, NULL);
    gy_region_common_path(common, sizeof(common));
    (void)gy_region_sweep(common);
    int status = prepare(w, path, &settings);
    status = status < 0 ? preload(&program) : status;
    status = status < 0 && settings.strict != 0 ? inject_check() : status;
    if (status >= 0) {
        return status;
    }
    (void)gy_job_print(text, sizeof(text), &settings);
    if (setenv("GANTRY_LIMIT_JOB", path, 1) != 0 || setenv("GANTRY_LIMIT_SETTINGS", text, 1) != 0) {
        return fail("limit: no memory%s%s", "", "");
    }
    if (w->verbose) {
        cli_note("limit: job %s, share %g %%", path, settings.share / 1e4);
    }
    execv(program.path, argv);
    const int error = errno;
    cli_error("limit: %s: %s", argv[0], strerrordesc_np(error));
    return error == ENOENT ? NOT_FOUND : NOT_EXECUTED; /* a script's interpreter may be missing */
}

static int check(const struct wishes *w, bool has_program)
{
    if (w->status || w->explain) {
        return has_program ? cli_usage_error("limit: --status and --explain run no program") : -1;
    }
    if (!has_program) {
        return cli_usage_error("limit: which program?");
    }
    if (w->join != NULL && (w->job != NULL || w->share != 0)) {
        return cli_usage_error(
            "limit: --join takes the share of the job that is there, without --job and --share");
    }
    if (w->join == NULL && w->share == 0) {
        return cli_usage_error("limit: which share?  --share 30 is 30 percent of a device's time");
    }
    if (w->overrun_ms == 0 && w->overrun != GY_REGION_OVERRUN_WARN) {
        return cli_usage_error("limit: --overrun kill needs --overrun-after");
    }
    return -1;
}

static int limit_main(int argc, char **argv)
{
    struct wishes w = {.devices = EVERY_DEVICE};
    const struct cli_option table[] = {{.name = "share",
                                        .letter = 's',
                                        .read = read_share,
                                        .into = &w.share,
                                        .takes = "percent of a device's time from 0.1 to 100"},
                                       {.name = "job", .letter = 'j', .text = &w.job},
                                       {.name = "join", .text = &w.join},
                                       {.name = "device",
                                        .letter = 'd',
                                        .read = read_devices,
                                        .into = &w.devices,
                                        .takes = "ordinals from 0 to 31 with commas between"},
                                       {.name = "copies", .flag = &w.copies},
                                       {.name = "strict", .flag = &w.strict},
                                       {.name = "overrun", .choice = &w.overrun, .names = overrun_names},
                                       {.name = "overrun-after",
                                        .read = read_time,
                                        .into = &w.overrun_ms,
                                        .takes = "a time like 30s or 500ms, up to an hour"},
                                       {.name = "verbose", .letter = 'v', .flag = &w.verbose},
                                       {.name = "status", .flag = &w.status},
                                       {.name = "json", .flag = &w.json},
                                       {.name = "watch", .flag = &w.watch},
                                       {.name = "explain", .flag = &w.explain},
                                       {.name = NULL}};
    int status = cli_read_options(argc, argv, table, CLI_ANY_WORDS);
    status = status < 0 ? check(&w, optind < argc) : status;
    if (status >= 0) {
        return status == CLI_USAGE ? OURS : status;
    }
    if (w.explain) {
        return cli_limit_explain();
    }
    return w.status ? cli_limit_status(w.job, w.json, w.watch) : become(&w, argv + optind);
}

const struct cli_command cli_limit = {
    .name = "limit",
    .arguments = "--share PERCENT [OPTION...] -- PROGRAM [ARGUMENT...]",
    .summary = "run any program with a limit of GPU time",
    .help =
        "The program and its children together use at most that share of each device's time.  They need not "
        "know of\n"
        "Gantry.  It is a limit for programs, not against people: whoever runs them can lift it.\n"
        "  -s, --share PERCENT    of each device's time, from 0.1 to 100\n"
        "  -j, --job NAME         the job's name, or its file; others can join it\n"
        "      --join NAME        join a job that runs, and share its limit\n"
        "  -d, --device LIST      limit these devices alone, by their numbers in the program: 0,2\n"
        "      --copies           charge copies between host and device, too\n"
        "      --strict           do not start a program that cannot be limited\n"
        "      --overrun WHAT     warn of, or kill, a process whose work runs longer than --overrun-after\n"
        "      --overrun-after TIME   30s, 500ms\n"
        "  -v, --verbose          say on stderr which job it is\n"
        "      --status           print the jobs of this user, or the one of --job\n"
        "      --json             --status as JSON\n"
        "      --watch            --status again every second, until it is interrupted\n"
        "      --explain          say what bounds what on this machine\n"
        "The exit status is the program's; 125: the limit could not be made, 126 and 127 as of env(1).\n",
    .main = limit_main,
};
