/* SPDX-License-Identifier: MIT */
#include <gantry/kernel.h>

struct root {
    float square, guess;
};

GANTRY_KERNEL(newton, (root *r, uint32_t *again))
{
    float last = r->guess;
    r->guess = (last + r->square / last) / 2;
    *again = r->guess < last; /* from above, until it does not get smaller */
}
