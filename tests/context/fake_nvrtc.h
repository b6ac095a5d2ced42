/* SPDX-License-Identifier: MIT */
/* The settings of the fake NVRTC (fake_nvrtc.c), and what it has seen. */
#ifndef TESTS_CONTEXT_FAKE_NVRTC_H
#define TESTS_CONTEXT_FAKE_NVRTC_H

#include <stddef.h>

struct fake_nvrtc {
    const void *code; /* the code that any source compiles to */
    size_t code_bytes;
    int architectures[4]; /* the architectures that it can compile for, ending with 0 */
    char options[256];    /* the options of the last compilation, with blanks between them */
    char name[64];        /* the text of its source */
    int programs;         /* programs that were created and not destroyed */
    int took_ptx;         /* 1: the last code was asked for as PTX */
};

#endif
