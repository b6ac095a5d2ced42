/* SPDX-License-Identifier: MIT */
#include "tests/support/weak_memory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

enum { THREADS = 3, BUFFERED = 16, CHOICES = 4096, STACK = 64 * 1024 };

struct store {
    volatile void *address;
    uintptr_t value;
    bool is_release;
};

struct thread {
    void (*body)(void);
    ucontext_t context;
    char *stack;
    bool ended;
    struct store buffer[BUFFERED];
    unsigned buffered;
};

static struct {
    struct thread threads[THREADS];
    ucontext_t home;
    int current;   /* -1: not simulated */
    unsigned left; /* decisions that differ from the usual course */
    /* The course of this execution: at each point one of `of` ways was taken.  The ways that are given are
     * taken again. */
    struct {
        unsigned taken, of;
    } course[CHOICES];
    unsigned length, known;
} sim = {.current = -1};

static uintptr_t read_word(const volatile void *address)
{
    return *(const volatile uintptr_t *)address;
}

static void write_word(volatile void *address, uintptr_t value)
{
    *(volatile uintptr_t *)address = value;
}

/* Choose the execution's next way out of so many. */
static unsigned choose(unsigned of)
{
    assert(sim.length < CHOICES);
    if (sim.length == sim.known) {
        sim.course[sim.known++].taken = 0;
    }
    sim.course[sim.length].of = of;
    return sim.course[sim.length++].taken;
}

/* Go on to the next course that was not taken; false: all were. */
static bool next_course(void)
{
    sim.known = sim.length;
    while (sim.known > 0 && sim.course[sim.known - 1].taken + 1 == sim.course[sim.known - 1].of) {
        sim.known--;
    }
    if (sim.known == 0) {
        return false;
    }
    sim.course[sim.known - 1].taken++;
    return true;
}

/* May store `i` reach memory before those in front of it? */
static bool may_leave(const struct thread *thread, unsigned i)
{
    for (unsigned k = 0; k < i; k++) {
        if (thread->buffer[i].is_release || thread->buffer[k].address == thread->buffer[i].address) {
            return false;
        }
    }
    return true;
}

static void leave(struct thread *thread, unsigned i)
{
    write_word(thread->buffer[i].address, thread->buffer[i].value);
    thread->buffered--;
    memmove(&thread->buffer[i], &thread->buffer[i + 1], (thread->buffered - i) * sizeof(thread->buffer[0]));
}

static void empty(struct thread *thread)
{
    while (thread->buffered > 0) {
        leave(thread, 0);
    }
}

static void go_to(int thread)
{
    int before = sim.current;
    sim.current = thread;
    swapcontext(&sim.threads[before].context, &sim.threads[thread].context);
}

/* This is called before each access: the thread goes on, or a store of any thread reaches memory, or another
 * thread goes on. */
static void decide(void)
{
    while (sim.left > 0) {
        struct {
            int thread, store;
        } ways[1 + THREADS + THREADS * BUFFERED];
        unsigned count = 1;
        for (int t = 0; t < THREADS; t++) {
            struct thread *thread = &sim.threads[t];
            if (t != sim.current && thread->body != NULL && !thread->ended) {
                ways[count].thread = t;
                ways[count++].store = -1;
            }
            for (unsigned i = 0; i < thread->buffered; i++) {
                if (may_leave(thread, i)) {
                    ways[count].thread = t;
                    ways[count++].store = (int)i;
                }
            }
        }
        unsigned way = choose(count);
        if (way == 0) {
            return;
        }
        sim.left--;
        if (ways[way].store < 0) {
            go_to(ways[way].thread);
            return; /* another thread has decided that it is our turn */
        }
        leave(&sim.threads[ways[way].thread], (unsigned)ways[way].store);
    }
}

uintptr_t weak_load(const volatile void *address)
{
    if (sim.current < 0) {
        return read_word(address);
    }
    decide();
    struct thread *self = &sim.threads[sim.current];
    for (unsigned i = self->buffered; i > 0; i--) {
        if (self->buffer[i - 1].address == address) {
            return self->buffer[i - 1].value;
        }
    }
    return read_word(address);
}

void weak_store(volatile void *address, uintptr_t value, memory_order order)
{
    if (sim.current < 0) {
        write_word(address, value);
        return;
    }
    decide();
    struct thread *self = &sim.threads[sim.current];
    if (order == memory_order_seq_cst) {
        empty(self);
        write_word(address, value);
        return;
    }
    assert(self->buffered < BUFFERED);
    self->buffer[self->buffered++] = (struct store){address, value, order != memory_order_relaxed};
}

bool weak_exchange_if(volatile void *address, void *expected, uintptr_t value)
{
    if (sim.current >= 0) {
        decide();
        empty(&sim.threads[sim.current]);
    }
    uintptr_t is = read_word(address);
    if (memcmp(&is, expected, sizeof(is)) != 0) {
        memcpy(expected, &is, sizeof(is));
        return false;
    }
    write_word(address, value);
    return true;
}

/* A thread has ended: any of the others goes on. */
static void run_thread(void)
{
    sim.threads[sim.current].body();
    sim.threads[sim.current].ended = true;
    int others[THREADS];
    unsigned count = 0;
    for (int t = 0; t < THREADS; t++) {
        if (sim.threads[t].body != NULL && !sim.threads[t].ended) {
            others[count++] = t;
        }
    }
    if (count != 0) {
        go_to(others[choose(count)]);
    }
    (void)setcontext(&sim.home);
}

static const char *execute(const struct weak_scene *scene, unsigned decisions)
{
    scene->begin();
    sim.length = 0;
    sim.left = decisions;
    for (int t = 0; t < THREADS; t++) {
        struct thread *thread = &sim.threads[t];
        thread->body = scene->threads[t];
        thread->ended = false;
        thread->buffered = 0;
        (void)getcontext(&thread->context);
        thread->context.uc_stack.ss_sp = thread->stack;
        thread->context.uc_stack.ss_size = STACK;
        thread->context.uc_link = NULL;
        makecontext(&thread->context, run_thread, 0);
    }
    sim.current = 0;
    swapcontext(&sim.home, &sim.threads[0].context);
    sim.current = -1;
    for (int t = 0; t < THREADS; t++) {
        empty(&sim.threads[t]);
    }
    return scene->check();
}

const char *weak_explore(const struct weak_scene *scene, unsigned decisions, uint64_t *out_executions)
{
    const char *wrong = NULL;
    *out_executions = 0;
    for (int t = 0; t < THREADS; t++) {
        sim.threads[t].stack = malloc(STACK);
        assert(sim.threads[t].stack != NULL);
    }
    sim.known = 0;
    do {
        ++*out_executions;
        wrong = execute(scene, decisions);
    } while (wrong == NULL && next_course());
    for (int t = 0; t < THREADS; t++) {
        free(sim.threads[t].stack);
    }
    return wrong;
}
