/* SPDX-License-Identifier: MIT */
/* The OpenGL half of the sample: it knows nothing of Gantry or Vulkan.  All of it belongs to one thread, that
 * of the GL context. */
#ifndef SAMPLES_SHARED_GL_GL_PART_H
#define SAMPLES_SHARED_GL_GL_PART_H

#include <stdbool.h>
#include <stdint.h>

struct gl_part {
    void *display, *context; /* EGLDisplay, EGLContext */
    uint32_t memory[2];      /* GL names: what was imported, */
    uint32_t textures[2];    /* and a texture for each: GL_DRAWN, GL_FILTERED */
    bool is_copied[2]; /* the texture has memory of its own and is copied; else it has the imported one */
    uint32_t framebuffer;
    char name[256];
    char error[256]; /* of the call that failed */
};

enum gl_found { GL_GOOD, GL_NONE, GL_FAILED };

/* A context without a window, on the device with this UUID.  GL_NONE: there is no such one that imports
 * memory. */
enum gl_found gl_open(struct gl_part *g, const uint8_t *uuid);
enum gl_texture { GL_DRAWN, GL_FILTERED };

/* Import memory that Vulkan has exported, as a texture, or as a buffer that it is copied to or from; the
 * descriptor is OpenGL's when it succeeds. */
bool gl_import(struct gl_part *g, enum gl_texture which, int fd, uint64_t bytes);
/* Draw frame `number`; it is in the shared memory when this returns. */
bool gl_draw(struct gl_part *g, uint32_t number);
/* Read the filtered frame. */
bool gl_read(struct gl_part *g, uint32_t *to);
void gl_close(struct gl_part *g);

#endif
