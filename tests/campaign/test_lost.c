/* SPDX-License-Identifier: MIT */
/* A kernel writes through a wild pointer.  The context is reported lost, with the call and the driver's name
 * of the cause and, where the dispatcher is told to be synchronous, the task; every task is released; the
 * process ends as any other; and the next one finds the device as if nothing had happened.
 *
 *   test_campaign_lost           runs itself as these, one process after the other:
 *   test_campaign_lost WAY       a pipeline in that way (see `ways`) in which a kernel goes wrong
 *   test_campaign_lost fine      the same pipeline without
 *
 * On the emulated device, whose kernels are functions of this process, the fault is the emulator's.  The test
 * sees for itself that no process ends by a signal or hangs. */
#include "emulator/gantry_emu.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/gpu_fixture.h"

#include "lost_kernels.kernels.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORDS = 64, LINES = 3, LENGTH = 4, TASKS = LINES * (LENGTH + 2), WRONG_LINE = 1, PATIENCE_S = 90 };

struct way {
    const char *name;
    gantry_submission submission;
    bool synchronous, frozen;
};

static const struct way ways[] = {
    {"streams", GANTRY_SUBMISSION_STREAMS, false, false},
    {"synchronous", GANTRY_SUBMISSION_STREAMS, true, false},
    {"graphs", GANTRY_SUBMISSION_GRAPHS, false, false},
    {"frozen", GANTRY_SUBMISSION_GRAPHS, false, true},
};
enum { WAYS = sizeof(ways) / sizeof(ways[0]) };

static const char wild[] = "the wild one";
static char *program;

/* ---- in the process that goes wrong ---------------------------------------------------------- */

struct line {
    uint32_t *words, *result; /* on the device; page-locked */
    uint32_t *target;         /* the words of the second kernel */
    gantry_kernel *add;
    gantry_task *landed;
};

static atomic_uint releases[TASKS], failures;

static gantry_launch_result launch_add(gantry_launch *launch, void *arg)
{
    const struct line *line = arg;
    bool is_wild = strcmp(gantry_task_label(gantry_launch_task(launch)), wild) == 0;
    void *args[] = {(void *)(uintptr_t)(is_wild ? &line->target : &line->words)};
    gantry_dim3 one = {1, 1, 1}, block = {WORDS, 1, 1};
    return gantry_launch_kernel(launch, line->add, one, block, 0, args) == GANTRY_OK ? GANTRY_LAUNCH_DONE
                                                                                     : GANTRY_LAUNCH_FAILED;
}

static gantry_launch_result launch_clear(gantry_launch *launch, void *arg)
{
    const struct line *line = arg;
    return gantry_launch_fill(launch, line->words, 0, 4, WORDS) == GANTRY_OK ? GANTRY_LAUNCH_DONE
                                                                             : GANTRY_LAUNCH_FAILED;
}

static gantry_launch_result launch_out(gantry_launch *launch, void *arg)
{
    const struct line *line = arg;
    return gantry_launch_copy_dtoh(launch, line->result, line->words, WORDS * 4) == GANTRY_OK &&
                   gantry_launch_add_completion(launch, line->landed) == GANTRY_OK
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

static gantry_status look(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    return GANTRY_OK;
}

static void released(gantry_task *task, void *arg, gantry_status result)
{
    (void)arg;
    atomic_fetch_add(&releases[gantry_task_context_id(task)], 1);
    atomic_fetch_add(&failures, result != GANTRY_OK);
}

static gantry_task *submit(gantry_taskman *manager, struct line *line, uint32_t number, gantry_task *before)
{
    uint32_t place = number % (LENGTH + 2);
    bool is_wild = line->target != line->words && place == 1;
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_task *task = NULL;
    desc.kind = place == LENGTH + 1 ? GANTRY_TASK_CPU
                : place == LENGTH   ? GANTRY_TASK_DTOH
                                    : GANTRY_TASK_KERNEL;
    desc.launch = place == LENGTH ? launch_out : place == 0 ? launch_clear : launch_add;
    desc.label = is_wild ? wild : place < LENGTH ? "a good one" : "result";
    desc.run = place == LENGTH + 1 ? look : NULL;
    desc.launch = desc.run != NULL ? NULL : desc.launch;
    desc.release = released;
    desc.context_id = number;
    desc.arg = line;
    assert_ok(gantry_taskman_submit(manager, &desc, &task));
    if (before != NULL) {
        assert_ok(gantry_task_start_after(task, before));
    }
    return task;
}

static void build(gantry_taskman *manager, struct line *lines)
{
    for (uint32_t l = 0; l < LINES; l++) {
        gantry_task *before = NULL;
        for (uint32_t i = 0; i < LENGTH + 2; i++) {
            before = submit(manager, &lines[l], l * (LENGTH + 2) + i, before);
        }
        lines[l].landed = before;
    }
}

static void open_lines(struct gpu_fixture *f, struct line *lines, bool goes_wrong)
{
    gantry_heap *heap = gantry_context_heap(f->context);
    gantry_module *module = NULL;
    gantry_alloc_site site = GANTRY_ALLOC_SITE("line");
    void *device, *host;
    int (*fail_kernel)(uint64_t, int, int) = NULL;
    *(void **)&fail_kernel = gpu_fixture_emulator("gantry_emu_fail_kernel");
    assert_ok(gantry_module_load(f->context, &gantry_image_lost_kernels, &module));
    for (uint32_t l = 0; l < LINES; l++) {
        assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, WORDS * 4, 0, site, &device));
        assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, WORDS * 4, 0, site, &host));
        lines[l] = (struct line){.words = device, .result = host, .target = device};
        assert_ok(gantry_module_get_kernel(module, "count_up", &lines[l].add));
    }
    if (goes_wrong && fail_kernel == NULL) {
        lines[WRONG_LINE].target = (uint32_t *)(uintptr_t)UINT64_C(0x7100deadbee0);
    } else if (goes_wrong) {
        assert_int_equal(fail_kernel(LENGTH, 700, GANTRY_EMU_ONCE), 0);
    }
}

