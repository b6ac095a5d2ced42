/* SPDX-License-Identifier: MIT */
/* The loader of CUDA drivers, and the meaning of a CUresult for us.
 *
 * There are two kinds of driver library, the real one and the emulated one, and at most one table of each
 * in a process.  A table is filled by the first gy_driver_open() of its kind and shared by the later
 * ones; it may be loaded anew after its last reference is gone.  The libraries themselves are never
 * unloaded: they own threads and thread-exit hooks that outlive every context.
 *
 * Errors: a kind is loaded under load_lock, where nothing may be logged (the application's receiver could
 * call back).  The load_… functions therefore only describe a failure in a struct gy_error; the public
 * function reports it after the lock is released. */
#include "driver/driver.h"

#include "base/environment.h"
#include "base/library.h"
#include "base/thread.h"
#include "driver/proof.h"
#include "driver/told.h"

#include <assert.h>
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CUDA_LIBRARY "libcuda.so.1"
#define EMULATOR_LIBRARY "libgantry-emu.so"
#define OLDEST_VERSION 12000
#define ENDS_PROCESS "no context of this process works any more: end the process"

enum driver_kind { KIND_CUDA, KIND_EMULATED, KIND_COUNT };

struct driver_slot {
    struct gy_driver driver;
    unsigned references; /* 0: the table is not filled */
};

/* Why a kind cannot be had. */
struct failure {
    struct gy_error error;
    bool is_absent; /* no driver or no device, so that nothing is wrong without it */
};

static gy_mutex load_lock = {PTHREAD_MUTEX_INITIALIZER, GY_RANK_DRIVER_LOAD};
static struct driver_slot slots[KIND_COUNT]; /* guarded by load_lock; a table with references is immutable */

GANTRY_PRINTF(4, 5)
static gantry_status describe(struct failure *failure, gantry_status status, int native, const char *format,
                              ...)
{
    failure->error.status = status;
    failure->error.native = native;
    failure->is_absent = status == GANTRY_ERR_NO_DEVICE || native == CUDA_ERROR_STUB_LIBRARY;
    va_list args;
    va_start(args, format);
    vsnprintf(failure->error.text, sizeof(failure->error.text), format, args);
    va_end(args);
    return status;
}

/* ---- names of results ----------------------------------------------------------------------- */

/* Our own text, for a driver that has none (the toolkit's stub library). */
static const char *own_text(CUresult result, bool name)
{
    switch ((int)result) {
#define RESULT_TEXT(id, value, text) \
    case value:                      \
        return name ? "CUDA_" #id : text;
        GY_CUDA_RESULTS(RESULT_TEXT)
#undef RESULT_TEXT
    default:
        return name ? "CUDA_ERROR_?" : "a result this driver does not know";
    }
}

const char *gy_driver_result_name(const struct gy_driver *driver, CUresult result)
{
    const char *name = NULL;
    bool told = driver->cuGetErrorName(result, &name) == CUDA_SUCCESS && name != NULL;
    return told ? name : own_text(result, true);
}

static const char *result_text(const struct gy_driver *driver, CUresult result)
{
    const char *text = NULL;
    bool told = driver->cuGetErrorString(result, &text) == CUDA_SUCCESS && text != NULL;
    return told ? text : own_text(result, false);
}

/* ---- finding the library -------------------------------------------------------------------- */

/* The path of EMULATOR_LIBRARY in the folder of the library or program that contains this code. */
static bool path_beside_us(char *path, size_t room)
{
    static const char here; /* any address of ours */
    Dl_info info;
    struct link_map *map = NULL;
    char program[PATH_MAX];
    if (dladdr1(&here, &info, (void **)&map, RTLD_DL_LINKMAP) == 0 || map == NULL) {
        return false;
    }
    const char *file = map->l_name;
    if (file == NULL || file[0] == '\0') { /* it is the program itself, whose name may be anything */
        ssize_t bytes = readlink("/proc/self/exe", program, sizeof(program) - 1);
        if (bytes <= 0) {
            return false;
        }
        program[bytes] = '\0';
        file = program;
    }
    const char *slash = strrchr(file, '/');
    if (slash == NULL) {
        return false;
    }
    int used = snprintf(path, room, "%.*s/" EMULATOR_LIBRARY, (int)(slash - file), file);
    return used > 0 && (size_t)used < room;
}

enum { WHY_BYTES = 384 }; /* of what the loader says */

