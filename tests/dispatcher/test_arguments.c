/* SPDX-License-Identifier: MIT */
/* GANTRY_CHECK=arguments: a launch whose arguments do not fit the kernel's parameters is refused by name, in
 * each way of submission and by each function that launches a kernel; one that fits is never refused. */
#include "argument_kernels.kernels.h"
#include "base/checking.h"
#include "tests/dispatcher/argument_kernels.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/gpu_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static struct gpu_fixture gpu;
static gantry_kernel *mixed, *bare;
static uint32_t *device, *host;

enum way { PLAIN, WITH_OPTIONS, WITH_CLUSTER, SIZED, SIZED_WITH_OPTIONS, WAYS };

struct call {
    enum way way;
    bool is_bare;          /* of the kernel without parameters */
    void **args;           /* NULL: those that fit */
    const uint32_t *bytes; /* for SIZED: the sizes that are stated */
    uint32_t count;
    gantry_status status; /* out */
    char message[256];    /* out */
};

static const uint32_t right_bytes[] = {8, 8, 2, 12};
static struct {
    uint64_t large;
    struct argument_pair pair;
    uint16_t small;
} values = {5, {7, 20, 0}, 10};

static gantry_launch_result launch_call(gantry_launch *launch, void *arg)
{
    struct call *c = arg;
    void *fitting[] = {&device, &values.large, &values.small, &values.pair, NULL};
    void **args = c->args != NULL ? c->args : fitting;
    gantry_kernel *kernel = c->is_bare ? bare : mixed;
    const gantry_dim3 one = {1, 1, 1};
    gantry_launch_options options = GANTRY_LAUNCH_OPTIONS_INIT;
    options.cluster = c->way == WITH_CLUSTER ? one : (gantry_dim3){0, 0, 0};
    if (c->way == PLAIN) {
        c->status = gantry_launch_kernel(launch, kernel, one, one, 0, args);
    } else if (c->way < SIZED) {
        c->status = gantry_launch_kernel_with(launch, kernel, one, one, 0, args, &options);
    } else {
        c->status = gantry_launch_kernel_sized(launch, kernel, one, one, 0, args, c->bytes, c->count,
                                               c->way == SIZED ? NULL : &options);
    }
    snprintf(c->message, sizeof(c->message), "%s", c->status != GANTRY_OK ? gantry_last_error() : "");
    return GANTRY_LAUNCH_DONE;
}

static gantry_launch_result fetch(gantry_launch *launch, void *arg)
{
    (void)arg;
    return gantry_launch_copy_dtoh(launch, host, device, 4) == GANTRY_OK ? GANTRY_LAUNCH_DONE
                                                                         : GANTRY_LAUNCH_FAILED;
}

/* Launch it; what is to be refused has these words in its message, what fits has worked. */
static void try(struct call *c, const char *words)
{
    host[0] = 0;
    gpu_fixture_clear(&gpu, device, 4);
    gantry_task *task = gpu_fixture_gpu(&gpu, GANTRY_TASK_KERNEL, "call", launch_call, c);
    gpu_fixture_after(gpu_fixture_gpu(&gpu, GANTRY_TASK_DTOH, "fetch", fetch, NULL), task);
    assert_ok(gpu_fixture_step(&gpu));
    assert_ok(gantry_context_synchronize(gpu.context));
    if (words != NULL && (c->status != GANTRY_ERR_INVALID_ARGUMENT || strstr(c->message, words) == NULL)) {
        fail_msg("way %d: %s: %s; not: %s", (int)c->way, gantry_status_name(c->status), c->message, words);
    }
    if (words == NULL && c->status != GANTRY_OK) {
        fail_msg("way %d: %s", (int)c->way, c->message);
    }
    assert_int_equal(host[0], words == NULL && !c->is_bare ? 42 : 0);
}

static void open_with(gantry_submission submission, const char *check)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.driver = gpu_fixture_driver();
    options.submission = submission;
    if (check != NULL) {
        setenv("GANTRY_CHECK", check, 1);
    }
    gpu_fixture_open_with(&gpu, 1, &options);
    gantry_module *module;
    assert_ok(gantry_module_load(gpu.context, &gantry_image_argument_kernels, &module));
    assert_ok(gantry_module_get_kernel(module, "mixed", &mixed));
    assert_ok(gantry_module_get_kernel(module, "bare", &bare));
    gantry_heap *heap = gantry_context_heap(gpu.context);
    void *block;
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, 4, 0, GANTRY_ALLOC_SITE("sum"), &block));
    device = block;
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, 4, 0, GANTRY_ALLOC_SITE("sum"), &block));
    host = block;
}

static void close_all(void)
{
    assert_ok(gantry_heap_free(gantry_context_heap(gpu.context), device));
    assert_ok(gantry_heap_free(gantry_context_heap(gpu.context), host));
    gpu_fixture_close(&gpu);
    unsetenv("GANTRY_CHECK");
    (void)gy_checks_read();
}

static const gantry_submission submissions[] = {GANTRY_SUBMISSION_STREAMS, GANTRY_SUBMISSION_GRAPHS,
                                                GANTRY_SUBMISSION_AUTO};

