/* The list behind gantry_copy_queue. */
#ifndef COPYKERNEL_QUEUE_H
#define COPYKERNEL_QUEUE_H

#include <gantry/copy.h>

/* Owner: whoever uses the queue, one thread at a time. */
struct gantry_copy_queue {
    gantry_copy_desc *descs;       /* `room` of them; source of a long fill is set by gy_copy_queue_descs() */
    unsigned char (*patterns)[16]; /* as many; of long fills */
    size_t count, room;
};

/* The queued descriptors; valid until the queue changes. */
const gantry_copy_desc *gy_copy_queue_descs(gantry_copy_queue *queue);
/* Take the first `count` away. */
void gy_copy_queue_drop(gantry_copy_queue *queue, size_t count);

#endif
