/* SPDX-License-Identifier: MIT */
/* The window: a swapchain into which each frame is scaled.  Presenting waits for nothing that was not
 * submitted: a frame is shown when it was read back. */
#include "samples/shared_frame/window.h"

#include "samples/shared_frame/frame.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef SHARED_FRAME_WINDOW

bool window_prepare(struct renderer_window *needs, char why[256])
{
    (void)needs;
    snprintf(why, 256, "--window: this program was built without GLFW (Debian: libglfw3-dev)");
    return false;
}

struct window *window_open(struct renderer *renderer)
{
    (void)renderer;
    return NULL;
}

bool window_show(struct window *window, const struct renderer_slot *slot)
{
    (void)window;
    (void)slot;
    return false;
}

bool window_is_closed(struct window *window)
{
    (void)window;
    return true;
}

void window_set_title(struct window *window, const char *title)
{
    (void)window;
    (void)title;
}

void window_close(struct window *window)
{
    (void)window;
}

#else

#define GLFW_INCLUDE_NONE
#include <GLFW/glfw3.h>

enum { MOST_IMAGES = 16, SCALE = 2 };
#define TIMEOUT_NS UINT64_C(10000000000)

struct window {
    struct renderer *renderer;
    GLFWwindow *native;
    VkSurfaceKHR surface;
    VkSwapchainKHR swapchain; /* VK_NULL_HANDLE: to be made anew */
    VkExtent2D extent;
    VkImage images[MOST_IMAGES];
    VkImage frame; /* the frame, in its own format and size */
    VkDeviceMemory memory;
    VkCommandBuffer commands;
    VkSemaphore acquired;
    VkFence done;
};

static bool good(struct renderer *r, VkResult result, const char *what)
{
    if (result != VK_SUCCESS) {
        snprintf(r->error, sizeof(r->error), "%s failed with VkResult %d", what, (int)result);
    }
    return result == VK_SUCCESS;
}

bool window_prepare(struct renderer_window *needs, char why[256])
{
    const char *text = NULL;
    if (!glfwInit()) {
        (void)glfwGetError(&text);
        snprintf(why, 256, "--window: there is no display that a window could be on (%s)",
                 text != NULL ? text : "neither X11 nor Wayland");
        return false;
    }
    needs->extensions = glfwGetRequiredInstanceExtensions(&needs->count);
    if (needs->extensions == NULL) {
        (void)glfwGetError(&text);
        snprintf(why, 256, "--window: Vulkan has no windows here (%s)",
                 text != NULL ? text : "no reason given");
        glfwTerminate();
    }
    return needs->extensions != NULL;
}

/* ---- the swapchain ---------------------------------------------------------------------------- */

static VkSurfaceFormatKHR pick_format(const struct window *w)
{
    VkSurfaceFormatKHR formats[64] = {{VK_FORMAT_UNDEFINED, VK_COLOR_SPACE_SRGB_NONLINEAR_KHR}};
    uint32_t count = 64;
    if (vkGetPhysicalDeviceSurfaceFormatsKHR(w->renderer->physical, w->surface, &count, formats) < 0) {
        count = 0;
    }
    for (uint32_t i = 0; i < count; i++) { /* the others make another picture of the same numbers */
        if (formats[i].format == VK_FORMAT_B8G8R8A8_UNORM || formats[i].format == VK_FORMAT_R8G8B8A8_UNORM) {
            return formats[i];
        }
    }
    return formats[0];
}

static bool make_swapchain(struct window *w)
{
    struct renderer *r = w->renderer;
    VkSurfaceCapabilitiesKHR can;
    VkSurfaceFormatKHR format = pick_format(w);
    if (!good(r, vkGetPhysicalDeviceSurfaceCapabilitiesKHR(r->physical, w->surface, &can),
              "vkGetPhysicalDeviceSurfaceCapabilitiesKHR")) {
        return false;
    }
    w->extent = can.currentExtent;
    if (w->extent.width == UINT32_MAX) { /* the surface takes the swapchain's size */
        int width, height;
        glfwGetFramebufferSize(w->native, &width, &height);
        w->extent = (VkExtent2D){(uint32_t)width, (uint32_t)height};
    }
    if (w->extent.width == 0 || w->extent.height == 0) {
        return true; /* there is nothing to see of it */
    }
    uint32_t count = can.minImageCount + 1;
    VkSwapchainCreateInfoKHR info = {
        .sType = VK_STRUCTURE_TYPE_SWAPCHAIN_CREATE_INFO_KHR,
        .surface = w->surface,
        .minImageCount = can.maxImageCount != 0 && count > can.maxImageCount ? can.maxImageCount : count,
        .imageFormat = format.format,
        .imageColorSpace = format.colorSpace,
        .imageExtent = w->extent,
        .imageArrayLayers = 1,
        .imageUsage = VK_IMAGE_USAGE_TRANSFER_DST_BIT,
        .preTransform = can.currentTransform,
        .compositeAlpha = VK_COMPOSITE_ALPHA_OPAQUE_BIT_KHR,
        .presentMode = VK_PRESENT_MODE_FIFO_KHR,
        .clipped = VK_TRUE};
    uint32_t images = MOST_IMAGES;
    return good(r, vkCreateSwapchainKHR(r->device, &info, NULL, &w->swapchain), "vkCreateSwapchainKHR") &&
           good(r, vkGetSwapchainImagesKHR(r->device, w->swapchain, &images, w->images),
                "vkGetSwapchainImagesKHR");
}

