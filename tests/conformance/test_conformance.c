/* SPDX-License-Identifier: MIT */
/* The conformance suite: all groups, on the driver that $GANTRY_TEST_DRIVER names, without the tests whose
 * names match the pattern $GANTRY_TEST_SKIP.  What a real device has not is
 * left out and said; of the emulated driver the suite is run as several devices and versions. */
#include "tests/conformance/conformance.h"

#include <stdlib.h>

/* clang-format off */
#define GROUPS(X) \
    X(contexts) X(memory) X(streams) X(modules) X(graphs) X(changes) X(captures) X(green) X(virtual_memory) X(external) X(images) \
    X(semaphores) X(launching) X(loops) X(devices)
/* clang-format on */

#define X(group) int cf_run_##group(void);
GROUPS(X)
#undef X

int main(void)
{
    int failed = 0;
    const char *skipped = getenv("GANTRY_TEST_SKIP");
    if (skipped != NULL) {
        print_message("skipped: $GANTRY_TEST_SKIP: %s\n", skipped);
        cmocka_set_skip_filter(skipped);
    }
#define X(group) failed += cf_run_##group();
    GROUPS(X)
#undef X
    return failed != 0;
}
