/* SPDX-License-Identifier: MIT */
/* Several devices: which of them reach each other, and what one may touch of another one's memory. */
#ifndef EMULATOR_PEER_H
#define EMULATOR_PEER_H

#include "emulator/context.h"

/* Read the topology from links= of $GANTRY_EMU_PROFILE.  False: it is none, and a line on stderr has said so.
 */
bool gy_emu_links_read(uint32_t devices);
/* Can `from` reach the memory of `to`?  A device reaches its own. */
bool gy_emu_link_reaches(int from, int to);
/* False when a parameter of a kernel is the address of device memory that the kernel's device has no access
 * to; `text` then says which one.  A host kernel cannot be stopped when it touches such memory, so a kernel
 * that is merely given it counts as one that does. */
bool gy_emu_params_may_be_touched(const struct gy_emu_context *context,
                                  const struct gantry_host_kernel *kernel, const struct gy_emu_args *args,
                                  char *text, size_t room);

#endif
