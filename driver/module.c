/* SPDX-License-Identifier: MIT */
/* How kernel images are loaded.
 *
 * The emulated driver takes the host form only.  The real one is given the fat binary, and the PTX when there
 * is no fat binary or none of its parts fits the device.  If the driver's compiler cannot take the PTX, its
 * message goes into the error message. */
#include "driver/module.h"

#include "base/alloc.h"
#include "base/handle.h"
#include "base/options.h"

#include <gantry/host_module.h>

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define JIT_LOG_BYTES 2048

/* These results mean that this form does not fit this device or driver; another form may fit. */
static bool does_not_fit(CUresult result)
{
    switch ((int)result) {
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    case CUDA_ERROR_JIT_COMPILER_NOT_FOUND:
    case CUDA_ERROR_JIT_COMPILATION_DISABLED:
        return true;
    default:
        return false;
    }
}

/* Make one line of the compiler's log: line ends become blanks, and blanks at the end are removed. */
static void flatten(char *log)
{
    size_t end = 0;
    for (size_t i = 0; log[i] != '\0'; i++) {
        if ((unsigned char)log[i] < ' ') {
            log[i] = ' ';
        }
        if (log[i] != ' ') {
            end = i + 1;
        }
    }
    log[end] = '\0';
}

/* Give one form to the driver.  `log` stays empty unless a compiler writes one. */
static CUresult load_form(const struct gy_context *context, const void *form, const struct gy_jit *jit,
                          CUmodule *out, char log[JIT_LOG_BYTES])
{
    unsigned int count = 2;
    CUjit_option options[4] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    /* The second value is the room itself, carried in a pointer's bits; so are all other numbers. */
    void *values[4] = {log, (void *)(uintptr_t)(JIT_LOG_BYTES - 1)};
    if (jit->max_registers != 0) {
        options[count] = CU_JIT_MAX_REGISTERS;
        values[count++] = (void *)(uintptr_t)jit->max_registers;
    }
    if (jit->line_info != 0) {
        options[count] = CU_JIT_GENERATE_LINE_INFO;
        values[count++] = (void *)(uintptr_t)1;
    }
    memset(log, 0, JIT_LOG_BYTES);
    CUresult result = context->driver->cuModuleLoadDataEx(out, form, count, options, values);
    flatten(log);
    return result;
}

static gantry_status no_form(const struct gy_context *context, const gantry_module_image *image,
                             CUresult result, const char *log)
{
    const struct gy_driver *driver = context->driver;
    return GY_FAIL_NATIVE(
        GANTRY_ERR_UNSUPPORTED, (int)result,
        "image \"%s\" does not fit %s (sm_%d%d, %s driver), which needs %s; the image "
        "has:%s%s%s%s%s%s%s%.200s",
        image->name, context->info.name, context->info.compute_major, context->info.compute_minor,
        driver->name, driver->emulated ? "host code" : "a fat binary for it or PTX up to it",
        image->fatbin != NULL ? " fat binary" : "", image->ptx != NULL ? " PTX" : "",
        image->host != NULL ? " host code" : "",
        image->fatbin == NULL && image->ptx == NULL && image->host == NULL ? " nothing" : "",
        result != CUDA_SUCCESS ? "; " : "",
        result != CUDA_SUCCESS ? gy_driver_result_name(driver, result) : "", log[0] != '\0' ? ": " : "", log);
}

static gantry_status load_best_form(struct gy_context *context, const gantry_module_image *image,
                                    const struct gy_jit *jit, CUmodule *out)
{
    char log[JIT_LOG_BYTES] = "";
    const void *forms[] = {image->fatbin, image->ptx};
    if (context->driver->emulated) {
        forms[0] = image->host;
        forms[1] = NULL;
    }
    CUresult result = CUDA_SUCCESS;
    bool fits = false;
    for (size_t i = 0; i < 2 && !fits; i++) {
        if (forms[i] != NULL) {
            result = load_form(context, forms[i], jit, out, log);
            fits = !does_not_fit(result);
        }
    }
    if (!fits) {
        return no_form(context, image, result, log);
    }
    char call[JIT_LOG_BYTES];
    snprintf(call, sizeof(call), "cuModuleLoadDataEx(\"%.64s\")%s%.300s", image->name,
             log[0] != '\0' ? ": " : "", log);
    return gy_context_check(context, result, call, __FILE__, __LINE__);
}

static uint32_t count_names(const gantry_module_image *image)
{
    uint32_t count = 0;
    while (image->kernel_names != NULL && image->kernel_names[count] != NULL) {
        count++;
    }
    return count;
}

/* Names for a message: as many as there is room for. */
struct names {
    char text[256];
    size_t used;
    uint32_t count;
};

