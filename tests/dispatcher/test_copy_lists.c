/* Lists of copies that the device reads, and boxes: from launch callbacks, on streams, in graphs that are
 * made anew or kept and patched, and in replayed steps, with lists that earlier GPU work has written; and
 * lists that the host or GANTRY_CHECK=bounds refuses. */
#include "tests/support/cmocka_c11.h"
#include "tests/support/gpu_fixture.h"

#include "base/checking.h"
#include "context/context.h"

#include <stdlib.h>
#include <string.h>

enum { BYTES = 1 << 18, MOST = 500, PACKED = 2200 };

struct lists {
    struct gpu_fixture gpu;
    bool emulated;
    uint8_t *source, *dest; /* BYTES in device memory each */
    uint8_t *content, *got; /* page-locked: the contents of source, and what was copied back from dest */
    uint8_t *expected;
    gantry_copy_desc *made;  /* page-locked, MOST: the list that the host makes */
    uint64_t *arrays;        /* page-locked, 3 * MOST: the same */
    uint32_t *made_count;    /* page-locked */
    gantry_copy_desc *descs; /* device memory, written by the step's first task */
    uint64_t *columns;       /* device memory, 3 * MOST, as well */
    uint32_t *count;         /* device memory, as well */
    gantry_copy_list list;
    gantry_copy_box box;    /* launched instead of the list while it has a width */
    uint32_t calls;         /* the status of launch_list() */
    gantry_status answered; /* set by its last call */
    char text[300];
};

static uint64_t random_state = 88172645463325252u;

static uint64_t random_below(uint64_t bound)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (random_state >> 11) % bound;
}

static void *allocate(struct lists *l, gantry_memory_kind kind, size_t bytes)
{
    void *block;
    assert_ok(gantry_heap_alloc(gantry_context_heap(l->gpu.context), kind, bytes, 0,
                                GANTRY_ALLOC_SITE("lists"), &block));
    return block;
}

static int open_lists(void **state, gantry_submission submission)
{
    static struct lists lists;
    struct lists *l = &lists;
    memset(l, 0, sizeof(*l));
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.driver = gpu_fixture_driver();
    options.submission = submission;
    gpu_fixture_open_with(&l->gpu, 1, &options);
    l->emulated = l->gpu.context->cuda->driver->emulated;
    l->source = allocate(l, GANTRY_MEMORY_DEVICE, BYTES);
    l->dest = allocate(l, GANTRY_MEMORY_DEVICE, BYTES);
    l->content = allocate(l, GANTRY_MEMORY_PINNED, BYTES);
    l->got = allocate(l, GANTRY_MEMORY_PINNED, BYTES);
    l->expected = allocate(l, GANTRY_MEMORY_PINNED, BYTES);
    l->made = allocate(l, GANTRY_MEMORY_PINNED, MOST * sizeof(*l->made));
    l->arrays = allocate(l, GANTRY_MEMORY_PINNED, 3 * MOST * sizeof(*l->arrays));
    l->made_count = allocate(l, GANTRY_MEMORY_PINNED, sizeof(*l->made_count));
    l->descs = allocate(l, GANTRY_MEMORY_DEVICE, MOST * sizeof(*l->descs));
    l->columns = allocate(l, GANTRY_MEMORY_DEVICE, 3 * MOST * sizeof(*l->columns));
    l->count = allocate(l, GANTRY_MEMORY_DEVICE, sizeof(*l->count));
    for (size_t i = 0; i < BYTES; i++) {
        l->content[i] = (uint8_t)random_below(256);
    }
    *state = l;
    return 0;
}

static int open_streams(void **state)
{
    return open_lists(state, GANTRY_SUBMISSION_STREAMS);
}

static int open_graphs(void **state)
{
    return open_lists(state, GANTRY_SUBMISSION_GRAPHS);
}

static int close_lists(void **state)
{
    struct lists *l = *state;
    void *blocks[] = {l->source, l->dest,    l->content,    l->got,   l->expected, l->made,
                      l->arrays, l->columns, l->made_count, l->descs, l->count};
    for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) {
        assert_ok(gantry_heap_free(gantry_context_heap(l->gpu.context), blocks[i]));
    }
    gpu_fixture_close(&l->gpu);
    return 0;
}

