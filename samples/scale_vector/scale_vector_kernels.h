/* SPDX-License-Identifier: MIT */
/* What the kernels of scale_vector and the program agree on. */
#ifndef SCALE_VECTOR_KERNELS_H
#define SCALE_VECTOR_KERNELS_H

#define SCALE_BLOCK 256u   /* threads of a block */
#define SCALE_PROLOGUE 64u /* steps to compute the factor */
#define SCALE_FACTOR 3u    /* what they come to */

/* Extra steps per element of one block in `every`: skewed work.  0: even work. */
#define SCALE_SKEW_STEPS 400u

#endif
