/* What the fake NVRTC (fake_nvrtc.c) is told, and what it has seen. */
#ifndef TESTS_CONTEXT_FAKE_NVRTC_H
#define TESTS_CONTEXT_FAKE_NVRTC_H

#include <stddef.h>

struct fake_nvrtc {
    const void *code; /* what it compiles to, whatever the source is */
    size_t code_bytes;
    int architectures[4]; /* that it can compile for, ending with 0 */
    char options[256];    /* of the last compilation, with blanks between them */
    char name[64];        /* of its source */
    int programs;         /* created and not destroyed */
    int took_ptx;         /* 1: the last code was asked for as PTX */
};

#endif
