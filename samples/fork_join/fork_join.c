/* SPDX-License-Identifier: MIT */
/* Fork and join on the CPU: sums the numbers of an array by halving it again and again.
 *
 * Each half is a light task that is made while the graph runs.  A fork makes three of them: the two
 * halves, and the join that adds up their sums.  The halves' continuation is the join; the join's is
 * whatever waits for this part: its parent's join, or at the top the task that prints the result. */
#include <gantry/gantry.h>

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct part {
    const uint32_t *numbers;
    size_t count;
    size_t leaf; /* parts of at most this many numbers are summed in one go */
    uint64_t sum;
    gantry_task *then;   /* what waits for `sum` */
    struct part *halves; /* two, while they are being summed */
};

static gantry_status fork_part(gantry_task *task, void *arg);

static gantry_status join_halves(gantry_task *task, void *arg)
{
    (void)task;
    struct part *part = arg;
    part->sum = part->halves[0].sum + part->halves[1].sum;
    free(part->halves);
    part->halves = NULL;
    return GANTRY_OK;
}

/* Make and let go of the tasks of both halves and of their join. */
static gantry_status fork_halves(gantry_taskman *manager, struct part *part)
{
    gantry_task *join = NULL;
    gantry_status status = gantry_taskman_create_light(manager, join_halves, part, "join", part->then, &join);
    if (status != GANTRY_OK) {
        return status;
    }
    for (int i = 0; i < 2 && status == GANTRY_OK; i++) {
        gantry_task *half = NULL;
        part->halves[i].then = join;
        status = gantry_taskman_create_light(manager, fork_part, &part->halves[i], "fork", join, &half);
        if (status == GANTRY_OK) {
            gantry_task_remove_reference(half);
        }
    }
    gantry_task_remove_reference(join); /* it starts after its halves */
    return status;
}

static gantry_status fork_part(gantry_task *task, void *arg)
{
    struct part *part = arg;
    if (part->count <= part->leaf) {
        for (size_t i = 0; i < part->count; i++) {
            part->sum += part->numbers[i];
        }
        return GANTRY_OK;
    }
    part->halves = calloc(2, sizeof(*part->halves));
    if (part->halves == NULL) {
        return GANTRY_ERR_OUT_OF_HOST_MEMORY;
    }
    size_t middle = part->count / 2;
    part->halves[0] = (struct part){.numbers = part->numbers, .count = middle, .leaf = part->leaf};
    part->halves[1] =
        (struct part){.numbers = part->numbers + middle, .count = part->count - middle, .leaf = part->leaf};
    return fork_halves(gantry_task_manager(task), part);
}

static gantry_status print_sum(gantry_task *task, void *arg)
{
    (void)task;
    const struct part *whole = arg;
    printf("sum of %zu numbers: %" PRIu64 "\n", whole->count, whole->sum);
    return GANTRY_OK;
}

/* What joins that did not run, because something failed, have left. */
static void free_halves(struct part *part)
{
    if (part->halves != NULL) {
        free_halves(&part->halves[0]);
        free_halves(&part->halves[1]);
        free(part->halves);
        part->halves = NULL;
    }
}

/* One step: the top part before the task that prints. */
static gantry_status run(gantry_taskman *manager, struct part *whole)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.name = "print";
    desc.run = print_sum;
    desc.arg = whole;
    gantry_task *top = NULL;
    gantry_status status = gantry_taskman_submit(manager, &desc, &whole->then);
    if (status != GANTRY_OK) {
        return status;
    }
    status = gantry_taskman_create_light(manager, fork_part, whole, "fork", whole->then, &top);
    if (status != GANTRY_OK) {
        return status;
    }
    gantry_task_remove_reference(top);
    status = gantry_taskman_start(manager);
    return status != GANTRY_OK ? status : gantry_taskman_stop(manager);
}

