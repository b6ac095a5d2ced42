/* SPDX-License-Identifier: MIT */
/* $CUDA_VISIBLE_DEVICES: which devices of four are visible, and in which order. */
#include "emulator/visible.h"

#include "tests/support/cmocka_c11.h"

#include <stdlib.h>
#include <string.h>

#define FIRST "GPU-67616e74-7279-2d65-6d75-6c6174656400"
#define LAST "GPU-64616e74-7279-2d65-6d75-6c6174656403"

static const struct {
    const char *text; /* NULL: not set */
    const char *want; /* a digit for each visible device */
} cases[] = {
    {NULL, "0123"},
    {"", ""},
    {"2", "2"},
    {"3,1", "31"},
    {" 3 , 1 ", "31"},
    {"0,9,1", "0"}, /* a bad entry ends the list */
    {"-1", ""},
    {"0,-1,1", "0"},
    {"0,", "0"},
    {",0", ""},
    {"no", ""},
    {"0,no,1", "0"},
    {"1st,2nd", "12"},
    {"99999999999999999999", ""},
    {"1,0,1", ""}, /* a device twice: none */
    {"1,9,1", "1"},
    {LAST, "3"},
    {LAST "," FIRST, "30"},
    {LAST "0", ""}, /* longer than a UUID */
    {"GPU-64", "3"},
    {"GPU-65616E74", "2"},
    {"GPU-64,GPU-67616e74", "30"},
    {"GPU-6", ""}, /* all begin so */
    {"GPU-", ""},
    {"GPU-64,GPU-6,GPU-67", "3"},
    {"GPU-64,GPU-ff,GPU-67", "3"},
    {"GPU-64,GPU-64616e", ""},
    {"GPU-64,0", "3"}, /* kinds do not mix */
    {"0,GPU-64", "0"},
    {"MIG-64,MIG-67", "30"},
};

static void test_each_value_gives_what_the_driver_gives(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int numbers[16];
        char got[17] = "";
        if (cases[i].text == NULL) {
            unsetenv("CUDA_VISIBLE_DEVICES");
        } else {
            setenv("CUDA_VISIBLE_DEVICES", cases[i].text, 1);
        }
        uint32_t count = gy_emu_visible_read(4, numbers);
        for (uint32_t j = 0; j < count; j++) {
            got[j] = (char)('0' + numbers[j]);
        }
        if (strcmp(got, cases[i].want) != 0) {
            fail_msg("CUDA_VISIBLE_DEVICES=\"%s\": devices %s, not %s",
                     cases[i].text != NULL ? cases[i].text : "(not set)", got, cases[i].want);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_value_gives_what_the_driver_gives)};
    return cmocka_run_group_tests_name("visible", tests, NULL, NULL);
}