static void *open_library(const char *file)
{
    return dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

static gantry_status open_emulator(void **library, struct failure *failure)
{
    char beside[PATH_MAX], why[WHY_BYTES];
    const char *asked = gy_environment("GANTRY_EMULATOR");
    if (asked != NULL) {
        *library = open_library(asked);
        if (*library == NULL) {
            return describe(failure, GANTRY_ERR_NO_DRIVER, 0, "emulated driver at $GANTRY_EMULATOR: %s",
                            gy_library_error(why, sizeof(why)));
        }
        return GANTRY_OK;
    }
    bool exists = path_beside_us(beside, sizeof(beside)) && access(beside, F_OK) == 0;
    *library = open_library(exists ? beside : EMULATOR_LIBRARY);
    if (*library == NULL) {
        return describe(failure, GANTRY_ERR_NO_DRIVER, 0, "emulated driver: %s",
                        gy_library_error(why, sizeof(why)));
    }
    return GANTRY_OK;
}

static gantry_status open_kind(enum driver_kind kind, void **library, struct failure *failure)
{
    if (kind == KIND_EMULATED) {
        return open_emulator(library, failure);
    }
    *library = open_library(CUDA_LIBRARY);
    if (*library != NULL) {
        return GANTRY_OK;
    }
    char why[WHY_BYTES];
    (void)gy_library_error(why, sizeof(why));
    /* In the usual case, a machine without a GPU, the loader's words read like a fault. */
    bool is_absent = strstr(why, "No such file") != NULL && strncmp(why, CUDA_LIBRARY ":", 13) == 0;
    if (is_absent) {
        (void)describe(failure, GANTRY_ERR_NO_DRIVER, 0,
                       "no NVIDIA driver is installed: " CUDA_LIBRARY " was not found");
        failure->is_absent = true;
        return GANTRY_ERR_NO_DRIVER;
    }
    return describe(failure, GANTRY_ERR_NO_DRIVER, 0, "CUDA driver: %s", why);
}

/* ---- filling the table ---------------------------------------------------------------------- */

struct entry {
    const char *symbol;
    size_t offset; /* the offset of its pointer in struct gy_driver */
    bool need;
};

static const struct entry entries[] = {
#define F(need, member, symbol, prototype) {#symbol, offsetof(struct gy_driver, member), (need)},
    GY_DRIVER_FUNCS(F)
#undef F
};

/* Look up all functions; returns the first required one that the library lacks, or NULL. */
static const char *look_up_all(struct gy_driver *driver)
{
    int (*hides)(const char *symbol) = NULL; /* it acts as a version that lacks some functions */
    void *control = driver->emulated ? dlsym(driver->library, "gantry_emu_hides") : NULL;
    memcpy(&hides, &control, sizeof(hides));
    const char *missing = NULL;
    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
        bool hidden = hides != NULL && hides(entries[i].symbol) != 0;
        void *function = hidden ? NULL : dlsym(driver->library, entries[i].symbol);
        /* ISO C has no cast from an object pointer to a function pointer. */
        memcpy((char *)driver + entries[i].offset, &function, sizeof(function));
        if (function == NULL && entries[i].need && missing == NULL) {
            missing = entries[i].symbol;
        }
    }
    return missing;
}

/* Look up what only the emulated driver can do; an older emulated driver cannot. */
static void look_up_watch(struct gy_driver *driver)
{
    void *begin = driver->emulated ? dlsym(driver->library, "gantry_emu_watch_begin") : NULL;
    void *end = driver->emulated ? dlsym(driver->library, "gantry_emu_watch_end") : NULL;
    if (begin != NULL && end != NULL) {
        memcpy(&driver->watch_begin, &begin, sizeof(begin));
        memcpy(&driver->watch_end, &end, sizeof(end));
    }
}

static gantry_status check_version(struct gy_driver *driver, const char *missing, struct failure *failure)
{
    CUresult result =
        driver->cuDriverGetVersion != NULL ? driver->cuDriverGetVersion(&driver->version) : CUDA_SUCCESS;
    if (result != CUDA_SUCCESS) {
        return describe(failure, GANTRY_ERR_NO_DRIVER, (int)result, "%s driver: cuDriverGetVersion: %s (%d)",
                        driver->name, gy_driver_result_name(driver, result), (int)result);
    }
    int version = driver->version;
    if (missing == NULL && version >= OLDEST_VERSION) {
        return GANTRY_OK;
    }
    return describe(failure, GANTRY_ERR_NO_DRIVER, 0,
                    "%s driver: %s%s%sit is for CUDA %d.%d, %d.%d or later is needed", driver->name,
                    missing != NULL ? "function " : "", missing != NULL ? missing : "",
                    missing != NULL ? " is missing, " : "", version / 1000, version % 1000 / 10,
                    OLDEST_VERSION / 1000, OLDEST_VERSION % 1000 / 10);
}

