/* SPDX-License-Identifier: MIT */
/* The differential fuzz of the driver table: random sequences of its calls, with a record of what each said.
 *
 * Usage: differential [--driver emulated|cuda] [--seed N] [--sequences FROM-TO] [--processes N] [--seconds S]
 * --out DIR
 *
 * Each process runs a part of the sequences, and writes DIR/record.<number> when one has ended.  One that a
 * call ends, or that hangs, is noted and made anew behind that sequence; no process makes the same call
 * again. Exit status: 0, also when calls ended processes; 1: a usage error, or a process that could not
 * begin. */
#include "tests/conformance/differential/ops.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_PROCESSES = 64, OPERATIONS = 100, HANGS_AFTER_S = 20, CANNOT_BEGIN = 4 };

struct options {
    const char *driver, *out;
    uint64_t seed;
    uint32_t from, to, processes;
    double seconds;
};

/* One process, as its parent sees it. */
struct process {
    pid_t pid; /* 0: it has ended, and is not needed any more */
    uint32_t next;
    int file;
    uint64_t first; /* calls before it began */
    uint64_t calls; /* when it was last looked at, and when they last grew */
    double grew;
    struct df_progress *progress;
};

static const struct df_op *const groups[] = {
#define X(group) df_ops_##group,
    DF_GROUPS(X)
#undef X
};

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* ---- the second thread ------------------------------------------------------------------------ */

static struct {
    sem_t begin, end;
    void (*run)(void);
} aside;

static void *run_aside(void *unused)
{
    for (;;) {
        while (sem_wait(&aside.begin) != 0) {
        }
        aside.run();
        sem_post(&aside.end);
    }
    return unused;
}

static void on_second_thread(void (*run)(void))
{
    aside.run = run;
    sem_post(&aside.begin);
    while (sem_wait(&aside.end) != 0) {
    }
}

static void make_primary_current(void)
{
    (void)cu->cuCtxSetCurrent(w.primary);
}

static void leave_second_thread(void)
{
    df_world_leave_thread(false);
}

/* Sequences have one group for many of their operations; those beside are of any, or of what belongs to it.
 */
enum group {
#define X(group) GROUP_##group,
    DF_GROUPS(X)
#undef X
};
static const enum group mains[] = {GROUP_device, GROUP_launch, GROUP_stream,  GROUP_copy,
                                   GROUP_memory, GROUP_vmm,    GROUP_capture, GROUP_graph,
                                   GROUP_exec,   GROUP_green,  GROUP_capture, GROUP_exec};
static const enum group others[] = {GROUP_device, GROUP_launch,  GROUP_launch, GROUP_stream,
                                    GROUP_stream, GROUP_copy,    GROUP_copy,   GROUP_memory,
                                    GROUP_vmm,    GROUP_capture, GROUP_graph,  GROUP_exec};
static const enum group of_graphs[] = {GROUP_graph,  GROUP_exec, GROUP_capture,
                                       GROUP_stream, GROUP_copy, GROUP_graph};

static enum group draw_group(enum group main_group, bool has_one_group)
{
    uint32_t is_main = df_below(has_one_group ? 8 : 2), of_all = df_below(4), other = df_below(12),
             graph = df_below(6);
    if (w.has_second && df_below(4) == 0) {
        return GROUP_pair;
    }
    if (is_main != 0) {
        return main_group;
    }
    if (df_one_in(60)) {
        return df_below(2) == 0 ? GROUP_external : GROUP_green;
    }
    const bool is_of_graphs =
        main_group == GROUP_graph || main_group == GROUP_exec || main_group == GROUP_capture;
    return is_of_graphs && of_all != 0 ? of_graphs[graph] : others[other];
}

/* ---- one sequence ------------------------------------------------------------------------------ */

static const struct df_op *draw_operation(const struct df_op *list)
{
    uint32_t all = 0;
    for (const struct df_op *op = list; op->weight != 0; op++) {
        all += op->weight;
    }
    uint32_t at = df_below(all);
    while (at >= list->weight) {
        at -= list->weight;
        list++;
    }
    return list;
}

