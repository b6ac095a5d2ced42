/* SPDX-License-Identifier: MIT */
#include "cli/ticker.h"

#include "cli/messages.h"

#include <time.h>

static void *tick(void *arg)
{
    struct cli_ticker *ticker = arg;
    struct timespec until;
    unsigned seconds = 0;
    clock_gettime(CLOCK_REALTIME, &until);
    pthread_mutex_lock(&ticker->lock);
    while (!ticker->ends) {
        until.tv_sec++;
        while (!ticker->ends && pthread_cond_timedwait(&ticker->ended, &ticker->lock, &until) == 0) {
        }
        if (!ticker->ends) {
            cli_progress("%s: %u s, Ctrl-C ends this", ticker->what, ++seconds);
        }
    }
    pthread_mutex_unlock(&ticker->lock);
    return NULL;
}

void cli_ticker_begin(struct cli_ticker *ticker, const char *what)
{
    *ticker = (struct cli_ticker){.what = what};
    pthread_mutex_init(&ticker->lock, NULL);
    pthread_cond_init(&ticker->ended, NULL);
    ticker->runs = pthread_create(&ticker->thread, NULL, tick, ticker) == 0;
}

void cli_ticker_end(struct cli_ticker *ticker)
{
    pthread_mutex_lock(&ticker->lock);
    ticker->ends = true;
    pthread_cond_signal(&ticker->ended);
    pthread_mutex_unlock(&ticker->lock);
    if (ticker->runs) {
        pthread_join(ticker->thread, NULL);
        cli_progress_end();
    }
    pthread_cond_destroy(&ticker->ended);
    pthread_mutex_destroy(&ticker->lock);
}
