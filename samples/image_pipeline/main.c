/* SPDX-License-Identifier: MIT */
/* image_pipeline: a folder of photos through the device and back, as one task graph.
 *
 * Read pipeline.h for the graph, pipeline.c for its tasks, gpu_stages.c for what they launch, run.c for
 * everything around them. */
#include "cli/messages.h"
#include "cli/samples.h"
#include "samples/image_pipeline/options.h"
#include "samples/image_pipeline/run.h"
#include "samples/image_pipeline/summary.h"

#include <signal.h>
#include <stdio.h>

#define EXIT_INTERRUPTED 130

static atomic_bool interrupted; /* atomic; set by the signal handler, never goes back to false */

static void on_signal(int signal)
{
    (void)signal;
    atomic_store(&interrupted, true);
}

/* The first Ctrl-C ends the run after the photos in flight; a second one ends the process. */
static void catch_interrupts(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

static int process(const struct options *options, struct photo_list *photos)
{
    struct run run;
    bool good = run_open(&run, options, photos, &interrupted);
    int failed = good ? 1 : run.exit_status;
    if (good) {
        good = run_graph(&run);
        summary_print(&run);
        good = good && run.progress.counts[PROGRESS_FAILED] == 0 && photos->refused == 0;
    }
    run_close(&run);
    if (atomic_load(&interrupted)) {
        cli_note("image_pipeline: interrupted; the photos that had begun were finished");
        return EXIT_INTERRUPTED;
    }
    return good ? 0 : failed;
}

static int image_pipeline_main(int argc, char **argv)
{
    struct options options;
    int status = options_read(argc, argv, &options);
    if (status >= 0) {
        return status;
    }
    catch_interrupts();
    struct photo_list photos;
    if (!photos_find(options.input, options.output, &photos)) {
        return 1;
    }
    status = 1;
    if (photos_prepare_output(options.input, options.output)) {
        status = process(&options, &photos);
    }
    photos_free(&photos);
    return status;
}

const struct gantry_sample gantry_sample_image_pipeline = {
    .name = "image_pipeline",
    .summary = "edges and contrast of a folder of photos",
    .main = image_pipeline_main,
    .handles_interrupts = true,
};
