/* SPDX-License-Identifier: MIT */
#include "base/proof.h"

#include "base/checking.h"
#include "base/status.h"

#include <dlfcn.h>

_Atomic(const struct gy_proof_ops *) gy_proof_table;
_Atomic(unsigned) gy_proof_flag;

/* On whatever thread has touched the memory. */
static void tell(gantry_log_level level, const char *line)
{
    gy_log(level, "%s", line);
}

static unsigned extras(void)
{
    return (gy_check_is_on(GY_CHECK_NEEDLESS) ? GY_PROOF_NEEDLESS : 0u) |
           (gy_check_is_on(GY_CHECK_UNWRITTEN) ? GY_PROOF_UNWRITTEN : 0u) |
           (gy_check_is_on(GY_CHECK_NEVER_READ) ? GY_PROOF_UNREAD : 0u);
}

void gy_proof_begin(const struct gy_proof_ops *ops)
{
    static atomic_flag has_begun = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&has_begun)) {
        ops->open(tell, extras());
        atomic_store(&gy_proof_table, ops);
        atomic_store(&gy_proof_flag, GY_PROOF_LISTENS);
    }
}

void gy_proof_begin_if_linked(void)
{
    void *library = gy_check_is_on(GY_CHECK_EDGES) && gy_proof() == NULL
                        ? dlopen(GY_PROOF_LIBRARY, RTLD_NOW | RTLD_NOLOAD)
                        : NULL;
    const struct gy_proof_ops *ops = library != NULL ? dlsym(library, GY_PROOF_SYMBOL) : NULL;
    if (ops != NULL) {
        gy_proof_begin(ops);
    }
}