static gantry_status run(struct gpu_fixture *f, struct line *lines, bool frozen)
{
    build(f->manager, lines);
    if (frozen) {
        assert_ok(gantry_taskman_freeze(f->manager));
    }
    assert_ok(gantry_taskman_start(f->manager));
    return gantry_taskman_stop(f->manager);
}

static void check_all_released(void)
{
    for (uint32_t i = 0; i < TASKS; i++) {
        if (atomic_load(&releases[i]) != 1) {
            fail_msg("task %u was released %u times", i, atomic_load(&releases[i]));
        }
    }
}

/* Everything that is asked reports it: the step, the context, and all calls that need the device
 * afterwards. */
static void check_lost(struct gpu_fixture *f, const struct way *way, bool emulated)
{
    const char *text = gantry_last_error();
    void *block = NULL;
    printf("%s: %s\n", way->name, text);
    assert_non_null(strstr(text, "CUDA_ERROR_ILLEGAL_ADDRESS (700)"));
    if (way->synchronous && !emulated) {
        assert_non_null(strstr(text, wild));
    } else if (way->synchronous) {
        assert_non_null(strstr(text, "for task '"));
    }
    assert_false(gantry_context_is_valid(f->context));
    assert_true(gantry_dispatcher_failure_detected(gantry_context_dispatcher(f->context)));
    assert_int_equal(gantry_context_acquire(f->context), GANTRY_ERR_DEVICE_LOST);
    assert_int_equal(gantry_heap_alloc(gantry_context_heap(f->context), GANTRY_MEMORY_DEVICE, 64u << 20, 0,
                                       GANTRY_ALLOC_SITE("more"), &block),
                     GANTRY_ERR_DEVICE_LOST);
    assert_non_null(strstr(gantry_last_error(), "CUDA_ERROR_ILLEGAL_ADDRESS (700)"));
}

static void provoke(const struct way *way)
{
    static struct line lines[LINES];
    struct gpu_fixture f;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.driver = gpu_fixture_driver();
    options.submission = way->submission;
    options.synchronous = way->synchronous;
    gpu_fixture_open_with(&f, 2, &options);
    open_lines(&f, lines, true);
    assert_int_equal(run(&f, lines, way->frozen), GANTRY_ERR_DEVICE_LOST);
    check_lost(&f, way, options.driver != GANTRY_DRIVER_CUDA);
    check_all_released();
    assert_true(atomic_load(&failures) > 0);
    assert_ok(gantry_taskman_reset(f.manager));
    gpu_fixture_close(&f);
}

static void run_fine(void)
{
    static struct line lines[LINES];
    struct gpu_fixture f;
    gpu_fixture_open(&f, 2, 0);
    open_lines(&f, lines, false);
    assert_ok(run(&f, lines, false));
    check_all_released();
    for (uint32_t l = 0; l < LINES; l++) {
        for (uint32_t i = 0; i < WORDS; i++) {
            assert_int_equal(lines[l].result[i], (LENGTH - 1) * i);
        }
    }
    assert_int_equal(atomic_load(&failures), 0);
    assert_ok(gantry_taskman_reset(f.manager));
    gpu_fixture_close(&f);
}

/* ---- around it ------------------------------------------------------------------------------- */

static void run_process(const char *how)
{
    int status = 0;
    (void)fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)alarm(PATIENCE_S);
        execl(program, program, how, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFSIGNALED(status)) {
        fail_msg("%s: %s", how, WTERMSIG(status) == SIGALRM ? "it hangs" : strsignal(WTERMSIG(status)));
    }
    if (WEXITSTATUS(status) != 0) {
        fail_msg("%s: exit status %d", how, WEXITSTATUS(status));
    }
}

static void test_a_wild_pointer_costs_its_context_alone(void **state)
{
    (void)state;
    for (int i = 0; i < WAYS; i++) {
        run_process(ways[i].name);
        run_process("fine");
    }
}

static const struct way *chosen;

static void test_the_loss_is_told_and_everything_ends(void **state)
{
    (void)state;
    provoke(chosen);
}

static void test_a_process_without_a_fault(void **state)
{
    (void)state;
    run_fine();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest all[] = {cmocka_unit_test(test_a_wild_pointer_costs_its_context_alone)};
    const struct CMUnitTest one[] = {cmocka_unit_test(test_the_loss_is_told_and_everything_ends)};
    const struct CMUnitTest fine[] = {cmocka_unit_test(test_a_process_without_a_fault)};
    program = argv[0];
    for (int i = 0; i < WAYS; i++) {
        chosen = argc > 1 && strcmp(argv[1], ways[i].name) == 0 ? &ways[i] : chosen;
    }
    return chosen != NULL ? cmocka_run_group_tests(one, NULL, NULL)
           : argc > 1     ? cmocka_run_group_tests(fine, NULL, NULL)
                          : cmocka_run_group_tests(all, NULL, NULL);
}
