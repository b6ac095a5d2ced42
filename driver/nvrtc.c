/* SPDX-License-Identifier: MIT */
/* How a source becomes code.  Each compilation is a program of NVRTC's, which this thread alone uses. */
#include "driver/nvrtc.h"

#include "base/alloc.h"
#include "base/environment.h"
#include "base/library.h"
#include "base/thread.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { NVRTC_SUCCESS = 0, NVRTC_INVALID_OPTION = 5, NVRTC_COMPILATION = 6 };

typedef struct _nvrtcProgram *nvrtcProgram;

/* Every function that is used: X(member, symbol, parameters); all return an nvrtcResult. */
#define NVRTC_FUNCS(X)                                                                                   \
    X(version, nvrtcVersion, (int *major, int *minor))                                                   \
    X(count_architectures, nvrtcGetNumSupportedArchs, (int *count))                                      \
    X(get_architectures, nvrtcGetSupportedArchs, (int *architectures))                                   \
    X(create, nvrtcCreateProgram,                                                                        \
      (nvrtcProgram * out, const char *text, const char *name, int headers, const char *const *contents, \
       const char *const *names))                                                                        \
    X(destroy, nvrtcDestroyProgram, (nvrtcProgram * program))                                            \
    X(add_name, nvrtcAddNameExpression, (nvrtcProgram program, const char *expression))                  \
    X(compile, nvrtcCompileProgram, (nvrtcProgram program, int count, const char *const *options))       \
    X(log_size, nvrtcGetProgramLogSize, (nvrtcProgram program, size_t * bytes))                          \
    X(log, nvrtcGetProgramLog, (nvrtcProgram program, char *log))                                        \
    X(lowered, nvrtcGetLoweredName, (nvrtcProgram program, const char *expression, const char **name))   \
    X(cubin_size, nvrtcGetCUBINSize, (nvrtcProgram program, size_t * bytes))                             \
    X(cubin, nvrtcGetCUBIN, (nvrtcProgram program, char *code))                                          \
    X(ptx_size, nvrtcGetPTXSize, (nvrtcProgram program, size_t * bytes))                                 \
    X(ptx, nvrtcGetPTX, (nvrtcProgram program, char *code))

struct nvrtc {
    const char *(*error_string)(int result);
#define X(member, symbol, parameters) int(*member) parameters;
    NVRTC_FUNCS(X)
#undef X
};

static const char *const libraries[] = {"libnvrtc.so.13", "libnvrtc.so.12",
                                        "/usr/local/cuda/lib64/libnvrtc.so.13",
                                        "/usr/local/cuda/lib64/libnvrtc.so.12"};

static gy_mutex lock = {PTHREAD_MUTEX_INITIALIZER, GY_RANK_DRIVER_LOAD};
static struct nvrtc table; /* guarded by lock until is_open; immutable then */
static bool is_open;       /* guarded by lock */

/* ---- finding it ---------------------------------------------------------------------------------- */

/* Fill the table; returns the first function that the library lacks, or NULL. */
static const char *look_up_all(void *library, struct nvrtc *out)
{
    const char *missing = NULL;
    void *address;
#define X(member, symbol, parameters)                    \
    address = dlsym(library, #symbol);                   \
    memcpy(&out->member, &address, sizeof(out->member)); \
    missing = address != NULL || missing != NULL ? missing : #symbol;
    NVRTC_FUNCS(X)
    X(error_string, nvrtcGetErrorString, (int result))
#undef X
    return missing;
}

static void *open_first(const char *asked)
{
    void *library = asked != NULL ? dlopen(asked, RTLD_NOW | RTLD_LOCAL) : NULL;
    for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]) && asked == NULL && library == NULL;
         i++) {
        library = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL);
    }
    return library;
}

/* Only success is remembered: the library may be there later.  Nothing is logged under the lock. */
static gantry_status open_locked(struct gy_error *error) GY_REQUIRES(lock)
{
    const char *asked = gy_environment("GANTRY_NVRTC");
    struct nvrtc made;
    void *library = open_first(asked);
    if (library == NULL) {
        char why[256] = "";
        if (asked != NULL) {
            (void)gy_library_error(why, sizeof(why));
        }
        snprintf(error->text, sizeof(error->text), "NVRTC, the compiler, was not found: %s%s%s",
                 asked != NULL ? "$GANTRY_NVRTC: " : "",
                 why[0] != '\0' ? why
                 : asked != NULL
                     ? asked
                     : "libnvrtc.so.13 and libnvrtc.so.12, where the system looks for libraries and "
                       "in /usr/local/cuda/lib64",
                 asked != NULL ? "" : "; $GANTRY_NVRTC can name it");
        return GANTRY_ERR_UNSUPPORTED;
    }
    const char *missing = look_up_all(library, &made);
    if (missing != NULL) {
        snprintf(error->text, sizeof(error->text), "%s lacks %s: NVRTC of CUDA 11.2 or later is needed",
                 asked != NULL ? asked : "NVRTC", missing);
        dlclose(library);
        return GANTRY_ERR_UNSUPPORTED;
    }
    table = made;
    is_open = true;
    return GANTRY_OK;
}