static void drop_swapchain(struct window *w)
{
    vkDeviceWaitIdle(w->renderer->device);
    vkDestroySwapchainKHR(w->renderer->device, w->swapchain, NULL);
    w->swapchain = VK_NULL_HANDLE;
}

/* ---- showing ---------------------------------------------------------------------------------- */

static void move(VkCommandBuffer commands, VkImage image, VkImageLayout from, VkImageLayout to)
{
    VkImageMemoryBarrier barrier = {.sType = VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER,
                                    .srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT,
                                    .dstAccessMask =
                                        VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
                                    .oldLayout = from,
                                    .newLayout = to,
                                    .srcQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED,
                                    .dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED,
                                    .image = image,
                                    .subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1}};
    vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 0, NULL,
                         0, NULL, 1, &barrier);
}

static bool record(struct window *w, const struct renderer_slot *slot, VkImage image)
{
    struct renderer *r = w->renderer;
    VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                      .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
    VkBufferImageCopy all = {.imageSubresource = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1},
                             .imageExtent = {FRAME_WIDTH, FRAME_HEIGHT, 1}};
    VkImageBlit scaled = {
        .srcSubresource = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1},
        .srcOffsets = {{0, 0, 0}, {FRAME_WIDTH, FRAME_HEIGHT, 1}},
        .dstSubresource = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1},
        .dstOffsets = {{0, 0, 0}, {(int32_t)w->extent.width, (int32_t)w->extent.height, 1}}};
    if (!good(r, vkBeginCommandBuffer(w->commands, &begin), "vkBeginCommandBuffer")) {
        return false;
    }
    move(w->commands, w->frame, VK_IMAGE_LAYOUT_UNDEFINED, VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL);
    vkCmdCopyBufferToImage(w->commands, slot->staging, w->frame, VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL, 1,
                           &all);
    move(w->commands, w->frame, VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL);
    move(w->commands, image, VK_IMAGE_LAYOUT_UNDEFINED, VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL);
    vkCmdBlitImage(w->commands, w->frame, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL, image,
                   VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL, 1, &scaled, VK_FILTER_NEAREST);
    move(w->commands, image, VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL, VK_IMAGE_LAYOUT_PRESENT_SRC_KHR);
    return good(r, vkEndCommandBuffer(w->commands), "vkEndCommandBuffer");
}

/* The copy is over when this returns, so the slot may be used again. */
static bool copy(struct window *w)
{
    struct renderer *r = w->renderer;
    VkPipelineStageFlags stage = VK_PIPELINE_STAGE_TRANSFER_BIT;
    VkSubmitInfo submit = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                           .waitSemaphoreCount = 1,
                           .pWaitSemaphores = &w->acquired,
                           .pWaitDstStageMask = &stage,
                           .commandBufferCount = 1,
                           .pCommandBuffers = &w->commands};
    return good(r, vkQueueSubmit(r->queue, 1, &submit, w->done), "vkQueueSubmit") &&
           good(r, vkWaitForFences(r->device, 1, &w->done, VK_TRUE, TIMEOUT_NS), "vkWaitForFences") &&
           good(r, vkResetFences(r->device, 1, &w->done), "vkResetFences");
}

