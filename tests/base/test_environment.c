/* SPDX-License-Identifier: MIT */
/* A program that has more rights than the user who started it sees no variable.  The test starts a copy of
 * this program which belongs to another group and has the bit that gives it that group's rights. */
#include "tests/support/cmocka_c11.h"

#include "base/environment.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum child_says { HAS_NONE = 3, HAS_SOME = 4, CANNOT_BEGIN = 5, HAS_MORE_RIGHTS = 8 };

static int ask(void)
{
    if (gy_environment("GANTRY_TEST_SET") != NULL || gy_environment_even_empty("GANTRY_TEST_EMPTY") != NULL ||
        gy_environment_is_on("GANTRY_TEST_ON")) {
        return HAS_SOME;
    }
    return HAS_NONE;
}

static void set_variables(void)
{
    assert_int_equal(setenv("GANTRY_TEST_SET", "text", 1), 0);
    assert_int_equal(setenv("GANTRY_TEST_EMPTY", "", 1), 0);
    assert_int_equal(setenv("GANTRY_TEST_ON", "1", 1), 0);
}

static void test_variables_are_read(void **state)
{
    (void)state;
    set_variables();
    assert_string_equal(gy_environment("GANTRY_TEST_SET"), "text");
    assert_null(gy_environment("GANTRY_TEST_EMPTY"));
    assert_string_equal(gy_environment_even_empty("GANTRY_TEST_EMPTY"), "");
    assert_true(gy_environment_is_on("GANTRY_TEST_ON"));
    assert_int_equal(setenv("GANTRY_TEST_ON", "0", 1), 0);
    assert_false(gy_environment_is_on("GANTRY_TEST_ON"));
    assert_false(gy_environment_is_on("GANTRY_TEST_EMPTY"));
}

/* A group to which this user may give a file, other than the one in force; the one in force when there is
 * none. */
static gid_t other_group(void)
{
    gid_t groups[64];
    if (geteuid() == 0) {
        return getgid() + 1;
    }
    int count = getgroups(64, groups);
    for (int i = 0; i < count; i++) {
        if (groups[i] != getgid()) {
            return groups[i];
        }
    }
    return getgid();
}

static int run(const char *program)
{
    pid_t child = fork();
    if (child == 0) {
        execl(program, program, "ask", (char *)NULL);
        _exit(CANNOT_BEGIN);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void test_with_more_rights_there_are_none(void **state)
{
    (void)state;
    char path[] = "/tmp/gantry_environment_XXXXXX";
    gid_t group = other_group();
    struct stat own;
    int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), to = mkstemp(path);
    assert_true(from >= 0 && to >= 0 && fstat(from, &own) == 0);
    for (off_t at = 0; at < own.st_size;) {
        assert_true(sendfile(to, from, &at, (size_t)(own.st_size - at)) > 0);
    }
    bool is_given = group != getgid() && fchown(to, (uid_t)-1, group) == 0;
    set_variables();
    assert_int_equal(fchmod(to, 0755), 0);
    close(from);
    close(to);
    int plain = run(path);
    int raised = is_given && chmod(path, S_ISGID | 0755) == 0 ? run(path) : CANNOT_BEGIN;
    unlink(path);
    if (plain == CANNOT_BEGIN || (raised & HAS_MORE_RIGHTS) == 0) {
        skip(); /* programs in /tmp may not run, or get no more rights, or there is no other group */
    }
    assert_int_equal(plain, HAS_SOME);
    assert_int_equal(raised, HAS_NONE | HAS_MORE_RIGHTS);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "ask") == 0) {
        _exit(ask() | (getauxval(AT_SECURE) != 0 ? HAS_MORE_RIGHTS : 0));
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_variables_are_read),
        cmocka_unit_test(test_with_more_rights_there_are_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
