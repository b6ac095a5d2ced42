/* Memory that another API has allocated and exported, as the context sees it. */
#ifndef CONTEXT_SHARED_MEMORY_H
#define CONTEXT_SHARED_MEMORY_H

#include <gantry/interop.h>

#define GY_LABEL_BYTES 64 /* bytes of the label of a shared memory or an exchange, with the 0 at its end */

/* Give back the memory that is left.  The GPU is done, and the context is current. */
void gy_shared_memory_give_back_all(gantry_context *context);

#endif
