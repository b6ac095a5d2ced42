/* SPDX-License-Identifier: MIT */
/* Includes CMocka behind the headers that it needs. */
#ifndef TESTS_SUPPORT_CMOCKA_C11_H
#define TESTS_SUPPORT_CMOCKA_C11_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Expect GANTRY_OK, and show the message otherwise. */
#define assert_ok(call)                                                                               \
    do {                                                                                              \
        gantry_status assert_ok_status = (call);                                                      \
        if (assert_ok_status != GANTRY_OK) {                                                          \
            fail_msg("%s: %s: %s", #call, gantry_status_name(assert_ok_status), gantry_last_error()); \
        }                                                                                             \
    } while (0)

#endif
