/* SPDX-License-Identifier: MIT */
/* Which device, and what belongs to a frame in flight. */
#include "samples/shared_frame/renderer.h"

#include "samples/shared_frame/frame.h"

#include <stdio.h>
#include <string.h>

#define FORMAT VK_FORMAT_R8G8B8A8_UNORM
#define MOST_DEVICES 16

static bool good(struct renderer *r, VkResult result, const char *call)
{
    if (result != VK_SUCCESS) {
        snprintf(r->error, sizeof(r->error), "%s failed with VkResult %d", call, (int)result);
    }
    return result == VK_SUCCESS;
}
#define GOOD(r, call) good((r), (call), #call)

/* ---- the device ------------------------------------------------------------------------------- */

static bool has_extension(VkPhysicalDevice device, const char *name)
{
    static VkExtensionProperties found[512];
    uint32_t count = sizeof(found) / sizeof(found[0]);
    if (vkEnumerateDeviceExtensionProperties(device, NULL, &count, found) < 0) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(found[i].extensionName, name) == 0) {
            return true;
        }
    }
    return false;
}

/* 0: not fit; the higher, the better. */
static int rate(VkPhysicalDevice device, const uint8_t *uuid, struct renderer *r)
{
    VkPhysicalDeviceIDProperties id = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES};
    VkPhysicalDeviceProperties2 properties = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                              .pNext = &id};
    VkPhysicalDeviceTimelineSemaphoreFeatures timelines = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES};
    VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                          .pNext = &timelines};
    vkGetPhysicalDeviceProperties2(device, &properties);
    if (properties.properties.apiVersion < VK_API_VERSION_1_2 ||
        !has_extension(device, VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME) ||
        (uuid != NULL && memcmp(uuid, id.deviceUUID, VK_UUID_SIZE) != 0)) {
        return 0;
    }
    vkGetPhysicalDeviceFeatures2(device, &features);
    snprintf(r->name, sizeof(r->name), "%s", properties.properties.deviceName);
    memcpy(r->uuid, id.deviceUUID, VK_UUID_SIZE);
    bool is_software = properties.properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
    return !timelines.timelineSemaphore ? 0 : is_software && uuid == NULL ? 2 : 1;
}

static bool pick_device(struct renderer *r, const uint8_t *uuid)
{
    VkPhysicalDevice devices[MOST_DEVICES];
    uint32_t count = MOST_DEVICES;
    int best = 0;
    if (vkEnumeratePhysicalDevices(r->instance, &count, devices) < 0) {
        count = 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct renderer seen = {.instance = NULL};
        int rating = rate(devices[i], uuid, &seen);
        if (rating > best) {
            best = rating;
            r->physical = devices[i];
            memcpy(r->name, seen.name, sizeof(r->name));
            memcpy(r->uuid, seen.uuid, sizeof(r->uuid));
        }
    }
    return best > 0;
}

/* Can timelines be exported? */
static bool shares_timelines(VkPhysicalDevice device)
{
    VkSemaphoreTypeCreateInfo type = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                      .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
    VkPhysicalDeviceExternalSemaphoreInfo info = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_SEMAPHORE_INFO,
        .pNext = &type,
        .handleType = VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT};
    VkExternalSemaphoreProperties found = {.sType = VK_STRUCTURE_TYPE_EXTERNAL_SEMAPHORE_PROPERTIES};
    if (!has_extension(device, VK_KHR_EXTERNAL_SEMAPHORE_FD_EXTENSION_NAME)) {
        return false;
    }
    vkGetPhysicalDeviceExternalSemaphoreProperties(device, &info, &found);
    return (found.externalSemaphoreFeatures & VK_EXTERNAL_SEMAPHORE_FEATURE_EXPORTABLE_BIT) != 0;
}

