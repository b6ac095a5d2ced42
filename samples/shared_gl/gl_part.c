/* SPDX-License-Identifier: MIT */
#define GL_GLEXT_PROTOTYPES
#include "samples/shared_gl/gl_part.h"

#include "samples/shared_frame/frame.h"

#include <EGL/egl.h>
#include <EGL/eglext.h>
#include <GL/gl.h>
#include <GL/glext.h>
#include <stdio.h>
#include <string.h>

enum { MOST_DEVICES = 16, UUID_BYTES = 16 };

/* Functions of GL_EXT_memory_object and its _fd part, which no library exports. */
static PFNGLCREATEMEMORYOBJECTSEXTPROC create_memory_objects;
static PFNGLDELETEMEMORYOBJECTSEXTPROC delete_memory_objects;
static PFNGLMEMORYOBJECTPARAMETERIVEXTPROC memory_object_parameter;
static PFNGLTEXTURESTORAGEMEM2DEXTPROC texture_storage_mem;
static PFNGLNAMEDBUFFERSTORAGEMEMEXTPROC buffer_storage_mem;
static PFNGLIMPORTMEMORYFDEXTPROC import_memory_fd;
static PFNGLGETUNSIGNEDBYTEI_VEXTPROC get_bytes;

static bool good(struct gl_part *g, const char *what)
{
    GLenum error = glGetError();
    if (error != GL_NO_ERROR) {
        snprintf(g->error, sizeof(g->error), "%s failed with OpenGL's error 0x%x", what, error);
    }
    return error == GL_NO_ERROR;
}

/* ---- the context ------------------------------------------------------------------------------ */

static bool has_extension(const char *name)
{
    GLint count = 0;
    glGetIntegerv(GL_NUM_EXTENSIONS, &count);
    for (GLint i = 0; i < count; i++) {
        if (strcmp((const char *)glGetStringi(GL_EXTENSIONS, (GLuint)i), name) == 0) {
            return true;
        }
    }
    return false;
}

static bool find_functions(void)
{
    create_memory_objects = (PFNGLCREATEMEMORYOBJECTSEXTPROC)eglGetProcAddress("glCreateMemoryObjectsEXT");
    delete_memory_objects = (PFNGLDELETEMEMORYOBJECTSEXTPROC)eglGetProcAddress("glDeleteMemoryObjectsEXT");
    memory_object_parameter =
        (PFNGLMEMORYOBJECTPARAMETERIVEXTPROC)eglGetProcAddress("glMemoryObjectParameterivEXT");
    texture_storage_mem = (PFNGLTEXTURESTORAGEMEM2DEXTPROC)eglGetProcAddress("glTextureStorageMem2DEXT");
    buffer_storage_mem = (PFNGLNAMEDBUFFERSTORAGEMEMEXTPROC)eglGetProcAddress("glNamedBufferStorageMemEXT");
    import_memory_fd = (PFNGLIMPORTMEMORYFDEXTPROC)eglGetProcAddress("glImportMemoryFdEXT");
    get_bytes = (PFNGLGETUNSIGNEDBYTEI_VEXTPROC)eglGetProcAddress("glGetUnsignedBytei_vEXT");
    return create_memory_objects != NULL && delete_memory_objects != NULL &&
           memory_object_parameter != NULL && texture_storage_mem != NULL && buffer_storage_mem != NULL &&
           import_memory_fd != NULL && get_bytes != NULL;
}

/* Is the current context on this device, and does it import memory? */
static bool is_fit(const uint8_t *uuid)
{
    GLint count = 0;
    if (!has_extension("GL_EXT_memory_object_fd") || !find_functions()) {
        return false;
    }
    glGetIntegerv(GL_NUM_DEVICE_UUIDS_EXT, &count);
    for (GLint i = 0; i < count; i++) {
        GLubyte theirs[UUID_BYTES] = {0};
        get_bytes(GL_DEVICE_UUID_EXT, (GLuint)i, theirs);
        if (memcmp(theirs, uuid, UUID_BYTES) == 0) {
            return true;
        }
    }
    return false;
}

