/* SPDX-License-Identifier: MIT */
/* Plants a mistake in a struct, which its check must see. */
#ifndef TESTS_SUPPORT_PLANT_H
#define TESTS_SUPPORT_PLANT_H

#include "tests/support/cmocka_c11.h"

/* Check that `valid` holds, and that it does not while `place` is `wrong`. */
#define PLANT(valid, place, wrong)           \
    do {                                     \
        assert_true(valid);                  \
        __typeof__(place) before_ = (place); \
        (place) = (wrong);                   \
        assert_false(valid);                 \
        (place) = before_;                   \
        assert_true(valid);                  \
    } while (0)

#endif
