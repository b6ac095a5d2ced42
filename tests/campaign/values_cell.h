/* SPDX-License-Identifier: MIT */
/* What the kernels of value chains get: parameters of many sizes, and a block of up to 4 KiB by value. */
#ifndef TESTS_CAMPAIGN_VALUES_CELL_H
#define TESTS_CAMPAIGN_VALUES_CELL_H

#include <stdint.h>

enum { VALUE_TINY = 3, VALUE_SMALL = 5, VALUE_MIDDLE = 65, VALUE_LARGE = 1000 };

struct value_tiny {
    uint8_t bytes[VALUE_TINY];
};
struct value_small {
    uint32_t words[VALUE_SMALL];
};
struct value_middle {
    uint32_t words[VALUE_MIDDLE];
};
struct value_large {
    uint32_t words[VALUE_LARGE];
};

#endif
