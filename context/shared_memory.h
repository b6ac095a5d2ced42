/* Memory that another API has allocated and exported: what the context needs of it. */
#ifndef CONTEXT_SHARED_MEMORY_H
#define CONTEXT_SHARED_MEMORY_H

#include <gantry/interop.h>

#define GY_LABEL_BYTES 64 /* of a shared memory or an exchange, with the 0 at its end */

/* Give back what is left.  The GPU is done, the context current. */
void gy_shared_memory_give_back_all(gantry_context *context);

#endif