/* ---- lists ---- */

/* Make copies of all sizes from `source` to `dest`; `expected` has the contents of dest afterwards. */
static void make_list(struct lists *l, uint32_t most, uint64_t biggest)
{
    uint64_t at = 0;
    uint32_t count = 0;
    memset(l->expected, 0, BYTES);
    while (count < most) {
        uint64_t bytes = random_below(biggest + 1);
        if (at + bytes > BYTES) {
            break;
        }
        uint64_t from = random_below(BYTES - bytes + 1);
        l->made[count] = (gantry_copy_desc){
            .dest = l->dest + at, .source = l->source + from, .bytes = bytes, .type = GANTRY_COPY_DTOD};
        l->arrays[count] = (uintptr_t)(l->dest + at);
        l->arrays[MOST + count] = (uintptr_t)(l->source + from);
        l->arrays[2 * MOST + count] = bytes;
        memcpy(l->expected + at, l->content + from, bytes);
        at += bytes + random_below(20);
        count++;
    }
    *l->made_count = count;
}

enum form { DESCS, COLUMNS, PINNED_COLUMNS };

static void use_form(struct lists *l, enum form form, bool counted)
{
    l->list = (gantry_copy_list)GANTRY_COPY_LIST_INIT;
    uint64_t *columns = form == COLUMNS ? l->columns : l->arrays;
    if (form == DESCS) {
        l->list.descs = l->descs;
    } else {
        l->list.dests = (void *const *)(void *)columns;
        l->list.sources = (const void *const *)(void *)(columns + MOST);
        l->list.bytes = columns + 2 * MOST;
    }
    l->list.most = counted ? MOST : *l->made_count;
    l->list.count = counted ? l->count : NULL;
}

/* Write what dest will contain after the box was copied. */
static void expect_box(struct lists *l)
{
    const gantry_copy_box *box = &l->box;
    const size_t to = (size_t)((uint8_t *)box->dest - l->dest);
    const size_t from = (size_t)((const uint8_t *)box->source - l->source);
    memset(l->expected, 0, BYTES);
    for (uint64_t layer = 0; layer < box->layers; layer++) {
        for (uint64_t row = 0; row < box->rows; row++) {
            memcpy(l->expected + to + layer * box->dest_layer_pitch + row * box->dest_pitch,
                   l->content + from + layer * box->source_layer_pitch + row * box->source_pitch, box->width);
        }
    }
}

/* Make a box of any shape; `expected` has the contents of dest afterwards. */
static void make_box(struct lists *l)
{
    static const uint64_t widths[] = {1, 16, 200, 1000};
    gantry_copy_box *box = &l->box;
    *box = (gantry_copy_box)GANTRY_COPY_BOX_INIT;
    box->width = 1 + random_below(widths[random_below(4)]);
    box->rows = 2 + random_below(30);
    box->layers = 1 + random_below(3);
    box->dest_pitch = box->width + random_below(300);
    box->source_pitch = box->width + 1 + random_below(300);
    box->dest_layer_pitch = box->rows * box->dest_pitch + random_below(300);
    box->source_layer_pitch = box->rows * box->source_pitch + random_below(300);
    box->dest = l->dest + random_below(BYTES - 3 * box->dest_layer_pitch);
    box->source = l->source + random_below(BYTES - 3 * box->source_layer_pitch);
    expect_box(l);
}

/* ---- tasks ---- */

static gantry_launch_result launch_inputs(gantry_launch *launch, void *arg)
{
    struct lists *l = arg;
    assert_ok(gantry_launch_copy_htod(launch, l->source, l->content, BYTES));
    assert_ok(gantry_launch_copy_htod(launch, l->descs, l->made, MOST * sizeof(*l->made)));
    assert_ok(gantry_launch_copy_htod(launch, l->columns, l->arrays, 3 * MOST * sizeof(*l->arrays)));
    assert_ok(gantry_launch_copy_htod(launch, l->count, l->made_count, sizeof(*l->count)));
    assert_ok(gantry_launch_fill(launch, l->dest, 0, 4, BYTES / 4));
    return GANTRY_LAUNCH_DONE;
}