static void add_name(struct names *names, const char *name, const char *separator)
{
    if (names->used < sizeof(names->text)) {
        int more = snprintf(names->text + names->used, sizeof(names->text) - names->used, "%s%s",
                            names->count > 0 ? separator : "", name);
        names->used += more > 0 ? (size_t)more : 0;
    }
    names->count++;
}

static const char *cut_mark(const struct names *names)
{
    return names->used >= sizeof(names->text) ? "…" : "";
}

static const char *text_of(const struct names *names)
{
    return names->count > 0 ? names->text : "none";
}

/* Images made by older versions have no such list. */
static bool is_early(const gantry_module_image *image, const char *name)
{
    const bool has_list =
        image->struct_size > offsetof(gantry_module_image, early_names) && image->early_names != NULL;
    for (uint32_t i = 0; has_list && image->early_names[i] != NULL; i++) {
        if (strcmp(image->early_names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

/* The emulated driver has no code for images that are for devices alone: their modules are empty there, so
 * that a program starts, and the kernel that is asked for is named. */
static bool is_left_out(const struct gantry_module *module)
{
    const gantry_module_image *image = module->image;
    return module->context->driver->emulated &&
           image->struct_size > offsetof(gantry_module_image, device_only) && image->device_only != 0;
}

/* Look up all kernels, so that one load reports everything that is missing. */
static gantry_status look_up_kernels(struct gantry_module *module)
{
    struct gy_context *context = module->context;
    struct names missing = {.used = 0}, found = {.used = 0};
    for (uint32_t i = 0; i < module->kernel_count; i++) {
        struct gantry_kernel *kernel = &module->kernels[i];
        kernel->name = module->image->kernel_names[i];
        kernel->may_start_early = is_early(module->image, kernel->name);
        kernel->module = module;
        const char *symbol = module->symbols != NULL ? module->symbols[i] : kernel->name;
        CUresult result = context->driver->cuModuleGetFunction(&kernel->function, module->native, symbol);
        if (result == CUDA_ERROR_NOT_FOUND) {
            add_name(&missing, kernel->name, "\", \"");
        } else {
            add_name(&found, kernel->name, ", ");
        }
        if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_FOUND) {
            return gy_context_check(context, result, "cuModuleGetFunction()", __FILE__, __LINE__);
        }
    }
    return missing.count == 0
               ? GANTRY_OK
               : GY_FAIL_NATIVE(GANTRY_ERR_NOT_FOUND, (int)CUDA_ERROR_NOT_FOUND,
                                "image \"%s\" has no kernel \"%s%s\"; it has: %s%s", module->image->name,
                                missing.text, cut_mark(&missing), text_of(&found), cut_mark(&found));
}

static gantry_status load_relaxed(struct gantry_module *module)
{
    struct gy_context *context = module->context;
    const struct gy_relaxed relaxed = gy_relaxed_begin(context);
    if (relaxed.status != GANTRY_OK) {
        return relaxed.status;
    }
    const gantry_status status = load_best_form(context, module->image, &module->jit, &module->native);
    const gantry_status back = gy_relaxed_end(context, &relaxed);
    if (status == GANTRY_OK && back != GANTRY_OK) {
        (void)context->driver->cuModuleUnload(module->native);
    }
    return status == GANTRY_OK ? back : status;
}

/* Load the module; the context is current.  The thread may have a capture open: a batch's guard, when a
 * launch callback loads it, or the application's.  A module that is loaded tells nothing of the work before
 * it. */
static gantry_status load_current(struct gantry_module *module)
{
    struct gy_context *context = module->context;
    if (is_left_out(module)) {
        return GANTRY_OK;
    }
    gantry_status status = load_relaxed(module);
    if (status != GANTRY_OK) {
        return status;
    }
    status = look_up_kernels(module);
    if (status != GANTRY_OK) {
        /* After the loss the driver only repeats it, and its cause was reported already. */
        (void)context->driver->cuModuleUnload(module->native);
    }
    return status;
}

static gantry_status check_image(const gantry_module_image *image)
{
    gantry_module_image ours = {0};
    if (image == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "module image is NULL");
    }
    gantry_status status = gy_options_import(
        &ours, sizeof(ours), image, offsetof(gantry_module_image, early_names), "gantry_module_image");
    if (status == GANTRY_OK && ours.name == NULL) {
        status = GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "module image without a name");
    }
    return status;
}

/* Load a new module, which the caller has filled as far as it knows it; it is freed if that fails. */
static gantry_status load_new(struct gantry_module *module)
{
    struct gy_context *context = module->context;
    const uint32_t count = is_left_out(module) ? 0 : count_names(module->image);
    gantry_status status;
    module->kernel_count = count;
    gy_mutex_init(&module->fit_lock, GY_RANK_LEAF);
    module->kernels = gy_zalloc_array(count > 0 ? count : 1, sizeof(*module->kernels));
    if (module->kernels == NULL) {
        status = GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "cannot load image \"%s\"", module->image->name);
        goto free_module;
    }
    status = gy_context_push(context);
    if (status != GANTRY_OK) {
        goto free_kernels;
    }
    status = load_current(module);
    gantry_status pop = gy_context_pop(context);
    if (status != GANTRY_OK) {
        goto free_kernels;
    }
    if (pop != GANTRY_OK) {
        status = pop;
        goto unload;
    }
    gy_handle_born(GY_HANDLE_MODULE, module, sizeof(*module), sizeof(*module));
    gy_handle_born(GY_HANDLE_KERNEL, module->kernels, (count > 0 ? count : 1) * sizeof(*module->kernels),
                   sizeof(*module->kernels));
    return GANTRY_OK;

unload:
    if (module->native != NULL) {
        (void)context->driver->cuModuleUnload(module->native);
    }
free_kernels:
    gy_free(module->kernels);
free_module:
    gy_mutex_fini(&module->fit_lock);
    gy_free(module);
    return status;
}

