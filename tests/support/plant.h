/* A damaged struct is seen by its check. */
#ifndef TESTS_SUPPORT_PLANT_H
#define TESTS_SUPPORT_PLANT_H

#include "tests/support/cmocka_c11.h"

/* `valid` holds; not so while `place` is `wrong`. */
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
