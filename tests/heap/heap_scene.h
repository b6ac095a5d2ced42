/* SPDX-License-Identifier: MIT */
/* A heap over the fake driver. */
#ifndef TESTS_HEAP_HEAP_SCENE_H
#define TESTS_HEAP_HEAP_SCENE_H

#include <gantry/gantry.h>

/* Open a heap on a device of 1 GiB, see fake_driver_open(). */
gantry_heap *heap_scene_open(const gantry_heap_options *options);
/* Check that everything was given back, and that every call of the driver was correct. */
void heap_scene_close(gantry_heap *heap);
gantry_heap_stats heap_scene_stats(gantry_heap *heap, gantry_memory_kind kind);
/* Allocate a block for which there has to be room. */
void *heap_scene_alloc(gantry_heap *heap, gantry_memory_kind kind, size_t bytes);

#endif
