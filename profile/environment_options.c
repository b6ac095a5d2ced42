/* SPDX-License-Identifier: MIT */
#include "profile/environment_options.h"

#include "base/status.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST 64 /* of one KEY=VALUE */

/* Read a whole number up to `most` that ends at `end`, which is a character or the end of the text. */
static bool read_number(const char **at, char end, uint64_t most, uint64_t *out)
{
    char *behind;
    if (**at < '0' || **at > '9') {
        return false;
    }
    errno = 0;
    unsigned long long number = strtoull(*at, &behind, 10);
    if (errno != 0 || *behind != end || number > most) {
        return false;
    }
    *at = behind;
    *out = number;
    return true;
}

static bool read_uint32(const char *text, uint32_t *out)
{
    uint64_t number = 0;
    bool good = read_number(&text, '\0', UINT32_MAX, &number);
    *out = good ? (uint32_t)number : *out;
    return good;
}

/* FIRST+COUNT */
static bool read_steps(const char *text, gantry_profile_options *options)
{
    if (!read_number(&text, '+', UINT64_MAX, &options->first_step)) {
        return false;
    }
    text++;
    return read_number(&text, '\0', UINT64_MAX, &options->step_count) && options->step_count != 0;
}

/* The place of a word in a list. */
static bool read_word(const char *text, const char *const *words, int count, int *out)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(text, words[i]) == 0) {
            *out = i;
            return true;
        }
    }
    return false;
}

static bool set_one(const char *key, const char *value, gantry_profile_options *options)
{
    static const char *const blocks[] = {[GANTRY_PROFILE_CTAS_EACH] = "each",
                                         [GANTRY_PROFILE_CTAS_KERNELS] = "kernels",
                                         [GANTRY_PROFILE_CTAS_BLOCKS] = "numbers",
                                         [GANTRY_PROFILE_CTAS_OFF] = "off"};
    static const char *const clocks[] = {
        [GANTRY_PROFILE_CLOCK_GLOBAL] = "global", [GANTRY_PROFILE_CLOCK_SM] = "sm"};
    static const char *const switches[] = {"0", "1"};
    int word = 0;
    uint32_t number = 0;
    bool good = false;
    if (strcmp(key, "blocks") == 0) {
        good = read_word(value, blocks, 4, &word);
        options->ctas = (gantry_profile_ctas)word;
    } else if (strcmp(key, "clock") == 0) {
        good = read_word(value, clocks, 2, &word);
        options->clock = (gantry_profile_clock)word;
    } else if (strcmp(key, "compress") == 0) {
        good = read_word(value, switches, 2, &word);
        options->compress = word == 1;
    } else if (strcmp(key, "steps") == 0) {
        good = read_steps(value, options);
    } else if (strcmp(key, "buffers") == 0) {
        good = read_uint32(value, &options->buffers);
    } else if (strcmp(key, "blocks-per-buffer") == 0) {
        good = read_uint32(value, &options->ctas_per_buffer);
    } else if (strcmp(key, "spans") == 0) {
        good = read_uint32(value, &options->spans_per_thread);
    } else if (strcmp(key, "encoders") == 0) {
        good = read_uint32(value, &number) && number <= UINT8_MAX;
        options->encoders = (uint8_t)number;
    }
    return good;
}

gantry_status gy_profile_parse_options(const char *text, gantry_profile_options *options)
{
    while (text != NULL) {
        const char *comma = strchr(text, ',');
        size_t bytes = comma != NULL ? (size_t)(comma - text) : strlen(text);
        char part[LONGEST] = "";
        memcpy(part, text, bytes < LONGEST ? bytes : 0);
        char *equals = strchr(part, '=');
        if (equals != NULL) {
            *equals = '\0';
        }
        if (equals == NULL || !set_one(part, equals + 1, options)) {
            return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                           "$GANTRY_PROFILE_OPTIONS: \"%.*s\" is none of blocks=each|kernels|numbers|off, "
                           "steps=FIRST+COUNT, clock=global|sm, compress=0|1, and numbers for buffers=, "
                           "blocks-per-buffer=, spans=, encoders=; nothing is recorded",
                           (int)(bytes < 200 ? bytes : 200), text);
        }
        text = comma != NULL ? comma + 1 : NULL;
    }
    return GANTRY_OK;
}
