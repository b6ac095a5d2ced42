/* SPDX-License-Identifier: MIT */
/* A program that knows nothing of the library and opens it, or a module that is linked with it, again and
 * again (test_hosts.py).  It is compiled as C, as C++ and linked with jemalloc.
 *
 * Usage: host WAY ROUNDS FILE [BEFORE...]; BEFORE are libraries that are opened first.  WAY is
 *   once     opens FILE in each round, uses and closes it
 *   threads  the same, each round on a thread of its own that ends after dlclose()
 *   module   the same, where FILE is a module that has the function module_work()
 *   alive    closes FILE in each round with a context and a dispatcher alive, which go on
 * It prints by how many KiB its memory has grown since the first rounds. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <gantry/gantry.h>

enum { MOST_WARM_ROUNDS = 100 };

static const char *way, *file;

static void fail(const char *what)
{
    const char *why = dlerror();
    fprintf(stderr, "host: %s: %s\n", what, why != NULL ? why : "?");
    exit(EXIT_FAILURE);
}

static void must(int ok, const char *what)
{
    if (!ok) {
        fail(what);
    }
}

struct functions {
    gantry_status (*create)(const gantry_context_options *, gantry_context **);
    void (*destroy)(gantry_context *);
    gantry_heap *(*heap)(gantry_context *);
    gantry_status (*allocate)(gantry_heap *, gantry_memory_kind, size_t, size_t, gantry_alloc_site, void **);
    gantry_status (*release)(gantry_heap *, void *);
};

static void *find(void *library, const char *name)
{
    void *function = dlsym(library, name);
    must(function != NULL, name);
    return function;
}

static void find_all(void *library, struct functions *f)
{
    *(void **)&f->create = find(library, "gantry_context_create");
    *(void **)&f->destroy = find(library, "gantry_context_destroy");
    *(void **)&f->heap = find(library, "gantry_context_heap");
    *(void **)&f->allocate = find(library, "gantry_heap_alloc");
    *(void **)&f->release = find(library, "gantry_heap_free");
}

/* A context, and small blocks of its heap from this thread's cache. */
static gantry_context *begin(const struct functions *f)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_context *context = NULL;
    options.driver = GANTRY_DRIVER_EMULATED;
    must(f->create(&options, &context) == GANTRY_OK, "gantry_context_create");
    void *blocks[20];
    gantry_alloc_site site = GANTRY_ALLOC_SITE("host");
    for (size_t i = 0; i < 20; i++) {
        must(f->allocate(f->heap(context), GANTRY_MEMORY_DEVICE, 100 + 600 * i, 0, site, &blocks[i]) ==
                 GANTRY_OK,
             "gantry_heap_alloc");
    }
    for (size_t i = 0; i < 20; i++) {
        must(f->release(f->heap(context), blocks[i]) == GANTRY_OK, "gantry_heap_free");
    }
    return context;
}

static void *play_round(void *unused)
{
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    must(library != NULL, file);
    if (strcmp(way, "module") == 0) {
        int (*work)(void);
        *(void **)&work = find(library, "module_work");
        must(work() == 42, "module_work");
    } else {
        struct functions f;
        find_all(library, &f);
        gantry_context *context = begin(&f);
        if (strcmp(way, "alive") != 0) {
            f.destroy(context);
        }
    }
    must(dlclose(library) == 0, "dlclose");
    return unused;
}

static long resident_kib(void)
{
    long pages = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    if (statm == NULL) { /* a sandbox without /proc: nothing can be told */
        return 0;
    }
    must(fscanf(statm, "%*s %ld", &pages) == 1, "/proc/self/statm");
    fclose(statm);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

int main(int argc, char **argv)
{
    must(argc >= 4, "usage: host WAY ROUNDS FILE [BEFORE...]");
    way = argv[1];
    file = argv[3];
    long rounds = strtol(argv[2], NULL, 10);
    for (int i = 4; i < argc; i++) {
        must(dlopen(argv[i], RTLD_NOW | RTLD_GLOBAL) != NULL, argv[i]);
    }
    long before = 0, warm = rounds < (long)MOST_WARM_ROUNDS ? rounds : (long)MOST_WARM_ROUNDS;
    for (long i = 0; i < warm + rounds; i++) {
        if (i == warm) {
            before = resident_kib();
        }
        if (strcmp(way, "threads") == 0) {
            pthread_t thread;
            must(pthread_create(&thread, NULL, play_round, NULL) == 0, "pthread_create");
            must(pthread_join(thread, NULL) == 0, "pthread_join");
        } else {
            (void)play_round(NULL);
        }
    }
    printf("%ld\n", resident_kib() - before);
    return EXIT_SUCCESS;
}
