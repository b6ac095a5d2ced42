/* SPDX-License-Identifier: MIT */
/* Copies and fills of more than 4 GiB. */
#ifndef TESTS_CAMPAIGN_VALUES_HUGE_H
#define TESTS_CAMPAIGN_VALUES_HUGE_H

#include <gantry/gantry.h>

/* Run them on the context, which is of one device and has this manager.  They are left out where the driver
 * cannot map memory. */
void values_run_huge(gantry_context *context, gantry_taskman *manager);

#endif