static void leave(struct gl_part *g)
{
    if (g->context != NULL) {
        eglMakeCurrent(g->display, EGL_NO_SURFACE, EGL_NO_SURFACE, EGL_NO_CONTEXT);
        eglDestroyContext(g->display, g->context);
        eglTerminate(g->display);
    }
    g->context = NULL;
}

static bool try_display(struct gl_part *g, EGLDisplay display, const uint8_t *uuid)
{
    static const EGLint wanted[] = {EGL_CONTEXT_MAJOR_VERSION, 4, EGL_CONTEXT_MINOR_VERSION, 5, EGL_NONE};
    if (display == EGL_NO_DISPLAY || !eglInitialize(display, NULL, NULL)) {
        return false;
    }
    g->display = display;
    g->context = eglBindAPI(EGL_OPENGL_API)
                     ? eglCreateContext(display, EGL_NO_CONFIG_KHR, EGL_NO_CONTEXT, wanted)
                     : EGL_NO_CONTEXT;
    if (g->context == NULL) {
        eglTerminate(display);
        return false;
    }
    if (eglMakeCurrent(display, EGL_NO_SURFACE, EGL_NO_SURFACE, g->context) && is_fit(uuid)) {
        snprintf(g->name, sizeof(g->name), "%s", (const char *)glGetString(GL_RENDERER));
        return true;
    }
    leave(g);
    return false;
}

enum gl_found gl_open(struct gl_part *g, const uint8_t *uuid)
{
    EGLDeviceEXT devices[MOST_DEVICES];
    EGLint count = 0;
    memset(g, 0, sizeof(*g));
    PFNEGLQUERYDEVICESEXTPROC query = (PFNEGLQUERYDEVICESEXTPROC)eglGetProcAddress("eglQueryDevicesEXT");
    if (query == NULL || !query(MOST_DEVICES, devices, &count)) {
        count = 0;
    }
    bool found = false;
    for (EGLint i = 0; i < count && !found; i++) {
        found = try_display(g, eglGetPlatformDisplay(EGL_PLATFORM_DEVICE_EXT, devices[i], NULL), uuid);
    }
    if (!found && !try_display(g, eglGetPlatformDisplay(EGL_PLATFORM_SURFACELESS_MESA, NULL, NULL), uuid)) {
        snprintf(g->error, sizeof(g->error),
                 "no OpenGL driver without a window imports memory on Vulkan's device");
        return GL_NONE;
    }
    glCreateFramebuffers(1, &g->framebuffer);
    return good(g, "making a framebuffer") ? GL_GOOD : GL_FAILED;
}

/* ---- the memory -------------------------------------------------------------------------------- */

/* A texture whose rows lie one behind the other from the beginning of the memory on, as the kernel expects
 * them.  False: the driver knows no such tiling (NVIDIA's does not).  (An offset would save the second
 * memory; llvmpipe 22.3 takes one and does not heed it.) */
static bool bind_texture(uint32_t texture, uint32_t memory)
{
    glTextureParameteri(texture, GL_TEXTURE_TILING_EXT, GL_LINEAR_TILING_EXT);
    bool has_tiling = glGetError() == GL_NO_ERROR;
    if (has_tiling) {
        texture_storage_mem(texture, 1, GL_RGBA8, FRAME_WIDTH, FRAME_HEIGHT, memory, 0);
    }
    return has_tiling;
}

/* In place of that the memory is a buffer, which a texture with memory of its own is copied to or from, on
 * the GPU.  The buffer is made anew for each frame: OpenGL does not know that others write to the memory, and
 * may keep what it has seen of a buffer.  (llvmpipe 22.3 has no buffers in imported memory.) */
static uint32_t open_buffer(const struct gl_part *g, enum gl_texture which)
{
    uint32_t buffer;
    glCreateBuffers(1, &buffer);
    buffer_storage_mem(buffer, FRAME_BYTES, g->memory[which], 0);
    return buffer;
}

