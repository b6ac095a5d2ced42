/* SPDX-License-Identifier: MIT */
/* A program that links the library, which uses jemalloc, keeps the malloc() and free() that it had, and so
 * does a C++ library that it opens: jemalloc brings no operator new. */
#include <gantry/gantry.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int check(const char *name)
{
    Dl_info info;
    void *function = dlsym(RTLD_DEFAULT, name);
    if (function == NULL || dladdr(function, &info) == 0) {
        printf("%s() is nowhere\n", name);
        return 1;
    }
    printf("%s() is that of %s\n", name, info.dli_fname);
    return strstr(info.dli_fname, "jemalloc") != NULL; /* libc's, or a sanitizer's */
}

/* A program in C has no operator new; a dependency may have brought libstdc++'s. */
static int check_operator_new(void)
{
    Dl_info info;
    void *function = dlsym(RTLD_DEFAULT, "_Znwm");
    if (function == NULL || dladdr(function, &info) == 0) {
        return 0;
    }
    printf("operator new is that of %s\n", info.dli_fname);
    return strstr(info.dli_fname, "jemalloc") != NULL;
}

int main(void)
{
    static const char *const names[] = {"malloc", "calloc",        "realloc",
                                        "free",   "aligned_alloc", "posix_memalign"};
    int wrong = 0;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        wrong += check(names[i]);
    }
    wrong += check_operator_new();
    /* The library is used, and with it jemalloc. */
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_context *context = NULL;
    options.driver = GANTRY_DRIVER_EMULATED;
    if (gantry_context_create(&options, &context) != GANTRY_OK) {
        printf("%s\n", gantry_last_error());
        return 1;
    }
    void *block = NULL;
    char *text = strdup("both at once");
    if (gantry_heap_alloc(gantry_context_heap(context), GANTRY_MEMORY_HOST, 300, 0, GANTRY_ALLOC_SITE("test"),
                          &block) != GANTRY_OK ||
        text == NULL || gantry_heap_free(gantry_context_heap(context), block) != GANTRY_OK) {
        printf("%s\n", gantry_last_error());
        wrong++;
    }
    free(text);
    gantry_context_destroy(context);
    return wrong != 0;
}