static bool find_family(struct renderer *r)
{
    VkQueueFamilyProperties families[MOST_DEVICES];
    uint32_t count = MOST_DEVICES;
    vkGetPhysicalDeviceQueueFamilyProperties(r->physical, &count, families);
    for (r->family = 0; r->family < count; r->family++) {
        if ((families[r->family].queueFlags & VK_QUEUE_GRAPHICS_BIT) != 0) {
            return true;
        }
    }
    snprintf(r->error, sizeof(r->error), "%s has no queue that draws", r->name);
    return false;
}

static bool open_device(struct renderer *r, bool presents)
{
    const char *extensions[3] = {VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME};
    uint32_t count = 1;
    bool has_both = shares_timelines(r->physical);
    if (has_both) {
        extensions[count++] = VK_KHR_EXTERNAL_SEMAPHORE_FD_EXTENSION_NAME;
    }
    if (presents) {
        extensions[count++] = VK_KHR_SWAPCHAIN_EXTENSION_NAME;
    }
    float priority = 1;
    VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                     .queueFamilyIndex = r->family,
                                     .queueCount = 1,
                                     .pQueuePriorities = &priority};
    VkPhysicalDeviceTimelineSemaphoreFeatures timelines = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES, .timelineSemaphore = VK_TRUE};
    VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                               .pNext = &timelines,
                               .queueCreateInfoCount = 1,
                               .pQueueCreateInfos = &queue,
                               .enabledExtensionCount = count,
                               .ppEnabledExtensionNames = extensions};
    if (!GOOD(r, vkCreateDevice(r->physical, &info, NULL, &r->device))) {
        return false;
    }
    vkGetDeviceQueue(r->device, r->family, 0, &r->queue);
    r->get_memory_fd = (PFN_vkGetMemoryFdKHR)vkGetDeviceProcAddr(r->device, "vkGetMemoryFdKHR");
    if (has_both) {
        r->get_semaphore_fd = (PFN_vkGetSemaphoreFdKHR)vkGetDeviceProcAddr(r->device, "vkGetSemaphoreFdKHR");
    }
    VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                    .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                                    .queueFamilyIndex = r->family};
    return GOOD(r, vkCreateCommandPool(r->device, &pool, NULL, &r->pool));
}

/* Cleared at its beginning, copied from after its end. */
static bool open_pass(struct renderer *r)
{
    VkAttachmentDescription color = {.format = FORMAT,
                                     .samples = VK_SAMPLE_COUNT_1_BIT,
                                     .loadOp = VK_ATTACHMENT_LOAD_OP_CLEAR,
                                     .storeOp = VK_ATTACHMENT_STORE_OP_STORE,
                                     .stencilLoadOp = VK_ATTACHMENT_LOAD_OP_DONT_CARE,
                                     .stencilStoreOp = VK_ATTACHMENT_STORE_OP_DONT_CARE,
                                     .initialLayout = VK_IMAGE_LAYOUT_UNDEFINED,
                                     .finalLayout = VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL};
    VkAttachmentReference reference = {.attachment = 0, .layout = VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL};
    VkSubpassDescription subpass = {.pipelineBindPoint = VK_PIPELINE_BIND_POINT_GRAPHICS,
                                    .colorAttachmentCount = 1,
                                    .pColorAttachments = &reference};
    VkSubpassDependency copied_after = {.srcSubpass = 0,
                                        .dstSubpass = VK_SUBPASS_EXTERNAL,
                                        .srcStageMask = VK_PIPELINE_STAGE_COLOR_ATTACHMENT_OUTPUT_BIT,
                                        .dstStageMask = VK_PIPELINE_STAGE_TRANSFER_BIT,
                                        .srcAccessMask = VK_ACCESS_COLOR_ATTACHMENT_WRITE_BIT,
                                        .dstAccessMask = VK_ACCESS_TRANSFER_READ_BIT};
    VkRenderPassCreateInfo info = {.sType = VK_STRUCTURE_TYPE_RENDER_PASS_CREATE_INFO,
                                   .attachmentCount = 1,
                                   .pAttachments = &color,
                                   .subpassCount = 1,
                                   .pSubpasses = &subpass,
                                   .dependencyCount = 1,
                                   .pDependencies = &copied_after};
    return GOOD(r, vkCreateRenderPass(r->device, &info, NULL, &r->pass));
}

