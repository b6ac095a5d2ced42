#include "samples/image_pipeline/progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define REDRAW_NS 50000000u
#define ERASE_LINE "\r\033[K"

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

bool progress_init(struct progress *progress, size_t total)
{
    *progress = (struct progress){.total = total, .terminal = isatty(STDERR_FILENO) == 1};
    return pthread_mutex_init(&progress->lock, NULL) == 0;
}

static void erase_locked(struct progress *progress)
{
    if (progress->shown) {
        fputs(ERASE_LINE, stderr);
        progress->shown = false;
    }
}

void progress_fini(struct progress *progress)
{
    erase_locked(progress);
    pthread_mutex_destroy(&progress->lock);
}

static void draw_locked(struct progress *progress)
{
    uint64_t now = now_ns();
    if (!progress->terminal || (progress->shown && now - progress->shown_ns < REDRAW_NS)) {
        return;
    }
    const size_t *counts = progress->counts;
    fprintf(stderr, ERASE_LINE "%zu of %zu photos done", counts[PROGRESS_DONE], progress->total);
    if (counts[PROGRESS_FAILED] > 0) {
        fprintf(stderr, ", %zu failed", counts[PROGRESS_FAILED]);
    }
    if (counts[PROGRESS_SKIPPED] > 0) {
        fprintf(stderr, ", %zu skipped", counts[PROGRESS_SKIPPED]);
    }
    /* Back to the beginning: a log line of the library then overwrites the line instead of joining it. */
    fputs("\r", stderr);
    fflush(stderr);
    progress->shown = true;
    progress->shown_ns = now;
}

void progress_advance(struct progress *progress, enum progress_outcome outcome)
{
    pthread_mutex_lock(&progress->lock);
    progress->counts[outcome]++;
    draw_locked(progress);
    pthread_mutex_unlock(&progress->lock);
}

void progress_report(struct progress *progress, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    pthread_mutex_lock(&progress->lock);
    erase_locked(progress);
    fputs("image_pipeline: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    pthread_mutex_unlock(&progress->lock);
    va_end(args);
}
