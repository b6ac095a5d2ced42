/* SPDX-License-Identifier: MIT */
/* A window that shows the filtered frames, made with GLFW where the sample was built with it. */
#ifndef SAMPLES_SHARED_FRAME_WINDOW_H
#define SAMPLES_SHARED_FRAME_WINDOW_H

#include "samples/shared_frame/renderer.h"

struct window;

/* Before renderer_open(): the instance's extensions that a window needs.  False: `why` says what is missing,
 * a display for instance. */
bool window_prepare(struct renderer_window *needs, char why[256]);
/* After renderer_open(), with the same; NULL: `renderer->error` says why. */
struct window *window_open(struct renderer *renderer);
/* Show what the slot has read back; true also when the user has closed the window. */
bool window_show(struct window *window, const struct renderer_slot *slot);
bool window_is_closed(struct window *window);
void window_set_title(struct window *window, const char *title);
/* NULL is ignored; ends what window_prepare() has begun, too. */
void window_close(struct window *window);

#endif