/* What hides devices from a driver, for the end of a message that there is none. */
static const char *hiding(char *text, size_t room)
{
    const char *visible = gy_environment_even_empty("CUDA_VISIBLE_DEVICES");
    text[0] = '\0';
    if (visible != NULL) {
        snprintf(text, room, " (CUDA_VISIBLE_DEVICES is \"%.64s\")", visible);
    }
    return text;
}

static gantry_status start_driver(const struct gy_driver *driver, struct failure *failure)
{
    int devices = 0;
    char why[128];
    const char *call = "cuInit(0)";
    CUresult result = driver->cuInit(0);
    if (result == CUDA_SUCCESS) {
        call = "cuDeviceGetCount(&devices)";
        result = driver->cuDeviceGetCount(&devices);
    }
    if (result != CUDA_SUCCESS) {
        bool absent = result == CUDA_ERROR_NO_DEVICE;
        return describe(failure, absent ? GANTRY_ERR_NO_DEVICE : GANTRY_ERR_NO_DRIVER, (int)result,
                        "%s driver: %s: %s (%d): %s%s", driver->name, call,
                        gy_driver_result_name(driver, result), (int)result, result_text(driver, result),
                        absent ? hiding(why, sizeof(why)) : "");
    }
    if (devices < 1) {
        return describe(failure, GANTRY_ERR_NO_DEVICE, 0, "%s driver: no device%s", driver->name,
                        hiding(why, sizeof(why)));
    }
    return GANTRY_OK;
}

static gantry_status load_kind(enum driver_kind kind, struct gy_driver *out, struct failure *failure)
{
    struct gy_driver driver = {
        .name = kind == KIND_EMULATED ? "emulated" : "cuda",
        .emulated = kind == KIND_EMULATED,
    };
    gantry_status status = open_kind(kind, &driver.library, failure);
    if (status != GANTRY_OK) {
        return status;
    }
    status = check_version(&driver, look_up_all(&driver), failure);
    if (status == GANTRY_OK) {
        status = start_driver(&driver, failure);
    }
    if (status != GANTRY_OK) {
        dlclose(driver.library);
        return status;
    }
    gy_told_open(&driver);
    look_up_watch(&driver);
    gy_driver_begin_proof(&driver);
    *out = driver;
    return GANTRY_OK;
}

/* Share the table of a kind, or load it; nothing is logged. */
static gantry_status take_kind(enum driver_kind kind, const struct gy_driver **out, struct failure *failure)
{
    struct driver_slot *slot = &slots[kind];
    gantry_status status = GANTRY_OK;
    gy_mutex_lock(&load_lock);
    if (slot->references == 0) {
        status = load_kind(kind, &slot->driver, failure);
    }
    if (status == GANTRY_OK) {
        slot->references++;
        *out = &slot->driver;
    }
    gy_mutex_unlock(&load_lock);
    gy_driver_tell_proof();
    return status;
}

/* ---- choosing ------------------------------------------------------------------------------- */

static gantry_status open_chosen(enum driver_kind kind, const struct gy_driver **out)
{
    struct failure failure;
    gantry_status status = take_kind(kind, out, &failure);
    if (status != GANTRY_OK) {
        return GY_FAIL_NATIVE(status, failure.error.native, "%s", failure.error.text);
    }
    return GANTRY_OK;
}

/* The emulated driver takes the place of one that is not there, not of one that does not work. */
static gantry_status open_found(const struct gy_driver **out)
{
    struct failure cuda, emulated;
    gantry_status status = take_kind(KIND_CUDA, out, &cuda);
    if (status == GANTRY_OK) {
        return GANTRY_OK;
    }
    if (!cuda.is_absent) {
        return GY_FAIL_NATIVE(status, cuda.error.native,
                              "%.300s; with $GANTRY_DRIVER=emulated programs run without a GPU",
                              cuda.error.text);
    }
    status = take_kind(KIND_EMULATED, out, &emulated);
    if (status != GANTRY_OK) {
        return GY_FAIL_NATIVE(status, cuda.error.native, "%.200s; %.200s", cuda.error.text,
                              emulated.error.text);
    }
    static atomic_bool is_told; /* atomic: it is reported once per process */
    bool is_new = !atomic_exchange_explicit(&is_told, true, memory_order_relaxed);
    if (is_new) {
        gy_note("running on the emulated driver, without a GPU (%s)", cuda.error.text);
    }
    return GANTRY_OK;
}

