/* The library as a plug-in: opened at run time by a program that was not linked with it.
 *
 * jemalloc keeps its thread data in the static TLS block, of which glibc leaves little to libraries opened
 * late.  docs/design/testing.md and README.md say what a program must do then; this test does it. */
#include "tests/support/cmocka_c11.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TUNABLE "glibc.rtld.optional_static_tls=8192"

static char *self;

static void test_library_opens_at_run_time_and_works(void **state)
{
    (void)state;
    void *library = dlopen("./libgantry.so", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        const char *why = dlerror();
        const char *tunables = getenv("GLIBC_TUNABLES");
        if (strstr(why, "static TLS") == NULL || (tunables != NULL && strstr(tunables, TUNABLE) != NULL)) {
            fail_msg("%s", why);
        }
        setenv("GLIBC_TUNABLES", TUNABLE, 1);
        execl(self, self, (char *)NULL);
        fail_msg("cannot start %s again", self);
    }
    const char *(*version)(void);
    const char *(*status_name)(int);
    *(void **)&version = dlsym(library, "gantry_version");
    *(void **)&status_name = dlsym(library, "gantry_status_name");
    assert_non_null(version);
    assert_non_null(status_name);
    assert_string_equal(status_name(0), "GANTRY_OK");
    assert_int_equal(strspn(version(), "0123456789."), strlen(version()));
    assert_null(dlsym(library, "gy_zalloc"));
    assert_int_equal(dlclose(library), 0);
}

int main(int argc, char **argv)
{
    (void)argc;
    self = argv[0];
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_library_opens_at_run_time_and_works)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