static void flush(int file)
{
    for (uint32_t done = 0; done < df_progress->length;) {
        ssize_t more = write(file, df_progress->record + done, df_progress->length - done);
        if (more <= 0) {
            fprintf(stderr, "differential: writing a record: %s\n", strerror(errno));
            _exit(CANNOT_BEGIN);
        }
        done += (uint32_t)more;
    }
    df_progress->length = 0;
}

static void (*next)(void);
static bool next_has_context;

/* Most calls have a context: where there is none, half of the operations get one. */
static void run_next(void)
{
    CUcontext current = NULL;
    if (next_has_context && cu->cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == NULL) {
        (void)cu->cuCtxSetCurrent(w.primary);
    }
    next();
}

static void run_sequence(uint64_t seed, uint32_t sequence)
{
    df_seed(seed, sequence << 8);
    const enum group main_group = mains[df_below(sizeof(mains) / sizeof(mains[0]))];
    const bool has_threads = df_below(3) == 0, has_one_group = df_below(3) == 0;
    df_line("# %u", sequence);
    df_world_begin(sequence, df_below(3) != 0, main_group == GROUP_vmm);
    on_second_thread(make_primary_current);
    for (uint32_t i = 0; i < OPERATIONS; i++) {
        /* Anew for each operation: what one draws behind an answer does not shift the next. */
        df_seed(seed, (sequence << 8) + i + 1);
        const struct df_op *op = draw_operation(groups[draw_group(main_group, has_one_group)]);
        const bool is_aside = has_threads && df_below(4) == 0;
        w.picks_stream = false;
        next_has_context = df_below(2) == 0;
        next = op->run;
        df_draw_null();
        if (is_aside) {
            df_shape("t1");
            on_second_thread(run_next);
        } else {
            run_next();
        }
    }
    df_settle();
    df_line("end . 0");
    df_look();
    on_second_thread(leave_second_thread);
    df_world_leave_thread(true);
}

_Noreturn static void run_process(const struct options *options, const struct process *process)
{
    pthread_t thread;
    df_progress = process->progress;
    df_world_open(options->driver);
    sem_init(&aside.begin, 0, 0);
    sem_init(&aside.end, 0, 0);
    if (pthread_create(&thread, NULL, run_aside, NULL) != 0) {
        _exit(CANNOT_BEGIN);
    }
    for (uint32_t i = process->next; i < options->to; i += options->processes) {
        if (w.devices == 1 && df_needs_two_devices(i)) {
            continue;
        }
        df_progress->sequence = i;
        run_sequence(options->seed, i);
        flush(process->file);
    }
    _exit(0);
}

/* ---- all processes ----------------------------------------------------------------------------- */

static void start(const struct options *options, struct process *process)
{
    process->progress->sequence = process->next;
    process->progress->length = 0;
    process->first = process->calls = process->progress->calls;
    process->grew = now() + HANGS_AFTER_S; /* the first context takes its time */
    process->pid = fork();
    if (process->pid == 0) {
        run_process(options, process);
    }
    if (process->pid < 0) {
        fprintf(stderr, "differential: fork: %s\n", strerror(errno));
        exit(1);
    }
}

/* A process has ended: the record gets the sequence as far as it came, and another goes on behind it. */
static bool go_on(const struct options *options, struct process *process, int status, bool hung)
{
    process->pid = 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        return true;
    }
    df_progress = process->progress;
    if (WIFEXITED(status) && WEXITSTATUS(status) == CANNOT_BEGIN) {
        flush(process->file);
        fprintf(stderr, "differential: a process could not go on at sequence %u\n",
                process->progress->sequence);
    }
    if (hung) {
        df_line("hung . H");
    } else if (WIFSIGNALED(status)) {
        df_line("ended . X%d", WTERMSIG(status));
    }
    if (hung || WIFSIGNALED(status)) {
        df_marked[process->progress->mark] = 1;
    }
    flush(process->file);
    bool may_begin = !WIFEXITED(status) || WEXITSTATUS(status) != CANNOT_BEGIN ||
                     process->progress->calls != process->first;
    process->next = process->progress->sequence + options->processes;
    if (process->next < options->to && may_begin) {
        start(options, process);
    }
    return may_begin;
}

