/* SPDX-License-Identifier: MIT */
/* Shows on a terminal how long a single call has taken already, where nothing else says how far it is. */
#ifndef CLI_TICKER_H
#define CLI_TICKER_H

#include <pthread.h>
#include <stdbool.h>

struct cli_ticker {
    const char *what; /* immutable */
    pthread_t thread; /* begin and end only */
    bool runs;        /* begin and end only */
    pthread_mutex_t lock;
    pthread_cond_t ended; /* has one waiter, so glibc 2.27 to 2.40 lose no wake-up here */
    bool ends;            /* guarded by lock */
};

/* Until the end, show "WHAT: 12 s, Ctrl-C ends this" with cli_progress(), after a second and then each
 * second. `what` is borrowed.  Does nothing where no thread can be had. */
void cli_ticker_begin(struct cli_ticker *ticker, const char *what);
void cli_ticker_end(struct cli_ticker *ticker);

#endif
