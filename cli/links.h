/* SPDX-License-Identifier: MIT */
/* `gantry info --links`: the links between all devices, measured. */
#ifndef CLI_LINKS_H
#define CLI_LINKS_H

#include <gantry/links.h>

/* How many devices a driver has that has one at least. */
int cli_count_devices(gantry_driver_choice driver);

/* The command's exit status. */
int cli_show_links(gantry_driver_choice driver, bool json);

#endif