enum renderer_found renderer_open(struct renderer *r, const uint8_t *uuid)
{
    return renderer_open_for_window(r, uuid, NULL);
}

enum renderer_found renderer_open_for_window(struct renderer *r, const uint8_t *uuid,
                                             const struct renderer_window *window)
{
    memset(r, 0, sizeof(*r));
    VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                     .pApplicationName = "shared_frame",
                                     .apiVersion = VK_API_VERSION_1_2};
    VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                 .pApplicationInfo = &application};
    if (window != NULL) {
        info.enabledExtensionCount = window->count;
        info.ppEnabledExtensionNames = window->extensions;
    }
    if (!GOOD(r, vkCreateInstance(&info, NULL, &r->instance))) {
        return RENDERER_NONE;
    }
    if (!pick_device(r, uuid)) {
        snprintf(r->error, sizeof(r->error), "%s",
                 uuid != NULL ? "no Vulkan driver shares memory of the device that Gantry uses"
                              : "no Vulkan driver can share memory and has timeline semaphores");
        return RENDERER_NONE;
    }
    if (window != NULL && !has_extension(r->physical, VK_KHR_SWAPCHAIN_EXTENSION_NAME)) {
        snprintf(r->error, sizeof(r->error), "%s cannot present to windows", r->name);
        return RENDERER_FAILED;
    }
    return find_family(r) && open_device(r, window != NULL) && open_pass(r) ? RENDERER_GOOD : RENDERER_FAILED;
}

void renderer_close(struct renderer *r)
{
    if (r->device != NULL) {
        vkDeviceWaitIdle(r->device);
        vkDestroyRenderPass(r->device, r->pass, NULL);
        vkDestroyCommandPool(r->device, r->pool, NULL);
        vkDestroyDevice(r->device, NULL);
    }
    if (r->instance != NULL) {
        vkDestroyInstance(r->instance, NULL);
    }
}

/* ---- a frame in flight ------------------------------------------------------------------------ */

static bool find_type(struct renderer *r, uint32_t types, VkMemoryPropertyFlags wanted, uint32_t *out)
{
    VkPhysicalDeviceMemoryProperties memory;
    vkGetPhysicalDeviceMemoryProperties(r->physical, &memory);
    for (*out = 0; *out < memory.memoryTypeCount; (*out)++) {
        if ((types >> *out & 1) != 0 && (memory.memoryTypes[*out].propertyFlags & wanted) == wanted) {
            return true;
        }
    }
    snprintf(r->error, sizeof(r->error), "no memory of the kind that is needed");
    return false;
}

static bool allocate(struct renderer *r, const VkMemoryRequirements *needs, VkMemoryPropertyFlags wanted,
                     const void *more, VkDeviceMemory *out)
{
    VkMemoryAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, .pNext = more, .allocationSize = needs->size};
    return find_type(r, needs->memoryTypeBits, wanted, &info.memoryTypeIndex) &&
           GOOD(r, vkAllocateMemory(r->device, &info, NULL, out));
}

bool renderer_create_image(struct renderer *r, const VkImageCreateInfo *info, VkImage *image,
                           VkDeviceMemory *memory)
{
    VkMemoryRequirements needs;
    if (!GOOD(r, vkCreateImage(r->device, info, NULL, image))) {
        return false;
    }
    vkGetImageMemoryRequirements(r->device, *image, &needs);
    return allocate(r, &needs, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, NULL, memory) &&
           GOOD(r, vkBindImageMemory(r->device, *image, *memory, 0));
}

