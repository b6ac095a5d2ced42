/* SPDX-License-Identifier: MIT */
/* What can be told about a program before it is executed: whether a library that is preloaded reaches it. */
#include "cli/limit.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file, mapped. */
struct view {
    const unsigned char *bytes;
    size_t count;
};

static bool is_program(const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0) {
        return false;
    }
    errno = S_ISREG(info.st_mode) ? 0 : EACCES;
    return S_ISREG(info.st_mode) && access(path, X_OK) == 0;
}

/* As execvp() looks: a file that may not be executed is remembered, in case that no other is found. */
static bool find_in_path(const char *name, char *out)
{
    const char *rest = secure_getenv("PATH");
    int error = ENOENT;
    rest = rest != NULL ? rest : "/usr/bin:/bin";
    for (bool is_last = false; !is_last;) {
        const size_t bytes = strcspn(rest, ":");
        const int used = bytes == 0 ? snprintf(out, PATH_MAX, "./%s", name)
                                    : snprintf(out, PATH_MAX, "%.*s/%s", (int)bytes, rest, name);
        if (used < PATH_MAX && is_program(out)) {
            return true;
        }
        error = errno == EACCES ? EACCES : error;
        is_last = rest[bytes] == '\0';
        rest += bytes + 1;
    }
    errno = error;
    return false;
}

static bool has(const struct view *view, uint64_t at, uint64_t bytes)
{
    return at <= view->count && bytes <= view->count - at;
}

/* The segment of that type, or NULL. */
static const Elf64_Phdr *find_segment(const struct view *view, uint32_t type)
{
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)view->bytes;
    if (head->e_phoff % _Alignof(Elf64_Phdr) != 0 ||
        !has(view, head->e_phoff, (uint64_t)head->e_phnum * sizeof(Elf64_Phdr))) {
        return NULL;
    }
    const Elf64_Phdr *segments = (const Elf64_Phdr *)(view->bytes + head->e_phoff);
    for (int i = 0; i < head->e_phnum; i++) {
        if (segments[i].p_type == type && has(view, segments[i].p_offset, segments[i].p_filesz)) {
            return &segments[i];
        }
    }
    return NULL;
}

/* Does the text, up to its end, lie in the view? */
static const char *text_at(const struct view *view, uint64_t at)
{
    return at < view->count && memchr(view->bytes + at, '\0', view->count - at) != NULL
               ? (const char *)view->bytes + at
               : NULL;
}

/* Where the string table lies in the file: its address, less the address of the segment that has it. */
static bool find_strings(const struct view *view, uint64_t address, uint64_t *out)
{
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)view->bytes;
    const Elf64_Phdr *segments = (const Elf64_Phdr *)(view->bytes + head->e_phoff);
    for (int i = 0; i < head->e_phnum; i++) {
        const Elf64_Phdr *s = &segments[i];
        if (s->p_type == PT_LOAD && address >= s->p_vaddr && address - s->p_vaddr < s->p_filesz) {
            *out = s->p_offset + (address - s->p_vaddr);
            return true;
        }
    }
    return false;
}

/* The library of a sanitizer that the program is linked with. */
static void find_sanitizer(const struct view *view, char *out)
{
    const Elf64_Phdr *dynamic = find_segment(view, PT_DYNAMIC);
    if (dynamic == NULL || dynamic->p_offset % _Alignof(Elf64_Dyn) != 0) {
        return;
    }
    const Elf64_Dyn *entries = (const Elf64_Dyn *)(view->bytes + dynamic->p_offset);
    const size_t count = dynamic->p_filesz / sizeof(*entries);
    uint64_t strings = 0;
    bool has_strings = false;
    for (size_t i = 0; i < count; i++) {
        has_strings = has_strings ||
                      (entries[i].d_tag == DT_STRTAB && find_strings(view, entries[i].d_un.d_ptr, &strings));
    }
    for (size_t i = 0; i < count && has_strings; i++) {
        const char *name =
            entries[i].d_tag == DT_NEEDED ? text_at(view, strings + entries[i].d_un.d_val) : NULL;
        if (name != NULL && (strncmp(name, "libasan.", 8) == 0 || strncmp(name, "libtsan.", 8) == 0 ||
                             strncmp(name, "libclang_rt.", 12) == 0)) {
            snprintf(out, PATH_MAX, "%s", name);
        }
    }
}

static const char *examine_elf(const struct view *view, char *sanitizer)
{
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)view->bytes;
    if (view->count < sizeof(*head) || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0) {
        return NULL; /* a script: its interpreter is not looked at */
    }
    if (head->e_ident[EI_CLASS] != ELFCLASS64 || head->e_machine != EM_X86_64) {
        return "it is for another machine than x86-64";
    }
    const Elf64_Phdr *interpreter = find_segment(view, PT_INTERP);
    if (interpreter == NULL) {
        return "it is linked statically";
    }
    const char *loader = text_at(view, interpreter->p_offset);
    if (loader != NULL && strstr(loader, "ld-musl") != NULL) {
        return "its C library is musl";
    }
    find_sanitizer(view, sanitizer);
    return NULL;
}

bool cli_limit_examine(const char *name, struct cli_limit_program *out)
{
    *out = (struct cli_limit_program){.fault = NULL};
    if (strchr(name, '/') != NULL) {
        snprintf(out->path, sizeof(out->path), "%s", name);
        if (!is_program(name)) {
            return false;
        }
    } else if (!find_in_path(name, out->path)) {
        return false;
    }
    struct stat info;
    const int file = open(out->path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return true; /* it may be executed, though not read */
    }
    if (fstat(file, &info) == 0 && info.st_size > 0) {
        struct view view = {.count = (size_t)info.st_size};
        void *memory = mmap(NULL, view.count, PROT_READ, MAP_PRIVATE, file, 0);
        if (memory != MAP_FAILED) {
            view.bytes = memory;
            out->fault = examine_elf(&view, out->sanitizer);
            munmap(memory, view.count);
        }
        if ((info.st_mode & (S_ISUID | S_ISGID)) != 0) {
            out->fault = "it runs with the rights of another user";
        }
    }
    close(file);
    return true;
}
