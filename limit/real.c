/* SPDX-License-Identifier: MIT */
#include "limit/real.h"

#include <dlfcn.h>
#include <elf.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

gy_dlsym_fn gy_real_dlsym;
gy_dlvsym_fn gy_real_dlvsym;
void *gy_real[GY_NAME_COUNT];
struct gy_real_others gy_cu;

static const char *const names[GY_NAME_COUNT] = {
#define N(name) #name,
#define V(name, suffix) #name, #name #suffix,
    GY_LIMIT_NAMES(N, V)
#undef N
#undef V
};

/* ---- text, without calls: sanitizers replace strcmp(), and may not be ready -------------------- */

static bool is_same(const char *a, const char *b)
{
    while (*a != '\0' && *a == *b) {
        a++;
        b++;
    }
    return *a == *b;
}

static bool begins(const char *text, const char *with)
{
    while (*with != '\0' && *text == *with) {
        text++;
        with++;
    }
    return *with == '\0';
}

static const char *base_of(const char *path)
{
    const char *base = path;
    for (; *path != '\0'; path++) {
        base = *path == '/' ? path + 1 : base;
    }
    return base;
}

enum gy_limit_name gy_real_name(const char *name)
{
    if (name[0] != 'c' || name[1] != 'u' || name[2] < 'A' || name[2] > 'Z') {
        return GY_NAME_COUNT;
    }
    enum gy_limit_name i = (enum gy_limit_name)0;
    while (i < GY_NAME_COUNT && !is_same(names[i], name)) {
        i++;
    }
    return i;
}

/* ---- symbols of an object that is loaded -------------------------------------------------------- */

struct tables {
    const ElfW(Sym) * symbols;
    const char *strings;
    const uint32_t *gnu;  /* DT_GNU_HASH */
    const uint32_t *sysv; /* DT_HASH */
    const ElfW(Versym) * versions;
};

/* glibc has added the load address to these entries; other objects' may be as they are in the file. */
static const void *placed(const struct link_map *map, ElfW(Addr) address)
{
    return (const void *)(address < map->l_addr ? address + map->l_addr : address);
}

static bool read_tables(const struct link_map *map, struct tables *t)
{
    *t = (struct tables){.symbols = NULL};
    for (const ElfW(Dyn) *d = map->l_ld; d != NULL && d->d_tag != DT_NULL; d++) {
        const void *at = placed(map, d->d_un.d_ptr);
        switch (d->d_tag) {
        case DT_SYMTAB:
            t->symbols = at;
            break;
        case DT_STRTAB:
            t->strings = at;
            break;
        case DT_GNU_HASH:
            t->gnu = at;
            break;
        case DT_HASH:
            t->sysv = at;
            break;
        case DT_VERSYM:
            t->versions = at;
            break;
        default:
            break;
        }
    }
    return t->symbols != NULL && t->strings != NULL && (t->gnu != NULL || t->sysv != NULL);
}

/* The symbol of that number, if it is this name's default definition. */
static void *matches(const struct link_map *map, const struct tables *t, uint32_t i, const char *name)
{
    enum { HIDDEN = 0x8000 };
    const ElfW(Sym) *symbol = &t->symbols[i];
    const bool is_hidden = t->versions != NULL && (t->versions[i] & HIDDEN) != 0;
    if (symbol->st_shndx == SHN_UNDEF || is_hidden || ELF64_ST_TYPE(symbol->st_info) == STT_GNU_IFUNC ||
        !is_same(t->strings + symbol->st_name, name)) {
        return NULL;
    }
    return (void *)(map->l_addr + symbol->st_value);
}

static void *find_by_gnu_hash(const struct link_map *map, const struct tables *t, const char *name)
{
    uint32_t hash = 5381;
    for (const char *c = name; *c != '\0'; c++) {
        hash = hash * 33 + (unsigned char)*c;
    }
    const uint32_t buckets = t->gnu[0], first = t->gnu[1], words = t->gnu[2];
    const uint32_t *bucket = t->gnu + 4 + (size_t)words * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
    const uint32_t *chain = bucket + buckets;
    uint32_t i = buckets != 0 ? bucket[hash % buckets] : 0;
    for (; i >= first && i != 0; i++) {
        const uint32_t mark = chain[i - first];
        void *found = (mark | 1) == (hash | 1) ? matches(map, t, i, name) : NULL;
        if (found != NULL || (mark & 1) != 0) {
            return found;
        }
    }
    return NULL;
}