/* The image is made so that its memory, which has nothing else in it, can be exported. */
static bool open_shared_image(struct renderer *r, struct renderer_slot *s, VkImageCreateInfo info)
{
    VkExternalMemoryImageCreateInfo external = {.sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_IMAGE_CREATE_INFO,
                                                .handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT};
    VkMemoryRequirements needs;
    info.pNext = &external;
    if (!GOOD(r, vkCreateImage(r->device, &info, NULL, &s->image))) {
        return false;
    }
    vkGetImageMemoryRequirements(r->device, s->image, &needs);
    VkMemoryDedicatedAllocateInfo dedicated = {.sType = VK_STRUCTURE_TYPE_MEMORY_DEDICATED_ALLOCATE_INFO,
                                               .image = s->image};
    VkExportMemoryAllocateInfo exported = {.sType = VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO,
                                           .pNext = &dedicated,
                                           .handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT};
    s->image_bytes = needs.size;
    return allocate(r, &needs, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, &exported, &s->image_memory) &&
           GOOD(r, vkBindImageMemory(r->device, s->image, s->image_memory, 0));
}

static bool open_image(struct renderer *r, struct renderer_slot *s)
{
    VkImageCreateInfo info = {.sType = VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO,
                              .imageType = VK_IMAGE_TYPE_2D,
                              .format = FORMAT,
                              .extent = {FRAME_WIDTH, FRAME_HEIGHT, 1},
                              .mipLevels = 1,
                              .arrayLayers = 1,
                              .samples = VK_SAMPLE_COUNT_1_BIT,
                              .tiling = VK_IMAGE_TILING_OPTIMAL,
                              .usage = VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT | VK_IMAGE_USAGE_TRANSFER_SRC_BIT};
    if (r->shares_images ? !open_shared_image(r, s, info)
                         : !renderer_create_image(r, &info, &s->image, &s->image_memory)) {
        return false;
    }
    VkImageViewCreateInfo view = {.sType = VK_STRUCTURE_TYPE_IMAGE_VIEW_CREATE_INFO,
                                  .image = s->image,
                                  .viewType = VK_IMAGE_VIEW_TYPE_2D,
                                  .format = FORMAT,
                                  .subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1}};
    VkFramebufferCreateInfo framebuffer = {.sType = VK_STRUCTURE_TYPE_FRAMEBUFFER_CREATE_INFO,
                                           .renderPass = r->pass,
                                           .attachmentCount = 1,
                                           .pAttachments = &s->view,
                                           .width = FRAME_WIDTH,
                                           .height = FRAME_HEIGHT,
                                           .layers = 1};
    return GOOD(r, vkCreateImageView(r->device, &view, NULL, &s->view)) &&
           GOOD(r, vkCreateFramebuffer(r->device, &framebuffer, NULL, &s->framebuffer));
}

/* Memory of one buffer, which can be exported. */
static bool open_shared(struct renderer *r, struct renderer_slot *s)
{
    VkExternalMemoryBufferCreateInfo external = {.sType =
                                                     VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO,
                                                 .handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT};
    VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                               .pNext = &external,
                               .size = FRAME_MEMORY,
                               .usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT};
    VkMemoryRequirements needs;
    if (!GOOD(r, vkCreateBuffer(r->device, &info, NULL, &s->shared))) {
        return false;
    }
    vkGetBufferMemoryRequirements(r->device, s->shared, &needs);
    VkMemoryDedicatedAllocateInfo dedicated = {.sType = VK_STRUCTURE_TYPE_MEMORY_DEDICATED_ALLOCATE_INFO,
                                               .buffer = s->shared};
    VkExportMemoryAllocateInfo exported = {.sType = VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO,
                                           .pNext = &dedicated,
                                           .handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT};
    s->shared_bytes = needs.size;
    return allocate(r, &needs, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, &exported, &s->shared_memory) &&
           GOOD(r, vkBindBufferMemory(r->device, s->shared, s->shared_memory, 0));
}

