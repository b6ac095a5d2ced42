/* SPDX-License-Identifier: MIT */
/* What there is no more room for: the first that was told counts. */
#include "proof/order.h"

static _Atomic(const char *) lacking; /* atomic; what there is no more room for; NULL: there is */

void gy_order_lack(const char *what)
{
    const char *none = NULL;
    atomic_compare_exchange_strong(&lacking, &none, what);
}

const char *gy_order_lacks(void)
{
    return atomic_load(&lacking);
}
