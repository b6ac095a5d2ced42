/* SPDX-License-Identifier: MIT */
/* The Vulkan half of the sample: it knows nothing of Gantry. */
#ifndef SAMPLES_SHARED_FRAME_RENDERER_H
#define SAMPLES_SHARED_FRAME_RENDERER_H

#include <stdbool.h>
#include <stdint.h>
#include <vulkan/vulkan.h>

struct renderer {
    VkInstance instance;
    VkPhysicalDevice physical;
    VkDevice device;
    VkQueue queue;
    uint32_t family;
    VkRenderPass pass;
    VkCommandPool pool;
    PFN_vkGetMemoryFdKHR get_memory_fd;
    PFN_vkGetSemaphoreFdKHR get_semaphore_fd; /* NULL: the driver exports no timelines */
    bool shares_images; /* set before slots are opened: the image is shared, and nothing copies it */
    char name[256];
    uint8_t uuid[16];
    char error[512]; /* of the call that failed */
};

/* A frame in flight: an image, memory that is shared, memory that the host reads, two timelines. */
struct renderer_slot {
    struct renderer *renderer;
    VkImage image;
    VkDeviceMemory image_memory;
    VkImageView view;
    VkFramebuffer framebuffer;
    VkBuffer shared, staging;
    VkDeviceMemory shared_memory, staging_memory;
    VkDeviceSize shared_bytes, image_bytes; /* allocated */
    const uint32_t *seen;                   /* what the host reads: the filtered frame, then its histogram */
    VkCommandBuffer draw, read;
    VkSemaphore drawn, filtered;
    VkFence done;
};

enum renderer_found { RENDERER_GOOD, RENDERER_NONE, RENDERER_FAILED };

/* What a window needs of the instance. */
struct renderer_window {
    const char *const *extensions;
    uint32_t count;
};

/* `uuid` NULL: any device, a software one before others.  RENDERER_NONE: no Vulkan driver, or none that can
 * share memory. */
enum renderer_found renderer_open(struct renderer *r, const uint8_t *uuid);
/* The same, on a device that can present to windows. */
enum renderer_found renderer_open_for_window(struct renderer *r, const uint8_t *uuid,
                                             const struct renderer_window *window);
void renderer_close(struct renderer *r);

bool renderer_slot_open(struct renderer *r, struct renderer_slot *slot);
void renderer_slot_close(struct renderer_slot *slot);
/* An image in memory of its own. */
bool renderer_create_image(struct renderer *r, const VkImageCreateInfo *info, VkImage *image,
                           VkDeviceMemory *memory);
/* A descriptor of the shared memory, which is the caller's; negative: it failed. */
int renderer_export(struct renderer_slot *slot);
/* The same of the image's memory. */
int renderer_export_image(struct renderer_slot *slot);
/* The same of a timeline of the slot, `drawn` or `filtered`. */
int renderer_export_timeline(struct renderer_slot *slot, VkSemaphore timeline);

/* Draw frame `number` into the shared memory; then `drawn` has `value`. */
bool renderer_draw(struct renderer_slot *slot, uint32_t number, uint64_t value);
/* Copy the filtered frame to the host as soon as `filtered` has `value`, or at once. */
bool renderer_read(struct renderer_slot *slot, uint64_t value, bool waits);
/* Until that is done. */
bool renderer_wait_read(struct renderer_slot *slot);

#endif
