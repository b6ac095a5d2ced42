/* The list behind gantry_copy_queue. */
#ifndef COPYKERNEL_QUEUE_H
#define COPYKERNEL_QUEUE_H

#include <gantry/copy.h>

/* It belongs to the user of the queue; one thread at a time may use it. */
struct gantry_copy_queue {
    gantry_copy_desc *descs;       /* `room` of them; gy_copy_queue_descs() sets the source of a long fill */
    unsigned char (*patterns)[16]; /* as many, for long fills */
    size_t count, room;
};

/* The queued descriptors; valid until the queue changes. */
const gantry_copy_desc *gy_copy_queue_descs(gantry_copy_queue *queue);
/* Take away the first `count` descriptors. */
void gy_copy_queue_drop(gantry_copy_queue *queue, size_t count);

#endif