static gantry_launch_result launch_list(gantry_launch *launch, void *arg)
{
    struct lists *l = arg;
    l->calls++;
    l->answered = l->box.width != 0 ? gantry_copy_launch_box(launch, &l->box, NULL)
                                    : gantry_copy_launch_list(launch, &l->list, NULL);
    (void)snprintf(l->text, sizeof(l->text), "%s", l->answered != GANTRY_OK ? gantry_last_error() : "");
    return l->answered == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static gantry_launch_result launch_result(gantry_launch *launch, void *arg)
{
    struct lists *l = arg;
    assert_ok(gantry_launch_copy_dtoh(launch, l->got, l->dest, BYTES));
    return GANTRY_LAUNCH_DONE;
}

/* Submit the step's three tasks. */
static void submit_step(struct lists *l, bool stable)
{
    gantry_task *tasks[3];
    static const gantry_launch_fn functions[3] = {launch_inputs, launch_list, launch_result};
    for (int i = 0; i < 3; i++) {
        gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
        desc.kind = GANTRY_TASK_KERNEL;
        desc.label = "lists";
        desc.launch = functions[i];
        desc.arg = l;
        desc.is_stable = stable;
        assert_ok(gantry_taskman_submit(l->gpu.manager, &desc, &tasks[i]));
        if (i > 0) {
            gpu_fixture_after(tasks[i], tasks[i - 1]);
        }
    }
}

static void synchronize(struct lists *l)
{
    assert_ok(gantry_context_acquire(l->gpu.context));
    assert_ok(GY_CALL(l->gpu.context->cuda, cuCtxSynchronize()));
    assert_ok(gantry_context_release(l->gpu.context));
}

static void assert_copied(struct lists *l)
{
    synchronize(l);
    for (size_t i = 0; i < BYTES; i++) {
        if (l->got[i] != l->expected[i]) {
            fail_msg("byte %zu is 0x%02x, not 0x%02x", i, l->got[i], l->expected[i]);
        }
    }
}

static gantry_status step(struct lists *l)
{
    memset(l->got, 0xee, BYTES);
    submit_step(l, false);
    return gpu_fixture_step(&l->gpu);
}

static void check_forms(struct lists *l)
{
    static const uint64_t biggest[] = {300, 8, 70000, 2000};
    for (uint32_t i = 0; i < 12; i++) {
        make_list(l, MOST, biggest[i % 4]);
        use_form(l, (enum form)(i % 3), i % 2 == 1);
        l->list.largest = i % 4 == 3 ? 0 : biggest[i % 4];
        assert_ok(step(l));
        assert_copied(l);
    }
}

static void test_lists_are_copied_on_streams(void **state)
{
    check_forms(*state);
}

static void test_lists_are_copied_in_graphs(void **state)
{
    struct lists *l = *state;
    check_forms(l);
    assert_true(gpu_fixture_stats(&l->gpu).graph_launches > 0);
}

static void check_boxes(struct lists *l, bool is_patched)
{
    for (uint32_t i = 0; i < (is_patched ? 60 : 6); i++) {
        if (is_patched && i >= 6 && gpu_fixture_stats(&l->gpu).graph_patches > 0) {
            break; /* a loaded machine cuts steps here or there */
        }
        make_box(l);
        assert_ok(step(l));
        assert_copied(l);
    }
}

static void test_boxes_are_copied_on_streams(void **state)
{
    check_boxes(*state, false);
}

static void test_boxes_are_copied_in_graphs(void **state)
{
    struct lists *l = *state;
    check_boxes(l, true);
    assert_true(gpu_fixture_stats(&l->gpu).graph_patches > 0);
}

/* Steps of one shape with other lists: the graph is kept, and the kernel gets the new addresses. */
static void test_kept_graphs_are_patched_to_other_lists(void **state)
{
    struct lists *l = *state;
    for (uint32_t i = 0; i < 4 || (i < 60 && gpu_fixture_stats(&l->gpu).graph_patches == 0); i++) {
        make_list(l, MOST, 300);
        use_form(l, COLUMNS, true);
        l->list.largest = 300;
        l->list.most = MOST - i;
        *l->made_count = *l->made_count < l->list.most ? *l->made_count : l->list.most;
        memset(l->expected, 0, BYTES);
        for (uint32_t k = 0; k < *l->made_count; k++) {
            memcpy(l->expected + (l->arrays[k] - (uintptr_t)l->dest),
                   l->content + (l->arrays[MOST + k] - (uintptr_t)l->source), l->arrays[2 * MOST + k]);
        }
        assert_ok(step(l));
        assert_copied(l);
    }
    assert_true(gpu_fixture_stats(&l->gpu).graph_patches > 0);
}

/* The largest copy is out of bounds, or the count is above the maximum. */
static void test_what_the_list_says_wrongly_is_bounded(void **state)
{
    struct lists *l = *state;
    make_list(l, 40, 30000);
    use_form(l, DESCS, true);
    l->list.largest = 100;
    assert_ok(step(l));
    assert_copied(l);
    make_list(l, 60, 200);
    use_form(l, COLUMNS, true);
    uint32_t made = *l->made_count;
    *l->made_count = UINT32_MAX;
    l->list.most = made;
    assert_ok(step(l));
    assert_copied(l);
    *l->made_count = 0;
    memset(l->expected, 0, BYTES);
    assert_ok(step(l));
    assert_copied(l);
    l->list.most = 0;
    assert_ok(step(l));
    assert_copied(l);
}

/* ---- replayed ---- */

static void freeze(struct lists *l)
{
    submit_step(l, true);
    assert_ok(gantry_taskman_freeze(l->gpu.manager));
}

static void run_again(struct lists *l)
{
    memset(l->got, 0xee, BYTES);
    assert_ok(gantry_taskman_run(l->gpu.manager, 1));
    assert_copied(l);
}

/* The list's contents are read anew in every run, without a call. */
static void test_replayed_lists_may_change(void **state)
{
    struct lists *l = *state;
    static const uint64_t biggest[] = {300, 70000, 8, 2000};
    make_list(l, MOST, 500);
    use_form(l, DESCS, true);
    freeze(l);
    for (uint32_t i = 0; i < 3; i++) { /* until it is recorded */
        run_again(l);
    }
    const uint32_t calls = l->calls;
    const uint64_t replays = gpu_fixture_stats(&l->gpu).graph_replays;
    for (uint32_t i = 0; i < 8; i++) {
        make_list(l, 1 + (uint32_t)random_below(MOST), biggest[i % 4]);
        run_again(l);
    }
    assert_int_equal(l->calls, calls);
    assert_int_equal(gpu_fixture_stats(&l->gpu).graph_replays, replays + 8);
    assert_ok(gantry_taskman_reset(l->gpu.manager));
}

/* What lies in the rows is read anew in every run. */
static void test_replayed_boxes_read_what_is_there(void **state)
{
    struct lists *l = *state;
    make_box(l);
    freeze(l);
    for (uint32_t run = 0; run < 5; run++) {
        for (size_t i = 0; i < BYTES; i++) {
            l->content[i] += (uint8_t)(run + 1);
        }
        expect_box(l);
        run_again(l);
    }
    assert_true(l->calls < 5 && gpu_fixture_stats(&l->gpu).graph_replays > 0);
    assert_ok(gantry_taskman_reset(l->gpu.manager));
}

/* A batch that the host describes, of more copies than fit into a kernel's parameters. */
static gantry_launch_result launch_packed(gantry_launch *launch, void *arg)
{
    struct lists *l = arg;
    static gantry_copy_desc descs[PACKED];
    for (uint32_t i = 0; i < PACKED; i++) {
        descs[i] = (gantry_copy_desc){
            .dest = l->dest + 40 * i, .source = l->source + 13 * i, .bytes = 39, .type = GANTRY_COPY_DTOD};
    }
    l->calls++;
    assert_ok(gantry_copy_launch(launch, descs, PACKED));
    return GANTRY_LAUNCH_DONE;
}

/* Another batch, not stable: it must not get the memory that the recorded one reads. */
static gantry_launch_result launch_other(gantry_launch *launch, void *arg)
{
    struct lists *l = arg;
    static gantry_copy_desc descs[PACKED];
    for (uint32_t i = 0; i < PACKED; i++) {
        descs[i] = (gantry_copy_desc){.dest = (uint8_t *)l->columns + 2 * i,
                                      .source = l->source + 2 * i,
                                      .bytes = 1,
                                      .type = GANTRY_COPY_DTOD};
    }
    assert_ok(gantry_copy_launch(launch, descs, PACKED));
    return GANTRY_LAUNCH_DONE;
}

static void submit_packed(struct lists *l)
{
    static const gantry_launch_fn functions[4] = {launch_inputs, launch_packed, launch_result, launch_other};
    gantry_task *tasks[4];
    for (int i = 0; i < 4; i++) {
        gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
        desc.kind = GANTRY_TASK_KERNEL;
        desc.label = "packed";
        desc.launch = functions[i];
        desc.arg = l;
        desc.is_stable = functions[i] != launch_other;
        assert_ok(gantry_taskman_submit(l->gpu.manager, &desc, &tasks[i]));
        if (i > 0) {
            gpu_fixture_after(tasks[i], tasks[i - 1]);
        }
    }
    assert_ok(gantry_taskman_freeze(l->gpu.manager));
}

static void test_large_batches_are_replayed(void **state)
{
    struct lists *l = *state;
    for (int round = 0; round < 2; round++) { /* the memory that a graph used before is used again */
        l->calls = 0;
        submit_packed(l);
        for (uint32_t run = 0; run < 4; run++) {
            for (size_t i = 0; i < BYTES; i++) {
                l->content[i] = (uint8_t)random_below(256);
            }
            memset(l->expected, 0, BYTES);
            for (uint32_t i = 0; i < PACKED; i++) {
                memcpy(l->expected + 40 * i, l->content + 13 * i, 39);
            }
            run_again(l);
        }
        assert_true(l->calls < 3);
        assert_ok(gantry_taskman_reset(l->gpu.manager));
    }
}

/* ---- refused ---- */

static void refuse(struct lists *l, const char *text)
{
    assert_int_not_equal(step(l), GANTRY_OK);
    assert_int_equal(l->answered, GANTRY_ERR_INVALID_ARGUMENT);
    if (strstr(l->text, text) == NULL) {
        fail_msg("'%s' lacks '%s'", l->text, text);
    }
    synchronize(l);
}

static void test_bad_lists_are_refused(void **state)
{
    struct lists *l = *state;
    static uint64_t pageable[64];
    make_list(l, 20, 100);
    use_form(l, DESCS, false);
    l->list.struct_size = 8;
    refuse(l, "copy list: struct_size 8 is too small");
    use_form(l, DESCS, false);
    l->list.bytes = l->columns;
    refuse(l, "copy list: it has both descs and dests, sources or bytes");
    use_form(l, COLUMNS, false);
    l->list.sources = NULL;
    refuse(l, "copy list: sources is NULL");
    use_form(l, COLUMNS, false);
    l->list.bytes = (const uint64_t *)(const void *)((const char *)l->columns + 4);
    refuse(l, "is not aligned to 8 bytes");
    use_form(l, COLUMNS, false);
    l->list.bytes = pageable;
    refuse(l, "copy list: bytes 0x");
    refuse(l, "is pageable host memory");
    use_form(l, COLUMNS, true);
    l->list.most = 2 * MOST + 1;
    refuse(l, " with 8008 bytes leaves its memory");
    use_form(l, DESCS, true);
    l->list.count = (const uint32_t *)(const void *)((const char *)l->count + 2);
    refuse(l, "copy list: count 0x");
    assert_int_equal(gantry_copy_launch_list(NULL, &l->list, NULL), GANTRY_ERR_INVALID_ARGUMENT);
}

/* ---- checked ---- */

static int open_checked(void **state)
{
    setenv("GANTRY_CHECK", "bounds", 1);
    int result = open_lists(state, GANTRY_SUBMISSION_GRAPHS);
    (void)gy_checks_read();
    unsetenv("GANTRY_CHECK");
    return result;
}

static int close_checked(void **state)
{
    int result = close_lists(state);
    (void)gy_checks_read();
    return result;
}

static void test_checks_name_the_index_and_the_number(void **state)
{
    struct lists *l = *state;
    make_list(l, 50, 300);
    use_form(l, DESCS, true);
    assert_ok(step(l));
    assert_copied(l);
    const gantry_copy_desc good = l->made[7];
    l->made[7].bytes = BYTES + 1;
    refuse(l, "copy descriptor 7: dest 0x");
    refuse(l, " with 262145 bytes leaves its memory");
    l->made[7] = good;
    l->made[49].source = l->content;
    l->made[49].bytes = 1;
    refuse(l, "copy descriptor 49: source 0x");
    make_list(l, 50, 300);
    l->made[3].type = (gantry_copy_type)9;
    refuse(l, "copy descriptor 3: type 9 is unknown");
    make_list(l, 50, 300);
    l->made[12].dest = l->made[30].dest;
    l->made[12].bytes = l->made[30].bytes = 5;
    refuse(l, "copy descriptors 12 and 30: their dest ranges overlap");
    make_list(l, 50, 300);
    *l->made_count = 501;
    refuse(l, "copy list: the count is 501, more than the maximum 500");
    make_list(l, 50, 300);
    l->made[1] = (gantry_copy_desc){
        .dest = l->dest, .source = &good, .bytes = 64, .type = GANTRY_COPY_FILL, .pattern_bytes = 8};
    refuse(l, "the pattern of copy descriptor 1, 0x");
}

static void test_arrays_are_checked_like_descriptors(void **state)
{
    struct lists *l = *state;
    make_list(l, 40, 300);
    l->arrays[2 * MOST + 5] = BYTES + 1;
    use_form(l, COLUMNS, true);
    refuse(l, "copy descriptor 5: dest 0x");
    make_list(l, 40, 300);
    l->arrays[MOST + 6] = (uintptr_t)l->content; /* a copy from page-locked memory is allowed */
    l->arrays[2 * MOST + 6] = 1;
    memcpy(l->expected + (l->arrays[6] - (uintptr_t)l->dest), l->content, 1);
    use_form(l, PINNED_COLUMNS, true);
    assert_ok(step(l));
    synchronize(l); /* the kernel reads the page-locked arrays, which the next list overwrites */
    make_list(l, 40, 300);
    l->arrays[8] = 0;
    l->arrays[2 * MOST + 8] = 4;
    refuse(l, "copy descriptor 8: dest is NULL");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_lists_are_copied_on_streams, open_streams, close_lists),
        cmocka_unit_test_setup_teardown(test_lists_are_copied_in_graphs, open_graphs, close_lists),
        cmocka_unit_test_setup_teardown(test_boxes_are_copied_on_streams, open_streams, close_lists),
        cmocka_unit_test_setup_teardown(test_boxes_are_copied_in_graphs, open_graphs, close_lists),
        cmocka_unit_test_setup_teardown(test_kept_graphs_are_patched_to_other_lists, open_graphs,
                                        close_lists),
        cmocka_unit_test_setup_teardown(test_replayed_boxes_read_what_is_there, open_graphs, close_lists),
        cmocka_unit_test_setup_teardown(test_what_the_list_says_wrongly_is_bounded, open_streams,
                                        close_lists),
        cmocka_unit_test_setup_teardown(test_replayed_lists_may_change, open_graphs, close_lists),
        cmocka_unit_test_setup_teardown(test_large_batches_are_replayed, open_graphs, close_lists),
        cmocka_unit_test_setup_teardown(test_bad_lists_are_refused, open_streams, close_lists),
        cmocka_unit_test_setup_teardown(test_checks_name_the_index_and_the_number, open_checked,
                                        close_checked),
        cmocka_unit_test_setup_teardown(test_arrays_are_checked_like_descriptors, open_checked,
                                        close_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
