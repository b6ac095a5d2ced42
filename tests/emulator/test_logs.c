/* SPDX-License-Identifier: MIT */
/* Where the driver's log goes: $CUDA_LOG_FILE, and stderr for a kernel whose failure nobody would hear of.
 * Each case is a process of its own, since the driver reads the environment once. */
#include "tests/emulator/emu_test.h"

#include <gantry/host_module.h>

#include <regex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LINE "\\[[0-2][0-9]:[0-5][0-9]:[0-6][0-9]\\.[0-9]{3}\\]\\[[0-9]+\\]\\[CUDA\\]\\[E\\] "
#define BROKEN "kernel thief: block \\(0, 0, 0\\) asks for a block with a barrier that was not initialised\n"

static void run_thief(struct gantry_host_thread *self, void *const *args)
{
    uint64_t barrier = 0, answer[2];
    (void)args;
    self->ops->steal_send(self, answer, &barrier); /* without steal_begin() */
}

static const struct gantry_host_kernel kernels[] = {{"thief", run_thief, 0, NULL}};
static const struct gantry_host_module image = {GANTRY_HOST_MODULE_MAGIC, "test_logs", 1, kernels, 0, 0};

/* In the process of a case: a call that is refused, and a kernel that breaks a rule of stealing. */
static int fail_twice(void)
{
    CUcontext context;
    CUmodule module;
    CUfunction thief;
    if (gy_driver_open(GANTRY_DRIVER_EMULATED, &cu) != GANTRY_OK ||
        cu->cuCtxCreate(&context, 0, 0) != CUDA_SUCCESS ||
        cu->cuModuleLoadDataEx(&module, &image, 0, NULL, NULL) != CUDA_SUCCESS ||
        cu->cuModuleGetFunction(&thief, module, "thief") != CUDA_SUCCESS) {
        return 1;
    }
    if (cu->cuMemAlloc(NULL, 1) != CUDA_ERROR_INVALID_VALUE ||
        cu->cuLaunchKernel(thief, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) != CUDA_SUCCESS) {
        return 2;
    }
    const bool failed = cu->cuCtxSynchronize() == CUDA_ERROR_LAUNCH_FAILED;
    return failed && cu->cuCtxSynchronize() == CUDA_ERROR_LAUNCH_FAILED ? 0
                                                                        : 3; /* the reason comes once more */
}

/* Run it in a process whose stdout and stderr are these files. */
static void fail_in_process(const char *log_file, const char *profile, FILE *out, FILE *err)
{
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setenv("GANTRY_EMU_PROFILE", profile, 1);
        setenv("CUDA_LOG_FILE", log_file, 1);
        (void)dup2(fileno(out), STDOUT_FILENO);
        (void)dup2(fileno(err), STDERR_FILENO);
        _exit(fail_twice());
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void expect(FILE *file, const char *pattern)
{
    char text[4096];
    regex_t compiled;
    rewind(file);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    assert_int_equal(regcomp(&compiled, pattern, REG_EXTENDED | REG_NOSUB), 0);
    if (regexec(&compiled, text, 0, NULL, 0) != 0) {
        fail_msg("the log is\n%s and does not match\n%s", text, pattern);
    }
    regfree(&compiled);
}

#define WHOLE                                                                                   \
    "^" LINE "Returning 1 \\(CUDA_ERROR_INVALID_VALUE\\) from cuMemAlloc_v2\n" LINE BROKEN LINE \
    "Returning 719 \\(CUDA_ERROR_LAUNCH_FAILED\\) from cuCtxSynchronize\n" LINE BROKEN

static void expect_in(const char *log_file, const char *profile, const char *in_out, const char *in_err)
{
    FILE *out = tmpfile(), *err = tmpfile();
    assert_true(out != NULL && err != NULL);
    fail_in_process(log_file, profile, out, err);
    expect(out, in_out);
    expect(err, in_err);
    fclose(out);
    fclose(err);
}

static void test_log_goes_where_the_variable_says(void **state)
{
    (void)state;
    expect_in("stdout", "b200,cuda=13000", WHOLE, "^$");
    expect_in("stderr", "b200,cuda=12090", "^$", WHOLE);

    char path[] = "/tmp/gantry-log-XXXXXX";
    FILE *file = fdopen(mkstemp(path), "r");
    assert_non_null(file);
    expect_in(path, "b200,cuda=13000", "^$", "^$");
    expect(file, WHOLE);
    expect_in("/no/such/folder/log", "b200,cuda=13000", "^$",
              "^gantry-emu: [$]CUDA_LOG_FILE: /no/such/folder/log: No such file or directory\n$");
    fclose(file);
    (void)unlink(path);
}

static void test_failed_kernel_is_told_where_there_is_no_log(void **state)
{
    (void)state;
    expect_in("stdout", "b200,cuda=12080", "^$", "^gantry-emu: " BROKEN "$"); /* once */
    expect_in("", "b200,cuda=13000", "^$", "^$"); /* the library has a callback, and says it in its error */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_log_goes_where_the_variable_says),
        cmocka_unit_test(test_failed_kernel_is_told_where_there_is_no_log),
    };
    return cmocka_run_group_tests_name("logs", tests, NULL, NULL);
}
