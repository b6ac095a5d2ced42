/* SPDX-License-Identifier: MIT */
/* Opening the proof that no edge is missing (base/proof.h), where $GANTRY_CHECK has "edges". */
#ifndef DRIVER_PROOF_H
#define DRIVER_PROOF_H

#include "driver/driver.h"

/* The driver was opened: if the check is on, the proof begins.  The driver's lock is held. */
void gy_driver_begin_proof(const struct gy_driver *driver);
/* If it could not, the log says why.  No lock is held. */
void gy_driver_tell_proof(void);

#endif
