/* SPDX-License-Identifier: MIT */
/* driver/cuda_abi.h against the toolkit's cuda.h: every constant, size and offset at run time; the
 * prototypes were compared when abi_cuda.c was compiled.  Skipped, with the reason, where the build found
 * no fitting cuda.h. */
#ifdef ABI_SKIP_REASON

#include <stdio.h>

int main(void)
{
    fprintf(stderr, "skipped: %s\n", ABI_SKIP_REASON);
    return 77;
}

#else

#include "tests/driver/abi_facts_table.h"
#include "tests/support/cmocka_c11.h"

static void test_every_fact_is_the_toolkits(void **state)
{
    (void)state;
    assert_int_equal(abi_ours_count, abi_cuda_count);
    for (size_t i = 0; i < abi_ours_count; i++) {
        const struct abi_fact *ours = &abi_ours[i], *cuda = &abi_cuda[i];
        assert_string_equal(ours->name, cuda->name);
        if (ours->value != cuda->value || ours->size != cuda->size) {
            fail_msg("%s: ours %lld (size %zu), cuda.h %d says %lld (size %zu)", ours->name, ours->value,
                     ours->size, abi_cuda_version, cuda->value, cuda->size);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_fact_is_the_toolkits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
