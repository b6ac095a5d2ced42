/* SPDX-License-Identifier: MIT */
/* Modules made of code that was compiled elsewhere, or is compiled now. */
#include "base/alloc.h"
#include "base/handle.h"
#include "base/options.h"
#include "context/context.h"
#include "driver/module.h"
#include "driver/nvrtc.h"
#include "profile/kernel_names.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static gantry_status file_failed(const char *path)
{
    return GY_FAIL(GANTRY_ERR_IO, "gantry_module_load_code: %s: %s", path, strerrordesc_np(errno));
}

/* Read the whole file, with a 0 behind it, since it may be text. */
static gantry_status read_open(FILE *file, const char *path, char **out)
{
    if (fseek(file, 0, SEEK_END) != 0) {
        return file_failed(path);
    }
    const long end = ftell(file);
    if (end < 0 || fseek(file, 0, SEEK_SET) != 0) {
        return file_failed(path);
    }
    char *bytes = gy_zalloc((size_t)end + 1);
    if (bytes == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "gantry_module_load_code: %s: no memory for %ld bytes",
                       path, end);
    }
    if (fread(bytes, 1, (size_t)end, file) != (size_t)end) {
        gy_free(bytes);
        return ferror(file)
                   ? file_failed(path)
                   : GY_FAIL(GANTRY_ERR_IO, "gantry_module_load_code: %s: it has become shorter", path);
    }
    *out = bytes;
    return GANTRY_OK;
}

static gantry_status read_file(const char *path, char **out)
{
    FILE *file = fopen(path, "rbe");
    if (file == NULL) {
        return file_failed(path);
    }
    gantry_status status = read_open(file, path, out);
    (void)fclose(file);
    return status;
}

/* The names of its kernels are known to recordings before others can launch them. */
static gantry_status load(gantry_context *context, const struct gy_bare_code *code, gantry_module **out)
{
    gantry_module *module;
    gantry_status status = gy_module_load_code(context->cuda, code, &module);
    if (status == GANTRY_OK) {
        status = gy_kernel_names_add_module(code->kernel_names, GY_KERNEL_UNKNOWN);
        if (status != GANTRY_OK) {
            gy_module_unload(module);
        }
    }
    if (status != GANTRY_OK) {
        return status;
    }
    module->owner = context;
    module->loads = 1;
    gy_mutex_lock(&context->lock);
    module->next = context->modules;
    context->modules = module;
    gy_mutex_unlock(&context->lock);
    *out = module;
    return GANTRY_OK;
}

static gantry_status refuse(const char *why)
{
    return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_module_load_code: %s", why);
}

gantry_status gantry_module_load_code(gantry_context *context, const gantry_module_code *code,
                                      gantry_module **out)
{
    GY_ACCEPT(CONTEXT, context);
    gantry_module_code ours = GANTRY_MODULE_CODE_INIT;
    char *bytes = NULL;
    if (context == NULL || code == NULL || out == NULL) {
        return refuse(context == NULL ? "context is NULL" : code == NULL ? "code is NULL" : "out is NULL");
    }
    gantry_status status = gy_options_import(&ours, sizeof(ours), code, sizeof(ours), "gantry_module_code");
    if (status != GANTRY_OK) {
        return status;
    }
    if ((ours.code != NULL) == (ours.path != NULL) || ours.kernel_names == NULL) {
        return refuse(ours.kernel_names == NULL ? "kernel_names is NULL"
                      : ours.code != NULL       ? "both code and path"
                                                : "neither code nor path");
    }
    if (ours.path != NULL) {
        status = read_file(ours.path, &bytes);
    }
    if (status == GANTRY_OK) {
        status = gy_context_enter(context->cuda);
    }
    if (status == GANTRY_OK) {
        const struct gy_bare_code bare = {.name = ours.path != NULL ? ours.path : "code",
                                          .bytes = ours.path != NULL ? bytes : ours.code,
                                          .kernel_names = ours.kernel_names,
                                          .jit = {ours.max_registers, ours.line_info}};
        status = load(context, &bare, out);
        (void)gy_context_pop(context->cuda);
    }
    gy_free(bytes);
    return status;
}

/* ---- compiled now ------------------------------------------------------------------------------ */

static gantry_status refuse_source(const char *why)
{
    return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_module_compile: %s", why);
}

static gantry_status compile(gantry_context *context, const gantry_module_source *source, gantry_module **out)
{
    const gantry_device_info *info = &context->cuda->info;
    const struct gy_nvrtc_source given = {.text = source->text,
                                          .name = source->name != NULL ? source->name : "source",
                                          .options = source->options,
                                          .kernel_names = source->kernel_names,
                                          .architecture = info->compute_major * 10 + info->compute_minor,
                                          .log = source->log,
                                          .log_bytes = source->log_bytes};
    struct gy_nvrtc_code made;
    gantry_status status = gy_nvrtc_compile(&given, &made);
    if (status != GANTRY_OK) {
        return status;
    }
    const struct gy_bare_code bare = {.name = given.name,
                                      .bytes = made.bytes,
                                      .kernel_names = source->kernel_names,
                                      .symbols = made.symbols};
    status = gy_context_enter(context->cuda);
    if (status == GANTRY_OK) {
        status = load(context, &bare, out);
        (void)gy_context_pop(context->cuda);
    }
    gy_nvrtc_close(&made);
    return status;
}

gantry_status gantry_module_compile(gantry_context *context, const gantry_module_source *source,
                                    gantry_module **out)
{
    GY_ACCEPT(CONTEXT, context);
    gantry_module_source ours = GANTRY_MODULE_SOURCE_INIT;
    if (context == NULL || source == NULL || out == NULL) {
        return refuse_source(context == NULL  ? "context is NULL"
                             : source == NULL ? "source is NULL"
                                              : "out is NULL");
    }
    gantry_status status =
        gy_options_import(&ours, sizeof(ours), source, sizeof(ours), "gantry_module_source");
    if (status != GANTRY_OK) {
        return status;
    }
    if (ours.text == NULL || ours.kernel_names == NULL) {
        return refuse_source(ours.text == NULL ? "text is NULL" : "kernel_names is NULL");
    }
    if (ours.log != NULL && ours.log_bytes == 0) {
        return refuse_source("log has no room: log_bytes is 0");
    }
    return compile(context, &ours, out);
}