static bool open_staging(struct renderer *r, struct renderer_slot *s)
{
    VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                               .size = FRAME_BYTES + FRAME_BIN_BYTES,
                               .usage = VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT};
    VkMemoryRequirements needs;
    void *seen;
    if (!GOOD(r, vkCreateBuffer(r->device, &info, NULL, &s->staging))) {
        return false;
    }
    vkGetBufferMemoryRequirements(r->device, s->staging, &needs);
    if (!allocate(r, &needs, VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT, NULL,
                  &s->staging_memory) ||
        !GOOD(r, vkBindBufferMemory(r->device, s->staging, s->staging_memory, 0)) ||
        !GOOD(r, vkMapMemory(r->device, s->staging_memory, 0, VK_WHOLE_SIZE, 0, &seen))) {
        return false;
    }
    s->seen = seen;
    return true;
}

static bool open_order(struct renderer *r, struct renderer_slot *s)
{
    VkCommandBufferAllocateInfo buffers = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                           .commandPool = r->pool,
                                           .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                           .commandBufferCount = 1};
    VkExportSemaphoreCreateInfo exported = {.sType = VK_STRUCTURE_TYPE_EXPORT_SEMAPHORE_CREATE_INFO,
                                            .handleTypes = VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT};
    VkSemaphoreTypeCreateInfo type = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                      .pNext = r->get_semaphore_fd != NULL ? &exported : NULL,
                                      .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
    VkSemaphoreCreateInfo timeline = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type};
    VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    return GOOD(r, vkAllocateCommandBuffers(r->device, &buffers, &s->draw)) &&
           GOOD(r, vkAllocateCommandBuffers(r->device, &buffers, &s->read)) &&
           GOOD(r, vkCreateSemaphore(r->device, &timeline, NULL, &s->drawn)) &&
           GOOD(r, vkCreateSemaphore(r->device, &timeline, NULL, &s->filtered)) &&
           GOOD(r, vkCreateFence(r->device, &fence, NULL, &s->done));
}

bool renderer_slot_open(struct renderer *r, struct renderer_slot *slot)
{
    memset(slot, 0, sizeof(*slot));
    slot->renderer = r;
    return open_image(r, slot) && open_shared(r, slot) && open_staging(r, slot) && open_order(r, slot);
}

void renderer_slot_close(struct renderer_slot *s)
{
    if (s->renderer == NULL) {
        return;
    }
    VkDevice device = s->renderer->device;
    vkDeviceWaitIdle(device);
    vkDestroyFence(device, s->done, NULL);
    vkDestroySemaphore(device, s->drawn, NULL);
    vkDestroySemaphore(device, s->filtered, NULL);
    vkDestroyBuffer(device, s->staging, NULL);
    vkDestroyBuffer(device, s->shared, NULL);
    vkFreeMemory(device, s->staging_memory, NULL);
    vkFreeMemory(device, s->shared_memory, NULL);
    vkDestroyFramebuffer(device, s->framebuffer, NULL);
    vkDestroyImageView(device, s->view, NULL);
    vkDestroyImage(device, s->image, NULL);
    vkFreeMemory(device, s->image_memory, NULL);
}

static int export_memory(struct renderer *r, VkDeviceMemory memory)
{
    VkMemoryGetFdInfoKHR info = {.sType = VK_STRUCTURE_TYPE_MEMORY_GET_FD_INFO_KHR,
                                 .memory = memory,
                                 .handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT};
    int fd = -1;
    return GOOD(r, r->get_memory_fd(r->device, &info, &fd)) ? fd : -1;
}

int renderer_export(struct renderer_slot *slot)
{
    return export_memory(slot->renderer, slot->shared_memory);
}

int renderer_export_image(struct renderer_slot *slot)
{
    return export_memory(slot->renderer, slot->image_memory);
}

int renderer_export_timeline(struct renderer_slot *slot, VkSemaphore timeline)
{
    struct renderer *r = slot->renderer;
    VkSemaphoreGetFdInfoKHR info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_GET_FD_INFO_KHR,
                                    .semaphore = timeline,
                                    .handleType = VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT};
    int fd = -1;
    return GOOD(r, r->get_semaphore_fd(r->device, &info, &fd)) ? fd : -1;
}
