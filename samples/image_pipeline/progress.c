/* SPDX-License-Identifier: MIT */
#include "samples/image_pipeline/progress.h"

#include "cli/messages.h"

#include <stdarg.h>
#include <stdio.h>

bool progress_init(struct progress *progress, size_t total)
{
    *progress = (struct progress){.total = total};
    return pthread_mutex_init(&progress->lock, NULL) == 0;
}

void progress_fini(struct progress *progress)
{
    cli_progress_end();
    pthread_mutex_destroy(&progress->lock);
}

static void draw_locked(const struct progress *progress)
{
    const size_t *counts = progress->counts;
    char failed[48] = "", skipped[48] = "";
    if (counts[PROGRESS_FAILED] > 0) {
        snprintf(failed, sizeof(failed), ", %zu failed", counts[PROGRESS_FAILED]);
    }
    if (counts[PROGRESS_SKIPPED] > 0) {
        snprintf(skipped, sizeof(skipped), ", %zu skipped", counts[PROGRESS_SKIPPED]);
    }
    cli_progress("%zu of %zu photos done%s%s", counts[PROGRESS_DONE], progress->total, failed, skipped);
}

void progress_advance(struct progress *progress, enum progress_outcome outcome)
{
    pthread_mutex_lock(&progress->lock);
    progress->counts[outcome]++;
    draw_locked(progress);
    pthread_mutex_unlock(&progress->lock);
}

void progress_report(const char *format, ...)
{
    char text[4096 + 512]; /* with a path */
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    cli_error("image_pipeline: %s", text);
}