static gantry_status open_once(void)
{
    struct gy_error error = {.text = ""};
    gy_mutex_lock(&lock);
    const gantry_status status = is_open ? GANTRY_OK : open_locked(&error);
    gy_mutex_unlock(&lock);
    return status == GANTRY_OK ? GANTRY_OK : GY_FAIL(status, "gantry_module_compile: %s", error.text);
}

/* ---- options ------------------------------------------------------------------------------------- */

static gantry_status failed(const struct gy_nvrtc_source *source, int result, const char *call)
{
    return GY_FAIL_NATIVE(result == 1 ? GANTRY_ERR_OUT_OF_HOST_MEMORY : GANTRY_ERR_DRIVER, result,
                          "gantry_module_compile: %s: %s: %s", source->name, call,
                          table.error_string(result));
}

static bool names_architecture(const char *option)
{
    return strncmp(option, "-arch", 5) == 0 || strncmp(option, "--gpu-architecture", 18) == 0;
}

/* The option that makes code for the device: its own architecture, else PTX of the nearest one below. */
static gantry_status choose_architecture(const struct gy_nvrtc_source *source, char *option, size_t room)
{
    int count = 0, major = 0, minor = 0, best = 0, known[256];
    int result = table.count_architectures(&count);
    if (result == NVRTC_SUCCESS && count <= (int)(sizeof(known) / sizeof(known[0]))) {
        result = table.get_architectures(known);
    }
    if (result != NVRTC_SUCCESS) {
        return failed(source, result, "nvrtcGetSupportedArchs()");
    }
    for (int i = 0; i < count; i++) {
        best = known[i] <= source->architecture && known[i] > best ? known[i] : best;
    }
    if (best == 0) {
        (void)table.version(&major, &minor);
        return GY_FAIL(GANTRY_ERR_UNSUPPORTED,
                       "gantry_module_compile: NVRTC %d.%d makes no code for compute capability %d.%d", major,
                       minor, source->architecture / 10, source->architecture % 10);
    }
    snprintf(option, room, "--gpu-architecture=%s_%d", best == source->architecture ? "sm" : "compute", best);
    return GANTRY_OK;
}

static size_t count_of(const char *const *list)
{
    size_t count = 0;
    while (list != NULL && list[count] != NULL) {
        count++;
    }
    return count;
}

/* ---- compiling ----------------------------------------------------------------------------------- */

/* Line ends become blanks, and several blanks one. */
static void make_one_line(char *text)
{
    size_t end = 0;
    for (size_t i = 0; text[i] != '\0'; i++) {
        const char c = (unsigned char)text[i] < ' ' ? ' ' : text[i];
        if (c != ' ' || (end > 0 && text[end - 1] != ' ')) {
            text[end++] = c;
        }
    }
    text[end - (end > 0 && text[end - 1] == ' ')] = '\0';
}

/* The whole log goes where the caller wants it, its first lines into the message, as one line. */
static gantry_status tell_log(const struct gy_nvrtc_source *source, nvrtcProgram program, int compiled)
{
    size_t bytes = 0;
    char *log = table.log_size(program, &bytes) == NVRTC_SUCCESS ? gy_zalloc(bytes + 1) : NULL;
    if (log == NULL || (bytes > 0 && table.log(program, log) != NVRTC_SUCCESS)) {
        gy_free(log);
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "gantry_module_compile: %s: no memory for its log",
                       source->name);
    }
    if (source->log != NULL) {
        snprintf(source->log, source->log_bytes, "%s", log);
    }
    make_one_line(log);
    gantry_status status = GANTRY_OK;
    if (compiled != NVRTC_SUCCESS) {
        const bool is_sources = compiled == NVRTC_COMPILATION || compiled == NVRTC_INVALID_OPTION;
        status = GY_FAIL_NATIVE(is_sources ? GANTRY_ERR_INVALID_ARGUMENT : GANTRY_ERR_DRIVER, compiled,
                                "gantry_module_compile: %s: %s: %.380s", source->name,
                                table.error_string(compiled), log);
    }
    gy_free(log);
    return status;
}