gantry_status gy_module_load(struct gy_context *context, const gantry_module_image *image,
                             struct gantry_module **out)
{
    gantry_status status = check_image(image);
    struct gantry_module *module = status == GANTRY_OK ? gy_zalloc(sizeof(*module)) : NULL;
    if (module == NULL) {
        return status != GANTRY_OK
                   ? status
                   : GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "cannot load image \"%s\"", image->name);
    }
    *module = (struct gantry_module){.context = context, .image = image};
    status = load_new(module);
    if (status == GANTRY_OK) {
        *out = module;
    }
    return status;
}

gantry_status gy_module_load_code(struct gy_context *context, const struct gy_bare_code *code,
                                  struct gantry_module **out)
{
    struct gantry_module *module = gy_zalloc(sizeof(*module));
    if (module == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "cannot load code \"%s\"", code->name);
    }
    *module = (struct gantry_module){.context = context,
                                     .made = {.struct_size = sizeof(gantry_module_image),
                                              .name = code->name,
                                              .fatbin = code->bytes, /* the driver sees what it is */
                                              .host = code->bytes,
                                              .kernel_names = code->kernel_names},
                                     .symbols = code->symbols,
                                     .jit = code->jit};
    module->image = &module->made;
    gantry_status status = load_new(module);
    if (status == GANTRY_OK) {
        module->made.name = "code";
        module->made.fatbin = module->made.host = NULL;
        module->symbols = NULL;
        *out = module;
    }
    return status;
}

void gy_module_unload(struct gantry_module *module)
{
    if (module == NULL) {
        return;
    }
    struct gy_context *context = module->context;
    for (uint32_t i = 0; i < module->kernel_count; i++) {
        if (module->kernels[i].layout != NULL) {
            gy_context_leave(context, &module->kernels[i].layout->gone);
        }
    }
    atomic_fetch_add_explicit(&context->generation, 1, memory_order_acq_rel);
    if (module->native != NULL && gy_context_push(context) == GANTRY_OK) {
        (void)GY_CALL(context, cuModuleUnload(module->native));
        (void)gy_context_pop(context);
    }
    gy_handle_free(module->kernels, module->kernels);
    gy_mutex_fini(&module->fit_lock);
    gy_handle_free(module, module);
}

gantry_status gy_module_kernel(struct gantry_module *module, const char *name, struct gantry_kernel **out)
{
    struct names found = {.used = 0};
    if (is_left_out(module)) {
        return GY_FAIL(
            GANTRY_ERR_UNSUPPORTED,
            "kernel \"%s\" of image \"%s\" is for devices only: the emulated driver has no code for it", name,
            module->image->name);
    }
    for (uint32_t i = 0; i < module->kernel_count; i++) {
        struct gantry_kernel *kernel = &module->kernels[i];
        if (strcmp(kernel->name, name) == 0) {
            *out = kernel;
            return GANTRY_OK;
        }
        add_name(&found, kernel->name, ", ");
    }
    return GY_FAIL(GANTRY_ERR_NOT_FOUND, "image \"%s\" has no kernel \"%s\"; it has: %s%s",
                   module->image->name, name, text_of(&found), cut_mark(&found));
}

/* ---- refused launches ------------------------------------------------------------------------- */

struct limit {
    const char *what;
    uint64_t value;
    int most; /* -1: it is not known */
};

static int device_limit(const struct gy_context *context, CUdevice_attribute attribute)
{
    int value;
    CUresult result = context->driver->cuDeviceGetAttribute(&value, attribute, context->device);
    return result == CUDA_SUCCESS ? value : -1;
}

static int kernel_limit(const struct gantry_kernel *kernel, CUfunction_attribute attribute)
{
    int value;
    CUresult result =
        kernel->module->context->driver->cuFuncGetAttribute(&value, attribute, kernel->function);
    return result == CUDA_SUCCESS ? value : -1;
}

