/* SPDX-License-Identifier: MIT */
/* How many streams a dispatcher may have. */
#ifndef DISPATCHER_STREAMS_MAX_H
#define DISPATCHER_STREAMS_MAX_H

#define GY_STREAMS_MAX 64
#define GY_STREAMS_DEFAULT 32

#endif