static void test_arguments_that_fit_are_launched(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        open_with(submissions[i % 3], i < 3 ? "arguments" : "1");
        for (int way = 0; way < WAYS; way++) {
            struct call call = {.way = (enum way)way, .bytes = right_bytes, .count = 4};
            try(&call, NULL);
            try(&call, NULL); /* the second time it is known */
            struct call none = {.way = (enum way)way, .is_bare = true};
            try(&none, NULL);
        }
        close_all();
    }
}

static void test_sizes_that_are_stated_are_compared(void **state)
{
    (void)state;
    static const uint32_t too_small[] = {8, 4, 2, 12}, too_large[] = {8, 8, 4, 12}, more[] = {8, 8, 2, 12, 4};
    const struct {
        const uint32_t *bytes;
        uint32_t count;
        const char *words;
    } cases[] = {
        {too_small, 4, "(mixed): argument 1 has 4 bytes, and the kernel's parameter has 8"},
        {too_large, 4, "(mixed): argument 2 has 4 bytes, and the kernel's parameter has 2"},
        {right_bytes, 3, "(mixed): argument 3 of 12 bytes is missing: 3 arguments for 4 parameters"},
        {NULL, 0, "(mixed): argument 0 of 8 bytes is missing: 0 arguments for 4 parameters"},
        {more, 5, "(mixed): argument 4 of 4 bytes is one too many: 5 arguments for 4 parameters"},
    };
    for (int s = 0; s < 3; s++) {
        open_with(submissions[s], "arguments");
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
            for (int way = SIZED; way < WAYS; way++) {
                struct call call = {.way = (enum way)way, .bytes = cases[i].bytes, .count = cases[i].count};
                try(&call, cases[i].words);
            }
        }
        struct call one = {.way = SIZED, .is_bare = true, .bytes = right_bytes, .count = 1};
        try(&one, "(bare): argument 0 of 8 bytes is one too many: 1 arguments for 0 parameters");
        close_all();
    }
}

/* Calls that state no sizes: what cannot be right is found. */
static void test_addresses_that_cannot_be_right_are_found(void **state)
{
    (void)state;
    char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(pages != MAP_FAILED);
    assert_int_equal(mprotect(pages + 4096, 4096, PROT_NONE), 0);
    void **cut = (void **)(void *)(pages + 4096) - 3; /* three addresses, and no fourth */
    cut[0] = &device, cut[1] = &values.large, cut[2] = &values.small;
    char bytes[32];
    memset(bytes, 0, sizeof(bytes));
    void *value[] = {&device, (void *)(uintptr_t)5, &values.small, &values.pair};
    void *null[] = {&device, &values.large, NULL, &values.pair};
    void *edge[] = {&device, &values.large, &values.small, pages + 4096 - 8};
    void *narrow[] = {&device, bytes, bytes + 12, bytes + 4}; /* a large of 4 bytes before the pair */
    const struct {
        void **args;
        const char *words;
    } cases[] = {
        {value,
         "(mixed): argument 1 is at 0x5, where 8 bytes cannot be read (a value in place of its address"},
        {null, "(mixed): argument 2 is at (nil), where 2 bytes cannot be read"},
        {edge, "where 12 bytes cannot be read"},
        {cut, "(mixed): argument 0 of 8 bytes is missing: there is no array of 4 addresses at"},
        {narrow, "(mixed): argument 1 has at most 4 bytes, where argument 3 begins, and the kernel's "
                 "parameter has 8"},
    };
    for (int s = 0; s < 3; s++) {
        open_with(submissions[s], "arguments");
        for (size_t i = 0; i < 5 * sizeof(cases) / sizeof(cases[0]); i++) {
            struct call call = {
                .way = (enum way)(i % WAYS), .bytes = right_bytes, .count = 4, .args = cases[i / 5].args};
            try(&call, cases[i / 5].words);
        }
        close_all();
    }
    munmap(pages, 8192);
}

/* A value may be a member of another one. */
static void test_values_may_lie_in_each_other(void **state)
{
    (void)state;
    uint64_t large = 2;
    struct argument_pair pair = {8, 16, 0};
    void *inside[] = {&device, &large, &pair.second, &pair}; /* 2 + 16 + 8 + 16 */
    struct call call = {.way = PLAIN, .args = inside};
    open_with(GANTRY_SUBMISSION_STREAMS, "arguments");
    try(&call, NULL);
    close_all();
}

static void test_nothing_is_compared_without_the_check(void **state)
{
    (void)state;
    static const uint32_t wrong[] = {1, 2};
    open_with(GANTRY_SUBMISSION_STREAMS, NULL);
    struct call call = {.way = SIZED, .bytes = wrong, .count = 2};
    try(&call, NULL);
    close_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arguments_that_fit_are_launched),
        cmocka_unit_test(test_sizes_that_are_stated_are_compared),
        cmocka_unit_test(test_addresses_that_cannot_be_right_are_found),
        cmocka_unit_test(test_values_may_lie_in_each_other),
        cmocka_unit_test(test_nothing_is_compared_without_the_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