static gantry_status run_on_pool(uint32_t workers, struct part *whole, uint64_t *tasks)
{
    gantry_cpu_dispatcher_options pool_options = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    pool_options.worker_count = workers;
    gantry_cpu_dispatcher *pool = NULL;
    gantry_status status = gantry_cpu_dispatcher_create(&pool_options, &pool);
    if (status != GANTRY_OK) {
        return status;
    }
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    options.cpu_dispatcher = pool;
    gantry_taskman *manager = NULL;
    status = gantry_taskman_create(&options, &manager);
    if (status != GANTRY_OK) {
        goto destroy_pool;
    }
    status = run(manager, whole);
    if (status == GANTRY_OK) {
        gantry_taskman_stats stats = {.struct_size = sizeof(stats)};
        status = gantry_taskman_get_stats(manager, &stats);
        *tasks = stats.tasks;
    }
    gantry_taskman_destroy(manager);
    free_halves(whole);
destroy_pool:
    gantry_cpu_dispatcher_destroy(pool);
    return status;
}

/* ---- the command line ------------------------------------------------------------------------ */

struct arguments {
    unsigned long count, leaf, workers;
};

static void print_usage(FILE *file)
{
    fputs("usage: fork_join [--count N] [--leaf N] [--workers N]\n"
          "  --count N    how many numbers to sum, 1 to 100000000 (10000000)\n"
          "  --leaf N     largest part that is not divided further, 1 to 100000000 (4096)\n"
          "  --workers N  threads, 0 to 256 (0: one per usable CPU)\n"
          "Exit status: 0 when the sum is right, 1 when it is not or something failed, 2 for wrong "
          "arguments.\n",
          file);
}

static bool parse_number(const char *option, const char *text, unsigned long least, unsigned long most,
                         unsigned long *out)
{
    char *end = NULL;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || value < least || value > most) {
        fprintf(stderr, "fork_join: --%s wants a number from %lu to %lu, not '%s'\n", option, least, most,
                text);
        return false;
    }
    *out = value;
    return true;
}

/* -1: run; else the exit status. */
static int parse_arguments(int argc, char **argv, struct arguments *arguments)
{
    static const struct option options[] = {
        {"count", required_argument, NULL, 'c'},
        {"leaf", required_argument, NULL, 'l'},
        {"workers", required_argument, NULL, 'w'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        bool is_good = false;
        if (option == 'c') {
            is_good = parse_number("count", optarg, 1, 100000000, &arguments->count);
        } else if (option == 'l') {
            is_good = parse_number("leaf", optarg, 1, 100000000, &arguments->leaf);
        } else if (option == 'w') {
            is_good = parse_number("workers", optarg, 0, 256, &arguments->workers);
        } else if (option == 'h') {
            print_usage(stdout);
            return 0;
        }
        if (!is_good) {
            print_usage(stderr);
            return 2;
        }
    }
    if (optind != argc) {
        fprintf(stderr, "fork_join: unexpected argument '%s'\n", argv[optind]);
        print_usage(stderr);
        return 2;
    }
    return -1;
}

/* The exit status. */
static int sum_up(const struct arguments *arguments)
{
    uint32_t *numbers = malloc(arguments->count * sizeof(*numbers));
    if (numbers == NULL) {
        fprintf(stderr, "fork_join: no memory for %lu numbers\n", arguments->count);
        return 1;
    }
    uint32_t random = 1;
    uint64_t expected = 0, tasks = 0;
    for (size_t i = 0; i < arguments->count; i++) {
        random = random * 1664525u + 1013904223u;
        numbers[i] = random;
        expected += random;
    }
    struct part whole = {.numbers = numbers, .count = arguments->count, .leaf = arguments->leaf};
    gantry_status status = run_on_pool((uint32_t)arguments->workers, &whole, &tasks);
    free(numbers);
    if (status != GANTRY_OK) {
        fprintf(stderr, "fork_join: %s\n", gantry_last_error());
        return 1;
    }
    bool is_right = whole.sum == expected;
    printf("%s: one loop says %" PRIu64 "; %" PRIu64 " tasks\n", is_right ? "right" : "WRONG", expected,
           tasks);
    return is_right && fflush(stdout) == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct arguments arguments = {.count = 10000000, .leaf = 4096, .workers = 0};
    int exit_status = parse_arguments(argc, argv, &arguments);
    return exit_status >= 0 ? exit_status : sum_up(&arguments);
}