/* Copy what was drawn, and is in the texture, to the memory. */
static void copy_drawn(const struct gl_part *g)
{
    uint32_t buffer = open_buffer(g, GL_DRAWN);
    glBindBuffer(GL_PIXEL_PACK_BUFFER, buffer);
    glReadPixels(0, 0, FRAME_WIDTH, FRAME_HEIGHT, GL_RGBA, GL_UNSIGNED_BYTE, NULL);
    glBindBuffer(GL_PIXEL_PACK_BUFFER, 0);
    glFinish();
    glDeleteBuffers(1, &buffer);
}

/* Copy what was filtered from the memory to the texture. */
static void copy_filtered(const struct gl_part *g)
{
    uint32_t buffer = open_buffer(g, GL_FILTERED);
    glBindBuffer(GL_PIXEL_UNPACK_BUFFER, buffer);
    glTextureSubImage2D(g->textures[GL_FILTERED], 0, 0, 0, FRAME_WIDTH, FRAME_HEIGHT, GL_RGBA,
                        GL_UNSIGNED_BYTE, NULL);
    glBindBuffer(GL_PIXEL_UNPACK_BUFFER, 0);
    glDeleteBuffers(1, &buffer);
}

bool gl_import(struct gl_part *g, enum gl_texture which, int fd, uint64_t bytes)
{
    const GLint yes = GL_TRUE;
    uint32_t *memory = &g->memory[which], *texture = &g->textures[which];
    create_memory_objects(1, memory);
    memory_object_parameter(*memory, GL_DEDICATED_MEMORY_OBJECT_EXT, &yes);
    if (!good(g, "making a memory object")) {
        return false;
    }
    import_memory_fd(*memory, bytes, GL_HANDLE_TYPE_OPAQUE_FD_EXT, fd);
    if (!good(g, "glImportMemoryFdEXT()")) {
        return false;
    }
    glCreateTextures(GL_TEXTURE_2D, 1, texture);
    g->is_copied[which] = !bind_texture(*texture, *memory);
    if (g->is_copied[which]) {
        glTextureStorage2D(*texture, 1, GL_RGBA8, FRAME_WIDTH, FRAME_HEIGHT);
    }
    if (which == GL_DRAWN) {
        glNamedFramebufferTexture(g->framebuffer, GL_COLOR_ATTACHMENT0, *texture, 0);
    }
    return true; /* the descriptor is taken; what failed since is told by gl_draw() */
}

bool gl_draw(struct gl_part *g, uint32_t number)
{
    static const float black[4] = {0, 0, 0, 0};
    struct frame_rectangle rectangles[FRAME_RECTANGLES];
    frame_rectangles(number, rectangles);
    glBindFramebuffer(GL_FRAMEBUFFER, g->framebuffer);
    glDisable(GL_SCISSOR_TEST);
    glClearBufferfv(GL_COLOR, 0, black);
    glEnable(GL_SCISSOR_TEST);
    for (uint32_t i = 0; i < FRAME_RECTANGLES; i++) {
        const struct frame_rectangle *from = &rectangles[i];
        float color[4];
        for (int c = 0; c < 4; c++) {
            color[c] = (float)from->color[c] / 255.0f;
        }
        glScissor((GLint)from->x, (GLint)from->y, (GLsizei)from->width, (GLsizei)from->height);
        glClearBufferfv(GL_COLOR, 0, color);
    }
    if (g->is_copied[GL_DRAWN]) {
        copy_drawn(g);
    }
    glFinish();
    return good(g, "drawing");
}

bool gl_read(struct gl_part *g, uint32_t *to)
{
    if (g->is_copied[GL_FILTERED]) {
        copy_filtered(g);
    }
    glGetTextureImage(g->textures[GL_FILTERED], 0, GL_RGBA, GL_UNSIGNED_BYTE, FRAME_BYTES, to);
    return good(g, "reading");
}

void gl_close(struct gl_part *g)
{
    if (g->context == NULL) {
        return;
    }
    glDeleteTextures(2, g->textures);
    delete_memory_objects(2, g->memory);
    glDeleteFramebuffers(1, &g->framebuffer);
    leave(g);
}
