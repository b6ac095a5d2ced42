/* How the dispatcher's thread waits for work. */
#include "base/clock.h"
#include "dispatcher/internal.h"
#include "taskman/cpu/patience.h"

/* How long to spin, in a wait mode that does at all, before sleeping. */
enum {
    IDLE_NS = 20000,       /* between steps: about what a sleep and a wake-up take */
    STEP_NS = 200000,      /* while a step is open: most likely more is to come */
    ANNOUNCED_NS = 500000, /* from the first task of a step: most likely it is started by then */
    ADAPTIVE_NS = 4000000  /* adaptive: at most */
};

/* How long to look for tasks at least. */
static uint64_t least_patience(struct gantry_dispatcher *d, uint64_t now)
{
    if (atomic_load_explicit(&d->open_steps, memory_order_relaxed) != 0) {
        return STEP_NS;
    }
    uint64_t announced = atomic_load_explicit(&d->announced_ns, memory_order_relaxed);
    bool is_built = announced != 0 && now < announced + ANNOUNCED_NS;
    return is_built ? announced + ANNOUNCED_NS - now : IDLE_NS;
}

static void await_tasks(struct gantry_dispatcher *d, uint32_t seen, bool tasks_too, uint64_t until_ns)
{
    bool is_adaptive = d->config.wait == GANTRY_WAIT_ADAPTIVE;
    if (!is_adaptive && d->config.wait != GANTRY_WAIT_HYBRID) {
        gy_inbox_wait(&d->inbox, seen, tasks_too, d->config.wait, 0, until_ns);
        return;
    }
    uint64_t begin = gy_clock_ns();
    uint64_t least = least_patience(d, begin);
    uint64_t patience = is_adaptive && d->patience_ns > least ? d->patience_ns : least;
    gy_inbox_wait(&d->inbox, seen, tasks_too, d->config.wait, patience, until_ns);
    if (is_adaptive) {
        d->patience_ns = gy_patience_after(d->patience_ns, gy_clock_ns() - begin, ADAPTIVE_NS);
    }
}

void gy_gd_wait(struct gantry_dispatcher *d, uint32_t seen, bool tasks_too)
{
    uint64_t deadline = gy_shares_any(&d->shares) ? gy_shares_deadline(&d->shares) : 0;
#ifdef GANTRY_TESTING
    if (deadline != 0 && gy_share_test_clock != NULL) {
        gy_share_test_clock->sleep_until(deadline);
        return;
    }
#endif
    await_tasks(d, seen, tasks_too, deadline);
}