static gantry_status compile(const struct gy_nvrtc_source *source, nvrtcProgram program)
{
    char architecture[48];
    const size_t given = count_of(source->options);
    const char **options = gy_zalloc_array(given + 1, sizeof(*options));
    if (options == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "gantry_module_compile: %s: no memory for %zu options",
                       source->name, given);
    }
    size_t count = 0;
    bool is_chosen = false;
    gantry_status status = GANTRY_OK;
    for (; count < given; count++) {
        options[count] = source->options[count];
        is_chosen = is_chosen || names_architecture(options[count]);
    }
    if (!is_chosen) {
        status = choose_architecture(source, architecture, sizeof(architecture));
        options[count++] = architecture;
    }
    if (status == GANTRY_OK) {
        status = tell_log(source, program, table.compile(program, (int)count, options));
    }
    gy_free(options);
    return status;
}

/* A cubin, or PTX where there is none: for a virtual architecture. */
static gantry_status take_bytes(const struct gy_nvrtc_source *source, struct gy_nvrtc_code *code)
{
    size_t bytes = 0;
    bool is_ptx = false;
    int result = table.cubin_size(code->program, &bytes);
    if (result == NVRTC_SUCCESS && bytes == 0) {
        is_ptx = true;
        result = table.ptx_size(code->program, &bytes);
    }
    if (result != NVRTC_SUCCESS) {
        return failed(source, result, is_ptx ? "nvrtcGetPTXSize()" : "nvrtcGetCUBINSize()");
    }
    code->bytes = gy_zalloc(bytes + 1);
    if (code->bytes == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY,
                       "gantry_module_compile: %s: no memory for %zu bytes of code", source->name, bytes);
    }
    result = is_ptx ? table.ptx(code->program, code->bytes) : table.cubin(code->program, code->bytes);
    return result == NVRTC_SUCCESS ? GANTRY_OK
                                   : failed(source, result, is_ptx ? "nvrtcGetPTX()" : "nvrtcGetCUBIN()");
}

static gantry_status take_symbols(const struct gy_nvrtc_source *source, struct gy_nvrtc_code *code)
{
    const size_t count = count_of(source->kernel_names);
    code->symbols = gy_zalloc_array(count + 1, sizeof(*code->symbols));
    if (code->symbols == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "gantry_module_compile: %s: no memory for %zu names",
                       source->name, count);
    }
    for (size_t i = 0; i < count; i++) {
        const int result = table.lowered(code->program, source->kernel_names[i], &code->symbols[i]);
        if (result != NVRTC_SUCCESS) {
            return GY_FAIL_NATIVE(GANTRY_ERR_NOT_FOUND, result,
                                  "gantry_module_compile: %s has no kernel \"%s\": %s", source->name,
                                  source->kernel_names[i], table.error_string(result));
        }
    }
    return GANTRY_OK;
}

/* The program exists; what it owns is freed by the caller, whatever happens. */
static gantry_status make_code(const struct gy_nvrtc_source *source, struct gy_nvrtc_code *code)
{
    gantry_status status = GANTRY_OK;
    for (size_t i = 0; source->kernel_names[i] != NULL; i++) {
        const int result = table.add_name(code->program, source->kernel_names[i]);
        if (result != NVRTC_SUCCESS) {
            return failed(source, result, "nvrtcAddNameExpression()");
        }
    }
    status = compile(source, code->program);
    if (status == GANTRY_OK) {
        status = take_symbols(source, code);
    }
    return status == GANTRY_OK ? take_bytes(source, code) : status;
}

gantry_status gy_nvrtc_compile(const struct gy_nvrtc_source *source, struct gy_nvrtc_code *out)
{
    struct gy_nvrtc_code code = {.program = NULL};
    gantry_status status = open_once();
    if (status != GANTRY_OK) {
        return status;
    }
    const int result = table.create(&code.program, source->text, source->name, 0, NULL, NULL);
    if (result != NVRTC_SUCCESS) {
        return failed(source, result, "nvrtcCreateProgram()");
    }
    status = make_code(source, &code);
    if (status != GANTRY_OK) {
        gy_nvrtc_close(&code);
        return status;
    }
    *out = code;
    return GANTRY_OK;
}

void gy_nvrtc_close(struct gy_nvrtc_code *code)
{
    gy_free(code->symbols);
    gy_free(code->bytes);
    (void)table.destroy(&code->program);
}