bool window_show(struct window *w, const struct renderer_slot *slot)
{
    struct renderer *r = w->renderer;
    uint32_t index;
    glfwPollEvents();
    if (w->swapchain == VK_NULL_HANDLE && (!make_swapchain(w) || w->swapchain == VK_NULL_HANDLE)) {
        return w->extent.width == 0 || w->extent.height == 0;
    }
    VkResult result =
        vkAcquireNextImageKHR(r->device, w->swapchain, TIMEOUT_NS, w->acquired, VK_NULL_HANDLE, &index);
    if (result == VK_ERROR_OUT_OF_DATE_KHR) { /* the window has another size now: the next frame fits */
        drop_swapchain(w);
        return true;
    }
    if ((result != VK_SUBOPTIMAL_KHR && !good(r, result, "vkAcquireNextImageKHR")) ||
        !record(w, slot, w->images[index]) || !copy(w)) {
        return false;
    }
    VkPresentInfoKHR present = {.sType = VK_STRUCTURE_TYPE_PRESENT_INFO_KHR,
                                .swapchainCount = 1,
                                .pSwapchains = &w->swapchain,
                                .pImageIndices = &index};
    result = vkQueuePresentKHR(r->queue, &present);
    if (result == VK_ERROR_OUT_OF_DATE_KHR || result == VK_SUBOPTIMAL_KHR) {
        drop_swapchain(w);
        return true;
    }
    return good(r, result, "vkQueuePresentKHR");
}

bool window_is_closed(struct window *w)
{
    return glfwWindowShouldClose(w->native) != 0;
}

void window_set_title(struct window *w, const char *title)
{
    glfwSetWindowTitle(w->native, title);
}

/* ---- open and close --------------------------------------------------------------------------- */

static bool open_frame(struct window *w)
{
    VkImageCreateInfo info = {.sType = VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO,
                              .imageType = VK_IMAGE_TYPE_2D,
                              .format = VK_FORMAT_R8G8B8A8_UNORM,
                              .extent = {FRAME_WIDTH, FRAME_HEIGHT, 1},
                              .mipLevels = 1,
                              .arrayLayers = 1,
                              .samples = VK_SAMPLE_COUNT_1_BIT,
                              .tiling = VK_IMAGE_TILING_OPTIMAL,
                              .usage = VK_IMAGE_USAGE_TRANSFER_DST_BIT | VK_IMAGE_USAGE_TRANSFER_SRC_BIT};
    return renderer_create_image(w->renderer, &info, &w->frame, &w->memory);
}

static bool open_order(struct window *w)
{
    struct renderer *r = w->renderer;
    VkCommandBufferAllocateInfo commands = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                            .commandPool = r->pool,
                                            .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                            .commandBufferCount = 1};
    VkSemaphoreCreateInfo semaphore = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO};
    VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    return good(r, vkAllocateCommandBuffers(r->device, &commands, &w->commands),
                "vkAllocateCommandBuffers") &&
           good(r, vkCreateSemaphore(r->device, &semaphore, NULL, &w->acquired), "vkCreateSemaphore") &&
           good(r, vkCreateFence(r->device, &fence, NULL, &w->done), "vkCreateFence");
}

static bool open_native(struct window *w)
{
    struct renderer *r = w->renderer;
    VkBool32 shows = VK_FALSE;
    glfwWindowHint(GLFW_CLIENT_API, GLFW_NO_API);
    w->native = glfwCreateWindow(SCALE * FRAME_WIDTH, SCALE * FRAME_HEIGHT, "shared_frame", NULL, NULL);
    if (w->native == NULL) {
        const char *text = NULL;
        (void)glfwGetError(&text);
        snprintf(r->error, sizeof(r->error), "no window could be made (%s)",
                 text != NULL ? text : "no reason");
        return false;
    }
    if (!good(r, glfwCreateWindowSurface(r->instance, w->native, NULL, &w->surface),
              "glfwCreateWindowSurface") ||
        !good(r, vkGetPhysicalDeviceSurfaceSupportKHR(r->physical, r->family, w->surface, &shows),
              "vkGetPhysicalDeviceSurfaceSupportKHR")) {
        return false;
    }
    if (!shows) {
        snprintf(r->error, sizeof(r->error), "%s cannot draw in this display's windows", r->name);
    }
    return shows;
}

struct window *window_open(struct renderer *renderer)
{
    struct window *w = calloc(1, sizeof(*w));
    if (w == NULL) {
        snprintf(renderer->error, sizeof(renderer->error), "out of memory");
        return NULL;
    }
    w->renderer = renderer;
    if (!open_native(w) || !open_frame(w) || !open_order(w)) {
        window_close(w);
        return NULL;
    }
    return w;
}

void window_close(struct window *w)
{
    if (w == NULL) {
        return;
    }
    struct renderer *r = w->renderer;
    drop_swapchain(w);
    vkDestroyFence(r->device, w->done, NULL);
    vkDestroySemaphore(r->device, w->acquired, NULL);
    vkDestroyImage(r->device, w->frame, NULL);
    vkFreeMemory(r->device, w->memory, NULL);
    vkDestroySurfaceKHR(r->instance, w->surface, NULL);
    if (w->native != NULL) {
        glfwDestroyWindow(w->native);
    }
    glfwTerminate();
    free(w);
}

#endif
