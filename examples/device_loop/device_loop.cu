#include <gantry/kernel.h>

struct root {
    uint32_t again;
    float square, guess;
};

GANTRY_KERNEL(newton, (root *r))
{
    float last = r->guess;
    r->guess = (last + r->square / last) / 2;
    r->again = r->guess < last; /* from above, until it does not get smaller */
}
