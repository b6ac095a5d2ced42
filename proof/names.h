/* SPDX-License-Identifier: MIT */
/* Names that outlive those who gave them; equal ones are one pointer. */
#ifndef PROOF_NAMES_H
#define PROOF_NAMES_H

/* Never freed.  "?": NULL, or there is no memory. */
const char *gy_name_keep(const char *name);

#endif
