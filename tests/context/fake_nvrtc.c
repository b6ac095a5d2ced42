/* SPDX-License-Identifier: MIT */
/* The functions of NVRTC that are used.  A source with "fails" in it does not compile, one with "warns"
 * leaves a line in the log.  The lowered name of an expression is the text before its "<"; "nonsense" has
 * none. */
#include "tests/context/fake_nvrtc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

struct _nvrtcProgram {
    char *text;
    const char *log;
    char lowered[4][64];
    char expressions[4][64];
    int count;
};
typedef struct _nvrtcProgram *program_t;

enum { SUCCESS = 0, COMPILATION = 6, NAME_NOT_VALID = 10 };

EXPORT struct fake_nvrtc fake_nvrtc = {.architectures = {80, 90}};

EXPORT const char *nvrtcGetErrorString(int result);
const char *nvrtcGetErrorString(int result)
{
    return result == COMPILATION ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR_FAKE";
}

EXPORT int nvrtcVersion(int *major, int *minor);
int nvrtcVersion(int *major, int *minor)
{
    *major = 13;
    *minor = 0;
    return SUCCESS;
}

EXPORT int nvrtcGetNumSupportedArchs(int *count);
int nvrtcGetNumSupportedArchs(int *count)
{
    for (*count = 0; fake_nvrtc.architectures[*count] != 0; ++*count) {
    }
    return SUCCESS;
}

EXPORT int nvrtcGetSupportedArchs(int *out);
int nvrtcGetSupportedArchs(int *out)
{
    for (int i = 0; fake_nvrtc.architectures[i] != 0; i++) {
        out[i] = fake_nvrtc.architectures[i];
    }
    return SUCCESS;
}

EXPORT int nvrtcCreateProgram(program_t *out, const char *text, const char *name, int headers,
                              const char *const *header_texts, const char *const *header_names);
int nvrtcCreateProgram(program_t *out, const char *text, const char *name, int headers,
                       const char *const *header_texts, const char *const *header_names)
{
    (void)header_texts;
    (void)header_names;
    program_t made = calloc(1, sizeof(*made));
    made->text = strdup(text);
    snprintf(fake_nvrtc.name, sizeof(fake_nvrtc.name), "%s", name);
    fake_nvrtc.programs++;
    *out = made;
    return headers == 0 ? SUCCESS : COMPILATION;
}

EXPORT int nvrtcDestroyProgram(program_t *program);
int nvrtcDestroyProgram(program_t *program)
{
    free((*program)->text);
    free(*program);
    *program = NULL;
    fake_nvrtc.programs--;
    return SUCCESS;
}

EXPORT int nvrtcAddNameExpression(program_t program, const char *expression);
int nvrtcAddNameExpression(program_t program, const char *expression)
{
    snprintf(program->expressions[program->count], sizeof(program->expressions[0]), "%s", expression);
    snprintf(program->lowered[program->count], sizeof(program->lowered[0]), "%.*s",
             (int)strcspn(expression, "<"), expression);
    program->count++;
    return SUCCESS;
}

EXPORT int nvrtcCompileProgram(program_t program, int count, const char *const *options);
int nvrtcCompileProgram(program_t program, int count, const char *const *options)
{
    fake_nvrtc.options[0] = '\0';
    for (int i = 0; i < count; i++) {
        const size_t used = strlen(fake_nvrtc.options);
        snprintf(fake_nvrtc.options + used, sizeof(fake_nvrtc.options) - used, "%s%s", i > 0 ? " " : "",
                 options[i]);
    }
    const int fails = strstr(program->text, "fails") != NULL;
    program->log = fails ? "blur.cu(3): error: identifier \"x\" is undefined\n\n1 error detected\n"
                   : strstr(program->text, "warns") != NULL
                       ? "blur.cu(2): warning #177-D: \"y\" was never used\n"
                       : "";
    return fails ? COMPILATION : SUCCESS;
}

EXPORT int nvrtcGetProgramLogSize(program_t program, size_t *bytes);
int nvrtcGetProgramLogSize(program_t program, size_t *bytes)
{
    *bytes = strlen(program->log) + 1;
    return SUCCESS;
}

EXPORT int nvrtcGetProgramLog(program_t program, char *log);
int nvrtcGetProgramLog(program_t program, char *log)
{
    memcpy(log, program->log, strlen(program->log) + 1);
    return SUCCESS;
}

EXPORT int nvrtcGetLoweredName(program_t program, const char *expression, const char **out);
int nvrtcGetLoweredName(program_t program, const char *expression, const char **out)
{
    for (int i = 0; i < program->count && strcmp(expression, "nonsense") != 0; i++) {
        if (strcmp(program->expressions[i], expression) == 0) {
            *out = program->lowered[i];
            return SUCCESS;
        }
    }
    return NAME_NOT_VALID;
}

/* For a virtual architecture there is only PTX. */
EXPORT int nvrtcGetCUBINSize(program_t program, size_t *bytes);
int nvrtcGetCUBINSize(program_t program, size_t *bytes)
{
    (void)program;
    *bytes = strstr(fake_nvrtc.options, "sm_") != NULL ? fake_nvrtc.code_bytes : 0;
    return SUCCESS;
}

EXPORT int nvrtcGetCUBIN(program_t program, char *out);
int nvrtcGetCUBIN(program_t program, char *out)
{
    (void)program;
    memcpy(out, fake_nvrtc.code, fake_nvrtc.code_bytes);
    fake_nvrtc.took_ptx = 0;
    return SUCCESS;
}

EXPORT int nvrtcGetPTXSize(program_t program, size_t *bytes);
int nvrtcGetPTXSize(program_t program, size_t *bytes)
{
    (void)program;
    *bytes = fake_nvrtc.code_bytes;
    return SUCCESS;
}

EXPORT int nvrtcGetPTX(program_t program, char *out);
int nvrtcGetPTX(program_t program, char *out)
{
    (void)program;
    memcpy(out, fake_nvrtc.code, fake_nvrtc.code_bytes);
    fake_nvrtc.took_ptx = 1;
    return SUCCESS;
}
