/* SPDX-License-Identifier: MIT */
/* Makes it possible to run many programs per second: threads that cost little, turns for threads that spin,
 * and one processor for all of these. */
#include "tests/campaign/crossing.h"

#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    /* glibc keeps 40 MiB of stacks for the next threads: that is more than a program has */
    STACK = 256 << 10,
    ARENAS = 2, /* arenas of malloc(); one per thread would have to be mapped again in each program */
    TURN_NS = 100000,
    ENOUGH_PROCESSORS = 12, /* one for each thread that spins */
    ABOUT_PLACE = 6000
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t change;
    atomic_bool on;
    atomic_int only; /* the processor that the program keeps to; -1: all */
} beat = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, -1};

static cpu_set_t place; /* the attributes of the program's first thread, when it keeps to one processor */
static bool has_place;

/* How long the calling thread, and threads that it makes from now on, keep a processor that others want.
 * Linux before 6.12 has one length for all; then only time is lost. */
static void set_turn(uint64_t ns)
{
    struct { /* sched_attr */
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
    } attributes;
    memset(&attributes, 0, sizeof(attributes));
    attributes.size = sizeof(attributes);
    attributes.nice = getpriority(PRIO_PROCESS, 0);
    attributes.runtime = ns;
    (void)syscall(SYS_sched_setattr, 0, &attributes, 0);
}

static bool beats_on(size_t cpu)
{
    int only = atomic_load(&beat.only);
    return atomic_load(&beat.on) && (only < 0 || (size_t)only == cpu);
}

/* The scheduler looks whether a turn is over when something happens on the processor, else every 4 ms: this
 * thread makes something happen. */
static void *keep_time(void *arg)
{
    const struct timespec turn = {0, TURN_NS};
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((size_t)(uintptr_t)arg, &one);
    if (sched_setaffinity(0, sizeof(one), &one) != 0) {
        return NULL;
    }
    (void)prctl(PR_SET_TIMERSLACK, 1UL);
    set_turn(TURN_NS);
    for (;;) {
        pthread_mutex_lock(&beat.lock);
        while (!beats_on((size_t)(uintptr_t)arg)) {
            pthread_cond_wait(&beat.change, &beat.lock);
        }
        pthread_mutex_unlock(&beat.lock);
        while (beats_on((size_t)(uintptr_t)arg)) {
            (void)nanosleep(&turn, NULL);
        }
    }
    return NULL;
}

/* Choose one of the processors that this process may use. */
static void begin_beat(void)
{
    static bool has_begun;
    cpu_set_t all;
    if (has_begun || sched_getaffinity(0, sizeof(all), &all) != 0) {
        return;
    }
    has_begun = true;
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        pthread_t thread;
        if (CPU_ISSET(cpu, &all) && pthread_create(&thread, NULL, keep_time, (void *)(uintptr_t)cpu) == 0) {
            (void)pthread_detach(thread);
        }
    }
}

uint32_t cross_processors(void)
{
    cpu_set_t all;
    int count = sched_getaffinity(0, sizeof(all), &all) == 0 ? CPU_COUNT(&all) : 1;
    return count > 0 ? (uint32_t)count : 1;
}

void cross_pace_open(void)
{
    pthread_attr_t attributes;
    if (CROSS_SANITIZED) { /* its threads need more */
        return;
    }
    (void)mallopt(M_ARENA_MAX, ARENAS);
    if (pthread_attr_init(&attributes) == 0) {
        if (pthread_attr_setstacksize(&attributes, STACK) == 0) {
            (void)pthread_setattr_default_np(&attributes);
        }
        (void)pthread_attr_destroy(&attributes);
    }
}

/* While nothing happens, threads that spin take up all processors that they may use; on one of them they
 * take turns with the threads for which they wait.  One program in eight has all processors: there they run
 * at the same time. */
static void keep_to_one(const struct cross_program *program)
{
    cpu_set_t all, one;
    if (cross_pick(program, ABOUT_PLACE, 0, 8) == 0 || sched_getaffinity(0, sizeof(all), &all) != 0) {
        return;
    }
    size_t wanted = (size_t)getpid() % (size_t)CPU_COUNT(&all), cpu = 0;
    while (!CPU_ISSET(cpu, &all) || wanted-- > 0) {
        cpu++;
    }
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (sched_setaffinity(0, sizeof(one), &one) == 0) { /* also of the threads that it makes */
        place = all;
        has_place = true;
        atomic_store(&beat.only, (int)cpu);
    }
}

void cross_pace_begin(const struct cross_program *program)
{
    if (!(cross_has(program, VALUE_GPU_SPIN) || cross_has(program, VALUE_CPU_SPIN)) || cross_is_device() ||
        cross_processors() >= ENOUGH_PROCESSORS) {
        return;
    }
    begin_beat();
    keep_to_one(program);
    set_turn(TURN_NS);
    pthread_mutex_lock(&beat.lock);
    atomic_store(&beat.on, true);
    pthread_cond_broadcast(&beat.change);
    pthread_mutex_unlock(&beat.lock);
}

void cross_pace_end(void)
{
    if (atomic_exchange(&beat.on, false)) {
        set_turn(0);
    }
    if (has_place) {
        (void)sched_setaffinity(0, sizeof(place), &place);
        has_place = false;
        atomic_store(&beat.only, -1);
    }
}