/* Find the first limit that a launch breaks; `what` NULL: none that we know. */
static struct limit find_broken(const struct gantry_kernel *kernel, const struct gy_launch_size *size)
{
    const struct gy_context *context = kernel->module->context;
    const gantry_dim3 grid = size->grid, block = size->block;
    const struct limit limits[] = {
        {"grid.x", grid.x, device_limit(context, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X)},
        {"grid.y", grid.y, device_limit(context, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y)},
        {"grid.z", grid.z, device_limit(context, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)},
        {"block.x", block.x, device_limit(context, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X)},
        {"block.y", block.y, device_limit(context, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y)},
        {"block.z", block.z, device_limit(context, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z)},
        {"threads per block:", (uint64_t)block.x * block.y * block.z,
         kernel_limit(kernel, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)},
        {"bytes of shared memory:", size->shared_bytes,
         kernel_limit(kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)},
    };
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        if (limits[i].most >= 0 && limits[i].value > (uint64_t)limits[i].most) {
            return limits[i];
        }
    }
    return (struct limit){NULL, 0, -1};
}

void gy_kernel_describe_launch(const struct gantry_kernel *kernel, const struct gy_launch_size *size,
                               char *text, size_t room)
{
    const struct limit broken = find_broken(kernel, size);
    char why[80] = "";
    if (broken.what != NULL) {
        snprintf(why, sizeof(why), " (%s %llu is above %d)", broken.what, (unsigned long long)broken.value,
                 broken.most);
    }
    snprintf(text, room, "grid %ux%ux%u of %ux%ux%u threads, %zu bytes of shared memory%s", size->grid.x,
             size->grid.y, size->grid.z, size->block.x, size->block.y, size->block.z, size->shared_bytes,
             why);
}

/* ---- parameters -------------------------------------------------------------------------------- */

/* The host form of an image says this for its other forms, too. */
static bool knows_slots(const gantry_module_image *image)
{
    const struct gantry_host_module *host = image->host;
    return host != NULL && host->magic == GANTRY_HOST_MODULE_MAGIC && host->has_cta_macros >= 2;
}

gantry_status gy_kernel_find_layout(struct gantry_kernel *kernel)
{
    const struct gy_driver *driver = kernel->module->context->driver;
    size_t offset, bytes;
    uint32_t count = 0;
    for (;; count++) {
        CUresult result = driver->cuFuncGetParamInfo(kernel->function, count, &offset, &bytes);
        if (result ==
            CUDA_ERROR_INVALID_VALUE) { /* no more; a count too low would be believed, so ask again */
            result = driver->cuFuncGetParamInfo(kernel->function, count, &offset, &bytes);
        }
        if (result == CUDA_ERROR_INVALID_VALUE) {
            break;
        }
        if (result != CUDA_SUCCESS) {
            return gy_context_failed(kernel->module->context, result, "cuFuncGetParamInfo()", __FILE__,
                                     __LINE__);
        }
    }
    struct gy_kernel_layout *layout = gy_zalloc(sizeof(*layout) + count * sizeof(layout->of[0]));
    if (layout == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "out of memory for the parameters of kernel %s",
                       kernel->name);
    }
    bool has_gaps = false;
    for (uint32_t i = 0; i < count; i++) {
        gantry_status status =
            GY_CALL(kernel->module->context, cuFuncGetParamInfo(kernel->function, i, &offset, &bytes));
        if (status != GANTRY_OK) {
            gy_free(layout);
            return status;
        }
        has_gaps |= offset != layout->bytes;
        layout->of[i].offset = (uint32_t)offset;
        layout->of[i].bytes = (uint32_t)bytes;
        layout->bytes = (uint32_t)(offset + bytes);
    }
    layout->bytes = (layout->bytes + 15u) & ~15u;
    layout->padded = has_gaps || layout->bytes == 0 ? layout->bytes : 16;
    layout->count = count;
    layout->knows_slots = knows_slots(kernel->module->image);
    kernel->layout = layout;
    return GANTRY_OK;
}

void gy_kernel_note_taken(struct gantry_kernel *kernel, const struct gy_launch_size *size)
{
    for (uint32_t i = 0; i < GY_KERNEL_TAKEN; i++) {
        const struct gy_kernel_taken *t = &kernel->taken[i];
        if (t->block.x == size->block.x && t->block.y == size->block.y && t->block.z == size->block.z &&
            t->shared_bytes == size->shared_bytes) {
            return;
        }
    }
    kernel->taken[kernel->next_taken] = (struct gy_kernel_taken){size->block, size->shared_bytes};
    kernel->next_taken = (kernel->next_taken + 1) % GY_KERNEL_TAKEN;
}