static void *find_in(const struct link_map *map, const char *name)
{
    struct tables t;
    if (!read_tables(map, &t)) {
        return NULL;
    }
    if (t.gnu != NULL) {
        return find_by_gnu_hash(map, &t, name);
    }
    void *found = NULL;
    for (uint32_t i = 1; i < t.sysv[1] && found == NULL; i++) {
        found = matches(map, &t, i, name);
    }
    return found;
}

void *gy_real_after(struct link_map *map, const char *name)
{
    void *found = NULL;
    for (; map != NULL && found == NULL; map = map->l_next) {
        found = find_in(map, name);
    }
    return found;
}

/* In the C library; before 2.34, in one of its own. */
void gy_real_find_dlsym(void)
{
    for (struct link_map *map = _r_debug.r_map; map != NULL && gy_real_dlsym == NULL; map = map->l_next) {
        const char *base = map->l_name != NULL ? base_of(map->l_name) : "";
        if (begins(base, "libc.so.") || begins(base, "libdl.so.")) {
            void *symbol = find_in(map, "dlsym"), *versioned = find_in(map, "dlvsym");
            gy_real_dlvsym = (gy_dlvsym_fn)(uintptr_t)versioned;
            gy_real_dlsym = (gy_dlsym_fn)(uintptr_t)symbol;
        }
    }
}

/* ---- the driver -------------------------------------------------------------------------------- */

struct link_map *gy_real_object_of(const void *address)
{
    Dl_info info;
    struct link_map *map = NULL;
    return dladdr1(address, &info, (void **)&map, RTLD_DL_LINKMAP) != 0 ? map : NULL;
}

static _Atomic(void *) driver_library;
static atomic_bool is_taken; /* the tables are full */

/* Fill the tables.  Threads that come at the same time all do: nobody may wait here, as the loader's lock may
 * be held. */
static void take(void *library)
{
    void *none = NULL;
    if (!atomic_compare_exchange_strong(&driver_library, &none, library) && none != library) {
        return;
    }
    for (int i = 0; i < GY_NAME_COUNT; i++) {
        gy_real[i] = gy_real_dlsym(library, names[i]);
    }
    void *found;
#define F(name, prototype)                 \
    found = gy_real_dlsym(library, #name); \
    memcpy(&gy_cu.name, &found, sizeof(found));
    GY_LIMIT_OTHERS(F)
#undef F
    memcpy(&gy_cu.cuEventQuery, &gy_real[GY_NAME_cuEventQuery], sizeof(gy_cu.cuEventQuery));
    (void)dlerror(); /* a name that this driver lacks is no error of the program's */
    atomic_store_explicit(&is_taken, true, memory_order_release);
}

bool gy_real_is_known(void)
{
    return atomic_load_explicit(&is_taken, memory_order_acquire);
}

bool gy_real_is_driver(const void *address)
{
    Dl_info info;
    if (dladdr(address, &info) == 0 || info.dli_fname == NULL) {
        return false;
    }
    const char *base = base_of(info.dli_fname);
    if (!begins(base, "libcuda.so") && !begins(base, "libgantry-emu.so")) {
        return false;
    }
    if (!atomic_load_explicit(&is_taken, memory_order_acquire)) {
        void *library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
        if (library != NULL) {
            take(library);
        }
    }
    return true;
}

bool gy_real_find_driver(void)
{
    if (!atomic_load_explicit(&is_taken, memory_order_acquire)) {
        gy_real_find_dlsym();
        void *init = gy_real_dlsym != NULL ? gy_real_dlsym(RTLD_NEXT, "cuInit") : NULL;
        if (init == NULL || !gy_real_is_driver(init)) {
            void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
            if (library != NULL) {
                take(library);
            }
        }
        (void)dlerror();
    }
    return atomic_load_explicit(&is_taken, memory_order_acquire);
}

bool gy_real_has_needed(void)
{
    return gy_cu.cuCtxGetCurrent != NULL && gy_cu.cuCtxPushCurrent_v2 != NULL &&
           gy_cu.cuCtxPopCurrent_v2 != NULL && gy_cu.cuCtxGetDevice != NULL && gy_cu.cuDeviceGet != NULL &&
           gy_cu.cuStreamGetCtx != NULL && gy_cu.cuStreamIsCapturing != NULL &&
           gy_cu.cuThreadExchangeStreamCaptureMode != NULL && gy_cu.cuEventCreate != NULL &&
           gy_cu.cuEventRecord != NULL && gy_cu.cuEventQuery != NULL && gy_cu.cuEventElapsedTime != NULL;
}
