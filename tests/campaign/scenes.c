/* SPDX-License-Identifier: MIT */
/* The table of scenes.  Samples are among them: they are built into this program, with their main() under
 * another name, and run on inputs that are small enough for thousands of runs. */
#include "tests/campaign/scene.h"

#include "cli/command.h"
#include "cli/samples.h"
#include "samples/image_pipeline/png_io.h"

#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int fork_join_main(int argc, char **argv);
int hello_graph_main(void);
int host_pool_main(void);
extern const struct gantry_sample gantry_sample_image_pipeline;
extern const struct gantry_sample gantry_sample_scale_vector;
extern const struct gantry_sample gantry_sample_critical_latency, gantry_sample_proof_pipeline;
extern const struct gantry_sample gantry_sample_two_tenants;

/* A main() without a return statement, which only a main() may leave out: its value must not be used. */
static int run_hello_graph(void)
{
    (void)hello_graph_main();
    return 0;
}

static int run_host_pool(void)
{
    return host_pool_main();
}

static int run_main(int (*program)(int argc, char **argv), const char *const *words)
{
    char *argv[24];
    int argc = 0;
    for (; words[argc] != NULL; argc++) {
        argv[argc] = strdup(words[argc]);
    }
    argv[argc] = NULL;
    optind = 0; /* GNU: this starts over */
    int status = program(argc, argv);
    while (argc > 0) {
        free(argv[--argc]);
    }
    return status;
}

static int run_fork_join(void)
{
    const char *const words[] = {"fork_join", "--count", "5000", "--leaf", "300", "--workers", "2", NULL};
    return run_main(fork_join_main, words);
}

static int run_scale_vector(void)
{
    const char *const words[] = {"scale_vector", NULL};
    return run_main(gantry_sample_scale_vector.main, words);
}

static int run_critical_latency(void)
{
    const char *const words[] = {"critical_latency", "--samples", "1", "--wait", "hybrid", NULL};
    return run_main(gantry_sample_critical_latency.main, words);
}

static int run_two_tenants(void)
{
    const char *const words[] = {"two_tenants", "--driver",    "emulated", "--seconds",
                                 "0.01",        "--kernel-us", "100",      NULL};
    return run_main(gantry_sample_two_tenants.main, words);
}

static int run_proof_pipeline(void)
{
    const char *const words[] = {"proof_pipeline",
                                 "-d",
                                 "emulated",
                                 "-c",
                                 "2",
                                 "-w",
                                 "2",
                                 "-r",
                                 "1",
                                 "-p",
                                 "1",
                                 "--rows-log2",
                                 "4",
                                 "--entries",
                                 "2",
                                 "--window-bits",
                                 "2",
                                 "--reclaim",
                                 "bounded",
                                 NULL};
    return run_main(gantry_sample_proof_pipeline.main, words);
}

/* ---- image pipeline -------------------------------------------------------------------------- */

enum { SIDE = 24 };

/* The scene runs in a folder of this process; the result files that are there afterwards must be whole. */
static void check_results(const char *folder)
{
    DIR *files = opendir(folder);
    for (struct dirent *entry; files != NULL && (entry = readdir(files)) != NULL;) {
        char path[512], error[IMAGE_ERROR_BYTES];
        (void)snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] == '.') {
            continue;
        }
        struct image_reader *reader = NULL;
        uint8_t rgb[3 * SIDE * SIDE];
        bool is_image = strstr(entry->d_name, ".png") != NULL;
        if (is_image && (!image_reader_open(path, &reader, error) || image_reader_width(reader) != SIDE ||
                         image_reader_height(reader) != SIDE || !image_reader_read(reader, rgb, error))) {
            scene_broken("%s is not a whole picture: %s", entry->d_name, error);
        }
        image_reader_close(reader);
        (void)unlink(path);
    }
    if (files != NULL) {
        (void)closedir(files);
    }
}

static int run_image_pipeline(void)
{
    char in[64], out[64], photo[96], error[IMAGE_ERROR_BYTES];
    uint8_t gray[SIDE * SIDE];
    for (int i = 0; i < SIDE * SIDE; i++) {
        gray[i] = (uint8_t)(i * 7);
    }
    (void)snprintf(in, sizeof(in), "campaign-%ld.in", (long)getpid());
    (void)snprintf(out, sizeof(out), "campaign-%ld.out", (long)getpid());
    (void)snprintf(photo, sizeof(photo), "%s/photo.png", in);
    if ((mkdir(in, 0777) != 0 && errno != EEXIST) || !image_write_gray(photo, gray, SIDE, SIDE, error)) {
        scene_broken("the photo cannot be written");
    }
    const char *const words[] = {"image_pipeline", "-i", in,  "-o", out, "-d",
                                 "emulated",       "-w", "2", "-r", "2", NULL};
    int status = run_main(gantry_sample_image_pipeline.main, words);
    (void)unlink(photo);
    (void)rmdir(in);
    check_results(out);
    (void)rmdir(out);
    return status;
}

const struct scene scenes[] = {
    {.name = "graph_streams", .run = scene_graph_streams},
    {.name = "graph_graphs", .run = scene_graph_graphs},
    {.name = "graph_auto", .run = scene_graph_auto},
    {.name = "graph_device_wide", .run = scene_graph_device_wide},
    {.name = "graph_frozen", .run = scene_graph_frozen},
    {.name = "graph_profile", .run = scene_graph_profile, .names = 1},
    {.name = "graph_recorded", .run = scene_graph_recorded, .names = 1},
    {.name = "heap", .run = scene_heap},
    {.name = "copies", .run = scene_copies},
    {.name = "taskman", .run = scene_taskman},
    {.name = "sharing", .run = scene_sharing},
    {.name = "modules", .run = scene_modules},
    {.name = "partitions", .run = scene_partitions},
    {.name = "audit", .run = scene_audit, .most = 40},
    {.name = "replay", .run = scene_replay},
    {.name = "memory", .run = scene_memory},
    {.name = "abandon", .run = scene_abandon},
    {.name = "random", .run = scene_random, .names = 1},
    {.name = "whole", .run = scene_whole, .names = 2},
    {.name = "limited", .run = scene_limited, .names = 1},
    {.name = "cancelled", .run = scene_cancelled, .names = 1},
    {.name = "adopted", .run = scene_adopted, .names = 2},
    {.name = "sample_hello_graph", .run = run_hello_graph, .may_exit = true},
    {.name = "sample_fork_join", .run = run_fork_join},
    {.name = "sample_host_pool", .run = run_host_pool, .once = true},
    {.name = "sample_scale_vector", .run = run_scale_vector},
    {.name = "sample_image_pipeline", .run = run_image_pipeline, .names = 8},
    {.name = "sample_critical_latency", .run = run_critical_latency, .most = 40},
    {.name = "sample_proof_pipeline", .run = run_proof_pipeline},
    {.name = "sample_two_tenants", .run = run_two_tenants, .most = 40},
    {.name = NULL},
};
