/* SPDX-License-Identifier: MIT */
/* The library as a plug-in: opened at run time by a program that was not linked with it.
 *
 * With LITTLE_ROOM jemalloc is the installed one, which keeps its thread data in the static TLS block, of
 * which glibc leaves little to libraries opened late.  docs/install.md says what a program must do then; this
 * test does it. */
#include "tests/support/cmocka_c11.h"

#include <gantry/gantry.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TUNABLE "glibc.rtld.optional_static_tls=8192"

static char *self;

/* Open the library, in a process that was started anew if it has to be. */
static void *open_library(void)
{
    void *library = dlopen("./libgantry.so", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        const char *why = dlerror();
#ifndef LITTLE_ROOM
        fail_msg("%s", why);
#endif
        const char *tunables = getenv("GLIBC_TUNABLES");
        if (strstr(why, "static TLS") == NULL || (tunables != NULL && strstr(tunables, TUNABLE) != NULL)) {
            fail_msg("%s", why);
        }
        setenv("GLIBC_TUNABLES", TUNABLE, 1);
        execl(self, self, (char *)NULL);
        fail_msg("cannot start %s again", self);
    }
    return library;
}

static void test_library_opens_at_run_time_and_works(void **state)
{
    (void)state;
    void *library = open_library();
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

/* Returns `arg` when all went well. */
static void *use_and_close(void *arg)
{
    void *library = dlopen("./libgantry.so", RTLD_NOW | RTLD_LOCAL);
    gantry_status (*create)(const gantry_context_options *, gantry_context **);
    void (*destroy)(gantry_context *);
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_context *context = NULL;
    if (library == NULL) {
        return NULL;
    }
    *(void **)&create = dlsym(library, "gantry_context_create");
    *(void **)&destroy = dlsym(library, "gantry_context_destroy");
    options.driver = GANTRY_DRIVER_EMULATED;
    bool good = create != NULL && destroy != NULL && create(&options, &context) == GANTRY_OK;
    if (good) {
        destroy(context);
    }
    return dlclose(library) == 0 && good ? arg : NULL;
}

/* What the thread has of the library ends with it, behind dlclose(). */
static void test_threads_may_end_after_the_library_was_closed(void **state)
{
    for (int i = 0; i < 10; i++) {
        pthread_t thread;
        void *result = NULL;
        assert_int_equal(pthread_create(&thread, NULL, use_and_close, state), 0);
        assert_int_equal(pthread_join(thread, &result), 0);
        assert_ptr_equal(result, state);
    }
}

int main(int argc, char **argv)
{
    (void)argc;
    self = argv[0];
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_library_opens_at_run_time_and_works),
                                       cmocka_unit_test(test_threads_may_end_after_the_library_was_closed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