static bool watch(const struct options *options, struct process *process)
{
    int status = 0;
    if (process->pid == 0) {
        return true;
    }
    pid_t ended = waitpid(process->pid, &status, WNOHANG);
    if (ended == process->pid) {
        return go_on(options, process, status, false);
    }
    if (process->progress->calls != process->calls) {
        process->calls = process->progress->calls;
        process->grew = now();
    } else if (now() > process->grew + HANGS_AFTER_S) {
        kill(process->pid, SIGKILL);
        waitpid(process->pid, &status, 0);
        return go_on(options, process, status, true);
    }
    return true;
}

static int run(const struct options *options, struct process *processes)
{
    const double begin = now();
    bool is_running = true, is_well = true;
    while (is_running) {
        uint64_t calls = 0;
        is_running = false;
        for (uint32_t i = 0; i < options->processes; i++) {
            is_well &= watch(options, &processes[i]);
            calls += processes[i].progress->calls;
            is_running |= processes[i].pid != 0;
        }
        if (is_running && now() - begin > options->seconds) {
            for (uint32_t i = 0; i < options->processes; i++) {
                processes[i].pid != 0 ? (void)kill(processes[i].pid, SIGKILL) : (void)0;
            }
            printf("the time is up\n");
            is_running = false;
        }
        if (!is_running) {
            printf("%llu calls in %.1f s\n", (unsigned long long)calls, now() - begin);
        }
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    return is_well ? 0 : 1;
}

static void *shared(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        perror("differential: mmap");
        exit(1);
    }
    return memory;
}

static bool parse(int count, char **arguments, struct options *options)
{
    *options = (struct options){.driver = "emulated", .seed = 1, .to = 100, .processes = 1, .seconds = 1e9};
    for (int i = 1; i + 1 < count; i += 2) {
        const char *name = arguments[i];
        char *value = arguments[i + 1], *end = value;
        if (strcmp(name, "--driver") == 0) {
            options->driver = value;
        } else if (strcmp(name, "--out") == 0) {
            options->out = value;
        } else if (strcmp(name, "--seed") == 0) {
            options->seed = strtoull(value, &end, 0);
        } else if (strcmp(name, "--processes") == 0) {
            options->processes = (uint32_t)strtoul(value, &end, 0);
        } else if (strcmp(name, "--seconds") == 0) {
            options->seconds = strtod(value, &end);
        } else if (strcmp(name, "--sequences") == 0) {
            options->from = (uint32_t)strtoul(value, &end, 0);
            options->to = *end == '-' ? (uint32_t)strtoul(end + 1, &end, 0) : 0;
        } else {
            return false;
        }
    }
    return count % 2 == 1 && options->out != NULL && options->processes > 0 &&
           options->processes <= MAX_PROCESSES;
}

int main(int count, char **arguments)
{
    struct options options;
    struct process processes[MAX_PROCESSES];
    if (!parse(count, arguments, &options)) {
        fprintf(stderr, "usage: differential [--driver emulated|cuda] [--seed N] [--sequences FROM-TO] "
                        "[--processes N] [--seconds S] --out DIR\n");
        return 1;
    }
    df_marked = shared(DF_MARKS);
    for (uint32_t i = 0; i < options.processes; i++) {
        char path[4096];
        snprintf(path, sizeof(path), "%s/record.%u", options.out, i);
        processes[i] =
            (struct process){.next = options.from + i, .progress = shared(sizeof(struct df_progress))};
        processes[i].file = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0666);
        if (processes[i].file < 0) {
            fprintf(stderr, "differential: %s: %s\n", path, strerror(errno));
            return 1;
        }
        start(&options, &processes[i]);
    }
    return run(&options, processes);
}
