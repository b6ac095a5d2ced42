/* SPDX-License-Identifier: MIT */
/* Batches that auto plays on streams hold up no more than graphs: a kernel that spins until the host has seen
 * another task's end does not hold that task up, whether its batch was played or what comes behind it. */
#include "context/context.h"
#include "dispatcher/call/met.h"
#include "dispatcher/internal.h"
#include "tests/dispatcher/modes_scene.h"
#include "tests/support/cmocka_c11.h"

#include "order_kernels.kernels.h"

#include <string.h>

/* A kernel that is still held up after so long is found by `seen`: nothing hangs. */
enum { FLAG = 1000, SEEN, IN_TIME = 2 };
#define PATIENCE_NS UINT64_C(10000000000)

enum { FILL = 40, STEPS = 6, AGAIN = 100, LONG = 200000 };
_Static_assert(FILL >= GY_CHOICE_SMALL && STEPS < GY_CHOICE_PLAYS, "large steps, all of them noted");

/* FIRST leads to A and B, and to fillers by chance; X comes behind the last filler, and asks for its stream,
 * so that the batch before it is launched.  B spins until the host has seen the end of A.
 *
 *     A_IS_CALLED_AGAIN   A has calls left when that batch is launched, on a stream of its own
 *     B_COMES_EARLIER     the same, but B gets its stream before the fillers
 *     A_BEHIND_X          A comes after X, and so in a batch behind that of B */
enum form { A_IS_CALLED_AGAIN, B_COMES_EARLIER, A_BEHIND_X, FORMS };

static struct {
    struct modes_scene on;
    gantry_kernel *await;
    enum form form;
    struct modes_job a, first, x, fill[FILL + STEPS];
} s;

static gantry_launch_result launch_await(gantry_launch *launch, void *arg)
{
    (void)arg;
    return stamps_await(&s.on.stamps, launch, s.await, FLAG, PATIENCE_NS);
}

static gantry_status set_flag(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    __atomic_store_n(&s.on.stamps.cells[FLAG], 1, __ATOMIC_RELEASE);
    return GANTRY_OK;
}

static gantry_launch_result launch_a(gantry_launch *launch, void *arg)
{
    struct modes_job *job = arg;
    if (!modes_stamp(launch, job)) {
        return GANTRY_LAUNCH_FAILED;
    }
    if (s.form != A_BEHIND_X && gantry_launch_index(launch) < AGAIN) {
        return GANTRY_LAUNCH_AGAIN;
    }
    return modes_complete(launch, job) ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static gantry_launch_result launch_x(gantry_launch *launch, void *arg)
{
    return gantry_launch_stream(launch) != NULL ? modes_launch(launch, arg) : GANTRY_LAUNCH_FAILED;
}

static uint32_t draw(uint64_t *state, uint32_t below)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((*state >> 33) % below);
}

static gantry_task *add(const char *label, gantry_launch_fn launch, struct modes_job *job, uint32_t index)
{
    if (job != NULL) {
        *job = (struct modes_job){.scene = &s.on, .index = index, .spins = 20};
    }
    return gpu_fixture_gpu(&s.on.gpu, GANTRY_TASK_KERNEL, label, launch, job);
}

static gantry_task *add_b(gantry_task *first)
{
    gantry_task *b = add("b", launch_await, NULL, 0);
    gpu_fixture_after(b, first);
    return b;
}

/* Fillers behind FIRST, by chance; returns the last one.  B's edge may come right behind that of the first.
 */
static gantry_task *add_fillers(gantry_task *first, uint32_t count, uint64_t seed, bool with_b)
{
    gantry_task *fill[FILL + STEPS];
    for (uint32_t i = 0; i < count; i++) {
        fill[i] = add("fill", modes_launch, &s.fill[i], 3 + i);
        gpu_fixture_after(fill[i], i == 0 ? first : fill[draw(&seed, i)]);
        if (i > 1) {
            gpu_fixture_after(fill[i], fill[draw(&seed, i - 1)]);
        }
        if (i == 0 && with_b) {
            (void)add_b(first);
        }
    }
    return fill[count - 1];
}

static void build(uint32_t count, uint64_t seed)
{
    gantry_task *first = add("first", modes_launch, &s.first, 0);
    gantry_task *a = add("a", launch_a, &s.a, 1);
    if (s.form != A_BEHIND_X) {
        gpu_fixture_after(a, first);
    }
    if (s.form == B_COMES_EARLIER) {
        (void)add_b(first);
    }
    gantry_task *last = add_fillers(first, count, seed, s.form == A_BEHIND_X);
    gantry_task *set = gpu_fixture_cpu(&s.on.gpu, "set", set_flag, NULL);
    s.a.completes = set;
    gpu_fixture_after(set, a);
    if (s.form == A_IS_CALLED_AGAIN) {
        (void)add_b(first);
    }
    gantry_task *x = add("x", launch_x, &s.x, 2);
    gpu_fixture_after(x, last);
    if (s.form == A_BEHIND_X) {
        s.x.spins = LONG;
        gpu_fixture_after(a, x);
    }
}

static void run(void)
{
    assert_ok(gpu_fixture_step(&s.on.gpu));
    assert_ok(gantry_context_synchronize(s.on.gpu.context));
}

/* Its first step is one without B, behind which there is no credit. */
static void open_scene(enum form form, gantry_submission submission)
{
    gantry_module *module;
    gantry_context_options options = modes_options();
    memset(&s, 0, sizeof(s));
    s.form = form;
    options.submission = submission;
    modes_open(&s.on, &options);
    gantry_context_dispatcher(s.on.gpu.context)->graphs.choice.slow_ns = UINT64_MAX; /* no time decides */
    assert_ok(gantry_module_load(s.on.gpu.context, &gantry_image_order_kernels, &module));
    assert_ok(gantry_module_get_kernel(module, "await_flag", &s.await));
    const gantry_launch_fn met[] = {modes_launch, launch_a, launch_await};
    for (size_t i = 0; i < sizeof(met) / sizeof(met[0]); i++) {
        gy_met_add(met[i], gy_met_context(s.on.gpu.context->cuda));
    }
    (void)add("x", launch_x, &s.x, 2); /* now it is known to ask */
    run();
    (void)add_fillers(add("first", modes_launch, &s.first, 0), FILL, 1, false);
    run();
}

static void test_what_is_played_holds_nothing_up(void **state)
{
    (void)state;
    for (int mode = GANTRY_SUBMISSION_STREAMS; mode <= GANTRY_SUBMISSION_AUTO; mode++) {
        for (int form = 0; form < FORMS; form++) {
            open_scene((enum form)form, (gantry_submission)mode);
            for (uint32_t step = 0; step < STEPS; step++) {
                memset(s.on.stamps.cells, 0, (SEEN + 1) * sizeof(uint32_t));
                build(FILL + step, 100 + step);
                run();
                assert_int_equal(s.on.stamps.cells[SEEN], IN_TIME);
            }
            const bool is_auto = mode == GANTRY_SUBMISSION_AUTO;
            assert_int_equal(gpu_fixture_stats(&s.on.gpu).graph_plays != 0, is_auto);
            modes_close(&s.on);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_played_holds_nothing_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
