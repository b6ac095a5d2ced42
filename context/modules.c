/* SPDX-License-Identifier: MIT */
/* Kernel images of a context, as the application sees them. */
#include "context/context.h"

#include "base/handle.h"
#include "driver/module.h"
#include "profile/kernel_names.h"

#include <gantry/host_module.h>

/* The host form of an image reports this for the other forms, which are made of the same file. */
static enum gy_kernel_macros macros_of(const gantry_module_image *image)
{
    const struct gantry_host_module *host = image->host;
    if (host == NULL || host->magic != GANTRY_HOST_MODULE_MAGIC || host->has_cta_macros == 1) {
        return GY_KERNEL_UNKNOWN;
    }
    return host->has_cta_macros == 0 ? GY_KERNEL_SILENT : GY_KERNEL_SLOTS;
}

/* An image is loaded once per context, however often the parts of a program ask for it: its code takes
 * device memory and its kernels take time to load.  The lock is held while the driver
 * loads, so that two threads cannot both be first; see docs/design/threading.md. */
static gantry_status find_or_load_locked(gantry_context *context, const gantry_module_image *image,
                                         gantry_module **out) GY_REQUIRES(context->lock)
{
    for (gantry_module *module = context->modules; module != NULL; module = module->next) {
        if (module->image == image) {
            module->loads++;
            *out = module;
            return GANTRY_OK;
        }
    }
    gantry_module *module;
    gantry_status status = gy_module_load(context->cuda, image, &module);
    if (status != GANTRY_OK) {
        return status;
    }
    status = gy_kernel_names_add_module(image->kernel_names, macros_of(image));
    if (status != GANTRY_OK) {
        gy_module_unload(module);
        return status;
    }
    module->owner = context;
    module->loads = 1;
    module->next = context->modules;
    context->modules = module;
    *out = module;
    return GANTRY_OK;
}

gantry_status gantry_module_load(gantry_context *context, const gantry_module_image *image,
                                 gantry_module **out)
{
    GY_ACCEPT(CONTEXT, context);
    if (context == NULL || image == NULL || out == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_module_load: %s is NULL",
                       context == NULL ? "context"
                       : image == NULL ? "image"
                                       : "out");
    }
    gantry_status status = gy_context_enter(context->cuda);
    if (status != GANTRY_OK) {
        return status;
    }
    gantry_module *module;
    gy_mutex_lock(&context->lock);
    status = find_or_load_locked(context, image, &module);
    gy_mutex_unlock(&context->lock);
    (void)gy_context_pop(context->cuda);
    if (status == GANTRY_OK) {
        *out = module;
    }
    return status;
}

void gantry_module_unload(gantry_module *module)
{
    GY_ACCEPT_OR_LEAVE(MODULE, module);
    if (module == NULL) {
        return;
    }
    gantry_context *context = module->owner;
    gy_mutex_lock(&context->lock);
    bool last = --module->loads == 0;
    gantry_module **link = &context->modules;
    while (last && *link != module) {
        link = &(*link)->next;
    }
    if (last) {
        *link = module->next;
    }
    gy_mutex_unlock(&context->lock);
    if (!last) {
        return;
    }
    bool pushed = gy_context_push(context->cuda) == GANTRY_OK;
    gy_kernel_names_remove_module(module->image->kernel_names);
    gy_module_unload(module);
    if (pushed) {
        (void)gy_context_pop(context->cuda);
    }
}

gantry_status gantry_module_get_kernel(gantry_module *module, const char *name, gantry_kernel **out)
{
    GY_ACCEPT(MODULE, module);
    if (module == NULL || name == NULL || out == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_module_get_kernel: %s is NULL",
                       module == NULL ? "module"
                       : name == NULL ? "name"
                                      : "out");
    }
    return gy_module_kernel(module, name, out);
}

void *gantry_kernel_native(const gantry_kernel *kernel)
{
    GY_ACCEPT_OR(NULL, KERNEL, kernel);
    if (kernel == NULL) {
        (void)GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_kernel_native: kernel is NULL");
        return NULL;
    }
    return kernel->function;
}

const char *gantry_kernel_name(const gantry_kernel *kernel)
{
    GY_ACCEPT_OR("", KERNEL, kernel);
    return kernel->name;
}
