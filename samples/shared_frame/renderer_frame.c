/* SPDX-License-Identifier: MIT */
/* One frame: drawn, handed over, read back. */
#include "samples/shared_frame/frame.h"
#include "samples/shared_frame/renderer.h"

#include <stdio.h>

#define READ_TIMEOUT_NS UINT64_C(10000000000)

static bool good(struct renderer *r, VkResult result, const char *what)
{
    if (result != VK_SUCCESS) {
        snprintf(r->error, sizeof(r->error), "%s failed with VkResult %d", what, (int)result);
    }
    return result == VK_SUCCESS;
}

/* The shared buffer goes to whoever else uses it, or comes back: without, what one wrote need not be seen by
 * the other. */
static void hand_over(struct renderer_slot *s, VkCommandBuffer commands, bool back)
{
    uint32_t own = s->renderer->family;
    VkBufferMemoryBarrier barrier = {.sType = VK_STRUCTURE_TYPE_BUFFER_MEMORY_BARRIER,
                                     .srcAccessMask = back ? 0 : VK_ACCESS_TRANSFER_WRITE_BIT,
                                     .dstAccessMask = back ? VK_ACCESS_TRANSFER_READ_BIT : 0,
                                     .srcQueueFamilyIndex = back ? VK_QUEUE_FAMILY_EXTERNAL : own,
                                     .dstQueueFamilyIndex = back ? own : VK_QUEUE_FAMILY_EXTERNAL,
                                     .buffer = s->shared,
                                     .size = VK_WHOLE_SIZE};
    vkCmdPipelineBarrier(commands, back ? VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT : VK_PIPELINE_STAGE_TRANSFER_BIT,
                         back ? VK_PIPELINE_STAGE_TRANSFER_BIT : VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, 0, 0,
                         NULL, 1, &barrier, 0, NULL);
}

/* It does not come back: each frame begins with a cleared image. */
static void hand_image_over(struct renderer_slot *s)
{
    VkImageMemoryBarrier barrier = {.sType = VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER,
                                    .srcAccessMask = VK_ACCESS_COLOR_ATTACHMENT_WRITE_BIT,
                                    .oldLayout = VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL,
                                    .newLayout = VK_IMAGE_LAYOUT_GENERAL,
                                    .srcQueueFamilyIndex = s->renderer->family,
                                    .dstQueueFamilyIndex = VK_QUEUE_FAMILY_EXTERNAL,
                                    .image = s->image,
                                    .subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1}};
    vkCmdPipelineBarrier(s->draw, VK_PIPELINE_STAGE_COLOR_ATTACHMENT_OUTPUT_BIT,
                         VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, 0, 0, NULL, 0, NULL, 1, &barrier);
}

static void draw_rectangles(VkCommandBuffer commands, uint32_t number)
{
    struct frame_rectangle rectangles[FRAME_RECTANGLES];
    frame_rectangles(number, rectangles);
    for (uint32_t i = 0; i < FRAME_RECTANGLES; i++) {
        const struct frame_rectangle *from = &rectangles[i];
        VkClearAttachment color = {.aspectMask = VK_IMAGE_ASPECT_COLOR_BIT};
        for (int c = 0; c < 4; c++) {
            color.clearValue.color.float32[c] = (float)from->color[c] / 255.0f;
        }
        VkClearRect where = {.rect = {{(int32_t)from->x, (int32_t)from->y}, {from->width, from->height}},
                             .layerCount = 1};
        vkCmdClearAttachments(commands, 1, &color, 1, &where);
    }
}

static bool record_draw(struct renderer_slot *s, uint32_t number)
{
    struct renderer *r = s->renderer;
    VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                      .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
    VkClearValue black = {.color.float32 = {0, 0, 0, 0}};
    VkRenderPassBeginInfo pass = {.sType = VK_STRUCTURE_TYPE_RENDER_PASS_BEGIN_INFO,
                                  .renderPass = r->pass,
                                  .framebuffer = s->framebuffer,
                                  .renderArea = {{0, 0}, {FRAME_WIDTH, FRAME_HEIGHT}},
                                  .clearValueCount = 1,
                                  .pClearValues = &black};
    VkBufferImageCopy all = {.imageSubresource = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1},
                             .imageExtent = {FRAME_WIDTH, FRAME_HEIGHT, 1}};
    if (!good(r, vkBeginCommandBuffer(s->draw, &begin), "vkBeginCommandBuffer")) {
        return false;
    }
    vkCmdBeginRenderPass(s->draw, &pass, VK_SUBPASS_CONTENTS_INLINE);
    draw_rectangles(s->draw, number);
    vkCmdEndRenderPass(s->draw);
    if (r->shares_images) {
        hand_image_over(s);
    } else {
        vkCmdCopyImageToBuffer(s->draw, s->image, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL, s->shared, 1, &all);
    }
    hand_over(s, s->draw, false);
    return good(r, vkEndCommandBuffer(s->draw), "vkEndCommandBuffer");
}

bool renderer_draw(struct renderer_slot *s, uint32_t number, uint64_t value)
{
    VkTimelineSemaphoreSubmitInfo values = {.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
                                            .signalSemaphoreValueCount = 1,
                                            .pSignalSemaphoreValues = &value};
    VkSubmitInfo submit = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                           .pNext = &values,
                           .commandBufferCount = 1,
                           .pCommandBuffers = &s->draw,
                           .signalSemaphoreCount = 1,
                           .pSignalSemaphores = &s->drawn};
    return record_draw(s, number) &&
           good(s->renderer, vkQueueSubmit(s->renderer->queue, 1, &submit, VK_NULL_HANDLE), "vkQueueSubmit");
}

static bool record_read(struct renderer_slot *s)
{
    struct renderer *r = s->renderer;
    VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                      .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
    VkBufferCopy result = {.srcOffset = FRAME_OUT, .size = FRAME_BYTES + FRAME_BIN_BYTES};
    VkMemoryBarrier to_host = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                               .srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT,
                               .dstAccessMask = VK_ACCESS_HOST_READ_BIT};
    if (!good(r, vkBeginCommandBuffer(s->read, &begin), "vkBeginCommandBuffer")) {
        return false;
    }
    hand_over(s, s->read, true);
    vkCmdCopyBuffer(s->read, s->shared, s->staging, 1, &result);
    vkCmdPipelineBarrier(s->read, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &to_host,
                         0, NULL, 0, NULL);
    return good(r, vkEndCommandBuffer(s->read), "vkEndCommandBuffer");
}

bool renderer_read(struct renderer_slot *s, uint64_t value, bool waits)
{
    struct renderer *r = s->renderer;
    VkPipelineStageFlags stage = VK_PIPELINE_STAGE_TRANSFER_BIT;
    VkTimelineSemaphoreSubmitInfo values = {.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
                                            .waitSemaphoreValueCount = 1,
                                            .pWaitSemaphoreValues = &value};
    VkSubmitInfo submit = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1, .pCommandBuffers = &s->read};
    if (waits) {
        submit.pNext = &values;
        submit.waitSemaphoreCount = 1;
        submit.pWaitSemaphores = &s->filtered;
        submit.pWaitDstStageMask = &stage;
    }
    return good(r, vkResetFences(r->device, 1, &s->done), "vkResetFences") && record_read(s) &&
           good(r, vkQueueSubmit(r->queue, 1, &submit, s->done), "vkQueueSubmit");
}

bool renderer_wait_read(struct renderer_slot *s)
{
    struct renderer *r = s->renderer;
    return good(r, vkWaitForFences(r->device, 1, &s->done, VK_TRUE, READ_TIMEOUT_NS), "vkWaitForFences");
}
