/* SPDX-License-Identifier: MIT */
/* Files of JSON, read by cJSON (package libcjson-dev). */
#ifndef CLI_JSON_FILE_H
#define CLI_JSON_FILE_H

#ifdef GANTRY_HAVE_CJSON

#include <cjson/cJSON.h>
#include <stddef.h>

/* Read a file of at most `most_bytes` that is one JSON object.  `text` may be NULL; it gets the file's text,
 * which the caller frees.  The caller deletes the document.  NULL after a line on stderr; there is no text
 * then. */
cJSON *cli_json_read(const char *path, size_t most_bytes, char **text);

#endif

#endif