gantry_status gy_driver_open(gantry_driver_choice choice, const struct gy_driver **out)
{
    const char *asked = gy_environment("GANTRY_DRIVER");
    switch (choice) {
    case GANTRY_DRIVER_CUDA:
        return open_chosen(KIND_CUDA, out);
    case GANTRY_DRIVER_EMULATED:
        return open_chosen(KIND_EMULATED, out);
    case GANTRY_DRIVER_AUTO:
        if (asked == NULL) {
            return open_found(out);
        }
        if (strcmp(asked, "cuda") == 0) {
            return open_chosen(KIND_CUDA, out);
        }
        if (strcmp(asked, "emulated") == 0) {
            return open_chosen(KIND_EMULATED, out);
        }
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "$GANTRY_DRIVER is \"%s\", not \"cuda\" or \"emulated\"",
                       asked);
    }
    return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "unknown driver choice %d", (int)choice);
}

void gy_driver_close(const struct gy_driver *driver)
{
    if (driver == NULL) {
        return;
    }
    struct driver_slot *slot = &slots[driver->emulated ? KIND_EMULATED : KIND_CUDA];
    assert(driver == &slot->driver);
    void *library = NULL;
    gy_mutex_lock(&load_lock);
    assert(slot->references > 0);
    if (--slot->references == 0) {
        gy_told_close(&slot->driver);
        library = slot->driver.library;
    }
    gy_mutex_unlock(&load_lock);
    if (library != NULL) {
        dlclose(library); /* this only counts: see open_library() */
    }
}

/* ---- other copies ---------------------------------------------------------------------------- */

struct copy_search {
    const struct link_map *ours;
    const char *name; /* of the file */
    char *path;
    size_t room;
};

static const char *name_in(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static int find_copy(struct dl_phdr_info *info, size_t bytes, void *user)
{
    const struct copy_search *s = user;
    (void)bytes;
    if (info->dlpi_addr == s->ours->l_addr || strcmp(name_in(info->dlpi_name), s->name) != 0) {
        return 0;
    }
    snprintf(s->path, s->room, "%s", info->dlpi_name);
    return 1;
}

bool gy_driver_has_copy(const struct gy_driver *driver, char *path, size_t room)
{
    struct copy_search s = {.path = path, .room = room};
    struct link_map *ours = NULL;
    if (dlinfo(driver->library, RTLD_DI_LINKMAP, &ours) != 0 || ours == NULL) {
        return false;
    }
    s.ours = ours;
    s.name = name_in(ours->l_name);
    return s.name[0] != '\0' && dl_iterate_phdr(find_copy, &s) != 0;
}

/* ---- results -------------------------------------------------------------------------------- */

bool gy_driver_result_is_sticky(CUresult result)
{
    switch ((int)result) {
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_CONTAINED:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_TENSOR_MEMORY_LEAK:
    case CUDA_ERROR_EXTERNAL_DEVICE:
        return true;
    default:
        return false;
    }
}

/* After these faults of the GPU no context of the process works, not even a new one. */
static bool ends_process(CUresult result)
{
    return gy_driver_result_is_sticky(result) && result != CUDA_ERROR_DEINITIALIZED &&
           result != CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

static gantry_status status_of(CUresult result)
{
    if (gy_driver_result_is_sticky(result)) {
        return GANTRY_ERR_DEVICE_LOST;
    }
    switch ((int)result) {
    case CUDA_ERROR_OUT_OF_MEMORY:
        return GANTRY_ERR_OUT_OF_DEVICE_MEMORY;
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_INVALID_DEVICE:
        return GANTRY_ERR_NO_DEVICE;
    case CUDA_ERROR_STUB_LIBRARY:
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
        return GANTRY_ERR_NO_DRIVER;
    case CUDA_ERROR_NOT_SUPPORTED:
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    case CUDA_ERROR_JIT_COMPILER_NOT_FOUND:
    case CUDA_ERROR_JIT_COMPILATION_DISABLED:
        return GANTRY_ERR_UNSUPPORTED;
    case CUDA_ERROR_NOT_FOUND:
        return GANTRY_ERR_NOT_FOUND;
    default:
        return GANTRY_ERR_DRIVER;
    }
}

gantry_status gy_driver_failed(const struct gy_driver *driver, CUresult result, const char *call,
                               const char *file, int line)
{
    if (result == CUDA_SUCCESS) {
        return GANTRY_OK;
    }
    char reason[GY_TOLD_BYTES];
    gy_told_take(result, reason); /* this comes before the driver is asked anything else */
    return gy_fail(status_of(result), (int)result, file, line, "%s: %s (%d): %s%s%s%s", call,
                   gy_driver_result_name(driver, result), (int)result, result_text(driver, result),
                   ends_process(result) ? "; " ENDS_PROCESS : "",
                   reason[0] != '\0' ? "; the driver says: " : "", reason);
}
