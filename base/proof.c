#include "base/proof.h"

#include "base/status.h"

_Atomic(const struct gy_proof_ops *) gy_proof_table;
_Atomic(unsigned) gy_proof_flag;

/* On whatever thread has touched the memory. */
static void tell(const char *line)
{
    gy_log(GANTRY_LOG_ERROR, "%s", line);
}

void gy_proof_begin(const struct gy_proof_ops *ops)
{
    ops->open(tell);
    atomic_store(&gy_proof_table, ops);
    atomic_store(&gy_proof_flag, GY_PROOF_LISTENS);
}
